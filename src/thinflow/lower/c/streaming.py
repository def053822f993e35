"""A network over time that hears a few rows at a time: what was computed before is kept.

Of a window that moves on by `hop` rows, a layer's rows are those it computed before, moved by as many, but
for the new ones, and for those that padding reaches: these depend on where the window begins and ends. So of
each value three parts are computed anew, the rows that padding reaches at the left, the new ones, and those
that it reaches at the right; the rest is kept as state. Answers are those of the whole window to the last
bit, padding included. Where a layer mixes all rows, it gets all of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.types import dtype
from thinflow.lower.c.flow import nesting
from thinflow.lower.c.sound import FEATURES, options_of
from thinflow.lower.c.windows import moves
from thinflow.tflite.model import Operator, Subgraph, Tensor

WINDOW = "StreamWindow"
"""The operator that puts a window together of what is new and what is kept; only C has it."""
_CONVOLUTIONS = frozenset(("CONV_2D", "DEPTHWISE_CONV_2D"))
_EACH = frozenset(
    (
        *("RELU", "RELU6", "RELU_N1_TO_1", "LOGISTIC", "TANH", "HARD_SWISH", "LEAKY_RELU", "ELU", "ABS"),
        *("NEG", "EXP", "SQRT", "RSQRT", "QUANTIZE", "DEQUANTIZE", "CAST"),
    )
)
_PAIRS = frozenset(["ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM", "DIV"])


@dataclass(frozen=True)
class _Rows:
    """A value over time, of which some rows are computed in a run.

    Attributes:
        fresh: those rows: `left` that padding reaches, `hop` new ones, `right` that padding reaches.
        whole: as the network has it.
        axis: of time; all before it are 1.
    """

    fresh: Tensor
    whole: Tensor
    axis: int
    left: int
    hop: int
    right: int

    @property
    def length(self) -> int:
        return _sizes(self.whole)[self.axis]

    @property
    def row_elements(self) -> int:
        return math.prod(_sizes(self.whole)[self.axis + 1 :])


class _TooFew(Exception):
    """The rows of a step are no multiple of a layer's steps; it says of what they have to be."""

    def __init__(self, factor: int) -> None:
        super().__init__(factor)
        self.factor = factor


def stream(block: Subgraph) -> int:
    """Make a network of a window over time one of the rows that are new; their number.

    Args:
        block: sizes known; changed.

    Raises:
        UnsupportedOp: it has not one input, or nothing in it can be kept.
    """
    if len(block.inputs) != 1:
        raise UnsupportedOp(
            f"the network has {len(block.inputs)} inputs, and one alone can be a window over time",
            hint="cut it with --inputs, or leave out --stream",
        )
    length = _sizes(block.inputs[0])[_time(block.inputs[0])]
    hop, mixing = 1, list[Operator]()
    while hop < length:
        found = _Streamer(block, hop)
        mixing = found.mixing
        try:
            found.run()
        except _TooFew as few:
            hop *= few.factor
            continue
        block.operators, block.inputs[:] = found.operators, [found.input]
        return hop
    why = "".join(f": {o.code} '{o.outputs[0].name}' reads all of its rows" for o in mixing[:1])
    raise UnsupportedOp(
        f"nothing of the network's window can be kept from run to run{why}",
        hint="leave out --stream" + (", or begin the network behind it with --inputs" if why else ""),
    )


class _Streamer:
    """One attempt, with so many new rows a run.

    Attributes:
        mixing: operators that read all rows.
    """

    def __init__(self, block: Subgraph, hop: int) -> None:
        self.block, self.hop = block, hop
        self.operators: list[Operator] = []
        self.rows: dict[Tensor, _Rows] = {}
        self.full: dict[Tensor, Tensor] = {}
        whole = block.inputs[0]
        self.input = _resized(whole, _time(whole), hop, "new")
        self.rows[whole] = _Rows(self.input, whole, _time(whole), 0, hop, 0)
        self.is_kept = False
        self.mixing: list[Operator] = []

    def run(self) -> None:
        depth = 0
        for number, operator in enumerate(self.block.operators):
            if nesting(operator) > 0 and not depth:
                self._before(number)
            depth += nesting(operator)
            streams = [t for t in operator.reads() if t in self.rows]
            # Rows move on once a run, and not with each round of a loop.
            goes_by_rows = streams and not depth and len(operator.outputs) == 1
            made = self._made(operator, streams) if goes_by_rows else None
            if made is not None:
                self.rows[operator.outputs[0]] = made
                continue
            self.mixing += [operator] * bool(streams)
            # It mixes what all rows hold: it gets all of them, as it would without a stream.
            inputs = [self._whole(t) if t is not None and t in self.rows else t for t in operator.inputs]
            self.operators.append(replace(operator, inputs=inputs))
        for tensor in self.block.outputs:
            if tensor in self.rows:
                self._whole(tensor, tensor)
        if not self.is_kept:
            # No number of rows will do: by as many as all there are the search ends.
            raise _TooFew(_sizes(self.block.inputs[0])[_time(self.block.inputs[0])])

    def _before(self, start: int) -> None:
        """Put together what a loop or branch reads of all rows, in front of it."""
        depth = 0
        for operator in self.block.operators[start:]:
            depth += nesting(operator)
            for tensor in operator.reads():
                if tensor in self.rows:
                    self._whole(tensor)
            if not depth:
                return

    def _made(self, operator: Operator, streams: list[Tensor]) -> _Rows | None:
        """The rows of an operator's output; None if it is none of those that go row by row."""
        x = self.rows[streams[0]]
        if operator.code in _EACH:
            return self._each(operator, [x])
        if operator.code in _PAIRS:
            return self._pair(operator, streams)
        if operator.code == "RESHAPE":
            return self._reshaped(operator, x)
        if operator.code in _CONVOLUTIONS and streams == [operator.inputs[0]]:
            return self._convolved(operator, x)
        if operator.custom_code == FEATURES and _sizes(x.whole)[1:] == (1,):
            settings = options_of(operator.options["first"])
            return self._moved(operator, x, int(settings["window_size"]), int(settings["stride"]), (0, 0))
        return None

    # --- kinds of operators -----------------------------------------------------------------------------

    def _each(self, operator: Operator, inputs: list[_Rows], **given: Tensor) -> _Rows:
        x, whole = inputs[0], operator.outputs[0]
        fresh = _resized(whole, x.axis, x.left + x.hop + x.right, "fresh")
        by_whole = {one.whole: one.fresh for one in inputs}
        read = [by_whole.get(t, t) if t is not None else None for t in operator.inputs]
        self.operators.append(replace(operator, inputs=read, outputs=[fresh]))
        return replace(x, fresh=fresh, whole=whole)

    def _pair(self, operator: Operator, streams: list[Tensor]) -> _Rows | None:
        found = [self.rows[t] for t in dict.fromkeys(streams)]
        x, y = found[0], operator.outputs[0]
        alike = all(one.axis == x.axis and _sizes(one.whole) == _sizes(y) for one in found)
        # What is added to every row alike; what differs from row to row would move with the window.
        others = [t for t in operator.reads() if t not in self.rows]
        is_same = all(len(_sizes(t)) <= len(_sizes(y)) and _rows_of(t, y, x.axis) == 1 for t in others)
        if not alike or not is_same:
            return None
        left, right = max(one.left for one in found), max(one.right for one in found)
        if left + right + x.hop >= x.length:
            return None
        return self._each(operator, [self._widened(one, left, right) for one in found])

    def _reshaped(self, operator: Operator, x: _Rows) -> _Rows | None:
        whole = operator.outputs[0]
        axis, length = _time(whole), _sizes(whole)[_time(whole)]
        group, rest = divmod(x.length, length)
        if rest or x.left or x.right or length == 1:
            return None
        if x.hop % group:
            raise _TooFew(group // math.gcd(x.hop, group))
        fresh = _resized(whole, axis, x.hop // group, "fresh")
        sizes = _constant(f"{fresh.name}/sizes", np.array(_sizes(fresh), np.int32))
        self.operators.append(replace(operator, inputs=[x.fresh, sizes], outputs=[fresh], options={}))
        return _Rows(fresh, whole, axis, 0, x.hop // group, 0)

    def _convolved(self, operator: Operator, x: _Rows) -> _Rows | None:
        """A convolution, its padding by hand: of a part of the rows it is another than "SAME" makes."""
        if x.axis not in (1, 2):
            return None
        weights = operator.inputs[1]
        assert weights is not None
        pads, windows = [], []
        steps, dilations, is_same = moves(operator)
        for axis, step, dilation in zip((1, 2), steps, dilations, strict=True):
            window = (_sizes(weights)[axis] - 1) * dilation + 1
            size, out = _sizes(x.whole)[axis], _sizes(operator.outputs[0])[axis]
            total = max((out - 1) * step + window - size, 0) if is_same else 0
            # Of an odd number the smaller part is in front, as "SAME" has it.
            pads.append((total // 2, total - total // 2))
            windows.append(window)
        time = x.axis - 1
        across = (2 if time == 0 else 1, pads[1 - time])
        return self._moved(operator, x, windows[time], steps[time], pads[time], across)

    def _moved(
        self,
        operator: Operator,
        x: _Rows,
        window: int,
        step: int,
        pads: tuple[int, int],
        across: tuple[int, tuple[int, int]] | None = None,
    ) -> _Rows | None:
        """An operator whose window moves over the rows: the parts of its output that are new.

        Args:
            window, step: rows of it, and from one to the next.
            pads: rows before and behind.
            across: another axis with padding, and its columns before and behind.
        """
        if x.hop % step:
            raise _TooFew(step // math.gcd(x.hop, step))
        whole = operator.outputs[0]
        axis = _time(whole) if across is None else x.axis
        length, hop = _sizes(whole)[axis], x.hop // step
        left = -(-(x.left + pads[0]) // step)
        right = max(length - 1 - (x.length - x.right - window + pads[0]) // step, 0)
        first = length - right - hop
        if first <= left:
            return None
        begin, end = first * step - pads[0], (length - 1) * step - pads[0] + window
        # Without padding at the left only the end of the window is read.
        source, start = self._window(x, begin if not left and not x.left and not x.right else 0)
        spans = [(max(begin, 0) - start, min(end, x.length) - start, 0, max(end - x.length, 0), hop + right)]
        if left:
            spans.insert(0, (0, (left - 1) * step - pads[0] + window, pads[0], 0, left))
        parts = [
            self._part(operator, source, x, axis, span, across, number) for number, span in enumerate(spans)
        ]
        fresh = parts[0] if len(parts) == 1 else self._joined(parts, whole, axis)
        self.is_kept = True
        return _Rows(fresh, whole, axis, left, hop, right)

    def _part(
        self,
        operator: Operator,
        source: Tensor,
        x: _Rows,
        axis: int,
        span: tuple[int, int, int, int, int],
        across: tuple[int, tuple[int, int]] | None,
        number: int,
    ) -> Tensor:
        """Some rows of an operator's output, from the rows of its input that they read."""
        begin, end, before, behind, rows = span
        read = self._sliced(source, x.axis, begin, end)
        pads = {x.axis: (before, behind), **(dict([across]) if across is not None else {})}
        if any(map(any, pads.values())):
            read = self._padded(read, pads)
        y = _resized(operator.outputs[0], axis, rows, f"part{number}")
        options: dict[str, Any] = dict(operator.options)
        if across is not None:
            options["padding"] = "VALID"
        self.operators.append(
            replace(operator, inputs=[read, *operator.inputs[1:]], outputs=[y], options=options)
        )
        return y

    # --- rows -------------------------------------------------------------------------------------------

    def _whole(self, tensor: Tensor, into: Tensor | None = None) -> Tensor:
        """All rows of a value."""
        if tensor not in self.full or into is not None:
            self.full[tensor] = self._window(self.rows[tensor], 0, into)[0]
        return self.full[tensor]

    def _window(self, x: _Rows, start: int, into: Tensor | None = None) -> tuple[Tensor, int]:
        """The rows of a value from one on, and which that is."""
        kept = x.length - start - x.left - x.right
        y = into or _resized(x.whole, x.axis, x.length - start, "window")
        bytes_of_row = x.row_elements * x.whole.dtype.numpy().itemsize
        options = {"left": x.left, "kept": kept, "hop": x.hop, "right": x.right, "row": bytes_of_row}
        self.operators.append(Operator("CUSTOM", [x.fresh], [y], options, custom_code=WINDOW))
        return y, start

    def _widened(self, x: _Rows, left: int, right: int) -> _Rows:
        """The same value with more rows at its ends."""
        if (left, right) == (x.left, x.right):
            return x
        source = self._whole(x.whole)
        parts = [self._sliced(source, x.axis, x.length - right - x.hop, x.length)]
        if left:
            parts.insert(0, self._sliced(source, x.axis, 0, left))
        fresh = parts[0] if len(parts) == 1 else self._joined(parts, x.whole, x.axis)
        return replace(x, fresh=fresh, left=left, right=right)

    def _sliced(self, x: Tensor, axis: int, begin: int, end: int) -> Tensor:
        if (begin, end) == (0, _sizes(x)[axis]):
            return x
        y = _resized(x, axis, end - begin, f"rows{len(self.operators)}")
        begins = np.zeros(len(_sizes(x)), np.int32)
        begins[axis] = begin
        inputs = [x, _constant(f"{y.name}/begin", begins), _constant(f"{y.name}/size", _int32(_sizes(y)))]
        self.operators.append(Operator("SLICE", [*inputs], [y]))
        return y

    def _padded(self, x: Tensor, pads: dict[int, tuple[int, int]]) -> Tensor:
        around = np.zeros((len(_sizes(x)), 2), np.int32)
        sizes = list(_sizes(x))
        for axis, (before, behind) in pads.items():
            around[axis] = before, behind
            sizes[axis] += before + behind
        y = replace_sizes(x, tuple(sizes), f"padded{len(self.operators)}")
        self.operators.append(Operator("PAD", [x, _constant(f"{y.name}/pads", around)], [y]))
        return y

    def _joined(self, parts: list[Tensor], whole: Tensor, axis: int) -> Tensor:
        y = _resized(whole, axis, sum(_sizes(p)[axis] for p in parts), "fresh")
        self.operators.append(Operator("CONCATENATION", [*parts], [y], {"axis": axis}))
        return y


def _time(tensor: Tensor) -> int:
    """The axis of time: the first that is longer than 1."""
    return next((n for n, size in enumerate(_sizes(tensor)) if size > 1), 0)


def _rows_of(tensor: Tensor, other: Tensor, axis: int) -> int:
    """The size of a tensor along another's axis, as they are broadcast."""
    sizes = (1,) * (len(_sizes(other)) - len(_sizes(tensor))) + _sizes(tensor)
    return sizes[axis]


def _sizes(tensor: Tensor) -> tuple[int, ...]:
    return tuple(n or 0 for n in tensor.shape or ())


def _resized(tensor: Tensor, axis: int, size: int, what: str) -> Tensor:
    sizes = _sizes(tensor)
    return replace_sizes(tensor, (*sizes[:axis], size, *sizes[axis + 1 :]), what)


def replace_sizes(tensor: Tensor, sizes: tuple[int, ...], what: str) -> Tensor:
    """A value like another, of other sizes."""
    return Tensor(f"{tensor.name}/{what}", sizes, tensor.dtype, None, tensor.quantization)


def _int32(numbers: tuple[int, ...]) -> Any:
    return np.array(numbers, np.int32)


def _constant(name: str, data: Any) -> Tensor:
    return Tensor(name, data.shape, dtype("int32"), data)
