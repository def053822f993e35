"""Whether models keep their budgets: each budget asked, whatever came of the others."""

from __future__ import annotations

import logging
import os
import re
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from thinflow.budgets.baseline import NAME, Baselines, read_baselines
from thinflow.budgets.file import BudgetFile, Limits, budget_file
from thinflow.budgets.item import BudgetItem, Status
from thinflow.budgets.kinds import Kind
from thinflow.budgets.limits import folder_of
from thinflow.budgets.report import CheckReport, ModelCheck
from thinflow.budgets.subject import Subject
from thinflow.errors import ParameterError, ThinflowError
from thinflow.ir.graph import Graph
from thinflow.load.graphs import Source
from thinflow.settings.table import Table
from thinflow.typing import FilePath, Progress, Shapes

logger = logging.getLogger(__name__)

_MODEL = re.compile(r"\bMODEL\b")


@dataclass(frozen=True)
class CheckOptions:
    """How to check.

    Attributes:
        budget: file or table of budgets; None for the nearest thinflow.toml of each model.
        baseline: file of stored times; None for that of the budgets, or the one beside them.
        update: whether to store times.
        shapes: input name -> shape to assume.
        opening: how to open models.
        progress: called with (done, total, label).
    """

    budget: FilePath | Mapping[str, Any] | None = None
    baseline: FilePath | None = None
    update: bool = False
    shapes: Shapes | None = None
    opening: Mapping[str, Any] | None = None
    progress: Progress | None = None


def check(sources: Sequence[Source], options: CheckOptions) -> CheckReport:
    """The report on some models; where none are given, on those that tables of budgets are for.

    Raises:
        ParameterError, FormatError: budgets or stored times cannot be read.
        WriteError: times cannot be stored.
    """
    # All of them before any model is opened: a typing error should not cost an evaluation.
    files: dict[str, BudgetFile] = {}
    if not sources:
        given = budget_file(options.budget)
        sources = given.models()
        if not sources:
            hint = 'name them, or write a table of them: [budget."models/*.tflite"]'
            raise ParameterError("there are no models to check", given.project.path, hint)
    asked = []
    for source in sources:
        path = source.path if isinstance(source, Graph) else os.fspath(source)
        read = budget_file(options.budget, path)
        # By the path of its settings, so that all models of a project share one file of times.
        file = files.setdefault(read.project.path, read)
        asked.append((source, path, file, file.limits(path)))
    times = {key: _baselines(file, options) for key, file in files.items()}
    # One after the other, as times would disturb each other.
    models = []
    for source, path, file, limits in asked:
        stored = times[file.project.path]
        model = Subject(
            source, stored, file.project, options.shapes, dict(options.opening or {}), options.progress
        )
        models.append(ModelCheck(path, _items(model, limits), file.project.path))
    if options.update:
        for stored in times.values():
            if stored.entries:
                stored.save()
    written = [_near(stored.path) for stored in times.values() if options.update and stored.entries]
    return CheckReport(tuple(models), tuple(written))


def _near(path: str) -> str:
    """A path as it is reached from here, where it lies below."""
    found = os.path.relpath(path)
    return path if found.startswith(os.pardir) else found


def _baselines(file: BudgetFile, options: CheckOptions) -> Baselines:
    beside = os.path.join(folder_of(Table({}, "", file.project.path)), NAME)
    path = os.fspath(options.baseline) if options.baseline is not None else file.baseline or beside
    found = read_baselines(path)
    found.is_new = options.update
    return found


def _items(model: Subject, limits: Limits) -> tuple[BudgetItem, ...]:
    broken = _broken(model)
    if broken is not None:
        return (broken,)
    return tuple(_item(model, kind, limit) for kind, limit in limits.limits.values())


def _broken(model: Subject) -> BudgetItem | None:
    """The one item of what is no model, of which budgets would all say the same."""
    try:
        _ = model.summary
    except ThinflowError as error:
        return BudgetItem(Status.FAILED, error.message, mend=error.hint, budget="model")
    return None


def _item(model: Subject, kind: Kind, limit: Any) -> BudgetItem:
    if model.progress is not None:
        model.progress(0, 1, kind.key)
    begin = time.perf_counter()
    try:
        found = kind.judge(model, limit)
    except ThinflowError as error:
        found = BudgetItem(Status.FAILED, error.message, mend=error.hint)
    # Of a model that nobody has seen: the other budgets have their say.
    except Exception as error:
        logger.debug("budget %s failed", kind.key, exc_info=True)
        found = BudgetItem(Status.FAILED, f"{type(error).__name__}: {error}")
    # What judges write stands for any model.
    mend = _MODEL.sub(lambda _: shlex.quote(model.path), found.mend) if model.path else found.mend
    return replace(found, mend=mend, budget=kind.key, seconds=time.perf_counter() - begin)
