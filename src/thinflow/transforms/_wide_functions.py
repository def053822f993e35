"""The functions of loops, branches and calls made to compute in float, arguments and results included."""

from __future__ import annotations

from dataclasses import replace

from thinflow.analysis.shapes import infer_shapes
from thinflow.errors import ThinflowError
from thinflow.ir.attrs import PlaceholderAttr
from thinflow.ir.function import Function, mentioned, reachable
from thinflow.ir.graph import Graph, Node
from thinflow.ir.types import FLOAT, DType
from thinflow.rewrite.trace import Trace
from thinflow.transforms._functions import tell, with_changes
from thinflow.transforms._widening import Scope, Widening, holds_only_lists, mentions_type


def reached(graph: Graph) -> set[str]:
    """The functions that a graph calls, directly or through others; none if one of them cannot be read."""
    try:
        return reachable(graph)
    except ThinflowError:
        return set()


def widen_functions(graph: Graph, scope: Scope, trace: Trace) -> Scope:
    """Widen all that a graph calls, or nothing: what is called has the types that its callers pass on.

    Args:
        graph: its library is replaced; itself it is not changed.
        scope: the types.
        trace: where it is told.

    Returns:
        The scope with these functions; lists of tensors belong to it if no function keeps them as they are.
    """
    names = reached(graph)
    bodies = {name: graph.functions[name].copied() for name in sorted(names)}
    graphs = [graph, *(f.graph for f in bodies.values())]
    for each in graphs:
        infer_shapes(each)
    wider = replace(scope, functions=frozenset(names), lists=all(map(holds_only_lists, graphs)))
    if not all(_is_plain(f) for f in bodies.values()) or any(
        _why_call_stays(node, wider, each, is_body=each is not graph) for each in graphs for node in each
    ):
        return replace(scope, lists=wider.lists and not names)
    changed = {n: _widened(f, wider, trace) for n, f in bodies.items() if _is_narrow(f, wider)}
    if changed:
        graph.functions = with_changes(graph.functions, changed)
    return wider


def _is_plain(function: Function) -> bool:
    """Whether no caller decides on its types."""
    attrs = (a for node in function.graph for a in node.attrs_view.values())
    return function.specialized is None and not any(isinstance(a, PlaceholderAttr) for a in attrs)


def _why_call_stays(node: Node, scope: Scope, graph: Graph, *, is_body: bool) -> str:
    if not any(name in graph.functions for name in mentioned(node)):
        return ""
    return scope.why_kept(node, graph, is_body=is_body)


def _is_narrow(function: Function, scope: Scope) -> bool:
    return any(mentions_type(node, scope.narrow) for node in function.graph)


def _widened(function: Function, scope: Scope, trace: Trace) -> Function:
    """The function on floats.

    Args:
        function: a copy, whose body is edited.
    """
    inside = Trace()
    Widening(function.graph, scope, inside, is_body=True).run()
    tell(function.name, inside, trace)
    trace.notes.extend(inside.notes)
    return replace(
        function.settled(),
        input_types=tuple(_wide(t, scope) for t in function.input_types),
        output_types=tuple(_wide(t, scope) for t in function.output_types),
        source=None,
    )


def _wide(element: DType | None, scope: Scope) -> DType | None:
    return FLOAT if element in scope.narrow else element
