"""Comparison of a graph before and after each transform: has it changed what the graph computes?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from thinflow.analysis.training_mode import training_switches
from thinflow.compare.differences import NO_CHANGE, Difference, allowed, difference
from thinflow.compare.equivalence import prove
from thinflow.engines._threads import blas
from thinflow.errors import GraphError, ThinflowError, VerificationError
from thinflow.interpreter import Plan
from thinflow.ir.graph import Graph, Value
from thinflow.ir.interface import counterparts
from thinflow.ir.types import DType
from thinflow.ops.random import repeatable_randomness
from thinflow.rewrite.rule import Transform
from thinflow.synthetic import synthetic_feeds
from thinflow.typing import Array

NOISE_FACTOR = 16
"""Multiple of its own rounding noise that a graph may move: weights are rounded anew in every layer, the
input only once."""
MOST_NOISE = 1e-2
"""No graph is so noisy that a larger difference would pass."""


class OutputComparer:
    """Compares a graph before and after each transform.

    First by proof, see `equivalence`: what did not change needs no run, and what did is run on a few random
    numbers. Where that does not settle it, and for transforms that change numbers on purpose, both graphs run
    on the same inputs.

    Args:
        feeds: name -> array, one dict per run; made up from the graph's inputs if None.
        seed: for made-up numbers.
    """

    def __init__(self, feeds: Sequence[Mapping[str, Array]] | None = None, *, seed: int = 0) -> None:
        self.skipped = ""
        """Why something could not be compared, if so."""
        self.runs = 0
        """Number of runs of whole graphs."""
        self._feeds = None if feeds is None else [dict(f) for f in feeds]
        self._seed = seed
        self._latest: tuple[Graph, list[list[Array]]] | None = None

    def compare(self, before: Graph, after: Graph, transform: Transform) -> float | None:
        """The largest relative difference found; None if neither way worked.

        Raises:
            VerificationError: larger than the transform's tolerance, for one that must not change numbers.
        """
        worst = self._difference(before, after, transform)
        # After the comparison, which feeds both by the names of the first.
        self._rename_feeds(before, after)
        return worst

    def _difference(self, before: Graph, after: Graph, transform: Transform) -> float | None:
        if transform.exact:
            # Never stricter than what another order of additions makes.
            proof = prove(before, after, max(transform.tolerance, NO_CHANGE), seed=self._seed)
            # Otherwise nothing is known yet: what could not be proven may still be equal, and is run.
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
        # After each step the graph that was "after" is "before": it was run already.
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
        """True if a difference is more than what rounding alone does to this graph.

        Deep graphs amplify rounding errors. How much is measured when it matters: the graph runs again with
        every input number off by about one unit in its last place.
        """
        # Always the same: whether a step passes must not change from run to run.
        rng = np.random.default_rng(1)
        noise = 0.0
        names = [v.name for v in graph.outputs]
        for feed, clean in zip(self._all_feeds(graph), results, strict=True):
            shaken = run_by_name(graph, {n: _shaken(a, rng) for n, a in feed.items()}, names)
            noise = max([noise, *(difference(a, b).relative for a, b in zip(clean, shaken, strict=True))])
        # Measured only here, when a step is about to be refused: it costs a run for each feed.
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
    # Back to its type: signs of 64 bits have made the product a wider one.
    result: Array = (array * (1 + signs * np.finfo(array.dtype).eps)).astype(array.dtype)
    return result


def run_by_name(graph: Graph, feeds: Mapping[str, Array], names: Sequence[str]) -> list[Array]:
    """Outputs by name on the reference interpreter; feeds that the graph no longer has are left out."""
    fed = {graph.value(n): a for n, a in feeds.items() if n.partition(":")[0] in graph}
    # A training graph runs as in inference, whatever the caller left out.
    fed = _with_switches(graph, fed)
    # One run gains little by more threads, and waits long for them where other work has the processor.
    with blas().limited(1), repeatable_randomness():
        return Plan(graph, [graph.value(n) for n in names], list(fed)).run(fed)


def _with_switches(graph: Graph, fed: dict[Value, Array]) -> dict[Value, Array]:
    """Feeds, with what inference wants for the training switches that nobody feeds."""
    for value, setting in training_switches(graph):
        element = value.node.get("dtype")
        if value not in fed and isinstance(element, DType):
            fed = {**fed, value: np.asarray(setting, element.numpy())}
    return fed
