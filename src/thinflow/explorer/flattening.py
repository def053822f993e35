"""A graph and the bodies of what it calls as one list of boxes and lines between them.

A plain call vanishes: its body stands in a scope of its name, and lines go straight through. If, Case and
While stay as boxes; the values they hand on go into their bodies, what the bodies give leads to the box.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from thinflow.analysis.foreign import UNREAD
from thinflow.analysis.shapes import infer_shapes
from thinflow.errors import ThinflowError
from thinflow.explorer.document import NodeKind, ScopeKind
from thinflow.ir.attrs import FunctionAttr
from thinflow.ir.function import ARGUMENT, Function
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.types import TensorSpec
from thinflow.ir.vocabulary import PREFIXES
from thinflow.ops.traits import Trait, has

MOST_DEPTH = 20
"""Calls inside calls; deeper ones stay boxes."""
MOST_INLINED = 100_000
"""Nodes of bodies: functions that call each other twice double at every level."""

Level = tuple[str, ScopeKind]
"""A scope on the way to a node: its name and where it comes from."""


@dataclass(eq=False)
class Box:
    """A node of the picture.

    Attributes:
        name: unlike that of all others; of a node in a body the calls stand before it, with slashes.
        op: as its vocabulary spells it, without a prefix.
        kind: how it is drawn.
        prefix: scopes of the calls it is in.
        node: behind it; None for an output of the graph and for what stands for many nodes.
        value: of an output: which one.
        outer: the node of the main graph that it is, or in whose call it is.
        bodies: scopes of what it calls, as their paths.
        about: what the panel tells of one that stands for many nodes.
    """

    name: str
    op: str
    kind: NodeKind
    prefix: tuple[Level, ...] = ()
    node: Node | None = None
    value: Value | None = None
    outer: Node | None = None
    bodies: list[tuple[Level, ...]] = field(default_factory=list)
    about: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Line:
    """From an output of one box to an input of another; port -1 waits and passes no data."""

    source: Box
    port: int
    target: Box
    input: int


@dataclass
class Flat:
    """Boxes and lines.

    Attributes:
        graphs: the main graph and the bodies that were put in, each with the prefix of its names.
        handed: for each body, its arguments and the values that it gets; callers before what they call.
        notes: what is not shown.
        is_folded: whether boxes stand for many nodes each.
    """

    boxes: list[Box] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    graphs: list[tuple[str, Graph]] = field(default_factory=list)
    handed: list[tuple[Graph, list[tuple[Value, Value]]]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    is_folded: bool = False

    def infer(self, fed: Mapping[Value, TensorSpec] | None = None) -> None:
        """Infer all shapes again, bodies included, with what is assumed of inputs."""
        infer_shapes(self.graphs[0][1], fed)
        for body, pairs in self.handed:
            _infer_body(body, pairs)


def flatten(graph: Graph) -> Flat:
    """Boxes and lines of a graph whose shapes are inferred. O(nodes + edges), bodies included."""
    work = _Flattening()
    work.add(graph, "", (), 0)
    work.add_ends(graph)
    work.connect()
    return work.flat


def called_functions(node: Node, library: Mapping[str, Function]) -> list[tuple[str, FunctionAttr]]:
    """What a node calls: the name of the attribute that says so, and the function; only those there are."""
    if node.op in library:
        return [("", FunctionAttr(node.op, node.attrs_view))]
    found: list[tuple[str, FunctionAttr]] = []
    for name, attr in node.attrs_view.items():
        several: tuple[Any, ...] = attr if isinstance(attr, tuple) else (attr,)
        names = [name] if len(several) == 1 else [f"{name} {number}" for number in range(len(several))]
        found += [
            (n, a)
            for n, a in zip(names, several, strict=True)
            if isinstance(a, FunctionAttr) and a.name in library
        ]
    return found


class _Flattening:
    def __init__(self) -> None:
        self.flat = Flat()
        self._boxes: dict[Node, Box] = {}
        # A value that no box makes -> the one it stands for: a result of a call, an argument of a body.
        self._same: dict[Value, Value] = {}
        # Results of the bodies of If, Case and While.
        self._results: dict[Box, list[Value]] = {}
        self._count = 0
        self._outer: Node | None = None

    def add(self, graph: Graph, name: str, prefix: tuple[Level, ...], depth: int) -> None:
        """Boxes of a graph; `name` goes in front of theirs."""
        self.flat.graphs.append((name, graph))
        for node in graph:
            self._outer = node if depth == 0 else self._outer
            called = called_functions(node, graph.functions) if graph.functions else []
            is_plain = len(called) == 1 and (has(node.op, Trait.CALL) or node.op in graph.functions)
            if is_plain and self._inline(node, called[0], name, prefix, depth):
                continue
            if depth and node.output() in self._same:
                continue  # an argument: what is handed on stands for it
            kind = _kind(node, bool(called))
            box = Box(f"{name}{node.name}", short_op(node.op), kind, prefix, node, outer=self._outer)
            self._boxes[node] = box
            self.flat.boxes.append(box)
            for attribute, function in called:
                self._add_body(box, attribute, function, name, prefix, depth)

    def _inline(
        self,
        node: Node,
        called: tuple[str, FunctionAttr],
        name: str,
        prefix: tuple[Level, ...],
        depth: int,
    ) -> bool:
        """Put a body into the place of a call; False if the call stays."""
        body = self._body(node, called[1], depth)
        if body is None or len(body.inputs) != len(node.inputs):
            return False
        for argument, value in zip(body.inputs, node.inputs, strict=True):
            self._same[argument] = value
        for value in node.outputs:
            if value.port < len(body.outputs):
                self._same[value] = body.outputs[value.port]
        self._hand(body, node.inputs)
        # The call's own name may have slashes; `grouping` takes the path of names apart.
        self.add(body.graph, f"{name}{node.name}/", (*prefix, (node.name, ScopeKind.FUNCTION)), depth + 1)
        return True

    def _add_body(
        self,
        box: Box,
        attribute: str,
        called: FunctionAttr,
        name: str,
        prefix: tuple[Level, ...],
        depth: int,
    ) -> None:
        """The body of a branch or a loop, in a scope beside its box."""
        node = box.node
        assert node is not None
        body = self._body(node, called, depth)
        if body is None:
            return
        # If and Case choose by their first input, which is no argument.
        handed = node.inputs[-len(body.inputs) :] if body.inputs else ()
        for argument, value in zip(body.inputs, handed, strict=False):
            self._same[argument] = value
        # What a loop carries has after some rounds another shape than before the first.
        is_loop = has(node.op, Trait.WHILE)
        self._hand(body, [node.output(i) for i in range(len(handed))] if is_loop else handed)
        scope = (*prefix, (f"{node.name} {attribute or called.name}", ScopeKind.FUNCTION))
        box.bodies.append(scope)
        self._results.setdefault(box, []).extend(body.outputs)
        self.add(body.graph, f"{name}{node.name}/{attribute or called.name}/", scope, depth + 1)

    def _body(self, node: Node, called: FunctionAttr, depth: int) -> Function | None:
        """A copy of a body with the call's attributes filled in; None if it cannot be shown."""
        if depth >= MOST_DEPTH or self._count > MOST_INLINED:
            self._note("calls inside calls are shown as boxes: there are too many of them")
            return None
        library = node.graph.functions if isinstance(node.graph, Graph) else {}
        try:
            body = library[called.name].instantiated(called.attrs).copied()
        except ThinflowError as error:
            self._note(f"the function '{called.name}' is not shown: {error.message}")
            return None
        self._count += len(body.graph)
        return body

    def _hand(self, body: Function, values: Sequence[Value]) -> None:
        """Note what a body gets, and infer its shapes from that."""
        pairs = list(zip(body.inputs, values, strict=False))
        self.flat.handed.append((body.graph, pairs))
        _infer_body(body.graph, pairs)

    def _note(self, text: str) -> None:
        if text not in self.flat.notes:
            self.flat.notes.append(text)

    # ---- lines

    def add_ends(self, graph: Graph) -> None:
        """Boxes for the ends of the graph, and for nodes that it refers to and lacks."""
        for node in graph.missing.values():
            lost = [("missing", "the graph refers to this node and has none of that name")]
            box = self._boxes[node] = Box(node.name, short_op(""), NodeKind.INPUT, about=lost)
            self.flat.boxes.append(box)
        self.flat.boxes += output_boxes(graph, {box.name for box in self.flat.boxes})

    def connect(self) -> None:
        """Lines between all boxes."""
        for box in self.flat.boxes:
            for place, value in enumerate(self._reads(box)):
                source = self._source(value)
                if source is not None:
                    self.flat.lines.append(Line(self._boxes[source.node], source.port, box, place))
            for awaited in box.node.control_inputs if box.node is not None else ():
                if awaited in self._boxes:
                    self.flat.lines.append(Line(self._boxes[awaited], -1, box, -1))

    def _reads(self, box: Box) -> Iterator[Value]:
        if box.value is not None:
            yield box.value
        if box.node is not None:
            yield from box.node.inputs
            yield from self._results.get(box, ())

    def _source(self, value: Value) -> Value | None:
        """The value of a box that a value stands for; None if there is none, or it stands for itself."""
        seen: set[Value] = set()
        while value in self._same and value not in seen:
            seen.add(value)
            value = self._same[value]
        return value if value.node in self._boxes else None


def output_boxes(graph: Graph, names: set[str]) -> Iterator[Box]:
    """A box for each output that the graph declares: its node may lie deep in a scope.

    Args:
        graph: whose outputs.
        names: that are taken; those of the new boxes come to them.
    """
    for value in graph.outputs:
        name = f"{value.name} (output)"
        while name in names:
            name += "'"
        names.add(name)
        yield Box(name, "Output", NodeKind.OUTPUT, value=value)


def plain_box(node: Node) -> Box:
    """A node of the main graph that calls nothing, by itself."""
    return Box(node.name, short_op(node.op), _kind(node, False), (), node, outer=node)


def _infer_body(body: Graph, pairs: Sequence[tuple[Value, Value]]) -> None:
    # What a variable holds cannot be followed from outside; the exporter noted it.
    infer_shapes(body, {argument: value.spec for argument, value in pairs}, use_annotations=True)


def short_op(op: str) -> str:
    """An op without the prefix of its vocabulary: `tfl.CONV_2D` as CONV_2D."""
    for prefix in PREFIXES:
        op = op.removeprefix(prefix)
    return op or "(missing)"


def _kind(node: Node, calls: bool) -> NodeKind:
    if calls:
        return NodeKind.CALL
    if node.tensor is not None:
        return NodeKind.CONSTANT
    if node.op == ARGUMENT or has(node.op, Trait.PLACEHOLDER) or any(v.is_graph_input for v in node.outputs):
        return NodeKind.INPUT
    is_variable = has(node.op, Trait.VARIABLE) or node.op in UNREAD
    return NodeKind.VARIABLE if is_variable else NodeKind.OP
