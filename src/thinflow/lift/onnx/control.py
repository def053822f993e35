"""ONNX's branches and loops; the values that a body reads from outside are its arguments."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.attrs import Attr
from thinflow.ir.function import ARGUMENT, Function
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.types import BOOL, INT64, DType, TensorSpec
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.values import integers
from thinflow.lift.rules import lifts

# A Loop without a limit: the condition alone ends it.
_ENDLESS = (1 << 63) - 1


@lifts("onnx.If")
def _if(c: Call) -> list[Value]:
    branches = {"then_branch": c.function("then_branch"), "else_branch": c.function("else_branch")}
    # ONNX allows one element of any rank; TensorFlow would take a vector for true because it has elements.
    condition = c.emit("Reshape", c[0], integers(c, ()))
    values = [c[i] for i in range(1, len(c.xs))]
    results = [c.node.output(i) for i in range(max(len(c.node.outputs), 1))]
    outs = tuple(v.dtype for v in results if v.dtype is not None)
    node = c.many(
        "StatelessIf", condition, *values, **branches, Tin=_types(values), Tout=outs, Tcond=c[0].dtype
    )
    return [node.output(i) for i in range(len(results))]


def _types(values: Sequence[Value]) -> tuple[DType, ...]:
    types = tuple(v.dtype for v in values if v.dtype is not None)
    if len(types) < len(values):
        raise UnsupportedOp("the type of a value that its body reads is not known")
    return types


@lifts("onnx.Loop")
def _loop(c: Call) -> list[Value]:
    """Loop: a While that carries the iteration, the limit, the condition, the state, results and captures.

    What the body gives beyond the state is gathered iteration by iteration; it must have a known shape.
    """
    body = c.body("body")
    captured = int(c.get("captures", 0))
    # Operands: limit, condition, state; the reader of files has put the captured values behind.
    state = [c[i] for i in range(2, len(c.xs) - captured)]
    outside = [c[i] for i in range(len(c.xs) - captured, len(c.xs))]
    # Results of a body: condition, state, then what is gathered.
    scans = list(body.outputs)[1 + len(state) :]
    gathered = [_nothing(c, v) for v in scans]
    limit = c.emit("Reshape", c[0], integers(c, ())) if c.has(0) else integers(c, _ENDLESS)
    going = c.emit("Reshape", c[1], integers(c, ())) if c.has(1) else c.constant(np.array(True))
    carried = [integers(c, 0), limit, going, *state, *gathered, *outside]
    types = _types(carried)
    sizes = len(state), len(scans), captured
    body_function = _iteration(c, types, sizes)
    node = c.many(
        "StatelessWhile", *carried, cond=c.made(_condition(c, types)), body=c.made(body_function), T=types
    )
    return [_result(c, node.output(i), types[i]) for i in range(3, 3 + len(state) + len(scans))]


def _result(c: Call, value: Value, kind: DType) -> Value:
    """A result of the loop as a node of its own, which can take the name it has in the file."""
    # Inference does not look into the loop, and a gathered result's first size is open.
    value.spec = TensorSpec(kind)
    return c.emit("Identity", value)


def _nothing(c: Call, value: Value) -> Value:
    """No results yet: [0, ...] of a result's shape."""
    shape = value.spec.shape
    if shape is None or None in shape or value.dtype is None:
        raise UnsupportedOp("the shape of what it gathers iteration by iteration is not known")
    # A size that grows: how many iterations there will be, nobody knows before the end.
    return c.constant(np.zeros((0, *(n or 0 for n in shape)), value.dtype.numpy()))


class _Body:
    """A function that is written here, with its arguments."""

    def __init__(self, name: str, types: Sequence[DType]) -> None:
        self.graph, self.name, self.types = Graph(), name, tuple(types)
        self.arguments = [self._argument(f"x{i}", t) for i, t in enumerate(types)]

    def _argument(self, name: str, kind: DType) -> Value:
        value = self.graph.add(ARGUMENT, name=name, attrs={"T": kind}).output()
        value.spec = TensorSpec(kind)
        return value

    def add(self, op: str, *inputs: Value, **attrs: Attr) -> Node:
        return self.graph.add(op, inputs, self.graph.unique_name(op), attrs=attrs)

    def constant(self, content: np.ndarray) -> Value:
        return self.graph.constant(content, self.graph.unique_name("constant"))

    def scalar(self, value: Value, kind: DType) -> Value:
        return self.add("Reshape", value, self.constant(np.zeros(0, np.int32)), T=kind).output()

    def function(self, outputs: Sequence[Value], types: Sequence[DType]) -> Function:
        """The function with these results."""
        self.graph.inputs, self.graph.outputs = self.arguments, list(outputs)
        return Function(
            self.name, self.graph, self.arguments, list(outputs), input_types=self.types, output_types=types
        )


def _condition(c: Call, types: Sequence[DType]) -> Function:
    """iteration < limit and going."""
    function = _Body(f"{c.node.name}_goes_on", types)
    iteration, limit, going = function.arguments[:3]
    below = function.add("Less", iteration, limit, T=INT64).output()
    return function.function([function.add("LogicalAnd", below, going).output()], [BOOL])


def _iteration(c: Call, types: Sequence[DType], sizes: tuple[int, int, int]) -> Function:
    """One iteration: the body called, its results put behind those of the iterations before."""
    states, scans, captured = sizes
    function = _Body(f"{c.node.name}_iteration", types)
    iteration, limit, going = function.arguments[:3]
    state, gathered = function.arguments[3 : 3 + states], function.arguments[3 + states : 3 + states + scans]
    outside = function.arguments[len(types) - captured :]
    # In the order in which ONNX's bodies give and take them, without the limit.
    results = [BOOL, *types[3 : 3 + states + scans]]
    arguments = [iteration, going, *state, *outside]
    argument_types = tuple([INT64, BOOL, *types[3 : 3 + states], *types[len(types) - captured :]])
    called = function.add(
        "PartitionedCall", *arguments, f=c.function("body"), Tin=argument_types, Tout=tuple(results)
    )
    one = function.constant(np.array(1, np.int64))
    more = [
        _appended(function, old, called.output(1 + states + i), types[3 + states + i])
        for i, old in enumerate(gathered)
    ]
    after = [
        function.add("AddV2", iteration, one, T=INT64).output(),
        limit,
        # The body may give its condition as a vector of one element.
        function.scalar(called.output(0), BOOL),
        *(called.output(1 + i) for i in range(states)),
        *more,
        *outside,
    ]
    return function.function(after, types)


def _appended(function: _Body, old: Value, new: Value, kind: DType) -> Value:
    """old [n, ...] with new [...] behind it."""
    # A new axis in front, since results of iterations are stacked, not joined.
    axis = function.constant(np.array(0, np.int32))
    row = function.add("ExpandDims", new, axis, T=kind).output()
    return function.add("ConcatV2", old, row, axis, T=kind, N=2).output()
