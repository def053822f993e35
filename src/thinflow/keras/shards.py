"""Weights in several HDF5 files: model.weights.json lists them, model_00000.weights.h5 is the first."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from thinflow.errors import FormatError
from thinflow.keras.hdf5 import Group, open_hdf5
from thinflow.typing import Array

_PLAIN = re.compile(r"[^/\\:\0]+\.h5")
_MAX_SHARDS = 10_000
_FETCH = "all files of the model belong in one folder; fetch them again"


class Shards:
    """A group of which each file has a part.

    Attributes:
        path: its place, for messages.
    """

    def __init__(self, path: str, parts: list[Group]) -> None:
        self.path, self._parts = path, parts

    def __contains__(self, path: str) -> bool:
        return any(path in part for part in self._parts)

    def names(self) -> list[str]:
        return list(dict.fromkeys(name for part in self._parts for name in part.names()))

    def group(self, path: str) -> Shards | None:
        found = [below for part in self._parts if (below := part.group(path)) is not None]
        return Shards(f"{self.path}/{path}", found) if found else None

    def array(self, path: str) -> Array | None:
        return next((found for part in self._parts if (found := part.array(path)) is not None), None)

    def text(self, name: str) -> str | None:
        return next((found for part in self._parts if (found := part.text(name)) is not None), None)

    def texts(self, name: str) -> list[str] | None:
        return next((found for part in self._parts if (found := part.texts(name)) is not None), None)

    def close(self) -> None:
        for part in self._parts:
            part.close()


def open_shards(
    index: object, member: Callable[[str], bytes | None], where: str, *, by_package: bool = False
) -> Shards:
    """The weights that an index lists.

    Args:
        index: the content of the list: which file has which group.
        member: the content of a file beside the list; None if there is none.
        where: what to call the list in messages.
        by_package: see `open_hdf5`.

    Raises:
        FormatError: it is no such list, or a file of it is missing or damaged.
        EngineUnavailable: h5py is not installed.
    """
    table = index.get("weight_map") if isinstance(index, Mapping) else None
    if not isinstance(table, Mapping):
        raise FormatError("it lists no files of weights", where, "the file is damaged; save the model again")
    names: dict[str, None] = {}
    for entry in table.values():
        for name in entry if isinstance(entry, list) else [entry]:
            if not isinstance(name, str) or not _PLAIN.fullmatch(name):
                problem = f"it lists {str(name)[:60]!r}, which is no file beside it"
                raise FormatError(problem, where, "do not trust this file")
            names[name] = None
    if len(names) > _MAX_SHARDS:
        raise FormatError(f"it lists {len(names)} files", where, "the file is damaged; save the model again")
    parts: list[Group] = []
    for name in names:
        data = member(name)
        if data is None:
            raise FormatError(f"the file {name} of its weights is missing", where, _FETCH)
        parts.append(open_hdf5(data, name, by_package=by_package))
    return Shards(where, parts)
