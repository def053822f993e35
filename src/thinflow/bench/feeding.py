"""Inputs for what is measured: those given, in the type of the model, or made up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from thinflow.engines._files import FilePort
from thinflow.errors import FeedError
from thinflow.ir.graph import Value
from thinflow.ir.types import TensorSpec
from thinflow.synthetic import concrete_shape, declared_spec

Array = np.ndarray[Any, Any]
Shapes = Mapping[str, Sequence[int | None]]
Feeds = Mapping[str, Any]


def by_position(feeds: Feeds | None, wanted: Sequence[str]) -> list[Array] | None:
    """Feeds in the order of a model's inputs; a single one goes to a single input whatever their names."""
    if feeds is None:
        return None
    named = {str(k).removesuffix(":0"): v for k, v in feeds.items()}
    if len(named) == len(wanted) == 1:
        return list(named.values())
    missing = [n for n in wanted if n.removesuffix(":0") not in named]
    if missing:
        raise FeedError(f"nothing is fed to '{missing[0]}'", hint=f"the inputs are {', '.join(wanted)}")
    return [named[n.removesuffix(":0")] for n in wanted]


def as_declared(array: Any, value: Value) -> Array:
    found = np.asarray(array)
    element = declared_spec(value).dtype
    if element is None or not element.numpy_name:
        return found
    return np.ascontiguousarray(found, element.numpy())


def as_input(array: Any, detail: Mapping[str, Any]) -> Array:
    """The array in the type of a .tflite input, quantized as the model says if that is eight-bit."""
    found = np.asarray(array)
    wanted = np.dtype(detail["dtype"])
    scale, zero_point = detail["quantization"]
    if found.dtype.kind == "f" and wanted.kind in "iu" and scale:
        limits = np.iinfo(wanted)
        found = np.clip(np.round(found / scale) + zero_point, limits.min, limits.max)
    return np.ascontiguousarray(found, wanted)


def check_rank(name: str, own: Sequence[int | None] | None, asked: Sequence[int | None]) -> None:
    """Refuse a shape with more or fewer sizes than an input has; other sizes than declared are fine.

    Args:
        name: of the input.
        own: its sizes; None if even their number is unknown.
        asked: those that were asked for.

    Raises:
        FeedError: they are not as many.
    """
    if own is None or len(own) == len(asked):
        return

    def shown(sizes: Sequence[int | None]) -> str:
        return ",".join("?" if n is None or n < 0 else str(n) for n in sizes)

    raise FeedError(
        f"the input '{name}' has {len(own)} sizes, [{shown(own)}], "
        f"and {len(asked)} were given: [{shown(asked)}]",
        hint=f"give sizes like {shown(own).replace('?', '1')}",
    )


def made_up(detail: Mapping[str, Any], shapes: Shapes, rng: np.random.Generator) -> Array:
    asked = shapes.get(detail["name"].removesuffix(":0"))
    if asked is not None:
        check_rank(detail["name"], [int(n) for n in detail["shape"]] or None, asked)
    shape = tuple(1 if n is None else n for n in asked) if asked is not None else _default_shape(detail)
    wanted = np.dtype(detail["dtype"])
    if wanted.kind == "f":
        return rng.uniform(-1, 1, shape).astype(wanted)
    if wanted.kind == "b":
        return rng.random(shape) < 0.5
    if wanted.kind not in "iu":
        raise FeedError(
            f"no input can be made up for '{detail['name']}' of type {wanted}", hint="pass feeds of your own"
        )
    top = 256 if wanted.itemsize == 1 else 4
    return (rng.integers(0, top, shape) - (128 if wanted == np.int8 else 0)).astype(wanted)


def _default_shape(detail: Mapping[str, Any]) -> tuple[int, ...]:
    """Sizes for an input as LiteRT describes it: those it has, and for open ones what a graph would get."""
    shape, signature = tuple(map(int, detail["shape"])), detail.get("shape_signature", ())
    if len(signature) != len(shape):
        return shape
    return concrete_shape(TensorSpec(None, tuple(None if n < 0 else int(n) for n in signature)))


def described(port: FilePort) -> dict[str, Any]:
    """An input as LiteRT would describe it; open sizes are what a graph would get.

    Raises:
        FeedError: nothing is known of it.
    """
    element, shape = port.spec.dtype, port.spec.shape
    if element is None or shape is None:
        raise FeedError(f"no input can be made up for '{port.name}'", hint="pass feeds of your own")
    return {"name": port.name, "shape": concrete_shape(port.spec), "dtype": element.numpy()}
