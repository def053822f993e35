"""Some of the samples of a source, as what another process reads by itself or is sent."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from thinflow.errors import FeedError
from thinflow.ir.brief import brief_repr
from thinflow.ir.types import dtype
from thinflow.quantize.fitting import Inputs, fit
from thinflow.quantize.sample_files import Scaling, read_sample
from thinflow.quantize.stored import Stored
from thinflow.typing import Array


class FeedPart(Protocol):
    """Samples that can be walked in another process: each is a dict of input name -> array.

    Attributes:
        identity: equal for equal samples; "" where nothing tells that they are.
    """

    @property
    def identity(self) -> str: ...
    def __iter__(self) -> Iterator[dict[str, Array]]: ...


def identity_of(*known: Any) -> str:
    """A hash of what samples are made from: names, numbers, sizes and times of files."""
    return hashlib.sha256(json.dumps(known, sort_keys=True, default=str).encode()).hexdigest()


def version_of(path: str) -> str:
    """What changes when a file does: size and time of the last change.

    Raises:
        FeedError: there is no such file.
    """
    try:
        found = os.stat(path)
    except OSError as e:
        raise FeedError(f"the file cannot be read: {e.strerror or e}", path) from e
    return f"{found.st_size}-{found.st_mtime_ns}"


@brief_repr
@dataclass(frozen=True)
class FilePart:
    """Files, a sample each."""

    files: Sequence[str]
    inputs: Inputs
    scaling: Scaling

    @property
    def identity(self) -> str:
        versions = [version_of(file) for file in self.files]
        specs = {name: str(spec) for name, spec in self.inputs.items()}
        return identity_of(list(self.files), versions, specs, asdict(self.scaling))

    def __iter__(self) -> Iterator[dict[str, Array]]:
        for file in self.files:
            yield read_sample(Path(file), self.inputs, self.scaling)


@brief_repr
@dataclass(frozen=True)
class RowPart:
    """Rows of arrays, in files or in memory.

    Attributes:
        columns: input name -> array in a file, or the rows themselves.
        numbers: of the rows, rising.
        where: what they are called in messages.
    """

    columns: Mapping[str, Stored | Array]
    numbers: Sequence[int]
    inputs: Inputs
    where: str

    @classmethod
    def of(cls, columns: Mapping[str, Any], numbers: Sequence[int], inputs: Inputs, where: str) -> RowPart:
        """Some rows: those in memory are taken out, those of files stay there."""
        held = {n: c if isinstance(c, Stored) else np.asarray(c)[list(numbers)] for n, c in columns.items()}
        return cls(held, tuple(numbers), inputs, where)

    @property
    def identity(self) -> str:
        stored = [(n, str(c.path), c.member) for n, c in self.columns.items() if isinstance(c, Stored)]
        if len(stored) < len(self.columns):
            return ""
        versions = [version_of(path) for _, path, _ in stored]
        specs = {name: str(spec) for name, spec in self.inputs.items()}
        return identity_of(stored, versions, list(self.numbers), specs)

    def __iter__(self) -> Iterator[dict[str, Array]]:
        for number, row in zip(self.numbers, zip(*map(self._rows, self.columns), strict=True), strict=True):
            place = f"{self.where}, sample {number}"
            yield {
                name: fit(np.asarray(x), name, self.inputs[name], place)
                for name, x in zip(self.columns, row, strict=True)
            }

    def _rows(self, name: str) -> Iterator[Array]:
        column = self.columns[name]
        if not isinstance(column, Stored):
            yield from column
            return
        if not self.numbers:
            return
        wanted, first = set(self.numbers), self.numbers[0]
        for number, row in enumerate(column.rows(first, self.numbers[-1] + 1), first):
            if number in wanted:
                yield row


@brief_repr
@dataclass(frozen=True)
class HeldPart:
    """Samples that are sent."""

    samples: Sequence[dict[str, Array]]

    identity = ""

    def __iter__(self) -> Iterator[dict[str, Array]]:
        yield from self.samples


@brief_repr
@dataclass(frozen=True)
class RenamedPart:
    """Samples under other names of the inputs.

    Attributes:
        names: the name there, the name here, and the type of floats that is wanted; "" for theirs.
    """

    inner: FeedPart
    names: Sequence[tuple[str, str, str]]

    @property
    def identity(self) -> str:
        inner = self.inner.identity
        return identity_of(inner, list(self.names)) if inner else ""

    def __iter__(self) -> Iterator[dict[str, Array]]:
        for feed in self.inner:
            yield {to: in_float_type(feed[name], wanted) for name, to, wanted in self.names}


def in_float_type(array: Array, wanted: str) -> Array:
    """Floats in a type of floats; anything else as it is."""
    if not wanted or not (found := dtype(array.dtype)).is_floating or found is dtype(wanted):
        return array
    return array.astype(dtype(wanted).numpy())


def some_of(
    inner: Callable[[Sequence[int]], FeedPart] | None, kept: Sequence[int]
) -> Callable[[Sequence[int]], FeedPart] | None:
    """Parts of those samples alone that have some numbers, rising."""
    return None if inner is None else lambda numbers: inner([kept[n] for n in numbers])
