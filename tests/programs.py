"""Random programs with loops and branches, as graphs of TF1 (Switch, Merge) and of TF2 (functions)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from tests.loops import while_loop
from thinflow.ir.attrs import FunctionAttr, ShapeAttr
from thinflow.ir.function import ARGUMENT, Function
from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import BOOL, FLOAT, INT32

SIZE = 3
UNARY = ("Neg", "Tanh", "Relu", "Identity")


@dataclass(frozen=True)
class Block:
    """Statements, each of which appends values to those there are; then some of all of them are chosen.

    Attributes:
        steps: `Apply`, `Sum`, `Number`, `Choice` and `Turns`.
        results: places among all values.
    """

    steps: tuple[object, ...]
    results: tuple[int, ...]


@dataclass(frozen=True)
class Apply:
    op: str
    x: int


@dataclass(frozen=True)
class Sum:
    x: int
    y: int


@dataclass(frozen=True)
class Number:
    value: float


@dataclass(frozen=True)
class Choice:
    """One of two blocks, by whether the sum of a value is below zero."""

    x: int
    then: Block
    otherwise: Block


@dataclass(frozen=True)
class Turns:
    """A block that is run some times on variables, which stand behind all values there are."""

    count: int
    starts: tuple[int, ...]
    body: Block


@st.composite
def blocks(draw: st.DrawFn, known: int = 1, results: int = 1, depth: int = 3) -> Block:
    """A block that may read `known` values and gives `results`."""
    steps: list[object] = []

    def pick() -> int:
        return draw(st.integers(0, known - 1))

    for _ in range(draw(st.integers(1, 4 if depth == 3 else 2))):
        kind = draw(st.sampled_from(("apply", "sum", "number", *(("choice", "turns") * bool(depth)))))
        made = 1
        if kind == "apply":
            steps.append(Apply(draw(st.sampled_from(UNARY)), pick()))
        elif kind == "sum":
            steps.append(Sum(pick(), pick()))
        elif kind == "number":
            steps.append(Number(draw(st.sampled_from((-1.5, 0.25, 2.0)))))
        elif kind == "choice":
            made = draw(st.integers(1, 2))
            sides = [draw(blocks(known, made, depth - 1)) for _ in range(2)]
            steps.append(Choice(pick(), *sides))
        else:
            made = draw(st.integers(1, 2))
            starts = tuple(pick() for _ in range(made))
            steps.append(Turns(draw(st.integers(0, 3)), starts, draw(blocks(known + made, made, depth - 1))))
        known += made
    return Block(tuple(steps), tuple(pick() for _ in range(results)))


class _Scope:
    """Where statements are written to: reads values of outer scopes through whatever leads into it.

    Args:
        graph: to write to.
        around: the outer scope.
        lead_in: brings a value of the outer scope into this one.
        pivot: runs whenever the scope does; what reads nothing waits for it.
    """

    def __init__(
        self,
        graph: Graph,
        around: _Scope | None = None,
        lead_in: Callable[[Value], Value] = lambda v: v,
        pivot: Value | None = None,
    ) -> None:
        self.graph, self.around, self._lead_in, self.pivot = graph, around, lead_in, pivot
        self.own: set[Value] = set()
        self._known: dict[Value, Value] = {}

    def read(self, value: Value) -> Value:
        if self.around is None or value in self.own:
            return value
        if value not in self._known:
            self._known[value] = self._lead_in(self.around.read(value))
        return self._known[value]

    def add(self, op: str, *inputs: Value, **attrs: object) -> Value:
        made = self.graph.add(op, [self.read(v) for v in inputs], attrs=attrs).output()  # type: ignore[arg-type]
        self.own.add(made)
        return made

    def number(self, content: np.ndarray) -> Value:
        made = self.graph.constant(content)
        if self.pivot is not None:
            made.node.add_control_input(self.pivot.node)
        self.own.add(made)
        return made

    def simple(self, step: object, values: Sequence[Value]) -> Value:
        if isinstance(step, Apply):
            return self.add(step.op, values[step.x], T=FLOAT)
        if isinstance(step, Sum):
            return self.add("AddV2", values[step.x], values[step.y], T=FLOAT)
        assert isinstance(step, Number)
        return self.number(np.full(SIZE, step.value, np.float32))

    def below_zero(self, value: Value) -> Value:
        total = self.add(
            "Sum", value, self.number(np.array([0], np.int32)), T=FLOAT, Tidx=INT32, keep_dims=False
        )
        return self.add("Less", total, self.number(np.array(0, np.float32)), T=FLOAT)


def old_form(block: Block) -> Graph:
    """The block as a graph of TF1."""
    return _whole(block, _old)


def new_form(block: Block) -> Graph:
    """The block as a graph of TF2."""
    return _whole(block, _new)


_Writer = Callable[[Block, _Scope, Sequence[Value]], list[Value]]


def _whole(block: Block, write: _Writer) -> Graph:
    graph = Graph()
    graph.functions = {}
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((SIZE,))}).output()
    scope = _Scope(graph)
    results = write(block, scope, [x])
    graph.inputs = [x]
    graph.outputs = list(dict.fromkeys(scope.add("Identity", v, T=FLOAT) for v in results))
    return graph


def _old(block: Block, scope: _Scope, given: Sequence[Value]) -> list[Value]:
    values = list(given)
    for step in block.steps:
        if isinstance(step, Choice):
            values += _old_choice(step, scope, values)
        elif isinstance(step, Turns):
            values += _old_turns(step, scope, values)
        else:
            values.append(scope.simple(step, values))
    return [values[i] for i in block.results]


def _old_choice(step: Choice, scope: _Scope, values: Sequence[Value]) -> list[Value]:
    graph, predicate = scope.graph, scope.below_zero(values[step.x])
    pivot = graph.add("Switch", [predicate, predicate], attrs={"T": BOOL})
    sides: list[list[Value]] = []
    for side, block in enumerate((step.otherwise, step.then)):
        here = graph.add("Identity", [pivot.output(side)], attrs={"T": BOOL}).output()

        def lead_in(value: Value, side: int = side) -> Value:
            return graph.add("Switch", [value, predicate], attrs={"T": FLOAT}).output(side)

        inner = _Scope(graph, scope, lead_in, here)
        sides.append([inner.read(v) for v in _old(block, inner, values)])
    attrs = {"T": FLOAT, "N": 2}
    merged = [graph.add("Merge", both, attrs=attrs).output() for both in zip(*sides, strict=True)]
    scope.own.update(merged)
    return merged


def _old_turns(step: Turns, scope: _Scope, values: Sequence[Value]) -> list[Value]:
    graph = scope.graph
    name = graph.unique_name("loop")
    graph.add("NoOp", name=name)  # the name is taken from now on

    def lead_in(value: Value) -> Value:
        attrs = {"T": value.spec.dtype or FLOAT, "frame_name": name, "is_constant": True}
        return graph.add("Enter", [value], attrs=attrs).output()

    inner = _Scope(graph, scope, lead_in)

    def condition(merged: list[Value]) -> Value:
        limit = graph.constant(np.array(step.count, np.int32))
        limit.node.add_control_input(merged[0].node)
        return graph.add("Less", [merged[0], limit], attrs={"T": INT32}).output()

    def body(variables: list[Value]) -> list[Value]:
        inner.pivot = variables[0]
        inner.own.update(variables)
        one = inner.number(np.array(1, np.int32))
        following = inner.add("AddV2", variables[0], one, T=INT32)
        results = _old(step.body, inner, [*values, *variables[1:]])
        return [following, *(inner.read(v) for v in results)]

    initial = [scope.number(np.array(0, np.int32)), *(scope.read(values[i]) for i in step.starts)]
    last = while_loop(graph, name, initial, condition, body)[1:]
    scope.own.update(last)
    return last


def _new(block: Block, scope: _Scope, given: Sequence[Value]) -> list[Value]:
    values = list(given)
    for step in block.steps:
        if isinstance(step, Choice):
            names = [
                _function(scope.graph, b, len(values), turning=False) for b in (step.then, step.otherwise)
            ]
            attrs = {
                "Tcond": BOOL,
                "Tin": (FLOAT,) * len(values),
                "Tout": (FLOAT,) * len(step.then.results),
                "then_branch": FunctionAttr(names[0]),
                "else_branch": FunctionAttr(names[1]),
            }
            call = scope.graph.add("StatelessIf", [scope.below_zero(values[step.x]), *values], attrs=attrs)
            values += [call.output(i) for i in range(len(step.then.results))]
        elif isinstance(step, Turns):
            values += _new_turns(step, scope, values)
        else:
            values.append(scope.simple(step, values))
    return [values[i] for i in block.results]


def _new_turns(step: Turns, scope: _Scope, values: Sequence[Value]) -> list[Value]:
    variables = [values[i] for i in step.starts]
    counts = [scope.number(np.array(n, np.int32)) for n in (0, step.count)]
    types = (INT32, INT32) + (FLOAT,) * (len(values) + len(variables))
    attrs = {
        "T": types,
        "cond": FunctionAttr(_condition(scope.graph, len(types))),
        "body": FunctionAttr(_function(scope.graph, step.body, len(values) + len(variables), turning=True)),
    }
    call = scope.graph.add("StatelessWhile", [*counts, *values, *variables], attrs=attrs)
    return [call.output(2 + len(values) + i) for i in range(len(variables))]


def _arguments(graph: Graph, library: dict[str, Function], count: int, *, turning: bool) -> list[Value]:
    graph.functions = library
    types = [INT32, INT32] * turning + [FLOAT] * count
    return [graph.add(ARGUMENT, name=f"a{i}", attrs={"T": t}).output() for i, t in enumerate(types)]


def _condition(outer: Graph, count: int) -> str:
    graph = Graph()
    arguments = _arguments(graph, outer.functions, count - 2, turning=True)  # type: ignore[arg-type]
    less = graph.add("Less", arguments[:2], attrs={"T": INT32}).output()
    return _added(outer, graph, arguments, [less])


def _function(outer: Graph, block: Block, count: int, *, turning: bool) -> str:
    graph = Graph()
    arguments = _arguments(graph, outer.functions, count, turning=turning)  # type: ignore[arg-type]
    scope = _Scope(graph)
    results = _new(block, scope, arguments[2 * turning :])
    if turning:
        one = scope.add("AddV2", arguments[0], scope.number(np.array(1, np.int32)), T=INT32)
        kept = arguments[2 : len(arguments) - len(results)]
        results = [one, arguments[1], *kept, *results]
    return _added(outer, graph, arguments, results)


def _added(outer: Graph, graph: Graph, arguments: list[Value], results: list[Value]) -> str:
    library = outer.functions
    assert isinstance(library, dict)
    name = f"function{len(library)}"
    types = [INT32 if v.node.op == ARGUMENT and v.node.attrs["T"] is INT32 else FLOAT for v in results]
    if len(results) == 1 and results[0].node.op == "Less":
        types = [BOOL]
    if results and results[0].node.op == "AddV2" and results[0].node.attrs["T"] is INT32:
        types[0] = INT32
    inputs = [v.node.attrs["T"] for v in arguments]
    library[name] = Function(name, graph, arguments, results, (), inputs, types)  # type: ignore[arg-type]
    return name
