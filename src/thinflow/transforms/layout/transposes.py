"""Moves transposes towards the outputs, so that those that undo each other meet.

    relu(transpose(x, p))                       ->  transpose(relu(x), p)
    add(transpose(x, p), transpose(y, p))       ->  transpose(add(x, y), p)
    transpose(transpose(x, p), q)               ->  transpose(x, p[q]), nothing if that is the identity

One pass in execution order is enough: each node is moved past once. How an op reads its axes is in `axes` and
`views`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np

from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import execution_order
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import INT32
from thinflow.rewrite.driver import Rewrite
from thinflow.rewrite.edits import Site, sweep
from thinflow.rewrite.pattern import Match, constant_tensor
from thinflow.rewrite.pattern import node as any_node
from thinflow.rewrite.rule import Refuse, Trace
from thinflow.transforms.layout.assignment import Assignment, fixed_nodes
from thinflow.transforms.layout.plans import Fold, Input, InShape, Perm, Plan, inverse, permuted
from thinflow.transforms.layout.ways import Way, plan_for
from thinflow.transforms.shared.constants import awaited_by_constant, side_outputs
from thinflow.transforms.shared.effects import in_loops
from thinflow.typing import Array


def perm_of(node: Node) -> Perm | None:
    """The permutation of a Transpose, if it is constant and nothing else hangs on the node."""
    # One that is fed, or waits for something, is more than a permutation.
    if node.op != "Transpose" or len(node.inputs) != 2 or node.control_inputs or node.output().is_graph_input:
        return None
    tensor = constant_tensor(node.inputs[1])
    if tensor is None or not tensor.dtype.is_integer:
        return None
    perm = tuple(int(n) for n in tensor.numpy().reshape(-1))
    rank = len(perm)
    # Negative axes count from the end; what is out of range makes the whole no permutation.
    perm = tuple(n % rank if -rank <= n < rank else -1 for n in perm)
    return perm if sorted(perm) == list(range(rank)) else None


class Sinker:
    """One pass over a graph. Specs must be set; they are kept up to date.

    Attributes:
        graph: what to work on.
        trace: where to tell.
        origin: the transform.
    """

    def __init__(self, graph: Graph, trace: Trace, origin: str) -> None:
        self.graph, self.trace, self.origin = graph, trace, origin
        self._loops = in_loops(graph)
        self._perms: dict[Perm, list[Value]] = {}

    def run(self) -> None:
        """Move every transpose as far as it goes. O(nodes + edges)."""
        for node in execution_order(self.graph):
            # In a loop the new constants would be outside of the frame.
            if node.graph is not self.graph or node in self._loops:
                continue
            if perm_of(node) is not None:
                self._compose(node)
            else:
                self._sink(node)

    def join(self) -> None:
        """Make one of transposes in a row, moving none. O(nodes + edges)."""
        for node in execution_order(self.graph):
            if node.graph is self.graph and node not in self._loops and perm_of(node) is not None:
                self._compose(node)

    def assign(self) -> bool:
        """Let nodes work with axes in the order that needs the fewest transposes; False if they do."""
        assignment = Assignment(self.graph, fixed_nodes(self.graph, self._loops), perm_of)
        if not assignment.improve():
            return False
        # A constant can be changed for one plan alone.
        taken: set[Node] = set(assignment.ways)
        for node, way in assignment.ways.items():
            # One that only told sizes may be gone with what another had of it.
            is_here = node.graph is self.graph
            if is_here and not any(fold.node in taken for fold in way.plan.folds):
                taken.update(fold.node for fold in way.plan.folds)
                self._take(node, way)
        self.join()
        self.share()
        return True

    def _take(self, node: Node, way: Way) -> None:
        """Let a node work in another way, with transposes around it that are to meet others."""
        loose = [v.node for v in node.inputs]
        inputs: list[Input] = []
        for index, given in enumerate(way.plan.inputs):
            # Its inputs are no longer those of the plan, if their nodes have taken another way.
            value = node.inputs[index]
            if index in way.reads:
                inputs.append(self.transpose(node, value, inverse(way.reads[index])))
            elif isinstance(given, Value):
                inputs.append(value)
            else:
                inputs.append(
                    InShape(value, given.shape) if isinstance(given, InShape) else (given[0], value, given[2])
                )
        self.trace.changed(node, "works on axes in another order")
        self.around(node, replace(way.plan, inputs=inputs[::-1] if way.plan.swaps else inputs))
        sweep(self.graph, loose)

    def share(self) -> None:
        """Keep one of several transposes of a value that are alike. O(nodes + edges)."""
        first: dict[tuple[Value, Perm], Node] = {}
        for node in list(self.graph):
            perm = perm_of(node)
            if perm is None or node in self._loops:
                continue
            same = first.setdefault((node.inputs[0], perm), node)
            if same is not node and not node.is_protected:
                loose = [v.node for v in node.inputs]
                self.graph.bypass(node, {0: same.output()})
                sweep(self.graph, loose)

    def around(self, node: Node, plan: Plan) -> None:
        """Let a node work on other axes: what the plan says goes in, and what comes out is transposed back.

        A node that is asked for by name gives it to what stands in its place.
        """
        raw = node if not node.is_protected or not plan.ports else self._twin(node)
        site = Site(self.graph, raw, self.origin)
        raw.set_inputs([self._input(site, raw, v) for v in plan.inputs])
        raw.attrs.update(plan.attrs)
        for fold in plan.folds:
            self._fold(fold)
        for port in plan.ports:
            old, value = node.output(port), raw.output(port)
            uses = old.uses
            value.spec = old.spec.with_shape(
                old.shape if plan.lists_sizes else permuted(old.shape, inverse(plan.perm))
            )
            back_to = self.picked if plan.lists_sizes else self.transpose
            # The transpose takes the name that is asked for.
            if raw is not node:
                self.graph.replace(node, back_to(node, value, plan.perm).node)
            elif uses:
                back = back_to(node, value, plan.perm)
                # The new transpose was put in front of the node, but reads it.
                self.graph.move_before(back.node, node)
                self.graph.move_before(node, back.node)
                for use in uses:
                    use.node.set_input(use.index, back)

    def _twin(self, node: Node) -> Node:
        """A node like this one, to do its work while another takes its name."""
        name = f"{node.name}/moved"
        twin = self.graph.add(node.op, node.inputs, name, attrs=node.attrs, device=node.device, before=node)
        twin.origin = self.origin
        return twin

    def transpose(self, before: Node, value: Value, perm: Perm) -> Value:
        """A new transpose of a value, right before a node."""
        element = value.dtype or before.attrs.get("T")
        attrs: dict[str, Attr] = {"Tperm": INT32} if element is None else {"T": element, "Tperm": INT32}
        constant = self.perm(before, perm)
        site, name = Site(self.graph, before, self.origin), f"{before.name}/transposed"
        transposed = site.add("Transpose", value, constant, name=name, attrs=attrs, device=before.device)
        transposed.spec = value.spec.with_shape(permuted(value.shape, perm))
        return transposed

    def picked(self, before: Node, value: Value, order: Perm) -> Value:
        """The elements of a vector in another order, computed right before a node."""
        site, name = Site(self.graph, before, self.origin), f"{before.name}/sizes"
        axis = site.constant(Tensor.from_array(np.zeros((), np.int32), INT32), f"{name}/axis")
        attrs: dict[str, Attr] = {"Tindices": INT32, "Taxis": INT32, "batch_dims": 0}
        if value.dtype is not None:
            attrs["Tparams"] = value.dtype
        places = self.perm(before, order)
        elements = site.add("GatherV2", value, places, axis, name=name, attrs=attrs, device=before.device)
        elements.spec = value.spec.with_shape((len(order),))
        return elements

    def _sink(self, node: Node) -> None:
        """Move the transposes in front of a node behind it, if all of them are alike."""
        moved = {i: t for i, v in enumerate(node.inputs) if (t := self._moved(v)) is not None}
        if not moved or any(v.is_graph_input for v in node.outputs):
            return
        # Several outputs under names of their own cannot all be given to transposes.
        if node.is_protected and side_outputs(node):
            return
        perms = {perm for _, perm in moved.values()}
        if len(perms) != 1:
            return
        plan = plan_for(node, perms.pop(), {i: raw for i, (raw, _) in moved.items()})
        if plan is None:
            return
        sources = [v.node for v in node.inputs]
        self.trace.changed(node, "works on axes in another order, the transpose moved behind it")
        self.around(node, plan)
        sweep(self.graph, sources)

    def _moved(self, value: Value) -> tuple[Value, Perm] | None:
        """The value that a transpose reads, and how it moves the axes."""
        perm = perm_of(value.node)
        return None if perm is None else (value.node.inputs[0], perm)

    def _compose(self, node: Node) -> None:
        """Two transposes in a row are one, or none."""
        perm = perm_of(node)
        assert perm is not None
        inner = self._moved(node.inputs[0])
        if inner is None and perm != tuple(range(len(perm))):
            return
        # A transpose that moves nothing is treated as the second of two.
        source, first = inner if inner is not None else (node.inputs[0], tuple(range(len(perm))))
        both = tuple(first[axis] for axis in perm)
        loose = [v.node for v in node.inputs]
        if both != tuple(range(len(both))):
            self.trace.changed(node, f"transposes '{source.name}' by {list(both)}")
            node.set_inputs([source, self.perm(node, both)])
            node.attrs["Tperm"] = INT32
        # The name stays, as that of an Identity.
        elif node.is_protected:
            self.trace.changed(node, f"hands on '{source.name}'")
            node.op = "Identity"
            node.set_inputs([source])
            node.attrs.pop("Tperm", None)
        else:
            self.trace.changed(node, f"undone by the transpose before it; its readers read '{source.name}'")
            self.graph.bypass(node, {0: source})
        sweep(self.graph, loose)

    def perm(self, before: Node, perm: Perm) -> Value:
        """A constant with a permutation; one for all."""
        value = next((v for v in self._perms.get(perm, ()) if v.node.graph is self.graph), None)
        if value is None:
            name = f"{before.name}/perm"
            array = np.asarray(perm, np.int32)
            value = Site(self.graph, before, self.origin).constant(Tensor.from_array(array, INT32), name)
            self._perms.setdefault(perm, []).append(value)
        return value

    def unit_perm(self, node: Node) -> Perm | None:
        """The permutation that a Reshape to a constant shape is, if it only moves axes of size 1."""
        if node.op != "Reshape" or len(node.inputs) != 2 or node in self._loops or node.control_inputs:
            return None
        before, after = node.inputs[0].shape, node.output().shape
        if constant_tensor(node.inputs[1]) is None or node.output().is_graph_input:
            return None
        if before is None or after is None or before == after or 0 in before or before.count(None) > 1:
            return None
        larger, units = ([a for a, n in enumerate(before) if (n == 1) is one] for one in (False, True))
        if len(before) != len(after) or [n for n in after if n != 1] != [before[a] for a in larger]:
            return None
        return tuple((units if n == 1 else larger).pop(0) for n in after)

    def _input(self, site: Site, node: Node, given: Input) -> Value:
        """An input as a plan asks for it."""
        if isinstance(given, Value):
            return given
        if not isinstance(given, InShape):
            return self._constant(site, node, *given)
        value, sizes = given
        name = f"{node.name}/reshaped"
        shape = site.constant(np.asarray(sizes, np.int32), f"{name}/shape")
        attrs: dict[str, Attr] = {"Tshape": INT32}
        if value.dtype is not None:
            attrs["T"] = value.dtype
        reshaped = site.add("Reshape", value, shape, name=name, attrs=attrs, device=node.device)
        reshaped.spec = value.spec.with_shape(tuple(None if n < 0 else n for n in sizes))
        return reshaped

    def _fold(self, fold: Fold) -> None:
        """Give a reader of a constant one whose elements lie in another order."""
        old = fold.node.inputs[fold.input]
        tensor = constant_tensor(old)
        assert tensor is not None
        # One value repeated is the same in every order, and stays stored once.
        if tensor.is_splat:
            return
        array = np.take(tensor.numpy(), np.asarray(fold.order), fold.axis)
        site = Site(self.graph, fold.node, self.origin)
        fold.node.set_input(fold.input, self._constant(site, fold.node, array, old, f"input{fold.input}"))
        sweep(self.graph, [old.node])

    def _constant(self, site: Site, node: Node, array: Array, like: Value, what: str) -> Value:
        tensor = constant_tensor(like)
        content = Tensor.from_array(array, tensor.dtype) if tensor is not None else Tensor.from_array(array)
        value = site.constant(content, f"{node.name}/{what}")
        value.node.set_control_inputs(awaited_by_constant(like) if tensor is not None else ())
        return value


def _reshape_sizes(transpose: Node) -> list[int] | None:
    """The shape of a transpose that only moves axes of size 1, -1 for an unknown size; None for another."""
    perm = perm_of(transpose)
    shape = transpose.inputs[0].shape if perm is not None else None
    if perm is None or shape is None or perm == tuple(range(len(perm))):
        return None
    target = permuted(shape, perm)
    if target is None or 0 in target or sum(d is None for d in target) > 1:
        return None
    # Axes larger than 1 keep their order, and with it the elements in memory theirs.
    moved, larger = [a for a in perm if shape[a] != 1], [a for a, d in enumerate(shape) if d != 1]
    return [-1 if d is None else d for d in target] if moved == larger else None


class UnitTransposes(Rewrite):
    """Turn a transpose that only moves axes of size 1, and so leaves the elements in their order, into a
    Reshape.
    """

    name = "cancel_transposes"
    in_file_order = True
    until_fixpoint = False
    outputs = 0
    pattern: ClassVar = any_node(
        "Transpose",
        name="transpose",
        where=lambda n: None if _reshape_sizes(n) else "it moves other axes",
    )

    def prepare(self, graph: Graph, trace: Trace) -> Mapping[str, object]:
        return {"loops": in_loops(graph)}

    def check(self, m: Match) -> None:
        if m.transpose in m.loops:
            raise Refuse("it is in a loop")

    def describe(self, m: Match) -> str:
        return "only moves axes of size 1: it is a Reshape"

    def build(self, m: Match, site: Site) -> None:
        sizes = np.asarray(_reshape_sizes(m.transpose), np.int32)
        m.transpose.op = "Reshape"
        m.transpose.set_inputs([m.transpose.inputs[0], site.constant(sizes, f"{m.transpose.name}/shape")])
        m.transpose.attrs.pop("Tperm", None)
        m.transpose.attrs["Tshape"] = INT32


def reshape_unit_transposes(graph: Graph, trace: Trace) -> None:
    """Turn every transpose that only moves axes of size 1 into a Reshape."""
    turned = Trace()
    UnitTransposes().apply(graph, turned)
    trace.changes += turned.changes  # what is in a loop is no news


class UnitReshapes:
    """Reshapes that only move axes of size 1, told as the transposes that they are.

    Some exporters write them for transposes. As such they meet others, or nodes around work without them;
    those that nothing came of are reshapes again in the end.
    """

    def __init__(self, sinker: Sinker) -> None:
        self._sinker = sinker
        # Node -> what it read, then and while it is a transpose.
        self._turned: dict[Node, tuple[list[Value], list[Value], Attr | None]] = {}

    def turn(self) -> None:
        """Make transposes of them. O(nodes)."""
        for node in list(self._sinker.graph):
            perm = self._sinker.unit_perm(node)
            if perm is not None:
                old, kind = list(node.inputs), node.attrs.pop("Tshape", None)
                new = [old[0], self._sinker.perm(node, perm)]
                node.op = "Transpose"
                node.set_inputs(new)
                node.attrs["Tperm"] = INT32
                self._turned[node] = (old, new, kind)

    def turn_back(self) -> None:
        """Give those that are as they were made their shape again. O(nodes)."""
        loose: list[Node] = []
        for node, (old, new, kind) in self._turned.items():
            if node.graph is self._sinker.graph and node.op == "Transpose" and list(node.inputs) == new:
                node.op = "Reshape"
                node.set_inputs(old)
                del node.attrs["Tperm"]
                if kind is not None:
                    node.attrs["Tshape"] = kind
                loose.append(new[1].node)
            else:
                loose.append(old[1].node)
        sweep(self._sinker.graph, [n for n in dict.fromkeys(loose) if n.graph is self._sinker.graph])
