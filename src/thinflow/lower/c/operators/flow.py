"""Loops, branches and variables; see `lower.c.flow`."""

from __future__ import annotations

from thinflow.errors import UnsupportedOp
from thinflow.lower.c import flow
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import form
from thinflow.lower.c.layer import State, Verbatim
from thinflow.lower.c.operators.array import ANY
from thinflow.lower.c.settle import C_TYPES
from thinflow.tflite.model import Operator, Tensor


def _copy(b: LayerBuilder, x: Tensor, y: Tensor) -> None:
    if x is not y:
        b.call("copy", y, x, Verbatim(str(y.size_bytes)))


@form(flow.LOOP, types=ANY)
def loop(b: LayerBuilder, op: Operator) -> None:
    """The first values of what changes, and the opening brace."""
    for x, y in zip(op.reads(), op.outputs, strict=True):
        _copy(b, x, y)
    # The bound is the largest number there is: every loop ends.
    b.layer.brace = "for (int32_t turn = 0; turn < INT32_MAX; turn++) {{"


@form(flow.LOOP_TEST, types=ANY)
def loop_test(b: LayerBuilder, op: Operator) -> None:
    """Leave the loop if its condition is false."""
    b.layer.brace, b.layer.verdict = (
        "if (!*(const bool *){0}) {{\n        break;\n    }}",
        b.input(0),
    )


@form(flow.LOOP_NEXT, types=ANY)
def loop_next(b: LayerBuilder, op: Operator) -> None:
    """The next values of what changes, and the closing brace."""
    count = b.option("count")
    for number in range(count):
        _copy(b, b.input(number), b.input(count + number))
    b.layer.brace = "}}"


@form(flow.BRANCH, types="bool")
def branch(b: LayerBuilder, op: Operator) -> None:
    """One side or the other."""
    b.layer.brace, b.layer.verdict = "if (*(const bool *){0}) {{", b.input(0)


@form(flow.BRANCH_ELSE, flow.BRANCH_END, types="")
def branch_side(b: LayerBuilder, op: Operator) -> None:
    """The end of a side."""
    b.layer.brace = "}} else {{" if op.code == flow.BRANCH_ELSE else "}}"


@form(flow.COPY, types=ANY)
def copy(b: LayerBuilder, op: Operator) -> None:
    """A value as it is, into memory that is there."""
    _copy(b, b.input(0), b.output() if op.outputs else b.input(1))


def _variable(op: Operator, value: Tensor) -> State:
    state: State = op.options["state"]
    count = (value.size_bytes or 0) // value.dtype.itemsize
    if state.count and state.count != count:
        raise UnsupportedOp(f"the sizes of the variable '{state.name}' change while it runs")
    if state.values is not None and len(state.values) != count:
        raise UnsupportedOp(f"the variable '{state.name}' begins with other sizes than it has later")
    state.type, state.count = C_TYPES[value.dtype.name], count
    return state


@form("READ_VARIABLE", types=ANY)
def read_variable(b: LayerBuilder, op: Operator) -> None:
    """What a variable holds now."""
    y = b.output()
    b.call("copy", y, _variable(op, y), Verbatim(str(y.size_bytes)))


@form("ASSIGN_VARIABLE", types=ANY)
def assign_variable(b: LayerBuilder, op: Operator) -> None:
    """What it holds from now on."""
    x = b.input(0)
    b.call("copy", _variable(op, x), x, Verbatim(str(x.size_bytes)))
