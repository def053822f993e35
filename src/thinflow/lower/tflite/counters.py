"""Loops that count the same thing twice, as those that TensorFlow 2 writes do.

Its loops have a counter of their own, which ends at the maximum number of iterations, beside the one of the
user's body, which ends at the length of the sequence. Where both start and step alike one of them is enough,
and if both ends are equal so is one comparison. In a small body these are a tenth of the operators.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from thinflow.tflite.model import Operator, Subgraph, Tensor

Key = tuple[Any, ...]


def twin_counters(
    starts: Sequence[Tensor | None],
    arguments: Sequence[Tensor | None],
    results: Sequence[Tensor | None],
    body: Subgraph,
) -> dict[int, int]:
    """Variable -> an earlier one that always has the same value. O(variables + operators).

    Args:
        starts: what each variable is at first; None where that is not constant.
        arguments, results: of the body, one for each variable.
        body: computes the results.
    """
    producers = body.producers()
    first: dict[Key, int] = {}
    twins: dict[int, int] = {}
    for number, (start, own, result) in enumerate(zip(starts, arguments, results, strict=True)):
        operator = producers.get(result) if result is not None else None
        step = _step(operator, own) if operator is not None and own is not None else None
        if start is not None and step is not None:
            # Equal start and equal step: both have the same value in every iteration.
            earlier = first.setdefault((_content(start), _content(step)), number)
            if earlier != number:
                twins[number] = earlier
    return twins


def _step(operator: Operator, own: Tensor) -> Tensor | None:
    """The constant that an operator adds to a variable; None if it does something else."""
    if operator.code != "ADD" or operator.options.get("fused_activation_function", "NONE") != "NONE":
        return None
    others = [t for t in operator.inputs if t is not own]
    step = others[0] if len(others) == 1 else None
    # `own + own` has no other operand, and doubles.
    return step if step is not None and step.is_constant and step.shape == own.shape == () else None


def _content(tensor: Tensor) -> Key:
    array = np.asarray(tensor.array())
    return tensor.dtype, array.shape, array.tobytes()


def replace_tensors(operators: Sequence[Operator], by: dict[Tensor, Tensor]) -> None:
    """Let operators read other tensors."""
    for operator in operators:
        operator.inputs = [t if t is None else by.get(t, t) for t in operator.inputs]


def merge_comparisons(operators: Sequence[Operator], decision: Tensor) -> Tensor:
    """The tensor that decides, once equal comparisons are one and `a AND a` is a. O(operators)."""
    by: dict[Tensor, Tensor] = {}
    seen: dict[Key, Tensor] = {}
    for operator in operators:
        # Operators are in running order, so what is replaced in front of this one is known already.
        replace_tensors([operator], by)
        if operator.code == "LOGICAL_AND" and operator.inputs[0] is operator.inputs[1]:
            by[operator.outputs[0]] = operator.inputs[0] or decision
        elif operator.code in ("LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"):
            read = (_content(t) if t is not None and t.is_constant else t for t in operator.inputs)
            same = seen.setdefault((operator.code, *read), operator.outputs[0])
            if same is not operator.outputs[0]:
                by[operator.outputs[0]] = same
    return by.get(decision, decision)


def iterations(
    operators: Sequence[Operator],
    decision: Tensor,
    arguments: Sequence[Tensor | None],
    starts: Sequence[Tensor | None],
) -> int | None:
    """Iterations of a loop that counts up by 1 from 0 to a constant; None if more than that decides.

    That the variable does count has to be looked up in the body.
    """
    deciding = [o for o in operators if decision in o.outputs]
    # A condition that looks at anything else may end the loop earlier.
    if len(deciding) != 1 or deciding[0].code != "LESS":
        return None
    counter, limit = deciding[0].inputs
    if counter not in arguments or counter is None or limit is None or not limit.is_constant:
        return None
    start = starts[list(arguments).index(counter)]
    if start is None or start.shape != () or int(np.asarray(start.array())) != 0 or limit.shape != ():
        return None
    return int(np.asarray(limit.array()))
