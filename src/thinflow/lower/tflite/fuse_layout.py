"""Fusion of layout: padding, dilation, reshapes and transposes, and what does nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thinflow.lower.tflite.program import Operator
from thinflow.lower.tflite.wiring import Wiring, new_constant
from thinflow.ops._shapes import same_padding

_REDUCERS = ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD")


def fuse_pad(wiring: Wiring, operator: Operator) -> None:
    """VALID conv(pad(x)) -> SAME conv(x) where SAME would add just those zeros."""
    pad = wiring.producer(operator.inputs[0])
    if pad is None or pad.code != "PAD" or operator.options.get("padding") != "VALID":
        return
    x, paddings = pad.inputs
    if x is None or paddings is None or not paddings.is_constant or x.shape is None:
        return
    pads = np.asarray(paddings.array()).tolist()
    if (
        len(pads) == 4
        and not any(pads[0])
        and not any(pads[3])
        and _is_same(operator, x.shape[1:3], pads[1:3])
    ):
        operator.options["padding"] = "SAME"
        wiring.set_input(operator, 0, x)


def _is_same(operator: Operator, sizes: Sequence[int | None], pads: Sequence[Sequence[int]]) -> bool:
    """Whether SAME padding of these sizes is `pads`. With stride 1 the size does not matter."""
    weights = operator.inputs[1]
    if weights is None or weights.shape is None:
        return False
    for axis, letter in enumerate("hw"):
        size, window = sizes[axis], weights.shape[1 + axis]
        stride = operator.options[f"stride_{letter}"]
        dilation = operator.options.get(f"dilation_{letter}_factor", 1)
        if window is None or (size is None and stride != 1):
            return False
        if same_padding(size or window, window, stride, dilation) != tuple(pads[axis]):
            return False
    return True


def fuse_dilation(wiring: Wiring, operator: Operator) -> None:
    """batch_to_space(conv(space_to_batch(x))) -> dilated conv(x): how TensorFlow spells dilation."""
    conv = wiring.sole_producer(operator.inputs[0], "CONV_2D", "DEPTHWISE_CONV_2D")
    split = None if conv is None else wiring.sole_producer(conv.inputs[0], "SPACE_TO_BATCH_ND")
    if conv is None or split is None:
        return
    x = split.inputs[0]
    tables = [t.array() for t in (*split.inputs[1:], *operator.inputs[1:]) if t is not None and t.is_constant]
    if len(tables) != 4 or x is None or x.shape is None or len(x.shape) != 4:
        return
    block, pads, block_after, crops = (np.asarray(t) for t in tables)
    options = conv.options
    plain = options["stride_h"] == options["stride_w"] == 1 and options["padding"] == "VALID"
    plain &= options.get("dilation_h_factor", 1) == options.get("dilation_w_factor", 1) == 1
    border = pads - crops
    if not plain or block.shape != (2,) or (block != block_after).any() or (border < 0).any():
        return
    dilated = {**options, "dilation_h_factor": int(block[0]), "dilation_w_factor": int(block[1])}
    trial = Operator(conv.code, list(conv.inputs), [], dilated)
    if border.any():
        if not _is_same(trial, x.shape[1:3], border.tolist()):
            return
        dilated["padding"] = "SAME"
    conv.options = dilated
    wiring.set_input(conv, 0, x)
    wiring.absorb(operator, conv)


def keep_dims(wiring: Wiring, operator: Operator) -> None:
    """reshape(mean(x)) -> mean(x, keep_dims), where the reshape only puts the sizes of 1 back."""
    before = wiring.sole_producer(operator.inputs[0], *_REDUCERS)
    if before is None or before.options.get("keep_dims"):
        return
    x, axes = before.inputs
    if x is None or axes is None or not axes.is_constant or x.shape is None:
        return
    gone = {int(a) % len(x.shape) for a in np.asarray(axes.array()).ravel()}
    kept = tuple(1 if a in gone else n for a, n in enumerate(x.shape))
    if operator.outputs[0].shape == kept and kept.count(None) <= 1:
        before.options["keep_dims"] = True
        wiring.absorb(operator, before)


def merge_reshapes(wiring: Wiring, operator: Operator) -> None:
    """reshape(reshape(x)) -> reshape(x), where the last shape is fixed."""
    before = wiring.producer(operator.inputs[0])
    if before is None or before.code not in ("RESHAPE", "SQUEEZE", "EXPAND_DIMS"):
        return
    shape = operator.inputs[1] if len(operator.inputs) > 1 else None
    if (shape is None or shape.is_constant) and before.inputs[0] is not None:
        wiring.set_input(operator, 0, before.inputs[0])


def drop_reshape(wiring: Wiring, operator: Operator) -> None:
    """A RESHAPE to the shape a tensor has: equal known sizes leave room for at most one unknown."""
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
    before = wiring.producer(operator.inputs[0])
    if before is None or before.code != "TRANSPOSE" or before.inputs[0] is None:
        return
    first, second = _order(before), _order(operator)
    if first is not None and second is not None and len(first) == len(second):
        order = np.array([first[a] for a in second], np.int32)
        wiring.set_input(operator, 0, before.inputs[0])
        wiring.set_input(operator, 1, new_constant(f"{operator.outputs[0].name}/order", order))


def simplify_transpose(wiring: Wiring, operator: Operator) -> None:
    """A TRANSPOSE that keeps the order is nothing; one that only moves axes of size 1 is a RESHAPE."""
    x, y, order = operator.inputs[0], operator.outputs[0], _order(operator)
    if x is None or order is None:
        return
    if order == sorted(order):
        wiring.bypass(operator, x)
    elif (
        x.shape is not None
        and y.shape is not None
        and len(order) == len(x.shape)
        and y.shape.count(None) <= 1
    ):
        moved = [a for a in order if x.shape[a] != 1]
        if moved == sorted(moved) and 0 not in y.shape:
            operator.code, operator.options = "RESHAPE", {}
            sizes = np.array([-1 if n is None else n for n in y.shape], np.int32)
            wiring.set_input(operator, 1, new_constant(f"{y.name}/shape", sizes))


def _order(operator: Operator) -> list[int] | None:
    order = operator.inputs[1]
    if order is None or not order.is_constant:
        return None
    axes: list[int] = np.asarray(order.array()).tolist()
    return [a % len(axes) for a in axes]


def drop_cast(wiring: Wiring, operator: Operator) -> None:
    x = operator.inputs[0]
    if x is not None and x.dtype is operator.outputs[0].dtype:
        wiring.bypass(operator, x)


def drop_empty_pad(wiring: Wiring, operator: Operator) -> None:
    x, paddings = operator.inputs[:2]
    if (
        x is not None
        and paddings is not None
        and paddings.is_constant
        and not np.asarray(paddings.array()).any()
    ):
        wiring.bypass(operator, x)


def drop_tile(wiring: Wiring, operator: Operator) -> None:
    x, multiples = operator.inputs
    if (
        x is not None
        and multiples is not None
        and multiples.is_constant
        and (np.asarray(multiples.array()) == 1).all()
    ):
        wiring.bypass(operator, x)


def drop_single_join(wiring: Wiring, operator: Operator) -> None:
    if len(operator.inputs) == 1 and operator.inputs[0] is not None:
        wiring.bypass(operator, operator.inputs[0])
