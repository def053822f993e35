"""Does a graph still compute what another one computes?

Two uses: `OutputComparer` after every transform of a pipeline, and `verify` for any two graphs, which also
finds the first
value that differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from thinflow.analysis.switches import training_switches
from thinflow.compare.differences import Difference, allowed, difference
from thinflow.compare.divergence import Divergence, find_divergence, matched_ends
from thinflow.compare.equivalence import prove
from thinflow.compare.layer_differences import Layer
from thinflow.compare.match_nodes import pair_nodes
from thinflow.engines.session import Session
from thinflow.errors import (
    GraphError,
    ParameterError,
    ThinflowError,
    VerificationError,
)
from thinflow.interpreter import Plan
from thinflow.ir.brief import brief_repr
from thinflow.ir.counterparts import counterparts
from thinflow.ir.graph import Graph, Value
from thinflow.ir.notebook import text_html
from thinflow.ir.states import without_states
from thinflow.ir.types import DType
from thinflow.ops.random import repeatable_randomness
from thinflow.plain_text import one_line
from thinflow.rewrite.rule import Transform
from thinflow.synthetic import naming_open_sizes, open_sizes, synthetic_feeds
from thinflow.typing import Array

Feeds = Mapping[str, Array]

NO_CHANGE = 1e-6
"""Relative differences below this are what reordering float additions makes; nothing is reported as
differing.
"""
NOISE_FACTOR = 16
"""How many times its own rounding noise a graph may move: weights are rounded anew in every layer, the input
only once.
"""
MOST_NOISE = 1e-2
"""No graph is so noisy that a larger difference would pass."""


class OutputComparer:
    """Compares a graph before and after each transform.

    First by proof, see `equivalence`: what did not change needs no run, and what did is run on a few random
    numbers. Where
    that does not settle it, and for transforms that change numbers on purpose, both graphs run on the same
    inputs.

    Args:
        feeds: name -> array, one dict per run; made up from the graph's inputs if None.
        seed: for made-up numbers.
    """

    def __init__(self, feeds: Sequence[Mapping[str, Array]] | None = None, *, seed: int = 0) -> None:
        self.skipped = ""
        """Why something could not be compared, if so."""
        self.runs = 0
        """How often a whole graph was run."""
        self._feeds = None if feeds is None else [dict(f) for f in feeds]
        self._seed = seed
        self._latest: tuple[Graph, list[list[Array]]] | None = None

    def compare(self, before: Graph, after: Graph, transform: Transform) -> float | None:
        """The largest relative difference found; None if neither way worked.

        Raises:
            VerificationError: larger than the transform's tolerance, for one that must not change numbers.
        """
        worst = self._difference(before, after, transform)
        self._rename_feeds(before, after)
        return worst

    def _difference(self, before: Graph, after: Graph, transform: Transform) -> float | None:
        if transform.exact:
            proof = prove(before, after, max(transform.tolerance, NO_CHANGE), seed=self._seed)
            if proof.equal:
                return proof.worst
        try:
            first, second = self._results(before, before), self._results(after, before)
        except ThinflowError as error:
            if isinstance(error, VerificationError):
                raise
            self.skipped = error.message
            return None
        worst = 0.0
        for x, y in zip(first, second, strict=True):
            for value, a, b in zip(before.outputs, x, y, strict=True):
                found = difference(a, b)
                worst = max(worst, found.relative)
                limit = allowed(max(transform.tolerance, NO_CHANGE), a)
                if transform.exact and found.relative > limit and self._exceeds_noise(before, first, found):
                    raise _changed(value.name, found)
        self._latest = (after, second)
        return worst

    def _results(self, graph: Graph, named_by: Graph) -> list[list[Array]]:
        """Outputs for every feed, remembered for the graph that the next step starts from."""
        if self._latest is not None and self._latest[0] is graph:
            return self._latest[1]
        names = [v.name for v in counterparts(named_by.outputs, graph.outputs, graph)]
        new = {} if graph is named_by else _new_names(named_by, graph)
        feeds = [{new.get(n, n): a for n, a in feed.items()} for feed in self._all_feeds(named_by)]
        results = [run_by_name(graph, feed, names) for feed in feeds]
        self.runs += 1
        return results

    def _rename_feeds(self, before: Graph, after: Graph) -> None:
        """Let the feeds have the names of the graph that the next step starts from."""
        new = _new_names(before, after)
        if self._feeds is not None and any(old != name for old, name in new.items()):
            self._feeds = [{new.get(n, n): a for n, a in feed.items()} for feed in self._feeds]

    def _all_feeds(self, graph: Graph) -> list[dict[str, Array]]:
        if self._feeds is None:
            self._feeds = [
                {v.name: a for v, a in f.items()} for f in synthetic_feeds(graph.inputs, 1, self._seed)
            ]
        return self._feeds

    def _exceeds_noise(self, graph: Graph, results: Sequence[Sequence[Array]], found: Difference) -> bool:
        """Whether a difference is more than what rounding alone does to this graph.

        Deep graphs amplify rounding errors. How much is measured when it matters: the graph runs again with
        every input
        number off by about one unit in its last place.
        """
        rng = np.random.default_rng(1)
        noise = 0.0
        names = [v.name for v in graph.outputs]
        for feed, clean in zip(self._all_feeds(graph), results, strict=True):
            shaken = run_by_name(graph, {n: _shaken(a, rng) for n, a in feed.items()}, names)
            noise = max([noise, *(difference(a, b).relative for a, b in zip(clean, shaken, strict=True))])
        return found.relative > min(NOISE_FACTOR * noise, MOST_NOISE)


def _new_names(before: Graph, after: Graph) -> dict[str, str]:
    """Name of each input, with and without ":0" -> the name of what stands for it in the changed graph."""
    try:
        twins = counterparts(before.inputs, after.inputs, after)
    except GraphError:  # an input is gone: nothing reads it any more
        return {}
    pairs = [(v.name, twin.name) for v, twin in zip(before.inputs, twins, strict=True)]
    return {spelt: new for old, new in pairs for spelt in (old, f"{old}:0" if ":" not in old else old)}


def _changed(name: str, found: Difference) -> VerificationError:
    return VerificationError(
        f"output '{name}'{list(found.index)} was {found.before} and is {found.after} now",
        hint="the step was undone; leave the transform out, or use --no-verify to keep its result",
    )


def _shaken(array: Array, rng: np.random.Generator) -> Array:
    """Floats times 1 ± their machine epsilon; anything else as it is."""
    if array.dtype.kind != "f":
        return array
    signs = rng.integers(0, 2, array.shape) * 2 - 1
    return (array * (1 + signs * np.finfo(array.dtype).eps)).astype(array.dtype)


def run_by_name(graph: Graph, feeds: Mapping[str, Array], names: Sequence[str]) -> list[Array]:
    """Outputs by name on the reference interpreter; feeds that the graph no longer has are left out."""
    from threadpoolctl import threadpool_limits

    fed = {graph.value(n): a for n, a in feeds.items() if n.partition(":")[0] in graph}
    fed = _with_switches(graph, fed)
    # One run gains little by more threads, and waits long for them where other work has the processor.
    with threadpool_limits(limits=1, user_api="blas"), repeatable_randomness():
        return Plan(graph, [graph.value(n) for n in names], list(fed)).run(fed)


def _with_switches(graph: Graph, fed: dict[Value, Array]) -> dict[Value, Array]:
    """Feeds, with what inference wants for the training switches that nobody feeds."""
    for value, setting in training_switches(graph):
        element = value.node.get("dtype")
        if value not in fed and isinstance(element, DType):
            fed = {**fed, value: np.asarray(setting, element.numpy())}
    return fed


@brief_repr
@dataclass
class OutputReport:
    """One output of both graphs, over all feeds."""

    name: str
    largest: float = 0.0
    relative: float = 0.0
    index: tuple[int, ...] = ()
    before: Any = None
    after: Any = None
    step: float = 0.0
    """How far apart neighbouring codes of a quantized output are; 0 if it is not quantized."""

    def __str__(self) -> str:
        codes = f" ({self.largest / self.step:.3g} codes of {self.step:.3g})" if self.step else ""
        return f"{self.name}: {self.largest:.3g} absolute{codes}, {self.relative:.3g} relative"

    def add(self, found: Difference) -> None:
        """Take one more run into account."""
        if found.relative >= self.relative:
            self.largest, self.relative = found.largest, found.relative
            self.index, self.before, self.after = found.index, found.before, found.after


@brief_repr
@dataclass
class Verification:
    """What comparing two graphs gave.

    Attributes:
        outputs: per output the worst difference.
        tolerance: relative difference up to which they agree.
        first_divergence: name in the first graph of the first value (in running order) that differs and
            reaches an output; "" if none, or if nobody could look.
        runs: how many feeds were compared.
        notes: what else to know.
        divergence: the same value with its twin's name and the numbers; None likewise.
        layers: of files, how far apart each pair of inner tensors is, in the order they run; see
            `layer_differences`.
    """

    outputs: list[OutputReport]
    tolerance: float
    first_divergence: str = ""
    runs: int = 0
    notes: list[str] = field(default_factory=list)
    divergence: Divergence | None = None
    layers: list[Layer] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return all(o.relative <= self.tolerance for o in self.outputs)

    @property
    def worst(self) -> float:
        """Largest relative difference of any output."""
        return max((o.relative for o in self.outputs), default=0.0)

    @property
    def worst_output(self) -> str:
        """Name of the output that differs most; "" if nothing differs."""
        worst = max(self.outputs, key=lambda o: o.relative, default=None)
        return worst.name if worst is not None and worst.relative > 0 else ""

    def _repr_html_(self) -> str:
        return text_html(str(self))

    def __str__(self) -> str:
        verdict = "the graphs agree" if self.ok else "the graphs DIFFER"
        lines = [
            f"{verdict}: largest relative difference {self.worst:.3g} over {self.runs} runs "
            f"(tolerance {self.tolerance:g})"
        ]
        lines += [f"  {o}" for o in self.outputs]
        if not self.ok and len(self.outputs) > 1:
            lines.append(f"worst output: {self.worst_output}")
        if self.divergence is not None:
            lines += [f"first value that differs: {self.divergence}", self.divergence.detail]
        elif self.first_divergence:
            lines.append(f"first value that differs: {self.first_divergence}")
        return "\n".join(map(one_line, [*lines, *self.notes, explain_tolerance(self.tolerance)]))


def explain_tolerance(tolerance: float) -> str:
    """What a tolerance means, in a sentence."""
    return (
        f"tolerance {tolerance:g}: |a - b| may be up to {tolerance:g} of the largest |a| of the same output; "
        f"another order of additions alone makes about {NO_CHANGE:g} per layer"
    )


def verify(
    a: Graph,
    b: Graph,
    feeds: Iterable[Mapping[str, Any]] | Mapping[str, Any] | None = None,
    *,
    engine: str = "reference",
    tolerance: float = 1e-4,
    runs: int = 2,
    seed: int | Sequence[int] = 0,
) -> Verification:
    """Run both graphs on the same inputs and compare every output of `a` that `b` has too.

    Args:
        a, b: graphs with inputs and outputs set. Those are paired by name; where no name is shared, by what
            they compute, or by position if their types and shapes fit.
        feeds: one feed (name in `a` -> array) or several; made up from `seed` if None.
        engine: what runs them.
        tolerance: relative difference up to which they agree.
        runs: how many made-up feeds per seed.
        seed: for made-up feeds, or several.

    Raises:
        GraphError: the graphs share no output.
    """
    require_tolerance(tolerance)
    pairing = cache(lambda: pair_nodes(a, b))
    (ins, outs), (other_ins, other_outs) = _ends_of(a), _ends_of(b)
    pairs, note = matched_ends(outs, other_outs, pairing, b)
    twins, more = matched_ends(ins, other_ins, pairing, b)
    if not pairs or (note and len(twins) < len(ins)):
        raise GraphError(
            "the graphs have no output in common", hint="name the outputs: outputs=[...] when loading"
        )
    reports = {v.name: OutputReport(v.name) for v, _ in pairs}
    sessions = Session(a, engine), Session(b, engine)
    chosen = _feeds_for(a, feeds, calls_to_make(sessions, runs), seed)
    in_a_row = all(s.keeps_state for s in sessions)
    unsure = open_sizes(a.inputs) if feeds is None else {}
    divergence = None
    for feed in chosen:
        shared = _feed_of_twin(a, b, feed, {v: w for v, w in twins})
        if not in_a_row:
            for session in sessions:
                session.restart()
        held = [dict(session.held) for session in sessions]
        with naming_open_sizes(unsure):
            before = sessions[0].run([v.name for v, _ in pairs], feed)
        after = sessions[1].run([w.name for _, w in pairs], {w.name: x for w, x in shared.items()})
        for report, x, y in zip(reports.values(), before, after, strict=True):
            report.add(difference(x, y))
        if divergence is None and any(r.relative > tolerance for r in reports.values()):
            fed = {a.value(n): np.asarray(x) for n, x in feed.items()}
            divergence = find_divergence(a, b, (fed | held[0], shared | held[1]), pairs, tolerance)
    name = divergence.name if divergence is not None else ""
    notes = [*(n for n in (note, more) if n), *state_notes(sessions, len(chosen))]
    return Verification(list(reports.values()), tolerance, name, len(chosen), notes, divergence)


def _ends_of(graph: Graph) -> tuple[list[Value], list[Value]]:
    """What a graph is fed and what it gives, without its states."""
    return without_states(graph, graph.inputs), without_states(graph, graph.outputs)


FEWEST_CALLS = 4
"""Of models that keep state: the first begins with what was saved, and what goes wrong later may grow."""


def calls_to_make(sessions: Sequence[Session], runs: int) -> int:
    """How many feeds to make up: some in a row where state is kept."""
    return max(runs, FEWEST_CALLS) if runs > 0 and all(s.keeps_state for s in sessions) else runs


def state_notes(sessions: Sequence[Session], calls: int) -> list[str]:
    """How the state of models was compared; nothing to say of those that have none."""
    keeping = [s.keeps_state for s in sessions]
    if all(keeping):
        return [f"both keep state from call to call: {calls} calls in a row were compared"]
    if any(keeping):
        which = ("first", "second")[keeping.index(True)]
        return [
            f"only the {which} model keeps state: first calls were compared, from the state that was saved"
        ]
    return []


def require_tolerance(tolerance: float) -> None:
    """Raises ParameterError for one that is negative or no number."""
    if not tolerance >= 0:
        raise ParameterError(f"the tolerance is {tolerance}", hint="give 0 or more, for example 1e-4")


def _feeds_for(
    graph: Graph,
    feeds: Iterable[Mapping[str, Any]] | Mapping[str, Any] | None,
    runs: int,
    seed: int | Sequence[int],
) -> list[dict[str, Any]]:
    if feeds is not None:
        return [dict(feeds)] if isinstance(feeds, Mapping) else [dict(f) for f in feeds]
    if runs < 1:
        raise ParameterError(f"{runs} runs compare nothing", hint="give 1 or more")
    seeds = [seed] if isinstance(seed, int) else list(seed)
    return [
        {v.name: x for v, x in feed.items()}
        for one in seeds
        for feed in synthetic_feeds(without_states(graph, graph.inputs), runs, one)
    ]


def _feed_of_twin(
    a: Graph, b: Graph, feed: Mapping[str, Any], twins: Mapping[Value, Value]
) -> dict[Value, Array]:
    """The same feed for the other graph: by twin, else by name; what it does not have is left out."""
    shared: dict[Value, Array] = {}
    for name, array in feed.items():
        twin = twins.get(a.value(name))
        if twin is None and name.partition(":")[0] in b:
            twin = b.value(name)
        if twin is not None:
            shared[twin] = np.asarray(array)
    return shared


def first_divergence(
    a: Graph, b: Graph, feed: Mapping[str, Any], outputs: Sequence[str], tolerance: float
) -> str:
    """Name of the first value, in running order, that differs and reaches one of the outputs; "" if none."""
    fed = {a.value(n): np.asarray(x) for n, x in feed.items()}
    pairs = [(a.value(n), b.value(n)) for n in outputs]
    found = find_divergence(a, b, (fed, _feed_of_twin(a, b, feed, {})), pairs, tolerance)
    return found.name if found is not None else ""
