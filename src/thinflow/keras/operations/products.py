"""Products of matrices and tensors."""

from __future__ import annotations

from thinflow.ir.graph import Value
from thinflow.keras.call import Call
from thinflow.keras.layers.core import einsum_equation
from thinflow.keras.operations.elementwise import operands
from thinflow.keras.registry import Result, operation


@operation("Matmul", "linalg.matmul", "matmul")
def matmul(c: Call) -> Result:
    x, y = operands(c)
    turns = [bool(c.argument(f"transpose_{side}", 9)) for side in "ab"]
    turns = [t or bool(c.argument(f"adjoint_{side}", 9)) for t, side in zip(turns, "ab", strict=True)]
    if c.rank(x) == c.rank(y) == 2:
        return c.emit("MatMul", x, y, transpose_a=turns[0], transpose_b=turns[1])
    if min(c.rank(x), c.rank(y)) < 2:
        raise c.refuse("it multiplies a vector")
    if c.rank(y) == 2 and not any(turns):
        return c.matmul(x, y)
    return c.emit("BatchMatMulV2", x, y, adj_x=turns[0], adj_y=turns[1])


@operation("Dot")
def dot(c: Call) -> Result:
    x, y = operands(c)
    if c.rank(x) < 1 or c.rank(y) != 2:
        raise c.refuse("only products with a matrix are known")
    return c.matmul(x, y)


@operation("Einsum", "einsum", "linalg.einsum")
def einsum(c: Call) -> Result:
    """By an equation; Keras 3 keeps it as an option."""
    given = [item for item in c.args if isinstance(item, str)]
    equation = given[0] if given else c.layer.options.get("subscripts", c.kwargs.get("equation"))
    c.read |= {"subscripts", "equation", "name"}
    values = [v for item in c.args for v in (item if isinstance(item, list | tuple) else [item])]
    tensors = [v for v in values if isinstance(v, Value)]
    if not isinstance(equation, str) or not 1 <= len(tensors) <= 2:
        raise c.refuse(f"{len(tensors)} tensors are multiplied by {str(equation)[:60]!r}")
    plain = equation.replace(" ", "")
    if "->" not in plain or ("..." in plain and len(tensors) > 1):
        raise c.refuse(f"its equation is {plain[:60]!r}")
    return c.emit("Einsum", *tensors, equation=einsum_equation(c, plain), N=len(tensors))
