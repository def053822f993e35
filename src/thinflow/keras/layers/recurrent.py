"""Recurrent layers: cells, and the layers that take them from step to step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from thinflow.ir.graph import Value
from thinflow.ir.types import INT32
from thinflow.keras.call import Call, Kept
from thinflow.keras.config import LayerConfig, leaves
from thinflow.keras.layers.cells import CELLS, Cell, cell_of
from thinflow.keras.loops import looped
from thinflow.keras.registry import Inside, Result, Slot, Slots, layer

TRAINING_ONLY = (
    *("dropout", "recurrent_dropout", "unit_forget_bias", "implementation", "unroll", "consume_less"),
    *("input_dim", "input_length", "seed", "cudnn", "use_cudnn", "reset_after"),
)
"""Options of recurrent layers that do not bear on the numbers, or that their cells read."""


def run(c: Call, cell: Cell) -> Result:
    """What a recurrent layer gives: the output of the last step or of all, and the states if it returns them.

    x [batch, steps, ...], or [steps, batch, ...] of a time-major layer.
    """
    is_time_major = c.flag("time_major")
    x = c[0] if is_time_major else _turned(c, c[0])
    mask = c.mask()
    if mask is not None and not is_time_major:
        mask = _turned(c, mask)
    in_order, is_zero = mask, c.flag("zero_output_for_mask")
    if c.flag("go_backwards"):
        x = _backwards(c, x)
        mask = _backwards(c, mask) if mask is not None else None
    given = _given_states(c, len(cell.sizes))
    first = [] if given and not c.flag("stateful") else [_zeros(c, x, sizes) for sizes in cell.sizes]
    handles = _kept(c, first) if c.flag("stateful") else []
    states = given or [handle.now for handle in handles] or first
    returns_all = c.flag("return_sequences")
    if mask is None:
        row = states[cell.output].spec if returns_all else None
        rows, last = looped(c, [x], states, lambda steps, now: cell.step(steps[0], now), row)
        y = last[cell.output] if rows is None else rows
    else:
        # Unrolled backwards, Keras hides results by the mask as it came, not as the steps were read.
        is_crossed = is_zero and returns_all and c.flag("go_backwards") and c.flag("unroll")
        y, last = _masked(c, x, mask, states, cell, returns_all, is_zero and not is_crossed)
        if is_crossed and in_order is not None:
            y = _chosen(c, in_order, y, c.emit("ZerosLike", y))
    if returns_all:
        y = y if is_time_major else _turned(c, y)
        c.mask_out = c.mask()
    for handle, value in zip(handles, last, strict=False):
        handle.now = value
    return [y, *last] if c.flag("return_state") else y


def _kept(c: Call, first: Sequence[Value]) -> list[Kept]:
    """The variables of a layer that keeps its states from run to run; none if it cannot here."""
    if any(None in c.shape(value) for value in first):
        c.builder.facts["stateful"] = (
            f"the layer '{c.layer.name}' keeps its state between calls in Keras; here each run begins anew, "
            "as its batch is open"
        )
        return []
    return [c.builder.kept(value, f"state_{number}") for number, value in enumerate(first)]


def _masked(
    c: Call, x: Value, mask: Value, states: Sequence[Value], cell: Cell, returns_all: bool, is_zero: bool
) -> tuple[Value, list[Value]]:
    """Steps that are masked keep the states, and give the output before again, or zeros if that is asked for.

    The output before is one more state.
    """
    before = _zeros(c, x, cell.sizes[cell.output])

    def step(steps: Sequence[Value], now: Sequence[Value]) -> tuple[Value, list[Value]]:
        y, after = cell.step(steps[0], now[1:])
        is_live = steps[1]
        nothing = c.emit("ZerosLike", y) if is_zero else now[0]
        y = _chosen(c, is_live, y, nothing)
        kept = [_chosen(c, is_live, new, old) for new, old in zip(after, now[1:], strict=True)]
        return y, [y, *kept]

    rows, last = looped(c, [x, mask], [before, *states], step, before.spec if returns_all else None)
    return (last[0] if rows is None else rows), last[1:]


def _chosen(c: Call, is_live: Value, a: Value, b: Value) -> Value:
    for _ in range(c.rank(a) - c.rank(is_live)):
        is_live = c.expand(is_live, -1)
    return c.emit("SelectV2", is_live, a, b, T=c.type_of(a))


def _turned(c: Call, x: Value) -> Value:
    """Batch and steps swapped."""
    return c.transpose(x, (1, 0, *range(2, c.rank(x))))


def _backwards(c: Call, x: Value, axis: int = 0) -> Value:
    return c.emit("ReverseV2", x, c.const([axis], "axis"), T=c.type_of(x), Tidx=INT32)


def _zeros(c: Call, x: Value, sizes: Sequence[int]) -> Value:
    """States of a batch before the first step; x is [steps, batch, ...]."""
    batch = c.dim(x, 1)
    if isinstance(batch, int):
        return c.const(np.zeros((batch, *sizes), c.compute.numpy()), "zeros")
    shape = c.sizes_vector([batch, *sizes])
    zero = c.const(np.zeros((), c.compute.numpy()), "zero")
    state = c.emit("Fill", shape, zero, name="zeros", T=c.compute, index_type=INT32)
    state.spec = state.spec.with_shape((None, *sizes))
    return state


def _given_states(c: Call, count: int) -> list[Value]:
    """The states that the layer is called with; none if it begins with zeros."""
    # Keras 2 puts them behind the sequence, Keras 3 into an argument of their own.
    given = c.argument("initial_state", 1)
    found = [x for x in leaves(given) if isinstance(x, Value)] if given is not None else c.xs[1:]
    if found and len(found) != count:
        raise c.refuse(f"it is called with {len(found)} states, and has {count}")
    c.read |= {"constants", "training"} if c.kwargs.get("constants") is None else {"training"}
    return found


# --- layers of one cell -------------------------------------------------------------------------------------


def _cell_slots(kind: str) -> Slots:
    def slots(config: LayerConfig, inside: Inside) -> list[Slot]:
        return [Slot(f"cell/{slot.path}", slot.trained) for slot in CELLS[kind].slots(config, inside)]

    return slots


def _of_cell(kind: str) -> Callable[[Call], Result]:
    def rule(c: Call) -> Result:
        return run(c, CELLS[kind].made(c, "cell/"))

    rule.__doc__ = f"A layer that takes one {kind} from step to step."
    return rule


for _kinds, _cell in (
    (("SimpleRNN",), "SimpleRNNCell"),
    (("LSTM",), "LSTMCell"),
    (("GRU",), "GRUCell"),
    (("CuDNNLSTM",), "CuDNNLSTMCell"),
    (("CuDNNGRU",), "CuDNNGRUCell"),
    (("ConvLSTM1D",), "ConvLSTM1DCell"),
    (("ConvLSTM2D",), "ConvLSTM2DCell"),
    (("ConvLSTM3D",), "ConvLSTM3DCell"),
):
    layer(*_kinds, weights=_cell_slots(_cell), ignores=TRAINING_ONLY, masks="own")(_of_cell(_cell))


def _inner_slots(*options: str) -> Slots:
    """The variables of layers that are options: `cell`, `layer`."""

    def slots(config: LayerConfig, inside: Inside) -> list[Slot]:
        return [slot for option in options for slot in inside.slots(config.inner(option), option)]

    return slots


@layer("RNN", weights=_inner_slots("cell"), ignores=TRAINING_ONLY, masks="own")
def rnn(c: Call) -> Result:
    """A layer that takes any cell, or several on top of one another, from step to step."""
    c.read |= {"cell", "num_constants"}
    return run(c, cell_of(c, c.layer.inner("cell"), "cell"))


# --- wrappers -----------------------------------------------------------------------------------------------


def _zeroing(layer: LayerConfig) -> LayerConfig:
    """A layer inside a Bidirectional as tf.keras makes it: masked steps of sequences give zeros.

    Keras 3 writes that into the config, tf.keras sets it behind its back, and Keras 2 before it did not; only
    configs of tf.keras speak of `time_major`.
    """
    if layer.generation != 2 or "time_major" not in layer.options:
        return layer
    zeroes = bool(layer.options.get("return_sequences"))
    return replace(layer, options={**layer.options, "zero_output_for_mask": zeroes})


def _both_ways(config: LayerConfig) -> dict[str, LayerConfig]:
    """The layers of a Bidirectional: the second goes backwards, or is one of its own."""
    forward = _zeroing(config.inner("layer"))
    if isinstance(config.options.get("backward_layer"), Mapping):
        backward = _zeroing(config.inner("backward_layer"))
    else:
        options = {**forward.options, "go_backwards": not forward.options.get("go_backwards")}
        backward = replace(forward, name=f"backward_{forward.name}", options=options)
    return {"forward_layer": forward, "backward_layer": backward}


def _both_slots(config: LayerConfig, inside: Inside) -> list[Slot]:
    return [slot for path, one in _both_ways(config).items() for slot in inside.slots(one, path)]


@layer("Bidirectional", weights=_both_slots, masks="own", ignores=TRAINING_ONLY)
def bidirectional(c: Call) -> Result:
    """A sequence read from both ends, and the two results joined."""
    c.read |= {"layer", "backward_layer"}
    mask = c.mask()
    given = c.argument("initial_state", 1)
    states = [x for x in leaves(given) if isinstance(x, Value)] if given is not None else c.xs[1:]
    ways = []
    for number, (path, one) in enumerate(_both_ways(c.layer).items()):
        half = len(states) // 2
        named: dict[str, object] = {} if mask is None else {"mask": mask}
        if states:
            named["initial_state"] = states[number * half : (number + 1) * half]
        result = c.apply(one, path, c[0], **named)
        ways.append([x for x in leaves(result) if isinstance(x, Value)])
    options = c.layer.inner("layer").options
    if options.get("return_sequences"):
        is_time_major = bool(options.get("time_major"))
        # The way back gives its steps in the order in which it read them.
        ways[1][0] = _backwards(c, ways[1][0], 0 if is_time_major else 1)
        c.mask_out = mask
    c.read |= {"return_sequences", "return_state"}
    y = _merged(c, ways[0][0], ways[1][0])
    return [*y, *ways[0][1:], *ways[1][1:]] if len(y) > 1 or len(ways[0]) > 1 else y[0]


def _merged(c: Call, a: Value, b: Value) -> list[Value]:
    """What both ways give, by `merge_mode`."""
    mode = c.get("merge_mode", "concat")
    if mode is None:
        return [a, b]
    if mode == "concat":
        return [c.concat([a, b], -1)]
    if mode in ("sum", "ave"):
        total = c.emit("AddV2", a, b)
        return [total if mode == "sum" else c.emit("Mul", total, 0.5)]
    if mode == "mul":
        return [c.emit("Mul", a, b)]
    raise c.refuse(f"its merge_mode is {str(mode)[:40]!r}")


@layer("TimeDistributed", weights=_inner_slots("layer"), masks="pass")
def time_distributed(c: Call) -> Result:
    """A layer for each step alone: batch and steps become one axis, and two again behind it."""
    c.read |= {"layer", "training"}
    x, mask = c[0], c.mask()
    if mask is not None and c.rank(mask) > 2:
        raise c.refuse(f"the mask of its input has {c.rank(mask)} dimensions")
    batch, steps = c.dim(x, 0), c.dim(x, 1)
    flat = c.shaped(x, [None, *(c.dim(x, n) for n in range(2, c.rank(x)))])
    result = c.apply(c.layer.inner("layer"), "layer", flat)
    outputs = [
        c.shaped(y, [batch, steps, *(c.dim(y, n) for n in range(1, c.rank(y)))])
        for y in leaves(result)
        if isinstance(y, Value)
    ]
    return outputs if len(outputs) > 1 else outputs[0]
