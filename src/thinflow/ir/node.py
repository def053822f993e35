"""Nodes and the values between them: operations with attributes, and edges that know all their readers.

Only `Node` changes who reads a value and who waits for whom, on both ends at once, so neither index can go
stale.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, cast

from thinflow.errors import GraphError
from thinflow.ir.attrs import Attr, ShapeAttr
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import UNKNOWN, DType, Shape, TensorSpec


class Owner(Protocol):
    """The graph of a node, as far as the node knows it: `thinflow.ir.graph.Graph`."""

    _protected: set[Node]
    _input_set: set[Value]
    _output_set: set[Value]
    _edits: int
    """How often nodes, names, edges or ends were changed."""


class Use(NamedTuple):
    """One place that reads a value: input number `index` of `node`."""

    node: Node
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here


# `tuple.__new__` in C, where the generated `__new__` would be a Python function.
make_use = cast("Callable[[tuple[Node, int]], Use]", partial(tuple.__new__, Use))
"""A Use from (node, index), without the NamedTuple's own constructor: edges are made by the million."""


class Value:
    """One output port of a node: an edge with its readers.

    Attributes:
        node: the producer.
        port: output number on it.
        spec: type and shape as far as shape inference found them; see `analysis.shapes`.
    """

    __slots__ = ("_uses", "node", "port", "spec")

    def __init__(self, node: Node, port: int) -> None:
        self.node = node
        self.port = port
        self.spec: TensorSpec = UNKNOWN
        # Most values have one reader, and a dict takes more room than all the rest of a value.
        self._uses: Use | dict[Use, None] | None = None

    @property
    def name(self) -> str:
        """`node`, or `node:port` for a port above 0."""
        return f"{self.node.name}:{self.port}" if self.port else self.node.name

    @property
    def dtype(self) -> DType | None:
        return self.spec.dtype

    @property
    def shape(self) -> Shape:
        return self.spec.shape

    @property
    def uses(self) -> tuple[Use, ...]:
        """Every data input that reads this value, in the order the edges were made."""
        uses = self._uses
        return (uses,) if isinstance(uses, Use) else tuple(uses or ())

    @property
    def is_used(self) -> bool:
        """True if any data input reads this value."""
        return bool(self._uses)

    @property
    def readers(self) -> tuple[Node, ...]:
        """The nodes that read this value, each once."""
        uses = self._uses
        if isinstance(uses, Use):
            return (uses.node,)
        return tuple(dict.fromkeys(use.node for use in uses or ()))

    @property
    def is_graph_output(self) -> bool:
        """True if somebody asked for this value. O(1)."""
        graph = self.node.graph
        return graph is not None and self in graph._output_set

    @property
    def is_graph_input(self) -> bool:
        """True if this value is fed from outside. O(1)."""
        graph = self.node.graph
        return graph is not None and self in graph._input_set

    def replace_uses(self, other: Value, *, keep: Iterable[Node] = ()) -> int:
        """Let every reader but those in `keep` read `other` instead; the number of inputs changed.
        O(readers).

        Graph outputs are not changed: whoever asked for them asked by name.
        """
        untouched = set(keep)
        uses = [use for use in self.uses if use.node not in untouched]
        for use in uses:
            use.node.set_input(use.index, other)
        return len(uses)

    def _add_use(self, use: Use) -> None:
        uses = self._uses
        # None, or a dict that readers have left.
        if not uses:
            self._uses = use
        elif isinstance(uses, Use):
            # A dict keeps the order in which edges were made and drops a use without a search.
            self._uses = {uses: None, use: None}
        else:
            uses[use] = None

    def _drop_use(self, use: Use) -> None:
        uses = self._uses
        if isinstance(uses, Use):
            self._uses = None if uses == use else uses
        elif uses:
            uses.pop(use, None)

    def __repr__(self) -> str:
        return f"Value({self.name})"


class NodeSource(Protocol):
    """The record of a file format behind a node, to decode late and to write back what nobody touched."""

    def attrs(self) -> Mapping[str, Attr]:
        """The attributes as loaded.

        The same objects on every call, so that untouched ones are recognised by identity.
        """
        ...


# One counter for all nodes: places are only compared within a node, and a replaced control input can take
# over its predecessor's place without moving the others.
_places = itertools.count()
"""Places of control inputs among those of their node: each new one behind all others."""


class Node:
    """One operation. Make nodes with `Graph.add`; change edges with the methods here, names with
    `Graph.rename`.

    Attributes:
        op: TensorFlow's op name.
        device: placement string, "" for anywhere.
        origin: the transform that made the node, "" if it came from the file.
        source: what the file format kept, None for a node made here.
        graph: the owner; None once removed.
    """

    __slots__ = (
        "_attrs",
        "_controls",
        "_inputs",
        "_name",
        "_next",
        "_others",
        "_output",
        "_previous",
        "_successors",
        "device",
        "graph",
        "op",
        "origin",
        "source",
    )

    def __init__(self, name: str, op: str, device: str = "", source: NodeSource | None = None) -> None:
        self._name = name
        self.op = op
        self.device = device
        self.origin = ""
        self.source = source
        self.graph: Owner | None = None
        self._attrs: dict[str, Attr] | None = None if source is not None else {}
        self._inputs: list[Value] = []
        self._output: Value | None = None  # port 0, the only one of nearly all nodes
        self._others: dict[int, Value] | None = None
        self._controls: dict[Node, int] | None = None  # nodes that must run before this one, and their places
        self._successors: dict[Node, None] | None = None  # nodes that must run after this one
        self._previous: Node | None = None
        self._next: Node | None = None

    @property
    def name(self) -> str:
        return self._name

    @property
    def attrs(self) -> dict[str, Attr]:
        """The attributes; change them freely, the values themselves are immutable. Decoded on first use."""
        if self._attrs is None:
            assert self.source is not None
            # A copy, since nodes of a file may share the decoded attributes.
            self._attrs = dict(self.source.attrs())
        return self._attrs

    @property
    def attrs_view(self) -> Mapping[str, Attr]:
        """The attributes, only to look at: nothing is copied, and nodes of a file may share them."""
        if self._attrs is not None:
            return self._attrs
        assert self.source is not None
        return self.source.attrs()

    @property
    def attrs_untouched(self) -> bool:
        """True if the attributes are exactly those of the file."""
        if self.source is None:
            return False
        if self._attrs is None:
            return True
        loaded = self.source.attrs()
        # Identity in place of equality: comparing constants would read their bytes.
        return len(loaded) == len(self._attrs) and all(self._attrs.get(k) is v for k, v in loaded.items())

    @property
    def inputs(self) -> tuple[Value, ...]:
        """Data inputs in order."""
        return tuple(self._inputs)

    @property
    def control_inputs(self) -> tuple[Node, ...]:
        """Nodes that must run first, without passing data."""
        controls = self._controls
        # By place, not in the order of the dict: `replace_control_input` puts new ones at old places.
        return tuple(sorted(controls, key=controls.__getitem__)) if controls else ()

    @property
    def control_outputs(self) -> tuple[Node, ...]:
        """Nodes that wait for this one, without reading data."""
        return tuple(self._successors or ())

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The ports somebody has asked for so far, by number; see `output`."""
        first = self._output
        if self._others is None:
            return () if first is None else (first,)
        others = tuple(self._others[port] for port in sorted(self._others))
        return others if first is None else (first, *others)

    def output(self, port: int = 0) -> Value:
        """An output port.

        Ports come into being when asked for: how many an unknown op has, nobody can tell.
        """
        if port == 0:
            if self._output is None:
                self._output = Value(self, 0)
            return self._output
        if port < 0:
            raise GraphError(f"{port} is not a port number", self.where)
        if self._others is None:
            self._others = {}
        value = self._others.get(port)
        if value is None:
            value = self._others[port] = Value(self, port)
        return value

    @property
    def is_missing(self) -> bool:
        """True for a stand-in for a node that the file refers to and lacks."""
        return not self.op

    @property
    def is_used(self) -> bool:
        """True if anything reads an output or waits for the node."""
        return bool(self._successors) or any(v._uses for v in self.outputs)

    @property
    def readers(self) -> tuple[Node, ...]:
        """Every node that reads an output or waits for this node, each once."""
        readers = dict.fromkeys(use.node for v in self.outputs for use in v.uses)
        readers.update(self._successors or {})
        return tuple(readers)

    @property
    def is_protected(self) -> bool:
        """True if the node is an input or output of its graph, so that its name must survive. O(1)."""
        return self.graph is not None and self in self.graph._protected

    def get(self, attr: str, default: Any = None) -> Any:
        """An attribute as kernels see it: byte strings as text, shapes as plain tuples."""
        value = self.attrs_view.get(attr, default)
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        return value.dims if isinstance(value, ShapeAttr) else value

    @property
    def tensor(self) -> Tensor | None:
        """The constant a `Const` node holds, else None."""
        value = self.attrs_view.get("value") if self.op == "Const" else None
        return value if isinstance(value, Tensor) else None

    def set_input(self, index: int, value: Value | Node) -> None:
        """Read `value` at an existing input. O(1)."""
        if not 0 <= index < len(self._inputs):
            raise GraphError(f"there is no input {index}, only {len(self._inputs)} inputs", self.where)
        # Checked first: an error must not leave the input without its use.
        new = self._checked(value)
        self._count_edit()
        use = make_use((self, index))
        self._inputs[index]._drop_use(use)
        self._inputs[index] = new
        new._add_use(use)

    def set_inputs(self, values: Sequence[Value | Node]) -> None:
        """Replace all data inputs; a node stands for its output 0."""
        graph, new = self.graph, list[Value]()
        # `_checked` for all but the usual case, which is spared the call: files have very many edges.
        for value in values:
            if isinstance(value, Value) and value.node.graph is graph:
                new.append(value)
            else:
                new.append(self._checked(value))
        self._count_edit()
        # Old uses go before new ones come: at an index that keeps its value, both are the same use.
        if self._inputs:
            for index, old in enumerate(self._inputs):
                old._drop_use(make_use((self, index)))
        self._inputs = new
        for index, value in enumerate(new):
            value._add_use(make_use((self, index)))

    def add_control_input(self, node: Node) -> None:
        """Wait for `node`. Twice is once."""
        self._checked(node)
        self._count_edit()
        if self._controls is None:
            self._controls = {}
        if node._successors is None:
            node._successors = {}
        # A node that is waited for already keeps its place.
        self._controls.setdefault(node, next(_places))
        node._successors[self] = None

    def remove_control_input(self, node: Node) -> None:
        """Stop waiting for `node`; fine if it did not."""
        if self._controls is not None and node._successors is not None:
            self._count_edit()
            self._controls.pop(node, None)
            node._successors.pop(self, None)

    def replace_control_input(self, old: Node, new: Node) -> None:
        """Wait for `new` in the place of `old`, which this node waits for. The cost is the same for any
        number of control inputs.
        """
        self._checked(new)
        assert self._controls is not None
        place = self._controls[old]
        self.remove_control_input(old)
        # A node cannot wait for itself; then there is nothing to wait for in the place of the old one.
        if new is not self:
            self.add_control_input(new)
            # The new one may have been awaited before, at an earlier place.
            self._controls[new] = min(place, self._controls[new])

    def set_control_inputs(self, nodes: Iterable[Node]) -> None:
        """Replace all control inputs."""
        new = list(nodes)
        for node in new:
            self._checked(node)
        if self._controls:
            for node in self.control_inputs:
                self.remove_control_input(node)
        for node in new:
            self.add_control_input(node)

    def _count_edit(self) -> None:
        if self.graph is not None:
            self.graph._edits += 1

    def _checked(self, value: Value | Node) -> Value:
        """The value to read, if its node lives in the same graph as this one (or is a stand-in)."""
        if isinstance(value, Node):
            value = value.output()
        # Stand-ins belong to no graph and may be read all the same, so that broken references survive.
        if value.node.graph is not self.graph and not value.node.is_missing:
            raise GraphError(
                f"'{value.name}' belongs to another graph, or was removed",
                self.where,
                hint="look it up in this graph again",
            )
        return value

    @property
    def where(self) -> str:
        """`node 'conv1' (Conv2D)`, for messages."""
        return f"node '{self.name}' ({self.op})"

    def __repr__(self) -> str:
        return f"Node({self.name}: {self.op})"
