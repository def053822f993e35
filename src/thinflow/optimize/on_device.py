"""The main job's models on devices: how fast they are there, and whether they answer as they do here."""

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
from thinflow.device.finding import find_devices
from thinflow.device.shipping import shipped
from thinflow.engines.session import Session
from thinflow.errors import EngineUnavailable, ThinflowError
from thinflow.program.amounts import ms_text
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


def reached(devices: Devices, progress: Progress | None = None) -> tuple[ReachedDevice, ...]:
    """The devices of these addresses, before any work is done for them.

    Raises:
        EngineUnavailable: nobody is there, or one cannot run models.
    """
    found = []
    for device in find_devices(devices):
        with device.connect(progress) as connection:
            found.append(ReachedDevice(device, connection.facts))
    return tuple(found)


def race(devices: Sequence[ReachedDevice], models: Any, **options: Any) -> BenchmarkReport:
    """Latency of models in turns, on devices or, without any, here; options as for `benchmark`.

    Raises:
        DeviceLost: the only one is not there any more.
        ThinflowError: no model could be run.
    """
    if not devices:
        # peaks: the machine's limits are no part of these reports.
        return benchmark(models, peaks=False, **options)
    return benchmark_on(devices, models, **options)


def worse_elsewhere(
    latency: BenchmarkReport,
    plain: Path,
    chosen: Path,
    others: Sequence[ReachedDevice],
    most_ms: float | None,
) -> list[str]:
    """Where a file that was chosen on one device is not the right one for another, in sentences.

    Args:
        latency: of both files on all devices.
        plain: the float file.
        chosen: the one to ship; may be the same.
        others: the devices that it was not chosen on.
        most_ms: the bound on the time of a run; None if there is none.
    """
    found = []
    for device in others:
        before, after = (latency.timing(path, device=device.name) for path in (plain, chosen))
        if before is None or after is None:
            continue  # it was lost, which the report says
        if before is not after and latency.ratio(before, after).outcome == "slower":
            found.append(
                f"on {device.name} {chosen.name} is slower than {plain.name}, {ms_text(after.median_ms)} "
                f"beside {ms_text(before.median_ms)} a run: a job with this device first decides for it"
            )
        if most_ms is not None and after.median_ms > most_ms:
            found.append(
                f"on {device.name} a run of {chosen.name} takes {ms_text(after.median_ms)}, over the bound "
                f"of {ms_text(most_ms)}: a job with this device first looks for a model that keeps it"
            )
    return found


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
