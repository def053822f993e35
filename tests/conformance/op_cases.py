"""The cases of `tests/ops`, one node each, on any engine beside the interpreter: who runs what, how exactly.

`docs/_make_ops_table.py` makes docs/ops.md of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tests.conformance.cases import ABSOLUTE, RELATIVE, difference, is_exact
from tests.ops._agreement import Case
from tests.ops.cases import cases
from thinflow.engines import find
from thinflow.engines._child import can_fork, in_child
from thinflow.errors import ThinflowError
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.types import dtype
from thinflow.ops import registry
from thinflow.ops.traits import Trait

Array = np.ndarray[Any, Any]

EXACT, CLOSE, FALLBACK, OTHER = "exact", "close", "fallback", "other"
"""What becomes of a case: the interpreter's values to the last bit, within the tolerance, run by the
interpreter itself, or other values."""


def outcomes(op: str, engine: str, most: int | None = None) -> Counter[str]:
    """How many cases of an op end how. In a child where that is possible: odd cases may crash an engine."""

    def count() -> Counter[str]:
        return Counter(outcome(op, case, engine) for case in cases().get(op, [])[:most])

    return in_child(count, engine, f"running {op}") if can_fork() else count()


def outcome(op: str, case: Case, engine: str) -> str:
    """The best of some ways to feed a case: what is a constant decides who can run a node."""
    arrays = [np.asarray(x) for x in case[0]]
    found = [_run(op, arrays, case[1], fed, engine) for fed in _ways(arrays)]
    return min(found, key=(EXACT, CLOSE, OTHER, FALLBACK).index, default=FALLBACK)


def _ways(arrays: Sequence[Array]) -> Iterator[set[int]]:
    """Which inputs to feed: what is no short list of integers, the first one, all."""
    data = {i for i, a in enumerate(arrays) if a.dtype.kind not in "iu" or a.ndim > 1}
    seen: list[set[int]] = []
    for fed in (data, {0}, set(range(len(arrays)))):
        if arrays and fed and fed not in seen:
            seen.append(fed)
            yield fed


def _run(op: str, arrays: Sequence[Array], attrs: dict[str, Any], fed: set[int], engine: str) -> str:
    graph = Graph()
    inputs = [
        _placeholder(graph, f"x{i}", a) if i in fed else graph.constant(a, f"x{i}")
        for i, a in enumerate(arrays)
    ]
    node = graph.add(op, inputs, "node", attrs=_with_types(op, attrs, inputs))
    feeds = [a for i, a in enumerate(arrays) if i in fed]
    try:
        outputs = _outputs(node, arrays)
        values = [v for i, v in enumerate(inputs) if i in fed]
        expected = find("reference").compile(graph, values, outputs).run(feeds)
        compiled = find(engine).compile(graph, values, outputs)
        actual = compiled.run(feeds)
    except ThinflowError:
        return FALLBACK
    except (TypeError, ValueError, AttributeError):  # nobody may be shown these
        return OTHER
    if compiled.placement.get("node") != engine:
        return FALLBACK
    if registry.get(op).has(Trait.STATEFUL):
        return EXACT
    if all(is_exact(a, e) for a, e in zip(actual, expected, strict=True)):
        return EXACT
    return OTHER if any(_differs(a, e) for a, e in zip(actual, expected, strict=True)) else CLOSE


def _differs(actual: Array, expected: Array) -> str:
    """What is wrong with a result; sixteen bits round eight times as coarsely as the tolerance for others."""
    if expected.dtype.itemsize == 2 and expected.dtype.kind not in "iu":
        return difference(actual.astype(np.float32), expected.astype(np.float32), 1e-2, 1e-3)
    return difference(actual, expected, RELATIVE, ABSOLUTE)


def _placeholder(graph: Graph, name: str, array: Array) -> Value:
    attrs = {"dtype": dtype(array.dtype), "shape": ShapeAttr(array.shape)}
    return graph.add("Placeholder", name=name, attrs=attrs).output()


def _with_types(op: str, attrs: dict[str, Any], inputs: Sequence[Value]) -> dict[str, Any]:
    """The attributes with the element type, which files always have, where the case leaves it out."""
    first = next((v.dtype for v in inputs), None)
    found = {k: _as_attr(v) for k, v in attrs.items() if v is not None}
    return found if first is None else {"T": first, **found}


def _as_attr(value: Any) -> Any:
    """Lists as tuples, and those with open sizes as shapes."""
    if not isinstance(value, list | tuple):
        return value
    return ShapeAttr(tuple(value)) if None in value else tuple(value)


def _outputs(node: Node, arrays: Sequence[Array]) -> list[Value]:
    results = registry.call_kernel(registry.get(node.op), list(arrays), node.attrs)
    return [node.output(i) for i in range(len(results))]
