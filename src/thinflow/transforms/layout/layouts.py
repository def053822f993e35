"""The order of axes: channels last, and transposes that cancel."""

from __future__ import annotations

from dataclasses import dataclass

from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import execution_order
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.edits import sweep
from thinflow.rewrite.pattern import constant_tensor
from thinflow.rewrite.rule import Refuse, Trace, Transform, transform
from thinflow.transforms.layout.plans import Input, NewConstant, Perm, Plan
from thinflow.transforms.layout.transposes import Sinker, UnitReshapes, reshape_unit_transposes
from thinflow.transforms.shared.constants import side_outputs
from thinflow.transforms.shared.effects import in_loops
from thinflow.transforms.shared.identities import known_shapes

LAYOUTS = {"NCHW": "NHWC", "NCDHW": "NDHWC"}
_WITH_CHANNELS = (Trait.CONVOLUTION | Trait.CONV_TRANSPOSE | Trait.POOL | Trait.TAKES_IMAGES) | (
    Trait.FUSED_BATCH_NORM | Trait.BIAS_ADD
)
"""Ops with an input of channels, the first but for transposed convolutions, that may say where they are."""


@transform("to_nhwc")
@dataclass(frozen=True)
class ToNhwc(Transform):
    """Convert layers with channels first to channels last, as processors want it.

    y = conv(x, w; NCHW)  ->  y = transpose(conv(transpose(x, [0,2,3,1]), w; NHWC), [0,3,1,2])

    The transposes then move through the graph and cancel; what is left stands at its inputs, its outputs, and
    before ops to which the order of the axes matters, such as Reshape. Inputs and outputs keep their layout.
    """

    tolerance = 1e-5

    def apply(self, graph: Graph, trace: Trace) -> None:
        channels_first = [
            n for n in execution_order(graph) if has(n.op, _WITH_CHANNELS) and n.get("data_format") in LAYOUTS
        ]
        if not channels_first:
            return
        known_shapes(graph)
        loops = in_loops(graph)
        sinker = Sinker(graph, trace, self.name)
        for node in channels_first:
            try:
                # New constants would be outside of the frame.
                if node in loops:
                    raise Refuse("it is in a loop")
                self._convert(sinker, node, trace)
            except Refuse as refusal:
                trace.leave(node, refusal.reason)
        sinker.run()
        reshape_unit_transposes(graph, trace)

    def _convert(self, sinker: Sinker, node: Node, trace: Trace) -> None:
        transposed = has(node.op, Trait.CONV_TRANSPOSE)
        data = 2 if transposed else 0
        if len(node.inputs) <= data:
            raise Refuse(f"it has only {len(node.inputs)} inputs")
        # Layouts have a letter for each axis; only BiasAdd says NCHW of any rank.
        rank = node.inputs[data].spec.rank if node.op == "BiasAdd" else len(str(node.get("data_format")))
        if rank is None or rank < 3:
            raise Refuse("the number of its axes is not known" if rank is None else "it has no picture")
        if node.is_protected and side_outputs(node):
            # Several outputs under names of their own cannot all be given to transposes.
            raise Refuse("it is asked for by name and has several outputs")
        # The new axis i is the old axis last[i]: batch, height, width, channels.
        last = (0, *range(2, rank), 1)
        inputs: list[Input] = list(node.inputs)
        # The sizes of what comes out; of a pool that takes them as inputs, window and strides.
        per_axis = [0] if transposed else range(1, len(inputs)) if has(node.op, Trait.POOL) else ()
        for index in per_axis:
            inputs[index] = _sizes(sinker, node, index, last)
        attrs = _attrs(node, last)
        trace.changed(node, f"works on {LAYOUTS[str(node.get('data_format'))]} instead")
        inputs[data] = sinker.transpose(node, node.inputs[data], last)
        loose = [v.node for v in node.inputs]
        # Back again: channels go from the end to axis 1.
        sinker.around(node, Plan((0, rank - 1, *range(1, rank - 1)), inputs, attrs))
        sweep(sinker.graph, loose)


def _sizes(sinker: Sinker, node: Node, index: int, order: Perm) -> Value | NewConstant:
    """One number per axis, in the new order."""
    value = node.inputs[index]
    tensor = constant_tensor(value)
    if tensor is None and value.spec.shape == (len(order),):
        return sinker.picked(node, value, order)
    if tensor is None or tensor.shape != (len(order),):
        raise Refuse(f"its input {index} does not hold {len(order)} numbers")
    return tensor.numpy()[list(order)], value, f"input{index}"


def _attrs(node: Node, order: Perm) -> dict[str, Attr]:
    """The attributes that name axes, in the new order."""
    attrs: dict[str, Attr] = {"data_format": LAYOUTS[str(node.get("data_format"))].encode()}
    for key in ("strides", "ksize", "dilations"):
        old = node.attrs_view.get(key)
        if isinstance(old, tuple) and old:
            if len(old) != len(order):
                raise Refuse(f"its {key} are not {len(order)} numbers")
            attrs[key] = tuple(old[axis] for axis in order)
    pads = node.attrs_view.get("explicit_paddings")
    if isinstance(pads, tuple) and pads:
        if len(pads) != 2 * len(order):
            raise Refuse(f"its explicit_paddings are not {2 * len(order)} numbers")
        # A pair for each axis, in the order of the axes.
        attrs["explicit_paddings"] = tuple(n for a in order for n in pads[2 * a : 2 * a + 2])
    return attrs


@transform("cancel_transposes")
@dataclass(frozen=True)
class CancelTransposes(Transform):
    """Take out transposes that undo each other, also with other ops between them.

    transpose(relu(transpose(x, [0,2,3,1])), [0,3,1,2])  ->  relu(x)
    transpose(x, [0,3,1,2]) of x [?,1,1,8]               ->  reshape(x, [-1,8,1,1])
    matmul(reshape(transpose(x, [0,3,1,2])), w)          ->  matmul(reshape(x), w with rows moved)

    Every op that can work with its axes in another order does so where fewer elements are moved then, in all
    of the graph: ops on elements, joins, stacks, pads, slices, gathers, reductions, norms, products of
    matrices, and reshapes of what lies together, such as the groups of a channel shuffle.

    Attributes:
        push: let ops work on other axes; otherwise only transposes in a row cancel.
    """

    tolerance = 1e-5  # sums run in another order

    push: bool = True

    def apply(self, graph: Graph, trace: Trace) -> None:
        if not any(node.op == "Transpose" for node in graph):
            return
        # Sizes tell which transposes move axes of size 1 only.
        known_shapes(graph)
        Sinker(graph, trace, self.name).join()
        if self.push:
            reshapes = UnitReshapes(Sinker(graph, trace, self.name))
            reshapes.turn()
            while Sinker(graph, trace, self.name).assign():
                pass
            reshapes.turn_back()
        reshape_unit_transposes(graph, trace)
