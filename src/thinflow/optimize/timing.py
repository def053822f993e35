"""Timing of the main job's models with the first sample, as it comes to each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thinflow.bench.inputs import Feeds
from thinflow.bench.latency import BenchmarkReport, benchmark
from thinflow.errors import ThinflowError
from thinflow.ir.brief import brief_repr
from thinflow.ir.types import TensorSpec
from thinflow.optimize.core import Core
from thinflow.optimize.job_inputs import JobInputs
from thinflow.optimize.samples import Samples, rebind
from thinflow.typing import Array


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

    def __call__(self, path: str, inputs: Mapping[str, TensorSpec]) -> Feeds | None:
        return self.feeds.get(path)


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
    more |= {"threads": options.threads, "seconds": options.seconds, "progress": options.progress}
    try:
        # peaks: the machine's limits are no part of this report.
        found = benchmark(models, feeds=feeds, peaks=False, **more)
    except ThinflowError as error:
        return None, f"nothing was timed: {error.message}"
    return found, found.disturbance
