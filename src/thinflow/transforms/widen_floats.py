"""Compute in float what the graph computes in half precision or bfloat16.

LiteRT has few kernels for half precision and none for bfloat16, which ONNX Runtime lacks as well. Inputs and
outputs keep their types, and so do ops that look at the bits, draw random numbers or hold state: casts stand
around those. Loops, branches and calls become float as a whole, with what they pass on and the lists they
fill, unless one of their functions has to keep its types.

LiteRT computes next to nothing in double either. Where it is asked for, doubles become floats too: they lose
digits, so that the step is undone where that is more than 1e-3 of an output, and they stay if a constant lies
beyond a float's range.

y = MatMul(x, w) {T=bfloat16}  ->  y = MatMul(x, w) {T=float}      w: float, of the same values
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from thinflow.errors import ParameterError
from thinflow.ir.graph import Graph
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import BFLOAT16, DOUBLE, HALF, DType
from thinflow.rewrite.rule import Trace, Transform, transform
from thinflow.transforms.dtypes.widening import (
    Scope,
    Widening,
    as_float,
    mentions_type,
    reached,
    widen_functions,
)

OTHER_FLOATS = {t.name: t for t in (HALF, BFLOAT16, DOUBLE)}


@transform("widen_floats")
@dataclass(frozen=True)
class WidenFloats(Transform):
    """Turn half precision and bfloat16 into float, and double if asked for.

    Attributes:
        from_: types to turn into float, of half, bfloat16 and double; default: the first two.
        ends: whether inputs and outputs of the graph become float as well, for runtimes that lack the type.
    """

    exact = False  # nothing is rounded to fewer bits in between any more
    tolerance = 1e-3  # of double alone, which must not need more digits than float has

    reaches_functions: ClassVar[bool] = True

    from_: tuple[str, ...] = ()
    ends: bool = False

    def __post_init__(self) -> None:
        # From double digits are lost, so that the result is compared; the other types gain some.
        if self.from_ == (DOUBLE.name,):
            object.__setattr__(self, "exact", True)  # the class is frozen

    def apply(self, graph: Graph, trace: Trace) -> None:
        strange = next((name for name in self.from_ if name not in OTHER_FLOATS), None)
        if strange is not None:
            raise ParameterError(
                f"'{strange}' cannot be widened to float", hint="write half, bfloat16 or double"
            )
        narrow = frozenset(OTHER_FLOATS[name] for name in self.from_ or (HALF.name, BFLOAT16.name))
        # A constant that becomes infinite would not be the same model, so then doubles stay.
        narrow -= _beyond(graph, narrow, trace)
        scope = Scope(narrow, ends=self.ends)
        if self.reaches_functions:
            scope = widen_functions(graph, scope, trace)
        Widening(graph, scope, trace).run()

    def for_function(self) -> WidenFloats:
        return _InBodies(self.from_)


class _InBodies(WidenFloats):
    """The same in the body of a function that keeps its arguments and results."""

    reaches_functions = False


def _beyond(graph: Graph, narrow: Collection[DType], trace: Trace) -> set[DType]:
    """Double, if a constant of the graph has no place among floats; tells which."""
    if DOUBLE not in narrow:
        return set()
    graphs = [graph, *(graph.functions[name].graph for name in sorted(reached(graph)))]
    found = [
        n for g in graphs for n in g if (t := n.tensor) is not None and t.dtype is DOUBLE and _overflows(t)
    ]
    for node in found:
        trace.leave(node, "its numbers lie beyond the range of float")
    return {DOUBLE} if found else set()


def _overflows(tensor: Tensor) -> bool:
    """Whether a finite number becomes infinite as float."""
    array = tensor.numpy()
    return bool((np.isinf(as_float(array)) & np.isfinite(array)).any())


__all__ = ["OTHER_FLOATS", "WidenFloats", "mentions_type"]
