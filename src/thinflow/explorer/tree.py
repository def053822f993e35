"""The tree of scopes: by the paths that names spell, bodies of functions among them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from thinflow.explorer.document import NodeKind, ScopeKind
from thinflow.explorer.flattening import Box, Level, Line
from thinflow.ir.order import ancestors

MOST_ENDS = 15
"""Inputs, or outputs, that stand beside the scopes; more of them get a scope of their own."""
UNNEEDED = "not needed for the outputs"

Path = tuple[Level, ...]
_FIXED = (NodeKind.CONSTANT, NodeKind.VARIABLE)
_ENDS = (NodeKind.INPUT, NodeKind.OUTPUT)


@dataclass(eq=False)
class Group:
    """A scope.

    Attributes:
        name: the last part of its path; several where nothing else lies in between.
        members: what is in it, in topological order.
        repeats: how many of one structure follow each other.
    """

    name: str
    kind: ScopeKind = ScopeKind.NAMED
    members: list[Box | Group] = field(default_factory=list)
    repeats: int = 1

    def boxes(self) -> Iterator[Box]:
        """All boxes inside, at any depth."""
        pending: list[Box | Group] = [self]
        while pending:
            member = pending.pop()
            if isinstance(member, Group):
                pending += reversed(member.members)
            else:
                yield member


class Neighbours:
    """Who reads which box, and what it reads; control lines left out."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self.readers: dict[Box, list[Box]] = {}
        self.sources: dict[Box, list[Box]] = {}
        for line in lines:
            if line.port >= 0:
                self.readers.setdefault(line.source, []).append(line.target)
                self.sources.setdefault(line.target, []).append(line.source)


def fixed_boxes(boxes: Sequence[Box], neighbours: Neighbours) -> set[Box]:
    """Constants, variables, and what only hands one of them on; they stand with their readers.

    Args:
        boxes: in topological order.
        neighbours: of them.
    """
    found: set[Box] = set()
    for box in boxes:
        sources, readers = neighbours.sources.get(box, ()), neighbours.readers.get(box, ())
        # What nobody reads, as the reads that Keras stores beside a model, has no reader to stand with.
        hands_on = box.kind is NodeKind.OP and bool(readers) and len(sources) == 1 and sources[0] in found
        if box.kind in _FIXED or hands_on:
            found.add(box)
    return found


def named_tree(
    boxes: Sequence[Box], fixed: set[Box], neighbours: Neighbours
) -> tuple[Group, dict[Path, Group]]:
    """The scopes of all boxes but the fixed ones.

    Returns:
        The root, and the scopes by their paths.
    """
    shown = [box for box in boxes if box not in fixed]
    paths = _paths(shown)
    _adopt(paths, neighbours)
    root = Group("")
    groups: dict[Path, Group] = {(): root}
    for box in shown:
        _group_of(paths[box], groups).members.append(box)
    _shorten(root, groups)
    return root, groups


def _group_of(path: Path, groups: dict[Path, Group]) -> Group:
    for depth in range(1, len(path) + 1):
        part = path[:depth]
        if part not in groups:
            name, kind = part[-1]
            groups[part] = Group(name, kind)
            groups[part[:-1]].members.append(groups[part])
    return groups[path]


def _paths(boxes: Sequence[Box]) -> dict[Box, Path]:
    found = {box: _path(box) for box in boxes}
    taken = {path for path in found.values() if path}
    taken |= {path[:depth] for path in taken for depth in range(1, len(path))}
    for box, path in found.items():
        # "conv1" beside "conv1/weights" is the result of the scope and stands in it.
        inside = (*path, (_parts(box)[-1], ScopeKind.NAMED))
        if inside in taken and box.kind is not NodeKind.INPUT:
            found[box] = inside
    unneeded = _unneeded(boxes)
    for box in unneeded:
        found[box] = ((UNNEEDED, ScopeKind.BLOCK), *found[box])
    for kind, name in ((NodeKind.INPUT, "inputs"), (NodeKind.OUTPUT, "outputs")):
        ends = [box for box in boxes if box.kind is kind and not box.prefix and box not in unneeded]
        # However deep their names are, inputs and outputs can be seen from the start.
        where: Path = () if len(ends) <= MOST_ENDS else ((name, ScopeKind.BLOCK),)
        found.update(dict.fromkeys(ends, where))
    return found


def _adopt(paths: dict[Box, Path], neighbours: Neighbours) -> None:
    """Give boxes whose names have no scope that of all around them.

    Converters put transposes and activations between layers and name them without the scope of these:
    at the root, each would lead out of the scope and back into it.
    """
    nameless = {b for b, path in paths.items() if not path and b.kind not in _ENDS}
    seen: set[Box] = set()
    for first in paths:
        if first not in nameless or first in seen:
            continue
        seen.add(first)
        joined, around = [first], list[Path]()
        for box in joined:  # grows while it is walked
            for other in (*neighbours.sources.get(box, ()), *neighbours.readers.get(box, ())):
                if other not in nameless:
                    around += [() if other.kind in _ENDS else paths[other]] if other in paths else []
                elif other not in seen:
                    seen.add(other)
                    joined.append(other)
        if around:
            paths.update(dict.fromkeys(joined, _shared(around)))


def _shared(paths: Sequence[Path]) -> Path:
    """What all paths begin with."""
    levels = takewhile(lambda level: len(set(level)) == 1, zip(*paths, strict=False))
    return tuple(level[0] for level in levels)


def _unneeded(boxes: Sequence[Box]) -> set[Box]:
    """Boxes that no output needs: savers, what trained the model. A body goes with its call."""
    ends = [box.value.node for box in boxes if box.value is not None]
    needed = ancestors(ends)
    return {box for box in boxes if ends and box.outer is not None and box.outer not in needed}


def is_unneeded(way: Sequence[Group]) -> bool:
    """Whether a scope lies in the one of what no output needs.

    Args:
        way: from the root to the scope.
    """
    return any(group.name == UNNEEDED for group in way[1:2])


def _path(box: Box) -> Path:
    path: list[Level] = []
    for name, kind in box.prefix:
        *outer, last = _split(name)
        path += [(part, ScopeKind.NAMED) for part in outer]
        path.append((last, kind))
    path += [(part, ScopeKind.NAMED) for part in _parts(box)[:-1]]
    return tuple(path)


def _parts(box: Box) -> list[str]:
    return _split(box.node.name if box.node is not None else box.name)


def _split(name: str) -> list[str]:
    # LiteRT's converter joins the names of what it fused: "a/BiasAdd;b/MatMul".
    return [part for part in name.partition(";")[0].split("/") if part] or [name]


def _shorten(root: Group, groups: Mapping[Path, Group]) -> None:
    """Join scopes that hold one scope and nothing else, and take away those that hold one box."""
    # The deepest first, so that a chain of any length becomes one.
    for path in sorted(groups, key=len, reverse=True):
        group = groups[path]
        group.members = [_without_layer(m) for m in group.members]
        only = group.members[0] if len(group.members) == 1 else None
        if group is not root and isinstance(only, Group) and group.kind is not ScopeKind.BLOCK:
            both_named = group.kind is only.kind is ScopeKind.NAMED
            group.name = f"{group.name}/{only.name}"
            group.kind = only.kind if both_named else ScopeKind.FUNCTION
            group.members = only.members


def _without_layer(member: Box | Group) -> Box | Group:
    if isinstance(member, Group) and member.kind is ScopeKind.NAMED and len(member.members) == 1:
        return member.members[0] if isinstance(member.members[0], Box) else member
    return member
