"""Nodes that compute nothing new: doubles of others, and those that only hand their input on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from thinflow.errors import ParameterError
from thinflow.ir.attrs import FunctionAttr, attr_key
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import MERGES, execution_order
from thinflow.ir.tensor import Tensor
from thinflow.ops import registry
from thinflow.ops._defaults import defaults_of
from thinflow.ops.traits import Trait, commutes, has
from thinflow.rewrite.edits import Site, rename_colocation
from thinflow.rewrite.rule import Refuse, Trace, Transform, transform
from thinflow.transforms.shared.branch_sides import loses_its_side
from thinflow.transforms.shared.effects import effect_free, is_stateless

_IDENTITY_BYTES = 48
"""About what an Identity takes in the file, without the two names in it."""


@transform("merge_duplicate_nodes")
@dataclass(frozen=True)
class MergeDuplicateNodes(Transform):
    """Compute what is computed twice only once.

    a = Relu(x); b = Relu(x); y = Add(a, b)  ->  a = Relu(x); y = Add(a, a)

    Two nodes are the same if op, device, attributes, constants and what they wait for are, and their inputs
    are the same in turn. The first of them stays, or one that is asked for by name.

    Attributes:
        assume_stateless: ops thinflow does not know, or takes to have side effects, that may be merged all
            the same.
        commutative: `a + b` equals `b + a`, for ops of which that is known.
    """

    assume_stateless: tuple[str, ...] = ()
    commutative: bool = False

    def apply(self, graph: Graph, trace: Trace) -> None:
        position = {node: i for i, node in enumerate(graph)}
        merged: dict[str, str] = {}
        for group in self.groups(graph, trace):
            # The first in the file survives, whatever the order in which they were found.
            group.sort(key=position.__getitem__)
            # A name that is asked for goes before age.
            survivor = next((n for n in group if n.is_protected), group[0])
            for node in group:
                if node is survivor:
                    continue
                if node.is_protected:
                    self._keep_name(graph, node, survivor, trace)
                else:
                    trace.changed(node, f"same as '{survivor.name}'")
                    redirect(node, survivor)
                    graph.remove(node)
                    merged[node.name] = survivor.name
        rename_colocation(graph, merged)

    def groups(self, graph: Graph, trace: Trace) -> list[list[Node]]:
        """Sets of equal nodes with two members or more. O(nodes + edges), and each constant with a double
        is read once.
        """
        # In execution order: one pass then gives nested doubles the same class number as well.
        order = execution_order(graph)
        # Type and shape of most constants are unique, and those need not be read.
        lookalikes = Counter(_outline(t) for t in (n.tensor for n in order) if t is not None)
        number: dict[Node, int] = {}
        classes: dict[Hashable, int] = {}
        untrusted: dict[Hashable, Node] = {}
        members: list[list[Node]] = []
        for node in order:
            merges = self.may_merge(node)
            key = self._key(node, number, lookalikes)
            index = classes.get(key) if merges and key is not None else None
            if index is None:
                index = len(members)
                members.append([])
                if merges and key is not None:
                    classes[key] = index
            number[node] = index
            members[index].append(node)
            twin = untrusted.setdefault(key, node) if not merges and key is not None else node
            if twin is not node:
                trace.leave(node, f"it looks the same as '{twin.name}', but {_doubt(node)}")
        return [group for group in members if len(group) > 1]

    def may_merge(self, node: Node) -> bool:
        """True if a node depends on nothing but its inputs and does nothing but compute."""
        if has(node.op, Trait.PLACEHOLDER) or any(v.is_graph_input for v in node.outputs):
            return False
        # Reference variables: a read gives the value of its moment.
        if any(has(v.node.op, Trait.TF1_VARIABLE) for v in node.inputs):  # two reads may see two values
            return False
        if any(isinstance(v, FunctionAttr) for v in node.attrs_view.values()):
            return False
        return node.op in self.assume_stateless or is_stateless(node)

    def _key(self, node: Node, number: dict[Node, int], lookalikes: Counter[Hashable]) -> Hashable:
        tensor = node.tensor
        if tensor is not None and lookalikes[_outline(tensor)] == 1:
            return None
        # What a NextIteration hands back to a Merge has no number yet; a Merge never merges.
        inputs = [(number.get(v.node, -1), v.port) for v in node.inputs]
        if self.commutative and len(inputs) == 2 and commutes(node.op, node.attrs_view.get("T")):
            inputs.sort()
        # What two nodes wait for may stand in any order.
        controls = frozenset(number[n] for n in node.control_inputs)
        return node.op, node.device, tuple(inputs), controls, _attrs_key(node)

    def _keep_name(self, graph: Graph, node: Node, survivor: Node, trace: Trace) -> None:
        """A duplicate that was asked for by name stays; if it is a big constant, as an Identity of the
        other.
        """
        tensor = node.tensor
        saved = tensor.storage.stored_bytes if tensor is not None else 0
        if tensor is None or saved <= _IDENTITY_BYTES + len(node.name) + len(survivor.name):
            trace.leave(node, f"it is the same as '{survivor.name}', but an output of the graph")
            return
        trace.changed(node, f"now hands on '{survivor.name}'")
        redirect(node, survivor)
        alias = Site(graph, node, self.name).add("Identity", survivor.output(), attrs={"T": tensor.dtype})
        graph.replace(node, alias.node)


def _doubt(node: Node) -> str:
    if has(node.op, Trait.PLACEHOLDER) or any(v.is_graph_input for v in node.outputs):
        return "it is fed from outside"
    if registry.find(node.op) is None:
        return f"thinflow does not know the op {node.op}; assume_stateless={node.op} merges it"
    return f"{node.op} may give another result each time"


def redirect(node: Node, survivor: Node) -> None:
    """Let all who read or wait for a node use the survivor instead."""
    for value in node.outputs:
        value.replace_uses(survivor.output(value.port))
    for waiter in node.control_outputs:
        waiter.remove_control_input(node)
        waiter.add_control_input(survivor)


def _outline(tensor: Tensor) -> Hashable:
    """Type and shape of a constant, known without reading it."""
    return tensor.dtype, tensor.shape


def _attrs_key(node: Node) -> Hashable:
    """The attributes that matter, without those that only spell out a default."""
    defaults = defaults_of(node.op) or {}
    items = [
        (name, attr_key(value))
        for name, value in node.attrs_view.items()
        # Other underscored attributes are hints; `_class` says where a node has to be.
        if (name == "_class" or not name.startswith("_"))
        and not (name in defaults and attr_key(defaults[name]) == attr_key(value))
    ]
    return frozenset(items)


@transform("remove_nodes")
@dataclass(frozen=True)
class RemoveNodes(Transform):
    """Take out nodes that only hand their input on, so that patterns and runtimes see what is behind them.

    y = Relu(i); i = Identity(x)  ->  y = Relu(x)      remove_nodes(op=Identity, op=CheckNumerics)

    Inputs and outputs of the graph stay, and so does what alone tells others on which branch of TF1 they are:
    to wait for an Identity behind a Switch is to run on its side only, and a control edge from the Switch
    itself names no side.

    Attributes:
        op: which ops; `"A|B"` is both and `"*"` is every op. That they do nothing is taken on trust.
        max_inputs: a node with more data inputs stays; -1 for no limit.
        input_index: which input to hand on, counted from 0.
        drop_control: forget what the node waited for. Otherwise its readers wait for it, unless it is idle.
    """

    op: tuple[str, ...]
    max_inputs: int = 1
    input_index: int = 0
    drop_control: bool = False

    def __post_init__(self) -> None:
        if self.max_inputs < -1 or self.max_inputs == 0:
            raise ParameterError(
                f"max_inputs is {self.max_inputs}", hint="give at least 1, or -1 for any number"
            )
        if self.input_index < 0:
            raise ParameterError(f"input_index is {self.input_index}", hint="inputs are counted from 0")
        if not all(has(op, Trait.PASSES_THROUGH) for op in self.ops):
            object.__setattr__(
                self, "exact", False
            )  # removing a Dropout or an op of one's own is the user's wish

    @property
    def ops(self) -> frozenset[str]:
        """The ops asked for, each by itself."""
        return frozenset(name for text in self.op for name in text.split("|") if name)

    def apply(self, graph: Graph, trace: Trace) -> None:
        ops = self.ops
        free: set[Node] | None = None
        # Sources first: each reader then moves once, however long the chain.
        for node in execution_order(graph):
            # `*` means what could hand its input on: ops that have just one.
            if node.op not in ops and ("*" not in ops or len(node.inputs) != 1):
                continue
            if node.control_inputs and free is None:
                free = effect_free(graph)
            # Idle: it has no effect, and nobody else wants it, so nobody has to wait for it.
            idle = [n for n in node.control_inputs if n in (free or ()) and n.readers == (node,)]
            try:
                values = self.values(node)
                waits_for = [] if self.drop_control else [n for n in node.control_inputs if n not in idle]
                _refuse_to_lose_a_branch(node, values, waits_for)
            except Refuse as refusal:
                trace.leave(node, refusal.reason)
                continue
            if not self.drop_control:
                for source in idle:
                    node.remove_control_input(source)
            trace.changed(node, f"its readers read '{values[min(values)].name}'")
            graph.bypass(node, values, keep_control=not self.drop_control)

    def values(self, node: Node) -> dict[int, Value]:
        """The values to read instead of each output.

        Raises:
            Refuse: the node has to stay.
        """
        if node.is_protected:
            raise Refuse("it is an input or output of the graph")
        if self.max_inputs >= 0 and len(node.inputs) > self.max_inputs:
            raise Refuse(f"it has {len(node.inputs)} inputs and max_inputs is {self.max_inputs}")
        if node.op == "IdentityN":  # output i is input i
            values = dict(enumerate(node.inputs))
        elif self.input_index < len(node.inputs):
            values = {0: node.inputs[self.input_index]}
        else:
            raise Refuse(f"it has no input {self.input_index} to hand on")
        for output in node.outputs:
            if output.uses and output.port not in values:
                raise Refuse(f"its output {output.port} is read by '{output.readers[0].name}'")
        if not values:
            raise Refuse("it has no inputs to hand on")
        return values


def _refuse_to_lose_a_branch(node: Node, values: Mapping[int, Value], waits_for: Sequence[Node]) -> None:
    """Refuse to take out what alone tells on which side of a Switch other nodes run.

    Args:
        values: what would be read instead of its outputs.
        waits_for: what its readers would wait for instead of it.
    """
    switched = [value for value in values.values() if has(value.node.op, Trait.SWITCH)]
    for waiter in node.control_outputs:
        if any(loses_its_side(waiter, value) for value in switched):
            raise Refuse(f"it tells '{waiter.name}' on which branch it runs")
    # A Merge takes what arrives, and would not wait for the side of what is there on both.
    merge = next((reader for reader in node.readers if reader.op in MERGES), None)
    if merge is not None and waits_for:
        raise Refuse(f"it tells '{merge.name}' on which branch its value arrives")
