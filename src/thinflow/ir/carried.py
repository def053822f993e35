"""Contents of a file beside its nodes, which are only carried through."""

from __future__ import annotations

from dataclasses import dataclass
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
