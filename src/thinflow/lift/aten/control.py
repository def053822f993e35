"""PyTorch's control flow, whose bodies are graphs beside the nodes that call them; buffers that change."""

from __future__ import annotations

from collections.abc import Sequence

from thinflow.decompose.loops import while_loop
from thinflow.decompose.terms import Term
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import BOOL
from thinflow.lift.aten.arguments import Arguments, aten
from thinflow.lift.inline import inlined
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.control import MOST_TURNS, Iteration, either, relaxed, settled
from thinflow.lift.onnx.scan import gone_along
from thinflow.lift.onnx.values import text
from thinflow.lift.rules import lifts


def _iteration(a: Arguments, name: str, captured: Sequence[Value]) -> Iteration:
    a.ignore(name)
    return Iteration(a.call, a.call.body(name), captured)


@aten("higher_order.cond")
def _cond(a: Arguments) -> list[Value]:
    a.ignore("1", "2")
    branches = {"true": a.call.body("1"), "false": a.call.body("2")}
    choice = a.tensor("0") if a.is_tensor("0") else a.body.constant(a.flag("0"), BOOL).value
    return either(a.call, choice, branches, a.tensors("3"))


@aten("higher_order.while_loop")
def _while_loop(a: Arguments) -> list[Value]:
    """While one graph says so, the other makes new values; both also see some that stay."""
    states, captured = [a.body.term(v) for v in a.tensors("2")], a.tensors("3")
    asks, makes = (_iteration(a, name, captured) for name in ("0", "1"))
    outer = [a.body.term(v) for v in makes.variable]
    specs, _ = settled([s.value.spec for s in states], makes.specs)

    def results(iteration: Iteration, operands: Sequence[Term]) -> list[Term]:
        body, count = operands[0].body, len(states)
        own, variable = ([t.value for t in part] for part in (operands[:count], operands[count:]))
        return [Term(body, v) for v in iteration.results(body.graph, own, variable)]

    starts = [relaxed(s, spec) for s, spec in zip(states, specs, strict=True)]
    last, _, _ = while_loop(
        MOST_TURNS,
        lambda _, *now: (results(makes, now), ()),
        starts,
        outer,
        goes_on=lambda *now: results(asks, now)[0].reshape(()),
    )
    return [t.value for t in last]


@aten("higher_order.map_impl")
def _map(a: Arguments) -> list[Value]:
    """The results for each slice of some tensors, side by side."""
    return _along(a, [], a.tensors("1"), a.tensors("2"))


@aten("higher_order.scan")
def _scan(a: Arguments) -> list[Value]:
    """States, and what goes along them: the last states, and the results for each slice."""
    return _along(a, a.tensors("1"), a.tensors("2"), a.tensors("3"))


def _along(a: Arguments, states: list[Value], rows: list[Value], captured: list[Value]) -> list[Value]:
    if not rows:
        raise UnsupportedOp("it goes along no tensor")
    iteration = _iteration(a, "0", captured)
    own, along = ([a.body.term(v) for v in values] for values in (states, rows))
    none = [0] * len(rows)
    end, stacks = gone_along(a.call, iteration, own, along, none, none)
    return [t.value for t in (*end, *stacks)]


# --- graphs that run once, in some mode ---------------------------------------------------------------------


@aten("higher_order.wrap_with_set_grad_enabled")
def _without_gradients(a: Arguments) -> list[Value]:
    a.ignore("0")
    return _once(a, 1)


@aten("higher_order.wrap_with_autocast")
def _with_types(a: Arguments) -> list[Value]:
    """A graph in which layers would compute in another type, where that is switched on."""
    if a.flag("2"):
        raise UnsupportedOp(f"its layers compute in another type by themselves (autocast on {a.text('0')})")
    a.ignore("0", "1", "3")
    return _once(a, 4)


@aten("higher_order.invoke_subgraph")
def _invoked(a: Arguments) -> list[Value]:
    a.ignore("1")
    return _once(a, 0, 2)


def _once(a: Arguments, graph: int, first: int | None = None) -> list[Value]:
    """The results of a graph that is called with the arguments behind it."""
    a.ignore(str(graph))
    place = graph + 1 if first is None else first
    operands: list[Value] = []
    while a.has(str(place)):
        name = str(place)
        operands += [a.tensor(name)] if a.is_tensor(name) else a.tensors(name)
        place += 1
    return inlined(a.call, a.call.body(str(graph)), operands)


# --- buffers that each run changes, as variables ------------------------------------------------------------


@lifts("aten.buffer")
def _buffer(c: Call) -> Value:
    """What a buffer holds when a run begins."""
    first = c[0]
    if first.node.tensor is None:
        raise UnsupportedOp("the first value of its buffer is computed")
    name = f"resource {text(c, 'name', '')}"
    handle = c.emit("LiteRTVariable", first, dtype=first.dtype, shared_name=name)
    return c.variable_read(handle)


@lifts("aten.buffer_write")
def _buffer_write(c: Call) -> list[Value]:
    """What a buffer holds when the next run begins. No results."""
    c.variable_written(c[0].node.inputs[0], c[1])
    return []
