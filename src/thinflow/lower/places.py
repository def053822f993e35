"""What rules that work out places need of a target: arithmetic on vectors whose lengths the numbers decide.

Sparse and ragged tensors are such vectors. What is done with them is said once, for all targets; each target
says in its own words what a step is. Numbers of places are of one integer type, the target's own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

from thinflow.ir.types import DType
from thinflow.lower.building import Building, Dims

T = TypeVar("T", bound=Any)


class Places(ABC, Generic[T]):
    """Steps on vectors of places, and on rows [m,...] that stand at them.

    Attributes:
        b: what the steps are written with.
        index: type of places.
    """

    index: DType

    def __init__(self, b: Building[T]) -> None:
        self.b = b

    # --- numbers ------------------------------------------------------------------------------------------

    @abstractmethod
    def vector(self, numbers: Iterable[int]) -> T:
        """Constant places [n]."""

    @abstractmethod
    def number(self, number: int) -> T:
        """One constant place []."""

    @abstractmethod
    def cast(self, x: T, element: DType) -> T:
        """x in another type."""

    @abstractmethod
    def binary(self, code: str, x: T, y: T) -> T:
        """add, sub, mul, div, mod, most, least of two numbers, or less, same, both of them: bool."""

    @abstractmethod
    def choose(self, condition: T, x: T, y: T) -> T:
        """x where the condition holds, else y; broadcast."""

    def places(self, x: T) -> T:
        """An integer tensor as places."""
        return self.cast(x, self.index)

    # --- vectors ------------------------------------------------------------------------------------------

    @abstractmethod
    def size(self, x: T, axis: int = 0) -> T:
        """How long an axis is, a place []."""

    @abstractmethod
    def counting(self, count: T) -> T:
        """0, 1, ... count - 1."""

    @abstractmethod
    def filled(self, count: T, value: T) -> T:
        """`value` [] in a row of `count`."""

    @abstractmethod
    def gathered(self, rows: T, places: T) -> T:
        """The rows [m,...] at places [n] -> [n,...]."""

    @abstractmethod
    def added_up(self, rows: T, places: T, count: T) -> T:
        """Rows [m,...] added up at places [m] -> [count,...], 0 where there is none.

        Raises:
            UnsupportedOp: the target cannot add up numbers of that type.
        """

    @abstractmethod
    def put(self, rows: T, places: T, count: T) -> T:
        """Rows [m,...] at places [m], none of which is named twice -> [count,...], 0 elsewhere."""

    @abstractmethod
    def sums(self, x: T, *, exclusive: bool = False) -> T:
        """Cumulative sums of a vector."""

    @abstractmethod
    def largest(self, x: T) -> T:
        """The largest of a vector that is not empty, []."""

    @abstractmethod
    def order(self, x: T) -> T:
        """Where the smallest stands, the next, ...: equal ones in the order they come in."""

    @abstractmethod
    def where(self, mask: T) -> T:
        """The places at which a mask [n] holds."""

    @abstractmethod
    def joined(self, parts: Sequence[T], axis: int = 0) -> T:
        """One behind the other."""

    @abstractmethod
    def part(self, x: T, start: int, end: int | None, axis: int = 0) -> T:
        """x[start:end] along an axis; None: to its end."""

    @abstractmethod
    def head(self, rows: T, count: T) -> T:
        """The first `count` [] rows."""

    @abstractmethod
    def reshaped(self, x: T, shape: Sequence[int | None]) -> T:
        """x in another shape, of which one size may be None: what the others leave."""

    @abstractmethod
    def shaped(self, x: T, sizes: Sequence[T], shape: Dims) -> T:
        """x with sizes that are places [], of which one may be -1; `shape` says what is known of them."""

    @abstractmethod
    def result(self, x: T, port: int = 0) -> T:
        """x as an output of the node, in its type."""

    # --- made of them -------------------------------------------------------------------------------------

    def column(self, matrix: T, number: int) -> T:
        """[m,r] -> [m]."""
        return self.reshaped(self.part(matrix, number, number + 1, 1), (None,))

    def stacked(self, columns: Sequence[T]) -> T:
        """Columns [m] side by side -> [m,r]."""
        return self.joined([self.reshaped(c, (None, 1)) for c in columns], 1)

    def element(self, vector: T, number: int) -> T:
        """[n] -> []; from the end if below 0."""
        end = None if number == -1 else number + 1
        return self.reshaped(self.part(vector, number, end), ())

    def vector_of(self, numbers: Sequence[T]) -> T:
        """Scalars in a row."""
        return self.joined([self.reshaped(n, (1,)) for n in numbers])

    def sum_of_ones(self, places: T, count: T) -> T:
        """How often each place is named -> places [count]."""
        return self.added_up(self.filled(self.size(places), self.number(1)), places, count)
