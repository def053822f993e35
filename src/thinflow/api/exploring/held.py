"""Constants of two compared graphs: they belong to what reads them, whatever they are called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from thinflow.explorer.building import Built
from thinflow.explorer.flattening import Box
from thinflow.ir.tensor import Tensor

Said = dict[tuple[int, int], list[str]]
"""Pairs of places -> what differs, a line each."""


def pair_constants(first: Built, second: Built, said: Said) -> Said:
    """Pair the constants that two graphs' twins read, in place.

    Returns:
        What differs in the constants alone, at the pairs of constants and of their readers.
    """
    taken = {x for x, _ in said}, {y for _, y in said}
    found: Said = {}
    for pairs in _groups(first, second, said):
        ours, theirs = (
            [h for place in dict.fromkeys(p[side] for p in pairs) for h in _held(built, place)]
            for side, built in enumerate((first, second))
        )
        for one, other in _matched(ours, theirs, is_single=len(pairs) == 1):
            if one.place in taken[0] or other.place in taken[1]:
                continue
            taken[0].add(one.place)
            taken[1].add(other.place)
            said[one.place, other.place] = []
            line = _difference(one.tensor, other.tensor)
            if line:
                found[one.place, other.place] = [line]
                for pair in pairs:
                    if pair[0] == one.reader and line not in found.setdefault(pair, []):
                        found[pair].append(line)
    return found


class _Held:
    """A constant at an input of a box, by itself or through what hands it on."""

    def __init__(self, place: int, reader: int, number: int, tensor: Tensor) -> None:
        self.place = place
        self.reader = reader
        self.input = number
        self.tensor = tensor


def _held(built: Built, place: int) -> Iterator[_Held]:
    for number, source in enumerate(built.neighbours.sources.get(built.boxes[place], ())):
        box: Box = source
        while box in built.fixed and built.neighbours.sources.get(box):
            box = built.neighbours.sources[box][0]
        tensor = box.node.tensor if box.node is not None else None
        if tensor is not None:
            yield _Held(built.places[box.name], place, number, tensor)


def _groups(first: Built, second: Built, said: Said) -> list[list[tuple[int, int]]]:
    """Pairs of operators that hang together, as those of one fused operator do."""
    ours: dict[int, list[tuple[int, int]]] = {}
    theirs: dict[int, list[tuple[int, int]]] = {}
    for x, y in said:
        if first.boxes[x] in first.fixed or second.boxes[y] in second.fixed:
            continue
        joined = ours.get(x, [])
        other = theirs.get(y, [])
        if joined is not other:
            joined = [*joined, *other]
        joined.append((x, y))
        for a, b in joined:
            ours[a] = theirs[b] = joined
    return list({id(group): group for group in ours.values()}.values())


def _matched(ours: list[_Held], theirs: list[_Held], *, is_single: bool) -> Iterator[tuple[_Held, _Held]]:
    """By the input where one operator became one, else by a size that only one of each has."""
    if is_single:
        by_input = {h.input: h for h in theirs}
        at = [(one, by_input[one.input]) for one in ours if one.input in by_input]
        yield from ((one, other) for one, other in at if one.tensor.size == other.tensor.size)
        return
    counts = [Counter(h.tensor.size for h in side) for side in (ours, theirs)]
    by_size = {h.tensor.size: h for h in theirs}
    for one in ours:
        if counts[0][one.tensor.size] == counts[1][one.tensor.size] == 1:
            yield one, by_size[one.tensor.size]


def _difference(one: Tensor, other: Tensor) -> str:
    name = "weights" if len(one.shape) > 1 else "constant"
    if one.dtype != other.dtype:
        return f"{name} {one.dtype} -> {other.dtype}"
    if one.shape != other.shape or one.same_as(other):
        return ""  # axes in another order
    return f"values of {name} differ"
