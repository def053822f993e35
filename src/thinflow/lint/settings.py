"""Settings of the linter: the table `[lint]` of the nearest thinflow.toml.

[lint]
select = ["TF1", "TF3"]              # codes, names or prefixes; default: all rules
ignore = ["baked_in_softmax"]
fail_on = "error"                    # info, warning (default) or error
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from thinflow.errors import ThinflowError
from thinflow.lint.finding import Severity, severity
from thinflow.lint.selection import selected
from thinflow.settings.project import Project, nearest_project, read_project

_KEYS = ("select", "ignore", "fail_on")


@dataclass(frozen=True)
class Settings:
    """What a project says of the linter.

    Attributes:
        select: codes, names or prefixes; None for all rules.
        ignore: the same.
        fail_on: the severity from which on findings count.
        path: of the file; "" if there is none.
    """

    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    fail_on: Severity = Severity.WARNING
    path: str = ""


def settings_for(model: str) -> Settings:
    """The settings nearest to a model; the defaults where there are none.

    Args:
        model: path of the model; "" for a graph in memory.

    Raises:
        FormatError, ParameterError: the file cannot be read, or something in it cannot be; with its path.
    """
    return settings_of(nearest_project(model))


def read_settings(path: str | os.PathLike[str]) -> Settings:
    """Settings from their file; the defaults where it has no table `[lint]`.

    Raises:
        FormatError, ParameterError: it cannot be read, or something in it cannot be; with its path.
    """
    return settings_of(read_project(path))


def settings_of(project: Project) -> Settings:
    """What a file of settings says of the linter; the defaults where it has no table `[lint]`.

    Raises:
        ParameterError: something in it cannot be; with its path.
    """
    table = project.table("lint")
    if table is None:
        return Settings(path=project.path)
    table.require_only(_KEYS)
    select, ignore = table.texts("select", "TF301"), table.texts("ignore", "TF301") or ()
    fail_on = table.text("fail_on", "error")
    try:
        # Now, so that a code that means no rule is told with the file that it stands in.
        selected(select, ignore)
        failing = Settings.fail_on if fail_on is None else severity(fail_on)
    except ThinflowError as error:
        raise error.at(project.path) from error
    return Settings(select, ignore, failing, project.path)
