"""Sums of products in index notation, as transposes, reshapes and one matrix product.

A letter that stands twice in an operand takes a diagonal, which comes first.
Letters of two operands are of four kinds: batch (in both and in the result), rows (of the first), columns (of
the second), and summed over (in both, not in the result). What one operand alone sums over goes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from thinflow.ir.graph import Node
from thinflow.ir.types import FLOAT, INT32
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder, require, shape_of
from thinflow.tflite.model import Tensor

_SPARE = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@lower("Einsum", to="tflite")
def einsum(b: Builder, node: Node, *xs: Tensor, equation: str) -> Tensor:
    require(len(xs) <= 2, f"LiteRT multiplies two tensors, not {len(xs)}")
    require(all(x.dtype is FLOAT for x in xs), f"the operands are {xs[0].dtype}, not float")
    terms, result = _terms(equation, [len(shape_of(x, "an operand")) for x in xs])
    require(len(set(result)) == len(result), f"'{equation}' makes a diagonal, which TFLite cannot")
    diagonals = [_diagonal(b, x, term) for x, term in zip(xs, terms, strict=True)]
    xs, terms = tuple(x for x, _ in diagonals), [term for _, term in diagonals]
    if len(xs) == 1:
        return _single(b, xs[0], terms[0], result)
    x, y = (
        _summed(b, t, term, terms[1 - n] + result) for n, (t, term) in enumerate(zip(xs, terms, strict=True))
    )
    first, second = ("".join(c for c in term if c in terms[1 - n] + result) for n, term in enumerate(terms))
    return _product(b, x, first, y, second, result)


def _terms(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The letters of each operand and of the result; those of "..." are capitals that occur nowhere else."""
    # One character for the ellipsis, so that a term's length is the number of its letters, and one for that.
    left, arrow, result = equation.replace(" ", "").replace("...", ".").partition("->")
    terms = left.split(",")
    require(bool(arrow) and len(terms) == len(ranks), f"the equation '{equation}' does not say what it gives")
    spare = [c for c in _SPARE if c not in equation]
    widths = [rank - len(t) + 1 for rank, t in zip(ranks, terms, strict=True) if "." in t]
    most = max(widths, default=0)
    # Axes of "..." broadcast from the right; with as many in each operand they are the same letters.
    require(all(w in (0, most) for w in widths), f"the operands of '{equation}' broadcast against each other")
    filled = [
        t.replace(".", "".join(spare[:w]) if (w := rank - len(t) + 1) > 0 else "")
        for rank, t in zip(ranks, terms, strict=True)
    ]
    require(
        all(len(t) == r for t, r in zip(filled, ranks, strict=True)), f"the operands do not fit '{equation}'"
    )
    return filled, result.replace(".", "".join(spare[:most]))


def _diagonal(b: Builder, x: Tensor, term: str) -> tuple[Tensor, str]:
    """x with one axis for a letter that stands twice, which comes last; and the letters then."""
    for letter in dict.fromkeys(c for c in term if term.count(c) > 1):
        require(term.count(letter) == 2, f"'{letter}' stands {term.count(letter)} times in '{term}'")
        first, second = (n for n, c in enumerate(term) if c == letter)
        rest = [n for n in range(len(term)) if n not in (first, second)]
        x = b.transposed(x, [*rest, first, second])
        *outer, size, other = shape_of(x)
        require(size is not None and size == other, "the size of the diagonal is not known")
        flat = b.reshaped(x, (*outer, (size or 0) ** 2)) if outer.count(None) < 2 else _flat(b, x, size or 0)
        # Element (k, k) of a matrix [n,n] is number k * (n + 1) of its elements.
        places = b.ints(range(0, (size or 0) ** 2, (size or 0) + 1), "places")
        x = b.step("GATHER", flat, places, shape=(*outer, size), suffix="diagonal", axis=len(outer))
        term = "".join(term[n] for n in rest) + letter
    return x, term


def _flat(b: Builder, x: Tensor, size: int) -> Tensor:
    """x [..., size, size] as [..., size * size], where several sizes are not known."""
    sizes = shape_of(x)
    now = b.step("SHAPE", x, shape=(len(sizes),), element=INT32, out_type=INT32)
    outer = b.step("SLICE", now, b.ints([0]), b.ints([len(sizes) - 2]), shape=(len(sizes) - 2,))
    shape = b.step("CONCATENATION", outer, b.ints([size**2]), shape=(len(sizes) - 1,), axis=0)
    return b.step("RESHAPE", x, shape, shape=(*sizes[:-2], size**2))


def _single(b: Builder, x: Tensor, term: str, result: str) -> Tensor:
    """One operand: summed over, then transposed."""
    x = _summed(b, x, term, result)
    kept = "".join(c for c in term if c in result)
    return b.emit("TRANSPOSE", x, b.ints([kept.index(c) for c in result], "order"))


def _summed(b: Builder, x: Tensor, term: str, elsewhere: str) -> Tensor:
    """x without the axes that nobody else knows."""
    axes = [n for n, c in enumerate(term) if c not in elsewhere]
    if not axes:
        return x
    sizes = shape_of(x)
    shape = tuple(s for n, s in enumerate(sizes) if n not in axes)
    return b.step("SUM", x, b.ints(axes, "axes"), shape=shape, keep_dims=False)


def _product(b: Builder, x: Tensor, first: str, y: Tensor, second: str, result: str) -> Tensor:
    """The matrix product; each group of letters is one axis, unless there is but one letter in it."""
    batch = "".join(c for c in result if c in first and c in second)
    rows = "".join(c for c in result if c in first and c not in second)
    columns = "".join(c for c in result if c in second and c not in first)
    inner = "".join(c for c in first if c in second and c not in result)
    sizes = _Sizes(b, [(x, first), (y, second)])
    operands: tuple[Tensor | None, ...]
    options: dict[str, Any]
    # FULLY_CONNECTED is for constant weights, and takes any leading axes of x.
    if y.is_constant and not batch:
        made = [*rows, columns]
        left = sizes.grouped(_ordered(b, x, first, rows + inner), [*rows, inner])
        weights = sizes.grouped(_ordered(b, y, second, columns + inner), [columns, inner])
        code, operands, options = "FULLY_CONNECTED", (left, weights, None), {"keep_num_dims": True}
    else:
        made = [*batch, rows, columns]
        # The operands as they lie where adj_x and adj_y can transpose them: a TRANSPOSE would copy all
        # elements.
        turned_x = first == batch + inner + rows and bool(inner) and bool(rows)
        turned_y = second == batch + columns + inner and bool(inner) and bool(columns)
        left_order = [inner, rows] if turned_x else [rows, inner]
        right_order = [columns, inner] if turned_y else [inner, columns]
        left = sizes.grouped(_ordered(b, x, first, batch + "".join(left_order)), [*batch, *left_order])
        right = sizes.grouped(_ordered(b, y, second, batch + "".join(right_order)), [*batch, *right_order])
        code, operands, options = "BATCH_MATMUL", (left, right), {"adj_x": turned_x, "adj_y": turned_y}
    letters = batch + rows + columns
    if letters == result and made == list(letters):
        return b.emit(code, *operands, **options)
    out = b.step(code, *operands, shape=sizes.of(made), **options)
    # Only groups of axes are to be taken apart.
    if letters == result:
        return b.emit("RESHAPE", out, sizes.wanted(result))
    if made != list(letters):
        out = sizes.apart(out, list(letters))
    return b.emit("TRANSPOSE", out, b.ints([letters.index(c) for c in result], "order"))


def _ordered(b: Builder, x: Tensor, term: str, order: str) -> Tensor:
    return b.transposed(x, [term.index(c) for c in order])


class _Sizes:
    """Sizes of the axes that letters name: known now, or computed when the model runs."""

    def __init__(self, b: Builder, terms: Sequence[tuple[Tensor, str]]) -> None:
        self._b = b
        self._terms = terms
        self._known: dict[str, int] = {}
        for x, term in terms:
            self._known |= {c: n for c, n in zip(term, shape_of(x), strict=True) if n is not None}

    def of(self, groups: Sequence[str]) -> tuple[int | None, ...]:
        """The product of the sizes in each group of letters; None for what is not known."""
        return tuple(
            # A group without letters is an axis of size 1.
            prod(self._known[c] for c in group) if all(c in self._known for c in group) else None
            for group in groups
        )

    def grouped(self, x: Tensor, groups: Sequence[str]) -> Tensor:
        """x, whose axes are letters, with one axis for each group of them, in this order."""
        if all(len(group) == 1 for group in groups):
            return x
        return self.apart(x, groups)

    def apart(self, x: Tensor, groups: Sequence[str]) -> Tensor:
        """The same, whatever axes x has."""
        shape = self.of(groups)
        if x.is_constant or shape.count(None) <= 1:
            return self._b.reshaped(x, shape)
        return self._b.step("RESHAPE", x, self.wanted(groups), shape=shape)

    def wanted(self, groups: Sequence[str]) -> Tensor:
        """The new shape for a RESHAPE, int32 [number of groups]: computed where two sizes are not known."""
        b, sizes = self._b, [-1 if n is None else n for n in self.of(groups)]
        # RESHAPE finds one size by itself; only a second one needs the operators below.
        if sizes.count(-1) <= 1:
            return b.ints(sizes, "shape")
        free = sizes.index(-1)  # one is found by the runtime
        parts = [
            b.ints([n], "size") if n != -1 or place == free else self._length(groups[place])
            for place, n in enumerate(sizes)
        ]
        return b.step("CONCATENATION", *parts, shape=(len(parts),), axis=0)

    def _length(self, group: str) -> Tensor:
        """The product of some letters' sizes when the model runs, int32 [1]."""
        b = self._b
        # All letters of a group come from one operand, so its SHAPE tells them all.
        x, term = next((x, term) for x, term in self._terms if group[0] in term)
        shape = b.step("SHAPE", x, shape=(len(term),), element=INT32, out_type=INT32)
        own = [term.index(c) for c in group]
        chosen = b.step("GATHER", shape, b.ints(own, "axes"), shape=(len(own),), axis=0)
        if len(own) == 1:
            return chosen
        return b.step("REDUCE_PROD", chosen, b.ints([0], "axis"), shape=(1,), keep_dims=True)
