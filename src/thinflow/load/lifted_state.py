"""State of lifted graphs: variables of .tflite files, and of recurrent layers of Keras that keep their state,
become constants, or inputs and outputs of the graph.

v = read(h);  y = f(x, v);  write(h, g(x, v))     ->     y = f(x, v);  v/next = g(x, v)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from thinflow.errors import UnsupportedOp
from thinflow.ir.attrs import Attr, ShapeAttr
from thinflow.ir.graph import Graph, Node, StateVariable, Value
from thinflow.ir.interface import declare_states
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import TensorSpec
from thinflow.load.frozen import AUTO, FREEZE, INPUTS, STATE, kept_note, tell_unkept
from thinflow.load.state import state_note

_VARIABLE, _READ, _WRITE = "LiteRTVariable", "ReadVariableOp", "AssignVariableOp"
_RESOURCE = "resource "
"""Begins the shared names of resource variables; those of tensors that keep their value have a scope."""
_NO_NAME = re.compile(r"[^A-Za-z0-9_./\-]")


@dataclass
class _Variable:
    """One variable: its handles, and what is done with it."""

    handles: list[Node] = field(default_factory=list)
    reads: list[Node] = field(default_factory=list)
    writes: list[Node] = field(default_factory=list)

    @property
    def start(self) -> Tensor:
        tensor = self.handles[0].inputs[0].node.tensor
        assert tensor is not None, "rules of lifting give every variable a constant"
        return tensor

    @property
    def is_kept(self) -> bool:
        """True if a run leaves something that the next one reads."""
        return bool(self.writes) and any(self.before(r) is None for r in self.reads)

    def before(self, read: Node) -> Node | None:
        """The write that a read comes after; None for one that gets what the run before left."""
        # Lifting orders reads and writes by control edges; of earlier writes only the last is named.
        return next((n for n in read.control_inputs if n in self.writes), None)

    def last(self) -> Value:
        """What a run leaves.

        Raises:
            UnsupportedOp: writes are in no order.
        """
        followed = {n for w in self.writes for n in w.control_inputs}
        last = [w for w in self.writes if w not in followed]
        if len(last) != 1:
            raise UnsupportedOp("its variable is written several times, in no order", self.handles[0].where)
        return last[0].inputs[1]

    def name(self) -> str:
        """What the file calls it."""
        shared = str(self.handles[0].get("shared_name", ""))
        wished = shared.removeprefix(_RESOURCE) if shared.startswith(_RESOURCE) else self.reads[0].name
        legal = _NO_NAME.sub("_", wished)
        return legal if legal[:1].isalnum() else f"state_{legal}"


def settle_state(graph: Graph, state: str) -> None:
    """Let variables of a lifted graph become what `state` of `thinflow.load` says.

    Args:
        graph: edited.
        state: one of `load.frozen.CHOICES`.

    Raises:
        UnsupportedOp: state cannot be kept, and that is asked for.
    """
    variables = _variables(graph)
    if not variables:
        return
    # Before inputs take them: those of Keras's variables are the names of their reads.
    names = {id(v): v.name() for v in variables}
    kept: list[_Variable] = []
    why = ""
    try:
        kept = [] if state == FREEZE else _kept(graph, variables)
        for variable in kept:
            variable.last()
    except UnsupportedOp as error:
        if state != AUTO:
            raise
        kept, why = [], error.problem
    ends = {id(v): _input(graph, v, names[id(v)]) for v in kept}
    for variable in variables:
        _replace_reads(graph, variable, ends.get(id(variable)))
    # Only now: what is left may be a value that was read.
    _declare(graph, [(v.start, ends[id(v)], v.last()) for v in kept])
    frozen = [names[id(v)] for v in variables if v.is_kept and v not in kept]
    _tell(graph, frozen, [names[id(v)] for v in kept], state)
    if why:
        tell_unkept(graph, why)
    _take_out(graph, [n for v in variables for n in (*v.writes, *v.reads, *v.handles)])
    if state == INPUTS:
        graph.states = ()


def _variables(graph: Graph) -> list[_Variable]:
    found: dict[object, _Variable] = {}
    for node in graph:
        if node.op == _VARIABLE:
            found.setdefault(node.attrs.get("shared_name"), _Variable()).handles.append(node)
    for variable in found.values():
        readers = dict.fromkeys(r for handle in variable.handles for r in handle.readers)
        variable.reads = [r for r in readers if r.op == _READ]
        variable.writes = [r for r in readers if r.op == _WRITE]
    return list(found.values())


def _kept(graph: Graph, variables: Sequence[_Variable]) -> list[_Variable]:
    inner = next((f.name for f in graph.functions.values() if any(n.op == _VARIABLE for n in f.graph)), None)
    if inner is not None:
        raise UnsupportedOp(f"the subgraph '{inner}' has a variable of its own, whose state cannot be kept")
    return [v for v in variables if v.is_kept]


def _input(graph: Graph, variable: _Variable, name: str) -> Value:
    """The input that stands for what a variable holds before the run."""
    if name in graph:
        graph.rename(graph.node(name), graph.unique_name(f"{name}/read"))
    start = variable.start
    attrs: dict[str, Attr] = {"dtype": start.dtype, "shape": ShapeAttr(start.shape)}
    place = graph.add("Placeholder", [], name, attrs=attrs, before=variable.handles[0]).output()
    place.spec = TensorSpec(start.dtype, start.shape)
    return place


def _replace_reads(graph: Graph, variable: _Variable, end: Value | None) -> None:
    """Let readers get the value itself: what was written before, else the input, else the first value."""
    for read in variable.reads:
        write = variable.before(read)
        value = write.inputs[1] if write is not None else end or variable.handles[0].inputs[0]
        own = read.output()
        own.replace_uses(value)
        graph.outputs = [value if v == own else v for v in graph.outputs]
        graph.aliases = {k: value.name if n == own.name else n for k, n in graph.aliases.items()}


def _declare(graph: Graph, states: Iterable[tuple[Tensor, Value, Value]]) -> None:
    declared = []
    for start, end, value in states:
        name = f"{end.node.name}/next"
        if name in graph:
            graph.rename(graph.node(name), graph.unique_name(f"{name}/value"))
        output = graph.add("Identity", [value], name, attrs={"T": start.dtype}).output()
        output.spec = end.spec
        declared.append(StateVariable(end.node.name, end.name, output.name, start))
    graph.states = tuple(declared)
    declare_states(graph)


def _tell(graph: Graph, frozen: Sequence[str], kept: Sequence[str], state: str) -> None:
    """Note on state for who opens the model."""
    if kept and state != INPUTS:
        graph.facts[STATE] = kept_note(kept)
    elif frozen:
        graph.facts[STATE] = state_note(frozen)


def _take_out(graph: Graph, going: Sequence[Node]) -> None:
    gone = set(going)
    for node in graph:
        if node not in gone and not gone.isdisjoint(node.control_inputs):
            node.set_control_inputs([n for n in node.control_inputs if n not in gone])
    # Writes first: they read the handles.
    for node in going:
        node.set_control_inputs([])
    graph.remove(*going)
