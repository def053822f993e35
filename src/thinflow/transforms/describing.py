"""Descriptions of transforms: purpose and parameters, read from the transforms themselves.

What it is for is the first paragraph of its module (of its class, in a plug-in), its parameters are its
dataclass fields, and what they mean stands under `Attributes:` in its class. Examples are golden cases.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
from functools import cache
from typing import Any

from thinflow.rewrite.rule import Transform, options
from thinflow.transforms import ALIASES, find, names, plugin_names
from thinflow.transforms.pipelines import order_names


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One parameter of a transform.

    Attributes:
        type: `int`, `float`, `bool` or `str`.
        default: as a user would write it; None if the parameter is required, "" if there is none.
        repeated: whether it may be given several times.
    """

    name: str
    type: str
    default: str | None
    repeated: bool
    meaning: str


@dataclasses.dataclass(frozen=True)
class Example:
    """A graph before and after, as text."""

    transforms: str
    before: str
    after: str


@dataclasses.dataclass(frozen=True)
class Description:
    """A transform, for people.

    Attributes:
        purpose: one sentence.
        details: further paragraphs, among them the change in a line.
        aliases: other names it is understood by.
        plugin: whether it comes from elsewhere.
        exact: False if changing numbers is the point.
        tolerance: the largest difference of outputs that is rounding, relative to the largest value.
    """

    name: str
    purpose: str
    details: str
    parameters: tuple[Parameter, ...]
    aliases: tuple[str, ...]
    plugin: bool
    exact: bool
    tolerance: float
    example: Example | None


def describe(name: str) -> Description:
    """A transform by its name or an alias.

    Raises:
        ParameterError: there is none of that name.
    """
    kind = find(name)
    own = kind.name in names()
    title, details = purpose(kind)
    return Description(
        kind.name,
        title,
        details,
        parameters(kind),
        tuple(old for old, new in ALIASES.items() if kind.name in new),
        not own,
        kind.exact,
        kind.tolerance,
        _examples().get(kind.name) if own else None,
    )


def describe_all() -> list[Description]:
    """Every transform there is, those of plug-ins last."""
    return [describe(name) for name in [*names(), *plugin_names()]]


def several() -> dict[str, str]:
    """Names that stand for several transforms -> what they stand for, in words."""
    aliases = {name: f"runs {', '.join(new)}" for name, new in ALIASES.items() if len(new) > 1}
    return {
        **aliases,
        **dict.fromkeys(order_names(), "a named order of transforms, repeated until nothing changes"),
    }


def purpose(kind: type[Transform]) -> tuple[str, str]:
    """The first paragraph about a transform on one line, and what follows it."""
    # A file that is one transform says so at its top; one of a family, or a plug-in's, may hold several.
    own = re.fullmatch(rf"thinflow\.transforms\.(\w+\.)?{kind.name}", kind.__module__)
    doc = (inspect.getmodule(kind).__doc__ if own else kind.__doc__) or ""
    first, _, rest = inspect.cleandoc(doc).partition("\n\n")
    return " ".join(first.split()), rest.partition("Attributes:")[0].rstrip()


def meanings(kind: type[Transform]) -> dict[str, str]:
    """Option -> what it means, from the class docstring."""
    _, _, listed = inspect.cleandoc(kind.__doc__ or "").partition("Attributes:\n")
    text = textwrap.dedent(listed)
    # A meaning may go on over several lines, up to the next `name: ` at the margin.
    entries = re.findall(r"^(\w+): (.*?)(?=^\w+: |\Z)", text, re.DOTALL | re.MULTILINE)
    return {name.removesuffix("_"): " ".join(meaning.split()) for name, meaning in entries}


def parameters(kind: type[Transform]) -> tuple[Parameter, ...]:
    """The parameters of a transform."""
    meaning = meanings(kind)
    return tuple(
        _parameter(name, hint, default, meaning.get(name, ""))
        for name, (hint, default) in options(kind).items()
    )


def _parameter(name: str, hint: Any, default: Any, meaning: str) -> Parameter:
    # Types such as `int | None` have no name; their text is how they are written.
    text = hint.__name__ if isinstance(hint, type) and not str(hint).startswith("tuple") else str(hint)
    repeated = re.fullmatch(r"tuple\[(\w+), \.\.\.\]", text)
    kind = repeated[1] if repeated else text.replace(" | None", "")
    return Parameter(name, kind, _default(default), repeated is not None, meaning)


def _default(value: Any) -> str | None:
    if value is dataclasses.MISSING:
        return None
    if value in (None, "", ()):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value[0] if isinstance(value, tuple) else value)


@cache
def _examples() -> dict[str, Example]:
    """Transform -> its example, from `data/transform_examples.txt`."""
    from importlib.resources import files

    text = files("thinflow").joinpath("data/transform_examples.txt").read_text("utf-8")
    examples: dict[str, Example] = {}
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        head, _, body = part.partition("\n")
        name, _, pipeline = head.partition(": ")
        before, _, after = body.partition("\n=>\n")
        examples[name] = Example(pipeline, before, after.rstrip())
    return examples
