"""The file of a project's settings, thinflow.toml: where it is, and the tables in it.

It is looked for in the folder of the model and then in those above it, as the settings of other tools are;
for a graph in memory, from the working folder up. The first one found counts, and no other.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from thinflow.errors import FormatError
from thinflow.settings.table import Table
from thinflow.settings.toml_text import Value, read_toml

NAME = "thinflow.toml"
_LARGEST_BYTES = 1 << 20


@dataclass(frozen=True)
class Project:
    """The settings of a project.

    Attributes:
        path: of the file; "" if there is none.
        tables: all that is in it, by name; each part of the program reads its own table.
    """

    path: str = ""
    tables: Mapping[str, Value] = field(default_factory=dict)

    def table(self, name: str) -> Table | None:
        """The table of that name; None where the file has none.

        Raises:
            ParameterError: what has that name is no table; with the path.
        """
        return Table.of(self.tables[name], name, self.path) if name in self.tables else None


def nearest_project(model: str = "") -> Project:
    """The settings nearest to a model; none where there is no file.

    Args:
        model: path of the model; "" for a graph in memory.

    Raises:
        FormatError: the file cannot be read; with its path.
    """
    start = Path(os.path.abspath(model)).parent if model else Path.cwd()
    for folder in (start, *start.parents):
        if (folder / NAME).is_file():
            return read_project(folder / NAME)
    return Project()


def read_project(path: str | os.PathLike[str]) -> Project:
    """The settings in a file.

    Raises:
        FormatError: it cannot be read; with its path, and the line that is at fault.
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
        return Project(where, read_toml(text))
    except FormatError as error:
        raise error.at(where) from error
