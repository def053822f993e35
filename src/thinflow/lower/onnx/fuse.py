"""Fewer operators for the same result.

Run-time optimizers do much of this as well; it is done here so that the file is small and says what it means.
None of the rules changes an array: weights may be shared, so a rule that needs other numbers makes its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from thinflow.lower.onnx.fuse_erf import fuse_erf
from thinflow.lower.onnx.wiring import Wiring, new_constant
from thinflow.onnx.program import Operator, Program, Tensor
from thinflow.program.wiring import constant_of, with_constant

Rule = Callable[[Wiring, Operator], None]
_MAX_ROUNDS = 20


def fuse(program: Program) -> None:
    """Apply every rule until none finds anything."""
    for _ in range(_MAX_ROUNDS):
        wiring = Wiring(program)
        for operator in list(program.operators):
            for rule in RULES.get(operator.code, ()):
                if not wiring.is_gone(operator) and rule in RULES.get(operator.code, ()):
                    rule(wiring, operator)
        wiring.finish()
        program.remove_dead()
        if not wiring.changes:
            break
    own_halves(program)


def own_halves(program: Program) -> None:
    """Let one product at most read 0.5 * x, and others x / 2, which is the same number.

    ONNX Runtime makes one op of a gelu and drops its half of x, even where something else reads that as well;
    then it refuses the model. Copies of the product would not do: it merges them first.
    """
    for half in [o for o in program.operators if o.code == "Mul" and _is_half(o)]:
        (y,), (x, constant) = half.outputs, with_constant(half)
        read = [o for o in program.operators if y in o.inputs]
        kept = [] if y in program.outputs else [o for o in read if o.code == "Mul"][:1]
        if not any(o.code == "Mul" for o in read) or read == kept or x is None or constant is None:
            continue
        two = new_constant(f"{y.name}/two", np.full_like(constant, 2), y.dtype)
        other = Tensor(f"{y.name}/half", y.shape, y.dtype)
        place = program.operators.index(half) + 1
        program.operators.insert(place, Operator("Div", [x, two], [other], origin=half.origin))
        for reader in read:
            if reader not in kept:
                reader.inputs = [other if t is y else t for t in reader.inputs]


def _is_half(operator: Operator) -> bool:
    _, constant = with_constant(operator)
    return constant is not None and constant.size == 1 and bool((constant == 0.5).all())


def fuse_bias(wiring: Wiring, operator: Operator) -> None:
    """add(conv(x, w), b) -> conv(x, w, b), b one number per channel or one for all."""
    y, constant = with_constant(operator)
    conv = wiring.sole_producer(y, "Conv", "ConvTranspose")
    if y is None or constant is None or conv is None or y.shape is None or len(conv.inputs) > 2:
        return
    weights = conv.inputs[1]
    if weights is None or weights.shape is None or operator.outputs[0].dtype is not weights.dtype:
        return
    groups = int(conv.options.get("group", 1))
    count = weights.shape[0] if conv.code == "Conv" else (weights.shape[1] or 0) * groups
    sizes = (1,) * (len(y.shape) - constant.ndim) + constant.shape
    if count is None or len(sizes) != len(y.shape) or any(n != 1 for a, n in enumerate(sizes) if a != 1):
        return
    if sizes[1] not in (1, count):
        return
    bias = np.ascontiguousarray(np.broadcast_to(constant.reshape(-1), (count,)))
    wiring.set_input(conv, 2, new_constant(f"{operator.outputs[0].name}/bias", bias, weights.dtype))
    wiring.absorb(operator, conv)


def fuse_gemm(wiring: Wiring, operator: Operator) -> None:
    """add(matmul(x, w), b) -> gemm(x, w, b), for matrices of floats and a row b."""
    y, constant = with_constant(operator)
    matmul = wiring.sole_producer(y, "MatMul", "Gemm")
    if matmul is None or y is None or constant is None or len(matmul.inputs) > 2:
        return
    shapes = [t.shape for t in (*matmul.inputs, operator.outputs[0]) if t is not None]
    if any(s is None or len(s) != 2 for s in shapes) or not y.dtype.is_floating:
        return
    units = shapes[1][1 - matmul.options.get("transB", 0)] if shapes[1] is not None else None
    if (
        constant.ndim > 2
        or constant.shape[:-1] not in ((), (1,))
        or constant.shape[-1:] not in ((), (1,), (units,))
    ):
        return
    if shapes[-1] is None or shapes[-1][1] != units:
        return
    matmul.code = "Gemm"
    bias = next(t for t in operator.inputs if t is not y)
    wiring.set_input(matmul, 2, bias)
    wiring.absorb(operator, matmul)


def fuse_pad(wiring: Wiring, operator: Operator) -> None:
    """conv(pad(x)) -> conv(x) with pads, for a border of zeros around height and width.

    A Transpose between them reads x itself.
    """
    between = wiring.sole_producer(operator.inputs[0], "Transpose")
    pad = wiring.producer(operator.inputs[0] if between is None else between.inputs[0], "Pad")
    if pad is None or pad.options.get("mode") != "constant" or operator.options.get("auto_pad"):
        return
    if len(pad.inputs) > 2 and pad.inputs[2] is not None and _is_not_zero(pad.inputs[2]):
        return
    pads = constant_of(pad.inputs[1])
    if pads is None or len(pad.inputs) > 3 or (pads < 0).any():
        return
    x = pad.inputs[0]
    begins, ends = pads.reshape(2, -1)
    if between is not None:
        order = list(between.options["perm"])
        begins, ends = begins[order], ends[order]
    if x is None or begins[:2].any() or ends[:2].any():
        return
    border = [*begins[2:], *ends[2:]]
    old = operator.options.get("pads", [0] * len(border))
    operator.options["pads"] = tuple(int(a + b) for a, b in zip(old, border, strict=True))
    if between is None:
        wiring.set_input(operator, 0, x)
    else:
        between.outputs[0].shape = None if x.shape is None else tuple(x.shape[a] for a in order)
        wiring.set_input(between, 0, x)


def _is_not_zero(tensor: Tensor) -> bool:
    array = constant_of(tensor)
    return array is None or bool(array.any())


def merge_reshapes(wiring: Wiring, operator: Operator) -> None:
    """reshape(reshape(x)) -> reshape(x), where the last shape is fixed."""
    before = wiring.producer(operator.inputs[0], "Reshape", "Squeeze", "Unsqueeze", "Flatten")
    sizes = constant_of(operator.inputs[1])
    if before is None or sizes is None or (0 in sizes and not operator.options.get("allowzero")):
        return
    wiring.set_input(operator, 0, before.inputs[0])


def as_reshape(wiring: Wiring, operator: Operator) -> None:
    """A Squeeze or Unsqueeze next to a Reshape is a Reshape, so that they merge."""
    x, y = operator.inputs[0], operator.outputs[0]
    if y.shape is None or y.shape.count(None) > 1 or 0 in y.shape:
        return
    around = [wiring.producer(x, "Reshape", "Squeeze", "Unsqueeze"), *wiring.readers(y)]
    if any(o is not None and o.code in ("Reshape", "Squeeze", "Unsqueeze") for o in around):
        _become_reshape(wiring, operator)


def _become_reshape(wiring: Wiring, operator: Operator) -> None:
    y = operator.outputs[0]
    sizes = np.array([-1 if n is None else n for n in y.shape or ()], np.int64)
    operator.code, operator.options = "Reshape", {}
    wiring.set_inputs(operator, [operator.inputs[0], new_constant(f"{y.name}/shape", sizes)])


def drop_reshape(wiring: Wiring, operator: Operator) -> None:
    """A Reshape to the shape a tensor has: equal known sizes leave room for at most one unknown."""
    x, y = operator.inputs[0], operator.outputs[0]
    if (
        x is not None
        and x.shape is not None
        and x.shape == y.shape
        and x.shape.count(None) <= 1
        and 0 not in x.shape
    ):
        wiring.bypass(operator, x)


def merge_transposes(wiring: Wiring, operator: Operator) -> None:
    """transpose(transpose(x)) -> transpose(x)."""
    before = wiring.producer(operator.inputs[0], "Transpose")
    if before is None:
        return
    first, second = before.options["perm"], operator.options["perm"]
    operator.options["perm"] = tuple(first[a] for a in second)
    wiring.set_input(operator, 0, before.inputs[0])


def simplify_transpose(wiring: Wiring, operator: Operator) -> None:
    """A Transpose that keeps the order is nothing; one that only moves axes of size 1 is a Reshape."""
    x, y, order = operator.inputs[0], operator.outputs[0], operator.options.get("perm")
    if x is None or order is None:
        return
    if list(order) == sorted(order):
        wiring.bypass(operator, x)
        return
    if x.shape is None or len(x.shape) != len(order):
        return
    y.shape = tuple(x.shape[a] for a in order)
    moved = [a for a in order if x.shape[a] != 1]
    if moved == sorted(moved) and 0 not in y.shape and y.shape.count(None) <= 1:
        _become_reshape(wiring, operator)


def merge_equal_transposes(wiring: Wiring, operator: Operator) -> None:
    """One Transpose for all readers of a tensor that want the same order."""
    x = operator.inputs[0]
    if x is None:
        return
    for other in wiring.readers(x):
        if other is not operator and other.code == "Transpose" and other.options == operator.options:
            wiring.bypass(other, operator.outputs[0])


def drop_cast(wiring: Wiring, operator: Operator) -> None:
    """A Cast to the type a tensor has; a way to a wider type and back."""
    x, y = operator.inputs[0], operator.outputs[0]
    if x is None:
        return
    if x.dtype is y.dtype:
        wiring.bypass(operator, x)
        return
    before = wiring.producer(x, "Cast")
    source = None if before is None else before.inputs[0]
    if source is not None and source.dtype is y.dtype and _holds(x, source):
        wiring.bypass(operator, source)


def _holds(wide: Tensor, narrow: Tensor) -> bool:
    """Whether a type holds every value of another."""
    return wide.dtype.numpy_name != "" and bool(np.can_cast(narrow.dtype.numpy(), wide.dtype.numpy(), "safe"))


def drop_single_concat(wiring: Wiring, operator: Operator) -> None:
    if len(operator.inputs) == 1 and operator.inputs[0] is not None:
        wiring.bypass(operator, operator.inputs[0])


def drop_neutral(wiring: Wiring, operator: Operator) -> None:
    """x + 0, x * 1 and the like."""
    x, constant = with_constant(operator)
    neutral = 0 if operator.code in ("Add", "Sub") else 1
    if x is None or constant is None or (operator.code in ("Sub", "Div") and operator.inputs[0] is not x):
        return
    fits = x.shape is not None and constant.ndim <= len(x.shape) and constant.size == 1
    if fits and constant.reshape(()) == neutral:
        wiring.bypass(operator, x)


def fuse_clip(wiring: Wiring, operator: Operator) -> None:
    """min(max(x, low), high) with fixed numbers -> clip(x, low, high)."""
    y, high = with_constant(operator)
    before = wiring.sole_producer(y, "Max", "Relu")
    if before is None or high is None or high.size != 1 or not operator.outputs[0].dtype.is_floating:
        return
    x, low = with_constant(before) if len(before.inputs) == 2 else (before.inputs[0], None)
    if low is None and before.code == "Relu":
        low = np.zeros((), high.dtype)
    if x is None or low is None or low.size != 1 or low > high:
        return
    if max(low.ndim, high.ndim) > len(x.shape or ()):
        return
    name = operator.outputs[0].name
    limits = [
        new_constant(f"{name}/{what}", n.reshape(()), x.dtype) for what, n in (("low", low), ("high", high))
    ]
    operator.code, operator.options = "Clip", {}
    wiring.set_inputs(operator, [x, *limits])


def fuse_relu(wiring: Wiring, operator: Operator) -> None:
    """clip(relu(x), low, high) -> clip(x, low, high), for a low from 0."""
    before = wiring.sole_producer(operator.inputs[0], "Relu")
    low = constant_of(operator.inputs[1]) if len(operator.inputs) > 1 else None
    if before is not None and low is not None and low >= 0:
        wiring.set_input(operator, 0, before.inputs[0])


RULES: dict[str, Sequence[Rule]] = {
    "Add": (drop_neutral, fuse_bias, fuse_gemm, fuse_erf),
    "Sub": (drop_neutral, fuse_erf),
    "Mul": (drop_neutral,),
    "Div": (drop_neutral,),
    "Min": (fuse_clip,),
    "Clip": (fuse_relu,),
    "Conv": (fuse_pad,),
    "Reshape": (merge_reshapes, drop_reshape),
    "Squeeze": (as_reshape,),
    "Unsqueeze": (as_reshape,),
    "Transpose": (merge_transposes, simplify_transpose, merge_equal_transposes),
    "Cast": (drop_cast,),
    "Concat": (drop_single_concat,),
}
