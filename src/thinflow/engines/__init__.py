"""Engines, which run graphs: one module each, found by file name."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from contextlib import contextmanager

from thinflow.engines.base import Engine
from thinflow.errors import EngineUnavailable, closest

# Modules of this folder that are no engines and that others import; private ones begin with an underscore.
_HELPERS = {"base", "session", "partition"}

_joined: dict[str, Engine] = {}
"""Engines of the moment, by name; see `joined`."""


def names() -> list[str]:
    """Every engine that ships with thinflow, installed or not, sorted."""
    return sorted(
        m.name
        for m in pkgutil.iter_modules(__path__)
        if m.name not in _HELPERS and not m.name.startswith("_")
    )


def find(name: str) -> Engine:
    """The engine of that name.

    Raises:
        EngineUnavailable: there is none, or it cannot be used here; says why and what to install.
    """
    if name in _joined:
        return _joined[name]
    if name not in names():
        raise EngineUnavailable(
            f"there is no engine '{name}'", hint=closest(name, names()) or f"there are: {', '.join(names())}"
        )
    engine: Engine = importlib.import_module(f"{__name__}.{name}").ENGINE
    reason = engine.available()
    if reason is not None:
        raise EngineUnavailable(
            f"the engine '{name}' cannot be used: {reason}", hint="engine='reference' always works"
        )
    return engine


@contextmanager
def joined(engine: Engine) -> Iterator[str]:
    """An engine that is no module here, such as a device: it is found under its name meanwhile.

    One that also has `open_file` runs files of the engine that its `FILES_OF` names.
    """
    _joined[engine.name] = engine
    try:
        yield engine.name
    finally:
        del _joined[engine.name]
