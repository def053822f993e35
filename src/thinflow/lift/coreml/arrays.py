"""MIL's movement of data, reductions and sorting."""

from __future__ import annotations

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import INT32, INT64
from thinflow.lift.coreml.rules import ints, mil, number, onnx, row, word
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.delegated import onnx_results
from thinflow.lift.onnx.values import rank, typed
from thinflow.lift.rules import Rule

_REDUCTIONS = {
    "reduce_mean": "ReduceMean",
    "reduce_sum": "ReduceSum",
    "reduce_prod": "ReduceProd",
    "reduce_max": "ReduceMax",
    "reduce_min": "ReduceMin",
    "reduce_l1_norm": "ReduceL1",
    "reduce_l2_norm": "ReduceL2",
    "reduce_log_sum": "ReduceLogSum",
    "reduce_log_sum_exp": "ReduceLogSumExp",
    "reduce_sum_square": "ReduceSumSquare",
}


def _reduction(op: str) -> Rule:
    def rule(c: Call) -> Value:
        axes = ints(c, "axes", range(rank(c)))
        return onnx(c, op, c[0], row(c, axes), keepdims=int(c.flag("keep_dims")))

    return rule


for _mil, _op in _REDUCTIONS.items():
    mil(_mil)(_reduction(_op))


def _extreme(op: str) -> Rule:
    def rule(c: Call) -> Value:
        axis = int(number(c, "axis", -1))
        return onnx(c, op, c[0], axis=axis, keepdims=int(c.flag("keep_dims")))

    return rule


mil("reduce_argmax", ignores=("output_dtype",))(_extreme("ArgMax"))
mil("reduce_argmin", ignores=("output_dtype",))(_extreme("ArgMin"))


@mil("transpose")
def _transpose(c: Call) -> Value:
    return onnx(c, "Transpose", c[0], perm=ints(c, "perm"))


@mil("reshape")
def _reshape(c: Call) -> Value:
    return c.emit("Reshape", c[0], c[1], Tshape=c[1].dtype)


@mil("expand_dims")
def _expand_dims(c: Call) -> Value:
    return onnx(c, "Unsqueeze", c[0], row(c, ints(c, "axes")))


@mil("squeeze")
def _squeeze(c: Call) -> Value:
    axes = ints(c, "axes")
    return onnx(c, "Squeeze", c[0], row(c, axes) if axes else None)


@mil("flatten2d")
def _flatten(c: Call) -> Value:
    return onnx(c, "Flatten", c[0], axis=int(number(c, "axis", 1)))


@mil("concat")
def _concat(c: Call) -> Value:
    values = [c[i] for i in range(len(c.xs))]
    axis = c.constant(int(number(c, "axis", 0)))
    return c.emit("ConcatV2", *values, axis) if len(values) > 1 else c.emit("Identity", values[0])


@mil("stack")
def _stack(c: Call) -> Value:
    return c.emit("Pack", *(c[i] for i in range(len(c.xs))), axis=int(number(c, "axis", 0)), N=len(c.xs))


@mil("split")
def _split(c: Call) -> list[Value]:
    count, axis, sizes = len(c.node.outputs), int(number(c, "axis", 0)), ints(c, "split_sizes")
    if not sizes and int(number(c, "num_splits", count)) != count:
        raise UnsupportedOp("not all of its parts have names")
    c.read_options.add("num_splits")
    if sizes:
        node = c.many("SplitV", c[0], row(c, sizes), c.constant(axis), num_split=count)
    else:
        node = c.many("Split", c.constant(axis % rank(c)), c[0], num_split=count)
    return [node.output(i) for i in range(count)]


def _bits(c: Call, option: str) -> int:
    given = c.get(option)
    flags = given if isinstance(given, tuple) else () if given is None else (given,)
    return sum(1 << i for i, flag in enumerate(flags) if flag)


@mil("slice_by_index")
def _slice_by_index(c: Call) -> Value:
    """As numpy slices; an axis that is squeezed is gone."""
    stride = row(c, ints(c, "stride", (1,) * rank(c)))
    return c.emit(
        "StridedSlice", c[0], typed(c, c[1], INT64), typed(c, c[2], INT64), stride,
        begin_mask=_bits(c, "begin_mask"), end_mask=_bits(c, "end_mask"),
        shrink_axis_mask=_bits(c, "squeeze_mask"), ellipsis_mask=0, new_axis_mask=0,
    )  # fmt: skip


@mil("slice_by_size")
def _slice_by_size(c: Call) -> Value:
    return c.emit("Slice", c[0], typed(c, c[1], INT64), typed(c, c[2], INT64), Index=INT64)


@mil("gather")
def _gather(c: Call) -> Value:
    axis, batch = int(number(c, "axis", 0)), int(number(c, "batch_dims", 0))
    if batch:
        return c.emit("GatherV2", c[0], c[1], c.constant(axis), batch_dims=batch)
    return onnx(c, "Gather", c[0], c[1], axis=axis)


@mil("gather_along_axis")
def _gather_along_axis(c: Call) -> Value:
    return onnx(c, "GatherElements", c[0], c[1], axis=int(number(c, "axis", 0)))


@mil("gather_nd")
def _gather_nd(c: Call) -> Value:
    return onnx(c, "GatherND", c[0], c[1], batch_dims=int(number(c, "batch_dims", 0)))


@mil("scatter_nd")
def _scatter_nd(c: Call) -> Value:
    mode = word(c, "mode", "add")
    if mode not in ("update", "add", "mul", "max", "min"):
        raise UnsupportedOp(f"its mode is '{mode[:20]}'")
    return onnx(c, "ScatterND", c[0], c[1], c[2], reduction="none" if mode == "update" else mode)


_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}


@mil("pad")
def _pad(c: Call) -> Value:
    """The last axes are padded, in pairs of numbers."""
    given, mode, count = ints(c, "pad"), word(c, "mode", "constant"), rank(c)
    if len(given) % 2 or len(given) > 2 * count or mode not in _MODES:
        raise UnsupportedOp(f"it pads {count} axes with {len(given)} numbers by '{mode[:20]}'")
    pads = (0,) * (2 * count - len(given)) + given
    fill = number(c, "constant_val", 0.0)
    kind = c[0].dtype.numpy() if c[0].dtype is not None else np.dtype(np.float32)
    value = c.constant(np.array(fill).astype(kind)) if mode == "constant" else None
    return onnx(c, "Pad", c[0], row(c, (*pads[::2], *pads[1::2])), value, mode=_MODES[mode])


@mil("tile")
def _tile(c: Call) -> Value:
    return c.emit("Tile", c[0], c[1], Tmultiples=c[1].dtype)


@mil("fill")
def _fill(c: Call) -> Value:
    return c.emit("Fill", c[0], c[1], T=c[1].dtype, index_type=c[0].dtype)


@mil("range_1d")
def _range(c: Call) -> Value:
    return c.emit("Range", c[0], c[1], c[2], Tidx=c[0].dtype)


@mil("shape", ignores=("output_dtype",))
def _shape(c: Call) -> Value:
    return c.emit("Shape", c[0], out_type=INT32)


@mil("non_zero")
def _non_zero(c: Call) -> Value:
    return c.emit("Where", c[0])


@mil("cumsum")
def _cumsum(c: Call) -> Value:
    axis = c.constant(int(number(c, "axis", 0)))
    return c.emit("Cumsum", c[0], axis, exclusive=c.flag("exclusive"), reverse=c.flag("reverse"))


@mil("topk", ignores=("sort", "output_indices_dtype"))
def _topk(c: Call) -> list[Value]:
    if c.get("return_indices") is False:
        raise UnsupportedOp("it gives no places")
    k = row(c, (int(number(c, "k", 1)),))
    options = {"axis": int(number(c, "axis", -1)), "largest": int(not c.flag("ascending")), "sorted": 1}
    return onnx_results(c, "TopK", [c[0], k], options, count=2)


@mil("reverse")
def _reverse(c: Call) -> Value:
    return c.emit("ReverseV2", c[0], row(c, ints(c, "axes", range(rank(c)))), Tidx=INT64)


@mil("reverse_sequence")
def _reverse_sequence(c: Call) -> Value:
    axes = {"seq_dim": int(number(c, "seq_axis", 0)), "batch_dim": int(number(c, "batch_axis", 0))}
    return c.emit("ReverseSequence", c[0], c[1], Tlen=c[1].dtype, **axes)


@mil("one_hot")
def _one_hot(c: Call) -> Value:
    on = c[2] if c.has(2) else c.constant(1)
    off = c[3] if c.has(3) else c.constant(0)
    return c.emit("OneHot", c[0], c[1], on, off, T=on.dtype, axis=int(number(c, "axis", -1)))


@mil("band_part")
def _band_part(c: Call) -> Value:
    lower, upper = (row(c, (int(number(c, name, -1)),)) for name in ("lower", "upper"))
    scalar = row(c, ())
    lower, upper = (c.emit("Reshape", v, scalar, Tshape=INT64) for v in (lower, upper))
    return c.emit("MatrixBandPart", c[0], lower, upper, Tindex=INT64)


@mil("classify")
def _classify(c: Call) -> list[Value]:
    """The name of the largest score, and the scores, which Core ML hands out by name."""
    classes = c.get("classes")
    if not isinstance(classes, tuple) or not classes:
        raise UnsupportedOp("it has no classes")
    names = np.empty(len(classes), object)
    names[:] = [n if isinstance(n, bytes) else str(n).encode() for n in classes]
    flat = c.emit("Reshape", c[0], row(c, (-1,)), Tshape=INT64)
    best = c.emit("ArgMax", flat, c.constant(0), output_type=INT64)
    return [c.emit("GatherV2", c.constant(names), best, c.constant(0)), c.emit("Identity", c[0])]
