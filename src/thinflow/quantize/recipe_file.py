"""Files with recipes: what was chosen for one model, to be repeated or changed by hand."""

from __future__ import annotations

import os
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from thinflow._version import __version__
from thinflow.errors import FormatError, ParameterError, ThinflowError, closest
from thinflow.formats.files import write_file
from thinflow.quantize.recipe import PLAIN, Recipe
from thinflow.settings.toml_text import Value, read_toml, toml_key, toml_value

VERSION = 1
"""Of the form of these files. A change that an older reader would misread makes it larger."""
_LARGEST_BYTES = 1 << 20
"""Patterns for each of ten thousand layers fit."""
_EXPECTED = {"version": int, "model": dict, "recipe": dict}
_MODEL = ("file", "digest")


@dataclass(frozen=True)
class RecipeFile:
    """A recipe, and the model that it was found for.

    Attributes:
        model: name of the model's file; "" if it came from none, or nobody says.
        digest: of the model, see `ir.digest.graph_digest`; "" if nobody says.
        path: of the file itself.
    """

    recipe: Recipe
    model: str = ""
    digest: str = ""
    path: str = ""

    def note(self, digest: str) -> str:
        """A sentence for the user if the recipe was found for a model of another digest; else ""."""
        if not self.digest or self.digest == digest:
            return ""
        whose = f"'{self.model}'" if self.model else "a model in memory"
        return (
            f"{self.path} was found for {whose}, and this is another model, or another version of it: what"
            " helped there need not help here"
        )


def write_recipe(
    path: str | os.PathLike[str], found: RecipeFile, *, samples: str = "", tried: Iterable[str] = ()
) -> int:
    """Write a recipe; the bytes written.

    Args:
        samples: what it was found with, in words.
        tried: lines on what was tried, for people.

    Raises:
        WriteError: it cannot be written.
    """
    text = recipe_text(found, samples=samples, tried=tried)
    # Names of files that are no text have stand-ins in Python's strings, which no file can have.
    return write_file(path, [text.encode("utf-8", "replace")])


def recipe_text(found: RecipeFile, *, samples: str = "", tried: Iterable[str] = ()) -> str:
    """The file's content; see `write_recipe`."""
    made = [
        f"How a smaller model was made, by thinflow {__version__}. `--recipe FILE` makes it again. Lines",
        "may be changed by hand; what is not here is as by default.",
    ]
    made += ["", f"samples: {samples}"] if samples else []
    lines = [*tried]
    made += ["", "tried, judged on samples held out:", *(f"  {line}" for line in lines)] if lines else []
    # A name of a file may hold the end of a line.
    comments = [f"# {' '.join(line.splitlines())}".rstrip() if line else "#" for line in made]
    model = {"file": found.model, "digest": found.digest}
    return "\n".join(
        [
            *comments,
            *("", f"version = {VERSION}"),
            *("", "[model]", *_pairs({key: value for key, value in model.items() if value})),
            *("", "[recipe]", *_pairs(_chosen(found.recipe)), ""),
        ]
    )


def _pairs(values: Mapping[str, object]) -> list[str]:
    return [f"{toml_key(key)} = {toml_value(value)}" for key, value in values.items()]


def _chosen(recipe: Recipe) -> dict[str, object]:
    """The fields that are not as by default; the scheme always."""
    named = {f.name: getattr(recipe, f.name) for f in fields(Recipe)}
    return {
        name: value
        for name, value in named.items()
        if name == "scheme" or (value != getattr(PLAIN, name) and value is not None)
    }


def read_recipe(path: str | os.PathLike[str]) -> RecipeFile:
    """A recipe from its file.

    Raises:
        FormatError: it is missing, or no such file.
        ParameterError: something in it does not exist or cannot be; with its name.
    """
    where = os.fspath(path)
    try:
        with Path(where).open("rb") as file:
            content = file.read(_LARGEST_BYTES + 1)
        if len(content) > _LARGEST_BYTES:
            raise FormatError("this is too large to be a recipe", where, hint="name a recipe.toml")
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError("this is no text, and no recipe", where, hint="name a recipe.toml") from error
    # A path with a zero in it is a ValueError.
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise FormatError(f"the recipe cannot be read: {why}", where, hint="check the path") from error
    try:
        return recipe_of_text(text, where)
    except ThinflowError as error:
        raise error.at(where) from error


def recipe_of_text(text: str, path: str = "") -> RecipeFile:
    """A recipe from the text of its file; raises as `read_recipe` does."""
    return _recipe_file(read_toml(text), path)


def _recipe_file(document: dict[str, Value], path: str) -> RecipeFile:
    version = document.get("version")
    if not isinstance(version, int) or isinstance(version, bool):
        raise FormatError(
            "this is no recipe: no line says its version", hint=f"begin it with: version = {VERSION}"
        )
    if version != VERSION:
        hint = "update thinflow, or make the recipe again with this one" if version > VERSION else ""
        raise FormatError(
            f"this recipe has version {version}; thinflow {__version__} reads version {VERSION}", hint=hint
        )
    _require_known(document, tuple(_EXPECTED), "a recipe file")
    for key, kind in _EXPECTED.items():
        if not isinstance(document.get(key, kind()), kind):
            raise ParameterError(f"'{key}' is no table", hint=f"write [{key}] on a line of its own")
    model, chosen = (document.get(key, {}) for key in ("model", "recipe"))
    assert isinstance(model, dict)
    assert isinstance(chosen, dict)
    _require_known(model, _MODEL, "[model]")
    named = {key: _checked(key, str, value) for key, value in model.items()}
    hints = get_type_hints(Recipe)
    _require_known(chosen, tuple(f.name for f in fields(Recipe)), "[recipe]")
    recipe = Recipe(**{key: _checked(key, hints[key], value) for key, value in chosen.items()})
    return RecipeFile(recipe, named.get("file", ""), named.get("digest", ""), path)


def _require_known(found: Mapping[str, object], known: Sequence[str], what: str) -> None:
    for key in found:
        if key not in known:
            raise ParameterError(
                f"{what} has nothing called '{key}'",
                hint=closest(key, known) or f"it has: {', '.join(known)}",
            )


def _checked(key: str, hint: Any, value: Value) -> Any:
    """A value of the type that a field has.

    Raises:
        ParameterError: it is of another.
    """
    kind, inner = get_origin(hint), get_args(hint)
    if kind in (Union, types.UnionType):
        # None is what is left out.
        return _checked(key, next(h for h in inner if h is not type(None)), value)
    if kind in (tuple, frozenset) and isinstance(value, list):
        return kind(_checked(key, inner[0], item) for item in value)
    if kind is not None and issubclass(kind, Mapping) and isinstance(value, dict):
        return {name: _checked(f"{key}.{name}", inner[1], item) for name, item in value.items()}
    if kind is None and _is_a(value, hint):
        return value
    words = {str: "a text in quotes", bool: "true or false", int: "a whole number", float: "a number"}
    wanted = words.get(hint, "a table" if kind not in (tuple, frozenset) else "a list")
    raise ParameterError(f"'{key}' cannot be {toml_value(value)}", hint=f"give {wanted}")


def _is_a(value: Value, hint: type) -> bool:
    if hint is object:
        return isinstance(value, (str, int, float))
    # True is an int of Python's.
    if isinstance(value, bool) or hint is bool:
        return isinstance(value, bool) and hint is bool
    return isinstance(value, (int, float) if hint is float else hint)
