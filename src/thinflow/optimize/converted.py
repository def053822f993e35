"""A graph's core converted into the program of a runtime."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Generic, Protocol, TypeVar

from thinflow.ir.graph import Value
from thinflow.ir.ledger import Entry
from thinflow.optimize.batch_sizes import HasShape, batch_note, takes_batches
from thinflow.optimize.core import Core
from thinflow.optimize.coverage import Coverage, coverage_of
from thinflow.optimize.samples import Samples
from thinflow.typing import Array

P = TypeVar("P")


class RuntimeModel(Protocol):
    """A file that an engine has opened."""

    def run(self, inputs: Sequence[Array], /) -> list[Array]: ...


@dataclass
class ConvertedModel(ABC, Generic[P]):
    """The program of a graph's core in the form of one runtime.

    Attributes:
        core: what of the graph it holds.
        program: of it.
        fixed: why a batch that the graph leaves open is fixed in the program; "" if it is not.
    """

    core: Core
    program: P
    fixed: str = ""

    runtime: ClassVar[str]
    engine: ClassVar[str]
    suffix: ClassVar[str]
    keeps_measured_codes: ClassVar[bool]
    """Whether eight-bit ops stay integer where each run finds their range, so that all can be compared."""

    @property
    @abstractmethod
    def inputs(self) -> Sequence[HasShape]:
        """Of the program."""

    @abstractmethod
    def _bytes(self) -> bytes:
        """The program as a file."""

    @staticmethod
    @abstractmethod
    def open(content: bytes, *, threads: int) -> RuntimeModel:
        """A file's content, ready to run."""

    @staticmethod
    @abstractmethod
    def as_expected(found: Array, expected: Array) -> Array:
        """The runtime's answer in the form of the interpreter's."""

    @property
    @abstractmethod
    def left(self) -> list[Entry]:
        """Operators that fusion left as they are, though they nearly qualified."""

    @cached_property
    def content(self) -> bytes:
        """The program as a file, in memory; kept once made. States are inputs and outputs."""
        return self._bytes()

    @property
    def is_open(self) -> bool:
        """Whether the program takes batches of any size."""
        return takes_batches(self.core, self.inputs)

    @property
    def batch_notes(self) -> list[str]:
        """A note on a batch that is fixed."""
        return [batch_note(self.inputs, self.fixed)] if self.fixed else []

    @cached_property
    def coverage(self) -> Coverage:
        """How much of the graph it is."""
        return coverage_of(self.core)

    def feeds(self, samples: Samples | Iterable[Mapping[Value, Array]]) -> CoreFeeds:
        """Core inputs by name, one dict per sample; as long as the samples, and walkable as often."""
        return CoreFeeds(self.core, samples)


class CoreFeeds:
    """A core's inputs by name for each sample."""

    def __init__(self, core: Core, samples: Samples | Iterable[Mapping[Value, Array]]) -> None:
        self._core, self._samples = core, samples

    def __iter__(self) -> Iterator[dict[str, Array]]:
        names = [v.name for v in self._core.inputs]
        for feed in self._samples:
            # A prologue is run anew for each walk: its results may be larger than memory holds for all
            # samples.
            yield dict(zip(names, self._core.before(feed), strict=True))

    def __len__(self) -> int:
        count = self._samples.count if isinstance(self._samples, Samples) else None
        if count is None:
            raise TypeError("the number of samples is not known")
        return count
