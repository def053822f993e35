"""The examination of samples before a model is quantized: what the calibration doctor is shown, and says."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import numpy as np

from thinflow.analysis.cost import graph_cost
from thinflow.analysis.interface import is_class_scores
from thinflow.analysis.shapes import declared_spec, infer_shapes
from thinflow.errors import ThinflowError
from thinflow.ir.graph import Graph
from thinflow.onnx.program import Program as OnnxProgram
from thinflow.optimize.climb import Goal, judged_db
from thinflow.optimize.converted import ConvertedModel
from thinflow.optimize.first_norm import Gap, first_norm
from thinflow.optimize.optimized_graph import LOOKED_AT
from thinflow.optimize.quality import is_ranked
from thinflow.optimize.quantized import SmallerModel
from thinflow.optimize.samples import Samples, one_sample
from thinflow.optimize.stated_usage import usage_of
from thinflow.program.model import Tensor
from thinflow.quantize.calibrate import opened
from thinflow.quantize.doctor import findings
from thinflow.quantize.doctor.exam import Change, Exam, Extremes, changed_input, holds_numbers
from thinflow.quantize.doctor.findings import Finding
from thinflow.quantize.recipe import Recipe
from thinflow.quantize.rescale import UNEQUAL, unlikeness
from thinflow.quantize.runners import Feed
from thinflow.tflite.model import Program
from thinflow.typing import Array

logger = logging.getLogger(__name__)

MOST, FEWEST = 64, 8
"""Samples that are looked at."""
# A run of MobileNet v2, 0.6 GFLOP, takes 0.1 s where every tensor is kept: eight of these, and
# plain ones, are done in two seconds.
_OPERATIONS = 5e9
"""Operations of all runs together, beyond which fewer samples are looked at."""
_FEW = 8
"""Samples that tell whether answers are scores of classes."""
_JUDGES = 16
"""Samples to judge on that are looked at."""


def examine(
    model: ConvertedModel[Any],
    original: Graph,
    data: tuple[Samples, Samples],
    tested: Samples,
    recipe: Recipe,
) -> list[Finding]:
    """What the calibration doctor finds in samples, before anything is quantized.

    Args:
        model: the float one.
        original: the graph as it was opened, its batch norms not folded yet.
        data: samples for the original graph, and the same for the model's.
        tested: samples to judge on, for the model's graph; those of `data` if there are no others.
    """
    try:
        return examined(model, original, data, tested, recipe)
    # Whatever cannot be run here is refused with its own words where it is needed.
    except ThinflowError as error:
        logger.debug("samples were not examined: %s", error.message)
        return []


def examined(
    model: ConvertedModel[Any],
    original: Graph,
    data: tuple[Samples, Samples],
    tested: Samples,
    recipe: Recipe,
) -> list[Finding]:
    """The same, for those who want to know of what keeps it from looking.

    Raises:
        ThinflowError: something cannot be run.
    """
    given, samples = data
    exam = _exam(model, samples, tested, recipe)
    exam.norm_gap = None if given.synthetic else _norm_gap(original, given)
    exam.usage = usage_of(original)
    found = findings(exam)
    # Of pictures that go in with a wrong range `picture_warnings` tells.
    if given.scaling is None or exam.norm_gap is None or not any(f.check == "scale" for f in found):
        return found
    gap = exam.norm_gap(lambda x: x)
    is_told = gap is not None and Gap(*gap).is_far
    return [finding for finding in found if not (is_told and finding.check == "scale")]


def _norm_gap(graph: Graph, samples: Samples) -> Callable[[Change], Gap | None] | None:
    """What the first batch norm of a graph sees of samples with something done to them."""
    norm = first_norm(graph)
    if norm is None:
        return None
    feeds = list(islice(samples, LOOKED_AT))

    def gap(change: Change) -> Gap | None:
        def changed(array: Array) -> Array:
            return changed_input(array, change) if holds_numbers(array) else array

        return norm.gap({v: changed(a) for v, a in feed.items()} for feed in feeds)

    return gap


def _exam(model: ConvertedModel[Any], samples: Samples, tested: Samples, recipe: Recipe) -> Exam:
    numbers = _numbers(samples.count, _count(model))
    # What sets ranges alone may be the one sample that was not drawn.
    if samples.loudest is not None and samples.count is not None:
        numbers = sorted({*numbers, samples.loudest})
    feeds = _chosen(model, samples, numbers)
    labels = samples.given_labels
    runtime = model.open(model.content, threads=2)

    def run(wanted: Sequence[Feed]) -> list[Array]:
        return [runtime.run(list(feed.values()))[0] for feed in wanted]

    exam = Exam(
        feeds,
        run,
        places=[samples.place(number) for number in numbers[: len(feeds)]],
        count=samples.count,
        labels=None if labels is None else [labels[number] for number in numbers],
        synthetic=samples.synthetic,
    )
    if not exam.is_enough:
        return exam
    if tested is not samples and not tested.synthetic:
        exam.judges = _chosen(model, tested, _numbers(tested.count, _JUDGES))
    is_scored = samples.labels is not None or is_class_scores(model.core.outputs[0])
    exam.ranked = is_scored and _ranks(run(feeds[:_FEW]), is_labelled=samples.labels is not None)
    if recipe.needs_samples:
        exam.extremes_of = lambda wanted: extremes(model.program, wanted)
        exam.noise = lambda fitting, judging: judged_db(Goal(model.program, {}), fitting, judging, recipe)
    return exam


def _ranks(answers: Sequence[Array], *, is_labelled: bool) -> bool:
    """True for vectors of scores; numbers of several kinds, such as a price and an age, are none."""
    if not is_ranked(answers[0]) or is_labelled:
        return is_ranked(answers[0])
    rows = np.concatenate([np.asarray(a, np.float64).reshape(1, -1) for a in answers])
    are_shares = bool((rows >= 0).all()) and np.allclose(rows.sum(1), 1, atol=1e-3)
    return are_shares or unlikeness(np.abs(rows).mean(0)) <= UNEQUAL


def _count(model: ConvertedModel[Any]) -> int:
    """The number of samples that can be run in a second or two."""
    # Of a copy, for one sample: an open batch has no cost, and inference writes shapes into the graph.
    graph = model.core.graph.clone()
    infer_shapes(graph, {value: one_sample(declared_spec(value)) for value in graph.inputs})
    operations = graph_cost(graph).total.flops
    return int(np.clip(_OPERATIONS / max(operations, 1), FEWEST, MOST))


def _numbers(count: int | None, most: int) -> list[int]:
    """Numbers of at most so many samples, evenly spread; the first ones where nobody knows how many come."""
    if count is None or count <= most:
        return list(range(most if count is None else count))
    return [int(n) for n in np.linspace(0, count - 1, most)]


def _chosen(model: ConvertedModel[Any], samples: Samples, numbers: Sequence[int]) -> list[dict[str, Array]]:
    """The samples of some numbers, as the model takes them."""
    return list(model.feeds(list(samples.some(numbers))))


def extremes(program: Program | OnnxProgram, feeds: Sequence[Feed]) -> Extremes:
    """The extremes of each activation for each sample, in a float program."""
    runner, tensors = opened(program, 2)
    low = np.full((len(tensors), len(feeds)), np.nan)
    high = low.copy()
    peaks: dict[Tensor, Array] = {}
    axis = 1 if isinstance(program, OnnxProgram) else -1
    for number, feed in enumerate(feeds):
        runner.run(feed, f"sample {number}")
        for row, tensor in enumerate(tensors):
            low[row, number], high[row, number], peak = _look(runner.view(tensor), axis)
            if peak is not None:
                peaks[tensor] = np.maximum(peaks.get(tensor, peak), peak)
    low[~np.isfinite(low)] = high[~np.isfinite(high)] = np.nan
    names = [tensor.name for tensor in tensors]
    clamped = [t for row, t in enumerate(tensors) if t in peaks and not (low[row] < 0).any()]
    return Extremes(low, high, names, {t.name: float((peaks[t] == 0).mean()) for t in clamped})


def _look(values: Array, axis: int) -> tuple[float, float, Array | None]:
    """The extremes of a tensor, and of each channel of what a clamp may have written; keeps no view of it."""
    if not values.size:
        return np.nan, np.nan, None
    low, high = float(values.min()), float(values.max())
    # What a clamp writes has no negative numbers, and zeros as a rule.
    if low != 0 or values.ndim < 2:
        return low, high, None
    others = tuple(a for a in range(values.ndim) if a != axis % values.ndim)
    return low, high, values.max(axis=others)


def attach(made: SmallerModel[Any], found: Sequence[Finding]) -> None:
    """Tell findings with a smaller model: what warns goes before its own warnings."""
    made.findings = list(found)
    made.warnings[:0] = [finding.text for finding in found if finding.warns]
