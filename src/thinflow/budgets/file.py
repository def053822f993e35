"""Which budgets a model has, by the table `[budget]` of a thinflow.toml.

    [budget]
    size = "400KB"                       # of all models
    lint = ["error"]

    [budget."models/*_int8.tflite"]      # of these; what it says again counts here
    size = "100KB"
    latency = false                      # of these, none

Tables of models are told from tables of budgets by their names, which are paths or patterns.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from thinflow.budgets.kinds import Kind, kinds
from thinflow.budgets.limits import folder_of
from thinflow.errors import ParameterError, closest
from thinflow.settings.project import NAME, Project, nearest_project, read_project
from thinflow.settings.table import Table
from thinflow.settings.toml_text import Value

TABLE = "budget"
_BASELINE = "baseline"
"""The key that names the file of stored times."""
_OF_MODELS = re.compile(r"[*?\[/.]")


@dataclass(frozen=True)
class Limits:
    """The budgets of one model: key -> kind and limit.

    Attributes:
        limits: see above.
        project: the settings that they come from.
    """

    limits: Mapping[str, tuple[Kind, Any]]
    project: Project


class BudgetFile:
    """The budgets that a project has settled.

    Attributes:
        project: its settings.
        baseline: path of the file of stored times, as it is said there; "" if it is not.

    Raises:
        ParameterError: there is no table of budgets, or something in it cannot be; with the path.
    """

    def __init__(self, project: Project) -> None:
        self.project = project
        table = project.table(TABLE)
        if table is None:
            near = closest(TABLE, project.tables)
            raise ParameterError(f"there is no table [{TABLE}]", project.path, near or f"write [{TABLE}]")
        self._table = table
        self._kinds = kinds()
        self._plain, self._of_models = self._parted(table)
        said = table.text(_BASELINE, "thinflow-baseline.json")
        self.baseline = "" if said is None else os.path.join(folder_of(table), said)
        # Now, and not when a model comes that the table is for.
        for values in (self._plain, *self._of_models.values()):
            self._read(values)
        if not self._plain and not self._of_models:
            known = ", ".join(self._kinds)
            raise table.error(f"[{TABLE}] has no budgets", f"they are: {known}")

    def _parted(self, table: Table) -> tuple[dict[str, Value], dict[str, dict[str, Value]]]:
        """What all models have to keep, and the tables of some."""
        plain: dict[str, Value] = {}
        of_models: dict[str, dict[str, Value]] = {}
        for key, value in table.values.items():
            # No budget has a dot, a slash or a star in its name, and every file of a model has one of them.
            if _OF_MODELS.search(key):
                inner = table.inner(key)
                assert inner is not None, "the key is there"
                inner.require_only(self._kinds)
                of_models[key] = dict(inner.values)
            else:
                plain[key] = value
        Table(plain, TABLE, table.path).require_only([*self._kinds, _BASELINE])
        plain.pop(_BASELINE, None)
        return plain, of_models

    def _read(self, values: Mapping[str, Value]) -> dict[str, tuple[Kind, Any]]:
        table = Table(values, TABLE, self._table.path)
        return {
            key: (kind, kind.read(table, key))
            for key, kind in self._kinds.items()
            if key in values and values[key] is not False
        }

    def limits(self, model: str) -> Limits:
        """What a model has to keep: what stands further down counts more.

        Args:
            model: path; "" for a graph in memory.
        """
        # In the order of the file, which the reader keeps.
        values = dict(self._plain)
        for pattern, more in self._of_models.items():
            if model and os.path.abspath(model) in self._files(pattern):
                values |= more
        return Limits(self._read(values), self.project)

    def models(self) -> list[str]:
        """The files that its tables of models are for, as they are reached from here."""
        found = dict.fromkeys(path for pattern in self._of_models for path in self._files(pattern))
        return [os.path.relpath(path) for path in found]

    def _files(self, pattern: str) -> list[str]:
        folder = folder_of(self._table)
        return [os.path.abspath(folder / name) for name in _globbed(pattern, str(folder))]


def _globbed(pattern: str, folder: str) -> Iterator[str]:
    # A name with brackets that is there is that file, and no pattern.
    if os.path.exists(os.path.join(folder, pattern)):
        yield pattern
    else:
        yield from sorted(glob.iglob(pattern, root_dir=folder, recursive=True))


def budget_file(given: str | os.PathLike[str] | Mapping[str, Any] | None, model: str = "") -> BudgetFile:
    """The budgets of a file, of a mapping as its table has them, or of the settings nearest to a model.

    Raises:
        ParameterError: there are none, or something in them cannot be.
        FormatError: the file cannot be read.
    """
    if isinstance(given, Mapping):
        return BudgetFile(Project("", {TABLE: _as_values(given)}))
    if given is not None:
        return BudgetFile(read_project(given))
    project = nearest_project(model)
    if not project.path:
        hint = f"write one with a table [{TABLE}], or name it: --budget FILE"
        raise ParameterError(f"there is no {NAME} in the folder of the model or above it", model, hint)
    return BudgetFile(project)


def _as_values(given: Any) -> Any:
    """The same with lists and tables as the reader of files makes them."""
    if isinstance(given, Mapping):
        return {str(key): _as_values(value) for key, value in given.items()}
    if isinstance(given, list | tuple | set | frozenset):
        return [_as_values(value) for value in given]
    return os.fspath(given) if isinstance(given, os.PathLike) else given
