"""ATen's borders and resizing of pictures."""

from __future__ import annotations

import math

from thinflow.errors import UnsupportedOp
from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Value
from thinflow.ir.types import FLOAT, INT64
from thinflow.lift.aten.arguments import Arguments, aten
from thinflow.lift.onnx.formulas import size, vector

# --- borders ------------------------------------------------------------------------------------------------


def _padded(a: Arguments, mode: str, number: float) -> Value:
    """Pads come for the last axis first, each before and behind."""
    pads, rank = a.ints("pad" if a.has("pad") else "padding"), a.rank
    if len(pads) % 2 or len(pads) > 2 * rank:
        raise UnsupportedOp(f"it has {len(pads)} pads for {rank} axes")
    before, behind = [0] * rank, [0] * rank
    for n in range(len(pads) // 2):
        before[rank - 1 - n], behind[rank - 1 - n] = pads[2 * n], pads[2 * n + 1]
    return a.onnx("Pad", a.x, a.integers([*before, *behind]), a.like(number), mode=mode.encode())


@aten("constant_pad_nd")
def _constant_pad(a: Arguments) -> Value:
    return _padded(a, "constant", a.number("value", 0))


_WORDS = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
"""PyTorch's words for borders, and ONNX's."""


@aten("pad")
def _pad(a: Arguments) -> Value:
    mode = a.text("mode", "constant")
    if mode not in _WORDS:
        raise UnsupportedOp(f"it pads in the mode '{mode[:40]}'")
    return _padded(a, _WORDS[mode], a.number("value", 0))


aten("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")(lambda a: _padded(a, "reflect", 0))
aten("replication_pad1d", "replication_pad2d", "replication_pad3d")(lambda a: _padded(a, "edge", 0))


# --- resizing -----------------------------------------------------------------------------------------------


def _resized(a: Arguments, count: int, **options: Attr) -> Value:
    """Pictures in other sizes; a factor that is given says where pixels are looked for, as PyTorch does."""
    x = a.body.term(a.x)
    if len(x.shape) != count + 2:
        raise UnsupportedOp(f"it goes over {count} axes, its operand has {len(x.shape)}")
    factors = a.floats("scale_factors") or _separate_factors(a, count)
    sizes = a.sizes("output_size") if a.has("output_size") else None
    if factors and options.get("coordinate_transformation_mode") == b"align_corners":
        # Then the corners say where pixels are looked for, whatever the factors that the sizes came from.
        known = [math.floor(n * f) for n, f in zip(x.shape[2:], factors, strict=False) if n is not None]
        if len(known) == count:
            factors, sizes = [], [*known]
        elif any(f % 1 for f in factors):
            raise UnsupportedOp(
                f"it aligns corners, and its scale_factors {factors} of open sizes are not whole",
                hint="give the shapes of the inputs",
            )
    operands: list[Value | None]
    if factors and len(factors) == count:
        if min(factors) <= 0:
            raise UnsupportedOp(f"its scale_factors are {factors}")
        scales = a.body.constant([1.0, 1.0, *factors], FLOAT)
        operands = [x.value, None, scales.value]
    elif sizes is not None:
        wanted = vector(a.body, [size(x, 0), size(x, 1), *sizes])
        operands = [x.value, None, None, wanted.cast(INT64).value]
    else:
        raise UnsupportedOp("its sizes are not known")
    return a.onnx("Resize", *operands, **options)


def _separate_factors(a: Arguments, count: int) -> list[float]:
    names = {1: ["scales"], 2: ["scales_h", "scales_w"], 3: ["scales_d", "scales_h", "scales_w"]}[count]
    return [a.number(n) for n in names if a.has(n)]


def _nearest(count: int) -> None:
    @aten(f"upsample_nearest{count}d.vec", f"upsample_nearest{count}d")
    def floor(a: Arguments) -> Value:
        return _resized(
            a, count, mode=b"nearest", nearest_mode=b"floor", coordinate_transformation_mode=b"asymmetric"
        )

    @aten(f"_upsample_nearest_exact{count}d.vec", f"_upsample_nearest_exact{count}d")
    def exact(a: Arguments) -> Value:
        return _resized(
            # floor((i + 0.5) / factor) in ONNX's words: half_pixel takes a half off, rounding adds one.
            a, count, mode=b"nearest", nearest_mode=b"round_prefer_ceil",
            coordinate_transformation_mode=b"half_pixel",
        )  # fmt: skip


def _linear(name: str, count: int, mode: bytes = b"linear") -> None:
    @aten(f"upsample_{name}.vec", f"upsample_{name}")
    def rule(a: Arguments) -> Value:
        way = b"align_corners" if a.flag("align_corners") else b"half_pixel"
        return _resized(a, count, mode=mode, coordinate_transformation_mode=way)

    @aten(f"_upsample_{name}_aa.vec", f"_upsample_{name}_aa")
    def smooth(a: Arguments) -> Value:
        if a.flag("align_corners"):
            raise UnsupportedOp("it smooths what it makes smaller, and aligns corners")
        # As Pillow: with its coefficient, and what lies beyond the edge does not count.
        bend = {"cubic_coeff_a": -0.5} if mode == b"cubic" else {}
        return _resized(
            a, count, mode=mode, coordinate_transformation_mode=b"half_pixel", antialias=1, exclude_outside=1,
            **bend,
        )  # fmt: skip


for _count in (1, 2, 3):
    _nearest(_count)
_linear("linear1d", 1)
_linear("bilinear2d", 2)
_linear("trilinear3d", 3)
# PyTorch's cubic has -0.75 for its coefficient, which is ONNX's default as well.
_linear("bicubic2d", 2, b"cubic")


@aten("affine_grid_generator")
def _affine_grid(a: Arguments) -> Value:
    sizes = vector(a.body, a.sizes("size")).cast(INT64).value
    return a.onnx("AffineGrid", a.tensor("theta"), sizes, align_corners=int(a.flag("align_corners")))


@aten("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
def _grid_sample(a: Arguments) -> Value:
    # In the order of GridSamplerInterpolation and GridSamplerPadding, whose numbers files hold.
    modes = (b"linear", b"nearest", b"cubic")
    borders = (b"zeros", b"border", b"reflection")
    mode, border = a.integer("interpolation_mode"), a.integer("padding_mode")
    if not (0 <= mode < len(modes) and 0 <= border < len(borders)):
        raise UnsupportedOp(f"its modes are {mode} and {border}")
    return a.onnx(
        "GridSample", a.x, a.tensor("grid"), mode=modes[mode], padding_mode=borders[border],
        align_corners=int(a.flag("align_corners")),
    )  # fmt: skip
