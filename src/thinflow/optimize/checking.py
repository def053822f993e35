"""Models beside the graph they were made from: that they answer alike, and how well."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from itertools import islice

from thinflow.analysis.interface import is_class_scores
from thinflow.analysis.loops import infer_with_loops
from thinflow.analysis.narrow_floats import usual_tolerance
from thinflow.compare.differences import difference
from thinflow.engines import onnxruntime
from thinflow.engines._child import TIMEOUT_SECONDS, run_file
from thinflow.engines.litert import Model
from thinflow.errors import ThinflowError, VerificationError
from thinflow.interpreter import Plan
from thinflow.ir.counterparts import counterparts
from thinflow.ir.graph import Graph, Value
from thinflow.ir.states import without_states
from thinflow.lower.lowering import needed_nodes
from thinflow.optimize.angles import same_turn
from thinflow.optimize.batch_sizes import HasCore, doubled, several, told
from thinflow.optimize.codes import check_codes, holds_codes
from thinflow.optimize.core import Core
from thinflow.optimize.core_feeds import core_feeds, core_results
from thinflow.optimize.coverage import WHOLE
from thinflow.optimize.float_model import FloatModel, float_model
from thinflow.optimize.quality import Quality, QualityMeter, is_ranked
from thinflow.optimize.samples import Samples, as_declared
from thinflow.optimize.spare_rows import counts_of, written
from thinflow.typing import Array, Progress

logger = logging.getLogger(__name__)


FLOAT_TOLERANCE = 1e-3
"""How far LiteRT's float answer may be from the interpreter's, relative to the largest value."""
CODES_TOLERANCE = 0.25
"""The same for graphs with eight-bit codes, whose roundings add up. Other samples are farther away."""


def float_tolerance(core: Core) -> float:
    """`FLOAT_TOLERANCE`, or more where the core computes in floats of fewer digits."""
    return max(FLOAT_TOLERANCE, usual_tolerance(core.graph)[0])


_INTERPRETED, _AT_ITS_ENDS = "the part with the rest interpreted", "the part at its own ends"
_RANDOM = ("Random", "Multinomial", "TruncatedNormal", "ParameterizedTruncatedNormal", "StatelessRandom")


def check_float_model(
    model: FloatModel,
    samples: Samples,
    *,
    count: int = 3,
    path: str | None = None,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> float:
    """Run the LiteRT model beside the interpreter on some samples; the largest relative difference.

    LiteRT runs in a child process. Of a graph with eight-bit codes each op is judged by itself, on one
    sample: see `codes`.

    Args:
        model: what to check.
        samples: for the whole graph.
        count: how many of them.
        path: the file to run; default the program in memory.
        timeout_seconds: for LiteRT, all samples together.

    Raises:
        VerificationError: above `float_tolerance`.
        UnprovenError: the graph itself does not run on made-up samples.
        EngineCrashed: LiteRT crashed, or took longer.
    """
    core = model.core
    return _difference(model, core_feeds(core, samples, count), samples, path, timeout_seconds)


def _difference(
    model: FloatModel,
    feeds: Sequence[Sequence[Array]],
    samples: Samples,
    path: str | None,
    timeout_seconds: float,
    *,
    judge_codes: bool = True,
) -> float:
    """How far LiteRT's answers are from the interpreter's; see `check_float_model`.

    Args:
        feeds: of the core.
        judge_codes: whether each op of a graph with eight-bit codes is judged by itself.
    """
    core = model.core
    fetched = list(dict.fromkeys([*core.outputs, *counts_of(core.outputs).values()]))
    plan = Plan(core.graph, fetched, core.inputs, within=frozenset(core.nodes))
    computed = core_results(plan, core, feeds, samples)
    runs = run_file(
        path or model.content, "litert", feeds, timeout_seconds=timeout_seconds, name="the .tflite model"
    )
    tolerance = float_tolerance(core)
    if holds_codes(core.nodes) and feeds:
        if judge_codes:
            check_codes(core.graph, core.nodes, core.inputs, feeds[0], timeout_seconds)
        tolerance = float("inf") if judge_codes else CODES_TOLERANCE
    pairs = zip(computed, runs, strict=True)
    return max(
        (farthest(core, dict(zip(fetched, a, strict=True)), b, tolerance) for a, b in pairs), default=0.0
    )


def why_one_batch(
    model: FloatModel,
    samples: Samples,
    *,
    path: str | None = None,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> str:
    """Why a model with an open batch does not answer for two samples at once as the graph does; "" if it
    does, or if its batch is not open.

    Args:
        model, samples, path, timeout_seconds: as for `check_float_model`.
    """
    if not model.is_open:
        return ""
    with told() as why:
        _difference(model, [several(model.core, samples)], samples, path, timeout_seconds, judge_codes=False)
    return "".join(why)


def open_or_fixed(graph: Graph, samples: Samples) -> FloatModel:
    """The float model of a graph, with an open batch if it answers for one sample and for two as the graph
    does; else with that of one sample. Arguments and errors as those of `float_model`.

    Sizes beyond the batch that nobody knows, as samples are made up too, stay open where that works.
    """
    if samples.synthetic and not graph.states and (free := _with_free_sizes(graph, samples)) is not None:
        return free
    model = float_model(graph, samples)
    why = why_one_batch(model, samples)
    return float_model(graph, samples, fixed=why) if why else model


def _with_free_sizes(graph: Graph, samples: Samples) -> FloatModel | None:
    """A model of the whole graph that leaves open what the graph does, such as the steps of a recurrent net,
    and answers as the graph does for one choice of these sizes and for twice those.

    None if there is no such model, or nothing is open but the batch.
    """
    before = {v: v.spec for v in graph.inputs}
    if not any(spec.shape and None in spec.shape[1:] for spec in before.values()):
        return None
    first = next(iter(samples))
    try:
        model = float_model(graph, samples, settle=False)
        if not model.fixed and model.coverage.kind == WHOLE:
            feeds = [model.core.before(feed) for feed in (first, doubled(first))]
            _difference(model, feeds, samples, None, TIMEOUT_SECONDS)
            if not why_one_batch(model, samples):
                return model
    except ThinflowError as error:
        logger.debug("sizes are settled: %s", error.message)
    infer_with_loops(graph, before)
    return None


def farthest(
    core: Core,
    expected: Mapping[Value, Array],
    found: Sequence[Array],
    tolerance: float,
    values: Sequence[Value] | None = None,
) -> float:
    """The largest relative difference of a core's outputs for one sample.

    Args:
        core: whose outputs.
        expected: by the interpreter; with the numbers that tell which rows of an output are to spare.
        found: by LiteRT, one array for each output.
        tolerance: how large it may be.
        values: which of them were found; default: all.

    Raises:
        VerificationError: it is larger.
    """
    counts = {v: expected[number] for v, number in counts_of(core.outputs).items() if number in expected}
    worst = 0.0
    for value, b in zip(core.outputs if values is None else values, found, strict=True):
        a = expected[value]
        pair = a, same_turn(value, a, b.reshape(a.shape) if a.size == b.size == 1 else b)
        apart = difference(*(written(array, value, counts) for array in pair))
        if _is_random(value, core):
            continue
        if apart.relative > tolerance:
            raise VerificationError(
                f"the LiteRT model gives {apart.after} for '{value.name}'{list(apart.index)}, "
                f"the graph {apart.before}",
                hint="please report this with the model; engine='reference' gives the right answer",
            )
        worst = max(worst, apart.relative)
    return worst


def _is_random(value: Value, core: Core) -> bool:
    """Whether random numbers are part of a value: no two runtimes draw the same."""
    return any(node.op.startswith(_RANDOM) for node in needed_nodes([value], core.inputs))


def compare_models(
    model: HasCore,
    contents: Mapping[str, bytes],
    original: Graph,
    samples: Samples,
    *,
    threads: int = 2,
    engine: str = "litert",
    progress: Progress | None = None,
    end_to_end: bool = True,
) -> dict[str, Quality]:
    """Quality of models (by name) for a runtime beside the original graph in the interpreter, end to end on
    all samples; or at the models' own ends, where the rest of the graph cannot run.

    Where the original has the same core inputs, what stands before the core runs once per sample.

    Raises:
        EngineCrashed: the runtime crashed or hung on the first sample, which a child process tries first.
    """
    for name, content in contents.items():
        first = [model.core.before(feed) for feed in islice(samples, 1)]
        run_file(content, engine, first, threads=threads, name=f"the {name} model")
    made = onnxruntime.Model if engine == "onnxruntime" else Model.as_it_says
    runtimes = {name: made(content, threads=threads) for name, content in contents.items()}
    core = model.core
    judged = original if end_to_end else core.graph
    read = original.outputs if end_to_end else core.outputs
    plan = Plan(judged, read, original.inputs if end_to_end else judged.inputs)
    twins = counterparts(core.graph.inputs, judged.inputs, judged)
    fed = dict(zip(core.graph.inputs, twins, strict=True))
    meters: dict[str, QualityMeter] = {}
    shown = [i for i, v in enumerate(read) if v in without_states(judged, read)]
    for number, feed in enumerate(samples):
        before = plan.run({(to := fed.get(v, v)): as_declared(to, a) for v, a in feed.items()})
        arrays = core.before(feed)
        for name, runtime in runtimes.items():
            results = runtime.run(arrays)
            after = core.after(results, feed) if end_to_end else results
            if name not in meters:
                meters[name] = QualityMeter(samples.labels, ranked=_is_ranked(read, before, samples))
            meters[name].add([before[i] for i in shown], [after[i] for i in shown])
        if progress is not None:
            progress(number + 1, samples.count or 0, "comparing answers")
    qualities = {name: meter.result() for name, meter in meters.items()}
    for quality in qualities.values():
        quality.outputs = tuple(read[i].name for i in shown)
        if model.coverage.is_part:
            quality.part = _INTERPRETED if end_to_end else _AT_ITS_ENDS
    return qualities


def _is_ranked(values: Sequence[Value], outputs: Sequence[Array], samples: Samples) -> bool:
    """Whether the first output has a top answer: a vector that labels or the graph say holds scores."""
    if not outputs or not is_ranked(outputs[0]):
        return False
    return samples.labels is not None or is_class_scores(values[0])
