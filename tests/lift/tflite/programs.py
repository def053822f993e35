"""Models of one LiteRT operator, and what LiteRT and the interpreter make of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import thinflow
from thinflow.ir.types import STRING, DType, dtype
from thinflow.tflite.model import Operator, Program, Subgraph, Tensor
from thinflow.tflite.writer import to_bytes

Array = np.ndarray
Spec = tuple[tuple[int, ...], DType]


def constant(name: str, data: Any) -> Tensor:
    data = np.asarray(data)
    kind = STRING if data.dtype == object else dtype(data.dtype)
    return Tensor(name, data.shape, kind, data)


def program(
    code: str,
    operands: Sequence[Any],
    outputs: Sequence[Spec],
    options: Mapping[str, Any] | None = None,
    *,
    subgraphs: Sequence[Subgraph] = (),
    **more: Any,
) -> Program:
    """A model of one operator: operands are specs of inputs, constants, tensors or None."""
    inputs: list[Tensor] = []
    made: list[Tensor | None] = []
    for n, operand in enumerate(operands):
        if operand is None or isinstance(operand, Tensor):
            made.append(operand)
        elif isinstance(operand, tuple):
            inputs.append(Tensor(f"x{n}", *operand))
            made.append(inputs[-1])
        else:
            made.append(constant(f"c{n}", operand))
    results = [Tensor(f"y{n}", *spec) for n, spec in enumerate(outputs)]
    step = Operator(code, made, results, dict(options or {}), **more)
    return Program([Subgraph(inputs, results, [step]), *subgraphs])


def both(made: Program, path: Path, feed: Mapping[str, Array]) -> tuple[list[Array], list[Array]]:
    """What LiteRT and the interpreter give."""
    path.write_bytes(to_bytes(made))
    first, second = thinflow.Session(path), thinflow.Session(path, "reference")
    assert set(first.placement.values()) <= {"litert"}, first.placement
    return first.run(None, feed), second.run(None, feed)


def agree(made: Program, path: Path, feed: Mapping[str, Array], tolerance: float = 0.0) -> list[Array]:
    """The results, after comparing them in type, shape and value."""
    expected, found = both(made, path, feed)
    assert len(found) == len(expected)
    for a, b in zip(expected, found, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        if tolerance:
            np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance)
        else:
            np.testing.assert_array_equal(b, a)
    return found
