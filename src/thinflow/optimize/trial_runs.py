"""Runs of the main job's models with one sample: whether they run at all, and how fast."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from thinflow.analysis.shapes import infer_shapes
from thinflow.bench.inputs import Feeds, FeedSeries
from thinflow.bench.profile_text import RowProfile, profile_rows
from thinflow.bench.report import BenchmarkReport
from thinflow.device.profiling import profile_rows as profile_there
from thinflow.engines._child import run_file
from thinflow.errors import (
    EngineUnavailable,
    FeedError,
    FormatError,
    NodeError,
    ParameterError,
    ThinflowError,
    UnsupportedOp,
)
from thinflow.interpreter import Plan
from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Graph
from thinflow.ir.order import ancestors
from thinflow.ir.types import TensorSpec
from thinflow.ops import registry
from thinflow.ops._failures import missing_kernel
from thinflow.ops.traits import Trait, has
from thinflow.optimize.core import Core
from thinflow.optimize.job_inputs import JobInputs
from thinflow.optimize.litert import FloatModel
from thinflow.optimize.on_device import race
from thinflow.optimize.samples import Samples, rebind
from thinflow.typing import Array


def require_running(model: FloatModel, samples: Samples) -> None:
    """Refuse a model with a loop in it that LiteRT opens, and then gives up on.

    Raises:
        UnsupportedOp: it does not run on the first sample.
    """
    nodes = model.core.nodes
    loop = next((n for n in nodes if has(n.op, Trait.WHILE) or n.op == "LoopCond"), None)
    if loop is None:
        return
    try:
        # LiteRT may open a file and give up inside of a loop: sizes that change from turn to turn are found
        # only there.
        feeds = [model.core.before(feed) for feed in islice(samples, 1)]
        run_file(model.content, "litert", feeds, name="the .tflite model")
    except EngineUnavailable as error:
        raise UnsupportedOp(
            f"LiteRT does not run the loop: {error.problem.removeprefix('LiteRT failed: ')}",
            loop.where,
            hint="`thinflow run` handles it; variables whose sizes grow from nothing are a common reason",
        ) from error


def require_runnable(graph: Graph, samples: Samples, obstacle: UnsupportedOp) -> None:
    """Refuse a graph that LiteRT has no model for, and that does not run here either.

    Args:
        obstacle: why there is no model.

    Raises:
        UnsupportedOp: the obstacle, caused by what keeps the graph from running.
    """
    failure = why_not_running(graph, samples)
    if failure is not None:
        hint = failure.hint or "`thinflow inspect MODEL --all` shows its nodes"
        raise UnsupportedOp(obstacle.problem, obstacle.where, hint) from failure


def require_ours(failure: ThinflowError, samples: Samples) -> None:
    """Raise a failure again that a user has to mend: of an option, of a file, of samples that do not fit.

    Any other is told in the report: what was made before it is of use.
    """
    if isinstance(failure, ParameterError | FormatError):
        raise failure
    # UnsupportedOp is a NodeError by descent, but it is about the model.
    of_samples = isinstance(failure, FeedError | NodeError) and not isinstance(failure, UnsupportedOp)
    if of_samples and not samples.synthetic:
        raise failure


def why_not_running(graph: Graph, samples: Samples) -> ThinflowError | None:
    """The error that keeps the interpreter from running a graph at all; None if it runs.

    Numbers and text that are made up may not fit a sound graph: what they fail on is no reason.
    """
    try:
        for feed in islice(samples, 1):
            Plan(graph, graph.outputs, graph.inputs).run(dict(feed))
    except ThinflowError as error:
        return None if samples.synthetic and _may_be_the_datas(error, graph) else error
    return None


def unknown_op(graph: Graph) -> UnsupportedOp | None:
    """The error of the first node on the way to the outputs of an op that nothing here knows; None without.

    Such an op is some library's own: the model may be sound, and run where that library is loaded.
    """
    # Functions are taken whole: which of their nodes run may be decided by data.
    needed = ancestors([v.node for v in graph.outputs], stop=frozenset(v.node for v in graph.inputs))
    called = [n for function in graph.functions.values() for n in function.graph]
    for node in (*(n for n in graph if n in needed), *called):
        if node.tensor is None and node.op not in graph.functions and registry.find(node.op) is None:
            return missing_kernel(node)
    return None


def unproven(unknown: UnsupportedOp) -> str:
    """The note for a reader where an op of the graph runs nowhere here."""
    return (
        f"the graph was not run from end to end, as nothing here knows an op in it ({unknown.where}): "
        "transforms were proven piece by piece, and models are judged at their own outputs; "
        f"{unknown.hint.partition(';')[0]}"
    )


def reaches_core(model: FloatModel, samples: Samples) -> bool:
    """True if what the model is fed can be computed from the first sample."""
    try:
        for feed in islice(samples, 1):
            model.core.before(feed)
    except UnsupportedOp:
        return False
    return True


def _may_be_the_datas(error: ThinflowError, graph: Graph) -> bool:
    """True if other numbers could have gone through: nothing in the graph itself is seen to be wrong."""
    if isinstance(error, UnsupportedOp) or not isinstance(error, FeedError | NodeError):
        return False
    if any(isinstance(cause, TypeError) for cause in _causes(error)):
        return False  # inputs have their declared types: an attribute has another one, or an input is missing
    # Shapes that contradict each other are the graph's own fault; inference writes to the copy.
    copy = graph.clone()
    return not infer_shapes(copy, {v: own.spec for v, own in zip(copy.inputs, graph.inputs, strict=True)})


def _causes(error: BaseException) -> Iterator[BaseException]:
    while (cause := error.__cause__) is not None:
        yield cause
        error = cause


@brief_repr
@dataclass(frozen=True)
class FirstSample:
    """Says what each model is fed; see `bench.inputs.FeedsFor`.

    Attributes:
        feeds: path or name of a model -> arrays in the order of its inputs, or by name; others are fed what
            is made up.
        note: where it is from, in words.
    """

    feeds: Mapping[str, Feeds]
    note: str

    def __call__(self, path: str, inputs: Mapping[str, TensorSpec]) -> FeedSeries | None:
        found = self.feeds.get(path)
        return (
            None if found is None else FeedSeries((found,), text=self.note or "made up for the whole graph")
        )


def first_sample(job: JobInputs, cores: Mapping[Path, Core], graphs: Sequence[str] = ()) -> FirstSample:
    """The first of a job's samples for each model.

    Args:
        cores: path of a model -> the part of a graph that it holds.
        graphs: names under which whole graphs are measured.
    """
    feeds: dict[str, Feeds] = {}
    for path, core in cores.items():
        arrays = _core_inputs(core, rebind(job.data, job.graph, core.graph))
        if arrays is not None:
            feeds[str(path)] = arrays
    for name in graphs:
        first = next(iter(job.data), None)
        if first is not None:
            feeds[name] = {value.name: array for value, array in first.items()}
    return FirstSample(feeds, "" if job.data.synthetic else f"the first of {job.data.note}")


def _core_inputs(core: Core, samples: Samples) -> list[Array] | None:
    """The inputs of a core for the first sample; None if it does not get there, being made up."""
    try:
        first = next(iter(samples), None)
        if first is None:
            return None
        # States are no inputs of the file.
        fed = set(core.fed)
        return [a for v, a in zip(core.inputs, core.before(first), strict=True) if v in fed]
    except ThinflowError:
        return None


def timed(job: JobInputs, models: Any, feeds: FirstSample, **more: Any) -> tuple[BenchmarkReport | None, str]:
    """Latency of models with the first sample if that was chosen, and what disturbed it; or None, and why
    nothing was timed.
    """
    options = job.options
    if not (options.measure and options.seconds):
        return None, ""
    # As long on each of several devices as on one.
    seconds = options.seconds * max(1, len(options.devices))
    more |= {"threads": options.threads, "seconds": seconds, "progress": options.progress}
    try:
        found = race(options.devices, models, feeds=feeds, **more)
    except ThinflowError as error:
        return None, f"nothing was timed: {error.message}"
    return found, found.disturbance


_MOST_RUNS, _FEWEST_RUNS = 20, 3
_SHARE = 0.25
"""Of the time for measuring that the runs of a profile take, each with its warm-up."""


def profiled(
    job: JobInputs, latency: BenchmarkReport | None, files: Sequence[Path], feeds: FirstSample
) -> list[RowProfile]:
    """Times of the operators of some of the files that were timed, with the first number of threads.

    Args:
        latency: of all files; None if nothing was timed.
        files: those to profile.
    """
    if latency is None or latency.interrupted:
        return []
    device = job.options.device
    if device is not None:
        rows = tuple(row for path in files if (row := latency.timing(path)) is not None)
        asked = replace(latency, rows=rows)
        return profile_there(asked, [device], progress=job.options.progress, feeds=feeds)
    threads = job.options.threads[0]
    found = (latency.timing(path, threads=threads) for path in files)
    rows = tuple(row for row in found if row is not None)
    slowest = max((row.median_ms for row in rows), default=0.0)
    runs = int(_SHARE * job.options.seconds * 1000 / max(len(rows) * slowest, 1e-3))
    # What takes so long that a few runs would double the time of the job is left out.
    if runs < _FEWEST_RUNS:
        return []
    return profile_rows(
        replace(latency, rows=rows),
        progress=job.options.progress,
        runs=min(runs, _MOST_RUNS),
        warmup=1,
        feeds=feeds,
    )
