"""Blocks in scopes of too many members, found by structure: repeated layers first, then narrow places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from itertools import pairwise

from thinflow.explorer.document import NodeKind, ScopeKind
from thinflow.explorer.flattening import Box
from thinflow.explorer.repeats import find_repeats
from thinflow.explorer.tree import Group, Neighbours, is_unneeded

MOST_MEMBERS = 30
"""Boxes that can be taken in at once."""
_FEW = 20
_USUAL = 8
"""Members of a block, where nothing else tells how many."""

Member = Box | Group
_ENDS = (NodeKind.INPUT, NodeKind.OUTPUT)


def split_scopes(root: Group, neighbours: Neighbours) -> None:
    """Put members of scopes that have too many into blocks, at any depth. O(lines x depth), about."""
    pending = [root]
    while pending:
        group = pending.pop()
        while len(group.members) > MOST_MEMBERS:
            before = len(group.members)
            # What repeats is known to, and would be found to again without end.
            group.members = _in_blocks(group.members, neighbours, group.kind is not ScopeKind.REPEATED)
            if len(group.members) >= before:
                break
        pending += [m for m in group.members if isinstance(m, Group)]


def _in_blocks(members: Sequence[Member], neighbours: Neighbours, repeated: bool) -> list[Member]:
    """The members with rows of them as blocks; inputs and outputs stay beside them."""
    ends = [m for m in members if isinstance(m, Box) and m.kind in _ENDS and not m.prefix]
    row = [m for m in members if not isinstance(m, Box) or m.kind not in _ENDS or m.prefix]
    if len(row) < 2:
        return [*members]
    widths = _widths(row, neighbours)
    most = MOST_MEMBERS - len(ends)
    repeats = find_repeats([_kind(m) for m in row], widths, most) if repeated else []
    number = _Numbers()
    found: list[Member] = []
    place = 0
    rest = max(most - len(repeats), 2)
    plain = len(row) - sum(r.copies * r.period for r in repeats)
    for repeat in repeats:
        found += _cut(row, place, repeat.start, widths, rest, plain, number)
        size = repeat.period
        copies: list[Member] = [
            number.block(row[at : at + size]) for at in range(repeat.start, repeat.end, size)
        ]
        found.append(number.repeated(copies))
        place = repeat.end
    found += _cut(row, place, len(row), widths, rest, plain, number)
    inputs = [m for m in ends if m.kind is NodeKind.INPUT]
    return [*inputs, *found, *(m for m in ends if m.kind is NodeKind.OUTPUT)]


class _Numbers:
    """Blocks of one scope, numbered in their order."""

    def __init__(self) -> None:
        self._count = 0

    def block(self, members: Sequence[Member]) -> Member:
        """A block of some members; one by itself needs none around it."""
        self._count += 1
        if len(members) == 1:
            return members[0]
        return Group(f"block {self._count}", ScopeKind.BLOCK, list(members))

    def repeated(self, copies: Sequence[Member]) -> Group:
        """The blocks of one structure that were made last."""
        first = self._count - len(copies) + 1
        return Group(f"blocks {first}-{self._count}", ScopeKind.REPEATED, list(copies), len(copies))


def _cut(
    row: Sequence[Member],
    begin: int,
    end: int,
    widths: Sequence[int],
    rest: int,
    plain: int,
    number: _Numbers,
) -> list[Member]:
    """A part of the row, in blocks if all that does not repeat is too much.

    Args:
        begin, end: which part.
        rest: boxes that all such parts may become.
        plain: members of all such parts.
    """
    length = end - begin
    if plain <= rest or length < 2:
        return [*row[begin:end]]
    # At least the few that make the whole fit; else such that a block is no more than is usual.
    count = max(min(round(min(rest, _FEW) * length / plain), -(-length // _USUAL)), 1)
    edges = _narrow_places(begin, end, count, widths)
    return [number.block(row[a:b]) for a, b in pairwise(edges)]


def _narrow_places(begin: int, end: int, count: int, widths: Sequence[int]) -> list[int]:
    """Ends of `count` parts of about the same length, where little is handed across."""
    size = (end - begin) / count
    edges = [begin]
    for number in range(1, count):
        ideal = begin + round(number * size)
        reach = int(size / 2)
        low, high = max(edges[-1] + 1, ideal - reach), min(end - (count - number), ideal + reach)
        places = range(low, high + 1)
        if places:
            edges.append(min(places, key=lambda at: (widths[at], abs(at - ideal), at)))
    return [*edges, end]


def _widths(row: Sequence[Member], neighbours: Neighbours) -> list[int]:
    """In front of each member, and at the end: how many members before are read at it or behind."""
    home = {box: at for at, member in enumerate(row) for box in boxes_of(member)}
    steps = [0] * (len(row) + 1)
    for at, member in enumerate(row):
        last = at
        for box in boxes_of(member):
            for reader in neighbours.readers.get(box, ()):
                last = max(last, home.get(reader, at))
        steps[at] += 1
        steps[last] -= 1
    widths, open_now = [0], 0
    for step in steps[: len(row)]:
        open_now += step
        widths.append(open_now)
    return widths


def boxes_of(member: Member) -> Sequence[Box]:
    """The boxes that a member is or holds."""
    return [member] if isinstance(member, Box) else list(member.boxes())


def _kind(member: Member) -> Hashable:
    """Equal for members of the same structure: one op, or scopes of the same ops."""
    if isinstance(member, Box):
        return member.op
    return tuple(sorted(Counter(box.op for box in member.boxes()).items()))


def place_fixed(
    root: Group, fixed: Sequence[Box], neighbours: Neighbours, named: Callable[[Box], Group]
) -> None:
    """Put constants, and what hands them on, into the innermost scope that holds all their readers.

    Args:
        root: the tree without them.
        fixed: in topological order.
        neighbours: who reads whom.
        named: the scope of one that nobody reads.
    """
    above, home = _tree_links(root)
    # Readers first: what hands a constant on is a reader, too.
    for box in reversed(fixed):
        homes = list(dict.fromkeys(home[r] for r in neighbours.readers.get(box, ()) if r in home))
        # A loss, or a saver, that also reads a layer's weights does not draw them out of the layer.
        homes = [group for group in homes if not is_unneeded(above[group])] or homes
        group = _common(homes, above) if homes else named(box)
        home[box] = group
    for box in fixed:
        home[box].members.append(box)


def _tree_links(root: Group) -> tuple[dict[Group, list[Group]], dict[Box, Group]]:
    """The way from the root to each scope, and the scope of each box."""
    ways: dict[Group, list[Group]] = {root: [root]}
    home: dict[Box, Group] = {}
    pending = [root]
    while pending:
        group = pending.pop()
        for member in group.members:
            if isinstance(member, Group):
                ways[member] = [*ways[group], member]
                pending.append(member)
            else:
                home[member] = group
    return ways, home


def _common(groups: Sequence[Group], ways: dict[Group, list[Group]]) -> Group:
    """The innermost scope that holds all of some scopes."""
    common = ways[groups[0]]
    for group in groups[1:]:
        shared = [a for a, b in zip(common, ways[group], strict=False) if a is b]
        common = shared
    return common[-1]
