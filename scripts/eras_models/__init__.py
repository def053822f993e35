"""Small trained-like networks of all eras, made with TensorFlow.

Each module holds a family; a maker is a function with a decorator of `making`. Modules are found by being
there.
"""

from __future__ import annotations

import importlib
import pkgutil

from scripts.eras_models.making import MODELS, Model


def all_models() -> dict[str, Model]:
    """Name -> model, sorted by module and place in it. What a module cannot import takes its family away."""
    for module in families():
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            if str(error.name).startswith("scripts"):
                raise
    return dict(MODELS)


def families() -> list[str]:
    """Names of the modules with makers, and of what they share."""
    return sorted(f"{__name__}.{m.name}" for m in pkgutil.iter_modules(__path__))
