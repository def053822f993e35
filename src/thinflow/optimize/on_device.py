"""The main job's models on a device: how fast they are there, and whether they answer as they do here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from thinflow.bench.devices import Facts
from thinflow.bench.latency import benchmark
from thinflow.bench.report import BenchmarkReport
from thinflow.compare.differences import difference
from thinflow.compare.inner_values import real_numbers
from thinflow.device.base import Connection, Device, DeviceLost, Devices, Settings
from thinflow.device.benchmark import benchmark_on
from thinflow.device.engine import engine_on
from thinflow.device.finding import find_one
from thinflow.device.shipping import shipped
from thinflow.engines.session import Session
from thinflow.errors import EngineUnavailable, ThinflowError
from thinflow.typing import Progress

_ALIKE = 1e-3
"""Relative difference of a file's answers on two processors that is nothing but rounding."""


class ReachedDevice:
    """A device that was there when the job began, and what it is.

    It is connected to for each measurement alone: a job is at work here for most of its time, and others may
    want it meanwhile.
    """

    def __init__(self, inner: Device, facts: Facts) -> None:
        self._inner, self.facts = inner, facts

    @property
    def name(self) -> str:
        """What tables call it."""
        return self._inner.name

    @property
    def settings(self) -> Settings:
        """How it is used; the job says with how many threads, see `threads`."""
        return replace(self._inner.settings, threads=())

    @property
    def threads(self) -> tuple[int, ...]:
        """The numbers of threads that its profile asks for."""
        return self._inner.settings.threads

    @property
    def line(self) -> str:
        """What it is, in a line."""
        return f"{self.name}: {self.facts}"

    @contextmanager
    def connect(self, progress: Progress | None = None) -> Iterator[Connection]:
        """As that of the device; where it is not there any more it was lost."""
        with ExitStack() as stack:
            try:
                connection = stack.enter_context(self._inner.connect(progress))
            except DeviceLost:
                raise
            except EngineUnavailable as error:
                raise DeviceLost(error.problem, error.where, error.hint) from error
            yield connection


def reached(devices: Devices, progress: Progress | None = None) -> ReachedDevice:
    """The one device of these addresses, before any work is done for it.

    Raises:
        EngineUnavailable: nobody is there, or it cannot run models.
        ParameterError: there are several.
    """
    device = find_one(devices)
    with device.connect(progress) as connection:
        return ReachedDevice(device, connection.facts)


def race(device: ReachedDevice | None, models: Any, **options: Any) -> BenchmarkReport:
    """Latency of models in turns, on a device or here; options as for `benchmark`.

    Raises:
        DeviceLost: it is not there any more.
        ThinflowError: no model could be run.
    """
    if device is None:
        # peaks: the machine's limits are no part of these reports.
        return benchmark(models, peaks=False, **options)
    return benchmark_on([device], models, **options)


def answers_there(
    device: ReachedDevice, files: Mapping[str, Path], feeds: Any, progress: Progress | None = None
) -> tuple[str, list[str]]:
    """Whether .tflite files answer there as here, by one feed each, in sentences.

    Args:
        files: by role.
        feeds: arrays for the inputs of a file, by its path, as for `benchmark`.

    Returns:
        Those that do; and a warning for each that does not, or where nothing could be compared.
    """
    agreeing: list[str] = []
    doubts: list[str] = []
    try:
        with shipped(files, feeds=feeds) as models, engine_on(device, progress) as there:
            for model in models:
                role, path = model.name, files[model.name]
                here, away = Session(path), Session(path, there.name)
                gap = _farthest(here, away, dict(zip(here.inputs, model.arrays, strict=True)))
                if gap > _ALIKE:
                    doubts.append(
                        f"{path.name} answers otherwise on {device.name} than here, by {gap:.2g} of the "
                        "largest number: `thinflow verify` with --device tells more"
                    )
                else:
                    agreeing.append(f"{role} to {gap:.2g}")
    except ThinflowError as error:
        doubts.append(f"answers of {device.name} were not compared: {error.message}")
    if not agreeing:
        return "", doubts
    return f"on {device.name} the files answer as here: {', '.join(agreeing)}", doubts


def _farthest(here: Session, away: Session, feed: Mapping[str, Any]) -> float:
    names: Sequence[str] = list(here.outputs)
    both = (session.run(names, feed) for session in (here, away))
    found = 0.0
    for name, x, y in zip(names, *both, strict=True):
        numbers = (real_numbers(np.asarray(a), here.grids.get(name)) for a in (x, y))
        found = max(found, difference(*numbers).relative)
    return found
