"""A survey of a collection: every unit looked at in a child, what is alike brought together."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from thinflow.cluster.workers import Workers as ClusterWorkers
from thinflow.errors import FormatError, ParameterError
from thinflow.survey.archives import units_inside, unpack
from thinflow.survey.elsewhere import LookJob, ShipJob, identity_for, looked_elsewhere, shipped_elsewhere
from thinflow.survey.entry import Entry, Looked
from thinflow.survey.likeness import mark_likeness
from thinflow.survey.look import Depth, glance, look, prepare
from thinflow.survey.remote import fetched, is_remote
from thinflow.survey.report import SurveyReport
from thinflow.survey.ship import Job, Shipped, ship
from thinflow.survey.units import Unit, find_units
from thinflow.survey.workers import Failure, TaskLimits, Workers
from thinflow.typing import FilePath, Progress

_DEEPEST = 3
"""Archives in archives are looked into so many times: deeper ones are made to hide something."""


@dataclass(frozen=True)
class Settings:
    """How a survey goes about it.

    Attributes:
        depth: how much is tried with each model.
        jobs: processes at once; None for one on each processor.
        limits: of the look at one unit.
        job_limits: of the main job on one model.
        unpacks: whether archives are looked into.
    """

    depth: Depth = Depth()  # noqa: RUF009
    jobs: int | None = None
    limits: TaskLimits = TaskLimits()  # noqa: RUF009
    job_limits: TaskLimits = TaskLimits(1800.0, 8 << 30)  # noqa: RUF009
    unpacks: bool = True


def survey_of(
    sources: Sequence[FilePath],
    settings: Settings = Settings(),
    *,
    ship_to: Path | None = None,
    job: Job | None = None,
    workers: ClusterWorkers | None = None,
    progress: Progress | None = None,
) -> SurveyReport:
    """The report on a collection.

    Args:
        sources: files, folders and URLs.
        settings: see `Settings`.
        ship_to: folder for what the main job makes of each model.
        job: the main job; without it and a folder none is done.
        workers: that do it, where there are some; they reach all files and the folder.
        progress: called with (done, total, label).

    Raises:
        ParameterError: a source does not exist.
        WriteError: the folder cannot be made.
    """
    if not sources:
        raise ParameterError("there is nothing to look at", hint="name a folder with models in it")
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="thinflow-survey-", ignore_cleanup_errors=True) as folder:
        units = _units(sources, Path(folder), progress)
        task = None if ship_to is None or job is None else (ship_to.absolute(), job)
        if workers is None:
            found, shipped = _here(units, settings, Path(folder), task, progress)
        else:
            found, shipped = _elsewhere(units, settings, workers, task, progress)
    entries = [one.entry for one in found]
    return SurveyReport([str(source) for source in sources], entries, time.monotonic() - start, shipped)


_Done = tuple[list[Looked], list[Shipped] | None]


def _here(
    units: Sequence[Unit],
    settings: Settings,
    folder: Path,
    task: tuple[Path, Job] | None,
    progress: Progress | None,
) -> _Done:
    """What is found, and what is shipped, by this machine."""
    with Workers(settings.jobs, settings.limits, prepare, glance) as workers:
        survey = _Survey(workers, settings, folder, progress)
        survey.look_at(units)
        mark_likeness(survey.found)
        return survey.found, None if task is None else survey.ship(*task)


def _elsewhere(
    units: Sequence[Unit],
    settings: Settings,
    workers: ClusterWorkers,
    task: tuple[Path, Job] | None,
    progress: Progress | None,
) -> _Done:
    """The same by workers of a cluster."""
    about = identity_for(asdict(settings))
    look_job = LookJob(partial(_looked_into, settings), settings.limits, prepare, about)
    rows = looked_elsewhere(units, look_job, workers, progress)
    pairs = [(unit, row[0]) for unit, row in zip(units, rows, strict=True)]
    # As on one machine: what is in archives behind all else.
    pairs += [(unit, one) for unit, row in zip(units, rows, strict=True) for one in row[1:]]
    found = [one for _, one in pairs]
    mark_likeness(found)
    if task is None:
        return found, None
    folder, job = task
    wanted = [(unit, one.entry.name) for unit, one in pairs if _ships(one)]
    ship_job = ShipJob(
        folder, job, settings.job_limits, prepare, identity_for(about, str(folder), str(job.options))
    )
    return found, shipped_elsewhere(wanted, ship_job, workers, progress)


def _looked_into(settings: Settings, units: Sequence[Unit], workers: Workers, folder: Path) -> list[Looked]:
    """Units, and what is in those that are archives."""
    folder.mkdir()
    survey = _Survey(workers, settings, folder, None)
    survey.look_at(units)
    return survey.found


def _ships(one: Looked) -> bool:
    """True for models that open, of equal ones the first."""
    return one.entry.kind == "model" and not one.entry.same_as


def _units(sources: Sequence[FilePath], folder: Path, progress: Progress | None) -> list[Unit]:
    """The units of folders, and of what is fetched from elsewhere; named as the user named their origin."""
    roots = []
    for number, source in enumerate(map(str, sources)):
        # Collections have names of their own; a temporary folder's is nobody's concern.
        roots.append(
            fetched(source, folder / f"fetched-{number}", progress) if is_remote(source) else Path(source)
        )
    units = find_units(roots)
    shown = {index: str(source).rstrip("/") for index, source in enumerate(sources) if is_remote(str(source))}
    return [
        replace(unit, name=f"{shown[unit.origin]}/{unit.path.relative_to(roots[unit.origin]).as_posix()}")
        if unit.origin in shown and unit.path != roots[unit.origin]
        else unit
        for unit in units
    ]


class _Survey:
    """What has been found so far."""

    def __init__(self, workers: Workers, settings: Settings, folder: Path, progress: Progress | None) -> None:
        self.found: list[Looked] = []
        self.units: list[Unit] = []
        self._workers = workers
        self._settings = settings
        self._folder = folder
        self._progress = progress
        self._archives = 0

    def look_at(self, units: Sequence[Unit], depth: int = 0) -> None:
        """Look at units, and into those that are archives; in the order of their names."""
        tasks: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
            (look, (unit, self._settings.depth)) for unit in units
        ]
        results = self._all(tasks, [unit.name for unit in units])
        looked = [
            result if isinstance(result, Looked) else _failed(unit, result)
            for unit, result in zip(units, results, strict=True)
        ]
        self.found += looked
        self.units += units
        if self._settings.unpacks:
            for unit, one in zip(units, looked, strict=True):
                if one.archive:
                    self._look_into(unit, one.entry, depth)

    def _look_into(self, archive: Unit, entry: Entry, depth: int) -> None:
        if depth == _DEEPEST:
            entry.reason = f"not looked into: it is in {_DEEPEST} archives already"
            return
        self._archives += 1
        folder = self._folder / f"archive-{self._archives}"
        (result,) = self._all([(_unpacked, (archive.path, folder))], [archive.name])
        if isinstance(result, Failure | str):
            entry.reason = result if isinstance(result, str) else result.reason
        # What came out before it broke is there to be looked at.
        if folder.is_dir():
            self.look_at(units_inside(folder, archive.name), depth + 1)

    def ship(self, folder: Path, job: Job) -> list[Shipped]:
        """Do the main job on every model that opens, of equal ones on the first."""
        wanted = [(unit, one.entry) for unit, one in zip(self.units, self.found, strict=True) if _ships(one)]
        with Workers(self._settings.jobs, self._settings.job_limits, prepare) as workers:
            names = [entry.name for _, entry in wanted]
            tasks = [(ship, (unit, folder, job)) for unit, _ in wanted]
            results = self._all(tasks, names, workers)
        return [
            result
            if isinstance(result, Shipped)
            else Shipped(entry.name, unit.size_bytes, reason=result.reason)
            for (unit, entry), result in zip(wanted, results, strict=True)
        ]

    def _all(
        self,
        tasks: Sequence[tuple[Callable[..., Any], tuple[Any, ...]]],
        names: Sequence[str],
        workers: Workers | None = None,
    ) -> list[Any]:
        """The results of tasks, in their order."""
        results: list[Any] = [None] * len(tasks)
        for done, (number, result) in enumerate((workers or self._workers).results(tasks)):
            results[number] = result
            if self._progress is not None:
                self._progress(done + 1, len(tasks), names[number])
        return results


def _unpacked(archive: Path, folder: Path) -> str:
    """Unpack in a child; why not all of it came out, "" if it did."""
    try:
        unpack(archive, folder)
    except FormatError as error:
        return error.problem
    return ""


def _failed(unit: Unit, failure: Failure) -> Looked:
    entry = Entry(unit.name, "failed", "a file", size_bytes=unit.size_bytes, reason=failure.reason)
    return Looked(entry, "")
