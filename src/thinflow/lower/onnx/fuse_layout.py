"""Fusion of layout: padding, reshapes and transposes, and what does nothing."""

from __future__ import annotations

import numpy as np

from thinflow.ir.types import DType
from thinflow.lower.onnx.wiring import Match, Rewrite, Wiring, new_constant
from thinflow.onnx.operators import Trait, has
from thinflow.onnx.program import Operator, Tensor
from thinflow.program.fusion import const, need, only_if, op, value
from thinflow.program.wiring import constant_of


def _pads_by_itself(operator: Operator) -> bool:
    # auto_pad works out pads of its own and takes none beside it.
    return not operator.options.get("auto_pad")


def _with_zeros(pad: Operator) -> str:
    """The reason why a Pad is not a plain border of zeros; "" if it is one."""
    # A fourth operand names axes, which makes the list of pads shorter.
    if pad.options.get("mode") != "constant" or len(pad.inputs) > 3:
        return "the border is not made of one number, or not around all axes"
    fill = pad.inputs[2] if len(pad.inputs) > 2 else None
    zeros = None if fill is None else constant_of(fill)
    return (
        "" if fill is None or (zeros is not None and not zeros.any()) else "the border is not made of zeros"
    )


# Others may read the padded image as well: the convolution does without it all the same.
_PAD = op("Pad", value("x"), const("pads"), shared=True, where=_with_zeros)


class FusePad(Rewrite):
    """conv(pad(x)) -> conv(x) with pads, for a border of zeros around height and width.

    A Transpose between them reads x itself.
    """

    patterns = (
        op("Conv", op("Transpose", _PAD, name="between"), when=_pads_by_itself),
        op("Conv", _PAD, when=_pads_by_itself),
    )

    def replace(self, m: Match) -> None:
        x, pads, between = m.tensor("x"), m.array("pads"), m.operators.get("between")
        need((pads >= 0).all(), "the border crops")
        begins, ends = pads.reshape(2, -1)
        # Pads go by the axes of x; what the convolution reads has been transposed since.
        order = list(range(len(begins))) if between is None else list(between.options["perm"])
        begins, ends = begins[order], ends[order]
        need(not begins[:2].any() and not ends[:2].any(), "more than height and width is padded")
        border = [*begins[2:], *ends[2:]]
        old = m.head.options.get("pads", [0] * len(border))
        m.head.options["pads"] = tuple(int(a + b) for a, b in zip(old, border, strict=True))
        if between is not None:
            # The Transpose now moves the image without its border.
            between.outputs[0].shape = None if x.shape is None else tuple(x.shape[a] for a in order)
        m.wiring.set_input(m.head if between is None else between, 0, x)


class MergeReshapes(Rewrite):
    """reshape(reshape(x)) -> reshape(x), where the last shape is fixed."""

    patterns = (
        op("Reshape", op("Reshape|Squeeze|Unsqueeze|Flatten", value("x"), shared=True), const("sizes")),
    )

    def replace(self, m: Match) -> None:
        # A 0 means "as in the operand", which would be another one.
        copies = 0 in m.array("sizes") and not m.head.options.get("allowzero")
        need(not copies, "it keeps a size of what is reshaped before")
        m.wiring.set_input(m.head, 0, m.tensor("x"))


class AsReshape(Rewrite):
    """A Squeeze or Unsqueeze next to a Reshape is a Reshape, so that they merge."""

    patterns = (op("Squeeze|Unsqueeze", value("x")),)

    def replace(self, m: Match) -> None:
        around = [m.wiring.producer(m.tensor("x")), *m.wiring.readers(m.output)]
        only_if(any(o is not None and has(o.code, Trait.RESHAPE) for o in around))
        _become_reshape(m.wiring, m.head, m.tensor("x"))


def _become_reshape(wiring: Wiring, operator: Operator, x: Tensor) -> None:
    y = operator.outputs[0]
    # -1 stands for one size alone, and cannot be worked out beside a size of 0.
    only_if(y.shape is not None and y.shape.count(None) <= 1 and 0 not in y.shape)
    sizes = np.array([-1 if n is None else n for n in y.shape or ()], np.int64)
    wiring.become(operator, "Reshape", x, new_constant(f"{y.name}/shape", sizes))


class DropReshape(Rewrite):
    """A Reshape to the shape a tensor has: equal known sizes leave room for at most one unknown."""

    patterns = (op("Reshape", value("x")),)

    def replace(self, m: Match) -> None:
        shape = m.tensor("x").shape
        # Two unknown sizes may have changed places.
        only_if(shape is not None and shape == m.output.shape and shape.count(None) <= 1 and 0 not in shape)
        m.wiring.bypass(m.head, m.tensor("x"))


class MergeTransposes(Rewrite):
    """transpose(transpose(x)) -> transpose(x)."""

    patterns = (op("Transpose", op("Transpose", value("x"), name="before", shared=True)),)

    def replace(self, m: Match) -> None:
        first, second = m.operator("before").options["perm"], m.head.options["perm"]
        # Axis a of the result is axis second[a] of what is between, which is axis first[second[a]] of x.
        m.head.options["perm"] = tuple(first[a] for a in second)
        m.wiring.set_input(m.head, 0, m.tensor("x"))


class SimplifyTranspose(Rewrite):
    """A Transpose that keeps the order is nothing; one that only moves axes of size 1 is a Reshape."""

    patterns = (op("Transpose", value("x"), when=lambda o: o.options.get("perm") is not None),)

    def replace(self, m: Match) -> None:
        x, order = m.tensor("x"), m.head.options["perm"]
        if list(order) == sorted(order):
            m.wiring.bypass(m.head, x)
            return
        only_if(x.shape is not None and len(x.shape) == len(order))
        assert x.shape is not None
        m.output.shape = tuple(x.shape[a] for a in order)
        # Axes of other sizes keep their order, so that elements do.
        moved = [a for a in order if x.shape[a] != 1]
        only_if(moved == sorted(moved))
        _become_reshape(m.wiring, m.head, x)


class MergeEqualTransposes(Rewrite):
    """One Transpose for all readers of a tensor that want the same order."""

    patterns = (op("Transpose", value("x")),)

    def replace(self, m: Match) -> None:
        for other in m.wiring.readers(m.tensor("x")):
            if other is not m.head and other.code == "Transpose" and other.options == m.head.options:
                m.wiring.bypass(other, m.output)


class DropCast(Rewrite):
    """A Cast to the type a tensor has; a way to a wider type and back."""

    patterns = (op("Cast", value("x")), op("Cast", op("Cast", value("source"), name="before", shared=True)))

    def replace(self, m: Match) -> None:
        # The first pattern has no `source`: it is about a Cast that changes nothing.
        if (source := m.tensors.get("source")) is None:
            only_if(m.tensor("x").dtype is m.output.dtype)
            m.wiring.bypass(m.head, m.tensor("x"))
            return
        only_if(source.dtype is m.output.dtype)
        wide = m.operator("before").outputs[0].dtype
        need(_holds(wide, source), f"{wide} does not hold every value of {source.dtype}")
        m.wiring.bypass(m.head, source)


def _holds(wide: DType, narrow: Tensor) -> bool:
    """True if a type holds every value of a tensor's."""
    # numpy calls 64-bit integers to double safe, whose 53 bits do not hold them.
    if narrow.dtype.is_integer and narrow.dtype.itemsize == 8 and not wide.is_integer:
        return False
    return wide.numpy_name != "" and bool(np.can_cast(narrow.dtype.numpy(), wide.numpy(), "safe"))


class DropSingleConcat(Rewrite):
    """A Concat of one part."""

    patterns = (op("Concat", value("x"), when=lambda o: len(o.inputs) == 1),)

    def replace(self, m: Match) -> None:
        m.wiring.bypass(m.head, m.tensor("x"))
