"""Values that have as many rows as what is computed says: memory for the most there can be, and a count.

    WHERE, UNIQUE, x[:n]  ->  the same with one more output, how many rows there are; zeros behind them

What works row by row hands the count on, and makes something of the zeros that nobody reads. What mixes
rows, or looks at their number, is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from thinflow.errors import UnsupportedOp
from thinflow.ir.types import dtype
from thinflow.lower.c.flow import BRANCH, COPY, LOOP, LOOP_NEXT, LOOP_TEST, RENAMES
from thinflow.lower.c.reach import ALIKE, sizes
from thinflow.tflite.model import Operator, Tensor

_MASKS = ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
_NAMES = {LOOP: "WHILE", LOOP_TEST: "WHILE", LOOP_NEXT: "WHILE", BRANCH: "IF", COPY: "IF"}
"""What is only C's, by LiteRT's names."""
Rule: TypeAlias = "Callable[[Operator, Tensor], bool]"
_rules: dict[str, Rule] = {}


class Counts:
    """Which values have fewer rows than memory, and what tells how many.

    Attributes:
        of: value -> its count, an int32 that is computed, too.
    """

    def __init__(self) -> None:
        self.of: dict[Tensor, Tensor] = {}

    def begin(self, operator: Operator) -> None:
        """Give an operator whose rows are counted the sizes of the most it can make, and a count."""
        x, y = operator.inputs[0], operator.outputs[0]
        assert x is not None
        size = math.prod(sizes(x))
        y.shape = {"WHERE": (size, len(sizes(x))), "UNIQUE": (size,)}.get(operator.code, sizes(x))
        count = Tensor(f"{y.name}_count", (), dtype("int32"))
        operator.outputs.append(count)
        self.of[y] = count

    def reach(self, operator: Operator) -> bool:
        """Whether an operator reads a value that has a count."""
        return any(t in self.of for t in operator.reads())

    def require_rule(self, operator: Operator) -> None:
        """Refuse operators that do not work row by row, whatever their sizes.

        Raises:
            UnsupportedOp: it is one.
        """
        if operator.code not in _rules:
            raise self._refusal(operator)

    def hand_on(self, operator: Operator) -> None:
        """Let what an operator makes have the count of what it reads; all sizes are known.

        Raises:
            UnsupportedOp: it does not work row by row.
        """
        x, *others = (t for t in operator.reads() if t in self.of)
        rows = sizes(x)[:1]
        is_by_rows = bool(rows) and all(self.of[t] is self.of[x] for t in others)
        is_by_rows = is_by_rows and all(sizes(t)[:1] == rows for t in operator.outputs)
        if not is_by_rows or not _rules[operator.code](operator, x):
            raise self._refusal(operator)
        self.of.update(dict.fromkeys(operator.outputs, self.of[x]))

    def _refusal(self, operator: Operator) -> UnsupportedOp:
        read = next(t for t in operator.reads() if t in self.of)
        return UnsupportedOp(
            f"how many rows '{read.name}' has follows from what is computed; C has them up to a count, and"
            f" {_NAMES.get(operator.code, operator.code)} does not go row by row",
            hint="cut the network behind it with --outputs, or run it with LiteRT",
        )


def is_bounded(operator: Operator) -> bool:
    """Whether the numbers say how many rows an operator makes, and there is a most."""
    if all(t.is_constant for t in operator.reads()):
        return False
    y = operator.outputs[0] if operator.outputs else None
    if operator.code in ("WHERE", "UNIQUE"):
        return True
    is_open = y is not None and (y.shape is None or None in y.shape)
    return is_open and operator.code in ("SLICE", "STRIDED_SLICE") and _is_head(operator)


def _is_head(operator: Operator) -> bool:
    """Whether it cuts off the first rows, as many as are computed, whole."""
    x, begin, end = operator.inputs[:3]
    if x is None or begin is None or not begin.is_constant or end is None or end.is_constant:
        return False
    options, rank = operator.options, len(sizes(x))
    starts = begin.array().reshape(-1).tolist()
    if operator.code == "SLICE":
        return starts == [0] and rank == 1
    strides = operator.inputs[3]
    if strides is None or not strides.is_constant or any(int(options.get(name, 0)) for name in _MASKS):
        return False
    begins, ends = (int(options.get(f"{name}_mask", 0)) for name in ("begin", "end"))
    is_from_start = all(n == 0 or begins >> i & 1 for i, n in enumerate(starts))
    is_whole = all(ends >> i & 1 for i in range(1, len(starts))) and not ends & 1
    return rank > 0 and is_from_start and is_whole and (strides.array() == 1).all().item()


def keeps_rows(*codes: str) -> Callable[[Rule], Rule]:
    """Function decorator: whether these operators make each row of the same row of what has a count, where
    inputs and outputs have as many rows."""

    def register(rule: Rule) -> Rule:
        _rules.update(dict.fromkeys(codes, rule))
        return rule

    return register


@keeps_rows(*ALIKE)
def _alike(operator: Operator, x: Tensor) -> bool:
    """What is read beside it is the same for all rows, or has as many."""
    rank = len(sizes(x))
    others = (sizes(t) for t in operator.reads() if sizes(t)[:1] != sizes(x)[:1] or t.is_constant)
    return all(len(shape) < rank or shape[0] == 1 for shape in others)


@keeps_rows(*RENAMES)
def _renamed(operator: Operator, x: Tensor) -> bool:
    return True


@keeps_rows("CONCATENATION", "PACK", "UNPACK")
def _side_by_side(operator: Operator, x: Tensor) -> bool:
    rank = len(sizes(operator.outputs[0] if operator.code == "PACK" else x))
    return int(operator.options.get("axis", 0)) % rank > 0 and not any(
        t.is_constant for t in operator.reads()
    )


@keeps_rows("GATHER")
def _gathered(operator: Operator, x: Tensor) -> bool:
    """Rows by numbers of which there are so many, or columns of each row."""
    rank = len(sizes(operator.inputs[0])) if operator.inputs[0] is not None else 0
    axis = int(operator.options.get("axis", 0)) % max(rank, 1)
    if operator.options.get("batch_dims", 0):
        return False
    return axis == 0 if x is operator.inputs[1] else axis > 0


@keeps_rows("GATHER_ND")
def _gathered_nd(operator: Operator, x: Tensor) -> bool:
    return x is operator.inputs[1]


@keeps_rows("SLICE", "STRIDED_SLICE")
def _cut(operator: Operator, x: Tensor) -> bool:
    """Columns of all rows."""
    begin = operator.inputs[1]
    if begin is None or not begin.is_constant:
        return False
    options = operator.options
    first = begin.array().reshape(-1)[0]
    is_from_start = first == 0 or bool(int(options.get("begin_mask", 0)) & 1)
    return is_from_start and not any(int(options.get(name, 0)) & 1 for name in _MASKS)


@keeps_rows("SUM", "MEAN", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "REDUCE_ALL", "REDUCE_ANY")
@keeps_rows("ARG_MAX", "ARG_MIN")
def _reduced(operator: Operator, x: Tensor) -> bool:
    """Each row by itself."""
    axes = operator.inputs[1]
    return axes is not None and axes.is_constant and all(n % len(sizes(x)) for n in axes.array().reshape(-1))


@keeps_rows("SOFTMAX", "LOG_SOFTMAX", "TOPK_V2")
def _last_axis(operator: Operator, x: Tensor) -> bool:
    return len(sizes(x)) > 1


@keeps_rows("FULLY_CONNECTED")
def _connected(operator: Operator, x: Tensor) -> bool:
    return (
        x is operator.inputs[0] and len(sizes(x)) > 1 and len([*operator.reads()]) == len({*operator.reads()})
    )
