"""Descriptions of transforms, and the door for those that others write."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from thinflow.transforms.describing import Description


def describe_transforms() -> list[Description]:
    """Every transform with its purpose, parameters and example, those of plug-ins last."""
    from thinflow.transforms.describing import describe_all

    return describe_all()


def describe_transform(name: str) -> Description:
    """One transform, by its name or an older one.

    Raises:
        ParameterError: there is none of that name; the hint has the closest.
    """
    from thinflow.transforms.describing import describe

    return describe(name)


def named_orders() -> dict[str, str]:
    """Names that stand for several transforms -> what they stand for."""
    from thinflow.transforms.describing import several

    return several()


def load_plugins(paths: Iterable[str | os.PathLike[str]]) -> list[str]:
    """Load files of transforms; the names they register. See `thinflow.load_plugin`."""
    from thinflow.api.plugins import load_plugin

    return [name for path in paths for name in load_plugin(path)]


def load_layer(text: str) -> str:
    """Let a function of a file say what a Keras layer computes; see `thinflow.api.plugins.load_layer`."""
    from thinflow.api import plugins

    return plugins.load_layer(text)


def require_layers(names: Iterable[str]) -> None:
    """Check that opened models have the Keras layers for which functions were given; see `require_met`."""
    from thinflow.keras.registry import require_met

    require_met(names)
