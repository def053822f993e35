"""Operands of the rules of all targets, lookup tables included: questions about them, and refusals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from thinflow.analysis.tables import Content, content_of
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Node
from thinflow.ir.types import shape_text

WIDENING = "compute in float instead: `thinflow transform MODEL OUT.pb -t widen_floats`, and convert that"
"""Advice against half precision and bfloat16, of which runtimes have few kernels."""


class Operand(Protocol):
    """A tensor of any target."""

    @property
    def shape(self) -> tuple[int | None, ...] | None: ...

    @property
    def is_constant(self) -> bool: ...

    def array(self) -> Any: ...


def ints(x: Operand, what: str) -> tuple[int, ...]:
    """The elements of a constant.

    Raises:
        UnsupportedOp: it is computed while the model runs.
    """
    if not x.is_constant:
        raise UnsupportedOp(
            f"{what} is computed while the model runs, and has to be fixed",
            hint="fix the input shapes, if it follows from them",  # what is constant was folded
        )
    return tuple(int(v) for v in np.asarray(x.array()).ravel().tolist())


def shape_of(x: Operand, what: str = "the input", rank: int | None = None) -> tuple[int | None, ...]:
    """The sizes of a tensor of known rank.

    Raises:
        UnsupportedOp: the rank is unknown, or not the one wanted.
    """
    if x.shape is None:
        raise UnsupportedOp(f"the rank of {what} is not known", hint="give the shapes of the inputs")
    if rank is not None and len(x.shape) != rank:
        raise UnsupportedOp(f"{what} has shape {shape_text(x.shape)}; rank {rank} is needed")
    return x.shape


def axes_of(axes: Operand, rank: int | None, what: str) -> tuple[int, ...]:
    """The elements of a constant axis input, none negative.

    Raises:
        UnsupportedOp: not constant, unknown rank, or out of range.
    """
    values = ints(axes, what)
    if rank is None:
        if any(v < 0 for v in values):
            raise UnsupportedOp(f"the rank is not known, and {what} counts from its end")
        return values
    # A scalar has no axis; 0 is let through for it.
    if any(not -rank <= v < max(rank, 1) for v in values):
        raise UnsupportedOp(f"{what} {list(values)} does not fit rank {rank}")
    return tuple(v % rank if rank else 0 for v in values)


def require(condition: bool, problem: str, hint: str = "") -> None:
    """Raise UnsupportedOp(problem) unless the condition holds."""
    if not condition:
        raise UnsupportedOp(problem, hint=hint)


def merged(
    known: Sequence[int | None] | None, other: Sequence[int | None] | None
) -> tuple[int | None, ...] | None:
    """All that two descriptions of the items of a list say.

    Raises:
        UnsupportedOp: they contradict each other.
    """
    if known is None or other is None:
        found = known if other is None else other
        return None if found is None else tuple(found)
    pairs = list(zip(known, other, strict=False))
    if len(known) != len(other) or any(None not in (a, b) and a != b for a, b in pairs):
        raise UnsupportedOp(
            f"the items of the list differ in shape: {shape_text(tuple(known))}, {shape_text(tuple(other))}"
        )
    return tuple(b if a is None else a for a, b in pairs)


def is_count(indices: Operand, count: int) -> bool:
    """True if a tensor is 0, 1, ... count - 1."""
    if not indices.is_constant:
        return False
    array = np.asarray(indices.array())
    return array.shape == (count,) and bool((array == np.arange(count)).all())


# ---- Lookup tables for the rules of all targets.


def known_content(node: Node) -> Content:
    """The content of the table that a node reads.

    Raises:
        UnsupportedOp: that is not known before it runs.
    """
    content = content_of(node)
    if isinstance(content, Content):
        return content
    raise UnsupportedOp(f"{content}, so that it is not known what the table holds")
