"""What a file holds beside its nodes and is only carried through."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Versions:
    """`GraphDef.versions`: which TensorFlow wrote the graph and which may read it."""

    producer: int = 0
    min_consumer: int = 0
    bad_consumers: tuple[int, ...] = ()


@dataclass(frozen=True)
class Passenger:
    """What a format carries through beyond nodes: (field number, bytes with tag) in file order."""

    fields: tuple[tuple[int, bytes], ...] = ()
