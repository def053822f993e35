"""Data of a graph beside its nodes: contents of its file that are carried through, and broken rules."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from thinflow.ir.tensor import Tensor


@dataclass(frozen=True)
class Versions:
    """`GraphDef.versions`: which TensorFlow wrote the graph and which may read it."""

    producer: int = 0
    min_consumer: int = 0
    bad_consumers: tuple[int, ...] = ()


@dataclass(frozen=True)
class Passenger:
    """Contents that a format carries through beyond nodes: (field number, bytes with tag) in file order."""

    fields: tuple[tuple[int, bytes], ...] = ()


@dataclass(frozen=True)
class StateVariable:
    """State that a model keeps from one run to the next, as an input and an output of its graph.

    Attributes:
        name: of the variable in the model.
        input: name of the value that a run begins with.
        output: name of the value that it leaves, of the same type and shape.
        start: what the first run begins with.
    """

    name: str
    input: str
    output: str
    start: Tensor


@dataclass(frozen=True)
class Problem:
    """One broken rule of a graph. Two are equal if they are of one kind at one node, however the text puts
    it.

    Attributes:
        kind: "missing input", "duplicate name", "illegal name", "port", "cycle", "order" or "interface".
        node: name of the node at fault.
        text: the problem in words.
    """

    kind: str
    node: str
    text: str = field(compare=False)

    def __str__(self) -> str:
        return f"node '{self.node}': {self.text}" if self.node else self.text
