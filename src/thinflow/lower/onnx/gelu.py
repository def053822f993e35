"""GELU as one operator, which ONNX has since opset 20, or as ONNX Runtime looks for it."""

from __future__ import annotations

import math

import numpy as np

from thinflow.lower.gelu_forms import Gelu, found_gelu
from thinflow.lower.onnx.wiring import Match, Rewrite, new_constant
from thinflow.onnx.program import Program, Tensor
from thinflow.program.fusion import need, only_if, op, value
from thinflow.program.wiring import with_constant

_SINCE = 20


class FuseGelu(Rewrite):
    """x * 0.5 * (1 + erf(x / sqrt 2)) -> Gelu(x); before opset 20 in just this order, with a quotient.

    So ONNX Runtime makes one op of it. Models say it with erfc, multiply where this divides, and have the
    half elsewhere; then it takes them one by one. The approximation by tanh stays as it is before opset 20.
    """

    patterns = (op("Mul|Div|Add", value("first"), value("second")),)

    def replace(self, m: Match) -> None:
        gelu, program = found_gelu(m.wiring, m.head), m.wiring.block
        assert isinstance(program, Program)
        has_op = program.opset >= _SINCE
        only_if(gelu is not None and (has_op or not gelu.approximate))
        assert gelu is not None
        x, name = gelu.x, m.output.name
        need(x.shape is not None and x.shape == m.output.shape, "its numbers broadcast to another shape")
        only_if(has_op or not _is_as_wanted(m, gelu))
        if gelu.inner != 1:
            x = self._step(m, "Mul", f"{name}/scaled", x, gelu.inner)
        if has_op:
            y = Tensor(f"{name}/gelu", x.shape, x.dtype)
            how = "tanh" if gelu.approximate else "none"
            if gelu.outer == 1:
                m.wiring.become(m.head, "Gelu", x, approximate=how)
                return
            m.wiring.add(m.head, "Gelu", [x], y, approximate=how)
            m.wiring.become(m.head, "Mul", y, _constant(f"{name}/factor", gelu.outer, x))
            return
        # ONNX Runtime merges equal products, and drops a gelu's whoever else reads it; see `own_halves`.
        half = _product(m, x, 0.5 * gelu.outer)
        half = half or self._step(m, "Mul", f"{name}/halved", x, 0.5 * gelu.outer)
        divided = self._step(m, "Div", f"{name}/divided", x, math.sqrt(2))
        erf = m.wiring.add(m.head, "Erf", [divided], Tensor(f"{name}/erf", x.shape, x.dtype))
        m.wiring.become(m.head, "Mul", half, self._step(m, "Add", f"{name}/gate", erf, 1.0))

    @staticmethod
    def _step(m: Match, code: str, name: str, x: Tensor, number: float) -> Tensor:
        """An operator between a tensor and a number."""
        y = Tensor(name, x.shape, x.dtype)
        return m.wiring.add(m.head, code, [x, _constant(f"{name}/number", number, x)], y)


def _constant(name: str, number: float, like: Tensor) -> Tensor:
    return new_constant(name, np.array(number, like.dtype.numpy()), like.dtype)


def _product(m: Match, x: Tensor, number: float) -> Tensor | None:
    """What an operator that is there makes of a tensor and a number."""
    for reader in m.wiring.readers(x):
        source, constant = with_constant(reader) if reader.code == "Mul" else (None, None)
        if source is x and constant is not None and constant.size == 1 and float(constant) == number:
            return reader.outputs[0]
    return None


def _is_as_wanted(m: Match, gelu: Gelu[Tensor]) -> bool:
    """True if it is spelled as it would be written."""
    if m.head.code != "Mul" or gelu.inner != 1:
        return False
    for half, gate in (m.head.inputs, m.head.inputs[::-1]):
        product, total = m.wiring.producer(half, "Mul"), m.wiring.producer(gate, "Add")
        if product is None or total is None or with_constant(product)[0] is not gelu.x:
            continue
        erf = m.wiring.producer(with_constant(total)[0], "Erf")
        quotient = None if erf is None else m.wiring.producer(erf.inputs[0], "Div")
        if quotient is not None and quotient.inputs[0] is gelu.x:
            return True
    return False
