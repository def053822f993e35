"""The builder of lowering rules: it emits operators and knows the node's names, types and shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import BOOL, DOUBLE, FLOAT, INT32, INT64, DType, TensorSpec, dtype
from thinflow.lower.building import Building
from thinflow.lower.operands import WIDENING, ints, require, shape_of
from thinflow.onnx.operators import Trait, facts_of, fitting, has, same_in_onnx
from thinflow.onnx.program import DEFAULT_OPSET, Operator, Tensor, check_options
from thinflow.onnx.protos import ELEMENT_TYPES
from thinflow.program.model import Dims
from thinflow.typing import Array

_CODES = {
    **same_in_onnx(Trait.UNARY | Trait.BINARY),
    # These have kernels for fewer types than TensorFlow's, or a rule of their own for integers.
    "RealDiv": "Div",
    "Maximum": "Max",
    "Minimum": "Min",
    "SelectV2": "Where",
}
_FOLDED = (FLOAT, DOUBLE, INT32, INT64, BOOL)
_MOST = 64
"""Elements of what is computed ahead."""
TO_CHANNELS_FIRST = {n: (0, n - 1, *range(1, n - 1)) for n in range(3, 7)}
"""Rank -> the order of axes that makes channels-last channels-first."""
TO_CHANNELS_LAST = {n: (0, *range(2, n), 1) for n in range(3, 7)}


class Builder(Building[Tensor, Operator]):
    """Collects the operators of one program, node by node.

    Attributes:
        opset: version of ONNX's op set to write for.
        pairs: inputs that hold complex numbers, with a last axis of two.
        blocks: tensor that SpaceToBatch made -> what of, the block, and the border: two numbers per axis.
        extended: whether ops may be written that ONNX Runtime alone has, such as com.microsoft.QLinearAdd.
        limits_bytes: whether Max and Min of uint8 may be written, which ONNX Runtime has since 1.24.
        notes: what rules tell later ones of a tensor, by kind; see `quantized_context`.
    """

    TENSOR: ClassVar = Tensor
    OPERATOR: ClassVar = Operator
    INDEX: ClassVar = INT64

    def __init__(self, specs: Mapping[Value, TensorSpec] | None = None, opset: int = DEFAULT_OPSET) -> None:
        super().__init__(specs)
        self.opset = opset
        self.pairs: set[Tensor] = set()
        self.blocks: dict[Tensor, tuple[Tensor, tuple[int, ...], tuple[int, ...]]] = {}
        self.extended = False
        self.limits_bytes = False
        self.notes: dict[tuple[str, Tensor], Any] = {}
        self._shapes: dict[Tensor, Tensor] = {}

    def inside(self) -> Builder:
        """A builder for a body: it writes to a place of its own, and knows all that is known here."""
        inner = Builder(self._given, self.opset)
        inner.origin, inner._known, inner._names = self.origin, self._known, self._names
        # A copy: a Shape written in the body does not exist outside of it.
        inner._shapes = dict(self._shapes)
        inner.extended, inner.limits_bytes = self.extended, self.limits_bytes
        return inner

    def value(self, value: Value, *, like: Tensor | None = None, element: DType | None = None) -> Tensor:
        """As in the base class; refuses types that ONNX Runtime cannot exchange."""
        found = element or self.spec(value).dtype
        if found is not None and found.kind == "c":
            return self._pair(value, DOUBLE if found.name == "complex128" else FLOAT)
        tensor = super().value(value, like=like, element=element)
        require(
            all(n is None or (type(n) is int and n >= 0) for n in tensor.shape or ()),
            "its shape is not made of sizes",
        )
        if tensor.dtype.name not in ELEMENT_TYPES or tensor.dtype.name == "bfloat16":
            hint = WIDENING if tensor.dtype.name == "bfloat16" else ""
            raise UnsupportedOp(f"ONNX Runtime has no type {tensor.dtype}", hint=hint)
        return tensor

    def _pair(self, value: Value, element: DType) -> Tensor:
        """A complex value with a last axis of two."""
        tensor = super().value(value, element=element)
        require(tensor.shape is not None, "the rank of a complex value is not known")
        tensor.shape = (*(tensor.shape or ()), 2)
        self._known[tensor] = TensorSpec(element, tensor.shape)
        self.pairs.add(tensor)
        return tensor

    def plain(self, element: DType) -> DType:
        """The type in which ONNX holds a TensorFlow type: codes of quantized numbers are integers."""
        return plain_type(element)

    def int64(self, value: int, suffix: str = "const") -> Tensor:
        """An int64 constant []."""
        return self.const(np.int64(value), suffix)

    def producer(self, x: Tensor | None, code: str) -> Operator | None:
        """The operator that writes x, if it is of this kind. O(operators since)."""
        found = next((o for o in reversed(self.operators) if x in o.outputs), None)
        return found if found is not None and found.code == code else None

    # --- operators ----------------------------------------------------------------------------------------

    def type_of_result(self, code: str, inputs: Sequence[Tensor | None]) -> DType:
        deciding = inputs[facts_of(code).deciding]
        assert deciding is not None
        return BOOL if has(code, Trait.GIVES_BOOL) else deciding.dtype

    def append(
        self, code: str, inputs: Sequence[Tensor | None], outputs: list[Tensor], options: dict[str, Any]
    ) -> list[Tensor]:
        """Add an operator, run in a wider type where ONNX Runtime has no kernel for the operands'."""
        check_options(options)
        facts = facts_of(code)
        if facts.since > self.opset:
            raise UnsupportedOp(
                f"ONNX has {code} since opset {facts.since} only", hint=f"write opset {facts.since}"
            )
        place = facts.deciding
        if has(code, Trait.ONE_TYPE):
            kinds = {str(t.dtype) for t in inputs[place:] if t is not None}
            require(len(kinds) == 1, f"{code} takes operands of one type, not {' and '.join(sorted(kinds))}")
        operand = inputs[place] if place < len(inputs) else None
        own = None if operand is None else operand.dtype
        run = None if own is None else fitting(code, own)
        if own is run or own is None or run is None:
            self.operators.append(Operator(code, list(inputs), outputs, options, origin=self.node.name))
            return outputs
        # Only operands of the deciding type change: a Where's condition and a Gather's indices stay what they
        # are.
        inputs = [
            self.cast(t, run)
            if t is not None and t.dtype is own and (t is not inputs[0] or place == 0)
            else t
            for t in inputs
        ]
        results = [
            self.own(code.lower(), t.shape, run) if t.dtype is own and not has(code, Trait.GIVES_BOOL) else t
            for t in outputs
        ]
        self.operators.append(Operator(code, list(inputs), results, options, origin=self.node.name))
        for result, output in zip(results, outputs, strict=True):
            if result is not output:
                self.operators.append(_cast(result, output, self.node.name))
        return outputs

    # --- small steps --------------------------------------------------------------------------------------

    def result(self, x: Tensor, port: int = 0) -> Tensor:
        """x as an output of the node: under its own name, and with what is known of its shape."""
        known = self.result_spec(port)
        if x.shape is None and known.shape is not None:
            x.shape = known.shape
        return x

    def code_of(self, op: str) -> str:
        return _CODES[op]

    def formula(self, code: str, *operands: Tensor, element: DType) -> Tensor:
        """As in the base class; of small constants a constant, where it rounds as IEEE arithmetic does."""
        # Functions such as Exp are left to the runtime, whose last bits are its own; Div of integers to its
        # rule.
        is_float = all(t.dtype.is_floating for t in operands)
        facts = facts_of(code)
        function = facts.exact if is_float or facts.exact_for == "any" else None
        small = all(t.is_constant and t.dtype in _FOLDED and t.array().size <= _MOST for t in operands)
        if function is None or not small:
            return self.step(code, *operands)
        with np.errstate(all="ignore"):
            return self.const(function(*(t.array() for t in operands)), code.lower())

    def transpose(self, x: Tensor, order: tuple[int, ...], shape: Dims) -> Tensor:
        return self.step("Transpose", x, shape=shape, perm=order)

    def channels_first(self, x: Tensor) -> Tensor:
        """x [n,...,c] as [n,c,...]."""
        return self.transposed(x, TO_CHANNELS_FIRST[len(shape_of(x))])

    def emit_channels_last(self, x: Tensor, port: int = 0) -> Tensor:
        """The node's output [n,...,c] from x [n,c,...]."""
        return self.emit("Transpose", x, port=port, like=x, perm=TO_CHANNELS_LAST[len(shape_of(x))])

    def reshape(self, x: Tensor, sizes: Sequence[int], shape: Dims, suffix: str) -> Tensor:
        places = self.ints(sizes, "shape")
        return self.step("Reshape", x, places, shape=shape, suffix=suffix, **self.keep_zeros(sizes))

    def keep_zeros(self, sizes: Sequence[int | None]) -> dict[str, Any]:
        """Options of a Reshape: a size of 0 means empty, as in TensorFlow, not a copy of the old size."""
        return {"allowzero": 1} if 0 in sizes else {}

    def unsqueezed(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        """x with axes of size 1 put in, at these places of the result."""
        if not axes:
            return x
        if x.is_constant:
            return self.const(np.expand_dims(x.array(), tuple(axes)), "unsqueezed", x.dtype)
        shape: Dims = None
        if x.shape is not None:
            left = list(x.shape)
            rank = len(left) + len(axes)
            places = {a % rank for a in axes}
            shape = tuple(1 if a in places else left.pop(0) for a in range(rank))
        return self.step("Unsqueeze", x, self.ints(axes, "axes"), shape=shape)

    def squeezed(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        """x without some axes of size 1."""
        if not axes:
            return x
        if x.is_constant:
            return self.const(np.squeeze(x.array(), tuple(axes)), "squeezed", x.dtype)
        shape: Dims = None
        if x.shape is not None:
            gone = {a % len(x.shape) for a in axes}
            shape = tuple(n for a, n in enumerate(x.shape) if a not in gone)
        return self.step("Squeeze", x, self.ints(axes, "axes"), shape=shape)

    def convert(self, x: Tensor, element: DType) -> Tensor:
        result = self.own("cast", x.shape, element)
        # What is known of the elements of a shape stays known, or sizes computed by the model would be lost.
        self._known[result] = TensorSpec(element, x.shape, self.elements(x))
        self.operators.append(_cast(x, result, self.node.name))
        return result

    def typed(self, x: Tensor, port: int = 0) -> Tensor:
        """x in the type of an output of the node."""
        wanted = plain_type(self.result_spec(port).dtype or x.dtype)
        if wanted is x.dtype:
            return x
        return self.emit("Cast", x, port=port, to=ELEMENT_TYPES[wanted.name])

    def sizes_of(self, x: Tensor) -> Tensor:
        """The shape of x, int64 [rank]; a constant where it is known."""
        if x.shape is not None and None not in x.shape:
            return self.ints([n or 0 for n in x.shape], "sizes")
        if x not in self._shapes:
            rank = None if x.shape is None else (len(x.shape),)
            self._shapes[x] = self.step("Shape", x, shape=rank, element=INT64)
        return self._shapes[x]

    def joined(self, *parts: Tensor) -> Tensor:
        """int64 vectors one after the other; folded if all are constant."""
        if all(p.is_constant for p in parts):
            return self.const(np.concatenate([p.array() for p in parts]), "joined")
        if len(parts) == 1:
            return parts[0]
        lengths = [None if p.shape is None else p.shape[0] for p in parts]
        total = None if None in lengths else sum(n or 0 for n in lengths)
        return self.step("Concat", *parts, shape=(total,), axis=0)

    def sliced(
        self,
        x: Tensor,
        starts: Sequence[int],
        ends: Sequence[int],
        axes: Sequence[int],
        steps: Sequence[int] | None = None,
        *,
        shape: Dims = None,
    ) -> Tensor:
        """x[start:end:step] along some axes; an end beyond the last place means up to it."""
        if x.is_constant:
            index: list[Any] = [slice(None)] * x.array().ndim
            for start, end, axis, step in zip(starts, ends, axes, steps or [1] * len(axes), strict=True):
                # Backwards to the first place: NumPy takes every number below 0 as one from the end, so None
                # says it.
                index[axis] = slice(start, end if end > -END else None, step)
            return self.const(x.array()[tuple(index)], "sliced", x.dtype)
        more = [] if steps is None else [self.ints(steps, "steps")]
        places = [self.ints(v, n) for v, n in ((starts, "starts"), (ends, "ends"), (axes, "axes"))]
        return self.step("Slice", x, *places, *more, shape=shape)

    def reduce(self, code: str, x: Tensor, axes: Sequence[int], *, keep: bool = False) -> Tensor:
        """A reduction on the way."""
        shape: Dims = None
        if x.shape is not None:
            gone = {a % len(x.shape) for a in axes}
            shape = tuple(1 if a in gone else n for a, n in enumerate(x.shape) if keep or a not in gone)
        inputs, options = self.reduction_operands(code, axes)
        return self.step(code, x, *inputs, shape=shape, keepdims=int(keep), **options)

    def reduction_operands(
        self, code: str, axes: Sequence[int] | Tensor
    ) -> tuple[list[Tensor], dict[str, Any]]:
        """The axes as operands and options: as an input since opset 18, for ReduceSum always."""
        if code == "ReduceSum" or self.opset >= 18:
            return [axes if isinstance(axes, Tensor) else self.ints(axes, "axes")], {}
        if isinstance(axes, Tensor):
            axes = ints(axes, "the axes")
        return [], {"axes": tuple(axes)}

    def filled(self, sizes: Tensor, number: Any, element: DType, *, shape: Dims = None) -> Tensor:
        """A tensor of one number, with the sizes an int64 vector says."""
        # The op's attribute is a tensor of one element, not a number.
        value = Tensor("", (1,), element, np.array([number], element.numpy()))
        known = self.elements(sizes)
        if shape is None and known is not None:
            shape = tuple(known)
        return self.step("ConstantOfShape", sizes, shape=shape, element=element, value=value)


END = 2**31 - 1
"""As the end of a slice: up to the last place; -END with a negative step: down to the first."""


def _cast(x: Tensor, result: Tensor, origin: str) -> Operator:
    return Operator("Cast", [x], [result], {"to": ELEMENT_TYPES[result.dtype.name]}, origin)


__all__ = ["END", "Array", "Builder", "Dims", "Tensor", "dtype", "ints", "number", "require", "shape_of"]


# ---- Operands as ONNX holds them.


_PLAIN_TYPES = {"quint8": "uint8", "qint8": "int8", "quint16": "uint16", "qint16": "int16", "qint32": "int32"}


def plain_type(element: DType) -> DType:
    """The type in which ONNX holds a TensorFlow type: codes of quantized numbers are integers."""
    return dtype(_PLAIN_TYPES[element.name]) if element.name in _PLAIN_TYPES else element


def number(x: Tensor, what: str) -> float:
    """The one element of a constant.

    Raises:
        UnsupportedOp: it is computed while the model runs, or there are several.
    """
    if not x.is_constant or x.array().size != 1:
        raise UnsupportedOp(f"{what} is not one fixed number; ONNX wants it so")
    return float(x.array().reshape(()))
