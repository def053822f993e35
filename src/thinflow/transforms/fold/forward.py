"""Fold batch norms into the convolution that reads them. Not with padding: a padded zero is not normalised.

    conv(norm(x), w)  ->  bias(conv(x, w * scale), sum(w * offset))

The channels of the norm are the ones the convolution sums over.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.tensor import Tensor
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.edits import Site, sweep
from thinflow.rewrite.pattern import constant_node, constant_tensor
from thinflow.rewrite.rule import Refuse, Trace
from thinflow.transforms.fold.producers import (
    Producer,
    add_bias,
    find_producer,
    put_weights,
    store,
    weights_of,
)
from thinflow.transforms.fold.steps import Norm, read_norm
from thinflow.transforms.shared.constants import awaited_by_constant, is_sole_reader, numbers
from thinflow.typing import Array


def fold_forward(graph: Graph, trace: Trace, origin: str) -> None:
    """Fold every inference norm whose only reader is a convolution or matrix product without padding."""
    folded: set[str] = set()
    for node in list(graph):
        if not has(node.op, Trait.BATCH_NORM) or node.graph is not graph:
            continue
        name = node.name
        try:
            _fold(graph, node, trace, origin)
            folded.add(name)
        except Refuse as refusal:
            trace.leave(node, refusal.reason)
    # Those of an earlier try: the norm may have been folded by now.
    trace.left = [entry for entry in trace.left if entry.node not in folded]


def _fold(graph: Graph, node: Node, trace: Trace, origin: str) -> None:
    norm = read_norm(node)
    reader = _sole_reader(node)
    producer = find_producer(reader)
    weights, bias = _merged(norm, producer)
    held = following_bias(reader, producer) if bias is not None else None
    total = None
    if held is not None and bias is not None:
        old = constant_tensor(held)
        assert old is not None
        total = store(numbers(old, reader) + bias.numpy().astype(np.float64), old, node)
    trace.changed(node, f"folded forward into '{reader.name}'")
    awaited = list(dict.fromkeys(n for v in norm.parameters for n in awaited_by_constant(v)))
    put_weights(graph, producer, weights, origin)
    reader.set_input(producer.kind.data, node.inputs[0])
    for waited in node.control_inputs:
        reader.add_control_input(waited)
    if total is not None and held is not None:
        constant = constant_node(held)
        assert constant is not None
        constant.attrs["value"] = total
    elif bias is not None:
        insert_bias(graph, producer, bias, awaited, origin)
    sweep(graph, [node])


def _sole_reader(node: Node) -> Node:
    """The convolution that alone reads the norm.

    Raises:
        Refuse: there is none.
    """
    uses = [u for v in node.outputs for u in v.uses]
    # With a second reader the unfolded norm would have to stay as well.
    if node.is_protected or node.control_outputs or len(uses) != 1 or not node.output().uses:
        raise Refuse("it does not have exactly one reader", node)
    reader, index = uses[0]
    kind = weights_of(reader.op)
    # An Einsum has no axes here: its equation tells them, node by node.
    if kind is None or index != kind.data or has(reader.op, Trait.CONV_TRANSPOSE) or not kind.axes:
        raise Refuse(
            f"no convolution before or after it can take it: its reader '{reader.name}' is {reader.op}",
            node,
        )
    return reader


def _merged(norm: Norm, producer: Producer) -> tuple[Tensor, Tensor | None]:
    """The weights with the norm in them, and the bias it leaves.

    Raises:
        Refuse: padding, groups, or a different layout.
    """
    node, kind = producer.node, producer.kind
    shape = producer.tensor.shape
    if kind.layout:
        # conv(norm(x)) pads with the zeros of norm(x). Folded, it would pad with zeros of x, which the norm
        # would have moved to its offset: only windows that never see the margin may fold.
        pointwise = all(size == 1 for size in shape[:-2])
        padding = str(node.get("padding", ""))
        if padding != "VALID" and not (padding == "SAME" and pointwise):
            raise Refuse(f"'{node.name}' pads with zeros ({padding})", norm.node)
        if norm.channels_first != producer.channels.first:
            raise Refuse(f"its data_format does not fit that of '{node.name}'", norm.node)
    elif norm.channels_first or node.get("transpose_a", False) or node.get("adj_x", False):
        raise Refuse(f"its channels are not what '{node.name}' sums over", norm.node)
    # Weights given transposed: [outputs, inputs].
    transposed = not kind.layout and producer.axes == (0,)
    axis = 1 if transposed else kind.input_axis
    if shape[axis] != norm.scale.size:
        raise Refuse(
            f"'{node.name}' is grouped: it has {shape[axis]} inputs per group of {norm.scale.size}", norm.node
        )
    along = [1] * len(shape)
    along[axis] = -1
    # In double: the product is rounded once, to the type of the weights.
    wide = numbers(producer.tensor, node)
    summed = tuple(a for a in range(len(shape)) if a not in producer.axes)
    # conv(x * s + o) = conv(x * s) + sum(w * o): the sum goes over all but the output channels.
    bias = store(_sum(wide * norm.offset.reshape(along), summed), producer.tensor, norm.node)
    weights = store(wide * norm.scale.reshape(along), producer.tensor, norm.node)
    return weights, bias if bias.numpy().astype(np.float64).any() else None


def _sum(array: Array, axes: tuple[int, ...]) -> Array:
    return np.asarray(array.sum(axis=axes)).reshape(-1)


def following_bias(node: Node, producer: Producer) -> Value | None:
    """The bias constant of a BiasAdd that alone reads the convolution, if it may be changed in place."""
    readers = node.output().uses
    if len(readers) != 1 or node.is_protected or readers[0].node.op != "BiasAdd" or readers[0].index != 0:
        return None
    value = readers[0].node.inputs[1]
    tensor = constant_tensor(value)
    if (
        tensor is None
        or tensor.shape != (producer.channels.count,)
        or not is_sole_reader(readers[0].node, value)
    ):
        return None
    return value


def insert_bias(graph: Graph, producer: Producer, bias: Tensor, awaited: list[Node], origin: str) -> None:
    """Put a BiasAdd over a convolution; it takes over the name, the convolution gets a new one."""
    node = producer.node
    site = Site(graph, node, origin)
    # The convolution's name is what others know the result by, so it goes to the sum.
    twin = site.add(
        node.op, *node.inputs, name=f"{node.name}/{node.op}", attrs=node.attrs, device=node.device
    )
    twin.node.set_control_inputs(node.control_inputs)
    constant = site.constant(bias, f"{node.name}_bias")
    constant.node.set_control_inputs(awaited)
    moved = replace(producer, node=twin.node)
    total = add_bias(site, moved, constant, f"{node.name}/BiasAdd")
    node.set_control_inputs(())
    graph.replace(node, total.node, ports={v.port: total for v in node.outputs})
