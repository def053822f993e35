"""The main job on one model of a collection."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from thinflow.errors import ThinflowError
from thinflow.optimize.verdict import GraphResults, JobResults, PairResults, kept_source, shipped, verdict_of
from thinflow.survey.units import Unit

RUN = (".tflite", ".onnx")
"""Suffixes of files that a device's runtime runs: the others are for whoever has TensorFlow."""
# What stands behind a name in a message: the same cause at another node is the same cause.
_NAMED = re.compile(r"'[^']*'|\d[\d.,]*")


@dataclass(frozen=True)
class Job:
    """The main job, and what it is told.

    Attributes:
        optimize: as `thinflow.optimize`, which lies above; two workers may do it on the same model.
        options: such as `calibration` or `effort`.
    """

    optimize: Callable[..., JobResults]
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Shipped:
    """What came of the main job on a model.

    Attributes:
        name: of the model in the collection.
        before_bytes: of its files.
        after_bytes: of the file to ship; None if there is none.
        file: path of that file below the folder of all.
        verdict: of the job.
        reason: why nothing came of it; "".
    """

    name: str
    before_bytes: int
    after_bytes: int | None = None
    file: str = ""
    verdict: str = ""
    reason: str = ""

    @property
    def cause(self) -> str:
        """The reason without names and numbers, by which failures are counted together."""
        return _NAMED.sub("...", self.reason)

    def data(self) -> dict[str, Any]:
        """For machines."""
        return asdict(self)


def ship(unit: Unit, folder: Path, job: Job) -> Shipped:
    """Do the main job on a unit; what it writes goes to a folder of the unit's name."""
    try:
        results = job.optimize(unit.path, folder / folder_name(unit.name), **unit.opening, **job.options)
    except ThinflowError as error:
        return Shipped(unit.name, unit.size_bytes, reason=error.problem)
    verdict = verdict_of(results)
    if not isinstance(results, PairResults):
        assert isinstance(results, GraphResults)
        return Shipped(unit.name, unit.size_bytes, verdict=verdict, reason=results.obstacle.problem)
    file = shipped(results)
    if file == kept_source(results):
        return Shipped(unit.name, unit.size_bytes, verdict=verdict, reason="it is quantized already")
    reason = "" if file.suffix in RUN else "LiteRT can hold only a part of it"
    return Shipped(
        unit.name, unit.size_bytes, file.stat().st_size, file.relative_to(folder).as_posix(), verdict, reason
    )


def folder_name(name: str) -> str:
    """A folder for what is made of a model: its name in the collection, as one that every disk takes."""
    return (
        re.sub(r"[^A-Za-z0-9._/-]+", "_", name.replace("!", "/").replace("://", "/")).strip("/.") or "model"
    )
