"""A graph, or a file made of it, beside the file that the graph came from, which runs in its own runtime.

What was lifted wrongly agrees with everything that is made of it, so only the file itself can tell. The ends
of a part are inner tensors of the file, which its runtime computes on the way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from thinflow import formats
from thinflow.analysis.foreign_quant_params import TensorParams, params_of
from thinflow.analysis.precision import quantizes_as_it_runs
from thinflow.analysis.shapes import infer_shapes
from thinflow.compare.differences import Difference, difference, size_of
from thinflow.compare.inner_values import first_divergence, inner_differences, match_tensors
from thinflow.compare.match_io import order_between, plain
from thinflow.compare.side_by_side import nearest_codes, placed, session_inputs
from thinflow.compare.verification import Divergence
from thinflow.engines._child import can_fork, in_child, survives_fork
from thinflow.engines._files import engine_of
from thinflow.engines._inner_tensors import litert_tensors, onnxruntime_tensors
from thinflow.engines.session import Session
from thinflow.errors import UnsupportedOp
from thinflow.formats.foreign import file_name
from thinflow.ir.graph import Graph, Value
from thinflow.ir.interface import without_states
from thinflow.ir.source_file import SourceFile
from thinflow.ir.vocabulary import vocabulary_named
from thinflow.load.lifted import in_tensorflow
from thinflow.optimize.layer_by_layer import Layers, affordable_tensors, is_coded, layer_by_layer, other_grid
from thinflow.optimize.made_layers import made_layers, stated_at_input, stated_at_output
from thinflow.synthetic import synthetic_feeds
from thinflow.typing import Array

Made = Graph | str
"""What was made: a graph, for the interpreter, or the path of a file."""

STEPS = 3
"""Codes by which a quantized output may be off: every op of eight bits rounds in its own way."""
_SEED = 0


@dataclass(frozen=True)
class Apart:
    """The farthest that answers are from those of the source's own runtime.

    Attributes:
        relative: the largest difference, relative to the largest value of its output.
        ok: whether all are within the tolerance, or a few codes apart where they are codes.
        output: the name, in the source, of the output that has it.
        found: the numbers there.
        first: the first tensor of the source that differs, where one was looked for and found.
        calls: how many samples were compared.
        in_a_row: whether they were calls one after the other, as both keep state.
        layers: what came of comparing the layers of a quantized file one by one; None if that was not done.
    """

    relative: float
    ok: bool
    output: str
    found: Difference
    first: Divergence | None = None
    calls: int = 0
    in_a_row: bool = False
    layers: Layers | None = None


def apart_from_source(
    graph: Graph,
    made: Made,
    feeds: Sequence[Mapping[Value, Array]],
    outputs: Sequence[Value],
    tolerance: float,
    timeout_seconds: float,
    *,
    made_up: bool = False,
    by_layer: bool = False,
) -> Apart:
    """The distance of answers from those of a graph's source file, run in a child process.

    Args:
        graph: as it was opened, with its source, which an engine runs.
        made: of it, with inputs and outputs of the same names.
        feeds: of the graph.
        outputs: of the graph, those to compare.
        tolerance: relative difference up to which they agree.
        timeout_seconds: for all runs together.
        made_up: whether the feeds are; codes are made up anew then, from all that there are.
        by_layer: compare layers one by one, too, where the file is quantized and all else agrees.

    Raises:
        EngineUnavailable, EngineCrashed: the runtime is missing, refuses the file, or does not survive it.
        ThinflowError: one of the two cannot be run on these feeds.
    """
    source = graph.source
    assert source is not None, "it came from no file"
    pair = _Pair(graph, made, source)

    def work() -> Apart:
        return pair.compare(feeds, outputs, tolerance, made_up, by_layer)

    # A file that was made may run in another engine than its source.
    own = engine_of(made) if isinstance(made, str) else ""
    if not (can_fork() and survives_fork(own) and survives_fork(source.engine)):
        return work()
    return in_child(work, source.engine, f"running {source.name}", timeout_seconds=timeout_seconds)


@dataclass
class _Answers:
    """What the source gave for one sample.

    Attributes:
        fed: by graph input, what the graph is to be fed: real numbers where the source has codes.
        read: by graph output, real numbers.
        source_feed: what the source was fed.
    """

    fed: dict[Value, Array]
    read: dict[Value, Array]
    source_feed: dict[str, Array]


class _Pair:
    """A graph's source in its runtime, and what was made of the graph."""

    def __init__(self, graph: Graph, made: Made, source: SourceFile) -> None:
        self.graph, self.made, self.source = graph, made, source

    def compare(
        self,
        feeds: Sequence[Mapping[Value, Array]],
        outputs: Sequence[Value],
        tolerance: float,
        made_up: bool,
        by_layer: bool,
    ) -> Apart:
        """The farthest that the answers are; the first sample on which they are too far ends it."""
        chosen = {} if self.source.signature is None else {"signature": self.source.signature}
        self.own = formats.load(self.source.path, **chosen)
        inputs = without_states(self.graph, self.graph.inputs)
        self.inputs = {v: self._own(v, inputs, self.own.inputs) for v in inputs}
        self.outputs = {v: self._own(v, list(outputs), self.own.outputs) for v in outputs}
        self.theirs = Session(self.source.path, self.source.engine, signature=self.source.signature)
        self.ours = Session(self.made, "reference" if isinstance(self.made, Graph) else "auto")
        declared = [*self.own.inputs, *self.own.outputs]
        is_whole = all(v in declared for v in (*self.inputs.values(), *self.outputs.values()))
        in_a_row = is_whole and self.theirs.keeps_state and self.ours.keeps_state
        worst = Apart(0.0, True, "", Difference(0.0, 0.0))
        layers = None
        for number, given in enumerate(feeds):
            feed = self._of_all_codes(given, number) if made_up else given
            if not (number and in_a_row):
                self.theirs.restart()
                self.ours.restart()
            answers = self._whole(feed) if is_whole else self._inside(feed)
            fed = self._feed_of_ours(answers.fed)
            names = [v.name for v in outputs]
            results = dict(zip(outputs, self.ours.run(names, fed), strict=True))
            for value, expected in answers.read.items():
                apart = self._apart(value, expected, results[value], tolerance)
                worst = max(worst, apart, key=lambda a: a.relative)
                if not apart.ok and not (by_layer and self._only_rounds(feed, fed, answers)):
                    first = self._first(answers, fed, tolerance) if is_whole else None
                    return replace(apart, first=first, calls=number + 1, in_a_row=in_a_row)
            if by_layer and not number:
                layers = self._layers({**feed, **answers.fed}, fed, answers.source_feed)
                layers.reach_ends = all(map(is_coded, self.outputs.values()))
        ok = layers is None or layers.wrong is None
        return replace(worst, ok=ok, calls=len(feeds), in_a_row=in_a_row, layers=layers)

    def _layers(
        self, given: Mapping[Value, Array], fed: Mapping[str, Array], source_feed: Mapping[str, Array]
    ) -> Layers:
        """The layers of what was made, each fed with the source's own tensors; those of the graph first."""
        infer_shapes(self.own)
        tensors = affordable_tensors(self.own)
        values = self._tensors([file_name(v) for v in tensors], source_feed)
        found = {v: values[name] for v in tensors if (name := file_name(v)) in values}
        inputs = {v: np.asarray(given[v]) for v in self.graph.inputs if v in given}
        pairs = match_tensors(self.own, self.graph).pairs
        layers = layer_by_layer(self.own, self.graph, pairs, found, inputs)
        layers.wrong = layers.wrong or other_grid(self._stated())
        if layers.wrong is not None or isinstance(self.made, Graph):
            return layers
        made = _opened(self.made)
        pairs = made_layers(self.own, self.graph, made)
        again = layer_by_layer(self.own, made, pairs, found, _by_input(made, fed))
        if again.wrong is not None:
            return again
        end = layers.other_end or again.other_end
        return replace(layers, unseen=[*layers.unseen, *again.unseen], other_end=end)

    def _only_rounds(self, feed: Mapping[Value, Array], fed: Mapping[str, Array], answers: _Answers) -> bool:
        """True if every layer is right: then answers are apart by roundings that add up.

        Of a file that was made, its own runtime must compute every layer as it says, too.
        """
        layers = self._layers({**feed, **answers.fed}, fed, answers.source_feed)
        if layers.wrong is not None or layers.left or not (layers.compared or layers.as_it_runs):
            return False
        # What is quantized as it runs is so by every runtime in its own way.
        if layers.other_end is not None and not quantizes_as_it_runs(self.own):
            return False
        if isinstance(self.made, Graph):
            return True
        made = _opened(self.made)
        if made.source is None or not made.source.engine:
            return False
        inputs = _by_input(made, fed)
        again = _Pair(made, made, made.source).compare([inputs], made.outputs, math.inf, False, True)
        return again.layers is not None and again.layers.wrong is None

    def _stated(self) -> dict[Value, Value]:
        """The ends of the source whose grids the graph states, with the values that do."""
        ends = {own: stated_at_input(v) for v, own in self.inputs.items()}
        ends |= {own: stated_at_output(v) for v, own in self.outputs.items()}
        return {own: v for own, v in ends.items() if v is not None}

    def _tensors(self, names: Sequence[str], source_feed: Mapping[str, Array]) -> dict[str, Array]:
        """Inner tensors of the source, as far as its runtime gives them."""
        if self.source.engine == "litert":
            return litert_tensors(self.own, names, source_feed)
        return onnxruntime_tensors(self.source.path, names, source_feed)

    def _of_all_codes(self, feed: Mapping[Value, Array], seed: int) -> dict[Value, Array]:
        """A made-up sample with codes from the whole range of their types: small integers say little."""
        rng = np.random.default_rng(seed)
        found = dict(feed)
        for value, own in self.inputs.items():
            if _takes_codes(value) and value in feed and params_of(own) is not None:
                kind = np.asarray(feed[value]).dtype
                limits = np.iinfo(kind)
                shape = np.shape(feed[value])
                found[value] = rng.integers(limits.min, limits.max, shape, kind, endpoint=True)
        return found

    def _own(self, value: Value, ends: Sequence[Value], declared: Sequence[Value]) -> Value:
        """The value of the source that one of the graph stands for.

        Raises:
            UnsupportedOp: none has its name.
        """
        others = (o for o, name in self.graph.aliases.items() if plain(name) == plain(value.name))
        for name in (value.name, *others):
            own = self.own.aliases.get(name, name)
            if own.partition(":")[0] in self.own:
                return self.own.value(own)
        if len(ends) == len(declared):
            return declared[ends.index(value)]
        raise UnsupportedOp(f"'{value.name}' is no tensor of {self.source.name}")

    def _whole(self, feed: Mapping[Value, Array]) -> _Answers:
        """Answers of the source to a sample of the graph."""
        fed = self._source_feed(feed)
        names = {v: file_name(own) for v, own in self.outputs.items()}
        results = self.theirs.run(list(names.values()), fed)
        read = {
            v: self._as_in_graph(v, _real(x, params_of(self.outputs[v])))
            for v, x in zip(names, results, strict=True)
        }
        return _Answers({v: np.asarray(feed[v]) for v in self.inputs}, read, fed)

    def _inside(self, feed: Mapping[Value, Array]) -> _Answers:
        """The values of inner tensors, which are what a part of the source is fed and gives."""
        fed = self._source_feed({v: x for v, x in feed.items() if self.inputs[v] in self.own.inputs})
        inner = {v: own for v, own in self.inputs.items() if own not in self.own.inputs}
        names = list(dict.fromkeys(file_name(own) for own in (*inner.values(), *self.outputs.values())))
        found = self._tensors(names, fed)
        missing = next((n for n in names if n not in found), None)
        if missing is not None:
            raise UnsupportedOp(f"{self.source.runtime} does not give its inner tensor '{missing}'")
        values = {v: np.asarray(feed[v]) for v, own in self.inputs.items() if own in self.own.inputs}
        # A graph that takes the codes of a tensor takes them as they are.
        values |= {
            v: found[file_name(own)]
            if _takes_codes(v)
            else self._as_in_graph(v, _real(found[file_name(own)], params_of(own)))
            for v, own in inner.items()
        }
        read = {
            v: self._as_in_graph(v, _real(found[file_name(own)], params_of(own)))
            for v, own in self.outputs.items()
        }
        return _Answers(values, read, fed)

    def _source_feed(self, feed: Mapping[Value, Array]) -> dict[str, Array]:
        """A sample of the graph as the source takes it; what the graph does not have is made up."""
        known = {
            self.inputs[v]: self._as_in_file(v, np.asarray(x)) for v, x in feed.items() if v in self.inputs
        }
        made_up: dict[str, Array] = {}
        if any(own not in known for own in self.own.inputs):
            made = next(iter(synthetic_feeds(session_inputs(self.theirs), 1, _SEED))).values()
            made_up = dict(zip(map(plain, self.theirs.inputs), made, strict=True))
        found: dict[str, Array] = {}
        for own in self.own.inputs:
            name = file_name(own)
            array = known.get(own)
            if array is None:
                array = made_up[plain(name)]
            grid = params_of(own)
            if grid is not None and len(grid.scale) == 1:
                codes = grid.scale[0], grid.zero_point[0] if grid.zero_point else 0
                array = nearest_codes(array, codes, own.spec)
            found[name] = placed(array, own.shape)
        return found

    def _as_in_graph(self, value: Value, array: Array) -> Array:
        """What the source takes or gives with its axes as the graph has them, where those were moved."""
        order = self.source.orders.get(value.name)
        return array if order is None else array.transpose(order)

    def _as_in_file(self, value: Value, array: Array) -> Array:
        """The other way round."""
        order = self.source.orders.get(value.name)
        return array if order is None else array.transpose(np.argsort(order))

    def _feed_of_ours(self, fed: Mapping[Value, Array]) -> dict[str, Array]:
        """What the graph is fed as what was made of it takes it: its types, its codes, its layout."""
        found: dict[str, Array] = {}
        names = {plain(n): n for n in self.ours.inputs}
        for value, array in fed.items():
            name = names.get(plain(value.name), value.name)
            # A file need not take what nothing reads, or nothing but the sizes of.
            if name not in self.ours.inputs:
                continue
            spec = self.ours.inputs.get(name, value.spec)
            array = nearest_codes(array, self.ours.grids.get(name), spec)
            if spec.dtype is not None and array.dtype != spec.dtype.numpy() and array.dtype.kind in "biuf":
                array = array.astype(spec.dtype.numpy())
            found[name] = placed(array, spec.shape)
        return found

    def _apart(self, value: Value, expected: Array, found: Array, tolerance: float) -> Apart:
        """The distance of one output."""
        own = self.outputs[value]
        grid = params_of(own)
        answer = np.asarray(found)
        codes = self.ours.grids.get(value.name)
        if answer.dtype.kind in "iu" and codes is not None:
            answer = np.asarray((answer.astype(np.float64) - codes[1]) * codes[0], np.float32)
        elif grid is not None and own.dtype is not None and answer.dtype == own.dtype.numpy():
            # The graph gives the codes of the file, for which nothing in it says what they stand for.
            answer = _real(answer, grid)
        if answer.shape != expected.shape and answer.size == expected.size:
            order = order_between(expected.shape, answer.shape)
            answer = answer.reshape(expected.shape) if order is None else answer.transpose(order)
        gap = difference(expected, answer, least_size=size_of(value))
        step = max(grid.scale) if grid is not None else 0.0
        # Half a step more, for the real numbers are rounded themselves.
        near = (STEPS + 0.5) * step
        is_near = bool(step) and gap.largest <= near
        ok = is_near or (gap.relative <= tolerance and not (step and _many_beyond(expected, answer, near)))
        return Apart(gap.relative, ok, file_name(own), gap)

    def _first(self, answers: _Answers, fed: Mapping[str, Array], tolerance: float) -> Divergence | None:
        """The first tensor that differs, of those that both have."""
        signature = self.source.signature
        # The graph first: it has all tensors of the source, and most likely was lifted wrongly. What was made
        # of it has fused some, and given them other names.
        graph_feed = {v.name: x for v, x in answers.fed.items()}
        for made, feed in ((self.graph, graph_feed), (self.made, fed)):
            layers = inner_differences(
                self.source.path, made, answers.source_feed, feed, signature, tolerance=tolerance
            )
            if (found := first_divergence(layers, tolerance)) is not None:
                return found
        return None


def _opened(path: str) -> Graph:
    """A file that was made, in TensorFlow's ops."""
    made = formats.load(path)
    return made if vocabulary_named(made.vocabulary) is None else in_tensorflow(made)


def _by_input(graph: Graph, fed: Mapping[str, Array]) -> dict[Value, Array]:
    """What a file is fed by its own names, by the inputs of its graph, which may have had to rename them."""
    names = {plain(v.name): v for v in graph.inputs}
    names |= {plain(name): graph.value(own) for name, own in graph.aliases.items() if plain(own) in names}
    return {names[plain(name)]: array for name, array in fed.items() if plain(name) in names}


def _many_beyond(expected: Array, found: Array, distance: float) -> bool:
    """True if more than a few elements are farther apart: roundings that add up lead single ones astray."""
    if expected.shape != found.shape or not expected.size:
        return False
    beyond = np.abs(expected.astype(np.float64) - found) > distance
    return bool(np.count_nonzero(beyond) > max(1, _FEW * expected.size))


_FEW = 0.1
"""Of the elements. Of nine real networks of eight bits, the graphs of eight give just LiteRT's codes; that of
a MobileNet is up to 4 codes off in one element of a thousand. A wrong scale moves most."""


def _takes_codes(value: Value) -> bool:
    return value.dtype is not None and value.dtype.is_integer


def _real(array: Array, grid: TensorParams | None) -> Array:
    """The real numbers that a quantized tensor's elements stand for; any other array as it is."""
    return array if grid is None or array.dtype.kind not in "iu" else np.asarray(grid.real(array))
