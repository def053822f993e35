"""StableHLO's operators in .tflite files: elementwise ones, arrays, products, and composites.

LiteRT has kernels for some only; the others stand where a delegate was to run them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import BOOL, INT32
from thinflow.lift.lifter import Call
from thinflow.lift.rules import Rule, lifts, lifts_counterparts, same
from thinflow.lift.tflite.control import called
from thinflow.tflite.counterparts import Kind, same_in_tensorflow


def result_sizes(c: Call) -> tuple[int, ...]:
    """The sizes of the result.

    Raises:
        UnsupportedOp: they are not all known.
    """
    shape = c.spec.shape
    if shape is None or None in shape:
        raise UnsupportedOp("the sizes of its output are not known")
    return tuple(n for n in shape if n is not None)


def _by_type(of_bools: str, of_numbers: str) -> Rule:
    return lambda c: c.emit(of_bools if c[0].dtype is BOOL else of_numbers, c[0], c[1])


@lifts("tfl.STABLEHLO_DIVIDE")
def _divide(c: Call) -> Value:
    """STABLEHLO_DIVIDE: of integers cut off towards zero."""
    kind = c[0].dtype
    return c.emit("TruncateDiv" if kind is not None and kind.is_integer else "RealDiv", c[0], c[1])


@lifts("tfl.STABLEHLO_CLAMP")
def _clamp(c: Call) -> Value:
    """STABLEHLO_CLAMP: least, x, most; the bounds may be scalars."""
    return c.emit("Minimum", c.emit("Maximum", c[1], c[0]), c[2])


@lifts("tfl.STABLEHLO_COMPARE", ignores=("compare_type",))
def _compare(c: Call) -> Value:
    op = same_in_tensorflow(Kind.BINARY).get(c.get("comparison_direction", "EQUAL"))
    if op is None:
        raise UnsupportedOp("the kind of its comparison is not known")
    return c.emit(op, c[0], c[1])


@lifts("tfl.STABLEHLO_CONVERT")
def _convert(c: Call) -> Value:
    return c.emit("Cast", c[0], SrcT=c[0].dtype, DstT=c.spec.dtype)


@lifts("tfl.STABLEHLO_CBRT")
def _cube_root(c: Call) -> Value:
    """STABLEHLO_CBRT: sign(x) |x|^(1/3)."""
    size = c.emit("Pow", c.emit("Abs", c[0]), c.constant(1 / 3, c[0]))
    return c.emit("Mul", c.emit("Sign", c[0]), size)


@lifts("tfl.STABLEHLO_RESHAPE")
def _reshape(c: Call) -> Value:
    return c.emit("Reshape", c[0], c.constant(result_sizes(c)), Tshape=INT32)


@lifts("tfl.STABLEHLO_TRANSPOSE")
def _transpose(c: Call) -> Value:
    return c.emit("Transpose", c[0], c.constant(c.get("permutation", ())), Tperm=INT32)


@lifts("tfl.STABLEHLO_CONCATENATE")
def _concatenate(c: Call) -> Value:
    xs = [c[i] for i in range(len(c.xs))]
    return c.emit("ConcatV2", *xs, c.constant(c.get("dimension", 0)), N=len(xs), Tidx=INT32)


@lifts("tfl.STABLEHLO_BROADCAST_IN_DIM")
def _broadcast(c: Call) -> Value:
    """STABLEHLO_BROADCAST_IN_DIM: axis n of x becomes axis dimensions[n] of the result."""
    sizes, places = c.sizes(0), c.get("broadcast_dimensions") or ()
    wanted = result_sizes(c)
    if len(places) != len(sizes) or any(not 0 <= p < len(wanted) for p in places):
        raise UnsupportedOp("its dimensions do not fit its operand")
    spread = [1] * len(wanted)
    for size, place in zip(sizes, places, strict=True):
        spread[place] = size
    # Axes may only move apart, not past each other: that would be a transpose.
    if list(places) != sorted(places):
        raise UnsupportedOp("its dimensions are not in order")
    x = c.emit("Reshape", c[0], c.constant(tuple(spread)), Tshape=INT32)
    return c.emit("BroadcastTo", x, c.constant(wanted), Tidx=INT32)


@lifts("tfl.STABLEHLO_SLICE")
def _slice(c: Call) -> Value:
    ends = (c.constant(c.get(key, ())) for key in ("start_indices", "limit_indices", "strides"))
    return c.emit("StridedSlice", c[0], *ends, Index=INT32)


@lifts("tfl.STABLEHLO_IOTA")
def _iota(c: Call) -> Value:
    """STABLEHLO_IOTA: each element is its place along one axis."""
    sizes, axis = result_sizes(c), c.get("iota_dimension", 0)
    if not 0 <= axis < len(sizes) or math.prod(sizes) > 1 << 24 or c.spec.dtype is None:
        raise UnsupportedOp("its sizes are not such that they can be counted here")
    row = np.arange(sizes[axis]).reshape([-1 if n == axis else 1 for n in range(len(sizes))])
    return c.constant(np.broadcast_to(row, sizes).astype(c.spec.dtype.numpy()))


@lifts("tfl.STABLEHLO_DOT_GENERAL", ignores=("precision_config",))
def _dot_general(c: Call) -> Value:
    """STABLEHLO_DOT_GENERAL: batch axes of both, then free ones of the left and of the right."""
    ranks = [len(c.sizes(n)) for n in (0, 1)]
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    sides: list[dict[int, str]] = [{}, {}]
    shared = ("batching", "contracting")
    batch = ""
    for kind in shared:
        places = [c.get(f"{side}_{kind}_dimensions") or () for side in ("lhs", "rhs")]
        for left, right in zip(*places, strict=True):
            sides[0][left] = sides[1][right] = letter = next(letters)
            batch += letter if kind == "batching" else ""
    names, free = [], ""
    for side, rank in zip(sides, ranks, strict=True):
        own = {n: next(letters) for n in range(rank) if n not in side}
        free += "".join(own.values())
        names.append("".join((side | own)[n] for n in range(rank)))
    return c.emit("Einsum", c[0], c[1], N=2, equation=f"{names[0]},{names[1]}->{batch}{free}")


def _begin(c: Call, first: int, sizes: Sequence[int], part: Sequence[int]) -> Value:
    """Scalars from an operand on, one per axis, moved inside where a part would lie out."""
    begins = [c.emit("Cast", c[n], SrcT=c[n].dtype, DstT=INT32) for n in range(first, len(c.xs))]
    if len(begins) != len(sizes) or len(part) != len(sizes):
        raise UnsupportedOp("it has not one begin for each axis")
    scalars = [
        b if b.spec.shape == () else c.emit("Reshape", b, c.constant(()), Tshape=INT32) for b in begins
    ]
    begin = c.emit("Pack", *scalars, N=len(scalars), axis=0)
    most = c.constant(tuple(max(n - w, 0) for n, w in zip(sizes, part, strict=True)))
    return c.emit("Maximum", c.emit("Minimum", begin, most), c.constant((0,) * len(sizes)))


@lifts("tfl.STABLEHLO_DYNAMIC_SLICE")
def _dynamic_slice(c: Call) -> Value:
    """STABLEHLO_DYNAMIC_SLICE: a part of stated sizes, from a begin that is computed."""
    wanted = tuple(c.get("slice_sizes") or ())
    return c.emit("Slice", c[0], _begin(c, 1, c.sizes(0), wanted), c.constant(wanted), Index=INT32)


@lifts("tfl.STABLEHLO_DYNAMIC_UPDATE_SLICE")
def _dynamic_update_slice(c: Call) -> Value:
    """STABLEHLO_DYNAMIC_UPDATE_SLICE: x with a smaller y written at a place that is computed."""
    part = c.sizes(1)
    begin = _begin(c, 2, c.sizes(0), part)
    end, strides = c.emit("AddV2", begin, c.constant(part)), c.constant((1,) * len(part))
    return c.emit("TensorStridedSliceUpdate", c[0], begin, end, strides, c[1], Index=INT32)


@lifts(
    "tfl.STABLEHLO_COMPOSITE",
    ignores=("name", "composite_attributes", "composite_attributes_format"),
)
def _composite(c: Call) -> list[Value]:
    """STABLEHLO_COMPOSITE: what its decomposition computes, under whatever name."""
    return called(c, "decomposition_subgraph_index")


lifts("tfl.STABLEHLO_AND")(_by_type("LogicalAnd", "BitwiseAnd"))
lifts("tfl.STABLEHLO_OR")(_by_type("LogicalOr", "BitwiseOr"))
lifts("tfl.STABLEHLO_SELECT")(lambda c: c.emit("SelectV2", c[0], c[1], c[2], T=c[1].dtype))
lifts_counterparts("tfl", same_in_tensorflow(Kind.STABLEHLO), same)
