"""Graphs that were read from quantized files: the grids of their values, and what they take and give.

A FakeQuant with a mark says the grid of a value, see `lift/grids.py`. The ends of the graph stay the codes
that the file has, so that it runs in the place of the file; behind codes and before them there is arithmetic.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

import numpy as np

from thinflow.analysis.shapes import infer_shapes
from thinflow.errors import ThinflowError
from thinflow.interpreter import Plan
from thinflow.ir.attrs import Attr, ShapeAttr
from thinflow.ir.graph import Graph, Node, Value, graph_of
from thinflow.ir.metadata import StateVariable
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import FLOAT
from thinflow.lift.grids import MARK, Grid, grid_of
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.rule import Trace, Transform, transform
from thinflow.typing import Array

_MOST_STEPS = 16
"""Between codes and real numbers lifting writes six ops, and transforms may split one."""


@dataclass(frozen=True)
class FloatEnds:
    """The types of what a graph took and gave before these were made real numbers.

    Attributes:
        inputs, outputs: name -> type of its codes; float32 ones and such as cannot be changed are left out.
    """

    inputs: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)


def kept_grids(graph: Graph) -> dict[Node, Grid]:
    """The FakeQuants of a graph that say grids of a file, and these grids."""
    found = {node: grid_of(node) for node in graph if MARK in node.attrs_view}
    return {node: grid for node, grid in found.items() if grid is not None}


def make_ends_float(graph: Graph, bits: Collection[int] = (4, 8, 16)) -> FloatEnds:
    """Let a graph take and give real numbers where it takes or gives codes of a grid; in place.

    Nodes at the ends keep their names. O(graph).

    Args:
        graph: edited.
        bits: only codes of so many.
    """
    infer_shapes(graph, {v: v.spec for v in graph.inputs if v.dtype is not None})
    ends = FloatEnds()
    graph.states = tuple(_float_state(graph, state, bits) for state in graph.states)
    kept = {name for state in graph.states for name in (state.input, state.output)}
    for value in graph.inputs:
        if value.name in kept:
            continue
        if (found := _behind_input(value)) is not None and found[1].bits in bits:
            ends.inputs[value.name] = found[1].kind.name
            _replace_input(graph, value, found[0])
    for value in dict.fromkeys(graph.outputs):
        if value.name in kept:
            continue
        if (before := _before_output(value)) is not None and before[1].bits in bits:
            ends.outputs[value.name] = before[1].kind.name
            _replace_output(graph, value, before[0])
    return ends


def _float_state(graph: Graph, state: StateVariable, bits: Collection[int]) -> StateVariable:
    """A state of real numbers where it was one of codes: what a run leaves is what the next begins with."""
    begin, end = graph.value(state.input), graph.value(state.output)
    behind, before = _behind_input(begin), _before_output(end)
    if behind is None or before is None:
        return state
    (reader, grid), (maker, other) = behind, before
    if grid.bits not in bits or grid != other:
        return state
    codes = state.start.numpy().astype(np.float64)
    start = Tensor.from_array(np.asarray((codes - grid.zero_point) * grid.scale, np.float32))
    _replace_input(graph, begin, reader)
    _replace_output(graph, end, maker)
    return replace(state, start=start)


def _behind_input(value: Value) -> tuple[Node, Grid] | None:
    """The FakeQuant that alone reads the real numbers of an input's codes, and its grid."""
    place: Value = value
    for _ in range(_MOST_STEPS):
        if len(place.readers) != 1 or place.is_graph_output:
            return None
        (reader,) = place.readers
        grid = grid_of(reader)
        if grid is not None:
            # The grid's type is what the codes are.
            numbers = grid.kind is value.dtype and _map(reader, value, place, _all_codes(grid))
            agrees = isinstance(numbers, np.ndarray) and np.allclose(numbers, _real(grid), rtol=1e-5, atol=0)
            return (reader, grid) if agrees else None
        if not is_map(reader, place):
            return None
        place = reader.output()
    return None


def _before_output(value: Value) -> tuple[Node, Grid] | None:
    """The FakeQuant of the real numbers that an output gives as codes, and its grid."""
    place: Value = value
    for _ in range(_MOST_STEPS):
        # Codes are made of the same numbers as a FakeQuant, or of what it gives.
        for node in (place.node, *place.readers):
            grid = grid_of(node)
            if grid is None or grid.kind is not value.dtype:
                continue
            made = _map(node, place, value, _real(grid))
            if isinstance(made, np.ndarray) and (made == _all_codes(grid)).all():
                return node, grid
        sources = [v for v in place.node.inputs if v.node.tensor is None]
        if len(sources) != 1 or not is_map(place.node, sources[0]):
            return None
        place = sources[0]
    return None


def is_map(node: Node, x: Value) -> bool:
    """True if an op makes of each number another one or the same, by constants of one element."""
    others = [v for v in node.inputs if v is not x]
    return (
        has(node.op, Trait.ELEMENTWISE | Trait.IDENTITY)
        and not node.control_inputs
        and len(node.outputs) == 1
        and node.inputs.count(x) == 1
        and all(v.node.tensor is not None and v.node.tensor.size == 1 for v in others)
    )


def _all_codes(grid: Grid) -> Array:
    low, high = grid.limits
    return np.arange(low, high + 1).astype(grid.kind.numpy())


def _real(grid: Grid) -> Array:
    low, high = grid.limits
    return np.asarray((np.arange(low, high + 1) - grid.zero_point) * np.float64(grid.scale), np.float32)


def _map(node: Node, x: Value, y: Value, numbers: Array) -> Array | None:
    """What a chain of maps makes of numbers; None if it cannot be run."""
    graph = graph_of(node)
    if graph is None:
        return None
    try:
        (made,) = Plan(graph, [y], [x]).run({x: numbers})
    except ThinflowError:
        return None
    return made if made.shape == numbers.shape else None


def _replace_input(graph: Graph, value: Value, fake: Node) -> None:
    """Let an input be the real numbers that a FakeQuant reads."""
    old, spec = value.node, value.spec
    name, chain = old.name, _chain(fake.inputs[0], {value})
    attrs: dict[str, Attr] = {"dtype": FLOAT, "shape": ShapeAttr(spec.shape)}
    new = graph.add("Placeholder", [], graph.unique_name(f"{name}/real"), attrs=attrs, before=old).output()
    new.spec = type(spec)(FLOAT, spec.shape)
    fake.set_input(0, new)
    graph.inputs = [new if v is value else v for v in graph.inputs]
    _remove(graph, [*chain, old])
    graph.rename(new.node, name)


def _replace_output(graph: Graph, value: Value, fake: Node) -> None:
    """Let an output be the real numbers of a FakeQuant."""
    name, chain = value.node.name, _chain(value, {fake.output(), fake.inputs[0]})
    end = fake.output()
    if end in graph.outputs:
        # The real numbers are an output by their own name already.
        end = graph.add("Identity", [end], graph.unique_name(f"{name}/real"), attrs={"T": FLOAT}).output()
        end.spec = fake.output().spec
    graph.outputs = [end if v is value else v for v in graph.outputs]
    # What others read of the codes stays for them.
    if any(r not in chain for n in chain for v in n.outputs for r in v.readers):
        return
    _remove(graph, chain)
    graph.rename(end.node, name)


def _remove(graph: Graph, chain: list[Node]) -> None:
    """Take out nodes, and the constants that they alone read."""
    constants = dict.fromkeys(v.node for n in chain for v in n.inputs if v.node.tensor is not None)
    graph.remove(*chain)
    graph.remove(*(n for n in constants if not n.is_used and not n.control_outputs))


def _chain(last: Value, first: set[Value]) -> list[Node]:
    """The nodes from one value back to one of others, whose nodes are not among them."""
    chain: list[Node] = []
    while last not in first:
        chain.append(last.node)
        last = next(v for v in last.node.inputs if v.node.tensor is None)
    return chain


@transform("drop_quantization")
@dataclass(frozen=True)
class DropQuantization(Transform):
    """Let a model that was read from a quantized file compute in real numbers: no value is rounded any more.

    y = FakeQuant(conv(x))  ->  y = conv(x)      inputs and outputs become float32

    Weights stay what the file has of them. Simulated quantization of training stays, too.
    """

    exact = False  # it takes away what rounding did, as asked for

    def apply(self, graph: Graph, trace: Trace) -> None:
        ends = make_ends_float(graph)
        for fake in kept_grids(graph):
            trace.changed(fake, "its numbers are rounded no more")
            fake.op = "Identity"
            fake.attrs.clear()
            fake.attrs["T"] = FLOAT
        for name in (*ends.inputs, *ends.outputs):
            trace.changed(graph.node(name.partition(":")[0]), "it is float32 now")
