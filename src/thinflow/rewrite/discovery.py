"""Finds what ships with thinflow by its line at the margin, such as `@transform("name")`, unimported."""

from __future__ import annotations

import os
import re
from functools import cache


@cache
def shipped_transforms() -> dict[str, str]:
    """Name of each transform -> the module that registers it; sorted by name."""
    return registered_under("transforms", "transform") or dict(sorted(_by_importing().items()))


def registered_under(part: str, decorator: str) -> dict[str, str]:
    """Name of what a decorator registers at the margin -> its module; sorted by name, none without sources.

    Sources are read, which takes 4 ms for the transforms, instead of imported, which takes 200: only what is
    used is loaded.

    Args:
        part: folder within the package, its folders included.
        decorator: of which each name is the first argument.
    """
    registers = re.compile(rf'^@{decorator}\("(\w+)"', re.MULTILINE)
    package = os.path.dirname(os.path.dirname(__file__))
    found = {}
    for folder, _, files in os.walk(os.path.join(package, part)):
        place = os.path.relpath(folder, os.path.dirname(package)).replace(os.sep, ".")
        for file in files:
            if file.endswith(".py"):
                with open(os.path.join(folder, file), encoding="utf-8") as source:
                    names = registers.findall(source.read())
                found.update(dict.fromkeys(names, f"{place}.{file.removesuffix('.py')}"))
    return dict(sorted(found.items()))


def _by_importing() -> dict[str, str]:
    """The same where there are no sources to read: in a zip file, or of compiled modules alone."""
    import importlib
    import pkgutil

    from thinflow.rewrite.rule import registered, registered_names

    package = importlib.import_module("thinflow.transforms")
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
    modules = {name: cls.__module__ for name in registered_names() if (cls := registered(name)) is not None}
    return {name: m for name, m in modules.items() if m.startswith(package.__name__)}
