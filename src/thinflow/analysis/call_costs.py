"""Operations inside of the functions that a node calls: those of branches and of loops as well."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeAlias

from thinflow.analysis.shapes import infer_shapes
from thinflow.errors import ThinflowError
from thinflow.ir.attrs import Attr, FunctionAttr, attr_key
from thinflow.ir.graph import Graph, Node, library_of
from thinflow.ir.types import TensorSpec
from thinflow.ops.registry import Cost

Turns: TypeAlias = Callable[[Graph, Node], int | None]
"""How often a loop of a graph turns; None if only a run tells."""
_MAX_DEPTH = 20
"""Of calls in calls: a function may call itself."""


class CallCosts:
    """Costs of calls, each body with the same arguments looked into once.

    Args:
        graph: whose nodes call.
        cost_of: the cost of a body, and why it is not all, "" if it is.
        turns: tells how often a loop turns.
    """

    def __init__(
        self, graph: Graph, cost_of: Callable[[Graph, CallCosts], tuple[Cost, str]], turns: Turns
    ) -> None:
        self._graph = graph
        self._cost_of = cost_of
        self._turns = turns
        self._known: dict[Hashable, tuple[Cost, str]] = {}
        self._depth = 0

    def of(self, node: Node) -> tuple[Cost, str] | None:
        """The cost of what a node calls, and why it is not known, "" if it is; None if it calls nothing.

        Of branches the dearest counts: nobody knows which of them runs.
        """
        if not library_of(node):
            return None
        get, specs = node.attrs_view.get, [value.spec for value in node.inputs]
        match node.op:
            case "PartitionedCall" | "StatefulPartitionedCall":
                return self._body(get("f"), specs)
            case "If" | "StatelessIf":
                return self._dearest([get("then_branch"), get("else_branch")], specs[1:])
            case "Case" | "StatelessCase":
                branches = get("branches")
                return self._dearest(branches if isinstance(branches, tuple) else (), specs[1:])
            case "While" | "StatelessWhile":
                return self._loop(node, specs)
            case op if op in library_of(node):
                return self._body(FunctionAttr(op, node.attrs), specs)
        return None

    def _dearest(self, branches: Sequence[Attr | None], specs: Sequence[TensorSpec]) -> tuple[Cost, str]:
        found = [self._body(branch, specs) for branch in branches]
        cost = max((cost for cost, _ in found), key=lambda c: c.flops, default=Cost())
        return cost, next((why for _, why in found if why), "")

    def _loop(self, node: Node, specs: Sequence[TensorSpec]) -> tuple[Cost, str]:
        asks, unsure = self._body(node.attrs_view.get("cond"), specs)
        turn, why = self._body(node.attrs_view.get("body"), specs)
        why = unsure or why
        once = asks + turn
        if why or not once.flops:
            return once, why
        count = self._turns(self._graph, node)
        if count is None:
            return Cost(), f"a loop of {once.flops} operations a turn; how often it turns only a run tells"
        return Cost(asks.flops + count * once.flops, asks.macs + count * once.macs), ""

    def _body(self, called: Attr | None, specs: Sequence[TensorSpec]) -> tuple[Cost, str]:
        functions = self._graph.functions
        if not isinstance(called, FunctionAttr) or called.name not in functions:
            return Cost(), "it calls what the file does not have"
        key = attr_key(called), tuple(specs)
        if key not in self._known:
            if self._depth >= _MAX_DEPTH:
                return Cost(), "its calls are nested too deeply"
            self._depth += 1
            try:
                body = functions[called.name].instantiated(called.attrs)
                infer_shapes(body.graph, dict(zip(body.inputs, specs, strict=True)))
                self._known[key] = self._cost_of(body.graph, self)
            except (ThinflowError, ValueError):
                self._known[key] = Cost(), "what it calls does not fit"
            finally:
                self._depth -= 1
        return self._known[key]
