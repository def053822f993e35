"""Settings of the linter: the table `[lint]` of the nearest thinflow.toml.

    [lint]
    select = ["TF1", "TF3"]              # codes, names or prefixes; default: all rules
    ignore = ["baked_in_softmax"]
    fail_on = "error"                    # info, warning (default) or error

It is looked for in the folder of the model and then in those above it, as the settings of other linters are;
for a graph in memory, from the working folder up. The first one found counts, and no other.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from thinflow.errors import FormatError, ParameterError, ThinflowError, closest
from thinflow.lint.finding import Severity, severity
from thinflow.lint.selection import selected
from thinflow.quantize.toml_text import Value, read_toml

NAME = "thinflow.toml"
_LARGEST_BYTES = 1 << 20
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
    start = Path(os.path.abspath(model)).parent if model else Path.cwd()
    for folder in (start, *start.parents):
        if (folder / NAME).is_file():
            return read_settings(folder / NAME)
    return Settings()


def read_settings(path: str | os.PathLike[str]) -> Settings:
    """Settings from their file; the defaults where it has no table `[lint]`.

    Raises:
        FormatError, ParameterError: it cannot be read, or something in it cannot be; with its path.
    """
    where = os.fspath(path)
    try:
        with Path(where).open("rb") as file:
            content = file.read(_LARGEST_BYTES + 1)
        if len(content) > _LARGEST_BYTES:
            raise FormatError("this is too large to be a file of settings", where, hint=f"name a {NAME}")
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError("this is no text, and no settings", where, hint=f"name a {NAME}") from error
    # A path with a zero in it is a ValueError.
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise FormatError(f"the settings cannot be read: {why}", where, hint="check the path") from error
    try:
        found = _settings(read_toml(text).get("lint", {}), where)
        # Now, so that a code that means no rule is told with the file that it stands in.
        selected(found.select, found.ignore)
        return found
    except ThinflowError as error:
        raise error.at(where) from error


def _settings(table: Value, path: str) -> Settings:
    if not isinstance(table, dict):
        raise ParameterError("'lint' is no table", hint="write [lint] on a line of its own")
    for key in table:
        if key not in _KEYS:
            hint = closest(key, _KEYS) or f"it has: {', '.join(_KEYS)}"
            raise ParameterError(f"[lint] has nothing called '{key}'", hint=hint)
    fail_on = table.get("fail_on", str(Settings.fail_on))
    if not isinstance(fail_on, str):
        raise ParameterError("'fail_on' is no text", hint='write fail_on = "error"')
    select = _texts(table, "select") if "select" in table else None
    return Settings(select, _texts(table, "ignore"), severity(fail_on), path)


def _texts(table: dict[str, Value], key: str) -> tuple[str, ...]:
    found = table.get(key, [])
    if not isinstance(found, list):
        raise ParameterError(f"'{key}' is no list", hint=f'write {key} = ["TF301"]')
    texts = tuple(item for item in found if isinstance(item, str))
    if len(texts) != len(found):
        raise ParameterError(f"'{key}' holds something that is no text", hint=f'write {key} = ["TF301"]')
    return texts
