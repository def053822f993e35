"""The differences of two graphs, pair by pair."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from thinflow.compare.match_io import Match
from thinflow.compare.match_nodes import match_nodes
from thinflow.ir.attrs import attr_key, attr_text
from thinflow.ir.brief import brief_repr
from thinflow.ir.function import name_before_edits
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.tensor import Tensor
from thinflow.ir.text import graph_text
from thinflow.ir.types import shape_text

# 8 MB in float64, so that a weight of any size is compared in little memory.
CHUNK = 1 << 20
"""Elements of a weight that are compared at once."""


@dataclass(frozen=True)
class Change:
    """One difference at one pair of nodes.

    Attributes:
        kind: "name", "op", "device", "attribute", "input", "control", "shape" or "dtype".
        a, b: names of the two nodes.
        text: what changed, `before -> after`.
    """

    kind: str
    a: str
    b: str
    text: str


@dataclass(frozen=True)
class WeightChange:
    """A constant whose content changed.

    Attributes:
        a, b: names of the two nodes.
        before, after: type and shape, `float[3,3,8]`.
        largest, mean: of |a - b|; None if the shapes differ or they hold no numbers.
        relative: `largest` over the largest |a|; None likewise.
        folded: whether a fold explains it, see `explain`.
    """

    a: str
    b: str
    before: str
    after: str
    largest: float | None = None
    mean: float | None = None
    relative: float | None = None
    folded: bool = False


@brief_repr
@dataclass
class Changes:
    """All that differs.

    Attributes:
        match: the nodes that correspond.
        removed: nodes of the first graph without a twin, in file order.
        added: nodes of the second graph without a twin.
        changes: at pairs, but for weights.
        weights: constants of other content.
        functions: sentences about the library.
    """

    match: Match[Node]
    removed: list[Node] = field(default_factory=list)
    added: list[Node] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    weights: list[WeightChange] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)

    def of(self, kind: str) -> list[Change]:
        return [c for c in self.changes if c.kind == kind]


def find_changes(a: Graph, b: Graph) -> Changes:
    """Every difference of two graphs whose shapes are inferred. Reads all constants. O(nodes + edges)."""
    match = match_nodes(a, b)
    found = Changes(match)
    found.removed = [n for n in a if n not in match.pairs]
    found.added = [n for n in b if n not in match.reverse]
    for x in a:
        y = match.pairs.get(x)
        if y is not None:
            found.changes += _pair_changes(x, y, match)
            found.weights += _weight_change(x, y)
    found.functions = _function_changes(a, b)
    return found


def _pair_changes(x: Node, y: Node, match: Match[Node]) -> Iterator[Change]:
    for kind, before, after in (("name", x.name, y.name), ("op", x.op, y.op), ("device", x.device, y.device)):
        if before != after:
            yield Change(kind, x.name, y.name, f"{before or 'none'} -> {after or 'none'}")
    yield from _attribute_changes(x, y)
    yield from _input_changes(x, y, match)
    yield from _spec_changes(x, y)


def _attribute_changes(x: Node, y: Node) -> Iterator[Change]:
    before, after = x.attrs, y.attrs
    if before is after:
        return
    for key in sorted({*before, *after}):
        one, other = before.get(key), after.get(key)
        # Attributes with an underscore are notes of tools, and weights are compared by themselves.
        if key.startswith("_") or one is other or isinstance(one, Tensor) or isinstance(other, Tensor):
            continue
        if one is None or other is None or attr_key(one) != attr_key(other):
            texts = ["absent" if v is None else attr_text(v) for v in (one, other)]
            yield Change("attribute", x.name, y.name, f"{key}: {texts[0]} -> {texts[1]}")


def _input_changes(x: Node, y: Node, match: Match[Node]) -> Iterator[Change]:
    ours, theirs = x.inputs, y.inputs
    if len(ours) != len(theirs):
        yield Change("input", x.name, y.name, f"{_count(ours)} -> {_count(theirs)}")
    for index, (v, w) in enumerate(zip(ours, theirs, strict=False)):
        # Twins, not names: a node that reads a renamed one has not changed.
        if match.value(v) is not w:
            yield Change("input", x.name, y.name, f"input {index}: {v.name} -> {w.name}")
    waits = {match.pairs.get(n, n) for n in x.control_inputs}
    if waits != set(y.control_inputs):
        texts = [", ".join(f"^{n.name}" for n in m.control_inputs) or "none" for m in (x, y)]
        yield Change("control", x.name, y.name, f"waits for {texts[0]} -> {texts[1]}")


def _count(values: tuple[Value, ...]) -> str:
    return f"{len(values)} input{'' if len(values) == 1 else 's'}"


def _spec_changes(x: Node, y: Node) -> Iterator[Change]:
    for value in x.outputs:
        one, other = value.spec, y.output(value.port).spec
        if one.dtype is not None and other.dtype is not None and one.dtype is not other.dtype:
            yield Change("dtype", x.name, y.name, f"{one.dtype} -> {other.dtype}")
        elif one.shape is not None and other.shape is not None and one.shape != other.shape:
            yield Change("shape", x.name, y.name, f"{shape_text(one.shape)} -> {shape_text(other.shape)}")


def _weight_change(x: Node, y: Node) -> Iterator[WeightChange]:
    one, other = x.tensor, y.tensor
    if one is None or other is None or one.same_as(other):
        return
    before, after = (f"{t.dtype}{shape_text(t.shape)}" for t in (one, other))
    gaps: tuple[float | None, float | None, float | None] = (None, None, None)
    if one.shape == other.shape and all(t.dtype.kind in "fiubc" or t.dtype.is_floating for t in (one, other)):
        gaps = tensor_gap(one, other)
    yield WeightChange(x.name, y.name, before, after, *gaps)


def tensor_gap(one: Tensor, other: Tensor) -> tuple[float, float, float]:
    """Largest |a - b|, mean |a - b|, and the largest over the largest |a|; a bounded copy at a time.

    NaN against NaN counts as equal, against a number as infinitely far.
    """
    largest = total = scale = 0.0
    a, b = one.numpy().reshape(-1), other.numpy().reshape(-1)
    wide = np.complex128 if "c" in (one.dtype.kind, other.dtype.kind) else np.float64
    for start in range(0, a.size, CHUNK):
        x, y = a[start : start + CHUNK].astype(wide), b[start : start + CHUNK].astype(wide)
        with np.errstate(invalid="ignore", over="ignore"):
            # Equality first: the difference of two equal infinities is NaN.
            gap = np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0.0, np.abs(x - y))
        # Now NaN stands for a number on one side only.
        gap = np.where(np.isnan(gap), np.inf, gap)
        finite = np.abs(x[np.isfinite(x)])
        largest, total = max(largest, float(gap.max())), total + float(gap.sum())
        scale = max(scale, float(finite.max()) if finite.size else 0.0)
    relative = 0.0 if largest == 0 else largest / scale if scale else float("inf")
    return largest, total / max(a.size, 1), relative


def _function_changes(a: Graph, b: Graph) -> list[str]:
    names_a, names_b = ({name_before_edits(n): n for n in g.functions} for g in (a, b))
    ours, theirs = set(names_a), set(names_b)
    found = [f"function '{n}' is only in the first" for n in sorted(ours - theirs)]
    found += [f"function '{n}' is only in the second" for n in sorted(theirs - ours)]
    for name in sorted(ours & theirs):
        one, other = a.functions[names_a[name]], b.functions[names_b[name]]
        # Functions that nobody edited are often the very same object in both graphs.
        if one is not other and _body_text(one.graph) != _body_text(other.graph):
            found.append(f"function '{name}' has another body")
    return found


def _body_text(graph: Graph) -> str:
    """The body with constants by content, not by their first elements."""
    contents = [f"{n.name} {n.tensor.fingerprint().hex()}" for n in graph if n.tensor is not None]
    return "\n".join([graph_text(graph), *contents])
