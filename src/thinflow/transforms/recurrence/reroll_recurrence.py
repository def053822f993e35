"""Unrolled recurrent layers become loops."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable
from dataclasses import dataclass

from thinflow.analysis.shapes import infer_with_loops
from thinflow.errors import ParameterError, ThinflowError
from thinflow.ir.attrs import FunctionAttr
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import ancestors, execution_order
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.edits import sweep
from thinflow.rewrite.rule import Refuse, Trace, Transform, transform
from thinflow.transforms.flow.bodies import NewFunctions, copied, declare
from thinflow.transforms.flow.library import with_changes
from thinflow.transforms.recurrence.joins import join_of
from thinflow.transforms.recurrence.lanes import Steps, identity
from thinflow.transforms.recurrence.loop import Loop, Output, Rolled, Wanted
from thinflow.transforms.shared.effects import in_loops

_ENDS = ((0, 0), (0, 1), (1, 0), (1, 1))
"""Steps to leave out at the start and at the end: a state of zeros is often folded away there."""


@transform("reroll_recurrence")
@dataclass(frozen=True)
class RerollRecurrence(Transform):
    """Turn unrolled recurrent layers (static_rnn, Keras' unroll=True) back into one loop each.

    h0 = cell(x0, 0); h1 = cell(x1, h0); h2 = cell(x2, h1) ...  ->  h = while(x, 0) {body=cell}

    The steps are found by their products, which share their weights and need each other. All else that they
    do has to be alike; what they read has to be the same in all steps, made in the same step or the one
    before, or a value of its own in each step. A first or a last step that differs stays outside. Stacked
    layers become a loop each.

    Attributes:
        min_steps: leave layers with fewer.
    """

    min_steps: int = 8

    def __post_init__(self) -> None:
        if self.min_steps < 3:
            raise ParameterError(f"min_steps is {self.min_steps}", hint="give at least 3")

    def for_function(self) -> Transform | None:
        # The functions of its loops would have to go into the library of the whole.
        return None

    def apply(self, graph: Graph, trace: Trace) -> None:
        if not self._chains(graph, trace):
            return
        # The layer that reads another reads its loop once that is there, and is looked at again.
        while self._roll_one(graph, trace):
            trace.forget_left()

    def _roll_one(self, graph: Graph, trace: Trace) -> bool:
        infer_with_loops(graph)
        framed = in_loops(graph)
        for chain in self._chains(graph, trace):
            try:
                if chain[0] in framed:
                    raise Refuse("it is inside a loop of TF1")
                steps = self._steps(chain)
                rolled = Loop(steps, f"{_scope_of(chain[0])}/loop", _wanted(steps)).rolled()
            except Refuse as refusal:
                trace.leave(chain[0], refusal.reason)
                continue
            except ThinflowError as error:
                trace.leave(chain[0], error.problem)
                continue
            what = f"{steps.count} steps of {len(steps.lanes)} nodes each become one loop"
            trace.changed(chain[0], what)
            _splice(graph, steps, rolled, chain[0], self.name)
            return True
        return False

    def _chains(self, graph: Graph, trace: Trace) -> list[list[Node]]:
        """Products with the same weights, each of which needs the one before; what needs least is first."""
        order = execution_order(graph)
        layers = [n for n in order if has(n.op, Trait.MATMUL | Trait.CONVOLUTION) and len(n.inputs) > 1]
        # Weights are read only where enough of one shape are.
        alike = Counter((n.op, n.inputs[1].node.op, _shape(n)) for n in layers)
        products: dict[Hashable, list[Node]] = defaultdict(list)
        for node in layers:
            if alike[node.op, node.inputs[1].node.op, _shape(node)] >= self.min_steps:
                products[node.op, identity(node.inputs[1])].append(node)
        chains: list[list[Node]] = []
        for nodes in products.values():
            if len(nodes) < self.min_steps:
                continue
            found = _chained(order, nodes)
            chains += [chain for chain in found if len(chain) >= self.min_steps]
            longest = max(map(len, found), default=0)
            # Of a layer that is merely used in many places no one needs another.
            if 1 < longest < self.min_steps:
                why = f"{len(nodes)} nodes share its weights, but only {longest} in a row need each other"
                trace.leave(nodes[0], why)
        # Who reads another layer needs more; in a file, and when it runs, its products may stand in front.
        return sorted(chains, key=lambda chain: len(ancestors([chain[-1]])))

    def _steps(self, chain: list[Node]) -> Steps:
        """The lanes of a layer.

        Raises:
            Refuse: there is no form of it in which its steps are alike.
        """
        reason: Refuse | None = None
        for start, end in _ENDS:
            middle = chain[start : len(chain) - end]
            if len(middle) < self.min_steps:
                break
            try:
                return Steps(middle)
            except Refuse as refusal:
                reason = reason or refusal
        assert reason is not None, "a chain has as many steps as are wanted"
        raise reason


_MOST_CHAINS = 64
"""Chains of one matrix; more are a layer that is used everywhere."""


def _shape(node: Node) -> Hashable:
    tensor = node.inputs[1].node.tensor
    return None if tensor is None else tensor.shape


def _chained(order: list[Node], products: list[Node]) -> list[list[Node]]:
    """The chains that some nodes make, each of which needs the one before. O(nodes + edges)."""
    wanted = set(products)
    chains: list[list[Node]] = []
    # By node: the last product of each chain that it needs.
    needed: dict[Node, dict[int, int]] = {}
    for node in order:
        before: dict[int, int] = {}
        for source in (*(v.node for v in node.inputs), *node.control_inputs):
            for chain, place in needed.get(source, {}).items():
                before[chain] = max(place, before.get(chain, place))
        if node in wanted:
            # One that needs none begins a chain; so does one that needs an inner link, or two chains.
            chain = next(iter(before), -1) if len(before) == 1 else -1
            if chain < 0 or before[chain] != len(chains[chain]) - 1:
                chain = len(chains)
                chains.append([])
                if chain > _MOST_CHAINS:
                    return []
            chains[chain].append(node)
            before = {**before, chain: len(chains[chain]) - 1}
        if before:
            needed[node] = before
    return chains


def _wanted(steps: Steps) -> dict[Output, Wanted]:
    """What is read of the lanes outside of them.

    Raises:
        Refuse: an output of several is asked for by name, or a type or rank is not known.
    """
    inside = steps.inside
    found: dict[Output, Wanted] = {}
    for lane in steps.lanes:
        for port in sorted({v.port for node in lane.nodes for v in node.outputs}):
            values = [node.output(port) for node in lane.nodes]
            wanted = Wanted(values)
            is_whole = len(values) == steps.count
            readers = [r for r in values[0].readers if r not in inside] if is_whole else []
            joins = [j for r in readers if (j := join_of(values, r)) is not None]
            wanted.joins = list({j.node: j for j in joins if j.node not in inside}.values())
            joined = {j.node for j in wanted.joins}
            for number, value in enumerate(values):
                if value.node not in inside:
                    continue
                if value.is_graph_output and (port or len([v for v in value.node.outputs if v.uses]) > 1):
                    raise Refuse(
                        f"'{value.name}' is asked for by name, and is one of several results", value.node
                    )
                others = [r for r in value.readers if r not in inside and not _leads_to(r, joined)]
                if others or value.is_graph_output:
                    wanted.single.append(number)
            if wanted.joins or wanted.single:
                if values[0].spec.shape is None or values[0].dtype is None:
                    raise Refuse(f"the type or the rank of '{values[0].name}' is not known", values[0].node)
                found[lane, port] = wanted
    return found


def _leads_to(reader: Node, joined: set[Node]) -> bool:
    """True if a reader is a join, or an ExpandDims in front of one."""
    return reader in joined or (
        reader.op == "ExpandDims"
        and not reader.is_protected
        and set(reader.outputs[0].readers) <= joined != set()
    )


def _scope_of(node: Node) -> str:
    """The scope of the layer that a node is in."""
    return node.name.rpartition("/")[0] or node.name


def _splice(graph: Graph, steps: Steps, rolled: Rolled, before: Node, origin: str) -> None:
    """Put a loop in the place of the steps."""
    inside = steps.inside
    _add_functions(graph, rolled, _scope_of(before))
    results = copied(rolled.function, rolled.arguments, before, origin)
    # Joins first: what reads them keeps its name.
    for join, result in zip(rolled.joins, results[len(rolled.results) :], strict=True):
        inner = [v.node for v in join.node.inputs]
        _replace(graph, join.node, result, origin)
        sweep(graph, [n for n in inner if n not in inside])
    lost = {v.node for node in inside for v in node.inputs} - inside
    for value, result in zip(rolled.results, results, strict=False):
        # A name that is asked for stays, and hands on what the loop gives.
        if value.is_graph_output:
            inside.discard(value.node)
            _replace(graph, value.node, result, origin)
        else:
            value.replace_uses(result, keep=inside)
    # The sweep above took those that only a join had read.
    graph.remove(*(node for node in inside if node in graph))
    sweep(graph, lost)


def _add_functions(graph: Graph, rolled: Rolled, scope: str) -> None:
    """Put the functions of a loop into the library, named as a GraphDef may name them."""
    new = NewFunctions(graph.functions)
    loop = next(n for n in rolled.function.graph if n.op == "StatelessWhile")
    for part, key in (("condition", "cond"), ("body", "body")):
        called = loop.attrs[key]
        assert isinstance(called, FunctionAttr)
        function = rolled.functions[called.name]
        types = [t for t in function.input_types if t is not None]
        declare(function, types, rolled.scope)
        loop.attrs[key] = FunctionAttr(new.add(f"{scope}_loop_{part}", function))
    graph.functions = with_changes(graph.functions, new.functions)


def _replace(graph: Graph, node: Node, value: Value, origin: str) -> None:
    """Let a node's readers read a value; one that is asked for by name hands it on."""
    if not node.is_protected:
        graph.bypass(node, {0: value})
        return
    element = node.output().dtype
    attrs = {"T": element} if element is not None else {}
    identity_node = graph.add("Identity", [value], attrs=attrs, before=node)
    identity_node.origin = origin
    graph.replace(node, identity_node)
