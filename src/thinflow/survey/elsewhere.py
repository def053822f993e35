"""A survey on workers: each looks at some units, in children with limits, and into their archives."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from thinflow.cluster.connecting import versions_here
from thinflow.cluster.tasks import Task
from thinflow.cluster.workers import Workers, held
from thinflow.datasets.places import version_of
from thinflow.ir.brief import brief_repr
from thinflow.quantize.feed_parts import identity_of
from thinflow.survey.archives import unpacked_unit
from thinflow.survey.entry import Entry, Looked
from thinflow.survey.ship import Job, Shipped, ship
from thinflow.survey.units import Unit
from thinflow.survey.workers import Failure, TaskLimits
from thinflow.survey.workers import Workers as Children
from thinflow.typing import Progress

_MOST_UNITS, _MOST_BYTES = 8, 32 << 20
"""Of a task: small files together, so that a process has something to do; a large one alone."""
_FORMAT = 1

LookAt = Callable[[Sequence[Unit], Children, Path], Sequence[Looked]]


@brief_repr
@dataclass(frozen=True)
class LookJob:
    """A task are some units; its result what they and what is in them are.

    Attributes:
        look_at: looks at units, and into those that are archives.
        limits: of the look at one unit.
        prepare: see `survey.workers.Workers`.
        identity: of all that results depend on, besides the units.
    """

    look_at: LookAt
    limits: TaskLimits
    prepare: Callable[[], object]
    identity: str

    name = "survey"

    def run(self, argument: Sequence[Unit]) -> bytes:
        children = held(self.identity, lambda: Children(1, self.limits, self.prepare))
        found = []
        with tempfile.TemporaryDirectory(prefix="thinflow-survey-", ignore_cleanup_errors=True) as folder:
            for number, unit in enumerate(argument):
                looked = self.look_at([unit], children, Path(folder, str(number)))
                found.append([one.data() for one in looked])
        return json.dumps({"format": _FORMAT, "found": found}).encode("utf-8", "surrogatepass")

    def is_sound(self, content: bytes) -> bool:
        return _read(content) is not None

    def is_final(self, content: bytes) -> bool:
        return all(one.entry.kind != "failed" for row in _read(content) or () for one in row)

    def lost(self, place: str, why: str) -> bytes:
        # Which of them did it, the children would have told: it was the worker itself.
        entry = Entry(place, "failed", "a file", reason=f"it ended the workers that looked at it: {why}")
        return json.dumps({"format": _FORMAT, "found": [[Looked(entry, "").data()]]}).encode()


def _read(content: bytes) -> list[list[Looked]] | None:
    try:
        data = json.loads(content.decode("utf-8", "surrogatepass"))
        if data["format"] != _FORMAT:
            return None
        return [[Looked.of_data(one) for one in row] for row in data["found"]]
    except (ValueError, KeyError, TypeError):
        return None


def looked_elsewhere(
    units: Sequence[Unit], job: LookJob, workers: Workers, progress: Progress | None
) -> list[list[Looked]]:
    """What each unit is, and behind it what is in it."""
    parts = list(_parts(units))
    run = workers.run_of(job)
    tasks = [
        Task(identity_of(job.identity, [_known(unit) for unit in part]), part, part[0].name) for part in parts
    ]
    found: list[list[list[Looked]]] = [[] for _ in parts]
    done = 0
    for number, content in run.results(tasks):
        found[number] = _read(content) or []
        done += len(parts[number])
        if progress is not None:
            progress(done, len(units), parts[number][-1].name)
    return [row for part in found for row in part]


def _known(unit: Unit) -> list[Any]:
    return [unit.name, str(unit.path), [(str(m), version_of(str(m))) for m in unit.members], unit.checkpoint]


def _parts(units: Sequence[Unit]) -> Iterator[list[Unit]]:
    part: list[Unit] = []
    size = 0
    for unit in units:
        each = unit.size_bytes
        if part and (len(part) == _MOST_UNITS or size + each > _MOST_BYTES):
            yield part
            part, size = [], 0
        part.append(unit)
        size += each
    if part:
        yield part


# ----------------------------------------------------------------------------------------------- the main job


@brief_repr
@dataclass(frozen=True)
class ShipJob:
    """A task is the main job on one model; its result what came of it.

    Attributes:
        folder: for what it writes, which all machines reach.
        job: see `Job`.
    """

    folder: Path
    job: Job
    limits: TaskLimits
    prepare: Callable[[], object]
    identity: str

    name = "ship"

    def run(self, argument: tuple[Unit, str]) -> bytes:
        children = held(self.identity, lambda: Children(1, self.limits, self.prepare))
        origin, name = argument
        with tempfile.TemporaryDirectory(prefix="thinflow-survey-", ignore_cleanup_errors=True) as folder:
            unit = unpacked_unit(origin, name, Path(folder))
            ((_, found),) = children.results([(ship, (unit, self.folder, self.job))])
        if isinstance(found, Failure):
            found = Shipped(name, unit.size_bytes, reason=found.reason)
        return json.dumps(asdict(found)).encode("utf-8", "surrogatepass")

    def is_sound(self, content: bytes) -> bool:
        try:
            found = Shipped(**json.loads(content))
        except (ValueError, TypeError):
            return False
        # What it wrote may have been cleared away since.
        return not found.file or (self.folder / found.file).is_file()

    def is_final(self, content: bytes) -> bool:
        # Whatever the job found out of the model, it has a verdict.
        return bool(Shipped(**json.loads(content)).verdict)

    def lost(self, place: str, why: str) -> bytes:
        reason = f"it ended the workers that did it: {why}"
        return json.dumps(asdict(Shipped(place, 0, reason=reason))).encode("utf-8", "surrogatepass")


def shipped_elsewhere(
    wanted: Sequence[tuple[Unit, str]], job: ShipJob, workers: Workers, progress: Progress | None
) -> list[Shipped]:
    """What came of the main job on models: units they are or lie in, and their names."""
    run = workers.run_of(job)
    tasks = [Task(identity_of(job.identity, _known(unit), name), (unit, name), name) for unit, name in wanted]
    found: list[Shipped] = [Shipped("", 0)] * len(wanted)
    for done, (number, content) in enumerate(run.results(tasks)):
        found[number] = Shipped(**json.loads(content))
        if progress is not None:
            progress(done + 1, len(wanted), wanted[number][1])
    return found


def identity_for(*known: Any) -> str:
    """A name for what results depend on, and for this version of everything."""
    return identity_of(versions_here(), *known)
