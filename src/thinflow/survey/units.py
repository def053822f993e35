"""Units of a collection: files and folders that are one thing, such as a checkpoint's shards."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from thinflow.errors import FormatError, ParameterError
from thinflow.formats import recognise
from thinflow.formats.checkpoint import STATE_FILE

_SHARD = re.compile(r"\.data-\d{5}-of-\d{5}$")
_SAVED_MODELS = ("saved_model.pb", "saved_model.pbtxt")
_LEFT_OUT = frozenset({".git", ".hg", ".svn", "__pycache__", "node_modules", ".DS_Store"})
# The manifest of a TensorFlow.js model; its shards are next to it.
_MOST_MANIFEST_BYTES = 1 << 26


@dataclass(frozen=True)
class Unit:
    """One thing of a collection.

    Attributes:
        path: of the file or folder that stands for it.
        name: what reports call it: its path from where the search began, behind `ARCHIVE!` in an archive.
        members: the files it consists of, `path` itself among them if that is a file.
        checkpoint: prefix of the checkpoint that belongs to a `.meta` file; "" if there is none.
        origin: index of the root that led to it.
    """

    path: Path
    name: str
    members: tuple[Path, ...] = field(repr=False)
    checkpoint: str = ""
    origin: int = 0

    @property
    def opening(self) -> dict[str, Any]:
        """What `load` is to be told besides the path."""
        return {"checkpoint": self.checkpoint} if self.checkpoint else {}

    @property
    def size_bytes(self) -> int:
        """Of all its files together, as far as they are still there."""
        return sum(member.stat().st_size for member in self.members if member.exists())


def find_units(roots: Sequence[Path], *, named: Callable[[Path, int], str] | None = None) -> list[Unit]:
    """Everything there is in files and folders, each file in one unit; in the order of their names.

    Args:
        roots: files and folders; links to folders are not followed.
        named: what to call a path found under the root of that index; default: its path from the root, with
            the root's own name in front if there are several.

    Raises:
        ParameterError: a root does not exist.
    """
    found: list[Unit] = []
    for index, root in enumerate(roots):
        if not root.exists():
            raise ParameterError(f"{root}: no such file or folder", hint="name a folder with models in it")
        name = named or _namer(roots)
        if root.is_file():
            found.append(Unit(root, name(root, index), (root,), origin=index))
            continue
        for unit in _in_folder(root):
            path, members, checkpoint = unit
            found.append(Unit(path, name(path, index), members, checkpoint, index))
    return found


def _namer(roots: Sequence[Path]) -> Callable[[Path, int], str]:
    def name(path: Path, index: int) -> str:
        root = roots[index]
        inside = path.relative_to(root).as_posix()
        if inside == ".":
            return path.name
        return inside if len(roots) == 1 else f"{root.name or root.as_posix()}/{inside}"

    return name


Found = tuple[Path, tuple[Path, ...], str]


def _in_folder(top: Path) -> Iterator[Found]:
    for folder, folders, names in os.walk(top):
        folders[:] = sorted(name for name in folders if name not in _LEFT_OUT)
        here = Path(folder)
        if any(name in names for name in _SAVED_MODELS) and _is_saved_model(here):
            folders.clear()
            yield here, tuple(sorted(p for p in here.rglob("*") if p.is_file())), ""
            continue
        files = {name: here / name for name in sorted(names) if name not in _LEFT_OUT}
        # Links to nowhere, pipes and devices would stop or block whoever reads them.
        files = {name: path for name, path in files.items() if path.is_file()}
        yield from _grouped(files)


def _is_saved_model(folder: Path) -> bool:
    try:
        return recognise(folder).name == "savedmodel"
    except FormatError:
        return False


def _grouped(files: dict[str, Path]) -> Iterator[Found]:
    """The files of a folder, those that belong together in one unit."""
    left = dict(files)
    for claim in (_checkpoints, _web_models):
        for path, members, checkpoint in claim(left):
            for member in members:
                left.pop(member.name, None)
            yield path, members, checkpoint
    for path in left.values():
        yield path, (path,), ""


def _checkpoints(files: dict[str, Path]) -> Iterator[Found]:
    """Checkpoints, with their graph where it is there; by the names of files, as TensorFlow finds them."""
    prefixes: dict[str, list[str]] = {}
    for name in files:
        prefix = _SHARD.sub("", name)
        if prefix == name:
            prefix = name.removesuffix(".index") if name.endswith(".index") else ""
        if prefix:
            prefixes.setdefault(prefix, []).append(name)
    # Version 1 is one file under the prefix itself, and only its graph beside it gives it away by name.
    for name in files:
        base = name.removesuffix(".meta")
        if base != name:
            prefixes.setdefault(base, []).extend(other for other in (base,) if other in files)
    for prefix, names in sorted(prefixes.items()):
        meta = f"{prefix}.meta"
        members = sorted({*names, *([meta] if meta in files else [])})
        # A shard whose index is lost is a checkpoint all the same: the one who reads it says what is missing.
        standing = meta if meta in files else f"{prefix}.index" if f"{prefix}.index" in files else members[0]
        lead = members[0] != meta or len(members) > 1
        path = files[standing]
        yield (
            path,
            tuple(files[n] for n in members),
            str(path.parent / prefix) if meta in files and lead else "",
        )
    state = files.get(STATE_FILE)
    if state is not None and prefixes:
        # It only says which of them is the latest.
        files.pop(STATE_FILE)


def _web_models(files: dict[str, Path]) -> Iterator[Found]:
    """Manifests of TensorFlow.js, with the shards they name."""
    for path in [p for name, p in files.items() if name.endswith(".json")]:
        if path.stat().st_size <= _MOST_MANIFEST_BYTES and (shards := _shards(path)):
            members = [path, *(files[name] for name in shards if name in files)]
            yield path, tuple(members), ""


def _shards(manifest: Path) -> list[str]:
    try:
        content = json.loads(manifest.read_bytes())
        groups = content["weightsManifest"]
        return [str(name) for group in groups for name in group["paths"]]
    except (ValueError, TypeError, KeyError, RecursionError, OSError):
        return []
