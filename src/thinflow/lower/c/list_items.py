"""Items that loops write into lists, as TensorFlow's converter joins them with what lies around them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from thinflow.lower.c import flow
from thinflow.lower.tflite.wiring import is_plain
from thinflow.tflite.model import Operator, Subgraph, Tensor


def write_list_items(block: Subgraph) -> None:
    """Let an item be written over a list where it is joined with two slices of it.

        CONCATENATION(SLICE(x, 0, [i, -1, ...]), item, SLICE(x, [i + 1, 0, ...], -1))
            ->  DYNAMIC_UPDATE_SLICE(x, item, [i, 0, ...])

    The sizes of the slices follow from where the item lies, those of the list do not. Nothing has to be
    copied then, either, as the list is not read any more.
    """
    makers = block.producers()
    kept: list[Operator] = []
    for operator in block.operators:
        found = _written(operator, makers)
        if found is None:
            kept.append(operator)
            continue
        x, item, sizes = found
        first, *others = sizes.inputs
        zeros = [replace(t, data=np.zeros_like(t.array())) for t in others if t is not None]
        start = replace(sizes.outputs[0], name=f"{operator.outputs[0].name}/start")
        kept.append(replace(sizes, inputs=[first, *zeros], outputs=[start]))
        kept.append(replace(operator, code="DYNAMIC_UPDATE_SLICE", inputs=[x, item, start], options={}))
    if len(kept) > len(block.operators):
        block.operators = kept
        flow.remove_unused(block)


def _written(operator: Operator, makers: Mapping[Tensor, Operator]) -> tuple[Tensor, Tensor, Operator] | None:
    """The list, the item, and what puts the sizes before it together, if that is what an operator joins."""
    parts = [t for t in operator.inputs if t is not None]
    if operator.code != "CONCATENATION" or len(parts) != 3 or operator.options.get("axis") != 0:
        return None
    head, item, tail = makers.get(parts[0]), parts[1], makers.get(parts[2])
    if head is None or tail is None or head.code != "SLICE" or tail.code != "SLICE":
        return None
    (x, first, length), (same, behind, rest) = head.inputs, tail.inputs
    if x is None or x is not same or not x.shape or not item.shape or item.shape[0] != 1:
        return None
    quantizations = (t.quantization for t in (x, item, operator.outputs[0]))
    grids = {((), ()) if q is None else q.grid for q in quantizations}
    if not is_plain(operator) or len(grids) != 1 or not _all(first, 0) or not _all(rest, -1):
        return None
    sizes, place = _first_of(length, -1, makers)
    _, after = _first_of(behind, 0, makers)
    if sizes is None or place is None or after is None or not _follows(after, place, makers):
        return None
    return x, item, sizes


def _all(tensor: Tensor | None, number: int) -> bool:
    return tensor is not None and tensor.is_constant and bool((tensor.array() == number).all())


def _first_of(
    vector: Tensor | None, number: int, makers: Mapping[Tensor, Operator]
) -> tuple[Operator | None, Tensor | None]:
    """What puts sizes together, and the first of them, if that is computed and all others are this number."""
    maker = None if vector is None else makers.get(vector)
    if maker is None or maker.code not in ("CONCATENATION", "PACK"):
        return None, None
    first, *others = maker.inputs
    # One number, or a vector of one.
    if first is None or first.shape not in ((), (1,)) or not all(_all(t, number) for t in others):
        return None, None
    return maker, _unchanged(first, makers)


def _unchanged(tensor: Tensor, makers: Mapping[Tensor, Operator]) -> Tensor:
    """What a tensor was before it got other sizes."""
    while (
        (maker := makers.get(tensor)) is not None
        and maker.code in flow.RENAMES
        and maker.inputs[0] is not None
    ):
        tensor = maker.inputs[0]
    return tensor


def _follows(after: Tensor, place: Tensor, makers: Mapping[Tensor, Operator]) -> bool:
    """True if a number is one more than another, whatever that is."""
    maker = makers.get(after)
    if maker is None or maker.code != "ADD" or not is_plain(maker):
        return False
    terms = [t for t in maker.inputs if t is not None]
    ones = [t for t in terms if _all(t, 1)]
    return len(ones) == 1 and any(_unchanged(t, makers) is place for t in terms)
