"""Arithmetic on partly known shapes, shared by the shape rules."""

from __future__ import annotations

from collections.abc import Sequence

from thinflow.ir.types import Shape, TensorSpec, shape_text
from thinflow.ops.registry import require

Dim = int | None


def broadcast(*shapes: Shape) -> Shape:
    """The shape of numpy-style broadcasting; an unknown size stays so unless the other side settles it."""
    if any(s is None for s in shapes):
        return None
    if len(shapes) == 1:
        return shapes[0]
    known = [s for s in shapes if s is not None]
    rank = max((len(s) for s in known), default=0)
    result: list[Dim] = []
    for axis in range(-rank, 0):
        sizes = [s[axis] for s in known if len(s) >= -axis]
        above_one = {d for d in sizes if d is not None and d != 1}
        require(len(above_one) <= 1, f"shapes {' and '.join(shape_text(s) for s in shapes)} do not broadcast")
        if above_one:
            # An unknown size next to n > 1 (or 0) can only be n or 1, and either gives n; next to 1 it stays
            # unknown.
            result.append(above_one.pop())
        else:
            result.append(None if any(d is None for d in sizes) else 1)
    return tuple(result)


def merge(a: Shape, b: Shape) -> Shape:
    """The shape that two descriptions of the same tensor give together, each filling the other's gaps."""
    if a is None or b is None:
        return b if a is None else a
    require(len(a) == len(b), f"shapes {shape_text(a)} and {shape_text(b)} have different ranks")
    merged: list[Dim] = []
    for x, y in zip(a, b, strict=True):
        require(x is None or y is None or x == y, f"shapes {shape_text(a)} and {shape_text(b)} differ")
        merged.append(y if x is None else x)
    return tuple(merged)


def normalize_axis(axis: int, rank: int) -> int:
    """A non-negative axis from one that may count from the end."""
    require(-rank <= axis < rank, f"axis {axis} is out of range for rank {rank}")
    return axis % rank if rank else 0


def product(dims: Sequence[Dim]) -> Dim:
    """Product of sizes, None if one is unknown (unless another is 0)."""
    result = 1
    unknown = False
    for dim in dims:
        if dim is None:
            unknown = True
        else:
            result *= dim
    return None if unknown and result != 0 else result


def window_output(
    size: Dim, window: int, stride: int, padding: str, dilation: int = 1, explicit: tuple[int, int] = (0, 0)
) -> Dim:
    """Output size of a sliding window along one axis.

    SAME: ceil(size / stride).
    VALID: ceil((size - span + 1) / stride) with span = (window - 1) * dilation + 1.
    EXPLICIT: as VALID on the padded size. Source: TensorFlow's `GetWindowedOutputSize`.
    """
    if size is None:
        return None
    if padding == "SAME":
        return -(-size // stride)
    span = (window - 1) * dilation + 1
    if padding == "EXPLICIT":
        size += sum(explicit)
    return max(-(-(size - span + 1) // stride), 0)


def same_padding(size: int, window: int, stride: int, dilation: int = 1) -> tuple[int, int]:
    """Zeros before and after one axis under SAME padding; the odd one goes after."""
    span = (window - 1) * dilation + 1
    total = max((-(-size // stride) - 1) * stride + span - size, 0)
    return total // 2, total - total // 2


def rank_of(spec: TensorSpec, rank: int, what: str) -> tuple[Dim, ...]:
    """The dims of a tensor that must have this rank; all unknown if its rank is."""
    if spec.shape is None:
        return (None,) * rank
    require(len(spec.shape) == rank, f"{what} has shape {shape_text(spec.shape)}, rank {rank} is needed")
    return spec.shape
