"""The graph: nodes, the values between them, and edits that cannot leave it half-changed.

A `Value` is one output port of a node and knows every place that reads it. Only `Node` changes that index, so
it cannot
go stale. Control edges are kept the same way on both of their ends. Nodes are a linked list in file order,
which may be
edited while it is walked. Names are looked up in O(1).
"""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from thinflow.errors import GraphError, closest
from thinflow.ir.attrs import Attr, ShapeAttr, normalize
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import UNKNOWN, DType, Shape, TensorSpec

if TYPE_CHECKING:
    import numpy as np

    from thinflow.ir.function import Function


LEGAL_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>\-]*\Z")
"""What TensorFlow accepts as a node name."""
_ILLEGAL = re.compile(r"[^A-Za-z0-9_.\\/>\-]")


class Use(NamedTuple):
    """One place that reads a value: input number `index` of `node`."""

    node: Node
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here


_use = cast("Callable[[tuple[Node, int]], Use]", partial(tuple.__new__, Use))
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
        """Whether any data input reads this value."""
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
        """Whether somebody asked for this value. O(1)."""
        graph = self.node.graph
        return graph is not None and self in graph._output_set

    @property
    def is_graph_input(self) -> bool:
        """Whether this value is fed from outside. O(1)."""
        graph = self.node.graph
        return graph is not None and self in graph._input_set

    def replace_uses(self, other: Value, *, keep: Iterable[Node] = ()) -> int:
        """Let every reader but those in `keep` read `other` instead; the number of inputs changed.
        O(readers).

        Graph outputs are not changed: whoever asked for them asked by name.
        """
        kept = set(keep)
        uses = [use for use in self.uses if use.node not in kept]
        for use in uses:
            use.node.set_input(use.index, other)
        return len(uses)

    def _add_use(self, use: Use) -> None:
        uses = self._uses
        if not uses:
            self._uses = use
        elif isinstance(uses, Use):
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
    """What a file format keeps behind a node, to decode late and to write back what nobody touched."""

    def attrs(self) -> Mapping[str, Attr]:
        """The attributes as loaded.

        The same objects on every call, so that untouched ones are recognised by identity.
        """
        ...


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
        self.graph: Graph | None = None
        self._attrs: dict[str, Attr] | None = None if source is not None else {}
        self._inputs: list[Value] = []
        self._output: Value | None = None  # port 0, the only one of nearly all nodes
        self._others: dict[int, Value] | None = None
        self._controls: dict[Node, None] | None = None  # nodes that must run before this one
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
        return tuple(self._controls or ())

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
        """Whether this is a stand-in for a node that the file refers to and lacks."""
        return not self.op

    @property
    def is_used(self) -> bool:
        """Whether anything reads an output or waits for the node."""
        return bool(self._successors) or any(v._uses for v in self.outputs)

    @property
    def readers(self) -> tuple[Node, ...]:
        """Every node that reads an output or waits for this node, each once."""
        readers = dict.fromkeys(use.node for v in self.outputs for use in v.uses)
        readers.update(self._successors or {})
        return tuple(readers)

    @property
    def is_protected(self) -> bool:
        """Whether the node is an input or output of its graph, so that its name must survive. O(1)."""
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
        new = self._checked(value)
        use = _use((self, index))
        self._inputs[index]._drop_use(use)
        self._inputs[index] = new
        new._add_use(use)

    def set_inputs(self, values: Sequence[Value | Node]) -> None:
        """Replace all data inputs; a node stands for its output 0."""
        graph, new = self.graph, list[Value]()
        for value in values:
            if isinstance(value, Value) and value.node.graph is graph:
                new.append(value)
            else:
                new.append(self._checked(value))
        if self._inputs:
            for index, old in enumerate(self._inputs):
                old._drop_use(_use((self, index)))
        self._inputs = new
        for index, value in enumerate(new):
            value._add_use(_use((self, index)))

    def add_control_input(self, node: Node) -> None:
        """Wait for `node`. Twice is once."""
        self._checked(node)
        if self._controls is None:
            self._controls = {}
        if node._successors is None:
            node._successors = {}
        self._controls[node] = None
        node._successors[self] = None

    def remove_control_input(self, node: Node) -> None:
        """Stop waiting for `node`; fine if it did not."""
        if self._controls is not None and node._successors is not None:
            self._controls.pop(node, None)
            node._successors.pop(self, None)

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

    def _checked(self, value: Value | Node) -> Value:
        """The value to read, if its node lives in the same graph as this one (or is a stand-in)."""
        if isinstance(value, Node):
            value = value.output()
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


@dataclass(frozen=True)
class Versions:
    """`GraphDef.versions`: which TensorFlow wrote the graph and which may read it."""

    producer: int = 0
    min_consumer: int = 0
    bad_consumers: tuple[int, ...] = ()


@dataclass(frozen=True)
class Problem:
    """One broken rule of a graph. Two are equal if they are of one kind at one node, however the text puts
    it.

    Attributes:
        kind: "missing input", "duplicate name", "illegal name", "port", "cycle", "order" or "interface".
        node: name of the node at fault.
        text: the problem in words.
    """

    kind: str
    node: str
    text: str = field(compare=False)

    def __str__(self) -> str:
        return f"node '{self.node}': {self.text}" if self.node else self.text


@dataclass(frozen=True)
class Passenger:
    """What a format carries through beyond nodes: (field number, bytes with tag) in file order."""

    fields: tuple[tuple[int, bytes], ...] = ()


@contextmanager
def paused_gc() -> Iterator[None]:
    """No cycle collection inside: a graph is one big cycle, and walking it again and again while it grows
    costs most.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class Graph:
    """Nodes in file order, with the values that go in and come out.

    Attributes:
        versions: carried through.
        passenger: file contents carried through.
        functions: the library of functions that nodes may call, by name; read-only, decoded on first use.
        path: where the graph was loaded from, "" if nowhere.
        problems: what only the file's spelling shows to be broken (a data input after a control input...).
        aliases: other names of values, such as those a signature renamed: old name -> name.
        vocabulary: whose ops these are: "" TensorFlow's, "tflite" or "onnx". Ops of others begin with `tfl.`
            or `onnx.`; such a graph is for looking at and for running its file, not for transforming.
        facts: what the file says of itself (producer, version, signatures...): topic -> text.
    """

    def __init__(self) -> None:
        self.versions: Versions | None = None
        self.passenger = Passenger()
        self.functions: Mapping[str, Function] = {}
        self.path = ""
        self.problems: list[Problem] = []
        self.aliases: dict[str, str] = {}
        self.vocabulary = ""
        self.facts: dict[str, str] = {}
        self._inputs: list[Value] = []
        self._outputs: list[Value] = []
        self._input_set: set[Value] = set()
        self._output_set: set[Value] = set()
        self._protected: set[Node] = set()
        self._by_name: dict[str, Node] = {}
        self._shadowed: dict[str, list[Node]] = {}
        self._missing: dict[str, Node] = {}
        self._first: Node | None = None
        self._last: Node | None = None
        self._count = 0
        self._serial: dict[str, int] = {}
        self._odd_names: bool | None = None

    # --- reading ------------------------------------------------------------------------------------------

    @property
    def inputs(self) -> list[Value]:
        """Values the caller feeds; declared, or guessed when the file was loaded.

        Assign a list to change them.
        """
        return list(self._inputs)

    @inputs.setter
    def inputs(self, values: Iterable[Value]) -> None:
        self._declare(list(values), self._outputs)

    @property
    def outputs(self) -> list[Value]:
        """Values the caller wants; their names survive every transform. Assign a list to change them."""
        return list(self._outputs)

    @outputs.setter
    def outputs(self, values: Iterable[Value]) -> None:
        self._declare(self._inputs, list(values))

    def _declare(self, inputs: list[Value], outputs: list[Value]) -> None:
        for value in (*inputs, *outputs):
            self._require_mine(value.node)
        self._inputs, self._outputs = inputs, outputs
        self._input_set, self._output_set = set(inputs), set(outputs)
        self._protected = {v.node for v in (*inputs, *outputs)}

    def __iter__(self) -> Iterator[Node]:
        """Nodes in the file order of this moment; those removed meanwhile are skipped, those added are not
        seen.
        """
        nodes = []
        node = self._first
        while node is not None:
            nodes.append(node)
            node = node._next
        return (n for n in nodes if n.graph is self)

    def __len__(self) -> int:
        return self._count

    def __contains__(self, item: str | Node) -> bool:
        return item.graph is self if isinstance(item, Node) else item in self._by_name

    def find(self, name: str) -> Node | None:
        """The node of that name, None if there is none.

        Of duplicates the last, as in TensorFlow's tools. O(1).
        """
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
                f"there is no node named '{name}'",
                hint=near or "`thinflow inspect MODEL` lists inputs and outputs",
            )
        return found

    def value(self, name: str) -> Value:
        """The value called `node` or `node:port`, or one of which that is an alias.

        Raises:
            GraphError: no such node, or the port is not a number.
        """
        node_name, port = parse_value_name(name)
        if node_name not in self._by_name or port:
            alias = self.aliases.get(f"{node_name}:{port}" if port else node_name)
            if alias is not None and alias != name:
                node_name, port = parse_value_name(alias)
        return self.node(node_name).output(port)

    @property
    def missing(self) -> Mapping[str, Node]:
        """Stand-ins for nodes that inputs refer to and the file lacks. They belong to no graph."""
        return self._missing

    @property
    def duplicates(self) -> list[str]:
        """Names that more than one node has."""
        return [name for name, nodes in self._shadowed.items() if nodes]

    # --- editing ------------------------------------------------------------------------------------------

    def add(
        self,
        op: str,
        inputs: Sequence[Value | Node] = (),
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
            inputs: data inputs; a node stands for its output 0.
            name: wished name; `_1`, `_2`... is appended if it is taken. Default: the op's name. In a graph
                that came with illegal names, a name made from one of those has `_` for what is illegal.
            attrs: attributes; `str` becomes bytes, lists tuples, numpy scalars plain numbers.
            control_inputs: nodes to wait for.
            device: placement.
            before: the node to stand in front of in file order.

        Raises:
            GraphError: an illegal name, or a node of another graph. Nothing is added then.
        """
        wished = self._legal(name or op)
        if before is not None:
            self._require_mine(before)
        node = Node(self.unique_name(wished), op, device)
        node._attrs = {k: normalize(v) for k, v in (attrs or {}).items()}
        node.graph = self
        awaited = list(control_inputs)
        for item in (*inputs, *awaited):
            node._checked(item)
        self._link(node, before)
        self._by_name[node.name] = node
        node.set_inputs(inputs)
        node.set_control_inputs(awaited)
        return node

    def graft(self, original: Node, name: str, *, device: str = "", before: Node | None = None) -> Node:
        """A new node with the op and the attributes of one of another graph, still without edges. O(1).

        Attributes that nobody changed are shared, and decoded when somebody asks.

        Args:
            original: what to copy.
            name: wished name, as in `add`.
            device: placement.
            before: the node to stand in front of in file order; default the end.

        Raises:
            GraphError: an illegal name. Nothing is added then.
        """
        wished = self._legal(name)
        if before is not None:
            self._require_mine(before)
        node = Node(self.unique_name(wished), original.op, device, original.source)
        node._attrs = None if original._attrs is None else dict(original._attrs)
        self._link(node, before)
        self._by_name[node.name] = node
        return node

    def _legal(self, name: str) -> str:
        """The name; in a graph with illegal ones, the nearest legal one.

        Raises:
            GraphError: it is illegal, and the graph has none such.
        """
        if LEGAL_NAME.match(name):
            return name
        if not self._has_odd_names:
            raise GraphError(f"'{name}' is not a legal node name", hint="use letters, digits and _ . / -")
        return _made_legal(name)

    @property
    def _has_odd_names(self) -> bool:
        """Whether the file holds names that TensorFlow would not take. O(nodes) when first asked."""
        if self._odd_names is None:
            self._odd_names = not all(LEGAL_NAME.match(name) for name in self._by_name)
        return self._odd_names

    def constant(
        self, content: Tensor | np.ndarray[Any, Any], name: str = "Const", *, before: Node | None = None
    ) -> Value:
        """A new `Const` node's value.

        Arrays are shared, not copied; their numpy type decides the element type.
        """
        tensor = content if isinstance(content, Tensor) else Tensor.from_array(content)
        return self.add(
            "Const", name=name, attrs={"dtype": tensor.dtype, "value": tensor}, before=before
        ).output()

    def restore(self, node: Node) -> None:
        """Append a loaded node under its own name, even if the name is taken; `find` then gives the newer
        one.
        """
        name = node._name
        older = self._by_name.get(name)
        if older is not None:
            self._shadowed.setdefault(name, []).append(older)
        self._by_name[name] = node
        self._link(node, None)

    def stand_in(self, name: str) -> Node:
        """The stand-in for a node the file does not have, so that the reference survives."""
        return self._missing.setdefault(name, Node(name, ""))

    def remove(self, *nodes: Node) -> None:
        """Take nodes out, all or none. O(their edges).

        Raises:
            GraphError: a node that stays uses one of them, or one is an input or output of the graph.
        """
        going = dict.fromkeys(nodes)
        for node in going:
            self._require_mine(node)
            if node in self._protected:
                raise GraphError(f"'{node.name}' cannot go: it is an input or output of the graph")
            for reader in node.readers:
                if reader not in going:
                    raise GraphError(f"'{node.name}' cannot go: '{reader.name}' still uses it")
        for node in going:
            node.set_inputs(())
            node.set_control_inputs(())
            self._forget_name(node)
            self._unlink(node)

    def rename(self, node: Node, name: str) -> None:
        """Give a node another name; every reference follows. O(1). `_class` annotations do not, see
        `rewrite.edits`.

        Raises:
            GraphError: the name is taken or illegal.
        """
        self._require_mine(node)
        if name == node.name:
            return
        if name in self._by_name or name in self._missing:
            raise GraphError(
                f"'{node.name}' cannot be renamed: there is already a node '{name}'",
                hint="choose another name",
            )
        if not LEGAL_NAME.match(name):
            raise GraphError(f"'{name}' is not a legal node name", hint="use letters, digits and _ . / -")
        self._set_name(node, name)

    def _set_name(self, node: Node, name: str) -> None:
        self._forget_name(node)
        node._name = name
        self._by_name[name] = node

    def replace(self, old: Node, new: Node, ports: Mapping[int, Value] | None = None) -> None:
        """Put the fresh node `new` in the place of `old`: name, position, readers, waiters, role as input or
        output.

        `old` leaves the graph; what it read stays. `new` may read `old` no longer; nobody else may read `new`
        yet, but for
        nodes made for this replacement. Values map port by port unless `ports` says otherwise. Control inputs
        of `old` go
        over to `new`. O(readers).

        Raises:
            GraphError: `new` is `old` or protected, or a protected port would not be on `new`. Nothing
                changes then.
        """
        self._require_mine(old)
        self._require_mine(new)
        targets: dict[Value, Value] = {}
        for value in old.outputs:
            protected = value in self._output_set or value in self._input_set
            if value.uses or protected:
                target = (ports or {}).get(value.port)
                targets[value] = new.output(value.port) if target is None else target
                if protected and targets[value].node is not new:
                    raise GraphError(
                        f"'{value.name}' is asked for by name and '{new.name}' does not provide it"
                    )
        if new is old or new in self._protected:
            raise GraphError(
                f"'{new.name}' cannot take the place of '{old.name}': it has a name of its own to keep"
            )
        if any(v.node is old for v in new.inputs):
            raise GraphError(f"'{new.name}' reads '{old.name}', which it is to replace")
        inputs, outputs = self._inputs, self._outputs
        if old in self._protected:
            inputs = [targets.get(v, v) for v in inputs]
            outputs = [targets.get(v, v) for v in outputs]
        for value, target in targets.items():
            value.replace_uses(target)
            if target.spec is UNKNOWN:
                target.spec = value.spec
        for waiter in old.control_outputs:
            order = [new if n is old else n for n in waiter.control_inputs]
            waiter.set_control_inputs(n for n in order if n is not waiter)
        for awaited in old.control_inputs:
            if awaited is not new:
                new.add_control_input(awaited)
        new.device = new.device or old.device
        if old in self._protected:
            self._declare(inputs, outputs)
        self.move_before(new, old)
        name = old.name
        self.remove(old)
        self._set_name(new, name)  # which may be illegal: it comes from the file

    def bypass(self, node: Node, values: Mapping[int, Value], *, keep_control: bool = True) -> None:
        """Take a node out and let its readers read other values instead; nothing is renamed. O(readers).

        Whoever waited for the node waits for the producers of those values; what the node waited for, its
        readers and
        waiters wait for from now on, unless `keep_control` is False.

        Raises:
            GraphError: the node is an input or output of the graph, or a port that is read has no value.
                Nothing changes then.
        """
        self._require_mine(node)
        if node in self._protected:
            raise GraphError(f"'{node.name}' cannot go: it is an input or output of the graph")
        for value in node.outputs:
            if value.uses and value.port not in values:
                raise GraphError(f"'{value.name}' is read, and nothing is given to read instead")
        producers = dict.fromkeys(v.node for v in values.values())
        awaited = node.control_inputs if keep_control else ()
        readers = node.readers
        waiters = node.control_outputs
        for value in node.outputs:
            if value.uses:
                value.replace_uses(values[value.port])
        for waiter in waiters:
            waiter.remove_control_input(node)
            for producer in producers:
                waiter.add_control_input(producer)
        for reader in readers:
            for before in awaited:
                if before is not reader:
                    reader.add_control_input(before)
        self.remove(node)

    def move_before(self, node: Node, mark: Node) -> None:
        """Change file order: `node` goes right in front of `mark`. O(1)."""
        self._require_mine(node)
        self._require_mine(mark)
        if node is not mark:
            self._unlink(node)
            self._link(node, mark)

    def reorder(self, nodes: Sequence[Node]) -> None:
        """Set the file order of all nodes at once.

        Raises:
            GraphError: the sequence is not a permutation of the graph's nodes.
        """
        if (
            len(nodes) != self._count
            or any(n.graph is not self for n in nodes)
            or len(set(nodes)) != self._count
        ):
            raise GraphError("reorder needs every node of the graph exactly once")
        for node in nodes:
            self._unlink(node)
        for node in nodes:
            self._link(node, None)

    def unique_name(self, base: str) -> str:
        """`base` if it is free, else `base_1`, `base_2`... O(1) on average."""
        if base not in self._by_name and base not in self._missing:
            return base
        count = self._serial.get(base, 0)
        while True:
            count += 1
            name = f"{base}_{count}"
            if name not in self._by_name and name not in self._missing:
                self._serial[base] = count
                return name

    def clone(self) -> Graph:
        """A copy with its own nodes and edges; tensors, sources and other immutable things are shared.

        O(nodes + edges).
        """
        copy = Graph()
        copy.versions, copy.passenger, copy.path = self.versions, self.passenger, self.path
        copy.functions, copy.aliases = self.functions, dict(self.aliases)
        copy.vocabulary, copy.facts = self.vocabulary, dict(self.facts)
        copy.problems, copy._serial = list(self.problems), dict(self._serial)
        twins: dict[Node, Node] = {}
        with paused_gc():
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
            copy._shadowed = {name: [twins[n] for n in nodes] for name, nodes in self._shadowed.items()}
            for node, twin in twins.items():
                twin._inputs = [twins[v.node].output(v.port) for v in node._inputs]
                for value in node.outputs:
                    double = twin.output(value.port)
                    double.spec = value.spec
                    for use in value.uses:  # in the same order, so that edits go as they would here
                        double._add_use(_use((twins[use.node], use.index)))
                if node._controls:
                    twin._controls = {twins[n]: None for n in node._controls}
                if node._successors:
                    twin._successors = {twins[n]: None for n in node._successors}
        copy._declare(
            [twins[v.node].output(v.port) for v in self._inputs],
            [twins[v.node].output(v.port) for v in self._outputs],
        )
        return copy

    def __deepcopy__(self, memo: object) -> Graph:
        return self.clone()

    # --- the linked list ----------------------------------------------------------------------------------

    def _require_mine(self, node: Node) -> None:
        if node.graph is not self:
            raise GraphError(
                "the node is not in this graph, or no longer",
                node.where,
                hint="look it up in this graph again",
            )

    def _forget_name(self, node: Node) -> None:
        shadowed = self._shadowed.get(node.name)
        if self._by_name.get(node.name) is node:
            del self._by_name[node.name]
            if shadowed:
                self._by_name[node.name] = shadowed.pop()
        elif shadowed and node in shadowed:
            shadowed.remove(node)

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
        if node._previous is None:
            self._first = node._next
        else:
            node._previous._next = node._next
        if node._next is None:
            self._last = node._previous
        else:
            node._next._previous = node._previous
        node.graph = node._previous = node._next = None
        self._count -= 1

    def __repr__(self) -> str:
        return f"Graph({self.path or 'unnamed'}, {len(self)} nodes)"


def _made_legal(name: str) -> str:
    """The nearest name that TensorFlow accepts."""
    legal = _ILLEGAL.sub("_", name)
    return legal if LEGAL_NAME.match(legal) else f"n{legal}"


def parse_value_name(name: str) -> tuple[str, int]:
    """`a` and `a:0` are ("a", 0); `a:2` is ("a", 2).

    Raises:
        GraphError: what follows the colon is not a port number.
    """
    node, colon, port = name.strip().partition(":")
    if colon and not (port.isascii() and port.isdecimal() and len(port) < 8):
        raise GraphError(
            f"'{name}' is not a tensor name", hint="write node or node:port, for example conv1:0"
        )
    if node.startswith("^"):
        raise GraphError(f"'{name}' is a control input, not a tensor", hint="leave out the ^")
    return node, int(port or 0)
