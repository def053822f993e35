"""TensorFlow's functions on tensors of a model: layers of the class TFOpLambda, and slices."""

from __future__ import annotations

from thinflow.ir.graph import Value
from thinflow.keras.call import Call
from thinflow.keras.registry import Rule, operation


def binary(c: Call, op: str, x: object, y: object) -> Value:
    """An op of two operands, of which one may be a number of the config."""
    like = x if isinstance(x, Value) else y if isinstance(y, Value) else None
    return c.emit(op, c.literal(x, like), c.literal(y, like))


def _binary(op: str) -> Rule:
    return lambda c: binary(c, op, c.argument("x", 0), c.argument("y", 1))


for _name, _op in {
    "add": "AddV2",
    "sub": "Sub",
    "mul": "Mul",
    "truediv": "RealDiv",
    "floordiv": "FloorDiv",
    "pow": "Pow",
    "mod": "FloorMod",
}.items():
    operation(f"__operators__.{_name}")(_binary(_op))
