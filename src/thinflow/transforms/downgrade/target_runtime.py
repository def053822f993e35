"""Rewrite newer ops for an older TensorFlow, or for its library for phones.

add_v2(a, b)         ->  add(a, b)                       version=1.4
leaky_relu(x)        ->  maximum(x, 0.2 * x)
conv(x, {dilations}) ->  conv(x)                         the attribute goes where it is at its default

Loops and branches that call functions become frames, Switch and Merge where the release has no While or If;
calls that it does not have are put in place. What cannot be said is named, and nothing is changed; with
`partial=true` the rest is rewritten all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from thinflow.analysis.releases import (
    Release,
    graph_version,
    knows,
    read_release,
    too_new,
    too_new_value,
)
from thinflow.analysis.shapes import infer_shapes
from thinflow.errors import ParameterError, TransformError
from thinflow.ir.attrs import Attr, attr_key
from thinflow.ir.function import reachable
from thinflow.ir.graph import Graph, Node, Versions
from thinflow.ops._defaults import defaults_of
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.edits import Site, sweep
from thinflow.rewrite.rule import Refuse, Trace, Transform, transform
from thinflow.transforms.downgrade.rules import DowngradeSite, downgrade_rules
from thinflow.transforms.flow.inline_partitionedcall import InlinePartitionedCall
from thinflow.transforms.flow.library import apply_in_functions
from thinflow.transforms.flow.loops_and_branches import FLOW, LowerControlFlow
from thinflow.transforms.shared.effects import in_loops

LAST_PHONE_LIBRARY = "1.13"
"""The last release of the library for phones (libtensorflow_inference)."""
MAX_ROUNDS = 10
"""Rounds in which rules are applied to what rules made."""
NAMED = 5
"""The number of nodes that an error tells of."""


@transform("target_runtime")
@dataclass(frozen=True)
class TargetRuntime(Transform):
    """Rewrite ops, attributes and values that came after a release.

    Attributes:
        version: the release of TensorFlow that is to run the graph, from 1.0 on.
        mobile: allow only the ops that the library for phones has; without a version, the last of it.
        partial: rewrite what can be rewritten instead of failing at what cannot.
        functions: rewrite inside library functions, too.
    """

    tolerance = 1e-5

    version: str = ""
    mobile: bool = False
    partial: bool = False
    functions: bool = False

    def for_function(self) -> Transform:
        return _InBody(self.version, self.mobile, partial=True)

    def apply(self, graph: Graph, trace: Trace) -> None:
        if not self.version and not self.mobile:
            raise ParameterError("no release was given", hint="write target_runtime(version=1.4)")
        target = Target(read_release(self.version or LAST_PHONE_LIBRARY), self.mobile)
        newest = graph_version(target.release)
        # First of all, as it makes new nodes that may be too new themselves.
        _lower_if_too_new(graph, target, trace)
        if self.functions:
            apply_in_functions(self.for_function(), graph, trace)
        left = self._rewrite(graph, target, trace)
        left += [_in_function(name, why) for name, why in target.demands_of_functions(graph)]
        if left and not self.partial:
            # Nothing is changed for the caller: the error undoes the step.
            count = "one node" if len(left) == 1 else f"{len(left)} nodes"
            more = f" (and {len(left) - NAMED} more)" if len(left) > NAMED else ""
            raise TransformError(
                f"{target} cannot run {count}: {'; '.join(left[:NAMED])}{more}",
                hint="target_runtime(..., partial=true) rewrites the rest",
            )
        self._declare_version(graph, newest, trace)

    def _declare_version(self, graph: Graph, newest: int, trace: Trace) -> None:
        """Let no loader refuse the graph for being too new."""
        old = graph.versions or Versions(producer=newest)
        new = replace(old, producer=min(old.producer, newest), min_consumer=min(old.min_consumer, newest))
        first = next(iter(graph), None)
        if new != graph.versions and first is not None:
            graph.versions = new
            trace.changed(first, f"the graph declares version {new.producer} now")

    def _rewrite(self, graph: Graph, target: Target, trace: Trace) -> list[str]:
        """Apply rules until nothing is left that has one; what is left then, in words."""
        for _ in range(MAX_ROUNDS):
            infer_shapes(graph)
            loop = in_loops(graph)
            trace.forget_left()
            before = len(trace.changes)
            left = [text for node in list(graph) if (text := self._try(graph, node, target, trace, loop))]
            if len(trace.changes) == before:
                break
        return left

    def _try(self, graph: Graph, node: Node, target: Target, trace: Trace, loop: set[Node]) -> str:
        """Rewrite one node once; why it stays too new, or "" if it does not."""
        if node.graph is not graph:
            return ""
        if not knows(node.op):
            text = f"whether {target} has the op {node.op} is not known; it stays"
            if text not in trace.warnings:
                trace.warnings.append(text)
            return ""
        reason = ""
        # One change a round, since a rule may put another node in the place of this one.
        for item in target.demands(node):
            reason = self._apply_rule(graph, node, item, target, trace, loop)
            if not reason:
                return ""
        if reason:
            trace.leave(node, reason)
            return f"'{node.name}' ({node.op}): {reason}"
        return ""

    def _apply_rule(
        self, graph: Graph, node: Node, item: str, target: Target, trace: Trace, loop: set[Node]
    ) -> str:
        op, _, attr = item.partition(".")
        if attr and attr in node.attrs_view and is_default(node, attr):
            trace.changed(node, f"dropped {attr}, which {target} does not know")
            del node.attrs[attr]
            return ""
        rule = downgrade_rules().get(item)
        if rule is None:
            return f"{target} has no {op}" if not attr else f"{target} does not know {attr} of {op}"
        sources = [v.node for v in node.inputs]
        site = Site(graph, node, self.name)
        try:
            rule(DowngradeSite(graph, node, site, loop))
        except Refuse as refusal:
            # What the rule made before it refused.
            sweep(graph, site.made)
            return refusal.reason
        # A replaced node is found again by the name that went over to its successor.
        head = node if node.graph is graph else next(n for n in site.made if n.name == node.name)
        trace.changed(head, f"{item} in older words" + (f": {head.op}" if head.op != op else ""))
        sweep(graph, sources)
        return ""


class _InBody(TargetRuntime):
    """The same for the body of a function, which declares no version."""

    def _declare_version(self, graph: Graph, newest: int, trace: Trace) -> None:
        pass


@dataclass(frozen=True)
class Target:
    """The runtime that is to run the graph: a release, or its library for phones."""

    release: Release
    mobile: bool

    def __str__(self) -> str:
        name = f"TensorFlow {self.release[0]}.{self.release[1]}"
        return f"{name} for phones" if self.mobile else name

    def lacks(self, op: str) -> bool:
        """True if the op is too new."""
        return too_new(op, self.release) or (self.mobile and op not in mobile_ops())

    def demands(self, node: Node) -> Iterator[str]:
        """The items of a node that are too new: its op, or `Op.attr`, or `Op.attr=value`."""
        if self.lacks(node.op):
            yield node.op
            return
        for name in sorted(node.attrs_view):
            value = node.attrs_view[name]
            if name.startswith("_"):
                continue
            item = f"{node.op}.{name}"
            if not too_new(item, self.release):
                item = too_new_value(node.op, name, value, self.release)
            if item:
                yield item

    def demands_of_functions(self, graph: Graph) -> Iterator[tuple[str, str]]:
        """Function and node of what is too new in the library, which is not rewritten."""
        for name, function in graph.functions.items():
            for node in function.graph:
                for item in self.demands(node) if knows(node.op) else ():
                    _, _, attr = item.partition(".")
                    if not (attr in node.attrs_view and is_default(node, attr)):
                        yield name, f"'{node.name}' needs {item}"
                        break


def _lower_if_too_new(graph: Graph, target: Target, trace: Trace) -> None:
    """Say loops, branches and calls without functions if the target does not have them all."""
    bodies = [graph, *(graph.functions[name].graph for name in reachable(graph))]
    called = {node.op for body in bodies for node in body if has(node.op, FLOW | Trait.CALL)}
    if any(target.lacks(op) for op in called if has(op, FLOW)):
        LowerControlFlow().apply(graph, trace)
    if any(target.lacks(op) for op in called if has(op, Trait.CALL)):
        InlinePartitionedCall().apply(graph, trace)


def is_default(node: Node, attr: str) -> bool:
    """True if an attribute says what its absence would."""
    default: Attr | None = (defaults_of(node.op) or {}).get(attr)
    value = node.attrs_view[attr]
    # The list has as many ones as axes, where the default has four.
    if attr == "dilations" and isinstance(value, tuple):
        return set(value) == {1}
    if isinstance(default, float) and isinstance(value, float):
        return abs(default - value) < 1e-6 * max(1.0, abs(default))  # one of them went through float32
    return default is not None and attr_key(default) == attr_key(value)


@cache
def mobile_ops() -> frozenset[str]:
    """The ops of the library for phones."""
    from importlib.resources import files

    text = files("thinflow").joinpath("data/mobile_ops.txt").read_text("utf-8")
    return frozenset(word for line in text.splitlines() if not line.startswith("#") for word in line.split())


def _in_function(name: str, why: str) -> str:
    return f"function '{name}': {why}; functions=true rewrites there, too"
