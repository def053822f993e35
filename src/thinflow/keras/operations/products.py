"""Products of matrices and tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thinflow.ir.graph import Value
from thinflow.ir.types import FLOAT, INT32, dtype
from thinflow.keras.call import Call
from thinflow.keras.nodes import common
from thinflow.keras.operations.elementwise import first, floats, operands, tensor
from thinflow.keras.registry import Result, operation


def contracted(c: Call, x: Value, y: Value, of_x: Sequence[int], of_y: Sequence[int]) -> Value:
    """The sums of products along pairs of axes; the others of x stand before those of y."""
    left, right = ([n for n in range(c.rank(v)) if n not in axes] for v, axes in ((x, of_x), (y, of_y)))
    count = 1
    for one, other in zip(of_x, of_y, strict=True):
        count *= (c.shape(x)[one] or c.shape(y)[other]) or c.size(x, one)
    rows = c.reshape(c.transpose(x, [*left, *of_x]), (None, count))
    columns = c.reshape(c.transpose(y, [*of_y, *right]), (count, None))
    product = c.emit("MatMul", rows, columns, transpose_a=False, transpose_b=False)
    return c.shaped(product, [*(c.dim(x, n) for n in left), *(c.dim(y, n) for n in right)])


def in_floats(c: Call, x: Value, y: Value) -> tuple[Value, Value]:
    """Both in floats, in which Keras multiplies whole numbers, too."""
    return floats(c, x), floats(c, y)


@operation("Matmul", "linalg.matmul", "matmul")
def matmul(c: Call) -> Result:
    x, y = operands(c)
    turns = [bool(c.argument(f"transpose_{side}", 9)) for side in "ab"]
    turns = [t or bool(c.argument(f"adjoint_{side}", 9)) for t, side in zip(turns, "ab", strict=True)]
    given = c.type_of(x)
    if c.generation >= 3:
        # Matrices of int8 give int32.
        given = INT32 if given is dtype("int8") and 1 not in (c.rank(x), c.rank(y)) else given
        x, y = in_floats(c, x, y)
    return c.cast(_multiplied(c, x, y, turns), given)


def _multiplied(c: Call, x: Value, y: Value, turns: Sequence[bool]) -> Value:
    if 1 in (c.rank(x), c.rank(y)) and not any(turns):
        return contracted(c, x, y, [c.rank(x) - 1], [max(c.rank(y) - 2, 0)])
    if min(c.rank(x), c.rank(y)) < 2:
        raise c.refuse("it multiplies a vector")
    if c.rank(x) == c.rank(y) == 2:
        return c.emit("MatMul", x, y, transpose_a=turns[0], transpose_b=turns[1])
    if c.rank(y) == 2 and not any(turns):
        return c.matmul(x, y)
    return c.emit("BatchMatMulV2", x, y, adj_x=turns[0], adj_y=turns[1])


@operation("Einsum", "einsum", "linalg.einsum")
def einsum(c: Call) -> Result:
    """By an equation, two tensors at a time; Keras 3 keeps it as an option."""
    given = [item for item in c.args if isinstance(item, str)]
    equation = given[0] if given else c.layer.options.get("subscripts", c.kwargs.get("equation"))
    c.read |= {"subscripts", "equation", "name"}
    values = [v for item in c.args for v in (item if isinstance(item, list | tuple) else [item])]
    like = next((v for v in values if isinstance(v, Value)), None)
    xs = [c.literal(v, like) for v in values if not isinstance(v, str)]
    parts, _, result = str(equation).replace(" ", "").partition("->")
    inputs = parts.split(",")
    if not isinstance(equation, str) or len(inputs) != len(xs):
        raise c.refuse(f"{len(xs)} tensors are multiplied by {str(equation)[:60]!r}")
    inputs, result = _lettered(c, xs, inputs, result if "->" in equation else None)
    element = c.type_of(xs[0])
    for x in xs:
        element = common(element, c.type_of(x))
    xs = [c.cast(x, element if element.is_floating else FLOAT) for x in xs]
    while len(xs) > 2:
        # Letters that nobody behind asks for are summed at once.
        asked = {*result, *"".join(inputs[2:])}
        between = "".join(n for n in dict.fromkeys(inputs[0] + inputs[1]) if n in asked)
        product = c.emit("Einsum", *xs[:2], equation=f"{inputs[0]},{inputs[1]}->{between}", N=2)
        xs, inputs = [product, *xs[2:]], [between, *inputs[2:]]
    return c.cast(c.emit("Einsum", *xs, equation=f"{','.join(inputs)}->{result}", N=len(xs)), element)


def _lettered(
    c: Call, xs: Sequence[Value], inputs: Sequence[str], result: str | None
) -> tuple[list[str], str]:
    """The sides of an equation with letters for dots, and the result of one that does not state it."""
    used = set("".join(inputs) + (result or ""))
    free = [letter for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if letter not in used]
    counts = [c.rank(x) - len(part.replace("...", "")) for x, part in zip(xs, inputs, strict=True)]
    most = max((n for n, part in zip(counts, inputs, strict=True) if "..." in part), default=0)
    if any(n < 0 or (n and "..." not in part) for n, part in zip(counts, inputs, strict=True)):
        raise c.refuse(
            f"its equation {','.join(inputs)[:60]!r} does not fit tensors of {[*map(c.rank, xs)]} axes"
        )
    dots = "".join(free[:most])
    found = [part.replace("...", dots[most - n :]) for n, part in zip(counts, inputs, strict=True)]
    for letter in dots:
        sizes = {c.shape(x)[part.index(letter)] for x, part in zip(xs, found, strict=True) if letter in part}
        if len(sizes) > 1:
            raise c.refuse(f"sizes behind the dots of its equation differ: {sorted(map(str, sizes))}")
    if result is None:
        every = "".join(inputs).replace("...", "")
        single = [n for n in every if every.count(n) == 1]
        if sorted(single) != single:
            raise c.refuse("its equation leaves an order of axes open, in which Keras's backends differ")
        result = ("..." if most else "") + "".join(single)
    return found, result.replace("...", dots)


@operation("Tensordot")
def tensordot(c: Call) -> Result:
    """The sums of products along the last axes of one and the first of the other, or those that are named."""
    x, y = operands(c)
    axes = c.get("axes", 2)
    if isinstance(axes, int):
        pairs = list(range(c.rank(x) - axes, c.rank(x))), list(range(axes))
    elif isinstance(axes, list) and len(axes) == 2:
        one, two = ([n] if isinstance(n, int) else list(n) for n in axes)
        pairs = [c.axis(n, c.rank(x)) for n in one], [c.axis(n, c.rank(y)) for n in two]
    else:
        raise c.refuse(f"its axes are {str(axes)[:40]}")
    return c.cast(contracted(c, *in_floats(c, x, y), *pairs), c.type_of(x))


@operation("Inner", "Vdot", "Dot")
def inner(c: Call) -> Result:
    """The sum of products along the last axes; of all elements (Vdot); by numpy's rule (Dot)."""
    x, y = operands(c)
    given, kind = c.type_of(x), c.layer.kind
    x, y = in_floats(c, x, y)
    if kind != "Vdot" and 0 in (c.rank(x), c.rank(y)):
        return c.cast(c.emit("Mul", x, y), given)
    if kind == "Vdot":
        x, y = (c.reshape(v, (None,)) for v in (x, y))
        return c.cast(c.reduce("Sum", c.emit("Mul", x, y), [0]), given)
    if kind == "Dot" and c.rank(y) == 2:
        return c.cast(c.matmul(x, y) if c.rank(x) > 1 else contracted(c, x, y, [0], [0]), given)
    axis = c.rank(y) - 1 if kind == "Inner" else max(c.rank(y) - 2, 0)
    return c.cast(contracted(c, x, y, [c.rank(x) - 1], [axis]), given)


@operation("Kron")
def kron(c: Call) -> Result:
    """Blocks: the second one times each element of the first."""
    x, y = operands(c)
    rank = max(c.rank(x), c.rank(y))
    one, two = ([*[1] * (rank - c.rank(v)), *(c.size(v, n) for n in range(c.rank(v)))] for v in (x, y))
    x = c.reshape(x, [n for size in one for n in (size, 1)])
    y = c.reshape(y, [n for size in two for n in (1, size)])
    return c.reshape(c.emit("Mul", x, y), [n * m for n, m in zip(one, two, strict=True)])


@operation("Cross")
def cross(c: Call) -> Result:
    """The cross product of vectors of 3, or of 2 in a plane."""
    xs, axis = operands(c), c.get("axis")
    vectors = []
    for x, option in zip(xs, ("axisa", "axisb"), strict=True):
        own = c.integer(option, -1)
        place = c.axis(axis if isinstance(axis, int) else own, c.rank(x))
        x = c.transpose(x, [*(n for n in range(c.rank(x)) if n != place), place])
        around = [[0, 0]] * (c.rank(x) - 1) + [[0, 3 - c.size(x, -1)]]
        vectors.append(c.pad(x, around))
    (a1, a2, a3), (b1, b2, b3) = (_unstacked(c, x) for x in vectors)

    def minor(a: Value, b: Value, p: Value, q: Value) -> Value:
        return c.emit("Sub", c.emit("Mul", a, b), c.emit("Mul", p, q))

    last = minor(a1, b2, a2, b1)
    own = c.integer("axisc", -1)
    place = axis if isinstance(axis, int) else own
    if all(v is not x for v, x in zip(vectors, xs, strict=True)) and _are_plane(c, xs, axis):
        return last
    parts = [minor(a2, b3, a3, b2), minor(a3, b1, a1, b3), last]
    return c.emit("Pack", *parts, N=3, axis=c.axis(place, c.rank(last) + 1), name="stack")


def _are_plane(c: Call, xs: Sequence[Value], axis: object) -> bool:
    places = [axis if isinstance(axis, int) else c.integer(option, -1) for option in ("axisa", "axisb")]
    return all(c.shape(x)[n] == 2 for x, n in zip(xs, places, strict=True))


def _unstacked(c: Call, x: Value) -> list[Value]:
    node = c.node("Unpack", x, name="unstack", num=3, axis=c.rank(x) - 1)
    return [node.output(n) for n in range(3)]


@operation("Correlate")
def correlate(c: Call) -> Result:
    """The sums of products with a row that is moved along."""
    x, y = operands(c)
    if (c.rank(x), c.rank(y)) != (1, 1) or c.type_of(x).itemsize > 4:
        raise c.refuse("its operands are no vectors of float32")
    x, y = (c.cast(v, FLOAT) if not c.type_of(v).is_floating else v for v in (x, y))
    n, m = c.size(x, 0), c.size(y, 0)
    mode = c.choice("mode", "valid", "same", "full")
    around = 0 if mode == "valid" else m - 1
    x = c.reshape(c.pad(x, [[around, around]]), (1, 1, n + 2 * around, 1))
    one = (1, 1, 1, 1)
    kernel = c.reshape(y, (1, m, 1, 1))
    kinds: dict[str, Any] = {"strides": one, "padding": "VALID", "dilations": one, "data_format": "NHWC"}
    full = c.reshape(c.emit("Conv2D", x, kernel, **kinds), (None,))
    start = (n + m - 1 - max(n, m)) // 2
    return c.sliced(full, [start], [start + max(n, m)]) if mode == "same" else full


@operation("Corrcoef")
def corrcoef(c: Call) -> Result:
    """The correlation of each row with each."""
    x = floats(c, first(c))
    if c.rank(x) != 2:
        raise c.refuse(f"its input has {c.rank(x)} axes")
    x = c.emit("Sub", x, c.reduce("Mean", x, [1], True))
    products = c.emit("MatMul", x, x, transpose_a=False, transpose_b=True)
    norms = c.emit("Sqrt", c.reduce("Sum", c.emit("Square", x), [1], True))
    sizes = c.emit("MatMul", norms, norms, transpose_a=False, transpose_b=True)
    return c.emit("Maximum", c.emit("Minimum", c.emit("RealDiv", products, sizes), 1.0), -1.0)


@operation("CDist")
def distances(c: Call) -> Result:
    """The distance of each row of one from each of the other."""
    x, y = tensor(c, "x", 0), tensor(c, "y", 1)
    squares = c.emit("SquaredDifference", c.expand(x, c.rank(x) - 1), c.expand(y, c.rank(y) - 2))
    return c.emit("Sqrt", c.reduce("Sum", squares, [-1]))
