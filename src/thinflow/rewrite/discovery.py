"""Finds the transforms that ship with thinflow: by the line `@transform("name")`, at the margin."""

from __future__ import annotations

import os
import re
from functools import cache

_REGISTERS = re.compile(r'^@transform\("(\w+)"\)', re.MULTILINE)


@cache
def shipped_transforms() -> dict[str, str]:
    """Name of each transform -> the module that registers it; sorted by name."""
    package = os.path.dirname(os.path.dirname(__file__))
    found = {}
    # Sources are read, which takes 4 ms, instead of imported, which takes 200: only what is used is loaded.
    for folder, _, files in os.walk(os.path.join(package, "transforms")):
        place = os.path.relpath(folder, os.path.dirname(package)).replace(os.sep, ".")
        for file in files:
            if file.endswith(".py"):
                with open(os.path.join(folder, file), encoding="utf-8") as source:
                    names = _REGISTERS.findall(source.read())
                found.update(dict.fromkeys(names, f"{place}.{file.removesuffix('.py')}"))
    return dict(sorted((found or _by_importing()).items()))


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
