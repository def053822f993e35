"""Models of one of ONNX Runtime's own ops, and numbers for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.lift.onnx.models import node, save

MS = "com.microsoft"
RNG = np.random.default_rng(21)


def f(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def u8(*shape: int) -> np.ndarray:
    return RNG.integers(0, 256, shape).astype(np.uint8)


def i8(*shape: int) -> np.ndarray:
    return RNG.integers(-128, 128, shape).astype(np.int8)


def s(value: float, kind: Any = np.float32) -> np.ndarray:
    return np.array(value, kind)


Case = tuple[str, list[np.ndarray | None], list[np.ndarray | None], dict[str, Any], int]
"""Op, operands that are fed, those behind them that are constants, options, and the number of results."""


def file(path: Path, case: Case) -> tuple[Path, dict[str, np.ndarray]]:
    op, fed, constants, options, count = case
    feed = {f"x{n}": x for n, x in enumerate(fed) if x is not None}
    held = {f"c{n}": x for n, x in enumerate(constants) if x is not None}
    names = ["" if x is None else f"x{n}" for n, x in enumerate(fed)]
    names += ["" if x is None else f"c{n}" for n, x in enumerate(constants)]
    outputs = [f"y{n}" for n in range(count)]
    made = node(op, names, outputs, "" if op.startswith("Simpl") else MS, **options)
    return save(path, [made], feed, outputs, held, opset=17), feed
