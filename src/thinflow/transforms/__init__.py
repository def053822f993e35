"""Transforms, a file each or per family; those of one subject share a folder with what they have in common.

They are found by the line `@transform("name")`, which stands at the margin.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from thinflow.errors import ParameterError, ParseError, ThinflowError, closest
from thinflow.rewrite.discovery import shipped_transforms
from thinflow.rewrite.rule import Transform, configure, options, read_value, registered, registered_names
from thinflow.rewrite.runner import Rounds, Step
from thinflow.rewrite.spec import Call, parse_transforms
from thinflow.transforms.pipelines import order_for, order_names

ALIASES: dict[str, tuple[str, ...]] = {
    "obsfucate_names": ("obfuscate_names",),
    "fold_subdivmul_batch_norms": ("fold_batch_norms",),
    "fuse_convolutions": ("fuse_resize_pad_and_conv", "fuse_resize_and_conv", "fuse_pad_and_conv"),
}
"""Names of other days -> the names here. An alias for several runs them in order."""

ENTRY_POINTS = "thinflow.transforms"

Pipeline = str | Sequence[str | tuple[str, Mapping[str, Any]] | Transform]
"""A transform string or named order, or a list of them, (name, options) pairs and configured transforms."""


def names() -> list[str]:
    """Every transform that ships with thinflow, sorted."""
    return list(shipped_transforms())


def plugin_names() -> list[str]:
    """Every transform from elsewhere: from files that were loaded, and from installed packages; sorted."""
    from importlib.metadata import entry_points

    own = set(names())
    # Names of installed plug-ins are known without running their code.
    installed = {entry.name for entry in entry_points(group=ENTRY_POINTS)}
    return sorted((installed | set(registered_names())) - own)


def find(name: str) -> type[Transform]:
    """The class of a transform, imported now if it was not yet.

    Raises:
        ParameterError: there is none of that name, here or in an installed plug-in; or it is an alias for
            several.
    """
    name, *others = ALIASES.get(name, (name,))
    if others:
        raise ParameterError(f"this name stands for several: {', '.join((name, *others))}", hint="name one")
    if name in shipped_transforms():
        importlib.import_module(shipped_transforms()[name])
    cls = registered(name) or _plugin(name)
    if cls is None:
        raise ParameterError(
            f"Transform '{name}' not recognized",
            hint=closest(name, [*names(), *plugin_names(), *order_names()], count=1)
            or f"there are: {', '.join(names())}",
        )
    return cls


def _plugin(name: str) -> type[Transform] | None:
    from importlib.metadata import entry_points

    for entry in entry_points(group=ENTRY_POINTS, name=name):
        try:
            entry.load()
        except Exception as error:
            raise ParameterError(
                f"the plug-in {entry.value} failed: {type(error).__name__}: {error}",
                hint="mend or uninstall the package it comes from",
            ) from error
    return registered(name)


def resolve(pipeline: Pipeline) -> list[Step]:
    """The steps of a pipeline, all names and options checked before anything runs.

    Raises:
        ParseError: the string is malformed.
        ParameterError: an unknown transform, or a wrong option.
    """
    if isinstance(pipeline, str):
        return [step for call in parse_transforms(pipeline) for step in _steps_of(call)]
    steps: list[Step] = []
    for item in pipeline:
        if isinstance(item, str):
            steps.extend(resolve(item))
        elif isinstance(item, Transform):
            steps.append(Step(item))
        else:
            name, given = item
            params = {
                k: list(map(_text, v)) if isinstance(v, (list, tuple)) else [_text(v)]
                for k, v in given.items()
            }
            steps.extend(_steps_of(Call(name, params)))
    return steps


def _steps_of(call: Call) -> list[Step]:
    """The steps a call stands for; an alias for several gives each the options that it has."""
    if call.name in order_names():
        return _ordered(call)
    targets = ALIASES.get(call.name, (call.name,))
    if len(targets) == 1:
        return [_step(call)]
    known = {target: options(find(target)) for target in targets}
    # What every transform takes (ignore_errors, functions), and mistakes, of which the first of them tells.
    shared = {k: v for k, v in call.params.items() if not any(k in taken for taken in known.values())}
    calls = []
    for target in targets:
        own = {k: v for k, v in call.params.items() if k in known[target]}
        calls.append(Call(target, {**own, **shared}, call.offset))
    return [_step(c) for c in calls]


def _ordered(call: Call) -> list[Step]:
    """The steps of a named order; the first of them repeat."""
    params = dict(call.params)
    ignored = _is_ignored(call.name, params)
    try:
        # Orders act inside functions unless told otherwise; single transforms the other way round.
        inside = read_value("functions", params.pop("functions", ["true"])[-1], bool)
        order = order_for(call.name, params)
    except ThinflowError as error:
        raise error.at(f"pipeline '{call.name}'") from error
    rounds = Rounds(call.name)
    steps = [Step(s.transform, ignored or s.ignore_errors, rounds) for s in resolve(order.repeated)]
    steps += [Step(s.transform, ignored or s.ignore_errors) for s in resolve(order.last)]
    return [replace(s, transform=_in_functions(s.transform)) for s in steps] if inside else steps


def _in_functions(inner: Transform) -> Transform:
    """The transform, acting in functions too if it can."""
    from thinflow.transforms.flow.library import InFunctions

    if inner.for_function() is not None:
        return InFunctions(inner, shown=False)
    # It deals with the library itself, by an option of its own.
    return replace(inner, functions=True) if "functions" in options(type(inner)) else inner  # type: ignore[type-var]


def _is_ignored(name: str, params: dict[str, list[str]]) -> bool:
    ignored = params.pop("ignore_errors", ["false"])[0].lower()
    if ignored not in {"true", "false", "1", "0"}:
        raise ParameterError(f"ignore_errors should be true or false, found {ignored}", f"transform '{name}'")
    return ignored in {"true", "1"}


def _step(call: Call) -> Step:
    params = dict(call.params)
    ignored = _is_ignored(call.name, params)
    try:
        kind = find(call.name)
        # A transform with an option of that name deals with the library itself.
        inside = ["false"] if "functions" in options(kind) else params.pop("functions", ["false"])
        made = configure(kind, params)
        if read_value("functions", inside[-1], bool):
            from thinflow.transforms.flow.library import InFunctions

            made = InFunctions(made)
        return Step(made, ignored)
    # It says already where in the string the mistake is.
    except ParseError:
        raise
    except ThinflowError as error:
        raise error.at(f"transform '{call.name}'") from error


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
