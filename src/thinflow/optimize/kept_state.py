"""Files that keep state beside their graph, over calls one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle, islice
from typing import Any

from thinflow.engines._child import TIMEOUT_SECONDS, run_file
from thinflow.errors import FeedError, UnsupportedOp
from thinflow.interpreter import Plan
from thinflow.ir.graph import Value
from thinflow.optimize.converted import ConvertedModel
from thinflow.optimize.core import Core
from thinflow.optimize.coverage import coverage_of
from thinflow.optimize.numeric_check import FLOAT_TOLERANCE, farthest
from thinflow.optimize.samples import Samples
from thinflow.typing import Array

CALLS = 4
"""So many calls: the first has the stored state, the second what that left, and two more find what grows."""


class StateNotKept(UnsupportedOp):
    """A file cannot keep what the model keeps from one run to the next."""


def require_states(core: Core) -> None:
    """Refuse a part of a graph that does not hold all that a state goes through, or is not the model.

    Raises:
        StateNotKept: names the state.
    """
    if core.graph.states and coverage_of(core).is_part:
        raise StateNotKept("only a part of the model fits into a file")
    inside = set(core.nodes)
    for state in core.graph.states:
        fed, left = core.graph.value(state.input), core.graph.value(state.output)
        # All readers inside: one outside would see the state of the first call forever.
        if left not in core.outputs or not inside.issuperset(fed.readers):
            raise StateNotKept(f"'{state.name}' is used outside of what {core.runtime} can run")


def check_calls(
    model: ConvertedModel[Any],
    content: str | bytes,
    samples: Samples,
    *,
    tolerance: float = FLOAT_TOLERANCE,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> float:
    """Run a file that keeps state for some calls, beside the graph with the state handed on; the largest
    relative difference of any output of any call. A graph without state is not run.

    Args:
        model: what the file holds.
        content: the file's bytes, or its path.
        samples: for the whole graph; they are taken again from the first if they are few.
        tolerance: how large it may be.
        timeout_seconds: for LiteRT, all calls together.

    Raises:
        VerificationError: it is larger.
        NodeError, FeedError: the graph does not run on the samples.
        EngineUnavailable, EngineCrashed: LiteRT does not run the file.
    """
    core = model.core
    if not core.states:
        return 0.0
    feeds, expected = _in_a_row(core, samples)
    runs = run_file(content, "litert", feeds, timeout_seconds=timeout_seconds, name="the .tflite model")
    apart = [farthest(model, a, b, tolerance, core.given) for a, b in zip(expected, runs, strict=True)]
    return max(apart, default=0.0)


def _in_a_row(core: Core, samples: Samples) -> tuple[list[list[Array]], list[Mapping[Value, Array]]]:
    """Feeds of the file in each call, and the graph's results for them."""
    known = list(islice(samples, CALLS))
    if not known:
        raise FeedError("there are no samples", hint="give at least one")
    fetched = list(dict.fromkeys(core.outputs))
    plan = Plan(core.graph, fetched, core.inputs, within=frozenset(core.nodes))
    # States begin with the values that the graph stores.
    held = {s.input: known[0][s.input] for s in core.states}
    feeds: list[list[Array]] = []
    expected: list[Mapping[Value, Array]] = []
    for sample in islice(cycle(known), CALLS):
        fed = dict(zip(core.inputs, core.before({**sample, **held}), strict=True))
        results = dict(zip(fetched, plan.run(fed), strict=True))
        feeds.append([fed[v] for v in core.fed])
        expected.append(results)
        # The interpreter's own state goes on: errors of the file add up over the calls, as they would in use.
        held = {s.input: results[s.output] for s in core.states}
    return feeds, expected
