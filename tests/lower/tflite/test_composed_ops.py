"""Rules made of several operators, against the reference kernels, through LiteRT."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.builders import Constant, booleans, floats, integers, vector
from tests.lower.tflite.cases import CASES as SINGLE
from tests.lower.tflite.harness import Net, run_litert
from thinflow.errors import UnsupportedOp
from thinflow.ir.types import INT32
from thinflow.lower import rules
from thinflow.lower.tflite.quantized_context import takes_quantized

POSITIVE = floats(3, 4, low=1.0, high=3.0)
PIXELS = floats(2, 5, 4, 3, low=0.0, high=1.0)
PERMUTED = np.array([2, 0, 3, 1], np.int32)
GROUPS = [0, 0, 2, 2, 2, 4]
REPEATED = np.array([3, 1, 3, 3, 7, 1], np.int32)
LONG = np.array([0, 1, -1, 6, 7, -7, -8, 2**24 + 1, 10**12 + 5, -(10**12) - 5, 2**62 - 1, -(2**62)], np.int64)
VOLUME = floats(2, 5, 6, 4, 3)
POOL = {"ksize": [1, 2, 3, 2, 1], "strides": [1, 2, 2, 1, 1]}
COLOURS = np.array([[0, 0, 0], [0.5, 0.5, 0.5], [1, 0, 0], [0, 0.2, 1], [0.3, 1, 0.3]], np.float32)
PATCH = {"ksizes": [1, 2, 3, 1], "strides": [1, 2, 1, 1], "rates": [1, 1, 2, 1]}

ROW = {"shrink_axis_mask": 1, "begin_mask": 2, "end_mask": 2}
CASES = [
    ("TensorStridedSliceUpdate", [floats(3, 4), integers(2, low=0, high=3), vector(9, 0), vector(1, 1),
     floats(4)], ROW),
    ("TensorStridedSliceUpdate", [floats(3, 4), integers(1, low=-3, high=0), vector(0), vector(1),
     floats(4)], {**ROW}),
    ("Acosh", [POSITIVE], {}),
    ("Asinh", [floats(3, 4)], {}),
    ("Atanh", [floats(3, 4, low=-0.9, high=0.9)], {}),
    ("Einsum", [floats(2, 3, 4), floats(2, 4, 5)], {"equation": "bij,bjk->bik"}),
    ("Einsum", [floats(2, 3, 4), Constant(floats(4, 5, 6))], {"equation": "abc,cde->abde"}),
    ("Einsum", [floats(2, 3, 4, 5), Constant(floats(4, 5, 6))], {"equation": "abcd,cde->abe"}),
    ("Einsum", [floats(2, 3, 4, 5), floats(2, 6, 4, 5)], {"equation": "BTNH,BSNH->BNTS"}),
    ("Einsum", [floats(2, 4, 3, 6), floats(2, 6, 4, 5)], {"equation": "BNTS,BSNH->BTNH"}),
    ("Einsum", [floats(3, 4), floats(5, 4)], {"equation": "ab, cb -> ca"}),
    ("Einsum", [floats(3), floats(4)], {"equation": "i,j->ij"}),
    ("Einsum", [floats(3, 4), floats(3, 4)], {"equation": "ij,ij->"}),
    ("Einsum", [floats(3, 4), floats(3, 4)], {"equation": "ij,ij->i"}),
    ("Einsum", [floats(2, 3, 4), Constant(floats(4, 5))], {"equation": "...c,cd->...d"}),
    ("Einsum", [floats(2, 3, 4), floats(2, 4, 5)], {"equation": "...ij,...jk->...ik"}),
    ("Einsum", [floats(2, 3, 4, 2), floats(4, 5)], {"equation": "abcd,ce->eab"}),
    ("Einsum", [floats(2, 3, 4)], {"equation": "abc->ca"}),
    ("RFFT", [floats(3, 8), vector(8)], {}),
    ("RFFT", [floats(2, 3, 10), vector(8)], {}),
    ("RFFT", [floats(10), vector(4)], {}),
    ("RFFT2D", [floats(2, 8, 8), vector(8, 8)], {}),
    *(
        (f"TensorScatter{kind}", [floats(3, 2, 2), np.array([[2, 1], [0, 0], [2, 1]]), floats(3, 2)], {})
        for kind in ("Max", "Min")
    ),
    ("SegmentMean", [floats(6, 3), vector(*GROUPS)], {}),
    ("SegmentMean", [floats(6), np.array(GROUPS, np.int32)], {}),
    ("SegmentProd", [floats(6, 3), vector(*GROUPS)], {}),
    *((op, [floats(6, 2, 3), vector(*GROUPS)], {}) for op in ("SegmentMax", "SegmentMin")),
    ("SegmentMax", [integers(6, 3), np.array(GROUPS, np.int32)], {}),
    *(
        (f"SparseSegment{kind}", [floats(7, 3), vector(0, 6, 3, 3, 1), vector(0, 0, 2, 2, 4)], {})
        for kind in ("Sum", "Mean", "SqrtN")
    ),
    ("SparseSegmentMeanWithNumSegments", [floats(7, 3), vector(0, 6, 3), vector(0, 0, 2),
     Constant(5, np.int32)], {}),
    *(("FloorDiv", [LONG, Constant(n, np.int64)], {}) for n in (1, 3, 7, 4194303)),
    ("InvertPermutation", [PERMUTED], {}),
    ("TensorScatterAdd", [floats(4, 3), Constant([[1], [1], [3]], np.int32), floats(3, 3)], {}),
    ("TensorScatterSub", [floats(4, 3), np.array([[1, 0], [3, 2]], np.int32), floats(2)], {}),
    ("TensorScatterUpdate", [floats(4, 3), Constant([[1], [3]], np.int32), floats(2, 3)], {}),
    ("MatrixDiagPart", [floats(2, 3, 5)], {}),
    *(("MatrixDiagPartV3", [floats(2, 3, 5), Constant(k, np.int32), Constant(0, np.float32)], {})
      for k in (0, 2, -1)),
    ("MatrixDiagPartV2", [floats(5, 3), Constant(-2, np.int32), Constant(0, np.float32)], {}),
    ("MatrixBandPart", [floats(2, 4, 5), Constant(1, np.int64), Constant(-1, np.int64)], {}),
    ("MatrixBandPart", [integers(4, 4), Constant(0, np.int32), Constant(2, np.int32)], {}),
    *(("LeftShift", [np.array([3, -1, 127, 5, 9], kind), np.array([0, 1, 7, 2, 99], kind)], {})
      for kind in (np.int8, np.int16, np.int32, np.int64)),
    ("LeftShift", [np.array([3, 255, 129, 77], np.uint8), np.array([1, 7, 3, 0], np.uint8)], {}),
    ("AdjustContrastv2", [PIXELS, Constant(1.7, np.float32)], {}),
    ("AdjustContrastv2", [PIXELS[0], np.float32(0.4)], {}),
    ("HSVToRGB", [PIXELS], {}),
    ("RGBToHSV", [PIXELS], {}),
    ("RGBToHSV", [COLOURS], {}),
    *((op, [VOLUME], {**POOL, "padding": p}) for op in ("MaxPool3D", "AvgPool3D") for p in ("SAME", "VALID")),
    *(("ExtractImagePatches", [floats(2, 7, 6, 3)], {**PATCH, "padding": p}) for p in ("SAME", "VALID")),
    *(("ResizeBicubic", [floats(2, 5, 4, 3), vector(7, 9)], a)
      for a in ({}, {"align_corners": True}, {"half_pixel_centers": True})),
    ("ResizeBicubic", [floats(1, 8, 9, 2), vector(3, 2)], {"half_pixel_centers": True}),
    ("ResizeArea", [floats(2, 7, 9, 3), vector(3, 4)], {}),
    ("ResizeArea", [floats(2, 3, 2, 3), vector(7, 5)], {"align_corners": True}),
]  # fmt: skip


@pytest.mark.parametrize(("op", "operands", "attrs"), CASES)
def test_against_the_reference(op, operands, attrs):
    net = Net()
    values = [x.array if isinstance(x, Constant) else net.feed(x, f"x{n}") for n, x in enumerate(operands)]
    net.check(net.op(op, *values, **attrs), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(
    ("op", "shape", "operands", "attrs"),
    [
        ("Einsum", (None, 3, 4), [floats(2, 3, 4), Constant(floats(4, 5, 6))], {"equation": "abc,cde->abde"}),
        (
            "Einsum",
            (None, 3, 2, 4),
            [floats(3, 3, 2, 4), Constant(floats(2, 4, 6))],
            {"equation": "abcd,cde->abe"},
        ),
        ("RFFT", (None, 8), [floats(3, 8), vector(8)], {}),
        ("AvgPool3D", (None, 5, 6, 4, 3), [VOLUME], {**POOL, "padding": "SAME"}),
        ("ResizeBicubic", (None, 5, 4, 3), [floats(2, 5, 4, 3), vector(7, 9)], {}),
        ("ExtractImagePatches", (None, 7, 6, 3), [floats(2, 7, 6, 3)], {**PATCH, "padding": "SAME"}),
        ("HSVToRGB", (None, None, None, 3), [PIXELS], {}),
        ("SegmentMean", (None, 3), [floats(6, 3), np.array(GROUPS, np.int32)], {}),
    ],
)
def test_the_batch_may_be_open(op, shape, operands, attrs):
    net = Net()
    first = net.feed(operands[0], "x", shape)
    rest = [x.array if isinstance(x, Constant) else net.feed(x, f"y{n}") for n, x in enumerate(operands[1:])]
    y = net.op(op, first, *rest, **attrs)
    lowered = net.lower(y)
    assert lowered.inputs["x"].shape == shape
    module = pytest.importorskip("ai_edge_litert.interpreter")
    from thinflow.tflite.writer import to_bytes

    session = module.Interpreter(model_content=to_bytes(lowered.program))
    for detail, array in zip(session.get_input_details(), net.feeds.values(), strict=True):
        session.resize_tensor_input(detail["index"], array.shape)
    session.allocate_tensors()
    for detail, array in zip(session.get_input_details(), net.feeds.values(), strict=True):
        session.set_tensor(detail["index"], array)
    session.invoke()
    (found,) = (session.get_tensor(d["index"]) for d in session.get_output_details())
    np.testing.assert_allclose(found, net.reference(y)[0], rtol=2e-4, atol=2e-5)


def test_products_with_constants_are_one_operator():
    net = Net()
    y = net.op("Einsum", net.feed(floats(2, 3, 4)), floats(4, 5), equation="abc,cd->abd")
    assert net.check(y) == ["FULLY_CONNECTED"]
    net = Net()
    y = net.op(
        "Einsum", net.feed(floats(2, 3, 4), "x"), net.feed(floats(2, 5, 4), "y"), equation="bij,bkj->bik"
    )
    assert net.check(y) == ["BATCH_MATMUL"]


def test_unique_and_how_often():
    net = Net()
    x = net.feed(REPEATED)
    outputs = [net.op("UniqueWithCounts", x, out_idx=INT32).node.output(p) for p in range(1)]
    node = outputs[0].node
    net.check(*(node.output(p) for p in range(3)))
    net = Net()
    node = net.op("UniqueV2", net.feed(REPEATED), np.zeros(1, np.int64), out_idx=INT32).node
    net.check(node.output(0), node.output(1))


def test_draws_are_within_range():
    net = Net()
    logits = net.feed(np.log(np.array([[0.5, 0.5, 1e-30], [1e-30, 1e-30, 1]], np.float32)))
    y = net.op("Multinomial", logits, np.int32(200), output_dtype=INT32, seed=3)
    draws = run_litert(net.lower(y), {"x": net.feeds[logits]})[y.name]
    assert draws.dtype == np.int32
    assert draws.shape == (2, 200)
    assert set(draws[0].tolist()) == {0, 1}
    assert set(draws[1].tolist()) == {2}


@pytest.mark.parametrize(
    ("op", "operands", "attrs", "message"),
    [
        ("Einsum", [floats(2, 3, 3, 3)], {"equation": "biii->bi"}, "stands 3 times"),
        ("Einsum", [floats(2, 3), floats(3, 2)], {"equation": "ij,jk"}, "does not say what it gives"),
        ("RFFT", [floats(3, 10), vector(10)], {}, "cannot hand out complex numbers"),
        ("RFFT", [floats(3, 10), vector(16)], {}, "axes of 10 are shorter than the transform, 16"),
        (
            "MatrixDiagPartV3",
            [floats(3, 5), Constant(9, np.int32), Constant(0, np.float32)],
            {},
            "has no diagonal 9",
        ),
        (
            "TensorScatterUpdate",
            [floats(4), Constant([[1], [1]], np.int32), floats(2)],
            {},
            "a place is set twice",
        ),
        ("TensorScatterUpdate", [floats(4), integers(2, 1, low=0), floats(2)], {}, "may name one twice"),
        ("UniqueV2", [booleans(2, 3), Constant([0], np.int64)], {}, "in a vector only"),
    ],
)
def test_refusals(op, operands, attrs, message):
    net = Net()
    values = [x.array if isinstance(x, Constant) else net.feed(x, f"x{n}") for n, x in enumerate(operands)]
    with pytest.raises(UnsupportedOp, match=message):
        net.lower(net.op(op, *values, **attrs))


def test_every_rule_is_tried():
    tried = {c[0] for c in (*SINGLE, *CASES)}
    arrays = (
        "TensorArray",
        "TensorList",
        "NonMaxSuppression",
        "LookupTable",
    )  # these need each other or more: other tests
    elsewhere = {
        "FakeQuantWithMinMaxArgs", "FakeQuantWithMinMaxVars", "RandomUniform", "RandomStandardNormal", "Real",
        "Imag", "ComplexAbs", "IdentityN", "ShapeN", "Multinomial", "AudioSpectrogram", "Mfcc",
        "TFLite_Detection_PostProcess", "CombinedNonMaxSuppression", "LiteRTIntegerLSTM", "LiteRTIntegerSVDF",
    }  # fmt: skip
    untried = {op for op in rules.supported("tflite") if not op.startswith(arrays)} - tried
    assert {op for op in untried if not takes_quantized(op)} == elsewhere


@pytest.mark.parametrize(
    ("equation", "x", "y"),
    [
        ("aecd,abcd->acbe", floats(2, 5, 3, 4), floats(2, 6, 3, 4)),
        ("acbe,aecd->abcd", floats(2, 3, 6, 5), floats(2, 5, 3, 4)),
        ("abc,cde->abde", floats(2, 5, 4), Constant(floats(4, 3, 2))),
        ("abcd,cde->abe", floats(2, 5, 3, 4), Constant(floats(3, 4, 2))),
        ("abcd,ef->abcdef", floats(2, 3, 4, 2), floats(3, 2)),
    ],
)
def test_every_size_of_a_sum_may_be_open(equation, x, y):
    """Batch and length of attention: what the runtime cannot find by itself is computed from the operands."""
    net = Net()
    first = net.feed(x, "x", (None, None, *x.shape[2:]))
    second = y.array if isinstance(y, Constant) else net.feed(y, "y", (None, None, *y.shape[2:]))
    net.check(net.op("Einsum", first, second, equation=equation))


@pytest.mark.parametrize("strategy", ["mod", "div"])
def test_an_embedding_in_several_tables(strategy):
    """As tf.nn.embedding_lookup writes it."""
    net = Net()
    ids = net.feed(np.array([5, 0, 3, 3, 7, 6], np.int64), "ids", (None,))
    parts, rest = ("FloorMod", "FloorDiv") if strategy == "mod" else ("FloorDiv", "FloorMod")
    table = net.op("Cast", net.op(parts, ids, np.int64(3)), DstT=INT32)
    place = net.op(rest, ids, np.int64(3))
    count = net.op("Size", ids, out_type=INT32)
    order = net.op("Range", np.int32(0), count, np.int32(1))
    rows = net.op("DynamicPartition", place, table, num_partitions=3).node
    places = net.op("DynamicPartition", order, table, num_partitions=3).node
    found = [net.op("GatherV2", floats(3, 4) * (n + 1), rows.output(n), np.int32(0)) for n in range(3)]
    net.check(net.op("ParallelDynamicStitch", *(places.output(n) for n in range(3)), *found, N=3))


def test_a_quotient_by_a_large_number_is_refused():
    net = Net()
    y = net.op("FloorDiv", net.feed(LONG), np.int64(1 << 22))
    with pytest.raises(UnsupportedOp, match="a quotient of int64 by 4194304 has no TFLite form"):
        net.lower(y)
