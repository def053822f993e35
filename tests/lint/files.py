"""Small .tflite files for rules that look at operators."""

from __future__ import annotations

from pathlib import Path

from thinflow.tflite.model import Operator, Program, Subgraph, Tensor
from thinflow.tflite.writer import to_bytes


def written(path: Path, x: Tensor, y: Tensor, *steps: Operator) -> Path:
    path.write_bytes(to_bytes(Program([Subgraph([x], [y], [*steps])])))
    return path
