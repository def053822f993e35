"""Which rows of its inputs an operator makes each row of its output of, where that is a few of them.

    @by_rows("MAX_POOL_2D")
    def pooled(operator: Operator) -> Reaches:
        return {0: window_reach(operator, height)}

A rule says so for each input that is computed, by its number, or None where rows are not all that is read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from thinflow.lower.c.windows import moves, rows_before
from thinflow.tflite.model import Operator, Tensor

_RANK, _ROWS = 4, 1
"""Dimensions of a picture, [1, rows, columns, channels], and where in them rows are."""


@dataclass(frozen=True)
class Reach:
    """Row y of an output is made of the rows from y * stride - before on, `rows` of them.

    Attributes:
        above, below: the first and the last rows of an output that are made of none.
    """

    stride: int = 1
    rows: int = 1
    before: int = 0
    above: int = 0
    below: int = 0

    def needed(self, first: int, end: int, height: int) -> tuple[int, int]:
        """The rows of an input of a height that rows of the output are made of, as first and end."""
        low = min(max(first * self.stride - self.before, 0), height)
        return low, max(min((end - 1) * self.stride - self.before + self.rows, height), low)

    def ready(self, have: int, height: int, out_height: int) -> int:
        """Rows of the output that can be made of the first rows of an input."""
        if have >= height:
            return out_height
        if have == 0 < self.above:
            return 0
        return min(max((have + self.before - self.rows) // self.stride + 1, 0), out_height)

    def rounded(self, have: int, out_height: int) -> int:
        """So many rows of an output, or more: those that are made of none are made with one that is not."""
        if 0 < have <= self.above:
            have = self.above + 1
        return out_height if have >= out_height - self.below else have


ALIKE = (
    *("ADD", "SUB", "MUL", "DIV", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE", "PRELU", "RELU", "RELU6"),
    *("RELU_N1_TO_1", "RELU_0_TO_1", "LEAKY_RELU", "LOGISTIC", "TANH", "HARD_SWISH", "ELU", "GELU", "EXP"),
    *("ABS", "NEG", "SQUARE", "SQRT", "RSQRT", "LOG", "FLOOR", "CEIL", "ROUND", "SIN", "COS", "SIGN"),
    *("QUANTIZE", "DEQUANTIZE", "CAST", "FAKE_QUANT"),
)
"""Operators that make each element of those at its place."""
Reaches: TypeAlias = "dict[int, Reach] | None"
Rule: TypeAlias = "Callable[[Operator], Reaches]"
_rules: dict[str, Rule] = {}


def by_rows(*codes: str) -> Callable[[Rule], Rule]:
    """Function decorator: a rule for these operators."""

    def register(rule: Rule) -> Rule:
        _rules.update(dict.fromkeys(codes, rule))
        return rule

    return register


def reaches(operator: Operator) -> Reaches:
    """What the rows of an operator's output are made of, by the number of the input; None if they are made
    of all rows, or are none of one picture."""
    rule = _rules.get(operator.code)
    computed = [t for t in operator.reads() if not t.is_constant]
    if rule is None or len(operator.outputs) != 1 or not computed:
        return None
    if not all(map(_is_picture, (*computed, operator.outputs[0]))):
        return None
    return rule(operator)


def height_of(tensor: Tensor) -> int:
    """The rows of a picture."""
    return sizes(tensor)[_ROWS]


def sizes(tensor: Tensor) -> tuple[int, ...]:
    """All of them, which are known by now."""
    return tuple(n or 0 for n in tensor.shape or ())


def _is_picture(tensor: Tensor) -> bool:
    found = sizes(tensor)
    return len(found) == _RANK and found[0] == 1 and all(found)


def _window(operator: Operator, rows: int) -> Reach:
    (stride, _), (dilation, _), _ = moves(operator)
    return Reach(stride, (rows - 1) * dilation + 1, rows_before(operator, rows))


@by_rows("CONV_2D", "DEPTHWISE_CONV_2D")
def _convolved(operator: Operator) -> Reaches:
    x, w = operator.inputs[:2]
    # Floats with weights of bytes are quantized by the range of the whole picture.
    if x is None or w is None or not w.is_constant or (x.dtype.name == "float") != (w.dtype.name == "float"):
        return None
    return {0: _window(operator, sizes(w)[1])}


@by_rows("MAX_POOL_2D", "AVERAGE_POOL_2D")
def _pooled(operator: Operator) -> Reaches:
    return {0: _window(operator, int(operator.options.get("filter_height", 0)))}


@by_rows("PAD", "PADV2")
def _padded(operator: Operator) -> Reaches:
    amounts = operator.inputs[1]
    if amounts is None or not amounts.is_constant or amounts.array().shape != (_RANK, 2):
        return None
    around = amounts.array().tolist()
    above, below = map(int, around[_ROWS])
    return {0: Reach(before=above, above=above, below=below)} if not any(around[0]) else None


@by_rows("CONCATENATION")
def _joined(operator: Operator) -> Reaches:
    # Of constants beside what is computed, all rows would be there at once.
    if int(operator.options.get("axis", 0)) % _RANK <= _ROWS or any(t.is_constant for t in operator.reads()):
        return None
    return _alike(operator)


@by_rows(*ALIKE)
def _alike(operator: Operator) -> Reaches:
    """Row by row: every input has the rows of the output, or is a constant that is the same for all rows."""
    y = operator.outputs[0]
    found = {}
    for number, x in enumerate(operator.inputs):
        if x is None:
            continue
        if x.is_constant:
            if sizes(x)[-3:-2] not in ((), (1,)):
                return None
        elif height_of(x) != height_of(y):
            return None
        else:
            found[number] = Reach()
    return found
