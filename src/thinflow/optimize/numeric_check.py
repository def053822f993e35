"""Numeric check of converted models: a runtime's answers beside the interpreter's, also call after call."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import cycle, islice
from typing import Any

import numpy as np

from thinflow.analysis.precision import RUNTIMES_TOLERANCE, usual_tolerance
from thinflow.compare.differences import computed_by, difference, size_of
from thinflow.engines._child import TIMEOUT_SECONDS, run_file
from thinflow.errors import FeedError, ThinflowError, UnsupportedOp, VerificationError
from thinflow.interpreter import Plan
from thinflow.ir.graph import Node, Value
from thinflow.optimize.converted import ConvertedModel, batch_failure, core_feeds, core_results, several
from thinflow.optimize.core import Core
from thinflow.optimize.coverage import coverage_of
from thinflow.optimize.eight_bit_check import check_codes, holds_codes, is_repeatable
from thinflow.optimize.samples import Samples
from thinflow.typing import Array

CODES_TOLERANCE = 0.25
"""The relative distance of a runtime's answer from the interpreter's for graphs with eight-bit codes, whose
roundings add up. Other samples are farther away."""
_DETECTION = "TFLite_Detection_PostProcess"
# The outputs of this custom op are boxes, classes, scores and the number of detections, in this order.
_DETECTION_COUNT = 3
"""The output of a detector with the number of boxes; those before it have a row for each, and spare ones."""


def float_tolerance(core: Core) -> float:
    """The usual one, or more where the core computes in floats of fewer digits, or on a file's grids."""
    source = core.graph.source
    if source is not None and source.has_codes and any(n.op.startswith("FakeQuant") for n in core.nodes):
        # What one runtime rounds up another rounds down, a whole step of the grid away.
        return CODES_TOLERANCE
    return usual_tolerance(core.graph)[0]


def check_model(
    model: ConvertedModel[Any],
    samples: Samples,
    *,
    count: int = 3,
    file: str | None = None,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> float:
    """Run a model beside the interpreter on some samples; the largest relative difference.

    The runtime runs in a child process. Of a graph with eight-bit codes each op is judged by itself, on one
    sample: see `eight_bit_check`.

    Args:
        model: what to check.
        samples: for the whole graph.
        count: how many of them.
        file: path of the file to run; default: the program in memory.
        timeout_seconds: for the runtime, all samples together.

    Raises:
        VerificationError: above `float_tolerance`.
        UnprovenError: the graph itself does not run on made-up samples.
        EngineUnavailable, EngineCrashed: the runtime is missing, refuses the model, crashed, or took longer.
    """
    feeds = core_feeds(model.core, samples, count)
    return largest_difference(model, feeds, samples, file, timeout_seconds)


def why_one_batch(
    model: ConvertedModel[Any],
    samples: Samples,
    *,
    file: str | None = None,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> str:
    """The reason why a model with an open batch does not answer for two samples at once as the graph does;
    "" if it does, or if its batch is not open.

    Args:
        model, samples, file, timeout_seconds: as for `check_model`.
    """
    if not model.is_open:
        return ""
    with batch_failure() as why:
        feeds = [several(model.core, samples)]
        largest_difference(model, feeds, samples, file, timeout_seconds, by_op=False)
    return "".join(why)


def check_alone_and_together(
    model: ConvertedModel[Any],
    samples: Samples,
    *,
    file: str | None = None,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> tuple[float, str]:
    """What `check_model` gives for one sample, and what `why_one_batch` does; one child runs both.

    Args:
        model, samples, file, timeout_seconds: as for `check_model`.
    """
    alone = core_feeds(model.core, samples, 1)
    together: list[list[Array]] = []
    with batch_failure() as why:
        together += [several(model.core, samples)] if model.is_open else []
    if not together:
        return largest_difference(model, alone, samples, file, timeout_seconds), "".join(why)
    answers: list[list[Array]] | None = None
    # Where the runtime fails, each is run by itself below, which tells for which it does.
    with suppress(ThinflowError):
        answers = _answers(model, [*alone, *together], file, timeout_seconds)
    first, rest = (None, None) if answers is None else (answers[:-1], answers[-1:])
    apart = largest_difference(model, alone, samples, file, timeout_seconds, answers=first)
    with batch_failure() as why:
        largest_difference(model, together, samples, file, timeout_seconds, by_op=False, answers=rest)
    return apart, "".join(why)


def largest_difference(
    model: ConvertedModel[Any],
    feeds: Sequence[Sequence[Array]],
    samples: Samples,
    file: str | None = None,
    timeout_seconds: float = TIMEOUT_SECONDS,
    *,
    by_op: bool = True,
    answers: list[list[Array]] | None = None,
) -> float:
    """The largest relative difference between a runtime's answers and the interpreter's; see `check_model`.

    Args:
        feeds: of the core.
        by_op: whether each op of a graph with eight-bit codes is judged by itself.
        answers: the runtime's for each feed, where they are known.
    """
    core, tolerance = model.core, float_tolerance(model.core)
    # The numbers of boxes too, even if the model does not give them: they tell which rows are filled.
    fetched = list(dict.fromkeys([*core.outputs, *detection_counts(core.outputs).values()]))
    plan = Plan(core.graph, fetched, core.inputs, within=frozenset(core.nodes))
    computed = core_results(plan, core, feeds, samples)
    runs = _answers(model, feeds, file, timeout_seconds) if answers is None else answers
    if holds_codes(core.nodes) and feeds:
        if by_op:
            ends, limit = (core.outputs, tolerance) if model.keeps_measured_codes else ((), math.inf)
            options: dict[str, Any] = {"engine": model.engine, "ends": ends, "tolerance": limit}
            check_codes(core.graph, core.nodes, core.inputs, feeds[0], timeout_seconds, **options)
        # Ops that were judged one by one need no limit for the whole, which rounding may move far.
        tolerance = math.inf if by_op else CODES_TOLERANCE
    pairs = zip(computed, runs, strict=True)
    return max(
        (farthest(model, dict(zip(fetched, a, strict=True)), b, tolerance) for a, b in pairs), default=0.0
    )


def _answers(
    model: ConvertedModel[Any], feeds: Sequence[Sequence[Array]], file: str | None, timeout_seconds: float
) -> list[list[Array]]:
    """The runtime's answers, from a child."""
    content = model.content if file is None else file
    name = f"the {model.suffix} model"
    return run_file(content, model.engine, feeds, timeout_seconds=timeout_seconds, name=name)


def farthest(
    model: ConvertedModel[Any],
    expected: Mapping[Value, Array],
    found: Sequence[Array],
    tolerance: float,
    values: Sequence[Value] | None = None,
) -> float:
    """The largest relative difference of a model's outputs for one sample.

    Args:
        model: whose outputs.
        expected: by the interpreter; with the numbers of valid detections.
        found: by the runtime, one array for each output.
        tolerance: how large it may be.
        values: which of them were found; default: all.

    Raises:
        VerificationError: it is larger.
    """
    core = model.core
    counts = {
        v: expected[number] for v, number in detection_counts(core.outputs).items() if number in expected
    }
    worst = 0.0
    for value, answer in zip(core.outputs if values is None else values, found, strict=True):
        a = expected[value]
        if not a.size and answer.shape != a.shape:
            raise VerificationError(
                f"'{value.name}' is empty for inputs of this size, {list(a.shape)},"
                f" which {model.runtime} cannot give",
                hint="a window of a pool or convolution does not fit into its input: choose larger sizes",
            )
        b = unwrap_angles(value, a, model.as_expected(answer, a))
        both = (valid_detections(array, value, counts) for array in (a, b))
        apart = difference(*both, least_size=size_of(value))
        if not is_repeatable(value, core.inputs):  # no two runtimes draw the same numbers
            continue
        if apart.relative > tolerance:
            raise VerificationError(
                f"the {model.runtime} model gives {apart.after} for '{value.name}'{list(apart.index)}, "
                f"the graph {apart.before}",
                hint="please report this with the model; engine='reference' gives the right answer",
            )
        worst = max(worst, apart.relative)
    return worst


def is_angle(value: Value) -> bool:
    """True if a value holds angles as they come out of an op, at most moved about.

    Of a direction on the negative real axis one runtime says -pi and another pi, by the sign of a zero.
    """
    return computed_by(value).op in ("Angle", "Atan2")


def unwrap_angles(value: Value, expected: Array, found: Array) -> Array:
    """`found` [...], angles with whole turns added that put them next to `expected` [...]."""
    if expected.shape != found.shape or expected.dtype.kind != "f" or not is_angle(value):
        return found
    with np.errstate(invalid="ignore"):
        # Whole turns only: a wrong angle stays as wrong as it was.
        turns = np.rint((expected.astype(np.float64) - found) / (2 * np.pi))
    turns = np.where(np.isfinite(turns), turns, 0)
    return np.asarray(found + turns * 2 * np.pi, found.dtype)


def detection_counts(outputs: Sequence[Value]) -> dict[Value, Value]:
    """The outputs with rows to spare, each with the value that counts its boxes."""
    spare = (v for v in outputs if v.node.op == _DETECTION and v.port < _DETECTION_COUNT)
    return {v: v.node.output(_DETECTION_COUNT) for v in spare}


def valid_detections(array: Array, value: Value, counts: Mapping[Value, Array]) -> Array:
    """The part of an output [1,m,...] that LiteRT writes, a view: all of it, but for rows to spare.

    Behind the last box a detector leaves what its memory held.

    Args:
        array: the output.
        value: whose it is.
        counts: number of boxes [1] by output, for those with rows to spare.
    """
    if value not in counts or array.ndim < 2:
        return array
    return array[:, : int(counts[value].reshape(-1)[0]) * _rows_per_box(value.node)]


def _rows_per_box(node: Node) -> int:
    """The rows of a box: one where each class suppresses its own; else one for each of its best classes."""
    if node.attrs.get("use_regular_nms", False):
        return 1
    best, classes = (node.attrs.get(key, 1) for key in ("max_classes_per_detection", "num_classes"))
    assert isinstance(best, int), "the interpreter has run it"
    assert isinstance(classes, int), "the interpreter has run it"
    return min(best, classes)


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
    tolerance: float = RUNTIMES_TOLERANCE,
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
