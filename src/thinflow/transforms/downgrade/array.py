"""Arrays, boxes and control flow in older words."""

from __future__ import annotations

import numpy as np

from thinflow.ir.graph import Value
from thinflow.ir.types import FLOAT, INT32, INT64
from thinflow.rewrite.rule import Refuse
from thinflow.transforms.downgrade.rules import DowngradeSite, downgrade


@downgrade("GatherV2")
def gather(site: DowngradeSite) -> None:
    """Gather takes from the first axis: another one is brought there and back."""
    if site.node.get("batch_dims", 0):
        raise Refuse(f"its batch_dims is {site.node.get('batch_dims')}, and Gather has none", site.node)
    axis = int(site.numbers(2, "axis"))
    if axis == 0:
        site.becomes("Gather", 2, drop="Taxis batch_dims")
        return
    rank, index_rank = site.rank(0), site.rank(1)
    axis %= rank
    params, element = site.input(0), site.type("Tparams")
    # The axis to gather from comes to the front, the others keep their order.
    forth = [axis, *(i for i in range(rank) if i != axis)]
    taken = site.add(
        "Gather",
        _transposed(site, params, forth),
        site.input(1),
        Tparams=element,
        Tindices=site.type("Tindices"),
    )
    # Now [indices, others]: the axes before `axis` go in front of those of the indices.
    before = range(index_rank, index_rank + axis)
    after = range(index_rank + axis, index_rank + rank - 1)
    site.replace(_transposed(site, taken, [*before, *range(index_rank), *after]))


def _transposed(site: DowngradeSite, value: Value, order: list[int]) -> Value:
    perm = site.constant(np.array(order, np.int32), "perm")
    return site.add("Transpose", value, perm, T=site.type("Tparams"), Tperm=INT32)


@downgrade("GatherV2.batch_dims")
def batched_gather(site: DowngradeSite) -> None:
    """There is no older word for it."""
    raise Refuse(f"its batch_dims is {site.node.get('batch_dims')}", site.node)


@downgrade("ConcatV2")
def concat(site: DowngradeSite) -> None:
    """concat_v2(values, axis) = concat(axis, values)"""
    *values, axis = site.node.inputs
    if site.node.get("Tidx", INT32) is INT64:
        axis = site.constant(site.numbers(len(values), "int64 axis").astype(np.int32), "axis_int32")
    # Concat wants its axis first.
    site.node.set_inputs([axis, *values])
    site.becomes("Concat", drop="Tidx")


@downgrade("PadV2")
def pad(site: DowngradeSite) -> None:
    """Pad pads with zeros only."""
    if site.numbers(2, "padding value").any():
        raise Refuse("it pads with another value than zero", site.node)
    site.becomes("Pad", 2)


@downgrade("IdentityN")
def identities(site: DowngradeSite) -> None:
    """One Identity for each value. What waited for all of them waits for the first."""
    types = [v.spec.dtype for v in site.node.inputs]
    if None in types or not types:
        raise Refuse("the types of its inputs are not known", site.node)
    if any(v.port > 0 and (v.is_graph_output or v.is_graph_input) for v in site.node.outputs):
        raise Refuse("an output above 0 is asked for by name", site.node)
    same = [site.add("Identity", v, T=t or FLOAT) for v, t in zip(site.node.inputs, types, strict=True)]
    site.replace(same[0], dict(enumerate(same)))


@downgrade("EnsureShape")
def ensure_shape(site: DowngradeSite) -> None:
    """The check is left out."""
    site.becomes("Identity", drop="shape")


@downgrade("BroadcastTo")
def broadcast(site: DowngradeSite) -> None:
    """Adding zeros of the wanted shape repeats what is too small."""
    element = site.type()
    if not (element.is_floating or element.is_integer):
        raise Refuse(f"a {element} cannot be spread by adding zeros", site.node)
    shape = site.input(1)
    # Fill took an int32 shape only, before its index_type.
    if site.node.get("Tidx", INT32) is INT64:
        shape = site.add("Cast", shape, SrcT=INT64, DstT=INT32)
    zeros = site.add("Fill", shape, site.constant(np.zeros((), element.numpy()), "zero"), T=element)
    site.replace(site.add("Add", site.input(0), zeros, T=element))


@downgrade(
    "MatrixDiagV2",
    "MatrixDiagV3",
    "MatrixDiagPartV2",
    "MatrixDiagPartV3",
    "MatrixSetDiagV2",
    "MatrixSetDiagV3",
)
def diagonal(site: DowngradeSite) -> None:
    """The first version knows the main diagonal of square results only."""
    op = site.node.op[:-2]
    at = 2 if op == "MatrixSetDiag" else 1
    if site.numbers(at, "choice of diagonals").any():
        raise Refuse(f"{op} sees the main diagonal only", site.node)
    if op == "MatrixDiag":
        if (site.numbers(2, "number of rows") != -1).any() or (
            site.numbers(3, "number of columns") != -1
        ).any():
            raise Refuse("MatrixDiag gives square matrices only", site.node)
        if site.numbers(4, "padding value").any():
            raise Refuse("MatrixDiag pads with zero only", site.node)
    site.becomes(op, 2 if op == "MatrixSetDiag" else 1, drop="align")


@downgrade("NonMaxSuppressionV5")
def nms_5(site: DowngradeSite) -> None:
    """Without soft suppression the scores are those of the boxes taken."""
    if site.numbers(5, "soft_nms_sigma").any():
        raise Refuse("it lowers scores (soft_nms_sigma is not 0), which older ops cannot", site.node)
    site.refuse_outputs(range(1, 3))
    padded = bool(site.node.get("pad_to_max_output_size", False))
    if padded and site.node.output(1).uses:
        raise Refuse("its scores are padded, and those of older ops are not", site.node)
    boxes, scores, most, overlap, least = site.node.inputs[:5]
    element = site.type()
    four = site.add(
        "NonMaxSuppressionV4",
        # Inputs are those of version 5 but for the last, which is checked above.
        *(boxes, scores, most, overlap, least),
        T=element,
        T_threshold=element,
        pad_to_max_output_size=padded,
    )
    # Gathered again, since version 4 does not give the scores.
    taken = site.add("Gather", scores, four, Tparams=element, Tindices=INT32)
    site.replace(four, {1: taken, 2: four.node.output(1)})


@downgrade("NonMaxSuppressionV4")
def nms_4(site: DowngradeSite) -> None:
    """Without padding, all boxes are valid."""
    if site.node.get("pad_to_max_output_size", False):
        raise Refuse("it pads its result (pad_to_max_output_size), which older ops cannot", site.node)
    site.refuse_outputs(range(1, 2))
    attrs = {k: v for k, v in site.node.attrs.items() if k != "pad_to_max_output_size"}
    boxes = site.add("NonMaxSuppressionV3", *site.node.inputs, **attrs)
    # As many as there are: nothing is padded.
    site.replace(boxes, {1: site.add("Size", boxes, T=INT32, out_type=INT32)})


@downgrade("NonMaxSuppressionV3")
def nms_3(site: DowngradeSite) -> None:
    """Boxes of low scores come last: they are dropped afterwards."""
    boxes, scores, most, overlap, least = (site.input(i) for i in range(5))
    element = site.type()
    if element is not FLOAT or site.type("T_threshold") is not FLOAT:
        raise Refuse(f"NonMaxSuppressionV2 takes float, not {element}", site.node)
    taken = site.add("NonMaxSuppressionV2", boxes, scores, most, overlap)
    own = site.add("Gather", scores, taken, Tparams=FLOAT, Tindices=INT32)
    good = site.add("Where", site.add("Greater", own, least, T=FLOAT))
    flat = site.add("Reshape", good, site.constant(np.array([-1], np.int32), "flat"), T=INT64, Tshape=INT32)
    site.replace(site.add("Gather", taken, flat, Tparams=INT32, Tindices=INT64))


@downgrade("NonMaxSuppressionV2")
def nms_2(site: DowngradeSite) -> None:
    """The first version has its threshold in an attribute."""
    if site.type() is not FLOAT or site.type("T_threshold") is not FLOAT:
        raise Refuse(f"NonMaxSuppression takes float, not {site.type()}", site.node)
    overlap = float(site.numbers(3, "iou_threshold"))
    site.becomes("NonMaxSuppression", 3, drop="T T_threshold", iou_threshold=overlap)


@downgrade("StatelessIf")
def conditional(site: DowngradeSite) -> None:
    """If does the same and may have effects besides."""
    site.becomes("If")


@downgrade("StatelessWhile")
def loop(site: DowngradeSite) -> None:
    """While does the same and may have effects besides."""
    site.becomes("While", drop="num_original_outputs")


@downgrade("If", "While", "Case", "StatelessCase")
def flow(site: DowngradeSite) -> None:
    """Loops and branches are lowered by another transform, before the rules are applied."""
    raise Refuse("it calls functions; lower_control_flow says why it stays", site.node)


@downgrade("PartitionedCall", "StatefulPartitionedCall")
def call(site: DowngradeSite) -> None:
    """Calls are inlined by another transform."""
    raise Refuse("it calls a function; inline_partitionedcall says why it stays", site.node)
