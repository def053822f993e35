"""What is in a collection of models."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thinflow.errors import ParameterError
from thinflow.typing import Progress

if TYPE_CHECKING:
    from thinflow.optimize.verdict import JobResults
    from thinflow.survey.report import SurveyReport
    from thinflow.typing import FilePath, Samples

SECONDS = 60.0
"""For the look at one file: a hundred times what a model of 10 MB takes."""
MEMORY_GIB = 4.0
JOB_SECONDS = 1800.0


def survey(
    sources: FilePath | Sequence[FilePath],
    *,
    run: bool = True,
    convert: bool = True,
    lint: bool = True,
    unpack: bool = True,
    optimize: FilePath | None = None,
    calibration: Samples | None = None,
    effort: str | None = None,
    jobs: int | None = None,
    timeout: float = SECONDS,
    memory_gib: float = MEMORY_GIB,
    job_timeout: float = JOB_SECONDS,
    cluster: object = None,
    store: FilePath | None = None,
    progress: Progress | None = None,
) -> SurveyReport:
    """What is in a collection: every model of any format, whether it opens, runs and converts, and what is a
    copy.

        report = thinflow.survey("models/")
        report.verdict          # 58 models in 108 things: 49 become .tflite, 3 are copies
        report.to_pandas().sort_values("flops")

    Each file is looked at in a process of its own with limits in time and memory: one that crashes, hangs or
    fills the memory is named, and does not stop the others.

    Args:
        sources: files, folders (with all below them) and URLs that fsspec can fetch (the extra `data`).
        run: whether each model is run on made-up inputs.
        convert: whether each is written as .tflite, .onnx and what else there is, to tell what cannot be.
        lint: whether the linter looks at each.
        unpack: whether zip and tar archives are looked into.
        optimize: a folder; the main job is done on each model that opens, and writes into a folder of its
            name there.
        calibration: samples for these jobs, where all models take the same.
        effort: of these jobs, as for `optimize`.
        jobs: processes at once; default: one for each processor.
        timeout: seconds for the look at one file.
        memory_gib: GiB that it may take; on Linux only.
        job_timeout: seconds for the main job on one model.
        cluster: workers of Dask that look at the files, which all of them reach: "local:4",
            "tcp://HOST:8786", or a client.
        store: a folder or URL that all of them reach, where a run that was stopped goes on.
        progress: called with (done, total, label).

    Raises:
        ParameterError: a source does not exist, or a limit is not positive.
        FormatError: a URL cannot be reached.
        WriteError: the folder cannot be made.
    """
    from thinflow.cluster.workers import workers_of
    from thinflow.datasets.places import is_url
    from thinflow.optimize.job_inputs import checked_folder, sole_writer
    from thinflow.survey.collection import Settings, survey_of
    from thinflow.survey.look import Depth
    from thinflow.survey.ship import Job
    from thinflow.survey.workers import TaskLimits

    limits = {"timeout": timeout, "memory_gib": memory_gib, "job_timeout": job_timeout, "jobs": jobs or 1}
    for name, limit in limits.items():
        if not 0 < limit < math.inf:
            raise ParameterError(f"{name}={limit:g} is not possible", hint="give more than 0")
    memory_bytes = int(memory_gib * (1 << 30))
    settings = Settings(
        Depth(run, convert, lint),
        jobs,
        TaskLimits(timeout, memory_bytes),
        TaskLimits(job_timeout, 2 * memory_bytes),
        unpack,
    )
    options = {"calibration": calibration, "effort": effort, "measure": False}
    job = Job(_main_job, {name: value for name, value in options.items() if value is not None})
    folder = None if optimize is None else checked_folder(optimize)
    found = [sources] if isinstance(sources, str | os.PathLike) else [*sources]
    writer = nullcontext() if folder is None else sole_writer(folder)
    with workers_of(cluster, store) as workers, writer:
        # The current folder of other machines is another.
        whole = [s if workers is None or is_url(str(s)) else Path(s).absolute() for s in found]
        report = survey_of(whole, settings, ship_to=folder, job=job, workers=workers, progress=progress)
        report.sources = [str(source) for source in found]
        return report


def _main_job(
    source: FilePath, out_dir: FilePath, *, checkpoint: FilePath | None = None, **options: Any
) -> JobResults:
    """The main job on one of many models: two workers may do it, who write the same."""
    from thinflow.load.graphs import opening
    from thinflow.optimize.job import optimize
    from thinflow.optimize.job_inputs import JobOptions

    return optimize(source, out_dir, JobOptions(**options, opening=opening(None, None, checkpoint)))
