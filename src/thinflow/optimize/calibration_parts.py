"""Calibration samples on workers: each reads some of them, and runs what stands before the core, too."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

from thinflow.cluster.connecting import versions_here
from thinflow.cluster.tasks import Task
from thinflow.cluster.workers import Workers, held
from thinflow.errors import EngineUnavailable
from thinflow.formats import graphdef
from thinflow.interpreter import Plan
from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Graph, Node, Value
from thinflow.onnx import program as onnx
from thinflow.onnx import writer as onnx_writer
from thinflow.optimize.core import Core
from thinflow.optimize.samples import Samples
from thinflow.quantize.feed_parts import FeedPart, HeldPart, identity_of
from thinflow.quantize.observers import State
from thinflow.quantize.parted import PartSeen, PartWatcher, Walk, Watch
from thinflow.tflite.writer import to_bytes
from thinflow.typing import Array

# A task costs some ten milliseconds of scheduling, a sample of a small network two of work: with so many the
# work is a hundred times that. Fewer where there are few samples, so that each of many workers gets some.
_MOST, _FEWEST, _PARTS = 256, 16, 64
"""Samples of a part at most and at least, and parts to be aimed at in between."""


def part_samples(count: int | None) -> int:
    """Samples of a part; it depends on their number alone, so that parts are found again."""
    return _PARTS if count is None else max(_FEWEST, min(_MOST, math.ceil(count / _PARTS)))


@brief_repr
@dataclass(frozen=True)
class Before:
    """What stands before the core, as it is sent: from a graph's inputs to those of the core.

    Attributes:
        content: a GraphDef of the nodes that run; empty if none do.
        fed: names of the graph's inputs.
        ahead: names of what the nodes compute.
        names: of the core's inputs, in order.
    """

    content: bytes
    fed: Sequence[str]
    ahead: Sequence[str]
    names: Sequence[str]

    @classmethod
    def of(cls, core: Core) -> Before:
        """That of a core."""
        fed = core.graph.inputs
        ahead = [v for v in core.inputs if v not in fed]
        content = graphdef.to_bytes(_only(core.graph, ahead)) if ahead else b""
        return cls(content, *([v.name for v in vs] for vs in (fed, ahead, core.inputs)))

    def opened(self) -> Callable[[Mapping[str, Array]], dict[str, Array]]:
        """A function from a feed of the graph to one of the core, by names."""
        if not self.content:
            return lambda feed: {name: feed[name] for name in self.names}
        graph = graphdef.from_bytes(self.content)
        fed, ahead = ([graph.value(name) for name in names] for names in (self.fed, self.ahead))
        plan = Plan(graph, ahead, fed)

        def run(feed: Mapping[str, Array]) -> dict[str, Array]:
            made = plan.run({v: feed[name] for v, name in zip(fed, self.fed, strict=True)})
            whole = {**feed, **dict(zip(self.ahead, made, strict=True))}
            return {name: whole[name] for name in self.names}

        return run


def _only(graph: Graph, values: Sequence[Value]) -> Graph:
    """A graph of the nodes alone that some values and the graph's inputs need."""
    copy = graph.clone()
    wanted, fed = ([copy.value(v.name) for v in vs] for vs in (values, graph.inputs))
    copy.outputs = wanted
    needed: set[Node] = set()
    stack = [v.node for v in (*wanted, *fed)]
    while stack:
        node = stack.pop()
        if node not in needed:
            needed.add(node)
            stack += [*(v.node for v in node.inputs), *node.control_inputs]
    copy.remove(*[node for node in copy if node not in needed])
    return copy


@brief_repr
@dataclass(frozen=True)
class PartWork:
    """The argument of a task.

    Attributes:
        first: number of the part's first sample.
        is_ready: whether samples are the core's own, and nothing runs before it.
    """

    walk: Walk
    before: Sequence[State]
    part: FeedPart
    first: int
    is_ready: bool


@brief_repr
@dataclass(frozen=True)
class CalibrateJob:
    """A task is a walk over a part of the samples, its result a `PartSeen`."""

    watch: Watch
    before: Before
    identity: str

    name = "calibrate"

    @classmethod
    def of(cls, watch: Watch, core: Core) -> CalibrateJob:
        """The job for a program of a core."""
        program, before = watch.program, Before.of(core)
        content = onnx_writer.to_bytes(program) if isinstance(program, onnx.Program) else to_bytes(program)
        # Another version, or another runtime, may round otherwise.
        known = [hashlib.sha256(part).hexdigest() for part in (content, before.content)]
        makers = [(tensor.name, *maker) for tensor, maker in zip(watch.tensors, watch.makers, strict=True)]
        identity = identity_of(versions_here(), *known, before.names, makers)
        return cls(watch, before, identity)

    def run(self, argument: PartWork) -> bytes:
        watcher, before = held(self.identity, lambda: (PartWatcher(self.watch), self.before.opened()))
        feeds: Iterable[Mapping[str, Array]] = argument.part
        ready = feeds if argument.is_ready else map(before, feeds)
        return watcher.look(argument.walk, argument.before, ready, argument.first).content()

    def is_sound(self, content: bytes) -> bool:
        return PartSeen.of_content(content) is not None

    def is_final(self, content: bytes) -> bool:
        return True

    def lost(self, place: str, why: str) -> bytes:
        # Without some of its samples a range would be another one.
        raise EngineUnavailable(f"these samples ended their workers: {why}", place)


class CoreParts:
    """Samples of a core that workers look at, part by part; see `quantize.parted.Parted`."""

    def __init__(self, core: Core, samples: Samples, workers: Workers) -> None:
        self._core, self._samples, self._workers = core, samples, workers
        self.count, self.place = samples.count, samples.place

    @cached_property
    def _numbers(self) -> list[range]:
        count = self.count or 0
        size = part_samples(count)
        return [range(start, min(start + size, count)) for start in range(0, count, size)]

    def parts_seen(
        self, watch: Watch, walk: Walk, before: Callable[[int], Sequence[State]]
    ) -> Iterator[tuple[int, PartSeen]]:
        job = CalibrateJob.of(watch, self._core)
        works = (PartWork(walk, before(n), *made) for n, made in enumerate(self._parts()))
        sizes: list[int] = []
        tasks: list[Task] = []

        def handed() -> Iterator[Task]:
            for number, work in enumerate(works):
                kept = work.part.identity
                known = [_numbers_in(states) for states in (walk.wholes, work.before)]
                key = identity_of(job.identity, walk.number, known, kept, work.first)
                tasks.append(Task(key, work, f"samples from {work.first}", bool(kept)))
                sizes.append(self._size(number, work))
                yield tasks[-1]
                # What was sent may be samples; they are done with once the task is.
                tasks[-1] = Task(key, None, "")

        is_lasting = self._samples.part is not None and self._samples.part([0]).identity != ""
        run = self._workers.run_of(job, is_lasting=is_lasting)
        ready: set[int] = set()
        following = 0
        # They come as they are done; merged they are in order, which averages and first places depend on.
        # What comes too early waits in the store, so that one slow part does not fill the memory here.
        for number, content in run.results(handed()):
            ready.add(number)
            while following in ready:
                in_order = content if following == number else run.kept(tasks[following].key)
                found = PartSeen.of_content(in_order)
                assert found is not None
                yield sizes[following], found
                ready.remove(following)
                following += 1

    def _size(self, number: int, work: PartWork) -> int:
        return len(work.part.samples) if isinstance(work.part, HeldPart) else len(self._numbers[number])

    def _parts(self) -> Iterator[tuple[FeedPart, int, bool]]:
        """The parts, each with the number of its first sample and whether it is ready for the core."""
        part = self._samples.part
        if part is not None and self.count is not None:
            yield from ((part(numbers), numbers[0], False) for numbers in self._numbers)
            return
        # What only a walk gives is walked here, and sent.
        names = [v.name for v in self._core.inputs]
        feeds = (dict(zip(names, self._core.before(feed), strict=True)) for feed in self._samples)
        first, size = 0, part_samples(self.count)
        while some := list(islice(feeds, size)):
            yield HeldPart(some), first, True
            first += len(some)


def _numbers_in(states: Sequence[State]) -> list[Any]:
    return [[name, *array.tolist()] for one in states for name, array in one.items()]
