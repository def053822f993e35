"""The normal form of what an iteration computes for a row of units: sums of products of what it reads.

A recurrent cell is written in many ways: kernels split or joined, biases added here or there, x and h side by
side in one product or each in its own. As a sum it always looks the same:

    bias + W1 s1 + W2 s2 + ... + f1 * a1 + f2 * a2 + ...      W matrices, f factors, s and a atoms

Atoms are what a sum is not: a state, a row of a sequence, a function of a sum, a product of two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from thinflow.typing import Array

FUNCTIONS = ("sigmoid", "tanh", "relu", "softsign", "softplus")


class NoCell(Exception):
    """The loop is no recurrent cell that has a form of its own; the message says why."""


@dataclass(frozen=True)
class Step:
    """The making of a tensor [batch,n] by a target's operator, in words that all targets share.

    Attributes:
        kind: "constant", "product" (with a matrix [k,n]), "add", "subtract", "multiply", "join", "same",
            "clip" (between two numbers), "cut" (from, to), "row" (of a sequence, at the iteration's number),
            "state" (a variable of the loop), "choose" (a condition that can be compared, what stands where it
            holds, what stands elsewhere), or one of FUNCTIONS.
        inputs: tensors of the target.
    """

    kind: str
    inputs: tuple[Any, ...] = ()
    numbers: tuple[float, ...] = ()
    array: Array | None = None


class Steps(Protocol):
    """A target's operators, asked backwards."""

    def step(self, tensor: Any) -> Step:
        """The step that makes a tensor.

        Raises:
            NoCell: in a way that no cell is made of.
        """

    def width(self, tensor: Any) -> int:
        """The size of the last axis.

        Raises:
            NoCell: it is not known.
        """


@dataclass(eq=False)
class Atom:
    """A factor or addend that is no sum; compared by identity.

    Attributes:
        kind: "state", "row", "multiply", "clip", "choose", "sum" (of several terms), or one of FUNCTIONS.
        inputs: the sums it is made from.
        tensor: of the target: the state, the sequence, or the condition that chooses.
    """

    kind: str
    width: int
    inputs: tuple[Sum, ...] = ()
    tensor: Any = None
    numbers: tuple[float, ...] = ()


@dataclass(eq=False)
class Sum:
    """bias + products + terms; each array has an element or a row for each of `width` units, or is one."""

    width: int
    bias: Array
    products: dict[Atom, Array] = field(default_factory=dict)
    terms: dict[Atom, Array] = field(default_factory=dict)

    @property
    def is_constant(self) -> bool:
        return not self.products and not self.terms

    def single(self) -> Atom | None:
        """The atom that it is, if it is no more than that."""
        # With a factor, or beside anything else, it is another value than the atom's.
        if self.products or len(self.terms) != 1 or np.any(self.bias):
            return None
        atom, factor = next(iter(self.terms.items()))
        return atom if np.all(factor == 1) else None

    def scaled(self, factor: Array) -> Sum:
        # A matrix has a row for each unit, a term one factor for each.
        column = factor[:, None] if factor.ndim else factor
        return Sum(
            self.width,
            self.bias * factor,
            {s: m * column for s, m in self.products.items()},
            {a: f * factor for a, f in self.terms.items()},
        )

    def plus(self, other: Sum) -> Sum:
        return Sum(
            max(self.width, other.width),
            self.bias + other.bias,
            _joined(self.products, other.products),
            _joined(self.terms, other.terms),
        )


def _joined(a: Mapping[Atom, Array], b: Mapping[Atom, Array]) -> dict[Atom, Array]:
    return {**a, **{s: a[s] + m if s in a else m for s, m in b.items()}}


class Sums:
    """Reads tensors as sums; each once, so that equal tensors are the same sum and the same atoms."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._known: dict[Any, Sum] = {}
        self._atoms: dict[Any, Atom] = {}

    def of(self, tensor: Any) -> Sum:
        """A tensor as a sum.

        Raises:
            NoCell: it is none.
        """
        if tensor not in self._known:
            self._known[tensor] = self._read(tensor)
        return self._known[tensor]

    def source(self, total: Sum) -> Atom:
        """A sum as what a matrix is multiplied by."""
        # A matrix may also be multiplied by a sum of several terms; the key makes one atom of the same sum.
        return total.single() or self._atom(("sum", total), Atom("sum", total.width, (total,)))

    def _atom(self, key: Any, atom: Atom) -> Atom:
        return self._atoms.setdefault(key, atom)

    def _plain(self, atom: Atom) -> Sum:
        return Sum(atom.width, np.float32(0) * np.ones(()), {}, {atom: np.ones((), np.float32)})

    def _read(self, tensor: Any) -> Sum:
        step = self._steps.step(tensor)
        if step.kind == "same":
            return self.of(step.inputs[0])
        if step.kind == "constant":
            return self._constant(step)
        if step.kind in ("state", "row"):
            owner = step.inputs[0]
            return self._plain(
                self._atom((step.kind, owner), Atom(step.kind, self._steps.width(tensor), (), owner))
            )
        if step.kind == "product":
            return self._product(step)
        if step.kind in ("add", "subtract"):
            left, right = (self.of(t) for t in step.inputs)
            return left.plus(right if step.kind == "add" else right.scaled(np.float32(-1) * np.ones(())))
        if step.kind == "multiply":
            return self._multiplied(*(self.of(t) for t in step.inputs))
        if step.kind == "cut":
            start, stop = (int(n) for n in step.numbers)
            return self._cut(self.of(step.inputs[0]), start, stop)
        if step.kind == "choose":
            chosen = tuple(self.of(t) for t in step.inputs[1:])
            width = max(s.width for s in chosen)
            # Not shared, as it stands for its one tensor; reading each tensor once makes that unique.
            return self._plain(Atom("choose", width, chosen, step.inputs[0]))
        if step.kind == "clip" or step.kind in FUNCTIONS:
            inner = self.of(step.inputs[0])
            return self._plain(Atom(step.kind, inner.width, (inner,), None, step.numbers))
        raise NoCell(f"a {step.kind} is no part of a sum")

    def _constant(self, step: Step) -> Sum:
        assert step.array is not None
        array = step.array
        # One number for all, or one row for all: anything else has numbers for single sequences.
        if array.size != 1 and array.size != array.shape[-1]:
            raise NoCell("a constant differs between the sequences of a batch")
        return Sum(array.size, array.reshape(()) if array.size == 1 else array.reshape(-1))

    def _product(self, step: Step) -> Sum:
        """The product of a matrix [k,n] and sums side by side."""
        assert step.array is not None
        # The runtimes' weights are [units,inputs].
        matrix = step.array.T
        total = Sum(len(matrix), np.zeros((), np.float32))
        at = 0
        for part in self._side_by_side(step.inputs[0]):
            columns = matrix[:, at : at + part.width]
            at += part.width
            if part.is_constant:
                # A matrix times a constant is a bias.
                total = total.plus(Sum(len(matrix), columns @ np.broadcast_to(part.bias, part.width)))
            else:
                total = total.plus(Sum(len(matrix), np.zeros((), np.float32), {self.source(part): columns}))
        if at != matrix.shape[1]:
            raise NoCell("a matrix and what it is multiplied by differ in size")
        return total

    def _side_by_side(self, tensor: Any) -> list[Sum]:
        step = self._steps.step(tensor)
        if step.kind != "join":
            return [self.of(tensor)]
        return [part for t in step.inputs for part in self._side_by_side(t)]

    def _multiplied(self, left: Sum, right: Sum) -> Sum:
        if left.is_constant or right.is_constant:
            factor, other = (left.bias, right) if left.is_constant else (right.bias, left)
            # A vector times one number would make more units of one.
            if factor.ndim and len(factor) != other.width:
                raise NoCell("a factor widens what it multiplies")
            return other.scaled(factor)
        return self._plain(Atom("multiply", max(left.width, right.width), (left, right)))

    def _cut(self, total: Sum, start: int, stop: int) -> Sum:
        """Some units of a sum."""
        if (start, stop) == (0, total.width):
            return total
        return Sum(
            stop - start,
            total.bias[start:stop] if total.bias.ndim else total.bias,
            {s: m[start:stop] for s, m in total.products.items()},
            {self._cut_atom(a, start, stop): f[start:stop] if f.ndim else f for a, f in total.terms.items()},
        )

    def _cut_atom(self, atom: Atom, start: int, stop: int) -> Atom:
        # The matrices that h and rows are multiplied by are cut by their rows; these are multiplied whole.
        if atom.kind in ("state", "row", "choose", "sum"):
            raise NoCell(f"a {atom.kind} is cut into pieces")
        # Gates that are cut from one product share their atoms, so that a cell finds the same ones again.
        key = (atom, start, stop)
        if key not in self._atoms:
            inputs = tuple(s if s.width == 1 else self._cut(s, start, stop) for s in atom.inputs)
            self._atoms[key] = Atom(atom.kind, stop - start, inputs, atom.tensor, atom.numbers)
        return self._atoms[key]
