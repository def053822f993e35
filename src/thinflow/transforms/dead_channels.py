"""Channels of layers that tell nothing, found through what lies between one layer and the next.

A channel is dead if the next layer would answer the same without it: because it is the same number for all
inputs (its weights are zero, or all of what they add is cut off by a ReLU), or because the next layer's
weights for it are zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from thinflow.analysis.shapes import infer_shapes
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.tensor import Tensor
from thinflow.rewrite.edits import Site, sweep
from thinflow.rewrite.pattern import constant_node, constant_tensor
from thinflow.rewrite.rule import Refuse, Trace, Transform, transform
from thinflow.transforms.fold.channel_paths import (
    Path,
    by_input,
    channels_first,
    followed,
    input_axis,
    is_layer,
    made_by,
    pads,
)
from thinflow.transforms.fold.forward import following_bias, insert_bias
from thinflow.transforms.fold.producers import Producer, find_producer, put_weights, store
from thinflow.transforms.shared.constants import awaited_by_constant, is_sole_reader, numbers
from thinflow.typing import Array

# Rounds through the graph: a layer that is smaller may leave nothing for a channel of the one before it.
_ROUNDS = 16


@transform("remove_dead_channels")
@dataclass(frozen=True)
class RemoveDeadChannels(Transform):
    """Remove channels of convolutions and dense layers that have no influence on any result.

    conv(relu(bias(conv(x, w), b)), v)  ->  conv(relu(bias(conv(x, w[.., k]), b[k])), v[.., k, :])

    Between two layers there may be biases, elementwise functions, depthwise convolutions, pooling and means
    over the picture. A channel that is always the same number, and not 0, goes into the next layer's bias,
    unless that layer pads. What is computed is taken for finite. Fold batch norms before.
    """

    tolerance = 1e-5

    def apply(self, graph: Graph, trace: Trace) -> None:
        infer_shapes(graph)
        for _ in range(_ROUNDS):
            before = len(trace.changes)
            trace.forget_left()
            for node in reversed(list(graph)):
                if node.graph is graph and is_layer(node):
                    try:
                        _shrink(graph, node, trace, self.name)
                    except Refuse as refusal:
                        trace.leave(node, refusal.reason)
            if len(trace.changes) == before:
                return


def _shrink(graph: Graph, node: Node, trace: Trace, origin: str) -> None:
    """Remove dead channels of one layer.

    Raises:
        Refuse: it has some, or could have, and they have to stay.
    """
    source = constant_tensor(node.inputs[1])
    if source is None or source.dtype.name not in ("float", "half", "double"):
        return
    producer = find_producer(node)
    state = made_by(producer)
    try:
        path = followed(producer, state)
    except Refuse:
        # Most networks have layers whose channels cannot be followed: no word of those without dead ones.
        if state.fixed.any():
            raise
        return
    assert path.reader is not None
    unread = ~np.any(by_input(path.reader), axis=1)
    fixed = path.state.fixed & ~unread
    if pads(path.reader.node):
        fixed &= path.state.values == 0
    shift = _shift(path, fixed)
    dead = unread | fixed
    if dead.all():
        # A tensor without channels is none that runtimes take.
        dead[0] = False
        shift = _shift(path, fixed & dead)
    if dead.any():
        _refuse_groups(producer)
        trace.changed(node, _described(dead, unread, fixed & (path.state.values != 0)))
        _remove(graph, path, ~dead, shift, origin)


def _shift(path: Path, fixed: Array) -> Array | None:
    """float64 [outputs]: what fixed channels add to each output of the next layer; None for nothing."""
    assert path.reader is not None
    values = np.where(fixed, path.state.values, 0.0)
    return values @ by_input(path.reader, total=True) if values.any() else None


def _described(dead: Array, unread: Array, constant: Array) -> str:
    counts = {
        "not read": int((dead & unread).sum()),
        "always the same": int((dead & constant & ~unread).sum()),
    }
    counts["always 0"] = int(dead.sum()) - sum(counts.values())
    kinds = ", ".join(f"{n} {what}" for what, n in counts.items() if n)
    return f"{int(dead.sum())} of {dead.size} channels removed: {kinds}"


def _refuse_groups(producer: Producer) -> None:
    """Refuse a convolution in groups, whose outputs belong to some of its inputs.

    Raises:
        Refuse: it is one, or may be.
    """
    if not producer.kind.layout:
        return
    shape = producer.node.inputs[producer.kind.data].spec.shape
    channels = None if shape is None else shape[1 if producer.channels.first else -1]
    if channels != producer.tensor.shape[producer.kind.input_axis]:
        raise Refuse("it is in groups, or nothing says that it is not", producer.node)


# --------------------------------------------------------------------------------------------------- removing


def _remove(graph: Graph, path: Path, kept: Array, shift: Array | None, origin: str) -> None:
    """Leave out the channels that are not kept."""
    producer, reader = path.producer, path.reader
    assert reader is not None
    held = None if shift is None else following_bias(reader.node, reader)
    old = reader.tensor if held is None else constant_tensor(held)
    assert old is not None
    # Before anything is changed: it may be refused.
    before = 0.0 if held is None else numbers(old, reader.node)
    bias = None if shift is None else store(before + shift, old, reader.node)
    put_weights(graph, producer, _some(producer.tensor, producer.axes[0], kept), origin)
    for node, number, axis in path.slices:
        _put_constant(graph, node, number, axis, kept, origin)
    put_weights(graph, reader, _some(reader.tensor, input_axis(reader), kept), origin)
    for node in (producer.node, *path.steps):
        node.attrs.pop("_output_shapes", None)
        _narrow(node.output(), kept, channels_first(path))
    if bias is not None and held is None:
        insert_bias(graph, reader, bias, [], origin)
    elif bias is not None and held is not None:
        constant = constant_node(held)
        assert constant is not None
        constant.attrs["value"] = bias


def _some(tensor: Tensor, axis: int, kept: Array) -> Tensor:
    return Tensor.from_array(np.compress(kept, tensor.numpy(), axis=axis), tensor.dtype)


def _put_constant(graph: Graph, node: Node, number: int, axis: int, kept: Array, origin: str) -> None:
    """Set a constant of a node: in place if nobody else reads the old one, else anew."""
    value = node.inputs[number]
    source, tensor = constant_node(value), constant_tensor(value)
    assert source is not None
    assert tensor is not None
    smaller = _some(tensor, axis, kept)
    if is_sole_reader(node, value):
        source.attrs["value"] = smaller
        _narrow(value, kept, False)
        return
    fresh = Site(graph, node, origin).constant(smaller, f"{node.name}_kept")
    fresh.node.set_control_inputs(awaited_by_constant(value))
    node.set_input(number, fresh)
    sweep(graph, [source])


def _narrow(value: Value, kept: Array, first: bool) -> None:
    """Let what is known of a value's shape fit the channels that are left."""
    shape = value.spec.shape
    if shape is None:
        return
    found = list(_channel_axes(shape, kept.size, first))
    value.spec = value.spec.with_shape(
        [int(kept.sum()) if axis in found else size for axis, size in enumerate(shape)]
    )


def _channel_axes(shape: tuple[int | None, ...], count: int, first: bool) -> Iterator[int]:
    axis = 1 if first and len(shape) > 2 else len(shape) - 1
    if 0 <= axis < len(shape) and shape[axis] == count:
        yield axis
