"""Numbers for a whole tensor, taken from it in the layout in which others read it, too."""

from __future__ import annotations

import numpy as np

from thinflow.lower.onnx.wiring import Wiring, new_constant
from thinflow.onnx.program import Operator, Program, Tensor
from thinflow.program.wiring import constant_of

_ANY_ORDER = ("ReduceMax", "ReduceMin")


def reduce_late(program: Program) -> None:
    """max(x), transpose(x)  ->  max(flat(transpose(x))): the layout of x itself need not exist then."""
    wiring = Wiring(program)
    for operator in program.operators:
        source = operator.inputs[0] if operator.code in _ANY_ORDER and is_whole(operator) else None
        moved = None if source is None else _transposition(wiring, source)
        if moved is not None:
            wiring.set_inputs(operator, [_flat(wiring, moved)])
            operator.options.pop("axes", None)
    wiring.finish()


def _transposition(wiring: Wiring, x: Tensor) -> Operator | None:
    """What moves the axes of x, or gave x its own, for others as well."""
    found = wiring.producer(x, "Transpose")
    if found is not None:
        return found if any(o.code not in _ANY_ORDER for o in wiring.readers(x)) else None
    return next((o for o in wiring.readers(x) if o.code == "Transpose"), None)


def _flat(wiring: Wiring, transpose: Operator) -> Tensor:
    """The elements in the order of a transposition. ONNX Runtime moves no Transpose past a Reshape."""
    y = transpose.outputs[0]
    for reader in wiring.readers(y):
        known = constant_of(reader.inputs[1]) if reader.code == "Reshape" else None
        if known is not None and known.tolist() == [-1]:
            return reader.outputs[0]
    flat = Tensor(f"{y.name}/flat", (None,), y.dtype)
    sizes = new_constant(f"{y.name}/all", np.array([-1], np.int64))
    return wiring.add(transpose, "Reshape", [y, sizes], flat)


def is_whole(operator: Operator) -> bool:
    """Whether a reduction leaves a scalar, whatever the order of its operand's axes."""
    axes = operator.options.get("axes")
    if len(operator.inputs) > 1 and operator.inputs[1] is not None:
        listed = constant_of(operator.inputs[1])
        axes = None if listed is None else tuple(listed.tolist())
        if axes is None:
            return False
    shape = operator.inputs[0].shape if operator.inputs[0] is not None else None
    is_all = axes is None or (shape is not None and len({a % len(shape) for a in axes}) == len(shape))
    return is_all and not operator.options.get("keepdims", 1)
