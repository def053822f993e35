"""Every lowering rule against the reference kernels, through ONNX Runtime."""

from __future__ import annotations

import traceback

import numpy as np
import pytest

from tests.lower.builders import (
    BOXES,
    I32,
    I64,
    SCORES,
    Constant,
    booleans,
    conv_attrs,
    converted,
    floats,
    integers,
    port_count,
    vector,
)
from tests.lower.gelus import GELUS, spelled_gelu
from tests.lower.onnx.builders import build
from tests.lower.onnx.cases import MORE, RANDOM
from tests.lower.onnx.harness import Net, compare, run_onnx
from tests.lower.tflite import test_ops as others
from thinflow.errors import ParameterError, ThinflowError, UnsupportedOp
from thinflow.ir.types import FLOAT, INT32, dtype
from thinflow.lower import rules
from thinflow.onnx.program import OPSETS

BITS = ("BitwiseAnd", "BitwiseOr", "BitwiseXor")
CASES = [
    *(case for case in others.CASES if case[0] not in ("RightShift", "Bitcast", "BroadcastArgs", *BITS)),
    *((op, [floats(2, 5)], {}) for op in ("Asinh",)),
    *((op, [floats(2, 5, low=-0.9, high=0.9)], {}) for op in ("Atanh",)),
    ("Acosh", [floats(2, 5, low=1.1)], {}),
    *((op, [integers(2, 3), integers(3)], {}) for op in BITS),
    *((op, [integers(4, 5, low=-9, high=9), np.array([[-4, -3, 2, 3, 5]], I32)], {})
      for op in ("FloorDiv", "FloorMod", "TruncateDiv", "TruncateMod")),
    *((op, [floats(4, 5), floats(1, 5)], {}) for op in ("FloorMod", "TruncateMod", "TruncateDiv", "Mod")),
    ("Atan2", [np.float32([0, 1, -1, 0, 0, 2, -2]), np.float32([0, 0, 0, 1, -1, -3, -3])], {}),
    ("Conv2D", [floats(2, 3, 7, 6), Constant(floats(3, 2, 3, 4))], conv_attrs(data_format="NCHW",
     padding="VALID")),
    ("Conv2D", [floats(2, 3, 7, 6), Constant(floats(3, 2, 3, 4))],
     conv_attrs(data_format="NCHW", padding="EXPLICIT", explicit_paddings=[0, 0, 0, 0, 1, 2, 0, 1])),
    ("Conv2DBackpropInput", [vector(1, 9, 9, 2), Constant(floats(3, 3, 2, 3)), floats(1, 5, 5, 3)],
     conv_attrs(strides=[1, 2, 2, 1], padding="SAME")),
    ("Conv2DBackpropInput", [vector(1, 9, 9, 2), Constant(floats(3, 3, 2, 3)), floats(1, 5, 5, 3)],
     conv_attrs(strides=[1, 1, 1, 1], padding="VALID", dilations=[1, 2, 2, 1])),
    ("MaxPool", [floats(1, 5, 5, 2)], {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "EXPLICIT",
                                  "explicit_paddings": [0, 0, 2, 0, 1, 0, 0, 0]}),
    ("MaxPool3D", [floats(1, 4, 5, 6, 2)], {"ksize": [1, 2, 2, 2, 1], "strides": [1, 2, 2, 2, 1],
                                       "padding": "SAME"}),
    ("AvgPool3D", [floats(1, 4, 5, 6, 2)], {"ksize": [1, 2, 3, 2, 1], "strides": [1, 2, 2, 2, 1],
                                       "padding": "SAME"}),
    ("Einsum", [floats(2, 3, 4), floats(4, 5)], {"equation": "bij,jk->bik"}),
    ("Einsum", [floats(2, 3, 4), Constant(floats(4, 5))], {"equation": "bij,jk->bik"}),
    ("Einsum", [floats(2, 3, 4), Constant(floats(5, 4, 6))], {"equation": "btd,edf->btef"}),
    ("Einsum", [floats(2, 3, 4, 5), Constant(floats(6, 5, 4))], {"equation": "abcd,edc->abe"}),
    ("Einsum", [floats(2, 3, 4, 5), Constant(floats(4, 5, 6, 2))], {"equation": "abcd,cdef->abef"}),
    ("Einsum", [floats(2, 3, 4), Constant(floats(4, 5))], {"equation": "bij,jk->bki"}),
    ("Einsum", [floats(2, 3, 4), Constant(floats(3, 4, 5))], {"equation": "bij,ijk->bik"}),
    ("MatrixDiagPart", [floats(2, 3, 3)], {}),
    ("MatrixBandPart", [floats(4, 5), Constant(np.int64(1)), Constant(np.int64(-1))], {}),
    ("AdjustContrastv2", [floats(2, 4, 4, 3), Constant(np.float32(1.5))], {}),
    ("InvertPermutation", [np.array([2, 0, 1], I32)], {}),
    ("SegmentMean", [floats(4, 3), Constant([0, 0, 2, 2], I32)], {}),
    ("UniqueWithCounts", [integers(8, low=0, high=4)], {}),
    ("OneHot", [np.array([0, -1, 5], I32), Constant(np.int32(4)), Constant(np.float32(2)),
     Constant(np.float32(-1))], {}),
    ("OneHot", [integers(2, 3, low=0, high=4), Constant(np.int32(4)), Constant(True), Constant(False)],
     {"axis": 1}),
    ("MirrorPad", [floats(3, 4), Constant([[2, 3], [0, 4]], I32)], {"mode": "SYMMETRIC"}),
    ("ReverseSequence", [floats(4, 3, 2), Constant([2, 3], I32)], {"seq_dim": 0, "batch_dim": 2}),
    ("StridedSlice", [floats(4, 5, 6), vector(-1, 2), vector(0, 0), vector(1, -1)],
     {"shrink_axis_mask": 1, "end_mask": 2}),
    ("ResizeNearestNeighbor", [floats(1, 2, 3, 2), vector(82, 41)], {}),
    ("ResizeNearestNeighbor", [integers(1, 4, 4, 2, element=I64), vector(7, 9)],
     {"half_pixel_centers": True}),
    ("LeakyRelu", [floats(2, 3)], {}),
    ("SplitV", [floats(2, 6), vector(1, -1, 3), Constant(np.int32(1))], {"num_split": 3}),
]  # fmt: skip
NAMES = [f"{n}-{case[0]}" for n, case in enumerate(CASES)]


@pytest.mark.parametrize(("op", "operands", "attrs"), CASES, ids=NAMES)
def test_numerical(op, operands, attrs):
    net, node = build(op, operands, attrs)
    net.check(*(node.output(p) for p in range(3 if op == "UniqueWithCounts" else port_count(node))))


@pytest.mark.parametrize("opset", [o for o in OPSETS if o != 18])
def test_every_opset(opset):
    wrong, refused = [], []
    for name, (op, operands, attrs) in zip(NAMES, CASES, strict=True):
        net, node = build(op, operands, attrs, opset=opset)
        try:
            net.check(*(node.output(p) for p in range(port_count(node))))
        except UnsupportedOp as error:
            refused.append(f"{op}: {error.problem}")
        except Exception:
            wrong.append(f"{name}: {traceback.format_exc()}")
    assert not wrong
    assert all("since opset 18" in r for r in refused), refused


@pytest.mark.parametrize("element", ["half", "double", "int32", "int64", "uint8", "int8", "bool"])
def test_other_types_are_right_or_refused(element):
    """What the tables in `kernels` let pass, ONNX Runtime runs, with the reference's result."""
    wrong = []
    for name, (op, operands, attrs) in zip(NAMES, CASES, strict=True):
        net, node = build(op, [converted(o, dtype(element).numpy()) for o in operands], attrs)
        outputs = [node.output(p) for p in range(port_count(node))]
        try:
            with np.errstate(all="ignore"):
                net.reference(*outputs)
            net.lower(*outputs)
        except ThinflowError:
            continue
        tolerance = {"rtol": 2e-2, "atol": 2e-2} if element == "half" else {}
        try:
            with np.errstate(all="ignore"):
                net.check(*outputs, **tolerance)
        except Exception:
            wrong.append(f"{name}: {traceback.format_exc()}")
    assert not wrong, "\n".join(wrong)


def _is_grouped(op, operands):
    if op != "Conv2D":
        return False
    x, filters = (getattr(operand, "array", operand) for operand in operands)
    return x.shape[-1] != filters.shape[-2]


@pytest.mark.parametrize("unknown", ["batch", "sizes", "rank"])
def test_unknown_sizes_are_right_or_refused(unknown):
    wrong, refused = [], []
    for name, (op, operands, attrs) in zip(NAMES, CASES, strict=True):
        net, node = build(op, operands, attrs, unknown)
        outputs = [node.output(p) for p in range(port_count(node))]
        try:
            net.lower(*outputs)
        except UnsupportedOp as error:
            refused.append(f"{name}: {error.problem}")
            continue
        try:
            net.check(*outputs)
        except Exception as error:
            if "invalid dimensions for input" in str(error) and _is_grouped(op, operands):
                continue  # channels that nothing tells are taken as those of the filters; others are refused
            wrong.append(f"{name}: {str(error)[:300]}")
    assert not wrong, "\n".join(wrong)
    assert len(refused) <= {"batch": 3, "sizes": 31, "rank": 118}[unknown], "\n".join(refused)


def test_every_rule_is_tried():
    untried = set(rules.supported("onnx")) - {c[0] for c in (*CASES, *MORE)} - set(RANDOM)
    below = {"FakeQuantWithMinMaxArgs", "FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel",
             "IdentityN", "RandomUniform", "RandomStandardNormal", "ShapeN", "AsString",
             "ReduceJoin", "RegexFullMatch", "StaticRegexFullMatch", "StringJoin",
             "StringToNumber"}  # fmt: skip
    elsewhere = (
        "NonMaxSuppression",
        "Quantize",
        "Requanti",
        "Dequantize",
        "TensorArray",
        "TensorList",
        "LookupTable",
    )
    assert untried == below | {op for op in untried if op.startswith((*elsewhere, "EmptyTensorList"))}


@pytest.mark.parametrize("share", [1.0, 0.3])
@pytest.mark.parametrize(("batch", "layout"), [(2, "NHWC"), (None, "NCHW")])
def test_statistics_of_a_batch(share, batch, layout):
    net = Net()
    x = net.feed(floats(2, 3, 5, 3) + 9, "x", shape=(batch, 3, 5, 3))
    norm = net.op(
        "FusedBatchNormV3", x, floats(3), floats(3), floats(3), floats(3, low=0.1),
        is_training=True, exponential_avg_factor=share, data_format=layout,
    ).node  # fmt: skip
    net.check(*(norm.output(port) for port in range(5)))


def test_several_ports():
    net = Net()
    x, y = net.feed(floats(2, 3), "x", shape=(None, 3)), net.feed(floats(4), "y", shape=(None,))
    shapes = net.op("ShapeN", x, y)
    alias = net.op("IdentityN", x, y, name="alias", port=1)
    net.check(shapes, shapes.node.output(1), net.op("Neg", alias))


@pytest.mark.parametrize("narrow", [False, True])
def test_fake_quantization(narrow):
    x = floats(4, 50, low=-3.0, high=9.0)
    net = Net()
    fed = net.feed(x)
    attrs = {"num_bits": 4, "narrow_range": narrow}
    outputs = [
        net.op("FakeQuantWithMinMaxArgs", fed, min=-1.0, max=5.0, name="a", **attrs),
        net.op("FakeQuantWithMinMaxVars", fed, np.float32(-1), np.float32(5), name="v", **attrs),
        net.op("FakeQuantWithMinMaxVarsPerChannel", fed, floats(50) - 3, floats(50) + 5, name="c", **attrs),
    ]
    net.check(*outputs)


@pytest.mark.parametrize("op", ["Args", "Vars", "VarsPerChannel"])
@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize(("low", "high"), [(0.0, 2.0), (-1.0, 1.0), (-0.3, 1.7), (-6.0, 0.0)])
def test_fake_quantization_is_exact_at_every_step(op, narrow, low, high):
    """Between two steps lies a half, which is rounded up, and the numbers next to it."""
    halves = np.linspace(low, high, 511, dtype=np.float32)
    x = np.concatenate([halves, np.nextafter(halves, np.float32(9)), np.nextafter(halves, np.float32(-9))])
    x = np.concatenate([x, np.float32([np.nan, np.inf, -np.inf, -0.0])])
    net = Net()
    fed = net.op("Relu", net.feed(np.stack([x, x], 1)))
    limits, attrs = [np.float32(low), np.float32(high)], {"num_bits": 8, "narrow_range": narrow}
    if op == "Args":
        limits, attrs = [], {**attrs, "min": low, "max": high}
    elif op == "VarsPerChannel":
        limits = [np.float32([low, low - 0.1]), np.float32([high, high + 0.1])]
    codes = net.check(net.op(f"FakeQuantWithMinMax{op}", fed, *limits, **attrs), rtol=0, atol=0)
    assert ("Clip" in codes) == (op != "VarsPerChannel")
    assert ("Relu" in codes) == (low < 0 or op == "VarsPerChannel")


def test_random_numbers_have_the_shape_and_range():
    net = Net()
    shape = net.feed(np.int32([50, 40]), "shape")
    draws = [net.op(op, shape, name=op, dtype=FLOAT) for op in ("RandomUniform", "RandomStandardNormal")]
    results = run_onnx(net.lower(*draws), {"shape": np.int32([50, 40])})
    uniform, normal = (results[d.name] for d in draws)
    assert uniform.shape == normal.shape == (50, 40)
    assert 0 <= uniform.min() < 0.1 < 0.9 < uniform.max() <= 1
    assert normal.min() < -1.5
    assert abs(normal.mean()) < 0.2


def test_fused_matmul_is_one_gemm():
    net = Net()
    x, w, bias = net.feed(floats(2, 3)), floats(3, 4), floats(4)
    y = net.op("_FusedMatMul", x, w, bias, fused_ops=["BiasAdd", "Relu"])
    assert net.codes(y) == ["Gemm", "Relu"]
    compare(run_onnx(net.lower(y), {"x": floats(2, 3)})[y.name], np.maximum(floats(2, 3) @ w + bias, 0))


def test_unique_along_the_only_axis():
    net = Net()
    y = net.op("UniqueV2", net.feed(integers(8, low=0, high=4)), np.array([0], I64), T=INT32)
    net.check(y, y.node.output(1))


@pytest.mark.parametrize("op", ["NonMaxSuppression", "NonMaxSuppressionV2"])
def test_older_non_max_suppression(op):
    net = Net()
    more = [np.float32(0.5)] if op.endswith("V2") else []
    attrs = {} if more else {"iou_threshold": 0.5}
    net.check(net.op(op, net.feed(BOXES, "boxes"), net.feed(SCORES, "scores"), np.int32(3), *more, **attrs))


@pytest.mark.parametrize("pad", [False, True])
def test_non_max_suppression(pad):
    net = Net()
    boxes, scores = net.feed(BOXES, "boxes"), net.feed(SCORES, "scores")
    limits = [np.int32(3), np.float32(0.5), np.float32(0.1)]
    v4 = net.op("NonMaxSuppressionV4", boxes, scores, *limits, name="v4", pad_to_max_output_size=pad)
    v3 = net.op("NonMaxSuppressionV3", boxes, scores, *limits, name="v3")
    v5 = net.op("NonMaxSuppressionV5", boxes, scores, *limits, np.float32(0), name="v5")
    net.check(v4, v4.node.output(1), v3, *(v5.node.output(p) for p in range(3)))


def test_integer_division_does_not_end_the_process():
    """By 0, or of the lowest number by -1."""
    net = Net()
    x, y = net.feed(np.array([6, 7], I32), "x"), net.feed(np.array([0, 2], I32), "y")
    for op in ("FloorDiv", "FloorMod", "TruncateDiv", "TruncateMod"):
        result = run_onnx(net.lower(net.op(op, x, y, name=op)), {"x": net.feeds[x], "y": net.feeds[y]})
        assert result[op][1] in (3, 1)
        lowest = {"x": np.array([-(2**31)] * 2, I32), "y": np.array([-1, -1], I32)}
        assert run_onnx(net.lower(net.op(op, x, y, name=f"{op}_1")), lowest)[f"{op}_1"].shape == (2,)


@pytest.mark.parametrize("shape", [(), (1, -1, 1)])
def test_computed_slices(shape):
    """Begin and end that the model computes, indices that count from the end among them."""
    net = Net()
    x, at = net.feed(floats(4, 5, 6), "x"), net.feed(np.array([-1, 1, 2], I32), "at")
    upto = net.op("AddV2", at, np.array([1, 2, 2], I32), name="upto")
    steps = np.ones(3, I32)
    net.check(
        net.op("StridedSlice", x, at, upto, steps, name="a", shrink_axis_mask=1),
        net.op("StridedSlice", x, at, upto, steps, name="b", shrink_axis_mask=1, begin_mask=2, end_mask=4),
        net.op("StridedSlice", x, at, upto, steps, name="c", shrink_axis_mask=3),
        net.op("Slice", x, np.array([0, 0, 1], I32), at, name="d"),
    )


def test_frames_of_audio_of_any_length():
    net = Net()
    x = net.feed(floats(150, 1), shape=(None, 1))
    y = net.op("AudioSpectrogram", x, window_size=100, stride=40)
    lowered = net.lower(y)
    for samples, frames in ((150, 2), (100, 1), (99, 0), (61, 0), (60, 0), (1, 0)):
        (found,) = run_onnx(lowered, {x.name: floats(samples, 1)}).values()
        assert found.shape == (1, frames, 65)


def test_reshape_to_a_computed_shape():
    net = Net()
    x, shape = net.feed(floats(2, 6), "x"), net.feed(np.int32([3, 4]), "shape")
    assert "Reshape" in net.check(net.op("Reshape", x, shape))


def test_shape_arithmetic_is_folded():
    """The batch stays open; the sizes behind it are fixed although the model computes them."""
    net = Net()
    x = net.feed(floats(2, 3, 4), shape=(None, 3, 4))
    shape = net.op("Shape", x, out_type=INT32)
    first = net.op("StridedSlice", shape, np.int32([0]), np.int32([1]), np.int32([1]), shrink_axis_mask=1)
    y = net.op("Reshape", x, net.op("Pack", first, np.int32(12), axis=0))
    assert net.check(y) == ["Reshape"]


REFUSED = [
    ("StringUpper", [np.array([b"a"], object)], {}, "no form of StringUpper"),
    ("AddV2", [np.array([b"a"], object), np.array([b"a"], object)], {}, "strings are bytes, ONNX's are text"),
    ("Cast", [floats(2)], {"SrcT": FLOAT, "DstT": dtype("bfloat16")}, "no type bfloat16"),
    ("ConcatV2", [floats(2, 2), floats(2, 2), np.int32(0)], {}, "computed while the model runs"),
    ("ReverseV2", [floats(2, 2), Constant([5], I32)], {}, "does not fit rank 2"),
    ("NoSuchOp", [floats(2)], {}, "no form of NoSuchOp"),
    ("MatMul", [floats(2, 2)], {}, "1 inputs, 2 are needed"),
    ("AvgPool", [floats(1, 4, 4, 4)], {"ksize": [1, 1, 1, 2], "strides": [1, 1, 1, 2], "padding": "VALID"},
     "batch and channels"),
    ("AvgPool", [floats(1, 4, 4, 1)], {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "x"},
     "padding x"),
    ("LeakyRelu", [floats(2)], {"alpha": [1, 2]}, "not well formed"),
    ("LRN", [floats(1, 2, 2, 4)], {"depth_radius": FLOAT}, "not well formed|cannot be"),
    ("Transpose", [floats(2, 3, 4), vector(0, 0, 1)], {}, "is no order of axes"),
    ("Einsum", [floats(24), floats(4, 5)], {"equation": "bij,jk->bik"}, "bij has another rank"),
    ("Einsum", [floats(2, 3, 4), floats(5, 5)], {"equation": "bij,jk->bik"}, "sizes of j differ"),
    ("Einsum", [floats(2, 1), floats(3, 4)], {"equation": "ij,jk->ik"}, "sizes of j differ"),
    ("Einsum", [floats(2, 3), floats(1, 4)], {"equation": "ij,jk->ik"}, "sizes of j differ"),
    ("DepthToSpace", [floats(1, 2, 2, 6)], {"block_size": 2}, "no multiple of 4"),
    ("MaxPool", [floats(1, 4, 4, 1)], {"ksize": [1, 2, 2, 1], "strides": [1, 0, 1, 1], "padding": "VALID"},
     "start at 1"),
    ("Unpack", [floats(2, 3)], {"num": 10**9, "axis": 1}, "no 1000000000 parts"),
    ("OneHot", [integers(3), Constant(np.int32(2**30)), Constant(np.float32(1)), Constant(np.float32(0))],
     {}, "is too large"),
    ("TruncateDiv", [integers(2), Constant(np.int32(0))], {}, "divides by zero"),
    ("Conv2D", [floats(1, 4, 4, 2).astype(np.float64), Constant(floats(3, 3, 2, 2).astype(np.float64))],
     conv_attrs(),
     "no Conv for double"),
]  # fmt: skip


@pytest.mark.parametrize(("op", "operands", "attrs", "reason"), REFUSED, ids=[c[0] for c in REFUSED])
def test_refusals_say_why(op, operands, attrs, reason):
    net, node = build(op, operands, attrs)
    with pytest.raises(UnsupportedOp, match=reason):
        net.lower(node.output())


def test_bits_need_a_newer_opset():
    net, node = build("BitwiseAnd", [integers(2, 3), integers(3)], {}, opset=17)
    with pytest.raises(UnsupportedOp, match="since opset 18") as caught:
        net.lower(node.output())
    assert caught.value.hint == "write opset 18"
    net.opset = 9
    with pytest.raises(ParameterError, match="opset 9 cannot be written"):
        net.lower(node.output())


def test_any_and_all_of_unknown_axes():
    net = Net()
    net.opset = 18
    axes = net.feed(np.int32([1]), "axes")
    net.check(
        net.op("Any", net.feed(booleans(2, 3)), axes, keep_dims=True),
        net.op("Sum", net.feed(floats(2, 3), "z"), axes),
    )


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize(
    ("padding", "kernel", "stride", "dy", "size"),
    [("SAME", 3, 2, 5, 9), ("SAME", 3, 2, 5, 10), ("SAME", 1, 2, 5, 10), ("VALID", 3, 2, 5, 11),
     ("VALID", 2, 2, 5, 11), ("EXPLICIT", 4, 2, 5, 10)],
)  # fmt: skip
def test_transposed_convolution_of_open_size(padding, kernel, stride, dy, size, layout):
    """As upsampling of pictures of any size does it: the sizes are computed."""
    net = Net()
    first = layout == "NCHW"

    def ordered(batch, sizes, channels):
        return (batch, channels, *sizes) if first else (batch, *sizes, channels)

    x = net.feed(floats(*ordered(2, (dy, dy), 3)), "x", shape=ordered(None, (None, None), 3))
    sizes = net.feed(np.array(ordered(2, (size, size), 4), I32), "sizes")
    attrs = {"strides": ordered(1, (stride, stride), 1), "padding": padding, "data_format": layout}
    if padding == "EXPLICIT":
        attrs["explicit_paddings"] = [0, 0, 0, 0, 1, 1, 1, 1] if first else [0, 0, 1, 1, 1, 1, 0, 0]
    net.check(net.op("Conv2DBackpropInput", sizes, net.const(floats(kernel, kernel, 4, 3)), x, **attrs))


@pytest.mark.parametrize("spelling", ["erfc", "erfc outside", "erf"])
def test_gelus_are_written_as_onnx_runtime_looks_for_them(spelling):
    net = Net()
    x, root = net.feed(floats(3, 4)), np.float32(np.sqrt(0.5))
    if spelling == "erf":
        gate = net.op("AddV2", np.float32(1), net.op("Erf", net.op("Mul", x, root)))
    elif spelling == "erfc":
        gate = net.op("Erfc", net.op("Mul", net.op("Neg", x), root))
    else:
        gate = net.op("Erfc", net.op("Neg", net.op("Mul", x, root)))
    codes = net.check(net.op("Mul", net.op("Mul", x, np.float32(0.5)), gate))
    assert sorted(codes) == ["Add", "Div", "Erf", "Mul", "Mul"]


@pytest.mark.parametrize("spelling", GELUS)
def test_gelus_with_their_factors_anywhere(spelling):
    net = Net()
    x = net.op("Sub", net.feed(floats(4, 5)), net.feed(floats(4, 5)))
    codes = net.check(net.op("Sin", spelled_gelu(net, x, spelling)))
    assert {"Add", "Div", "Erf"} <= set(codes)
    assert codes.count("Mul") <= 3


@pytest.mark.parametrize("spelling", GELUS)
def test_gelus_are_one_op_since_opset_20(spelling):
    net = Net()
    net.opset = 20
    x = net.op("Sub", net.feed(floats(4, 5)), net.feed(floats(4, 5)))
    codes = net.check(net.op("Sin", spelled_gelu(net, x, spelling)))
    assert set(codes) <= {"Sub", "Gelu", "Sin", "Mul"}


def test_a_gelu_by_tanh_is_one_op_since_opset_20():
    net = Net()
    net.opset = 20
    x = net.feed(floats(3, 4))
    cube = net.op("Mul", np.float32(0.044715), net.op("Pow", x, np.float32(3)))
    tanh = net.op("Tanh", net.op("Mul", np.float32(0.7978846), net.op("AddV2", x, cube)))
    y = net.op("Mul", net.op("AddV2", tanh, np.float32(1)), net.op("Mul", x, np.float32(0.5)))
    assert net.check(y) == ["Gelu"]


def test_other_sums_with_the_error_function_stay():
    net = Net()
    x = net.feed(floats(3, 4))
    erf = net.op("Erf", net.op("Mul", x, np.float32(-0.5)))
    codes = net.check(net.op("Sub", np.float32(1), erf), net.op("Sub", erf, np.float32(1), name="below"))
    assert "Div" not in codes


def test_gelus_that_share_half_of_their_input():
    """ONNX Runtime's own fusion of a gelu drops that half, whoever else reads it."""
    net = Net()
    x = net.feed(floats(3, 4))
    half = net.op("Mul", x, np.float32(0.5), name="half")
    erf = net.op("Erf", net.op("Mul", x, np.float32(0.70710677)))
    exact = net.op("Mul", half, net.op("AddV2", erf, np.float32(1)), name="exact")
    cube = net.op("Mul", np.float32(0.044715), net.op("Pow", x, np.float32(3)))
    tanh = net.op("Tanh", net.op("Mul", np.float32(0.7978846), net.op("AddV2", x, cube)))
    close = net.op("Mul", half, net.op("AddV2", tanh, np.float32(1), name="more"), name="close")
    net.check(net.op("Relu", exact), net.op("Relu", close), net.op("Neg", half))
