"""Arrays, boxes and control flow in older words."""

from __future__ import annotations

import numpy as np

from thinflow.ir.graph import Value
from thinflow.ir.types import FLOAT, INT32, INT64
from thinflow.rewrite.rule import Refuse
from thinflow.transforms._older import Work, older


@older("GatherV2")
def gather(work: Work) -> None:
    """Gather takes from the first axis: another one is brought there and back."""
    if work.node.get("batch_dims", 0):
        raise Refuse(f"its batch_dims is {work.node.get('batch_dims')}, and Gather has none", work.node)
    axis = int(work.numbers(2, "axis"))
    if axis == 0:
        work.becomes("Gather", 2, drop="Taxis batch_dims")
        return
    rank, index_rank = work.rank(0), work.rank(1)
    axis %= rank
    params, element = work.input(0), work.type("Tparams")
    forth = [axis, *(i for i in range(rank) if i != axis)]
    taken = work.add(
        "Gather",
        _transposed(work, params, forth),
        work.input(1),
        Tparams=element,
        Tindices=work.type("Tindices"),
    )
    # Now [indices, others]: the axes before `axis` go in front of those of the indices.
    before = range(index_rank, index_rank + axis)
    after = range(index_rank + axis, index_rank + rank - 1)
    work.replace(_transposed(work, taken, [*before, *range(index_rank), *after]))


def _transposed(work: Work, value: Value, order: list[int]) -> Value:
    perm = work.constant(np.array(order, np.int32), "perm")
    return work.add("Transpose", value, perm, T=work.type("Tparams"), Tperm=INT32)


@older("GatherV2.batch_dims")
def batched_gather(work: Work) -> None:
    """There is no older word for it."""
    raise Refuse(f"its batch_dims is {work.node.get('batch_dims')}", work.node)


@older("ConcatV2")
def concat(work: Work) -> None:
    """concat_v2(values, axis) = concat(axis, values)"""
    *values, axis = work.node.inputs
    if work.node.get("Tidx", INT32) is INT64:
        axis = work.constant(work.numbers(len(values), "int64 axis").astype(np.int32), "axis_int32")
    work.node.set_inputs([axis, *values])
    work.becomes("Concat", drop="Tidx")


@older("PadV2")
def pad(work: Work) -> None:
    """Pad pads with zeros only."""
    if work.numbers(2, "padding value").any():
        raise Refuse("it pads with another value than zero", work.node)
    work.becomes("Pad", 2)


@older("IdentityN")
def identities(work: Work) -> None:
    """One Identity for each value. What waited for all of them waits for the first."""
    types = [v.spec.dtype for v in work.node.inputs]
    if None in types or not types:
        raise Refuse("the types of its inputs are not known", work.node)
    if any(v.port > 0 and (v.is_graph_output or v.is_graph_input) for v in work.node.outputs):
        raise Refuse("an output above 0 is asked for by name", work.node)
    same = [work.add("Identity", v, T=t or FLOAT) for v, t in zip(work.node.inputs, types, strict=True)]
    work.replace(same[0], dict(enumerate(same)))


@older("EnsureShape")
def ensure_shape(work: Work) -> None:
    """The check is left out."""
    work.becomes("Identity", drop="shape")


@older("BroadcastTo")
def broadcast(work: Work) -> None:
    """Adding zeros of the wanted shape repeats what is too small."""
    element = work.type()
    if not (element.is_floating or element.is_integer):
        raise Refuse(f"a {element} cannot be spread by adding zeros", work.node)
    shape = work.input(1)
    if work.node.get("Tidx", INT32) is INT64:
        shape = work.add("Cast", shape, SrcT=INT64, DstT=INT32)
    zeros = work.add("Fill", shape, work.constant(np.zeros((), element.numpy()), "zero"), T=element)
    work.replace(work.add("Add", work.input(0), zeros, T=element))


@older(
    "MatrixDiagV2",
    "MatrixDiagV3",
    "MatrixDiagPartV2",
    "MatrixDiagPartV3",
    "MatrixSetDiagV2",
    "MatrixSetDiagV3",
)
def diagonal(work: Work) -> None:
    """The first version knows the main diagonal of square results only."""
    op = work.node.op[:-2]
    at = 2 if op == "MatrixSetDiag" else 1
    if work.numbers(at, "choice of diagonals").any():
        raise Refuse(f"{op} sees the main diagonal only", work.node)
    if op == "MatrixDiag":
        if (work.numbers(2, "number of rows") != -1).any() or (
            work.numbers(3, "number of columns") != -1
        ).any():
            raise Refuse("MatrixDiag gives square matrices only", work.node)
        if work.numbers(4, "padding value").any():
            raise Refuse("MatrixDiag pads with zero only", work.node)
    work.becomes(op, 2 if op == "MatrixSetDiag" else 1, drop="align")


@older("NonMaxSuppressionV5")
def nms_5(work: Work) -> None:
    """Without soft suppression the scores are those of the boxes taken."""
    if work.numbers(5, "soft_nms_sigma").any():
        raise Refuse("it lowers scores (soft_nms_sigma is not 0), which older ops cannot", work.node)
    work.refuse_outputs(range(1, 3))
    boxes, scores, most, overlap, least = work.node.inputs[:5]
    element, padded = work.type(), bool(work.node.get("pad_to_max_output_size", False))
    four = work.add(
        "NonMaxSuppressionV4",
        *(boxes, scores, most, overlap, least),
        T=element,
        T_threshold=element,
        pad_to_max_output_size=padded,
    )
    taken = work.add("Gather", scores, four, Tparams=element, Tindices=INT32)
    if padded and work.node.output(1).uses:
        raise Refuse("its scores are padded, and those of older ops are not", work.node)
    work.replace(four, {1: taken, 2: four.node.output(1)})


@older("NonMaxSuppressionV4")
def nms_4(work: Work) -> None:
    """Without padding, all boxes are valid."""
    if work.node.get("pad_to_max_output_size", False):
        raise Refuse("it pads its result (pad_to_max_output_size), which older ops cannot", work.node)
    work.refuse_outputs(range(1, 2))
    attrs = {k: v for k, v in work.node.attrs.items() if k != "pad_to_max_output_size"}
    boxes = work.add("NonMaxSuppressionV3", *work.node.inputs, **attrs)
    work.replace(boxes, {1: work.add("Size", boxes, T=INT32, out_type=INT32)})


@older("NonMaxSuppressionV3")
def nms_3(work: Work) -> None:
    """Boxes of low scores come last: they are dropped afterwards."""
    boxes, scores, most, overlap, least = (work.input(i) for i in range(5))
    element = work.type()
    if element is not FLOAT or work.type("T_threshold") is not FLOAT:
        raise Refuse(f"NonMaxSuppressionV2 takes float, not {element}", work.node)
    taken = work.add("NonMaxSuppressionV2", boxes, scores, most, overlap)
    own = work.add("Gather", scores, taken, Tparams=FLOAT, Tindices=INT32)
    good = work.add("Where", work.add("Greater", own, least, T=FLOAT))
    flat = work.add("Reshape", good, work.constant(np.array([-1], np.int32), "flat"), T=INT64, Tshape=INT32)
    work.replace(work.add("Gather", taken, flat, Tparams=INT32, Tindices=INT64))


@older("NonMaxSuppressionV2")
def nms_2(work: Work) -> None:
    """The first version has its threshold in an attribute."""
    if work.type() is not FLOAT or work.type("T_threshold") is not FLOAT:
        raise Refuse(f"NonMaxSuppression takes float, not {work.type()}", work.node)
    overlap = float(work.numbers(3, "iou_threshold"))
    work.becomes("NonMaxSuppression", 3, drop="T T_threshold", iou_threshold=overlap)


@older("StatelessIf")
def conditional(work: Work) -> None:
    """If does the same and may have effects besides."""
    work.becomes("If")


@older("StatelessWhile")
def loop(work: Work) -> None:
    """While does the same and may have effects besides."""
    work.becomes("While", drop="num_original_outputs")


@older("If", "While", "Case", "StatelessCase")
def flow(work: Work) -> None:
    """Loops and branches are lowered by another transform, before the rules are applied."""
    raise Refuse("it calls functions; lower_control_flow says why it stays", work.node)


@older("PartitionedCall", "StatefulPartitionedCall")
def call(work: Work) -> None:
    """Calls are inlined by another transform."""
    raise Refuse("it calls a function; inline_partitionedcall says why it stays", work.node)
