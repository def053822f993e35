"""Fewer operators for the same result: what LiteRT's kernels can do in one step is put into one operator.

Each rule looks at one operator and its neighbours, and either declines or rewires the subgraph. None changes an array:
weights may be shared, so a rule that needs other numbers makes a tensor of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from thinflow.ir.types import FLOAT, INT32
from thinflow.lower.tflite.program import Operator, Subgraph, Tensor
from thinflow.ops._shapes import same_padding

Array = np.ndarray[Any, Any]

_ACTIVATIONS = ("RELU", "RELU6", "RELU_N1_TO_1")
_CAN_ACTIVATE = frozenset(
    "CONV_2D DEPTHWISE_CONV_2D TRANSPOSE_CONV CONV_3D FULLY_CONNECTED ADD SUB MUL DIV MAX_POOL_2D AVERAGE_POOL_2D".split()
)
# op -> (input number of the weights, of the bias, axis of the weights that counts output channels)
_WEIGHTED = {
    "CONV_2D": (1, 2, 0),
    "DEPTHWISE_CONV_2D": (1, 2, 3),
    "FULLY_CONNECTED": (1, 2, 0),
    "TRANSPOSE_CONV": (1, 3, 0),
    "CONV_3D": (1, 2, 4),
}
_MAX_ROUNDS = 20
_TINY = 1e-30  # below, the reciprocal loses digits or overflows


class Wiring:
    """A subgraph with its edges in both directions, kept right while operators are rewired."""

    def __init__(self, subgraph: Subgraph) -> None:
        self.subgraph = subgraph
        self.changes = 0
        self._producers = subgraph.producers()
        self._readers: dict[Tensor, list[Operator]] = {}
        for operator in subgraph.operators:
            for tensor in operator.inputs:
                if tensor is not None:
                    self._readers.setdefault(tensor, []).append(operator)
        self._wanted = Counter(subgraph.outputs)
        self._gone: set[Operator] = set()

    def producer(self, tensor: Tensor | None) -> Operator | None:
        """Who writes a tensor; None for inputs and constants."""
        return self._producers.get(tensor) if tensor is not None else None

    def is_read_once(self, tensor: Tensor) -> bool:
        """Whether exactly one operator input reads it and nobody outside does."""
        return len(self._readers.get(tensor, ())) == 1 and not self._wanted[tensor]

    def sole_producer(self, tensor: Tensor | None, *codes: str) -> Operator | None:
        """The producer, if it is one of these ops and nobody else reads the tensor."""
        producer = self.producer(tensor)
        if producer is None or tensor is None or producer.code not in codes or len(producer.outputs) != 1:
            return None
        return producer if self.is_read_once(tensor) else None

    def set_input(self, operator: Operator, number: int, tensor: Tensor | None) -> None:
        """Let an operator read another tensor; the list of inputs grows if need be."""
        while len(operator.inputs) <= number:
            operator.inputs.append(None)
        old = operator.inputs[number]
        if old is not None:
            self._readers[old].remove(operator)
        operator.inputs[number] = tensor
        if tensor is not None:
            self._readers.setdefault(tensor, []).append(operator)
        self.changes += 1

    def bypass(self, operator: Operator, source: Tensor) -> None:
        """Take out an operator with one output; whoever read that reads `source` instead."""
        output = operator.outputs[0]
        for reader in list(self._readers.get(output, ())):
            for number, tensor in enumerate(reader.inputs):
                if tensor is output:
                    self.set_input(reader, number, source)
        self.subgraph.outputs = [source if t is output else t for t in self.subgraph.outputs]
        self._wanted = Counter(self.subgraph.outputs)
        self._remove(operator)

    def absorb(self, operator: Operator, into: Operator) -> None:
        """Take out an operator; the one before it writes its output from now on."""
        self._remove(operator)
        for old in into.outputs:
            self._producers.pop(old, None)
        into.outputs = list(operator.outputs)
        self._producers[into.outputs[0]] = into

    def _remove(self, operator: Operator) -> None:
        for tensor in operator.inputs:
            if tensor is not None:
                self._readers[tensor].remove(operator)
        for tensor in operator.outputs:
            self._producers.pop(tensor, None)
        operator.inputs = []
        self._gone.add(operator)
        self.changes += 1

    def is_gone(self, operator: Operator) -> bool:
        return operator in self._gone

    def finish(self) -> None:
        """Drop what was taken out from the list of operators."""
        self.subgraph.operators = [o for o in self.subgraph.operators if o not in self._gone]


Rule = Callable[[Wiring, Operator], None]


def fuse(subgraph: Subgraph) -> None:
    """Apply every rule until none finds anything. O(operators) for each of a few rounds."""
    for _ in range(_MAX_ROUNDS):
        wiring = Wiring(subgraph)
        for operator in list(subgraph.operators):
            for rule in RULES.get(operator.code, ()):
                if not wiring.is_gone(operator) and rule in RULES.get(operator.code, ()):
                    rule(wiring, operator)
        wiring.finish()
        remove_dead(subgraph)
        if not wiring.changes:
            break


def remove_dead(subgraph: Subgraph) -> None:
    """Drop operators whose results nobody reads."""
    live = set(subgraph.outputs)
    kept: list[Operator] = []
    for operator in reversed(subgraph.operators):
        if any(t in live for t in operator.outputs):
            kept.append(operator)
            live.update(t for t in operator.inputs if t is not None)
    subgraph.operators = kept[::-1]


# --- activation, bias, scale ------------------------------------------------------------------------------


def _fuse_activation(wiring: Wiring, operator: Operator) -> None:
    """relu(conv(x)) -> conv with a fused activation."""
    before = wiring.sole_producer(operator.inputs[0], *_CAN_ACTIVATE)
    if before is None or _activation(before) != "NONE" or before.outputs[0].dtype is not FLOAT:
        return
    before.options["fused_activation_function"] = operator.code
    wiring.absorb(operator, before)


def _fuse_relu6(wiring: Wiring, operator: Operator) -> None:
    """min(relu(x), 6) -> relu6(x)."""
    x, limit = _with_constant(operator)
    if x is None or limit is None or limit.size != 1 or float(limit.reshape(())) != 6.0 or limit.ndim > len(x.shape or ()):
        return
    relu = wiring.sole_producer(x, "RELU")
    if relu is not None:
        relu.code = "RELU6"
        wiring.absorb(operator, relu)
        return
    before = wiring.sole_producer(x, *_CAN_ACTIVATE)
    if before is not None and _activation(before) == "RELU":
        before.options["fused_activation_function"] = "RELU6"
        wiring.absorb(operator, before)


def _fuse_bias(wiring: Wiring, operator: Operator) -> None:
    """conv(x) + b -> conv(x, b)      b [channels] or one number."""
    before, addend = _channel_operand(wiring, operator)
    if before is None or addend is None:
        return
    place = _WEIGHTED[before.code][1]
    bias = before.inputs[place] if place < len(before.inputs) else None
    if bias is not None and not bias.is_constant:
        return
    old = None if bias is None else np.asarray(bias.array())
    total = addend if old is None or not old.any() else old + addend
    wiring.set_input(before, place, _new_constant(f"{operator.outputs[0].name}/bias", total))
    before.options["fused_activation_function"] = _activation(operator)
    wiring.absorb(operator, before)


def _fuse_scale(wiring: Wiring, operator: Operator) -> None:
    """conv(x, w, b) * s -> conv(x, w * s, b * s)      s [channels] or one number."""
    before, factor = _channel_operand(wiring, operator)
    if before is None or factor is None:
        return
    at_weights, at_bias, axis = _WEIGHTED[before.code]
    weights = before.inputs[at_weights]
    bias = before.inputs[at_bias] if at_bias < len(before.inputs) else None
    if weights is None or not weights.is_constant or (bias is not None and not bias.is_constant):
        return
    array = np.asarray(weights.array())
    along = [1] * array.ndim
    along[axis] = -1
    name = operator.outputs[0].name
    wiring.set_input(before, at_weights, _new_constant(f"{name}/weights", array * factor.reshape(along)))
    if bias is not None and np.asarray(bias.array()).any():
        wiring.set_input(before, at_bias, _new_constant(f"{name}/bias", np.asarray(bias.array()) * factor))
    before.options["fused_activation_function"] = _activation(operator)
    wiring.absorb(operator, before)


def _fuse_input_scale(wiring: Wiring, operator: Operator) -> None:
    """conv(x * s, w) -> conv(x, w * s)      s [channels of x] or one number; zeros of a SAME border stay zeros."""
    scale = wiring.sole_producer(operator.inputs[0], "MUL")
    weights = operator.inputs[1]
    if scale is None or _activation(scale) != "NONE" or weights is None or not weights.is_constant:
        return
    x, factor = _with_constant(scale)
    array = np.asarray(weights.array())
    if x is None or factor is None or not _keeps_shape(x, factor) or factor.dtype != np.float32 or array.dtype != np.float32:
        return
    per_input = operator.code != "DEPTHWISE_CONV_2D"  # a depthwise filter's last axis counts outputs
    if factor.size != 1 and (not per_input or factor.size != factor.shape[-1] or factor.size != array.shape[-1]):
        return
    wiring.set_input(operator, 1, _new_constant(f"{operator.outputs[0].name}/weights", array * factor.reshape(-1)))
    wiring.bypass(scale, x)


def _merge_constants(wiring: Wiring, operator: Operator) -> None:
    """(x + a) + b -> x + (a + b), and so for products."""
    x, second = _with_constant(operator)
    before = wiring.sole_producer(x, operator.code)
    if before is None or second is None or _activation(before) != "NONE":
        return
    source, first = _with_constant(before)
    if source is None or first is None or source.dtype is not FLOAT or not _keeps_shape(source, first):
        return
    if _keeps_shape(source, second):
        merged = first + second if operator.code == "ADD" else first * second
        wiring.set_input(operator, 0, source)
        wiring.set_input(operator, 1, _new_constant(f"{operator.outputs[0].name}/const", merged))


def _invert_constant(wiring: Wiring, operator: Operator) -> None:
    """x - c -> x + -c and x / c -> x * 1/c, which then merge with their neighbours."""
    y = operator.inputs[1]
    if y is None or not y.is_constant or y.dtype is not FLOAT:
        return
    array = np.asarray(y.array())
    if operator.code == "DIV" and not (np.isfinite(array).all() and (np.abs(array) > _TINY).all()):
        return
    inverse = -array if operator.code == "SUB" else np.float32(1) / array
    operator.code = "ADD" if operator.code == "SUB" else "MUL"
    operator.options.pop("pot_scale_int16", None)
    wiring.set_input(operator, 1, _new_constant(f"{operator.outputs[0].name}/const", inverse))


def _drop_neutral(wiring: Wiring, operator: Operator) -> None:
    """x + 0 and x * 1."""
    x, constant = _with_constant(operator)
    neutral = 0 if operator.code == "ADD" else 1
    if x is not None and constant is not None and _activation(operator) == "NONE":
        if (constant == neutral).all() and _keeps_shape(x, constant):
            wiring.bypass(operator, x)


def _keeps_shape(x: Tensor, constant: Array) -> bool:
    """Whether broadcasting x against the constant gives x's shape, whatever the unknown sizes are."""
    if x.shape is None or constant.ndim > len(x.shape):
        return False
    tail = x.shape[len(x.shape) - constant.ndim :]
    return all(c == 1 or c == n for c, n in zip(constant.shape, tail, strict=True))


def _channel_operand(wiring: Wiring, operator: Operator) -> tuple[Operator | None, Array | None]:
    """The convolution in front of a binary operator and its constant operand as [channels]; (None, None) if not so."""
    x, constant = _with_constant(operator)
    before = wiring.sole_producer(x, *_WEIGHTED)
    if before is None or constant is None or x is None or x.shape is None or _activation(before) != "NONE":
        return None, None
    at_weights, _, axis = _WEIGHTED[before.code]
    weights = before.inputs[at_weights]
    channels = None if weights is None or weights.shape is None else weights.shape[axis]
    if channels is None or constant.dtype != np.float32 or constant.ndim > len(x.shape):
        return None, None
    if constant.size == 1:
        return before, np.full(channels, constant.reshape(()), np.float32)
    if constant.size != channels or constant.shape[-1] != channels:
        return None, None
    return before, constant.reshape(-1)


def _with_constant(operator: Operator) -> tuple[Tensor | None, Array | None]:
    """The computed and the constant operand of a binary operator, in either order."""
    x, y = operator.inputs
    if x is not None and x.is_constant:
        x, y = y, x
    if x is None or y is None or x.is_constant or not y.is_constant:
        return None, None
    return x, np.asarray(y.array())


def _activation(operator: Operator) -> str:
    return str(operator.options.get("fused_activation_function", "NONE"))


def _new_constant(name: str, array: Array) -> Tensor:
    array = np.asarray(array, array.dtype)
    return Tensor(name, tuple(array.shape), INT32 if array.dtype == np.int32 else FLOAT, array)


# --- padding and dilation ---------------------------------------------------------------------------------


def _fuse_pad(wiring: Wiring, operator: Operator) -> None:
    """VALID conv(pad(x)) -> SAME conv(x) where SAME would add just those zeros."""
    pad = wiring.producer(operator.inputs[0])
    if pad is None or pad.code != "PAD" or operator.options.get("padding") != "VALID":
        return
    x, paddings = pad.inputs
    if x is None or paddings is None or not paddings.is_constant or x.shape is None:
        return
    pads = np.asarray(paddings.array()).tolist()
    if len(pads) == 4 and not any(pads[0]) and not any(pads[3]) and _is_same(operator, x.shape[1:3], pads[1:3]):
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


def _fuse_dilation(wiring: Wiring, operator: Operator) -> None:
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


def _keep_dims(wiring: Wiring, operator: Operator) -> None:
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


_REDUCERS = ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD")


def _fuse_hard_swish(wiring: Wiring, operator: Operator) -> None:
    """x * (relu6(x + 3) / 6) -> hard_swish(x), with the sixth anywhere."""
    if _activation(operator) != "NONE" or operator.outputs[0].dtype is not FLOAT:
        return
    for x, gate in (operator.inputs, operator.inputs[::-1]):
        sixth = wiring.sole_producer(gate, "MUL")
        if x is None or sixth is None or _activation(sixth) != "NONE":
            continue
        inner, factor = _with_constant(sixth)
        if factor is not None and _is_number(factor, 1 / 6) and _is_gate_of(wiring, inner, x):
            _become(wiring, operator, "HARD_SWISH", x)
            return
    product, factor = _with_constant(operator)
    before = wiring.sole_producer(product, "MUL")
    if before is not None and factor is not None and _is_number(factor, 1 / 6) and _activation(before) == "NONE":
        for x, gate in (before.inputs, before.inputs[::-1]):
            if x is not None and _is_gate_of(wiring, gate, x):
                _become(wiring, operator, "HARD_SWISH", x)
                return


def _is_gate_of(wiring: Wiring, gate: Tensor | None, x: Tensor) -> bool:
    """Whether `gate` is relu6(x + 3) and read nowhere else."""
    shifted = wiring.sole_producer(gate, "ADD")
    if shifted is None or _activation(shifted) != "RELU6":
        return False
    source, three = _with_constant(shifted)
    return source is x and three is not None and _is_number(three, 3)


def _is_number(constant: Array, number: float) -> bool:
    return constant.size == 1 and abs(float(constant.reshape(())) - number) < 1e-4


def _become(wiring: Wiring, operator: Operator, code: str, x: Tensor) -> None:
    """Turn an operator into a plain one of one operand; what it read before is dropped when nobody else reads it."""
    operator.code, operator.options = code, {}
    wiring.set_input(operator, 0, x)
    wiring.set_input(operator, 1, None)
    operator.inputs = operator.inputs[:1]


# --- what does nothing ------------------------------------------------------------------------------------


def _merge_reshapes(wiring: Wiring, operator: Operator) -> None:
    """reshape(reshape(x)) -> reshape(x), where the last shape is fixed."""
    before = wiring.producer(operator.inputs[0])
    if before is None or before.code not in ("RESHAPE", "SQUEEZE", "EXPAND_DIMS"):
        return
    shape = operator.inputs[1] if len(operator.inputs) > 1 else None
    if (shape is None or shape.is_constant) and before.inputs[0] is not None:
        wiring.set_input(operator, 0, before.inputs[0])


def _drop_reshape(wiring: Wiring, operator: Operator) -> None:
    """A RESHAPE to the shape a tensor has: equal known sizes leave room for at most one unknown."""
    x, y = operator.inputs[0], operator.outputs[0]
    if x is not None and x.shape is not None and x.shape == y.shape and x.shape.count(None) <= 1 and 0 not in x.shape:
        wiring.bypass(operator, x)


def _merge_transposes(wiring: Wiring, operator: Operator) -> None:
    """transpose(transpose(x)) -> transpose(x)."""
    before = wiring.producer(operator.inputs[0])
    if before is None or before.code != "TRANSPOSE" or before.inputs[0] is None:
        return
    first, second = _order(before), _order(operator)
    if first is not None and second is not None and len(first) == len(second):
        order = np.array([first[a] for a in second], np.int32)
        wiring.set_input(operator, 0, before.inputs[0])
        wiring.set_input(operator, 1, _new_constant(f"{operator.outputs[0].name}/order", order))


def _simplify_transpose(wiring: Wiring, operator: Operator) -> None:
    """A TRANSPOSE that keeps the order of all axes is nothing; one that only moves axes of size 1 is a RESHAPE."""
    x, y, order = operator.inputs[0], operator.outputs[0], _order(operator)
    if x is None or order is None:
        return
    if order == sorted(order):
        wiring.bypass(operator, x)
    elif x.shape is not None and y.shape is not None and len(order) == len(x.shape) and y.shape.count(None) <= 1:
        moved = [a for a in order if x.shape[a] != 1]
        if moved == sorted(moved) and 0 not in y.shape:
            operator.code, operator.options = "RESHAPE", {}
            sizes = np.array([-1 if n is None else n for n in y.shape], np.int32)
            wiring.set_input(operator, 1, _new_constant(f"{y.name}/shape", sizes))


def _order(operator: Operator) -> list[int] | None:
    order = operator.inputs[1]
    if order is None or not order.is_constant:
        return None
    axes: list[int] = np.asarray(order.array()).tolist()
    return [a % len(axes) for a in axes]


def _drop_cast(wiring: Wiring, operator: Operator) -> None:
    x = operator.inputs[0]
    if x is not None and x.dtype is operator.outputs[0].dtype:
        wiring.bypass(operator, x)


def _drop_empty_pad(wiring: Wiring, operator: Operator) -> None:
    x, paddings = operator.inputs[:2]
    if x is not None and paddings is not None and paddings.is_constant and not np.asarray(paddings.array()).any():
        wiring.bypass(operator, x)


def _drop_tile(wiring: Wiring, operator: Operator) -> None:
    x, multiples = operator.inputs
    if x is not None and multiples is not None and multiples.is_constant and (np.asarray(multiples.array()) == 1).all():
        wiring.bypass(operator, x)


def _drop_single_join(wiring: Wiring, operator: Operator) -> None:
    if len(operator.inputs) == 1 and operator.inputs[0] is not None:
        wiring.bypass(operator, operator.inputs[0])


RULES: dict[str, Sequence[Rule]] = {
    "RELU": (_fuse_activation,),
    "RELU6": (_fuse_activation,),
    "RELU_N1_TO_1": (_fuse_activation,),
    "MINIMUM": (_fuse_relu6,),
    "ADD": (_drop_neutral, _fuse_bias, _merge_constants),
    "SUB": (_invert_constant,),
    "DIV": (_invert_constant,),
    "MUL": (_drop_neutral, _fuse_hard_swish, _fuse_scale, _merge_constants),
    "CONV_2D": (_fuse_pad, _fuse_input_scale),
    "DEPTHWISE_CONV_2D": (_fuse_pad, _fuse_input_scale),
    "FULLY_CONNECTED": (_fuse_input_scale,),
    "BATCH_TO_SPACE_ND": (_fuse_dilation,),
    "RESHAPE": (_merge_reshapes, _drop_reshape, _keep_dims),
    "TRANSPOSE": (_merge_transposes, _simplify_transpose),
    "CAST": (_drop_cast,),
    "PAD": (_drop_empty_pad,),
    "PADV2": (_drop_empty_pad,),
    "MIRROR_PAD": (_drop_empty_pad,),
    "TILE": (_drop_tile,),
    "CONCATENATION": (_drop_single_join,),
}
