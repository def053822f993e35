"""A graph's core converted into the program of a runtime, and the feeds that it is proven with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np

from thinflow.errors import FeedError, FormatError, NodeError, ThinflowError
from thinflow.interpreter import Plan
from thinflow.ir.graph import Value
from thinflow.ir.ledger import Entry
from thinflow.optimize.batch_sizes import HasShape, batch_note, is_open, takes_batches
from thinflow.optimize.core import Core
from thinflow.optimize.coverage import Coverage, coverage_of
from thinflow.optimize.samples import Samples
from thinflow.program.model import Block
from thinflow.synthetic import explain_open_sizes, open_sizes, synthetic_array
from thinflow.typing import Array

if TYPE_CHECKING:
    from thinflow.optimize.calibration_parts import CoreParts

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
    def blocks(self) -> Sequence[Block[Any, Any]]:
        """The program's graph, and those that its operators call."""

    @property
    def left(self) -> list[Entry]:
        """Operators that fusion left as they are, though they nearly qualified."""
        return [entry for block in self.blocks for entry in block.left]

    @property
    def transposed(self) -> list[str]:
        """Names of what the program's transposes make."""
        operators = (o for block in self.blocks for o in block.operators if o.code.upper() == "TRANSPOSE")
        return [tensor.name for operator in operators for tensor in operator.outputs]

    @cached_property
    def content(self) -> bytes:
        """The program as a file, in memory; kept once made. States are inputs and outputs."""
        return self._bytes()

    @property
    def is_open(self) -> bool:
        """True if the program takes batches of any size."""
        return takes_batches(self.core, self.inputs)

    @property
    def batch_notes(self) -> list[str]:
        """A note on a batch that is fixed."""
        return [batch_note(self.inputs, self.core, self.fixed)] if self.fixed else []

    @cached_property
    def coverage(self) -> Coverage:
        """The coverage of the graph by the program."""
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

    def some(self, numbers: Sequence[int]) -> list[dict[str, Array]]:
        """Those of some numbers, rising."""
        assert isinstance(self._samples, Samples)
        return list(CoreFeeds(self._core, list(self._samples.some(numbers))))

    @property
    def parted(self) -> CoreParts | None:
        """The samples as workers look at them; None where this process does."""
        workers = self._samples.workers if isinstance(self._samples, Samples) else None
        if workers is None or not workers.is_open or not isinstance(self._samples, Samples):
            return None
        from thinflow.optimize.calibration_parts import CoreParts

        return CoreParts(self._core, self._samples, workers)

    def place(self, number: int) -> str:
        """The file of a sample, or its number."""
        return self._samples.place(number) if isinstance(self._samples, Samples) else f"sample {number}"

    @property
    def count(self) -> int | None:
        """Of samples; None if nobody knows."""
        return self._samples.count if isinstance(self._samples, Samples) else None

    def __len__(self) -> int:
        if (count := self.count) is None:
            raise TypeError("the number of samples is not known")
        return count


# Always the same, so that a file is proven with the same numbers whenever it is made.
_SEED = 0
REFUSED = (NodeError, FeedError, FormatError)
"""Errors of a graph whose inputs do not fit it: a picture or a sound may be no file at all."""


class UnprovenError(FeedError):
    """The graph itself does not run on what was made up for it, so that nothing can be compared with it."""


def core_feeds(core: Core, samples: Samples, count: int) -> list[list[Array]]:
    """The core's inputs for the first `count` samples.

    Where made-up samples do not go through what stands before the core, numbers are made up for the core
    itself: they prove it as well.

    Raises:
        NodeError, FeedError: real samples do not go through.
        UnprovenError: nothing can be made up.
    """
    try:
        return [core.before(feed) for feed in islice(samples, count)]
    except REFUSED:
        if not samples.synthetic:
            raise
    # Made up where the core begins: what decodes bytes would only refuse noise.
    rng = np.random.default_rng(_SEED)
    with _unproven(core, samples):
        return [[synthetic_array(v, rng) for v in core.inputs] for _ in range(count)]


def core_results(
    plan: Plan, core: Core, feeds: Sequence[Sequence[Array]], samples: Samples
) -> list[list[Array]]:
    """The results of a plan of the core for each feed.

    Raises:
        NodeError, FeedError: the graph does not run on real samples.
        UnprovenError: it does not run on made-up ones.
    """
    with _unproven(core, samples):
        return [plan.run(dict(zip(core.inputs, arrays, strict=True))) for arrays in feeds]


@contextmanager
def _unproven(core: Core, samples: Samples) -> Iterator[None]:
    try:
        yield
    except REFUSED as error:
        if not samples.synthetic:
            raise
        told = explain_open_sizes(error, open_sizes(core.graph.inputs)) or error
        raise UnprovenError(told.problem, told.where, told.hint) from error


@contextmanager
def batch_failure() -> Iterator[list[str]]:
    """A list with the reason why the block failed; it is empty if it did not.

    The block compares a model with its graph for two samples at once.
    """
    why: list[str] = []
    try:
        yield why
    # The graph itself may be made for one sample alone, which is no fault of the file.
    except (UnprovenError, NodeError) as error:
        why.append(f"the graph itself does not run with two samples at once: {error.problem}")
    except ThinflowError as error:
        why.append(f"not right with two samples at once: {error.problem}")


def several(core: Core, samples: Samples) -> list[Array]:
    """The core's inputs for two samples at once: those with an open batch one behind the other.

    Where there is only one sample, it is followed by its mirror image. Where made-up ones do not go through
    what stands before the core, numbers are made up for the core itself.

    Raises:
        NodeError, FeedError: they do not go through what stands before the core.
    """
    feeds = list(islice(samples, 2))
    open_inputs = {v for v in core.graph.inputs if is_open(v.spec)}
    try:
        return core.before(_joined(feeds, open_inputs))
    except REFUSED:
        if not samples.synthetic:
            raise
    made = [dict(zip(core.inputs, arrays, strict=True)) for arrays in core_feeds(core, samples, len(feeds))]
    joined = _joined(made, {v for v in core.inputs if is_open(v.spec)})
    return [joined[v] for v in core.inputs]


def doubled(feed: Mapping[Value, Array]) -> dict[Value, Array]:
    """A feed with twice the size where one beyond the batch is open: the other half is its mirror image."""
    found = {}
    for value, array in feed.items():
        for axis, size in enumerate(value.spec.shape or ()):
            # Mirrored and not repeated: a program that reads only
            # the first half would give the same for a copy.
            if axis and size is None:
                array = np.concatenate([array, np.flip(array, axis)], axis)
        found[value] = array
    return found


def _joined(feeds: Sequence[Mapping[Value, Array]], batched: set[Value]) -> dict[Value, Array]:
    first, last = feeds[0], feeds[-1]
    return {v: np.concatenate([a, _other(v, first, last)]) if v in batched else a for v, a in first.items()}


def _other(value: Value, first: Mapping[Value, Array], last: Mapping[Value, Array]) -> Array:
    """Another sample that goes with the first: of its sizes beyond the batch."""
    a, b = first[value], last[value]
    # Joined along the batch, all other sizes have to agree; a mirror image is another sample of the same
    # sizes.
    if last is not first and a.shape[1:] == b.shape[1:]:
        return b
    return np.flip(a, tuple(range(1, a.ndim)))
