"""What the main job times its models with: the first sample, as it comes to each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thinflow.bench.feeding import Feeds
from thinflow.bench.latency import BenchmarkReport
from thinflow.errors import ThinflowError
from thinflow.ir.brief import brief_repr
from thinflow.ir.types import TensorSpec
from thinflow.optimize.core import Core
from thinflow.optimize.finishing import measured
from thinflow.optimize.samples import Samples, rebind
from thinflow.optimize.task import Task
from thinflow.typing import Array


@brief_repr
@dataclass(frozen=True)
class FirstSample:
    """Says what each model is fed; see `bench.feeding.FeedsFor`.

    Attributes:
        feeds: path or name of a model -> arrays in the order of its inputs, or by name; others are fed what
            is made up.
        note: where it is from, in words.
    """

    feeds: Mapping[str, Feeds]
    note: str

    def __call__(self, path: str, inputs: Mapping[str, TensorSpec]) -> Feeds | None:
        return self.feeds.get(path)


def first_sample(task: Task, cores: Mapping[Path, Core], graphs: Sequence[str] = ()) -> FirstSample:
    """The first of a task's samples for each model.

    Args:
        cores: path of a model -> the part of a graph that it holds.
        graphs: names under which whole graphs are measured.
    """
    feeds: dict[str, Feeds] = {}
    for path, core in cores.items():
        arrays = _core_inputs(core, rebind(task.data, task.graph, core.graph))
        if arrays is not None:
            feeds[str(path)] = arrays
    for name in graphs:
        first = next(iter(task.data), None)
        if first is not None:
            feeds[name] = {value.name: array for value, array in first.items()}
    return FirstSample(feeds, "" if task.data.synthetic else f"the first of {task.data.note}")


def _core_inputs(core: Core, samples: Samples) -> list[Array] | None:
    """What the first sample becomes in front of a core; None if it does not get there, being made up."""
    try:
        first = next(iter(samples), None)
        if first is None:
            return None
        fed = set(core.fed)
        return [a for v, a in zip(core.inputs, core.before(first), strict=True) if v in fed]
    except ThinflowError:
        return None


def timed(task: Task, models: Any, feeds: FirstSample, **options: Any) -> tuple[BenchmarkReport | None, str]:
    """Latency of models with the first sample if that was chosen, and what disturbed it; or None, and why
    nothing was timed.
    """
    choices = task.choices
    if not (choices.measure and choices.seconds):
        return None, ""
    limits = {"threads": choices.threads, "seconds": choices.seconds, "progress": choices.progress}
    found, why = measured(models, feeds=feeds, **limits, **options)
    return found, why or (found.disturbance if found is not None else "")
