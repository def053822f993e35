"""Asking for what is in a table of settings. What cannot be is told with the file and the next step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from thinflow.errors import ParameterError, closest
from thinflow.settings.toml_text import Value


@dataclass(frozen=True)
class Table:
    """A table of settings.

    Attributes:
        values: what is in it.
        name: as its heading has it, for errors: `device.board`.
        path: of the file, for errors; "" for none.
    """

    values: Mapping[str, Value]
    name: str
    path: str = ""

    @classmethod
    def of(cls, value: Value, name: str, path: str = "") -> Table:
        """A value that has to be a table.

        Raises:
            ParameterError: it is none.
        """
        if not isinstance(value, dict):
            raise ParameterError(f"'{name}' is no table", path, f"write [{name}] on a line of its own")
        return cls(value, name, path)

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def require_only(self, keys: Iterable[str]) -> None:
        """Refuse what nobody would read.

        Raises:
            ParameterError: a key is none of these; the hint has the closest.
        """
        known = list(keys)
        for key in self.values:
            if key not in known:
                hint = closest(key, known) or f"it has: {', '.join(known)}"
                raise self.error(f"[{self.name}] has nothing called '{key}'", hint)

    def inner(self, key: str) -> Table | None:
        """A table in it; None where it has none.

        Raises:
            ParameterError: it is no table.
        """
        if key not in self.values:
            return None
        # Errors name it as its heading does.
        return Table.of(self.values[key], f"{self.name}.{key}", self.path)

    def text(self, key: str, example: str) -> str | None:
        """A text; None where there is none.

        Args:
            example: of such a text, for errors.

        Raises:
            ParameterError: it is something else.
        """
        found = self.values.get(key)
        if found is not None and not isinstance(found, str):
            raise self.error(f"'{key}' is no text", f'write {key} = "{example}"')
        return found

    def texts(self, key: str, example: str) -> tuple[str, ...] | None:
        """A list of texts; None where there is none.

        Raises:
            ParameterError: it is something else, or holds something else.
        """
        found = self.values.get(key)
        hint = f'write {key} = ["{example}"]'
        if found is not None and not isinstance(found, list):
            raise self.error(f"'{key}' is no list", hint)
        texts = [item for item in found or [] if isinstance(item, str)]
        if len(texts) != len(found or []):
            raise self.error(f"'{key}' holds something that is no text", hint)
        return None if found is None else tuple(texts)

    def number(self, key: str, example: str) -> float | None:
        """A number; None where there is none.

        Raises:
            ParameterError: it is something else.
        """
        found = self.values.get(key)
        # True and false are whole numbers in Python.
        if found is not None and (isinstance(found, bool) or not isinstance(found, int | float)):
            raise self.error(f"'{key}' is no number", f"write {key} = {example}")
        return found

    def flag(self, key: str) -> bool | None:
        """True or false; None where there is neither.

        Raises:
            ParameterError: it is something else.
        """
        found = self.values.get(key)
        if found is not None and not isinstance(found, bool):
            raise self.error(f"'{key}' is neither true nor false", f"write {key} = true")
        return found

    def error(self, problem: str, hint: str = "") -> ParameterError:
        """What is wrong with it, with the path of the file."""
        return ParameterError(problem, self.path, hint)
