"""The transforms that ship with thinflow, found by their lines `@transform("name")`, unimported."""

from __future__ import annotations

from functools import cache

from thinflow.ir.discovery import Index


@cache
def shipped_transforms() -> dict[str, str]:
    """Name of each transform -> the module that registers it; sorted by name."""
    found = Index(["thinflow.transforms"], ["transform"])
    return dict(sorted((found.names | _by_importing(found.computed)).items()))


def _by_importing(modules: list[str]) -> dict[str, str]:
    """The same for modules whose sources do not tell: in a zip file, or compiled alone."""
    if not modules:
        return {}
    import importlib

    from thinflow.rewrite.rule import registered, registered_names

    for module in modules:
        importlib.import_module(module)
    homes = {name: cls.__module__ for name in registered_names() if (cls := registered(name)) is not None}
    return {name: home for name, home in homes.items() if home in modules}
