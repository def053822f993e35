"""Two graphs side by side: which node became which, and what differs, as `diff` finds it."""

from __future__ import annotations

from collections.abc import Mapping

from thinflow.analysis.precision import precision
from thinflow.api.exploring.held import Said, pair_constants
from thinflow.compare.diff.changes import Changes, find_changes
from thinflow.compare.diff.crossing import cross, ops_text
from thinflow.compare.inner_values import match_tensors
from thinflow.explorer.building import Built
from thinflow.explorer.document import Comparison, Texts
from thinflow.explorer.facts import shortened
from thinflow.explorer.flattening import Box
from thinflow.ir.graph import Graph, Node


def compared(first: Built, second: Built, texts: Texts) -> Comparison:
    """The pairs of two graphs. Reads every constant once.

    Two graphs of one vocabulary in the same numbers are matched node by node by what they compute, others by
    the values that both have, constants by what reads them. Bodies of functions are matched by the names of
    calls and nodes.
    """
    a, b = first.main, second.main
    said = _alike(first, second) if _is_alike(a, b) else _crossing(first, second)
    _pair_ends(first, second, said)
    _pair_bodies(first, second, said)
    held = pair_constants(first, second, said)
    found = Comparison()
    for (x, y), real in sorted(said.items()):
        found.pairs += [x, y]
        lines = [*real, *held.get((x, y), ())]
        if lines:
            found.differences[len(found.differs)] = [texts.of(shortened(line)) for line in lines]
        found.differs.append(1 if real else 2 if lines else 0)
    return found


def _is_alike(a: Graph, b: Graph) -> bool:
    if a.vocabulary != b.vocabulary:
        return False
    return not a.vocabulary or precision(a) == precision(b)


def _alike(first: Built, second: Built) -> Said:
    """Pairs of nodes that compute the same, or nearly."""
    changes = find_changes(first.main, second.main)
    lines = _lines(changes)
    ours, theirs = _by_node(first), _by_node(second)
    return {
        (ours[x], theirs[y]): lines.get(x.name, [])
        for x, y in changes.match.pairs.items()
        if x in ours and y in theirs
    }


def _lines(changes: Changes) -> dict[str, list[str]]:
    lines: dict[str, list[str]] = {}
    for change in changes.changes:
        lines.setdefault(change.a, []).append(f"{change.kind}: {change.text}")
    for weight in changes.weights:
        gap = "" if weight.largest is None else f", largest difference {weight.largest:.3g}"
        text = weight.before if weight.before == weight.after else f"{weight.before} -> {weight.after}"
        lines.setdefault(weight.a, []).append(f"values: {text}{gap}")
    return lines


def _crossing(first: Built, second: Built) -> Said:
    """Groups of nodes that compute one value in both, each node paired with the last of the other group."""
    a, b = first.main, second.main
    twins = match_tensors(a, b).pairs
    ours, theirs = _by_node(first), _by_node(second)
    said: Said = {}

    def add(x: Node, y: Node, lines: list[str]) -> None:
        if x in ours and y in theirs:
            said.setdefault((ours[x], theirs[y]), lines)

    for group in cross(a, b).groups:
        # One operator for another is what formats do; more for less was fused, folded or put in between.
        is_word = len(group.a) == len(group.b) == 1
        lines = [] if is_word else [f"{ops_text(group.a)} became {ops_text(group.b)}"]
        x, y = group.value.node, twins[group.value].node
        add(x, y, lines)
        for node in group.a:
            add(node, y, lines)
        for node in group.b:
            add(x, node, lines)
    return said


def _by_node(built: Built) -> Mapping[Node, int]:
    return {box.node: place for place, box in enumerate(built.boxes) if box.node is not None}


def _pair_ends(first: Built, second: Built, said: Said) -> None:
    """Outputs by name, or by position if there are as many; inputs by name."""
    for pick in (_outputs, _inputs):
        ours, theirs = pick(first), pick(second)
        taken = {x for x, _ in said}, {y for _, y in said}
        named = {name: place for place, name in theirs}
        same_count = len(ours) == len(theirs)
        for number, (place, name) in enumerate(ours):
            twin = named.get(name, theirs[number][0] if same_count else None)
            if twin is not None and place not in taken[0] and twin not in taken[1]:
                said.setdefault((place, twin), [])


def _outputs(built: Built) -> list[tuple[int, str]]:
    return [(p, b.name) for p, b in enumerate(built.boxes) if b.value is not None]


def _inputs(built: Built) -> list[tuple[int, str]]:
    nodes = {v.node for v in built.main.inputs}
    return [(p, b.name) for p, b in enumerate(built.boxes) if b.node in nodes]


def _pair_bodies(first: Built, second: Built, said: Said) -> None:
    theirs = {box.name: (place, box) for place, box in enumerate(second.boxes) if box.prefix}
    taken = {x for x, _ in said}
    for place, box in enumerate(first.boxes):
        found = theirs.get(box.name)
        if box.prefix and found is not None and place not in taken:
            said[place, found[0]] = _body_lines(box, found[1])


def _body_lines(one: Box, other: Box) -> list[str]:
    lines = [] if one.op == other.op else [f"op: {one.op} -> {other.op}"]
    x, y = one.node, other.node
    if x is not None and y is not None and x.tensor is not None and y.tensor is not None:
        lines += [] if x.tensor.same_as(y.tensor) else ["values differ"]
    return lines
