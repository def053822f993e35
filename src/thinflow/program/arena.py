"""Memory that a program's activations take when those that are not alive together share it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from thinflow.program.model import Block, Span

ALIGNMENT = 16
"""Bytes; the arena of TensorFlow Lite for Microcontrollers begins each tensor at a multiple of it."""


def arena_bytes(blocks: Iterable[Block[Any, Any]]) -> int:
    """Bytes of one arena for each block, together: inputs, outputs and all that is computed between them.

    Open sizes count as 1, which is one sample where the batch is open; text counts nothing. What is computed
    from constants alone, such as weights that are stored smaller, stays from the first run to the last.
    Buffers that kernels keep for themselves are no tensors, and are not in it.
    """
    return sum(map(_arena, blocks))


def _arena(block: Block[Any, Any]) -> int:
    sized = [(size, span) for tensor, span in _with_lasting(block).items() if (size := _size(tensor))]
    return place(sized)[1]


def place(sized: Sequence[tuple[int, Span]], tries: int = 1) -> tuple[list[int], int]:
    """Offsets for pieces of memory, and the bytes of an arena for all. O(tries n^2).

    Args:
        sized: bytes of each piece, and when it is needed; offsets are sums of such sizes.
        tries: orders that are tried, until one leaves no gap where most is alive.
    """
    # The largest first, each at the lowest gap among those that are alive with it: "greedy by size" of Lee
    # and Pisarchyk (2020), which comes within a few percent of the bound on common networks.
    order = sorted(range(len(sized)), key=lambda i: (-sized[i][0], sized[i][1]))
    best = _placed(sized, order)
    bound = _most_alive(sized) if tries > 1 else 0
    for _ in range(tries - 1):
        offsets, total = _placed(sized, order)
        if total < best[1]:
            best = offsets, total
        if best[1] <= bound:
            break
        # What sticks out at the top comes first in the next order.
        over = [i for i in order if offsets[i] + sized[i][0] == total]
        order = [*over, *(i for i in order if i not in set(over))]
    return best


def _most_alive(sized: Sequence[tuple[int, Span]]) -> int:
    """Bytes that are alive at once, at most: no arena has less."""
    changes = [change for size, span in sized for change in ((span.start, size), (span.end + 1, -size))]
    # What ends makes room for what begins.
    alive, most = 0, 0
    for _, change in sorted(changes):
        alive += change
        most = max(most, alive)
    return most


def _placed(sized: Sequence[tuple[int, Span]], order: Sequence[int]) -> tuple[list[int], int]:
    """As `place`, in one order."""
    sizes = np.array([sized[i][0] for i in order], np.int64)
    starts = np.array([sized[i][1].start for i in order], np.int64)
    ends = np.array([sized[i][1].end for i in order], np.int64)
    offsets = np.zeros(len(sized), np.int64)
    for i in range(len(sized)):
        alive = np.flatnonzero((starts[:i] <= ends[i]) & (ends[:i] >= starts[i]))
        alive = alive[np.argsort(offsets[alive], kind="stable")]
        offsets[i] = _lowest_gap(offsets[alive], offsets[alive] + sizes[alive], int(sizes[i]))
    found = [0] * len(sized)
    for i, offset in zip(order, offsets.tolist(), strict=True):
        found[i] = offset
    return found, int((offsets + sizes).max(initial=0))


def _lowest_gap(begins: Any, stops: Any, size: int) -> int:
    """The lowest offset with room for a size among spans of memory, which come by where they begin."""
    if not len(begins):
        return 0
    # Before each span lies room from the farthest end of those before it on.
    free_from = np.concatenate([[0], np.maximum.accumulate(stops)])
    fits = np.flatnonzero(begins - free_from[:-1] >= size)
    return int(free_from[fits[0]] if len(fits) else free_from[-1])


def _with_lasting(block: Block[Any, Any]) -> dict[Any, Span]:
    """The lifetimes of a block's tensors, with those that last from run to run."""
    spans = block.lifetimes()
    whole = Span(-1, len(block.operators))
    fixed = {t for t in block.constants() if not getattr(t, "is_variable", False)}
    for operator in block.operators:
        read = list(operator.reads())
        if read and all(t in fixed for t in read):
            fixed.update(operator.outputs)
            spans.update(dict.fromkeys(operator.outputs, whole))
    variables = (t for t in block.tensors() if getattr(t, "is_variable", False))
    return spans | dict.fromkeys(variables, whole)


def _size(tensor: Any) -> int:
    """Bytes of a tensor, rounded up to the alignment; 0 if its rank or the width of its type is unknown."""
    shape = tensor.shape
    if shape is None or not tensor.dtype.itemsize:
        return 0
    elements = math.prod(1 if size is None else int(size) for size in shape)
    return -(-elements * int(tensor.dtype.itemsize) // ALIGNMENT) * ALIGNMENT
