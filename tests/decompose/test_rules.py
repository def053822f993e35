"""What decompositions refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.errors import UnsupportedOp


@pytest.mark.parametrize("target", ["tflite", "onnx"])
@pytest.mark.parametrize("op", ["DivNoNan", "Xdivy", "MulNoNan"])
def test_formulas_of_real_numbers_are_not_used_for_complex_ones(op: str, target: str, tmp_path: Path) -> None:
    graph = parse_graph(
        "x = Placeholder() {dtype=float, shape=shape[4]}\ny = Placeholder() {dtype=float, shape=shape[4]}\n"
        f"c = Complex(x, y) {{T=float, Tout=complex64}}\nq = {op}(c, c) {{T=complex64}}\n"
        "size = ComplexAbs(q) {T=complex64, Tout=float}\ninputs: x, y\noutputs: size\n"
    )
    with pytest.raises(UnsupportedOp, match=r"complex|real numbers only"):
        thinflow.save(graph, tmp_path / f"m.{target}")
