"""The graph: nodes, the values between them, and edits that cannot leave it half-changed.

A `Value` is one output port of a node and knows every place that reads it. Only `Node` changes that index, so it cannot
go stale. Control edges are kept the same way on both of their ends. Nodes are a linked list in file order, which may be
edited while it is walked. Names are looked up in O(1).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from thinflow.errors import GraphError, NodeError, closest
from thinflow.ir.attrs import Attr, ShapeAttr
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import UNKNOWN, DType, Shape, TensorSpec, dtype

if TYPE_CHECKING:
    import numpy as np


class Use(NamedTuple):
    """One place that reads a value: input number `index` of `node`."""

    node: Node
    index: int


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
        self._uses: dict[Use, None] = {}

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
        return tuple(self._uses)

    @property
    def readers(self) -> tuple[Node, ...]:
        """The nodes that read this value, each once."""
        return tuple(dict.fromkeys(use.node for use in self._uses))

    @property
    def is_graph_output(self) -> bool:
        graph = self.node.graph
        return graph is not None and self in graph.outputs

    def replace_uses(self, other: Value) -> int:
        """Let every reader read `other` instead; the number of inputs changed. O(readers).

        Graph outputs are not changed: whoever asked for them asked by name.
        """
        uses = self.uses
        for use in uses:
            use.node.set_input(use.index, other)
        return len(uses)

    def __repr__(self) -> str:
        return f"Value({self.name})"


class NodeSource(Protocol):
    """What a file format keeps behind a node it loaded, to decode late and to write back what nobody touched."""

    def attrs(self) -> Mapping[str, Attr]:
        """The attributes as loaded. The same objects on every call, so that untouched ones are recognised by identity."""
        ...


class Node:
    """One operation. Make nodes with `Graph.add`; change edges with the methods here, names with `Graph.rename`.

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
        "_outputs",
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
        self.graph: Graph | None = None
        self._attrs: dict[str, Attr] | None = None if source is not None else {}
        self._inputs: list[Value] = []
        self._outputs: list[Value] = []
        self._controls: dict[Node, None] = {}  # nodes that must run before this one
        self._successors: dict[Node, None] = {}  # nodes that must run after this one
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
            self._attrs = dict(self.source.attrs())
        return self._attrs

    @property
    def attrs_untouched(self) -> bool:
        """Whether the attributes are exactly those of the file."""
        if self.source is None:
            return False
        if self._attrs is None:
            return True
        loaded = self.source.attrs()
        return len(loaded) == len(self._attrs) and all(self._attrs.get(k) is v for k, v in loaded.items())

    @property
    def inputs(self) -> tuple[Value, ...]:
        """Data inputs in order."""
        return tuple(self._inputs)

    @property
    def control_inputs(self) -> tuple[Node, ...]:
        """Nodes that must run first, without passing data."""
        return tuple(self._controls)

    @property
    def control_outputs(self) -> tuple[Node, ...]:
        """Nodes that wait for this one, without reading data."""
        return tuple(self._successors)

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The ports somebody has asked for so far; port numbers without gaps. See `output`."""
        return tuple(self._outputs)

    def output(self, port: int = 0) -> Value:
        """An output port. Ports come into being when asked for: how many an unknown op has, nobody can tell."""
        while len(self._outputs) <= port:
            self._outputs.append(Value(self, len(self._outputs)))
        return self._outputs[port]

    @property
    def is_used(self) -> bool:
        """Whether anything reads an output or waits for the node."""
        return bool(self._successors) or any(v._uses for v in self._outputs)

    @property
    def readers(self) -> tuple[Node, ...]:
        """Every node that reads an output or waits for this node, each once."""
        readers = dict.fromkeys(use.node for v in self._outputs for use in v._uses)
        readers.update(self._successors)
        return tuple(readers)

    def get(self, attr: str, default: Any = None) -> Any:
        """An attribute as kernels see it: byte strings as text, shapes as plain tuples."""
        value = self.attrs.get(attr, default)
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        return value.dims if isinstance(value, ShapeAttr) else value

    @property
    def tensor(self) -> Tensor | None:
        """The constant a `Const` node holds, else None."""
        value = self.attrs.get("value") if self.op == "Const" else None
        return value if isinstance(value, Tensor) else None

    def set_input(self, index: int, value: Value) -> None:
        """Read `value` at an existing input. O(1)."""
        self._inputs[index]._uses.pop(Use(self, index), None)
        self._inputs[index] = value
        value._uses[Use(self, index)] = None

    def set_inputs(self, values: Sequence[Value]) -> None:
        """Replace all data inputs."""
        for index, old in enumerate(self._inputs):
            old._uses.pop(Use(self, index), None)
        self._inputs = list(values)
        for index, value in enumerate(self._inputs):
            value._uses[Use(self, index)] = None

    def add_control_input(self, node: Node) -> None:
        """Wait for `node`. Twice is once."""
        self._controls[node] = None
        node._successors[self] = None

    def remove_control_input(self, node: Node) -> None:
        """Stop waiting for `node`; fine if it did not."""
        self._controls.pop(node, None)
        node._successors.pop(self, None)

    def set_control_inputs(self, nodes: Iterable[Node]) -> None:
        """Replace all control inputs."""
        for node in self.control_inputs:
            self.remove_control_input(node)
        for node in nodes:
            self.add_control_input(node)

    @property
    def where(self) -> str:
        """`node 'conv1' (Conv2D)`, for messages."""
        return f"node '{self.name}' ({self.op})"

    def __repr__(self) -> str:
        return f"Node({self.name}: {self.op})"


@dataclass(frozen=True)
class Versions:
    """`GraphDef.versions`: which TensorFlow wrote the graph and which may read it."""

    producer: int = 0
    min_consumer: int = 0
    bad_consumers: tuple[int, ...] = ()


@dataclass(frozen=True)
class Problem:
    """One broken rule of a graph, in words; `node` is the name of the node at fault."""

    text: str
    node: str = ""

    def __str__(self) -> str:
        return f"node '{self.node}': {self.text}" if self.node else self.text


@dataclass(frozen=True)
class Passenger:
    """What a format carries through beyond nodes: (field number, bytes with tag) in file order."""

    fields: list[tuple[int, bytes]] = field(default_factory=list)


class Graph:
    """Nodes in file order, with the values that go in and come out.

    Attributes:
        inputs: values the caller feeds; declared, or guessed when the file was loaded.
        outputs: values the caller wants; their names survive every transform.
        versions: carried through.
        passenger: file contents carried through.
        path: where the graph was loaded from, "" if nowhere.
        problems: what was already broken in the file (dangling inputs, duplicate names...).
    """

    def __init__(self) -> None:
        self.inputs: list[Value] = []
        self.outputs: list[Value] = []
        self.versions: Versions | None = None
        self.passenger = Passenger()
        self.path = ""
        self.problems: list[Problem] = []
        self._by_name: dict[str, Node] = {}
        self._missing: dict[str, Node] = {}
        self._first: Node | None = None
        self._last: Node | None = None
        self._count = 0
        self._serial: dict[str, int] = {}

    # --- reading -----------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Node]:
        """Nodes in file order. Editing while walking is fine: a node removed ahead is skipped, one added behind is not seen."""
        node = self._first
        while node is not None:
            following = node._next
            yield node
            if node.graph is self:
                node = node._next
            else:
                while following is not None and following.graph is not self:
                    following = following._next
                node = following

    def __len__(self) -> int:
        return self._count

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def find(self, name: str) -> Node | None:
        """The node of that name, None if there is none. O(1)."""
        return self._by_name.get(name)

    def node(self, name: str) -> Node:
        """The node of that name. O(1).

        Raises:
            GraphError: there is none; the closest names are offered.
        """
        found = self._by_name.get(name)
        if found is None:
            near = closest(name, self._by_name) if len(self._by_name) < 20_000 else ""
            raise GraphError(
                f"there is no node named '{name}'", hint=near or "`thinflow inspect MODEL` lists inputs and outputs"
            )
        return found

    def value(self, name: str) -> Value:
        """The value called `node` or `node:port`.

        Raises:
            GraphError: no such node, or the port is not a number.
        """
        node_name, _, port = name.partition(":")
        if port and not port.isdecimal():
            raise GraphError(f"'{name}' is not a tensor name", hint="write node or node:port, for example conv1:0")
        return self.node(node_name).output(int(port or 0))

    @property
    def missing(self) -> Mapping[str, Node]:
        """Stand-ins for nodes that inputs refer to and the file lacks. They belong to no graph."""
        return self._missing

    # --- editing -----------------------------------------------------------------------------------------------

    def add(
        self,
        op: str,
        inputs: Sequence[Value] = (),
        name: str = "",
        *,
        attrs: Mapping[str, Attr] | None = None,
        control_inputs: Iterable[Node] = (),
        device: str = "",
        before: Node | None = None,
    ) -> Node:
        """A new node, at the end or in front of `before`. O(inputs).

        Args:
            op: TensorFlow op name.
            inputs: data inputs.
            name: wished name; `_1`, `_2`... is appended if it is taken. Default: the op's name.
            attrs: attributes.
            control_inputs: nodes to wait for.
            device: placement.
            before: the node to stand in front of in file order.
        """
        node = Node(self.unique_name(name or op), op, device)
        node._attrs = dict(attrs or {})
        self._link(node, before)
        self._by_name[node.name] = node
        node.set_inputs(inputs)
        node.set_control_inputs(control_inputs)
        return node

    def constant(
        self, content: Tensor | np.ndarray[Any, Any] | float | Sequence[Any], name: str = "Const", *, before: Node | None = None
    ) -> Value:
        """A new `Const` node's value. Arrays are shared, not copied."""
        tensor = content if isinstance(content, Tensor) else Tensor.from_array(content)
        return self.add("Const", name=name, attrs={"dtype": tensor.dtype, "value": tensor}, before=before).output()

    def restore(self, node: Node) -> bool:
        """Append a loaded node under its own name, even if the name is taken; False if it was (see `problems`)."""
        fresh = node.name not in self._by_name
        if not fresh:
            self.problems.append(Problem("another node has the same name", node.name))
        self._by_name[node.name] = node  # TensorFlow's tools let the last one win
        self._link(node, None)
        return fresh

    def stand_in(self, name: str) -> Node:
        """The stand-in for a node the file does not have, so that the reference survives."""
        return self._missing.setdefault(name, Node(name, ""))

    def remove(self, *nodes: Node) -> None:
        """Take nodes out, all or none. O(their edges).

        Raises:
            GraphError: a node that stays reads one of them or waits for it, or one is a graph output.
        """
        going = set(nodes)
        for node in nodes:
            for reader in node.readers:
                if reader not in going:
                    raise GraphError(f"'{node.name}' cannot go: '{reader.name}' still uses it")
            if any(v.node is node for v in self.outputs):
                raise GraphError(f"'{node.name}' cannot go: it is an output of the graph")
        for node in nodes:
            node.set_inputs(())
            node.set_control_inputs(())
            self._unlink(node)
            if self._by_name.get(node.name) is node:
                del self._by_name[node.name]
        self.inputs = [v for v in self.inputs if v.node not in going]

    def rename(self, node: Node, name: str) -> None:
        """Give a node another name; every reference follows. O(1).

        Raises:
            GraphError: the name is taken.
        """
        if name == node.name:
            return
        if name in self._by_name:
            raise GraphError(f"'{node.name}' cannot be renamed: there is already a node '{name}'")
        if self._by_name.get(node.name) is node:
            del self._by_name[node.name]
        node._name = name
        self._by_name[name] = node

    def replace(self, old: Node, new: Node, ports: Mapping[int, Value] | None = None) -> None:
        """Put `new` in the place of `old`: its name, its readers, its waiters, its role as graph input or output.

        `old` leaves the graph; what it read stays. Values map port by port unless `ports` says otherwise.
        Control inputs of `old` move to `new`. O(readers).
        """
        for value in old.outputs:
            target = (ports or {}).get(value.port) or new.output(value.port)
            value.replace_uses(target)
            self.outputs = [target if v is value else v for v in self.outputs]
            self.inputs = [target if v is value else v for v in self.inputs]
        for waiter in old.control_outputs:
            waiter.remove_control_input(old)
            if waiter is not new:
                waiter.add_control_input(new)
        for awaited in old.control_inputs:
            if awaited is not new:
                new.add_control_input(awaited)
        name = old.name
        self.remove(old)
        self.rename(new, name)

    def move_before(self, node: Node, mark: Node) -> None:
        """Change file order: `node` goes right in front of `mark`. O(1)."""
        if node is not mark:
            self._unlink(node)
            self._link(node, mark)

    def reorder(self, nodes: Sequence[Node]) -> None:
        """Set the file order of all nodes at once.

        Raises:
            GraphError: the sequence is not a permutation of the graph's nodes.
        """
        if len(nodes) != self._count or any(n.graph is not self for n in nodes) or len(set(nodes)) != self._count:
            raise GraphError("reorder needs every node of the graph exactly once")
        for node in nodes:
            self._unlink(node)
        for node in nodes:
            self._link(node, None)

    def unique_name(self, base: str) -> str:
        """`base` if it is free, else `base_1`, `base_2`... O(1) on average."""
        if base not in self._by_name:
            return base
        count = self._serial.get(base, 0)
        while True:
            count += 1
            name = f"{base}_{count}"
            if name not in self._by_name:
                self._serial[base] = count
                return name

    def clone(self) -> Graph:
        """A copy with its own nodes and edges; tensors, sources and other immutable things are shared. O(nodes + edges)."""
        copy = Graph()
        copy.versions, copy.passenger, copy.path = self.versions, self.passenger, self.path
        copy.problems = list(self.problems)
        twins: dict[Node, Node] = {}
        for node in (*self, *self._missing.values()):
            twin = Node(node.name, node.op, node.device, node.source)
            twin._attrs = None if node._attrs is None else dict(node._attrs)
            twin.origin = node.origin
            twins[node] = twin
            if node.graph is self:
                copy._link(twin, None)
            else:
                copy._missing[node.name] = twin
        copy._by_name = {name: twins[node] for name, node in self._by_name.items()}
        for node, twin in twins.items():
            twin.set_inputs([twins[v.node].output(v.port) for v in node._inputs])
            for awaited in node._controls:
                twin.add_control_input(twins[awaited])
            for value in node._outputs:
                twin.output(value.port).spec = value.spec
        copy.inputs = [twins[v.node].output(v.port) for v in self.inputs]
        copy.outputs = [twins[v.node].output(v.port) for v in self.outputs]
        return copy

    # --- the linked list ---------------------------------------------------------------------------------------

    def _link(self, node: Node, before: Node | None) -> None:
        previous = self._last if before is None else before._previous
        node.graph, node._previous, node._next = self, previous, before
        if previous is None:
            self._first = node
        else:
            previous._next = node
        if before is None:
            self._last = node
        else:
            before._previous = node
        self._count += 1

    def _unlink(self, node: Node) -> None:
        if node.graph is not self:
            raise NodeError("the node is not in this graph", node.where)
        if node._previous is None:
            self._first = node._next
        else:
            node._previous._next = node._next
        if node._next is None:
            self._last = node._previous
        else:
            node._next._previous = node._previous
        node.graph = None  # _next stays, so that an iteration standing here finds its way on
        self._count -= 1

    def __repr__(self) -> str:
        return f"Graph({self.path or 'unnamed'}, {len(self)} nodes)"


def parse_value_name(name: str) -> tuple[str, int]:
    """`a` and `a:0` are ("a", 0); `a:2` is ("a", 2)."""
    node, _, port = name.strip().partition(":")
    return node, int(port) if port.isdecimal() else 0


def value_dtype_hint(node: Node, *names: str) -> DType | None:
    """The first of these attributes that holds a type."""
    for name in names:
        value = node.attrs.get(name)
        if isinstance(value, DType):
            return dtype(value)
    return None
