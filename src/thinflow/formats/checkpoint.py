"""Checkpoints, versions 1 and 2: variables by name, without a graph.

A checkpoint is named by its prefix. The index, a shard, the `.meta` file beside it, or the folder with its
state file `checkpoint` lead to it as well; `FOLDER@latest` says the folder is meant, `FOLDER@NAME` one in it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from thinflow.errors import FormatError, closest
from thinflow.formats._bundle import Bundle
from thinflow.formats._checkpoint_v1 import TableCheckpoint
from thinflow.formats.format import Format, Sample
from thinflow.formats.slices import Place, Slice
from thinflow.ir.notebook import table_html
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import TensorSpec
from thinflow.wire import protos
from thinflow.wire.sstable import is_table

STATE_FILE = "checkpoint"
OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
"""The key under which TensorFlow 2 keeps which object each value belongs to."""

_LATEST = "latest"
_STATE_STARTS = frozenset({b"model_checkpoint_path", b"all_model_checkpoint_paths"})
_HINT = "freeze it with its graph: thinflow freeze GRAPH --checkpoint PREFIX -o frozen.pb"
_SHARD = re.compile(r"\.data-\d{5}-of-\d{5}$")
_OLD_SHARD = re.compile(r"-\d{5}-of-\d{5}$")
# A list of names, which is read as a whole.
_MAX_STATE_BYTES = 1 << 24


class Checkpoint(Mapping[str, Tensor]):
    """An open checkpoint: a mapping from names to tensors whose values are read when asked for.

    Attributes:
        prefix: its path without suffixes.
        version: 1 or 2.
    """

    def __init__(self, reader: Bundle | TableCheckpoint) -> None:
        self._reader = reader
        self.prefix = reader.prefix
        self.version = reader.version
        self._names = [name for name in reader.names() if name != OBJECT_GRAPH]

    def __getitem__(self, name: str) -> Tensor:
        return self.tensor(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._reader

    def __repr__(self) -> str:
        return f"Checkpoint({self.prefix}, {len(self)} variables)"

    def _repr_html_(self) -> str:
        specs = ((name, self.spec(name)) for name in self)
        return table_html(repr(self), specs, ("variable", "type and shape"))

    def names(self) -> list[str]:
        """All variables, sorted."""
        return list(self._names)

    def keys_of_all(self) -> list[str]:
        """All keys, sorted: the variables and the one of the object graph."""
        return sorted([*self._names, *([OBJECT_GRAPH] if OBJECT_GRAPH in self._reader else [])])

    def spec(self, name: str) -> TensorSpec:
        """Element type and shape of a variable; reads no value.

        Raises:
            FormatError: there is no such variable; the closest are offered.
        """
        self._require(name)
        return self._reader.spec(name)

    def tensor(self, name: str) -> Tensor:
        """A variable. Its numbers are read, and their checksum verified, by `tensor.numpy()`.

        Raises:
            FormatError: there is no such variable, or a part of it is missing.
        """
        self._require(name)
        return self._reader.tensor(name)

    def slices(self, name: str) -> list[Slice]:
        """The parts a partitioned variable is kept in; empty for one that is kept whole."""
        self._require(name)
        return self._reader.slices(name)

    def places(self, name: str) -> list[Place]:
        """Places of a variable's value: files, and bytes in them; one for each part.

        Raises:
            FormatError: there is no such variable, or a part of it is missing.
        """
        self._require(name)
        return self._reader.places(name)

    def stored(self) -> Iterator[tuple[bytes, TensorSpec, int]]:
        """Entries as the files list them: key, type and shape, number of parts.

        Version 2 lists the parts of a partitioned variable under keys of their own and not the whole.
        """
        return self._reader.stored()

    def object_graph(self) -> Any:
        """The TrackableObjectGraph message of a TensorFlow 2 checkpoint; None if there is none."""
        if OBJECT_GRAPH not in self._reader:
            return None
        value = self._reader.tensor(OBJECT_GRAPH)
        if value.shape:
            raise FormatError("the object graph is not a single string", str(self.prefix))
        return protos.parse("TrackableObjectGraph", bytes(value.numpy()[()]))

    def full_names(self) -> dict[str, str]:
        """Key -> the variable's name in the graph, as far as a TensorFlow 2 checkpoint tells. Not unique."""
        graph = self.object_graph()
        if graph is None:
            return {}
        return {
            attribute.checkpoint_key: attribute.full_name
            for node in graph.nodes
            for attribute in node.attributes
            if attribute.full_name
        }

    def _require(self, name: str) -> None:
        if name not in self._reader:
            hint = closest(name, self._names) or f"it holds {len(self._names)} variables"
            raise FormatError(f"there is no variable '{name}'", str(self.prefix), hint)


def open_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """The checkpoint that a prefix, an index, a shard, a `.meta` file or a folder leads to.

    Raises:
        FormatError: there is none, or it is damaged.
    """
    prefix = find_prefix(path)
    if Path(f"{prefix}.index").is_file():
        return Checkpoint(Bundle(prefix))
    shards = _old_shards(prefix)
    if not shards:
        raise _nothing_at(prefix)
    return Checkpoint(TableCheckpoint(prefix, shards))


def find_prefix(path: str | os.PathLike[str]) -> Path:
    """The prefix of the checkpoint a path leads to.

    Raises:
        FormatError: it is a folder without a checkpoint, or one that holds several and does not say which.
    """
    text = os.fspath(path)
    folder, at, wanted = text.rpartition("@")
    if at and os.path.isdir(folder):
        return _latest(Path(folder)) if wanted == _LATEST else Path(folder) / wanted
    # After `FOLDER@NAME`: a file or folder may have an @ in its own name, which
    # counts where no such folder exists.
    given = Path(text)
    if given.is_dir():
        return _latest(given)
    if given.is_file() and _is_state_file(given):
        return _from_state(given)
    for suffix in (".index", ".meta"):
        if text.endswith(suffix):
            return Path(text.removesuffix(suffix))
    if _SHARD.search(text):
        return Path(_SHARD.sub("", text))
    # A prefix may itself end like a shard of version 1; only an existing file is taken for one.
    if _OLD_SHARD.search(text) and given.is_file():
        return Path(_OLD_SHARD.sub("", text))
    return given


def _is_state_file(path: Path) -> bool:
    """By its name or, whatever it is called, by its first word."""
    if path.name == STATE_FILE:
        return True
    with path.open("rb") as file:
        return Sample(path, file.read(64)).word() in _STATE_STARTS


def _latest(folder: Path) -> Path:
    """The checkpoint that a folder's state file names, or the only one there is."""
    state = folder / STATE_FILE
    if state.is_file():
        return _from_state(state)
    # The folder of a SavedModel.
    inner = folder / "variables" / "variables.index"
    if inner.is_file():
        return inner.with_suffix("")
    prefixes = sorted(p.with_suffix("") for p in folder.glob("*.index"))
    if len(prefixes) == 1:
        return prefixes[0]
    names = ", ".join(p.name for p in prefixes[:5])
    raise FormatError(
        "several checkpoints are in this folder" if prefixes else "there is no checkpoint in this folder",
        str(folder),
        f"name one of: {names}" if prefixes else "name the checkpoint's prefix or its .index file",
    )


def _from_state(state: Path) -> Path:
    if state.stat().st_size > _MAX_STATE_BYTES:
        raise FormatError("this is too long to be the list of a checkpoint folder", str(state))
    try:
        message = protos.from_text("CheckpointState", state.read_bytes())
    except FormatError as e:
        raise e.at(str(state)) from e
    name = message.model_checkpoint_path
    if not name:
        raise FormatError("it names no checkpoint", str(state), "name the checkpoint's prefix instead")
    return _resolved(state, name)


def _resolved(state: Path, name: str) -> Path:
    """A path of the state file. Relative ones start at its folder, and stay in there.

    A folder that was moved still holds what its state file calls by an absolute path elsewhere.
    """
    # Paths of Windows, too, whatever system this is.
    beside = state.parent / re.split(r"[\\/]", name)[-1]
    if re.match(r"([A-Za-z]:)?[\\/]", name):
        return beside if _exists(beside) else Path(name)
    path = state.parent / name
    if ".." in Path(name).parts:
        raise FormatError(
            f"it leads out of its folder, to '{name}'", str(state), "name the checkpoint's prefix instead"
        )
    return path


def _exists(prefix: Path) -> bool:
    return Path(f"{prefix}.index").is_file() or bool(_old_shards(prefix))


def _old_shards(prefix: Path) -> list[Path]:
    """The files of a version 1 checkpoint."""
    if prefix.is_file():
        return [prefix]
    if not prefix.parent.is_dir():
        return []
    shards = sorted(p for p in prefix.parent.iterdir() if _OLD_SHARD.sub("", p.name) == prefix.name)
    return [p for p in shards if p.name != prefix.name]


def _nothing_at(prefix: Path) -> FormatError:
    prefixes = sorted({p.name.removesuffix(".index") for p in prefix.parent.glob("*.index")})
    hint = closest(prefix.name, prefixes) or (
        f"in that folder there is: {', '.join(prefixes[:5])}" if prefixes else "check the path"
    )
    return FormatError("there is no checkpoint of this name", str(prefix), hint)


def names_checkpoint(path: str | os.PathLike[str]) -> bool:
    """True if a path that need not be a file leads to a checkpoint: a prefix, a shard, FOLDER@NAME."""
    text = os.fspath(path)
    folder, at, _ = text.rpartition("@")
    if at and os.path.isdir(folder):
        return True
    if os.path.exists(text):
        return bool(_SHARD.search(text)) and Path(_SHARD.sub("", text) + ".index").is_file()
    return not text.endswith((".index", ".meta")) and _exists(Path(text))


def is_checkpoint(sample: Sample) -> bool:
    """True if a file or folder is part of a checkpoint and nothing else."""
    if sample.is_folder:
        return (sample.path / STATE_FILE).is_file() or any(sample.path.glob("*.index"))
    return is_table(sample.tail) or sample.word() in _STATE_STARTS


FORMAT = Format("checkpoint", "a checkpoint: weights without a graph", is_checkpoint, rank=25, hint=_HINT)
