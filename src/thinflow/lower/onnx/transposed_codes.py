"""Transposes of reals that were codes: the codes are transposed instead."""

from __future__ import annotations

from thinflow.lower.onnx.wiring import Wiring
from thinflow.onnx.program import Program, Tensor


def transpose_bytes(program: Program) -> None:
    """transpose(dequantize(q)) -> dequantize(transpose(q)): codes are a quarter of the size of reals."""
    wiring = Wiring(program)
    for operator in program.operators:
        source = operator.inputs[0] if operator.code == "Transpose" else None
        found = wiring.sole_producer(source, "DequantizeLinear")
        if found is None or any(t is None or t.shape != () for t in found.inputs[1:]):
            continue
        codes, output = found.inputs[0], operator.outputs[0]
        assert codes is not None
        moved = Tensor(f"{codes.name}/moved", output.shape, codes.dtype)
        wiring.set_input(operator, 0, codes)
        wiring.set_output(operator, 0, moved)
        wiring.set_input(found, 0, moved)
        wiring.set_output(found, 0, output)
    wiring.finish()
