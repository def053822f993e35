"""LiteRT's ops that move, cut, join and look up arrays, and those with the same operands in TensorFlow."""

from __future__ import annotations

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import INT32, DType
from thinflow.lift.lifter import Call
from thinflow.lift.rules import Rule, lifts, lifts_counterparts, same
from thinflow.lift.tflite.math import activated
from thinflow.tflite.counterparts import Kind, same_in_tensorflow


@lifts("tfl.RESHAPE")
def _reshape(c: Call) -> Value:
    wanted = c.get("new_shape", ())
    # Old converters write a scalar's shape as [0].
    shape = c[1] if c.has(1) else c.constant(() if wanted == (0,) else wanted)
    # LiteRT reads the sizes in a row, of whatever rank what holds them is.
    if shape.spec.shape is not None and len(shape.spec.shape) > 1:
        shape = c.emit("Reshape", shape, c.constant((-1,)), T=INT32, Tshape=INT32)
    return c.emit("Reshape", c[0], shape, Tshape=INT32)


@lifts("tfl.DYNAMIC_UPDATE_SLICE")
def _dynamic_update_slice(c: Call) -> Value:
    """DYNAMIC_UPDATE_SLICE: x with a smaller y written at a place, moved inside where it lies out."""
    shape = c[0].spec.shape
    if shape is None:
        raise UnsupportedOp("the rank of its operand 0 is not known")
    place = c[2] if c[2].dtype is INT32 else c.emit("Cast", c[2], SrcT=c[2].dtype, DstT=INT32)
    whole, part = (c.emit("Shape", c[i], out_type=INT32) for i in (0, 1))
    # Moved back inside, as LiteRT does where TensorFlow's update would be out of range.
    begin = c.emit("Minimum", place, c.emit("Sub", whole, part))
    begin = c.emit("Maximum", begin, c.constant((0,) * len(shape)))
    strides = c.constant((1,) * len(shape))
    return c.emit(
        "TensorStridedSliceUpdate", c[0], begin, c.emit("AddV2", begin, part), strides, c[1], Index=INT32
    )


@lifts("tfl.CONCATENATION")
def _concatenation(c: Call) -> Value:
    xs = [c[i] for i in range(len(c.xs))]
    y = c.emit("ConcatV2", *xs, c.constant(c.get("axis", 0)), N=len(xs), Tidx=INT32)
    return activated(c, y)


@lifts("tfl.STRIDED_SLICE")
def _strided_slice(c: Call) -> Value:
    masks = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    if c.get("offset", False):
        raise UnsupportedOp("its ends are counted from its begins")
    return c.emit("StridedSlice", c[0], c[1], c[2], c[3], Index=INT32, **{m: c.get(m, 0) for m in masks})


@lifts("tfl.SPLIT")
def _split(c: Call) -> list[Value]:
    # The axis is the first operand in both; the type is that of the second.
    node = c.many("Split", c[0], c[1], num_split=c.get("num_splits"), T=c[1].dtype)
    return [node.output(i) for i in range(c.get("num_splits"))]


@lifts("tfl.SPLIT_V")
def _split_v(c: Call) -> list[Value]:
    node = c.many("SplitV", c[0], c[1], c[2], num_split=c.get("num_splits"), Tlen=INT32)
    return [node.output(i) for i in range(c.get("num_splits"))]


@lifts("tfl.PACK")
def _pack(c: Call) -> Value:
    xs = [c[i] for i in range(len(c.xs))]
    return c.emit("Pack", *xs, N=len(xs), axis=c.get("axis", 0))


@lifts("tfl.UNPACK")
def _unpack(c: Call) -> list[Value]:
    node = c.many("Unpack", c[0], num=c.get("num"), axis=c.get("axis", 0))
    return [node.output(i) for i in range(c.get("num"))]


@lifts("tfl.GATHER")
def _gather(c: Call) -> Value:
    axis = c.constant(c.get("axis", 0))
    return c.emit("GatherV2", c[0], c[1], axis, batch_dims=c.get("batch_dims", 0), Tparams=c[0].dtype)


@lifts("tfl.SHAPE")
def _shape(c: Call) -> Value:
    wanted = c.get("out_type", INT32)
    return c.emit("Shape", c[0], out_type=wanted if isinstance(wanted, DType) else INT32)


@lifts("tfl.TOPK_V2")
def _top_k(c: Call) -> list[Value]:
    node = c.many("TopKV2", c[0], c[1], sorted=True)
    return [node.output(0), node.output(1)]


@lifts("tfl.UNIQUE")
def _unique(c: Call) -> list[Value]:
    node = c.many("Unique", c[0], out_idx=c.get("idx_out_type", INT32))
    return [node.output(0), node.output(1)]


def _arg(op: str) -> Rule:
    return lambda c: c.emit(op, c[0], c[1], output_type=c.get("output_type", INT32), Tidx=INT32)


@lifts("tfl.CAST")
def _cast(c: Call) -> Value:
    target = c.spec.dtype
    return c.emit("Cast", c[0], SrcT=c[0].dtype, DstT=target)


def _resize(op: str) -> Rule:
    # TensorFlow's attributes and LiteRT's options have the same names and meanings.
    return lambda c: c.emit(
        op,
        c[0],
        c[1],
        align_corners=c.get("align_corners", False),
        half_pixel_centers=c.get("half_pixel_centers", False),
    )


lifts("tfl.ARG_MAX")(_arg("ArgMax"))
lifts("tfl.ARG_MIN")(_arg("ArgMin"))
lifts("tfl.MIRROR_PAD")(same("MirrorPad", "mode"))
lifts("tfl.SQUEEZE")(lambda c: c.emit("Squeeze", c[0], squeeze_dims=c.get("squeeze_dims", ())))
lifts("tfl.CUMSUM")(same("Cumsum", "exclusive", "reverse"))
lifts("tfl.SPACE_TO_DEPTH")(same("SpaceToDepth", "block_size"))
lifts("tfl.DEPTH_TO_SPACE")(same("DepthToSpace", "block_size"))
lifts("tfl.ONE_HOT")(same("OneHot", "axis"))
lifts("tfl.RESIZE_BILINEAR")(_resize("ResizeBilinear"))
lifts("tfl.RESIZE_NEAREST_NEIGHBOR")(_resize("ResizeNearestNeighbor"))
lifts("tfl.REVERSE_SEQUENCE")(same("ReverseSequence", "seq_dim", "batch_dim"))
# Indices come first in LiteRT.
lifts("tfl.EMBEDDING_LOOKUP")(lambda c: c.emit("GatherV2", c[1], c[0], c.constant(0), Tparams=c[1].dtype))
lifts_counterparts("tfl", same_in_tensorflow(Kind.SAME_OPERANDS), same)
lifts_counterparts("tfl", same_in_tensorflow(Kind.UNSORTED_SEGMENTS), same)
