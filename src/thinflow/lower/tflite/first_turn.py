"""Empty lists whose items have sizes that only the first turn of their loop tells, such as an open batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.types import INT32
from thinflow.lower.slots import Listed
from thinflow.lower.tflite.builder import Builder
from thinflow.lower.tflite.lists import sizes_of_items
from thinflow.lower.tflite.program import Operator, Tensor


def zeros_for(
    b: Builder,
    values: Listed[Tensor],
    result: Tensor,
    operators: Sequence[Operator],
    start: Mapping[Tensor, Tensor],
) -> Tensor:
    """Zeros [count,...] of the sizes of the item that the first turn sets.

    What computes that item is computed once more, in front of the loop: the price of one turn for sizes that
    hold whatever they depend on.

    Args:
        result: the list after a turn, in the body.
        operators: the body.
        start: argument of the body -> what it starts with.

    Raises:
        UnsupportedOp: the item depends on a list that is empty itself.
    """
    maker = {t: o for o in operators for t in o.outputs}
    update = maker.get(result)
    # The update is the item with an axis in front; a list of one item is that row itself.
    row = update.inputs[1] if update is not None and update.code == "DYNAMIC_UPDATE_SLICE" else result
    assert row is not None
    first = _copied(b, row, maker, start)
    rank = len(values.shape or ())
    now = b.step("SHAPE", first, shape=(rank + 1,), element=INT32, out_type=INT32)
    # Without the axis that counts items, of which the row has one.
    tail = b.step("SLICE", now, b.ints([1], "begin"), b.ints([rank], "size"), shape=(rank,))
    sizes = sizes_of_items(b, values, tail)
    zero = b.const(np.zeros((), values.element.numpy()), "zero", values.element)
    shape = (values.count, *(values.shape or ()))
    return b.step("FILL", sizes, zero, shape=shape, element=values.element, suffix="empty")


def _copied(
    b: Builder, wanted: Tensor, maker: Mapping[Tensor, Operator], start: Mapping[Tensor, Tensor]
) -> Tensor:
    """A tensor of the body as it is in the first turn, by copies of its operators."""
    twin: dict[Tensor, Tensor] = dict(start)
    stack = [wanted]
    # Depth first without recursion: a body may be a chain of many operators.
    while stack:
        tensor = stack[-1]
        if tensor in twin or tensor.is_constant:
            stack.pop()
            continue
        operator = maker.get(tensor)
        if operator is None:
            raise UnsupportedOp("the size of a list's items depends on a list that is empty")
        read = [t for t in operator.inputs if t is not None]
        waiting = [t for t in read if t not in twin and not t.is_constant]
        if waiting:
            stack += waiting
            continue
        _copy(b, operator, twin)
    return twin.get(wanted, wanted)


def _copy(b: Builder, operator: Operator, twin: dict[Tensor, Tensor]) -> None:
    for output in operator.outputs:
        twin[output] = b.own("first", output.shape, output.dtype)
    b.operators.append(
        Operator(
            operator.code,
            [None if t is None else twin.get(t, t) for t in operator.inputs],
            [twin[t] for t in operator.outputs],
            dict(operator.options),
            custom_code=operator.custom_code,
            custom_options=operator.custom_options,
            origin=b.node.name,
        )
    )
