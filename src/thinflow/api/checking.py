"""Whether models keep the budgets of a project."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from thinflow.errors import ParameterError
from thinflow.ir.graph import Graph
from thinflow.load.graphs import Source, opening
from thinflow.typing import Progress, Shapes

if TYPE_CHECKING:
    from thinflow.budgets.report import CheckReport
    from thinflow.typing import FilePath


def check(
    source: Source | Sequence[Source],
    *,
    budget: FilePath | Mapping[str, object] | None = None,
    baseline: FilePath | None = None,
    update_baseline: bool = False,
    shapes: Shapes | None = None,
    tags: str | None = None,
    signature: str | None = None,
    checkpoint: FilePath | None = None,
    progress: Progress | None = None,
) -> CheckReport:
    """Whether models keep their budgets: size, operators, time beside a baseline, accuracy, memory.

        report = thinflow.check("model.tflite", budget={"size": "400KB", "ops": ["CONV_2D", "SOFTMAX"]})
        report.is_within                       # whether nothing is known to be over
        report.models[0].item("size").message  # '52.4 kB of 400.0 kB'

    Args:
        source: path or Graph, or several; an empty sequence means the files that tables of the budgets name.
        budget: a thinflow.toml with a table `[budget]`, or a mapping as that table is. Default: the nearest
            thinflow.toml above each model.
        baseline: file of stored times; default: thinflow-baseline.json beside the budgets, or what they say.
        update_baseline: measure and store the times of models that have a budget of latency.
        shapes: input name -> shape to assume.
        tags, signature, checkpoint: how to open the model, as for `load`.
        progress: called with (done, total, label).

    Returns:
        What came of each budget of each model. A model that cannot be opened, and a budget that cannot be
        told, are items that failed; the others are told all the same.

    Raises:
        ParameterError: there are no budgets, or something in them cannot be; the hint has the closest name.
        FormatError: the file of budgets or of times cannot be read.
        WriteError: times cannot be stored.
    """
    from thinflow.budgets.job import CheckOptions
    from thinflow.budgets.job import check as run_job

    single = isinstance(source, str | os.PathLike | Graph)
    sources: list[Source] = [source] if single else list(source)  # type: ignore[list-item,arg-type]
    names = opening(tags, signature, checkpoint)
    return run_job(sources, CheckOptions(budget, baseline, update_baseline, shapes, names, progress))


def check_lines(
    report: CheckReport, *, form: str = "text", everything: bool = False, strict: bool = False
) -> list[str]:
    """A report as lines of text, as annotations of a workflow on GitHub, as JUnit's XML, or as JSON.

    Args:
        form: "text", "github", "junit" or "json".
        everything: in text, all nodes, and budgets for models of another kind.
        strict: whether what is not known counts as not kept.

    Raises:
        ParameterError: there is no such form.
    """
    import json

    from thinflow.budgets.formats import github_lines, junit

    if form == "text":
        return report.lines(everything=everything)
    if form == "github":
        return [*github_lines(report, strict=strict)]
    if form == "junit":
        return junit(report, strict=strict).splitlines()
    if form == "json":
        return json.dumps(report.data(), indent=2).splitlines()
    raise ParameterError(f"there is no report as '{form}'", hint="it is text, github, junit or json")


def budget_kinds() -> dict[str, str]:
    """What can be bounded: key of the table -> what it bounds, in a few words."""
    from thinflow.budgets.kinds import kinds

    return {key: kind.title for key, kind in kinds().items()}
