"""Times of the operators of models that were measured on devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from thinflow.bench.profile_text import RowProfile
from thinflow.bench.report import BenchmarkReport
from thinflow.bench.rows import Row
from thinflow.bench.timing_loop import tell
from thinflow.device.base import Connection, Device, Job
from thinflow.device.shipping import Shipped, shipped
from thinflow.errors import EngineUnavailable, ThinflowError
from thinflow.typing import Progress

_RUNS, _WARMUP = 20, 2


def profile_rows(
    report: BenchmarkReport,
    devices: Sequence[Device],
    *,
    progress: Progress | None = None,
    **options: Any,
) -> list[RowProfile]:
    """The times of the operators for every row of a report, on its device.

    Args:
        report: of files.
        devices: of the report.
        options: feeds, and how to open the models, as for `benchmark`.
    """
    with ExitStack() as stack:
        sources = {name: path for path, name in report.paths.items()}
        models = {m.name: m for m in stack.enter_context(shipped(sources, **options))}
        found: list[RowProfile] = []
        by_name = {device.name: device for device in devices}
        connected: dict[str, Connection | ThinflowError] = {}
        for row in report.rows:
            tell(progress, len(found), len(report.rows), f"{row.device}: profiling {row.subject}")
            if row.device not in connected:
                try:
                    connected[row.device] = stack.enter_context(by_name[row.device].connect(progress))
                except ThinflowError as error:
                    connected[row.device] = error
            # One that has no profiler still has times: the reason stands beside them.
            try:
                there = connected[row.device]
                if isinstance(there, ThinflowError):
                    raise there
                job = _job(models, row, takes_turns=there.takes_turns)
                runs = max(_RUNS, 1 + len(job.others))
                found.append(RowProfile(row, there.profile(job, runs=runs, warmup=_WARMUP)))
            except ThinflowError as error:
                hint = f" ({error.hint})" if error.hint else ""
                found.append(RowProfile(row, None, f"{error.message}{hint}"))
        return found


def _job(models: Mapping[str, Shipped], row: Row, *, takes_turns: bool) -> Job:
    if row.subject not in models:
        raise EngineUnavailable("it is in no file", row.subject, hint="save it, and measure the file")
    model = models[row.subject]
    first, *others = model.samples if takes_turns else model.samples[:1]
    return Job(model.name, model.path, row.threads or 1, first, tuple(others))
