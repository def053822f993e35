"""Well-known networks as GraphDefs with seeded weights, and one small trained one: nothing is downloaded.

One file per network; the file name is the network's name. This module finds them. A network's module defines
`SUMMARY`, one line, `INPUT`, the name of its input, and `build(seed) -> Graph`. One with random weights also
defines `SIZE`, the height and width of its images; one whose images ship with it, `calibration_images(count)`
and `test_images()`.
"""

from __future__ import annotations

import os
import pkgutil
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from thinflow.errors import ParameterError, closest

if TYPE_CHECKING:
    import numpy as np

    from thinflow.ir.graph import Graph


def names() -> list[str]:
    """Every network there is, sorted."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def describe(name: str) -> str:
    """One line about a network.

    Raises:
        ParameterError: there is none of that name.
    """
    return str(_module(name).SUMMARY)


def build(name: str, seed: int = 0) -> Graph:
    """A network with its inputs and outputs declared; the same seed gives the same weights.

    Batch norms hold the statistics of the network's own activations, so that values stay in a sane range at
    any depth. A trained network is what it is, whatever the seed.

    Raises:
        ParameterError: there is none of that name, or the seed is negative.
    """
    module = _module(name)
    if seed < 0:
        raise ParameterError(
            f"seed is {seed}; it cannot be negative", hint="any whole number from 0 on will do"
        )
    graph: Graph = module.build(seed)
    return graph


def write(name: str, path: str | os.PathLike[str], seed: int = 0) -> Graph:
    """Build a network and save it; the graph. `.pbtxt` means text.

    Raises:
        ParameterError: see `build`.
        WriteError: the file cannot be written.
    """
    from thinflow import formats

    graph = build(name, seed)
    formats.save(graph, path)
    return graph


def calibration(name: str, count: int | None = None, seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    """Input arrays [count,...] to calibrate with, keyed by input name.

    Real images where the network was trained on some, all of them by default; else `count` (8) seeded
    pictures of blobs, stripes and noise in the value range that the network was built for.

    Args:
        name: the network's name.
        count: how many images.
        seed: chooses the generated pictures; real ones come in their order.

    Raises:
        ParameterError: count is not positive, or there are not so many real images.
    """
    if count is not None and count < 1:
        raise ParameterError(f"count is {count}; at least one image is needed")
    module = _module(name)
    if hasattr(module, "calibration_images"):
        return {module.INPUT: module.calibration_images(count)}
    from thinflow.zoo._layers import pictures

    return {module.INPUT: pictures(8 if count is None else count, module.SIZE, seed)}


def test_set(name: str) -> dict[str, np.ndarray[Any, Any]]:
    """Held-out images keyed by input name, and their true classes as `labels`.

    Raises:
        ParameterError: the network was never trained, so it has none.
    """
    module = _module(name)
    if not hasattr(module, "test_images"):
        trained = [n for n in names() if hasattr(_module(n), "test_images")]
        raise ParameterError(
            f"'{name}' has random weights and therefore no test images",
            hint=f"these are trained: {', '.join(trained)}",
        )
    return dict(module.test_images())


def _module(name: str) -> ModuleType:
    if name not in names():
        raise ParameterError(
            f"there is no sample named '{name}'",
            hint=closest(name, names()) or f"there are: {', '.join(names())}",
        )
    return import_module(f"{__name__}.{name}")
