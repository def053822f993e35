"""Options of freezing and its result, and the state that is kept.

A variable that runs change becomes an input, and what a run leaves in it an output:

    v.assign(f(v, x));  y = g(v)     ->     v/next = f(v, x);  y = g(v/next)     with v, v/next as a state
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from thinflow.errors import GraphError, ParameterError, ThinflowError, UnsupportedOp
from thinflow.ir.attrs import Attr, ShapeAttr
from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.interface import declare_states
from thinflow.ir.metadata import StateVariable
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import DType, TensorSpec
from thinflow.load.checkpoint_keys import Key
from thinflow.load.read_ops import ORIGIN
from thinflow.ops.traits import Trait, has

Beside = TypeVar("Beside")
Made = TypeVar("Made")


class Kept:
    """The states of a graph on its way to being frozen.

    Attributes:
        left: variable -> the node of what a run leaves in it.
    """

    def __init__(self) -> None:
        self.left: dict[str, Node] = {}
        self._ends: list[tuple[str, Node, Node, Tensor]] = []

    def replaced(self, graph: Graph, starts: Mapping[str, Tensor]) -> None:
        """Take note that inputs stand for the variables by now."""
        for name, node in self.left.items():
            if name in starts:
                node.output().spec = TensorSpec(starts[name].dtype, starts[name].shape)
                self._ends.append((name, graph.node(name), node, starts[name]))

    def declare(self, graph: Graph, *, ends: bool = True) -> None:
        """Tell the graph of them, by the names that they have now.

        Args:
            graph: the frozen one.
            ends: whether the other inputs are known, so that those of the states can follow.
        """
        graph.states = tuple(
            StateVariable(name, fed.output().name, left.output().name, start)
            for name, fed, left, start in self._ends
        )
        if ends:
            declare_states(graph)


@brief_repr
@dataclass(frozen=True)
class Options:
    """Options of freezing.

    Attributes:
        only: names of the variables to freeze, with wildcards; empty: all.
        exclude: names of those not to freeze, with wildcards.
        averages: take the moving average of a variable where one was saved.
        renames: beginning of a variable's name in the graph -> in the checkpoint.
        allow_missing: leave variables without a value in the graph, and tables without their file.
        allow_absent_files: leave tables without their file: whoever runs them is told.
        clear_devices: drop the placement of nodes.
        inline: put the bodies of called functions in the place of the calls.
        initializers: names of nodes that prepare tables and variables that no checkpoint holds, besides
            those the model names.
        restore_op: the node that restores everything, of several savers the one to believe; "": the model's.
        state: what becomes of variables that runs change, one of `CHOICES`.
    """

    only: Sequence[str] = ()
    exclude: Sequence[str] = ()
    averages: bool = False
    renames: Mapping[str, str] = field(default_factory=dict)
    allow_missing: bool = False
    allow_absent_files: bool = False
    clear_devices: bool = False
    inline: bool = True
    initializers: Sequence[str] = ()
    restore_op: str = ""
    state: str = "freeze"


@brief_repr
@dataclass
class Frozen:
    """A frozen graph and how it came to be.

    Attributes:
        graph: runnable; its inputs and outputs are declared.
        variables: node -> the key its value was read from, and what told so.
        missing: variables that have no value and are still in the graph.
        unused: keys of the checkpoint that no variable of the graph needed.
        nodes_before: how many nodes the model's main graph had.
        notes: facts worth telling.
        state: variables that a run read and changed, so that the next one began with what it left.
        kept: those of them that are states of the graph.
    """

    graph: Graph
    variables: dict[str, Key] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    nodes_before: int = 0
    notes: list[str] = field(default_factory=list)
    state: list[str] = field(default_factory=list)
    kept: Kept = field(default_factory=Kept, repr=False)


# --- state that is kept -------------------------------------------------------------------------------------


KEEP, FREEZE, INPUTS, AUTO = "keep", "freeze", "inputs", "auto"
CHOICES = (AUTO, KEEP, FREEZE, INPUTS)
"""Treatments of state: kept from run to run, frozen as it was saved, given to the caller as inputs and
outputs, or kept where that is possible."""


def require_choice(state: str) -> None:
    """Refuse another word for what becomes of state.

    Raises:
        ParameterError: it is none of `CHOICES`.
    """
    if state not in CHOICES:
        raise ParameterError(f"state cannot be '{state}'", hint=f"choose one of {', '.join(CHOICES)}")


def add_left(graph: Graph, left: Mapping[Node, Value]) -> dict[str, Node]:
    """Outputs for what a run leaves in variables; variable -> the node of its output."""
    nodes = {}
    for variable, value in left.items():
        element = variable.attrs.get("dtype")
        attrs: dict[str, Attr] = {"T": element} if isinstance(element, DType) else {}
        # A node of its own: the value may be an output already, or be left in several variables.
        node = graph.add("Identity", [value], f"{variable.name}/next", attrs=attrs)
        node.origin = ORIGIN
        nodes[variable.name] = node
    graph.outputs = [*graph.outputs, *(node.output() for node in nodes.values())]
    return nodes


def place_for(graph: Graph, variable: Node, start: Tensor) -> Node:
    """The input that stands for what a variable holds when a run begins, in front of it."""
    attrs: dict[str, Attr] = {"dtype": start.dtype, "shape": ShapeAttr(start.shape)}
    node = graph.add("Placeholder", name=variable.name, attrs=attrs, before=variable)
    node.output().spec = TensorSpec(start.dtype, start.shape)
    return node


def kept_note(names: Collection[str]) -> str:
    """Note that a graph carries state, whose inputs and outputs it has."""
    return f"the model keeps state from one run to the next in {listed(names)}"


def listed(names: Iterable[str]) -> str:
    """A few variables in words."""
    known = list(names)
    shown = ", ".join(f"'{name}'" for name in known[:3]) + (", ..." if len(known) > 3 else "")
    return f"{len(known)} variables, {shown}" if len(known) > 1 else f"a variable, {shown}"


# --- what the user of a model must know ---------------------------------------------------------------------


SIGNATURE, STATE, LAYOUT = "signature taken", "state", "axes moved"
SOURCE = "compared with its source"
"""Topics of a graph's facts."""


def tell_unkept(graph: Graph, why: str) -> None:
    """Note why state that the model keeps between runs is frozen in a graph."""
    if STATE in graph.facts:
        graph.facts[STATE] += f" (it cannot be kept: {why})"


def kept_else_frozen(
    source: object,
    state: str,
    opened: Callable[[str], tuple[Graph, Beside]],
    make: Callable[[Graph, Beside], Made],
    unkept: type[ThinflowError] = ThinflowError,
) -> tuple[Graph, Beside, Made]:
    """What is made of a model with its state; where that fails and nobody chose, with its state frozen.

    Args:
        source: the model. A Graph was opened by the caller, who chose what becomes of state.
        state: what was asked for.
        opened: opens the model, with the state as it is told; gives the graph, and what else there is to it.
        make: makes it of both.
        unkept: the error of what cannot keep state.

    Returns:
        What was opened in the end, and what was made.
    """
    graph, beside = opened(state)
    try:
        return graph, beside, make(graph, beside)
    except unkept as error:
        if not graph.states or state != AUTO or isinstance(source, Graph):
            raise
        why = error.problem
    # Opened anew: keeping state has changed the graph.
    graph, beside = opened(FREEZE)
    tell_unkept(graph, why)
    return graph, beside, make(graph, beside)


def require_frozen(graph: Graph) -> None:
    """Refuse variables, whose values are in a checkpoint.

    Raises:
        GraphError: names the first.
    """
    variable = next((n for n in graph if has(n.op, Trait.VARIABLE)), None)
    if variable is not None:
        raise GraphError(
            f"the graph is not frozen: '{variable.name}' is a variable, its values are in a checkpoint",
            graph.path,
            hint="give the checkpoint's prefix: --checkpoint PREFIX",
        )


def opening_notes(graph: Graph) -> list[str]:
    """Notes on the signature that was taken of several, on state that the model kept, on axes that were
    moved, and on ops of a version that is not known here.
    """
    notes = [graph.facts[topic] for topic in (SIGNATURE, STATE, LAYOUT) if topic in graph.facts]
    if "opset" not in graph.facts:
        return notes
    # Imported late: few models are ONNX's.
    from thinflow.analysis.foreign import require_known_opset

    try:
        require_known_opset(graph.facts)
    except UnsupportedOp as error:
        notes.append(f"{error.problem}: nothing can be made of it here; {error.hint}")
    return notes


def source_notes(graph: Graph) -> list[str]:
    """Notes on the file that a graph was made from: what it is, and what came of comparing the two."""
    if graph.source is None:
        return []
    return [graph.source.line, *(graph.facts[topic] for topic in (SOURCE,) if topic in graph.facts)]
