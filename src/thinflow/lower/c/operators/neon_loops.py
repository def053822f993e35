"""The inner loops of products on 64-bit Arm, instruction by instruction.

Compilers keep neither twenty sums in registers nor the order that hides how long each product takes.

All are for windows by filters: sums v0, v1, ... are of the first window's filters, then of the next
one's. A window has a pointer of its own, which moves on as it is read.
"""

from __future__ import annotations

from collections.abc import Iterator

REGISTERS = 32
_POINTERS = [f"x{n}" for n in (*range(8, 18), 19, 20)]
MOST_WINDOWS = len(_POINTERS)
_ORDER = 31


def most_windows(blocks: int, *, by_pairs: bool) -> int:
    """Windows whose sums fit, beside what else is in registers.

    Args:
        blocks: registers of weights, half as many as there are of sums for a window.
        by_pairs: whether products are summed by two, which takes registers of their own.
    """
    others = 1 + 2 + 4 if by_pairs else 2
    return min((REGISTERS - others) // (2 * blocks + 1), MOST_WINDOWS)


def text(blocks: int, windows: int, *, by_pairs: bool) -> str:
    """The loops as strings of C."""
    group = _pairs(blocks, windows) if by_pairs else _dots(blocks, windows)
    lines = [*_begun(blocks, windows), *_looped(windows, list(group)), *_ended(blocks, windows)]
    return "\n        ".join(f'"{line}\\n"' for line in lines)


def _begun(blocks: int, windows: int) -> Iterator[str]:
    """All windows begin with the bias."""
    for first in range(0, 2 * blocks * windows, 2):
        yield f"ldp q{first}, q{first + 1}, [%[bias], #{first % (2 * blocks) * 16}]"


def _ended(blocks: int, windows: int) -> Iterator[str]:
    # Immediates would not reach the last ones.
    for first in range(0, 2 * blocks * windows, 2):
        yield f"stp q{first}, q{first + 1}, [%[sums]], #32"


def _looped(windows: int, group: list[str]) -> Iterator[str]:
    """Lines of the window, pieces of a line, groups of elements."""
    yield "1:"
    yield "mov x6, %[x]"
    yield "mov w5, %w[pieces]"
    yield "2:"
    yield f"mov {_POINTERS[0]}, x6"
    for m in range(1, windows):
        yield f"add {_POINTERS[m]}, {_POINTERS[m - 1]}, %[step]"
    yield from group
    yield "add x6, x6, %[piece_step]"
    yield "subs w5, w5, #1"
    yield "b.ne 2b"
    yield "add %[x], %[x], %[line_step]"
    yield "subs %w[lines], %w[lines], #1"
    yield "b.ne 1b"


def _pairs(blocks: int, windows: int) -> Iterator[str]:
    """Four elements of each window: the products of two fit 16 bits, and so do two of them summed."""
    sums = 2 * blocks * windows
    x = [sums + m for m in range(windows)]
    low, high = sums + windows, sums + windows + 1
    products = [sums + windows + 2 + n for n in range(4)]
    yield "mov w7, %w[groups]"
    yield "3:"
    for m in range(windows):
        yield f"ldr s{x[m]}, [{_POINTERS[m]}], #4"
    for m in range(windows):
        yield f"tbl v{x[m]}.16b, {{v{x[m]}.16b}}, v{_ORDER}.16b"
    for n in range(blocks):
        yield f"ldp q{low}, q{high}, [%[w]], #32"
        for first in range(0, windows, 2):
            some = [(m, h) for m in range(first, min(first + 2, windows)) for h in range(2)]
            for p, (m, h) in zip(products, some, strict=False):
                yield f"smull v{p}.8h, v{(low, high)[h]}.8b, v{x[m]}.8b"
            for p, (m, h) in zip(products, some, strict=False):
                yield f"smlal2 v{p}.8h, v{(low, high)[h]}.16b, v{x[m]}.16b"
            for p, (m, h) in zip(products, some, strict=False):
                yield f"sadalp v{2 * (m * blocks + n) + h}.4s, v{p}.8h"
    yield "subs w7, w7, #1"
    yield "b.ne 3b"


def _dots(blocks: int, windows: int) -> Iterator[str]:
    """Sixteen elements of each window, then four of them at a time."""
    yield "lsr w7, %w[groups], #2"
    yield "cbz w7, 4f"
    yield "3:"
    yield from _dotted(blocks, windows, 4)
    yield "subs w7, w7, #1"
    yield "b.ne 3b"
    yield "4:"
    yield "ands w7, %w[groups], #3"
    yield "b.eq 6f"
    yield "5:"
    yield from _dotted(blocks, windows, 1)
    yield "subs w7, w7, #1"
    yield "b.ne 5b"
    yield "6:"


def _dotted(blocks: int, windows: int, groups: int) -> Iterator[str]:
    sums = 2 * blocks * windows
    # As many weights as there is room for are read ahead.
    pairs = [sums + windows + n for n in range(0, REGISTERS - sums - windows - 1, 2)]
    for m in range(windows):
        yield f"ldr {'q' if groups == 4 else 's'}{sums + m}, [{_POINTERS[m]}], #{4 * groups}"
    for turn, (four, n) in enumerate((four, n) for four in range(groups) for n in range(blocks)):
        low = pairs[turn % len(pairs)]
        yield f"ldp q{low}, q{low + 1}, [%[w]], #32"
        for half in range(2):
            for m in range(windows):
                yield f"sdot v{2 * (m * blocks + n) + half}.4s, v{low + half}.16b, v{sums + m}.4b[{four}]"
