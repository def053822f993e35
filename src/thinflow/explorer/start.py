"""Which scopes are open in the first picture: a readable whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set

from thinflow.explorer.blocks import MOST_MEMBERS
from thinflow.explorer.document import NodeKind, ScopeKind
from thinflow.explorer.flattening import Box
from thinflow.explorer.tree import UNNEEDED, Group
from thinflow.ops.traits import Trait, has

ENOUGH = 12
"""Boxes that tell something from which on a picture of a large graph says enough."""
MOST_SEEN = 40
"""Boxes of a graph that is shown with all its scopes open: as many as can be read when it fits the screen."""
_ENDS = (NodeKind.INPUT, NodeKind.OUTPUT)


def start_scopes(root: Group, numbers: Mapping[Group, int], fixed: Set[Box]) -> list[int]:
    """Numbers of the scopes to open, outermost first: all of a small graph, else until it says enough."""
    seen = _shown(root, fixed)
    # A scope is full at that number by itself; inputs and outputs around it come on top.
    most = max(MOST_SEEN, MOST_MEMBERS + sum(isinstance(m, Box) and m.kind in _ENDS for m in seen))
    everything, is_whole = _opened(seen, numbers, fixed, most, most)
    # Some blocks open and others closed would look as if they were different.
    return everything if is_whole else _opened(seen, numbers, fixed, most, ENOUGH)[0]


def _opened(
    shown: list[Box | Group], numbers: Mapping[Group, int], fixed: Set[Box], most: int, enough: int
) -> tuple[list[int], bool]:
    """The scopes that fit, the largest first; whether none stayed closed."""
    seen, numbered = list(shown), list[int]()
    while sum(map(_tells, seen)) < enough:
        closed = [m for m in seen if isinstance(m, Group) and m.name != UNNEEDED]
        fitting = [
            (sum(1 for _ in group.boxes()), -numbers[group], group)
            for group in closed
            if group.kind is not ScopeKind.REPEATED
            and _fits(group, seen, fixed, most)
            # One block or layer of several, open, would look as if it were different.
            and (enough == most or not _is_one_of_many(group, closed))
        ]
        if not fitting:
            return numbered, not closed
        # The largest: a scope around all of a model says nothing while it is closed.
        largest = max(fitting, key=lambda f: f[:2])[2]
        seen.remove(largest)
        seen += _shown(largest, fixed)
        numbered.append(numbers[largest])
    return numbered, not any(isinstance(m, Group) and m.name != UNNEEDED for m in seen)


def _fits(group: Group, seen: list[Box | Group], fixed: Set[Box], most: int) -> bool:
    """Whether it may be opened; what is alone is, whatever it holds: it tells nothing closed."""
    others = [m for m in seen if m is not group and not (isinstance(m, Box) and m.kind in _ENDS)]
    return not others or len(seen) - 1 + len(_shown(group, fixed)) <= most


def _is_one_of_many(group: Group, closed: Sequence[Group]) -> bool:
    """Whether a scope was cut off beside others, or others that stay closed have the ops that it has."""
    if group.kind is ScopeKind.BLOCK:
        return closed != [group]
    same_size = [g for g in closed if g is not group and len(g.members) == len(group.members)]
    return bool(same_size) and _ops(group) in map(_ops, same_size)


def _ops(group: Group) -> Counter[str]:
    return Counter(box.op for box in group.boxes())


def _tells(member: Box | Group) -> bool:
    """Whether a box says something of the model, unlike its ends and what only hands values on."""
    if isinstance(member, Group):
        return member.name != UNNEEDED
    handing_on = member.node is not None and has(member.node.op, Trait.IDENTITY)
    return member.kind not in _ENDS and not handing_on


def _shown(group: Group, fixed: Set[Box]) -> list[Box | Group]:
    return [m for m in group.members if isinstance(m, Group) or m not in fixed]
