"""Inputs of a .tflite or .onnx file, and numbers for them that suit the ops that read them."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from thinflow.analysis.shapes import declared_spec
from thinflow.bench.inputs import Made, Shapes
from thinflow.errors import FeedError, ThinflowError
from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import TensorSpec
from thinflow.synthetic import amounts_for, concrete_shape, likely_shape, synthetic_array
from thinflow.typing import Array

_SEED = 0


def input_specs(path: str | os.PathLike[str], signature: str | None = None) -> dict[str, TensorSpec]:
    """Input -> type and shape, in the file's order, read without its engine."""
    return {v.name: declared_spec(v) for v in _read(path, signature).inputs}


def sensible_inputs(path: str | os.PathLike[str], shapes: Shapes, signature: str | None = None) -> Made:
    """Input -> made-up array, in the file's order, where not any numbers will do: indices, sizes, rates,
    switches, text. None for the others, and for what cannot be made up; empty if it is all of them.

    Who reads an input tells what it is for, by TensorFlow's ops where the file's can be said so.

    Args:
        shapes: input -> sizes to make.
    """
    try:
        graph = _read(path, signature)
        names = [v.name for v in graph.inputs]
        if all(map(_takes_any_numbers, graph.inputs)):
            return {}
        graph = _in_tensorflows_ops(graph)
    except ThinflowError:  # the engine says what is wrong with it
        return {}
    rng = np.random.default_rng(_SEED)
    return {name: _made(value, shapes, rng) for name, value in zip(names, graph.inputs, strict=True)}


def _made(value: Value, shapes: Shapes, rng: np.random.Generator) -> Array | None:
    if _takes_any_numbers(value):
        return None
    asked = shapes.get(value.name.removesuffix(":0"))
    if asked is not None:
        value.spec = TensorSpec(declared_spec(value).dtype, tuple(asked))
    try:
        return synthetic_array(value, rng)
    except FeedError:
        return None


def _read(path: str | os.PathLike[str], signature: str | None) -> Graph:
    from thinflow.analysis.shapes import infer_shapes
    from thinflow.formats import load

    graph = load(path, **({} if signature is None else {"signature": signature}))
    infer_shapes(graph)
    return graph


def _in_tensorflows_ops(graph: Graph) -> Graph:
    """The graph lifted; as it is where it has an op that TensorFlow's cannot say."""
    from thinflow.engines.session import Session

    try:
        lifted = Session(graph, "reference").graph
    except ThinflowError:
        return graph
    # Inputs are matched by their order, as lifting may rename them.
    is_same = lifted is not None and len(lifted.inputs) == len(graph.inputs)
    return lifted if lifted is not None and is_same else graph


def _takes_any_numbers(value: Value) -> bool:
    """True if an input is of the kind that pictures, sounds and features are: many numbers with fractions, or
    codes of eight bits."""
    spec = declared_spec(value)
    if spec.dtype is None or spec.shape is None or not spec.dtype.numpy_name:
        return False
    # A reader that wants other sizes than the default ones knows what the input is for.
    if likely_shape(value, spec) != concrete_shape(spec):
        return False
    return (spec.dtype.is_floating and len(spec.shape) > 0) or (
        spec.dtype.itemsize == 1 and len(spec.shape) > 2 and spec.dtype.is_integer
    )


def amounts(model: Graph | str, name: str, shape: Sequence[int]) -> Array | None:
    """Numbers for an input that says how much there is of something; None if it does not."""
    try:
        graph = model if isinstance(model, Graph) else _read(model, None)
        value = graph.value(name)
    except ThinflowError:  # an engine may call an input of a file otherwise
        return None
    return amounts_for(value, tuple(shape), np.random.default_rng(_SEED))
