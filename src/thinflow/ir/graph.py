"""The graph: nodes, the values between them, and edits that cannot leave it half-changed.

A `Value` is one output port of a node and knows every place that reads it; only `Node` changes that index.
Names are kept by `names`, the file order by `node_list`; the larger edits are in `replacing`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from thinflow.errors import GraphError, closest
from thinflow.ir import replacing
from thinflow.ir.attrs import Attr, normalize
from thinflow.ir.carried import Passenger, StateVariable, Versions
from thinflow.ir.copying import copy_into
from thinflow.ir.names import Names, parse_value_name, require_legal
from thinflow.ir.node import Node, NodeSource
from thinflow.ir.node_list import NodeList
from thinflow.ir.problem import Problem
from thinflow.ir.tensor import Tensor
from thinflow.ir.value import Use, Value

if TYPE_CHECKING:
    import numpy as np

    from thinflow.ir.function import Function

__all__ = ["Graph", "Node", "NodeSource", "Passenger", "Problem", "StateVariable", "Use", "Value", "Versions"]


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
        states: what is kept from one run to the next; each is an input and an output, too. See `ir.states`.
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
        self.states: tuple[StateVariable, ...] = ()
        self._inputs: list[Value] = []
        self._outputs: list[Value] = []
        self._input_set: set[Value] = set()
        self._output_set: set[Value] = set()
        self._protected: set[Node] = set()
        self._names = Names()
        self._nodes = NodeList()

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
        return (n for n in self._nodes.now() if n.graph is self)

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, item: str | Node) -> bool:
        return item.graph is self if isinstance(item, Node) else item in self._names.by_name

    def find(self, name: str) -> Node | None:
        """The node of that name, None if there is none.

        Of duplicates the last, as in TensorFlow's tools. O(1).
        """
        return self._names.by_name.get(name)

    def node(self, name: str) -> Node:
        """The node of that name. O(1).

        Raises:
            GraphError: there is none; the closest names are offered.
        """
        names = self._names.by_name
        found = names.get(name)
        if found is None:
            # Closest names are found by comparing with every one, which takes too long in a large graph.
            near = closest(name, names) if len(names) < 20_000 else ""
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
        # A node that is there is meant by its name, even if an alias is spelled alike.
        if port or node_name not in self._names.by_name:
            alias = self.aliases.get(f"{node_name}:{port}" if port else node_name)
            # One step and no more, so that aliases in a circle end here.
            if alias is not None and alias != name:
                node_name, port = parse_value_name(alias)
        return self.node(node_name).output(port)

    @property
    def missing(self) -> Mapping[str, Node]:
        """Stand-ins for nodes that inputs refer to and the file lacks. They belong to no graph."""
        return self._names.missing

    @property
    def duplicates(self) -> list[str]:
        """Names that more than one node has."""
        return self._names.duplicates

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
        wished = self._names.legal(name or op)
        if before is not None:
            self._require_mine(before)
        node = Node(self._names.unique(wished), op, device)
        node._attrs = {k: normalize(v) for k, v in (attrs or {}).items()}
        node.graph = self  # for the checks
        awaited = list(control_inputs)
        # Everything is checked before the node enters, so that an error leaves no half-made node behind.
        for item in (*inputs, *awaited):
            node._checked(item)
        self._enter(node, before)
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
        wished = self._names.legal(name)
        if before is not None:
            self._require_mine(before)
        node = Node(self._names.unique(wished), original.op, device, original.source)
        # As yet undecoded attributes stay undecoded: the source behind both nodes gives them when asked.
        node._attrs = None if original._attrs is None else dict(original._attrs)
        self._enter(node, before)
        return node

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
        self._enter(node, None)

    def _enter(self, node: Node, before: Node | None) -> None:
        node.graph = self
        self._names.enter(node)
        self._nodes.insert(node, before)

    def stand_in(self, name: str) -> Node:
        """The stand-in for a node the file does not have, so that the reference survives."""
        return self._names.missing.setdefault(name, Node(name, ""))

    def remove(self, *nodes: Node) -> None:
        """Take nodes out, all or none. O(their edges).

        Raises:
            GraphError: a node that stays uses one of them, or one is an input or output of the graph.
        """
        going = dict.fromkeys(nodes)
        # All checks come before the first removal: either every node goes or none.
        for node in going:
            self._require_mine(node)
            if node in self._protected:
                raise GraphError(f"'{node.name}' cannot go: it is an input or output of the graph")
            for reader in node.readers:
                # Nodes may go together that read each other, such as a loop.
                if reader not in going:
                    raise GraphError(f"'{node.name}' cannot go: '{reader.name}' still uses it")
        for node in going:
            node.set_inputs(())
            node.set_control_inputs(())
            self._names.forget(node)
            self._nodes.remove(node)
            node.graph = None

    def rename(self, node: Node, name: str) -> None:
        """Give a node another name; every reference follows. O(1). `_class` annotations do not, see
        `rewrite.edits`.

        Raises:
            GraphError: the name is taken or illegal.
        """
        self._require_mine(node)
        if name == node.name:
            return
        if self._names.is_taken(name):
            raise GraphError(
                f"'{node.name}' cannot be renamed: there is already a node '{name}'",
                hint="choose another name",
            )
        require_legal(name)
        self._set_name(node, name)

    def _set_name(self, node: Node, name: str) -> None:
        # No check of the name here: a node that takes the place of another may have to keep an illegal one.
        self._names.forget(node)
        node._name = name
        self._names.enter(node)

    def replace(self, old: Node, new: Node, ports: Mapping[int, Value] | None = None) -> None:
        """Put the fresh node `new` in the place of `old`: name, position, readers, waiters, role as input or
        output. O(readers).

        `old` leaves the graph; what it read stays. `new` may read `old` no longer; nobody else may read `new`
        yet, but for nodes made for this replacement. Values map port by port unless `ports` says otherwise.
        Control inputs of `old` go over to `new`.

        Raises:
            GraphError: `new` is `old` or protected, or a protected port would not be on `new`. Nothing
                changes then.
        """
        self._require_mine(old)
        self._require_mine(new)
        replacing.replace(self, old, new, ports or {})

    def bypass(self, node: Node, values: Mapping[int, Value], *, keep_control: bool = True) -> None:
        """Take a node out and let its readers read other values instead; nothing is renamed. O(readers).

        Whoever waited for the node waits for the producers of those values; what the node waited for, its
        readers and waiters wait for from now on, unless `keep_control` is False.

        Raises:
            GraphError: the node is an input or output of the graph, or a port that is read has no value.
                Nothing changes then.
        """
        self._require_mine(node)
        if node in self._protected:
            raise GraphError(f"'{node.name}' cannot go: it is an input or output of the graph")
        replacing.bypass(self, node, values, keep_control=keep_control)

    def move_before(self, node: Node, mark: Node) -> None:
        """Change file order: `node` goes right in front of `mark`. O(1)."""
        self._require_mine(node)
        self._require_mine(mark)
        if node is not mark:
            self._nodes.remove(node)
            self._nodes.insert(node, mark)

    def reorder(self, nodes: Sequence[Node]) -> None:
        """Set the file order of all nodes at once.

        Raises:
            GraphError: the sequence is not a permutation of the graph's nodes.
        """
        if not len(nodes) == len(set(nodes)) == len(self) or any(n.graph is not self for n in nodes):
            raise GraphError("reorder needs every node of the graph exactly once")
        # All out, then all in: inserting at the end is O(1), and no node is ever looked for.
        for node in nodes:
            self._nodes.remove(node)
        for node in nodes:
            self._nodes.insert(node, None)

    def unique_name(self, base: str) -> str:
        """`base` if it is free, else `base_1`, `base_2`... O(1) on average."""
        return self._names.unique(base)

    def clone(self) -> Graph:
        """A copy with its own nodes and edges; tensors, sources and other immutable things are shared.

        O(nodes + edges).
        """
        copy = Graph()
        copy_into(copy, self)
        return copy

    def __deepcopy__(self, memo: object) -> Graph:
        return self.clone()

    def _require_mine(self, node: Node) -> None:
        if node.graph is not self:
            raise GraphError(
                "the node is not in this graph, or no longer",
                node.where,
                hint="look it up in this graph again",
            )

    def __repr__(self) -> str:
        return f"Graph({self.path or 'unnamed'}, {len(self)} nodes)"
