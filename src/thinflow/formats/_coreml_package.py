"""The folder that a Core ML package is: its list of items, the specification, the weights."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
from functools import cached_property
from pathlib import Path
from typing import Any

from thinflow.coreml.blobs import Blob, blob_at, check_header
from thinflow.coreml.protos import message
from thinflow.errors import FormatError, GraphError, ParameterError, WriteError
from thinflow.formats.files import map_file
from thinflow.ir.graph import Graph
from thinflow.ir.vocabulary import COREML
from thinflow.wire.protos import parse

MANIFEST = "Manifest.json"
_DATA = "Data"
_MODEL_FOLDER = "@model_path/"
_MOST_MANIFEST = 1 << 20
_DAMAGED = "the package is damaged, or only a part of it was copied; copy the whole folder"


class Package:
    """A package on disk.

    Args:
        path: of the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files: dict[str, memoryview] = {}

    @cached_property
    def specification_path(self) -> Path:
        """The file of the model's specification.

        Raises:
            FormatError: the list of items is damaged, or leads nowhere or out of the folder.
        """
        text = bytes(map_file(self.path / MANIFEST, unpack=False)[: _MOST_MANIFEST + 1])
        if len(text) > _MOST_MANIFEST:
            raise FormatError("its list of items is too large to be one", MANIFEST)
        try:
            content = json.loads(text)
            root = content["itemInfoEntries"][content["rootModelIdentifier"]]["path"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise FormatError("its list of items does not name a model", MANIFEST, _DAMAGED) from error
        if not isinstance(root, str):
            raise FormatError("its list of items does not name a model", MANIFEST, _DAMAGED)
        return self._inside(self.path / _DATA, root, "its model")

    @cached_property
    def specification(self) -> Any:
        """The message `Model`.

        Raises:
            FormatError: it is damaged, or no program.
        """
        model = parse(message("Model"), map_file(self.specification_path, unpack=False))
        kind = model.WhichOneof("Type")
        if kind != "mlProgram":
            raise FormatError(
                f"it holds a model of the kind {kind or 'that is not known here'}; programs are read",
                hint="convert the original model for iOS15 or newer, which makes a program",
            )
        return model

    def blob(self, name: str, offset: int) -> Blob:
        """Weights, in a file that a program names, behind a record at an offset.

        Raises:
            FormatError: the file is missing, damaged or outside of the package; or there are none.
        """
        if name not in self._files:
            if not name.startswith(_MODEL_FOLDER):
                raise FormatError(f"its weights would be in '{name[:80]}', which is not in the package")
            folder = self.specification_path.parent
            place = self._inside(folder, name.removeprefix(_MODEL_FOLDER), "its weights")
            file = map_file(place, unpack=False)
            check_header(file)
            self._files[name] = file
        return blob_at(self._files[name], offset)

    def _inside(self, folder: Path, name: str, what: str) -> Path:
        """A file in a folder of the package, or below.

        Raises:
            FormatError: the name leads elsewhere, or to nothing.
        """
        # Both separators and drive letters, on every system: the package may come from any.
        parts = re.split(r"[\\/]", name)
        leaves = ".." in parts or os.path.isabs(name) or re.match(r"[A-Za-z]:", name)
        if not name or "\0" in name or leaves:
            raise FormatError(
                f"{what} would lie outside of it, in '{name[:80]}'", hint="do not trust this model"
            )
        target = folder.joinpath(*parts)
        if not target.is_file():
            raise FormatError(f"{what} should be in the file '{name[:80]}', which is missing", hint=_DAMAGED)
        # The text of a name may be harmless where a link in the folder is not.
        if not target.resolve().is_relative_to(self.path.resolve()):
            raise FormatError(f"'{name[:80]}' is a link out of the package", hint="do not trust this model")
        return target


def copy_package(graph: Graph, target: Path, *, unchanged: bool) -> int:
    """Copy the package that a graph was read from, aside and renamed; the bytes written.

    Raises:
        ParameterError, GraphError, WriteError: as for `formats.coreml.save`.
    """
    if graph.vocabulary != COREML.name:
        raise ParameterError(
            f"this graph does not speak {COREML.label}'s vocabulary", hint="thinflow.convert writes any graph"
        )
    if not unchanged:
        raise GraphError(
            f"the graph was changed since it was read; a changed {COREML.label} graph cannot be written",
            graph.path,
            hint="load it in TensorFlow's ops, without lift=False, change that, and convert it",
        )
    if target.exists():
        raise WriteError("there is something already", str(target), hint="remove it, or choose another name")
    aside = target.with_name(f".{target.name[:80]}.{secrets.token_hex(4)}.part")
    try:
        # Links are copied as what they lead to, which `Package` has looked at.
        shutil.copytree(graph.path, aside)
        size = sum(f.stat().st_size for f in aside.rglob("*") if f.is_file())
        os.rename(aside, target)
    except OSError as error:
        shutil.rmtree(aside, ignore_errors=True)
        raise WriteError(f"cannot be written: {error.strerror or error}", str(target)) from error
    return size
