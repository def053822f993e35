"""Fusion of layout: padding, dilation, reshapes and transposes, and what does nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thinflow.lower.tflite.wiring import Match, Rewrite, new_constant
from thinflow.ops._shapes import same_padding
from thinflow.program.fusion import const, need, only_if, op, value
from thinflow.tflite.model import Operator
from thinflow.typing import Array


class FusePad(Rewrite):
    """VALID conv(pad(x)) -> SAME conv(x) where SAME would add just those zeros."""

    patterns = (
        op(
            "CONV_2D|DEPTHWISE_CONV_2D",
            op("PAD", value("x"), const("pads"), shared=True),
            when=lambda o: o.options.get("padding") == "VALID",
        ),
    )

    def replace(self, m: Match) -> None:
        shape, pads = m.tensor("x").shape, m.array("pads").tolist()
        need(shape is not None, "the sizes of what is padded are not known")
        need(len(pads) == 4 and not any(pads[0]) and not any(pads[3]), "more than height and width is padded")
        fits = _is_same(m.head, (shape or ())[1:3], pads[1:3])
        need(fits, f"SAME would not pad by {pads[1]} and {pads[2]}")
        m.head.options["padding"] = "SAME"
        m.wiring.set_input(m.head, 0, m.tensor("x"))


def _is_same(operator: Operator, sizes: Sequence[int | None], pads: Sequence[Sequence[int]]) -> bool:
    """True if SAME padding of these sizes is `pads`. With stride 1 the size does not matter."""
    weights = operator.inputs[1]
    if weights is None or weights.shape is None:
        return False
    for axis, letter in enumerate("hw"):
        size, window = sizes[axis], weights.shape[1 + axis]
        stride = operator.options[f"stride_{letter}"]
        dilation = operator.options.get(f"dilation_{letter}_factor", 1)
        # With stride 1 SAME pads alike for any size; else by what the last window misses of it.
        if window is None or (size is None and stride != 1):
            return False
        if same_padding(size or window, window, stride, dilation) != tuple(pads[axis]):
            return False
    return True


class FuseDilation(Rewrite):
    """batch_to_space(conv(space_to_batch(x))) -> dilated conv(x): how TensorFlow spells dilation."""

    patterns = (
        op(
            "BATCH_TO_SPACE_ND",
            op(
                "CONV_2D|DEPTHWISE_CONV_2D",
                op("SPACE_TO_BATCH_ND", value("x"), const("block"), const("pads")),
                name="conv",
            ),
            const("block_after"),
            const("crops"),
        ),
    )

    def replace(self, m: Match) -> None:
        x, conv = m.tensor("x"), m.operator("conv")
        block, pads, block_after, crops = map(m.array, ("block", "pads", "block_after", "crops"))
        need(x.shape is not None and len(x.shape) == 4, "what is dilated is not known to be images")
        # SPACE_TO_BATCH_ND pads for the border and to fill the last block; the crops take the second away
        # again.
        options, border = conv.options, pads - crops
        plain = options["stride_h"] == options["stride_w"] == 1 and options["padding"] == "VALID"
        plain &= options.get("dilation_h_factor", 1) == options.get("dilation_w_factor", 1) == 1
        need(plain, "the convolution has a stride, a padding or a dilation of its own")
        need(block.shape == (2,) and (block == block_after).all(), "the blocks before and after it differ")
        need((border >= 0).all(), "more is cropped than was padded")
        dilated = {**options, "dilation_h_factor": int(block[0]), "dilation_w_factor": int(block[1])}
        if border.any():
            trial = Operator(conv.code, list(conv.inputs), [], dilated)
            fits = _is_same(trial, (x.shape or ())[1:3], border.tolist())
            need(fits, f"SAME would not pad by {border.tolist()}")
            dilated["padding"] = "SAME"
        conv.options = dilated
        m.wiring.set_input(conv, 0, x)
        m.wiring.absorb(m.head, conv)


class DropFlattening(Rewrite):
    """fully_connected(reshape(x)) -> fully_connected(x), which flattens all but the last axis by itself."""

    patterns = (
        op(
            "FULLY_CONNECTED",
            op("RESHAPE|SQUEEZE", value("x"), name="flat", shared=True),
            value("weights"),
            when=lambda o: not o.options.get("keep_num_dims"),
        ),
    )

    def replace(self, m: Match) -> None:
        x, flat, units = m.tensor("x"), m.operator("flat").outputs[0].shape, m.tensor("weights").shape
        # Flattening images to rows is no near miss: it is what reshapes before dense layers are for.
        only_if(x.shape and units and flat is not None and len(flat) == 2 and flat[1] == x.shape[-1])
        only_if(x.shape and units and x.shape[-1] is not None and x.shape[-1] == units[1])
        m.wiring.set_input(m.head, 0, x)


class KeepDims(Rewrite):
    """reshape(mean(x)) -> mean(x, keep_dims), where the reshape only puts the sizes of 1 back."""

    patterns = (
        op(
            "RESHAPE",
            op(
                "MEAN|SUM|REDUCE_MAX|REDUCE_MIN|REDUCE_PROD",
                value("x"),
                const("axes"),
                name="before",
                when=lambda o: not o.options.get("keep_dims"),
            ),
        ),
    )

    def replace(self, m: Match) -> None:
        shape = m.tensor("x").shape
        need(shape is not None, "the rank of what is reduced is not known")
        gone = {int(a) % len(shape or ()) for a in m.array("axes").ravel()}
        kept = tuple(1 if a in gone else n for a, n in enumerate(shape or ()))
        # Two unknown sizes could be swapped by the RESHAPE.
        only_if(m.output.shape == kept and kept.count(None) <= 1)
        m.operator("before").options["keep_dims"] = True
        m.wiring.absorb(m.head, m.operator("before"))


class KeepAxes(Rewrite):
    """reshape(fully_connected(x)) -> fully_connected(x, keep_num_dims), where it puts the axes of x back."""

    patterns = (
        op(
            "RESHAPE",
            op(
                "FULLY_CONNECTED",
                value("x"),
                value("weights"),
                name="before",
                when=lambda o: not o.options.get("keep_num_dims"),
            ),
        ),
    )

    def replace(self, m: Match) -> None:
        x, weights, before = m.tensor("x").shape, m.tensor("weights").shape, m.operator("before")
        # Rows of x must be its last axis, not several of them.
        only_if(x and weights and x[-1] is not None and x[-1] == weights[1])
        kept = (*(x or ())[:-1], (weights or ())[0])
        only_if(m.output.shape == kept and kept.count(None) <= 1 and 0 not in kept)
        before.options["keep_num_dims"] = True
        m.wiring.absorb(m.head, before)


class MergeReshapes(Rewrite):
    """reshape(reshape(x)) -> reshape(x), where the last shape is fixed."""

    patterns = (op("RESHAPE", op("RESHAPE|SQUEEZE|EXPAND_DIMS", value("x"), shared=True)),)

    def replace(self, m: Match) -> None:
        shape = m.head.inputs[1] if len(m.head.inputs) > 1 else None
        need(shape is None or shape.is_constant, "the shape is computed while the model runs")
        m.wiring.set_input(m.head, 0, m.tensor("x"))


class DropReshape(Rewrite):
    """A RESHAPE to the shape a tensor has: equal known sizes leave room for at most one unknown."""

    patterns = (op("RESHAPE", value("x")),)

    def replace(self, m: Match) -> None:
        shape = m.tensor("x").shape
        # With a 0 among them the unknown size may be anything.
        only_if(shape is not None and shape == m.output.shape and shape.count(None) <= 1 and 0 not in shape)
        m.wiring.bypass(m.head, m.tensor("x"))


class MergeTransposes(Rewrite):
    """transpose(transpose(x)) -> transpose(x)."""

    patterns = (op("TRANSPOSE", op("TRANSPOSE", value("x"), const("first"), shared=True), const("second")),)

    def replace(self, m: Match) -> None:
        first, second = _axes(m.array("first")), _axes(m.array("second"))
        only_if(len(first) == len(second))
        # y[b] = x[first[b]], z[a] = y[second[a]] = x[first[second[a]]].
        order = np.array([first[a] for a in second], np.int32)
        m.wiring.set_input(m.head, 0, m.tensor("x"))
        m.wiring.set_input(m.head, 1, new_constant(f"{m.output.name}/order", order))


class SimplifyTranspose(Rewrite):
    """A TRANSPOSE that keeps the order is nothing; one that only moves axes of size 1 is a RESHAPE."""

    patterns = (op("TRANSPOSE", value("x"), const("order")),)

    def replace(self, m: Match) -> None:
        x, y, order = m.tensor("x").shape, m.output.shape, _axes(m.array("order"))
        if order == sorted(order):
            m.wiring.bypass(m.head, m.tensor("x"))
            return
        only_if(x is not None and y is not None and len(order) == len(x))
        assert x is not None
        assert y is not None
        # Elements keep their order in memory if the axes that are longer than 1 keep theirs.
        moved = [a for a in order if x[a] != 1]
        only_if(moved == sorted(moved) and 0 not in y and y.count(None) <= 1)
        m.head.code, m.head.options = "RESHAPE", {}
        sizes = np.array([-1 if n is None else n for n in y], np.int32)
        m.wiring.set_input(m.head, 1, new_constant(f"{m.output.name}/shape", sizes))


def _axes(order: Array) -> list[int]:
    axes: list[int] = order.tolist()
    return [a % len(axes) for a in axes]


class DropCast(Rewrite):
    """A CAST to the type a tensor has."""

    patterns = (op("CAST", value("x")),)

    def replace(self, m: Match) -> None:
        only_if(m.tensor("x").dtype is m.output.dtype)
        m.wiring.bypass(m.head, m.tensor("x"))


class DropEmptyPad(Rewrite):
    """A border of no width."""

    patterns = (op("PAD|PADV2|MIRROR_PAD", value("x"), const("pads")),)

    def replace(self, m: Match) -> None:
        only_if(not m.array("pads").any())
        m.wiring.bypass(m.head, m.tensor("x"))


class DropTile(Rewrite):
    """A TILE that repeats nothing."""

    patterns = (op("TILE", value("x"), const("multiples")),)

    def replace(self, m: Match) -> None:
        only_if((m.array("multiples") == 1).all())
        m.wiring.bypass(m.head, m.tensor("x"))


class DropSingleJoin(Rewrite):
    """A CONCATENATION of one part."""

    patterns = (op("CONCATENATION", value("x"), when=lambda o: len(o.inputs) == 1),)

    def replace(self, m: Match) -> None:
        m.wiring.bypass(m.head, m.tensor("x"))
