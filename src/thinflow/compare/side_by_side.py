"""Two models run on the same inputs, or one file in its own runtime and in the interpreter."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from thinflow.analysis.precision import RUNTIMES_TOLERANCE
from thinflow.analysis.size_names import checked_sizes
from thinflow.compare.differences import PROBABILITY_NOISE, Difference, difference, size_of
from thinflow.compare.inner_values import real_numbers
from thinflow.compare.match_io import Match, order_between, plain, shapes_fit
from thinflow.compare.verification import OutputReport
from thinflow.engines._child import call
from thinflow.engines._files import engine_of, path_of
from thinflow.engines.session import Session
from thinflow.errors import FeedError, FormatError, ParameterError, ThinflowError, VerificationError
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph, Value
from thinflow.ir.interface import without_states
from thinflow.ir.types import DType, Shape, TensorSpec
from thinflow.synthetic import synthetic_feeds
from thinflow.typing import Array, Progress

Feed = Mapping[str, Any]
Feeds = Iterable[Feed] | Feed | None
Shapes = Mapping[str, Sequence[int | None]]
States = dict[Value, Array]

FEWEST_CALLS = 4
"""Of models that keep state: the first begins with what was saved, and what goes wrong later may grow."""


@dataclass
class SideBySide:
    """Two models ready to run.

    Attributes:
        sessions: the first and the second.
        fed, read: inputs and outputs of the first -> those of the second.
        are_graphs: two TensorFlow graphs: arrays go from one to the other as they are, and outputs of other
            shapes differ. Else numbers may be quantized, and have their channels elsewhere.
        failures: feeds whose outputs differed, each with the states that the runs began with.
    """

    sessions: tuple[Session, Session]
    fed: Match[str]
    read: Match[str]
    are_graphs: bool = False
    failures: list[tuple[Feed, tuple[States, States]]] = field(default_factory=list)
    _probabilities: dict[str, bool] = field(default_factory=dict)

    def compare(
        self, feeds: Sequence[Feed], tolerance: float, progress: Progress | None = None
    ) -> list[OutputReport]:
        """The differences of the outputs, over all feeds. Outputs of one form are paired by their numbers.

        Where both keep state, the feeds are calls one after the other; else each is a first call.
        """
        first, second = self.sessions
        reports: dict[str, OutputReport] = {}
        in_a_row = first.keeps_state and second.keeps_state
        for number, feed in enumerate(feeds):
            if progress is not None:
                progress(number, len(feeds), "run both")
            # A model without state beside one that has it can only be compared on first calls.
            if not (number and in_a_row):
                first.restart()
                second.restart()
            # As they were before the call, so that a failure can be looked into from the same state.
            states = dict(first.held), dict(second.held)
            ours, theirs = (
                self._results(first, self.read.pairs, feed),
                self._results(second, self.read.reverse, self.feed_of_second(feed)),
            )
            # On the first feed only; later ones must not turn pairs around.
            if not reports:
                self._pair_by_numbers(ours, theirs)
            for name, twin in self.read.pairs.items():
                report = reports.setdefault(name, OutputReport(name, step=self._step(name, twin)))
                report.add(
                    self._difference(name, ours[name], self._aligned(ours[name], theirs[twin]), tolerance)
                )
            if any(r.relative > tolerance for r in reports.values()):
                self.failures.append((feed, states))
        if progress is not None:
            progress(len(feeds), len(feeds), "run both")
        return list(reports.values())

    def _difference(self, name: str, ours: Array, theirs: Array, tolerance: float) -> Difference:
        """The largest difference of an output.

        Args:
            tolerance: an error of a probability that no runtime is free of is not more than this.
        """
        found = difference(ours, theirs)
        if not 0 < tolerance < found.relative or found.largest > PROBABILITY_NOISE:
            return found
        # Only here: a file has to be put into TensorFlow's ops for it.
        least = PROBABILITY_NOISE / tolerance if self._is_probability(name) else 0.0
        return difference(ours, theirs, least_size=least)

    def _is_probability(self, name: str) -> bool:
        """Whether an output of the first model is of a logistic function."""
        if name not in self._probabilities:
            session = self.sessions[0]
            try:
                graph = session.graph or Session(session.path, "reference", signature=session.signature).graph
                self._probabilities[name] = graph is not None and size_of(graph.value(name)) > 0
            except ThinflowError:  # not every file can be said so
                self._probabilities[name] = False
        return self._probabilities[name]

    def feed_of_second(self, feed: Feed) -> dict[str, Any]:
        """A feed of the first model as the second takes it: its names, its codes, its place of the channels.

        What the second does not have is left out.
        """
        first, second = self.sessions
        found: dict[str, Any] = {}
        for name, array in feed.items():
            twin = self.fed.pairs.get(plain(name))
            if self.are_graphs:
                if twin is not None or (second.graph is not None and name.partition(":")[0] in second.graph):
                    found[twin or name] = np.asarray(array)
            elif twin is not None:
                spec = second.inputs[twin]
                ours, theirs = self._codes(first, name, twin), self._codes(second, twin, name)
                real = real_numbers(np.asarray(array), ours)
                found[twin] = nearest_codes(placed(real, spec.shape), theirs, spec)
        return found

    def _codes(self, session: Session, name: str, twin: str) -> tuple[float, int] | None:
        """Scale and zero point of an input or output.

        ONNX has no place for those of a model's ends: integers of the same type stand for what they stand for
        in the other model.
        """
        own = _codes_of(session, name)
        if own is not None:
            return own
        other = self.sessions[session is self.sessions[0]]
        return _codes_of(other, twin) if _type_of(session, name) is _type_of(other, twin) else None

    def _results(self, session: Session, names: Mapping[str, str], feed: Feed) -> dict[str, Array]:
        """The real numbers of some outputs, by name."""
        listed = list(names)
        results = zip(listed, session.run(listed, feed), strict=True)
        return {n: real_numbers(x, self._codes(session, n, names[n])) for n, x in results}

    def _pair_by_numbers(self, ours: Mapping[str, Array], theirs: Mapping[str, Array]) -> None:
        """Pair anew what only the order has paired: the closest two first."""
        twins = [self.read.pairs[n] for n in self.read.guessed]
        # Names and places last, so that equal gaps leave the order as it was.
        gaps = sorted(
            (difference(ours[x], self._aligned(ours[x], theirs[y])).relative, abs(i - j), x, y)
            for i, x in enumerate(self.read.guessed)
            for j, y in enumerate(twins)
        )
        closest = Match[str]()
        for *_, x, y in gaps:
            if closest.is_open(x, y):
                closest.add(x, y)
        if any(self.read.pairs[x] != y for x, y in closest.pairs.items()):
            for x, y in closest.pairs.items():
                self.read.add(x, y)
            listed = ", ".join(f"{x} with {y}" for x, y in closest.pairs.items())
            self.read.notes = [f"outputs are paired by their numbers, as no names are shared: {listed}"]

    def _aligned(self, x: Array, y: Array) -> Array:
        """`y` in the shape of `x`, where it holds as many numbers in another layout."""
        # Two graphs have no layouts to differ in: another shape is a difference.
        if self.are_graphs or x.shape == y.shape or x.size != y.size:
            return y
        order = order_between(x.shape, y.shape)
        result: Array = y.reshape(x.shape) if order is None else y.transpose(order)
        return result

    def _step(self, name: str, twin: str) -> float:
        """The scale of an output's codes, in the coarser model; 0 if neither has codes."""
        codes = _codes_of(self.sessions[0], name), _codes_of(self.sessions[1], twin)
        # The coarser grid decides how far apart two roundings may be.
        return max((c[0] for c in codes if c is not None), default=0.0)


def calls_to_make(sessions: Sequence[Session], runs: int) -> int:
    """Number of feeds to make up: some in a row where state is kept."""
    return max(runs, FEWEST_CALLS) if runs > 0 and all(s.keeps_state for s in sessions) else runs


def state_notes(sessions: Sequence[Session], calls: int) -> list[str]:
    """Sentences on how the state of models was compared; none for those without state."""
    keeping = [s.keeps_state for s in sessions]
    if all(keeping):
        return [f"both keep state from call to call: {calls} calls in a row were compared"]
    if any(keeping):
        which = ("first", "second")[keeping.index(True)]
        return [
            f"only the {which} model keeps state: first calls were compared, from the state that was saved"
        ]
    return []


def choose_feeds(
    session: Session, feeds: Feeds, runs: int, seed: int | Sequence[int], shapes: Shapes | None = None
) -> list[dict[str, Any]]:
    """The feeds to compare on: those given, or made-up ones."""
    if feeds is not None:
        return [dict(feeds)] if isinstance(feeds, Mapping) else [dict(f) for f in feeds]
    if runs < 1:
        raise ParameterError(f"{runs} runs compare nothing", hint="give 1 or more")
    values = session_inputs(session, shapes)
    seeds = [seed] if isinstance(seed, int) else list(seed)
    made = (feed for one in seeds for feed in synthetic_feeds(values, runs, one))
    names = list(session.inputs)
    return [_full_range(dict(zip(names, feed.values(), strict=True)), session) for feed in made]


def computed_feeds(
    whole: Graph, session: Session, engine: str, feeds: Feeds, runs: int, seed: int | Sequence[int]
) -> list[dict[str, Any]] | None:
    """Values of the whole graph at the places where a part of it is fed, from the feeds or made-up ones.

    Indices and sizes fit each other then, which made-up ones would not. None if the graph cannot run, or is
    fed at those places.
    """
    runner, names = Session(whole, engine), list(session.inputs)
    chosen = None if feeds is None else choose_feeds(runner, feeds, runs, seed)
    # The user fed the inner places himself: nothing is to be computed.
    if chosen and {plain(n) for n in chosen[0]} >= {plain(n) for n in names}:
        return chosen
    try:
        chosen = choose_feeds(runner, None, runs, seed) if chosen is None else chosen
        return [dict(zip(names, runner.run(names, feed), strict=True)) for feed in chosen]
    except ThinflowError:
        if feeds is not None:
            raise
        return None


def session_inputs(session: Session, shapes: Shapes | None = None) -> list[Value]:
    """Inputs of a session, as values; of a file with the shapes that a user gave."""
    if session.graph is not None:
        return without_states(session.graph, session.graph.inputs)
    graph = Graph()
    for name, spec in _shaped(session, shapes or {}).items():
        attrs = {"shape": ShapeAttr(spec.shape)} | ({"dtype": spec.dtype} if spec.dtype is not None else {})
        node = graph.add("Placeholder", name=graph.unique_name(name.partition(":")[0] or "x"), attrs=attrs)
        node.output().spec = spec
        graph.inputs = [*graph.inputs, node.output()]
    return graph.inputs


def _shaped(session: Session, shapes: Shapes) -> dict[str, TensorSpec]:
    """Inputs of a file, with the shapes that a user gave, by the names of inputs or of open sizes; the other
    open sizes such that they fit each other.

    Raises:
        FeedError: a shape for something that is not an input.
    """
    specs = session.inputs
    is_open = any(None in (s.shape or ())[1:] for s in specs.values())
    if session.path and (is_open or any(plain(n) not in map(plain, specs) for n in shapes)):
        from thinflow.load.fitting_sizes import sizes_to_feed

        try:
            settled = sizes_to_feed(session.path, shapes, session.signature)
        except FormatError:  # only its runtime reads it
            settled = []
        # Engines call inputs otherwise than our reader does; their order is the file's.
        if len(settled) == len(specs):
            pairs = zip(specs.items(), settled, strict=True)
            return {n: TensorSpec(s.dtype, shape) for (n, s), shape in pairs}
    given = {plain(n): checked_sizes(n, s) for n, s in shapes.items()}
    strange = next((n for n in given if n not in map(plain, specs)), None)
    if strange is not None:
        raise FeedError(f"'{strange}' is not an input", hint=f"the inputs are {', '.join(specs)}")
    return {n: TensorSpec(s.dtype, given.get(plain(n), s.shape)) for n, s in specs.items()}


def _full_range(feed: Feed, session: Session) -> dict[str, Any]:
    """A made-up feed that uses the whole range of eight-bit inputs, where small integers would say little."""
    made = dict(feed)
    for name, x in feed.items():
        if _codes_of(session, name) is not None and x.dtype.kind in "iu":
            limits = np.iinfo(x.dtype)
            # Seeded by the feed itself, so that the same seed makes the same feed whatever ran before.
            rng = np.random.default_rng(int(x.astype(np.int64).sum()) % 2**32)
            made[name] = rng.integers(limits.min, limits.max, x.shape, x.dtype, endpoint=True)
    return made


def _codes_of(session: Session, name: str) -> tuple[float, int] | None:
    """Scale and zero point of an input or output; None for plain numbers."""
    return next((g for n, g in session.grids.items() if plain(n) == plain(name)), None)


def _type_of(session: Session, name: str) -> DType | None:
    ends = {**session.inputs, **session.outputs}
    return next((spec.dtype for n, spec in ends.items() if plain(n) == plain(name)), None)


def placed(array: Array, wanted: Shape) -> Array:
    """The array with its channels where the other model has them."""
    if wanted is None or shapes_fit(array.shape, wanted) or len(wanted) != array.ndim or array.ndim < 3:
        return array
    last = array.ndim - 1
    # From channels last to channels first, then the other way round.
    for order in ((0, last, *range(1, last)), (0, *range(2, array.ndim), 1)):
        if shapes_fit(tuple(array.shape[i] for i in order), wanted):
            result: Array = array.transpose(order)
            return result
    return array


def nearest_codes(array: Array, codes: tuple[float, int] | None, spec: TensorSpec) -> Array:
    """Real numbers as the nearest integers that a quantized input takes; anything else as it is."""
    if codes is None or spec.dtype is None or array.dtype.kind != "f":
        return array
    kind = spec.dtype.numpy()
    limits = np.iinfo(kind)
    # Ties to even, as ONNX's QuantizeLinear has it; then cut off at the ends of the
    # type, as quantization saturates.
    steps = np.rint(array.astype(np.float64) / codes[0]) + codes[1]
    result: Array = np.clip(steps, limits.min, limits.max).astype(kind)
    return result


# What lies inside of a file is computed by the interpreter, from the file's ops said in TensorFlow's. Were
# one of them said wrongly, everything compared with it would be judged by the mistake. So the whole file is
# run both ways first, on the same inputs.

Model = Graph | str | os.PathLike[str]

CODES_GAP = 0.1
"""Tolerance between them where integers stand for numbers: a code here and there adds up over many layers."""
_SEED, _RUNS = 0, 2


def compared_with_own_runtime(
    model: Model, signature: str | None, feeds: Sequence[Feed] | None, tolerance: float
) -> str:
    """Result of running a file both ways, in a sentence.

    Args:
        model: the file, or the graph as it was read from it.
        signature: of a .tflite file, which one to run; None: as the file says.
        feeds: by the names of its inputs; made up where there are none, or others are named.
        tolerance: relative difference that is asked for elsewhere; it is never stricter here than there.

    Raises:
        VerificationError: the interpreter computes something else.
    """
    name = os.path.basename(path_of(model))
    engine = engine_of(model)
    try:
        lifted = Session(model, "reference", signature=signature)
        chosen = _fitting(feeds, lifted) or _made_up(lifted)
        ours = [lifted.run(list(lifted.outputs), feed) for feed in chosen]
        asked = path_of(model), engine, signature, list(lifted.outputs), chosen
        # In a child: a runtime that crashes on a file must not take this process along.
        theirs = call(_answers, asked, engine, f"running {name}")
    except ThinflowError as error:
        return (
            f"{name} was computed by the interpreter, and not compared with {engine}, its own runtime: "
            f"{error.message}"
        )
    gap, output = _farthest(lifted, ours, theirs)
    if gap > max(tolerance, CODES_GAP if lifted.codes else RUNTIMES_TOLERANCE):
        raise VerificationError(
            f"the interpreter does not compute '{output}' as {engine} does, which the file is for "
            f"(relative difference {gap:.2g}), so nothing can be compared with what lies inside",
            name,
            hint="compare outputs of the whole file, which its own runtime computes; and please report this "
            "with the file",
        )
    return f"{name} was computed by the interpreter, whose answers are as in {engine}, to {gap:.2g}"


def _answers(
    path: str, engine: str, signature: str | None, outputs: Sequence[str], feeds: Sequence[Feed]
) -> list[list[Array]]:
    session = Session(path, engine, signature=signature)
    return [session.run(list(outputs), feed) for feed in feeds]


def _fitting(feeds: Sequence[Feed] | None, session: Session) -> list[dict[str, Any]]:
    """The feeds by the session's names if they feed just its inputs; else nothing."""
    names = {plain(n): n for n in session.inputs}
    if not feeds or any({plain(n) for n in feed} != set(names) for feed in feeds):
        return []
    return [{names[plain(n)]: x for n, x in feed.items()} for feed in feeds[:_RUNS]]


def _made_up(session: Session) -> list[dict[str, Any]]:
    assert session.graph is not None
    made = synthetic_feeds(session.graph.inputs, _RUNS, _SEED)
    return [{v.name: x for v, x in feed.items()} for feed in made]


def _farthest(
    session: Session, ours: Sequence[Sequence[Array]], theirs: Sequence[Sequence[Array]]
) -> tuple[float, str]:
    """The largest relative difference, and the output that has it."""
    worst, which = 0.0, next(iter(session.outputs), "")
    for a, b in zip(ours, theirs, strict=True):
        for name, x, y in zip(session.outputs, a, b, strict=True):
            grid = session.grids.get(name)
            # The file's own runtime first: differences are relative to what it computes.
            gap = difference(*(real_numbers(np.asarray(z), grid) for z in (y, x))).relative
            if gap > worst:
                worst, which = gap, name
    return worst, which
