"""Functions of a graph: transforms inside them, each body edited as a graph of its own, and copies of bodies.

A body keeps its arguments, its results, and the nodes that run in it for their effect. Bodies nobody changed
are written back byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from thinflow.analysis.shapes import port_count
from thinflow.errors import ParameterError, ThinflowError, TransformError
from thinflow.ir.check import find_problems
from thinflow.ir.function import ARGUMENT, Edited, Function, Selection, mentioned, reachable
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.ledger import Entry
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.edits import adapt_moved_colocation
from thinflow.rewrite.rule import Trace, Transform
from thinflow.rewrite.spec import Call, parse_transforms
from thinflow.transforms.shared.effects import is_stateless

_NOTE = "the model has a function library"


def note_functions(graph: Graph, trace: Trace, what: str) -> None:
    """Say so if the model has a function library, since this transform does not reach into it."""
    if graph.functions:
        trace.notes.append(f"{_NOTE} ({len(graph.functions)} in it); {what}; functions=true reaches into it")


class InFunctions(Transform):
    """A transform that acts on the graph and inside every function of its library.

    Attributes:
        inner: what acts on the graph.
        body: what acts on bodies; see `Transform.for_function`.
        shown: whether the written form says functions=true.

    Raises:
        ParameterError: the transform cannot act inside functions.
    """

    def __init__(self, inner: Transform, *, shown: bool = True) -> None:
        body = inner.for_function()
        if body is None:
            raise ParameterError(
                f"'{inner.name}' does not act inside functions",
                hint="leave functions=true out, or run inline_partitionedcall before it",
            )
        self.inner, self.body, self.shown = inner, body, shown
        # What a class says of itself is here what the inner transform says.
        for key in ("name", "tolerance", "exact", "renames", "repeatable"):
            self.__dict__[key] = getattr(inner, key)

    def apply(self, graph: Graph, trace: Trace) -> None:
        self.inner.apply(graph, trace)
        # It is reached into now, so the advice to do so is out of place.
        trace.notes = [note for note in trace.notes if not note.startswith(_NOTE)]
        apply_in_functions(self.body, graph, trace)

    def __str__(self) -> str:
        if not self.shown:
            return str(self.inner)
        (call,) = parse_transforms(str(self.inner))
        return str(Call(call.name, {**call.params, "functions": ["true"]}))


def apply_in_functions(transform: Transform, graph: Graph, trace: Trace) -> None:
    """Run a transform over every body of the library. O(nodes of all bodies).

    A function that cannot be read, or that the transform gives up on, stays as it is; a warning says so.

    Raises:
        TransformError: the transform left an invalid body.
    """
    changed: dict[str, Function] = {}
    for name in graph.functions:
        inside = Trace()
        try:
            after = _edited(transform, graph.functions[name], inside)
        # This one is a fault of ours; others are told by the function and left.
        except TransformError:
            raise
        except ThinflowError as error:
            trace.warnings.append(f"function '{name}' stays as it is: {error.message}")
            continue
        tell(name, inside, trace)
        if inside.changes:
            changed[name] = after
    if changed:
        graph.functions = with_changes(graph.functions, changed)


def with_changes(library: Mapping[str, Function], changed: Mapping[str, Function]) -> Edited:
    """A library with some functions in the place of those of the same name."""
    # Changes on changes are one layer, so that looking up a function stays one step.
    older = library.changes if isinstance(library, Edited) else {}
    base = library.library if isinstance(library, Edited) else library
    edited = Edited(base, {**older, **changed})
    for function in changed.values():
        # Bodies call the new library, too: a changed function may be called by another.
        function.graph.functions = edited
    return edited


def _edited(transform: Transform, function: Function, trace: Trace) -> Function:
    copy = function.copied()
    body, results = copy.graph, len(copy.outputs)
    effects = list(dict.fromkeys([*copy.control_outputs, *_dangling(body)]))
    known = find_problems(body, port_count)
    # Effects are outputs for the time being, so that a transform keeps them.
    body.outputs = [*copy.outputs, *(node.output() for node in effects)]
    places = [results + effects.index(node) for node in copy.control_outputs]
    transform.run(body, trace)
    _restore_arguments(function, body, trace, renamed=transform.renames)
    new = [p for p in find_problems(body, port_count) if p not in known]
    if new:
        raise TransformError(
            f"it left an invalid function '{function.name}': {new[0]}",
            hint="leave functions=true out, and please report this with the model",
        )
    # Found by place: the transform may have put other nodes there.
    outputs = body.outputs
    body.outputs = outputs[:results]
    kept: list[Node] = [outputs[place].node for place in places]
    inputs: list[Value] = body.inputs
    return replace(copy, inputs=inputs, outputs=body.outputs, control_outputs=kept)


def _restore_arguments(function: Function, body: Graph, trace: Trace, *, renamed: bool) -> None:
    """An argument is declared by the function, not by its node: of that nothing but the name is written."""
    for before, after in zip(function.inputs, body.inputs, strict=True):
        after.node.op, after.node.device = before.node.op, before.node.device
        after.node.attrs.clear()
        after.node.attrs.update(before.node.attrs)
    if not renamed:
        trace.changes[:] = [entry for entry in trace.changes if entry.op != ARGUMENT]


def _dangling(body: Graph) -> list[Node]:
    """Nodes that nothing uses and that may run for their effect."""
    return [
        node
        for node in body
        if not node.is_used and not node.is_protected and (not is_stateless(node) or node.op == "NoOp")
    ]


def tell(function: str, inside: Trace, trace: Trace) -> None:
    """Tell what happened in a body in the ledger of the whole; nodes are called `function/node` there."""

    def placed(entry: Entry) -> Entry:
        return Entry(f"{function}/{entry.node}", entry.op, entry.text)

    trace.changes.extend(map(placed, inside.changes))
    trace.left.extend(map(placed, inside.left))
    trace.warnings.extend(f"in function '{function}': {text}" for text in inside.warnings)


def endless(roots: set[str], callees_of: Callable[[str], set[str]]) -> set[str]:
    """The functions whose calls never end: what is left once all are gone that call none of the rest.

    Args:
        roots: functions that are called; they and what they call are looked at.
        callees_of: what a function calls; one that cannot be read calls nothing, that is told elsewhere.
    """
    callees: dict[str, set[str]] = {}
    stack = set(roots)
    while stack:
        name = stack.pop()
        if name not in callees:
            try:
                callees[name] = callees_of(name)
            except ThinflowError:
                callees[name] = set()
            stack |= callees[name]
    callers: dict[str, list[str]] = {}
    for name, called in callees.items():
        for other in called:
            callers.setdefault(other, []).append(name)
    # Kahn's algorithm: leaves go first, and who calls only what is gone; a circle never gets there.
    left = {name: len(called) for name, called in callees.items()}
    done = [name for name, count in left.items() if not count]
    while done:
        name = done.pop()
        del left[name]
        for caller in callers.get(name, ()):
            left[caller] -= 1
            if not left[caller]:
                done.append(caller)
    return set(left)


def mentioned_in(body: Graph) -> set[str]:
    """The functions of the library that a graph mentions itself."""
    return {name for node in body for name in mentioned(node) if name in body.functions}


def prune(graph: Graph, trace: Trace) -> None:
    """Drop the functions that nothing calls any more, and say so."""
    try:
        needed = reachable(graph)
    except ThinflowError as error:
        trace.notes.append(f"the function library stays whole: {error.message}")
        return
    unused = len(graph.functions) - len(needed)
    if unused:
        graph.functions = Selection(graph.functions, needed)
        trace.notes.append(f"{unused} functions that nothing calls were dropped, {len(needed)} are left")


@dataclass(frozen=True)
class BodyCopy:
    """A copy of the body of a function in the graph that calls it.

    Attributes:
        nodes: node of the body -> its copy.
        arguments: argument of the function -> what is passed for it.
    """

    nodes: Mapping[Node, Node]
    arguments: Mapping[Value, Value]

    def value(self, value: Value) -> Value:
        """The value that stands for one of the body."""
        argument = self.arguments.get(value)
        return self.nodes[value.node].output(value.port) if argument is None else argument


def copy_body(
    function: Function, arguments: Sequence[Value], copy: Callable[[Node], Node], scope: str
) -> BodyCopy:
    """Copy the nodes of a function and connect the copies as they are connected in it.

    Args:
        function: of which the nodes are.
        arguments: what is passed.
        copy: makes a node like one of the body; it may leave out inputs.
        scope: goes in front of the names of frames.
    """
    inputs = {value.node for value in function.inputs}
    nodes = {node: copy(node) for node in function.graph if node not in inputs}
    body = BodyCopy(nodes, dict(zip(function.inputs, arguments, strict=True)))
    # Names in the body -> here: annotations refer to nodes by name, to arguments as well.
    names = {node.name: new.name for node, new in nodes.items()}
    names |= {value.node.name: argument.node.name for value, argument in body.arguments.items()}
    for node, new in nodes.items():
        new.set_inputs([body.value(v) for v in node.inputs])
        if node.control_inputs:
            new.set_control_inputs(body.value(n.output()).node for n in node.control_inputs)
        adapt_moved_colocation(new, names)
        frame = new.attrs_view.get("frame_name") if has(new.op, Trait.ENTER) else None
        if isinstance(frame, bytes):
            # A frame is known by its name: two copies of one body would otherwise be one loop.
            new.attrs["frame_name"] = f"{scope}/".encode() + frame
    return body
