"""Sums of products in index notation."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np

from thinflow.ir.types import FLOAT, TensorSpec
from thinflow.ops._numeric import like, pick, quiet, widen
from thinflow.ops._shapes import Dim, broadcast, merge
from thinflow.ops.registry import Cost, OpDef, Weights, op, require
from thinflow.typing import Array


@dataclass(frozen=True)
class _Equation:
    """`ab...,bc->ac...` taken apart; "..." is the letter "." here."""

    inputs: tuple[str, ...]
    output: str

    @classmethod
    def parse(cls, text: str) -> _Equation:
        require("." not in text.replace("...", ""), f"the equation '{text}' has a stray dot")
        left, arrow, right = text.replace(" ", "").replace("...", ".").partition("->")
        inputs = tuple(left.split(","))
        if not arrow:  # numpy's rule: what occurs once, in alphabetical order
            seen = Counter(c for term in inputs for c in term)
            right = ("." if "." in seen else "") + "".join(
                sorted(c for c, n in seen.items() if n == 1 and c != ".")
            )
        for term in (*inputs, right):
            good = all(c.isalpha() or c == "." for c in term) and term.count(".") <= 1
            require(good, f"the equation '{text}' is malformed at '{term}'")
        for letter in right:
            require(
                letter == "." or any(letter in t for t in inputs), f"'{letter}' of '{text}' is in no input"
            )
        return cls(inputs, right)

    def sizes(self, *specs: TensorSpec) -> tuple[dict[str, Dim], tuple[Dim, ...]] | None:
        """Size of each letter, and the broadcast sizes of "..."; None if an unknown rank hides the latter."""
        require(len(specs) == len(self.inputs), f"{len(specs)} tensors for {len(self.inputs)} terms")
        letters: dict[str, Dim] = {}
        rest: tuple[Dim, ...] | None = ()
        for term, spec in zip(self.inputs, specs, strict=True):
            # Letters of an unknown tensor may still be known from others, but what its "..." hides is not.
            if spec.shape is None:
                letters.update({c: letters.get(c) for c in term})
                rest = None if "." in term else rest
                continue
            extra = len(spec.shape) - len(term.replace(".", ""))
            require(extra == 0 or (extra > 0 and "." in term), f"{spec} does not fit the term '{term}'")
            before = term.partition(".")[0]
            middle = spec.shape[len(before) : len(before) + extra]
            named = spec.shape[: len(before)] + spec.shape[len(before) + extra :]
            for letter, size in zip(term.replace(".", ""), named, strict=True):
                letters[letter] = (merge((letters.get(letter),), (size,)) or (None,))[0]
            if rest is not None:
                rest = broadcast(rest, middle)
        return None if rest is None else (letters, rest)


@op("Einsum")
class Einsum(OpDef):
    """y = products of the inputs' elements, summed over the letters that `equation` does not keep.

    "ij,jk->ik" is a matrix product; "..." stands for leading axes that broadcast; a letter twice in an input
    walks its diagonal, twice in the output fills one.
    """

    weights = Weights(1, 0, (), 0, 0, None)  # which axes, and how many, its equation tells

    @staticmethod
    def infer(*xs: TensorSpec, equation: str) -> TensorSpec:
        parsed = _Equation.parse(equation)
        found = parsed.sizes(*xs)
        if found is None:
            return TensorSpec(pick(*xs), None)
        letters, rest = found
        shape: list[Dim] = []
        for letter in parsed.output:
            shape.extend(rest if letter == "." else (letters[letter],))
        return TensorSpec(pick(*xs), tuple(shape))

    @staticmethod
    @quiet
    def kernel(*xs: Array, equation: str) -> Array:
        parsed = _Equation.parse(equation)
        # numpy would broadcast letters of size 1, which TensorFlow refuses.
        parsed.sizes(*(TensorSpec(FLOAT, x.shape) for x in xs))
        once = "".join(dict.fromkeys(parsed.output))
        text = f"{','.join(parsed.inputs)}->{once}".replace(".", "...")
        # numpy takes repeated letters in inputs but not in the output: those are put on the diagonal below.
        y = np.einsum(text, *(widen(x) for x in xs), optimize=len(xs) > 1)
        if once != parsed.output:
            y = _on_diagonal(np.asarray(y), once, parsed.output)
        return like(y, xs[0])

    @staticmethod
    def cost(y: TensorSpec, *xs: TensorSpec, equation: str) -> Cost:
        parsed = _Equation.parse(equation)
        found = parsed.sizes(*xs)
        assert found is not None
        steps = math.prod(d or 0 for d in (*found[0].values(), *found[1]))
        return Cost(flops=2 * steps, macs=steps) if len(xs) > 1 else Cost(flops=steps)


def _on_diagonal(y: Array, once: str, output: str) -> Array:
    """y with axes `once`, on the diagonals that the repeated letters of `output` describe; 0 elsewhere."""
    extra = y.ndim - len(once.replace(".", ""))
    place: dict[str, tuple[int, ...]] = {}
    axis = 0
    for letter in once:
        width = extra if letter == "." else 1
        place[letter] = tuple(range(axis, axis + width))
        axis += width
    axes = [a for letter in output for a in place[letter]]
    # Element (i, ...) of y goes where every repeated letter has the same index.
    grid = np.ogrid[tuple(slice(n) for n in y.shape)]
    result = np.zeros([y.shape[a] for a in axes], y.dtype)
    result[tuple(grid[a] for a in axes)] = y
    return result
