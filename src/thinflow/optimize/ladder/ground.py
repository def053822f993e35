"""The ground of a climb: what every candidate is made from and judged by."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Generic, Protocol

from thinflow.bench.machine import this_machine
from thinflow.ir.digest import graph_digest
from thinflow.ir.graph import Graph
from thinflow.optimize.job_inputs import JobInputs
from thinflow.optimize.ladder.store import digest_of, samples_digest
from thinflow.optimize.maker import M, ModelMaker, Q
from thinflow.optimize.samples import Samples


class Again(Protocol):
    """How another process opens the same ground."""

    def opened(self) -> Ground[Any, Any]:
        """The ground there."""


@dataclass(frozen=True)
class Ground(Generic[M, Q]):
    """What every candidate is made from and judged by.

    Attributes:
        make: a maker of models by effort.
        model: the float one, proven.
        job: inputs of the main job.
        calibration, evaluation: samples for the model's graph.
        end_to_end: as for `compare_models`.
        again: how another process opens it; None where something of it is in memory.
    """

    make: Callable[[str], ModelMaker[M, Q]]
    model: M
    job: JobInputs
    calibration: Samples
    evaluation: Samples
    end_to_end: bool
    again: Again | None = None

    @property
    def original(self) -> Graph:
        return self.job.graph

    @property
    def is_timed(self) -> bool:
        """True if latency is to be measured; devices run LiteRT alone."""
        options = self.job.options
        if options.device is not None and self.make("none").suffix != ".tflite":
            return False
        return options.measure and options.seconds > 0

    @property
    def target(self) -> str:
        """The processor that the model is to be C for; "" for none."""
        budget = self.job.options.budget
        return "" if budget is None else budget.target

    @property
    def ram_bytes(self) -> float | None:
        """The memory that C on the target may take; None for any."""
        budget = self.job.options.budget
        return budget.ram_bytes if budget is not None and budget.target else None

    def about(self) -> Iterator[str]:
        """What all results depend on."""
        yield from self.about_answers()
        yield f"{self.is_timed} {self.job.options.threads[0]}"
        device = self.job.options.device
        yield str(this_machine() if device is None else device.facts) if self.is_timed else ""

    def about_answers(self) -> Iterator[str]:
        """What sizes and answers depend on, and times do not alone."""
        yield digest_of(self.model.content)
        yield graph_digest(self.original)
        yield samples_digest(self.calibration)
        yield samples_digest(self.evaluation)
        yield from map(_version_of, ("ai-edge-litert", "onnxruntime"))
        yield f"{self.end_to_end}"
        # In less memory the same model is other C.
        yield self.target if self.ram_bytes is None else f"{self.target} in {self.ram_bytes:.0f}"


def _version_of(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
