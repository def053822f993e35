"""Operands and attributes of ops that have an ONNX form but none in LiteRT."""

from __future__ import annotations

import numpy as np

from tests.lower.tflite.test_ops import I32, I64, C, b, f, i, ints
from thinflow.ir.types import DOUBLE, FLOAT, INT32, INT64, dtype

U8, I8 = np.uint8, np.int8
IMAGE = f(2, 7, 6, 3, low=0.0, high=1.0)
SEGMENTS = C([0, 0, 2, 2, 5], I32)
BANDS = [(0, 0), (1, 1), (-2, 1), (-1, 0), (1, 2), (-2, -1)]
ALIGN = ("LEFT_LEFT", "RIGHT_LEFT", "LEFT_RIGHT", "RIGHT_RIGHT")
MATRIX = f(2, 4, 5)


def window(**more):
    return {"ksizes": [1, 2, 3, 1], "strides": [1, 2, 1, 1], "rates": [1, 1, 2, 1], "padding": "SAME", **more}


def pool(**more):
    return {"ksize": [1, 2, 3, 1], "strides": [1, 2, 1, 1], "padding": "SAME", **more}


def packed(band):
    """Diagonals of MATRIX as MatrixSetDiagV3 wants them."""
    longest = min(4 + min(band[1], 0), 5 - max(band[0], 0))
    return f(2, longest) if band[0] == band[1] else f(2, band[1] - band[0] + 1, longest)


BITS = [
    *(
        ("LeftShift", [i(5, element=t), C(i(5, low=0, high=9, element=t))], {})
        for t in (np.int8, np.int16, I32, I64, U8)
    ),
    *(
        ("RightShift", [i(5, low=-99, high=99, element=t), C(i(5, low=0, high=9, element=t))], {})
        for t in (np.int8, np.int16, I32, I64)
    ),
    ("RightShift", [i(5, low=0, high=250, element=U8), C(i(5, low=0, high=9, element=U8))], {}),
    *(("PopulationCount", [i(2, 5, low=-99, high=99, element=t)], {}) for t in (np.int8, np.int16, I32, I64)),
    *(("Bitcast", [i(4, low=-99, high=99)], {"type": dtype(t)}) for t in ("uint32", "int32")),
]
SEARCH = [
    *(
        (op, [C(np.sort(f(2, 6, low=0.0, high=9.0), 1)), f(2, 4, low=0.0, high=9.0)], {"out_type": t})
        for op in ("LowerBound", "UpperBound")
        for t in (INT32, INT64)
    ),
    ("InTopK", [f(3, 5), i(3, low=-1, high=6)], {"k": 2}),
    ("InTopKV2", [f(3, 5), i(3, low=0, high=5), C(np.int32(3))], {}),
    *(("NthElement", [f(3, 5), C(np.int32(2))], {"reverse": r}) for r in (False, True)),
    ("ListDiff", [i(8, low=0, high=6), C([1, 4], I32)], {"out_idx": INT64}),
    ("ListDiff", [f(5), f(5)[:2]], {}),
    ("Bincount", [i(2, 4, low=0, high=5), C(np.int32(4)), C(f(2, 4))], {}),
    ("Bincount", [i(7, low=0, high=5), C(np.int32(6)), C(np.zeros(0, np.int32))], {}),
    *(
        (
            "DenseBincount",
            [i(3, 4, low=0, high=5), C(np.int32(6)), C(np.zeros(0, np.float32))],
            {"binary_output": binary},
        )
        for binary in (False, True)
    ),
    ("HistogramFixedWidth", [f(20), C([-1.5, 1.0], np.float32), C(np.int32(5))], {}),
    ("UniqueV2", [i(5, 2, low=0, high=2), C([0], I64)], {}),
    ("UniqueWithCountsV2", [i(2, 6, low=0, high=2), C([1], I64)], {}),
]
SEGMENTED = [
    *((f"Segment{kind}", [f(5, 3), SEGMENTS], {}) for kind in ("Sum", "Mean", "Max", "Min", "Prod")),
    *(
        (f"Segment{kind}V2", [f(5, 3), SEGMENTS, C(np.int32(7))], {})
        for kind in ("Sum", "Max", "Min", "Prod")
    ),
    ("SegmentMean", [i(5, 3), SEGMENTS], {}),
    ("SegmentMax", [i(5, element=I64), np.array([0, 1, 1, 1, 3], I32)], {}),
    *(
        (f"SparseSegment{kind}", [f(6, 2), C([0, 5, 1, 1, 3], I32), SEGMENTS], {})
        for kind in ("Sum", "Mean", "SqrtN")
    ),
    *(
        (
            f"SparseSegment{kind}WithNumSegments",
            [f(6, 2), C([0, 5, 1, 1, 3], I32), SEGMENTS, C(np.int32(8))],
            {},
        )
        for kind in ("Sum", "Mean", "SqrtN")
    ),
]
SCATTERED = [
    *(
        (f"TensorScatter{kind}", [f(5, 2), C([[1], [3], [1]], I32), f(3, 2)], {})
        for kind in ("Add", "Sub", "Max", "Min")
    ),
    ("TensorScatterUpdate", [f(5, 2), C([[1, 0], [3, 1]], I32), f(2)], {}),
    ("ScatterNdNonAliasingAdd", [i(5), C([[1], [3], [1]], I32), i(3)], {}),
    *((f"Inplace{kind}", [f(5, 2), C([1, -1, 6], I32), f(3, 2)], {}) for kind in ("Update", "Add", "Sub")),
    ("UnravelIndex", [np.array([0, 7, 23], I32), ints(2, 3, 4)], {}),
    ("UnravelIndex", [np.array(7, I64), C([2, 3, 4], I64)], {}),
    ("TensorStridedSliceUpdate", [f(4, 5), ints(0, 4), ints(4, 0), ints(2, -2), f(2, 2)], {}),
    (
        "TensorStridedSliceUpdate",
        [f(4, 5), ints(1, 0), ints(2, 5), ints(1, 1), f(1)],
        {"shrink_axis_mask": 1},
    ),
]
DIAGONALS = [
    *((op, [f(2, 3)], {}) for op in ("MatrixDiag", "BatchMatrixDiag")),
    *((op, [MATRIX], {}) for op in ("MatrixDiagPart", "BatchMatrixDiagPart")),
    *((op, [MATRIX, f(2, 4)], {}) for op in ("MatrixSetDiag", "BatchMatrixSetDiag")),
    ("BatchMatrixBandPart", [MATRIX, C(np.int64(1)), C(np.int64(2))], {}),
    *(
        ("MatrixDiagPartV3", [MATRIX, ints(*band), C(np.float32(7))], {"align": a})
        for band in BANDS
        for a in ALIGN
    ),
    *(("MatrixDiagPartV2", [MATRIX, ints(*band), C(np.float32(7))], {}) for band in BANDS),
    *(
        ("MatrixSetDiagV3", [MATRIX, packed(band), ints(*band)], {"align": a})
        for band in BANDS
        for a in ALIGN
    ),
    ("MatrixSetDiagV2", [MATRIX, packed((-2, 1)), ints(-2, 1)], {}),
    *(
        (
            "MatrixDiagV3",
            [packed((-2, 1)), ints(-2, 1), C(np.int32(r)), C(np.int32(c)), C(np.float32(3))],
            {"align": a},
        )
        for r, c in ((-1, -1), (5, -1), (-1, 5))
        for a in ALIGN
    ),
    ("MatrixDiagV2", [f(3), C(np.int32(1)), C(np.int32(-1)), C(np.int32(-1)), C(np.float32(3))], {}),
    ("Diag", [f(2, 3)], {}),
    ("DiagPart", [f(2, 3, 2, 3)], {}),
]
IMAGES = [
    ("RGBToHSV", [IMAGE], {}),
    ("RGBToHSV", [np.float32([[1, 1, 1], [0, 0, 0], [1, 0, 0], [0, 0, 1], [0, 1, 1]])], {}),
    ("HSVToRGB", [IMAGE], {}),
    ("AdjustSaturation", [IMAGE, C(np.float32(1.7))], {}),
    *(("AdjustHue", [IMAGE, C(np.float32(d))], {}) for d in (0.3, -0.4)),
    (
        "AdjustContrast",
        [i(4, 4, 3, low=0, high=200, element=U8), C(np.float32(2)), C(np.float32(0)), C(np.float32(200))],
        {},
    ),
    *(
        ("ResizeBicubic", [IMAGE, ints(*s)], {"half_pixel_centers": h, "align_corners": a})
        for s in ((9, 11), (3, 4))
        for h, a in ((False, False), (True, False), (False, True))
    ),
    *(
        ("ResizeArea", [IMAGE, ints(*s)], {"align_corners": a})
        for s in ((9, 11), (3, 4))
        for a in (False, True)
    ),
    *(
        (
            "CropAndResize",
            [
                IMAGE,
                C(np.float32([[0, 0, 1, 1], [0.9, 0.2, 0.1, 0.8], [-0.3, 0.1, 1.2, 0.9]])),
                C([0, 1, 1], I32),
                ints(*s),
            ],
            {"method": m, "extrapolation_value": 2.5},
        )
        for m in ("bilinear", "nearest")
        for s in ((4, 5), (1, 1))
    ),
    ("ExtractImagePatches", [IMAGE], window()),
    ("ExtractImagePatches", [IMAGE], window(padding="VALID")),
    *(
        ("Dilation2D", [IMAGE, f(2, 3, 3)], {"strides": [1, 1, 2, 1], "rates": [1, 2, 1, 1], "padding": p})
        for p in ("SAME", "VALID")
    ),
    *(("MaxPoolWithArgmax", [IMAGE], pool(include_batch_in_index=n, Targmax=INT64)) for n in (False, True)),
]
NUMBERS = [
    *((op, [f(3, 4)], {}) for op in ("Lgamma", "Digamma")),
    ("Lgamma", [np.float32([0.1, 0.5, 1, 2, 7.5, 60, -0.5, -3.25, -20.75, -2, 0])], {}),
    ("Digamma", [np.float32([0.1, 0.5, 1, 2, 7.5, 60, -0.5, -3.25, -20.75])], {}),
    ("Erfinv", [np.float32([-1, -0.99, -0.5, 0, 1e-3, 0.3, 0.9999, 1])], {}),
    ("Ndtri", [np.float32([1e-5, 0.1, 0.5, 0.9, 0.99999])], {}),
    ("Xlog1py", [np.float32([0, 1, 2]), np.float32([-1, 2, 1e-6])], {}),
    *(
        (op, [f(3, 4), C(np.int32(1))], {"exclusive": e, "reverse": r})
        for op in ("Cumprod", "CumulativeLogsumexp")
        for e in (False, True)
        for r in (False, True)
    ),
    ("Cumprod", [f(2, 3, 4), C(np.int32(-3))], {}),
    ("Cross", [f(2, 3), f(2, 3)], {}),
    ("SparseMatMul", [f(3, 4), f(5, 4)], {"transpose_b": True}),
    *(
        (
            "SparseTensorDenseMatMul",
            [C([[0, 1], [2, 0], [2, 0]], I64), f(3), C([3, 4], I64), f(*s)],
            {"adjoint_a": s[0] == 3, "adjoint_b": s[0] == 2},
        )
        for s in ((4, 2), (3, 2), (2, 4))
    ),
    *((op, [f(2, 3, 3)], {}) for op in ("MatrixDeterminant", "BatchMatrixDeterminant")),
    ("ConjugateTranspose", [f(2, 3), ints(1, 0)], {}),
    ("SparseReshape", [C([[0, 1], [2, 3]], I64), C([3, 4], I64), C([2, -1], I64)], {}),
    ("SoftmaxCrossEntropyWithLogits", [f(3, 5), b(3, 5).astype(np.float32)], {}),
    ("SparseSoftmaxCrossEntropyWithLogits", [f(3, 5), np.array([0, 4, 2], I32)], {}),
]
MADE = [
    ("Empty", [np.array([2, 3], I32)], {"dtype": FLOAT, "init": True}),
    *(("LinSpace", [C(np.float32(-1)), C(np.float32(2)), C(np.int32(n))], {}) for n in (1, 2, 7)),
    ("BroadcastArgs", [np.array([3, 1, 4], I32), np.array([5, 1], I32)], {}),
    ("ConcatOffset", [C(np.int32(1)), np.array([2, 3, 4], I32), np.array([2, 7, 4], I32)], {"N": 2}),
    ("DataFormatDimMap", [np.array([0, 1, -1, 3], I32)], {}),
    *(("DataFormatVecPermute", [i(*s)], {}) for s in ((4,), (4, 2), (2,))),
    ("ParallelConcat", [f(1, 3), f(1, 3)], {"N": 2, "shape": [2, 3]}),
]


def lstm(**more):
    return {"forget_bias": 0.7, "cell_clip": 0.5, "use_peephole": True, **more}


WEIGHTS = [C(f(7, 16)), C(f(4)), C(f(4)), C(f(4)), C(f(16))]
RECURRENT = [
    *(("LSTMBlockCell", [f(2, 3), f(2, 4), f(2, 4), *WEIGHTS], lstm(use_peephole=p)) for p in (False, True)),
    *(("BlockLSTM", [C(np.int64(n)), f(5, 2, 3), f(2, 4), f(2, 4), *WEIGHTS], lstm()) for n in (5, 3)),
    ("BlockLSTMV2", [C(np.int64(5)), f(5, 2, 3), C(f(2, 4)), C(f(2, 4)), *WEIGHTS], {"cell_clip": 0.0}),
    ("GRUBlockCell", [f(2, 3), f(2, 4), C(f(7, 8)), C(f(7, 4)), C(f(8)), C(f(4))], {}),
]
AUDIO = [
    *(
        ("AudioSpectrogram", [f(400, c)], {"window_size": w, "stride": 100, "magnitude_squared": m})
        for c in (1, 2)
        for w, m in ((128, False), (200, True))
    ),
    *(
        (
            "Mfcc",
            [f(1, 3, 129, low=0.0), C(np.int32(16000))],
            {"upper_frequency_limit": u, "dct_coefficient_count": 10},
        )
        for u in (4000.0, 9000.0)
    ),
    ("Mfcc", [f(1, 3, 129, low=0.0), np.int32(16000)], {}),
]
BOXES = np.float32([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 2, 1, 3], [0, 2.05, 1, 3.05], [1, 1, 0, 0]])
SCORES = np.float32([0.9, 0.8, 0.7, 0.95, 0.3])
MANY = np.stack([BOXES, BOXES + np.float32(0.2)])[:, :, None]
LIMITS = [C(np.int32(2)), C(np.int32(7)), C(np.float32(0.5)), C(np.float32(0.2))]
SUPPRESSED = [
    *(
        (
            "NonMaxSuppressionV5",
            [BOXES, SCORES, C(np.int32(n)), C(np.float32(0.5)), C(np.float32(least)), C(np.float32(0.5))],
            {"pad_to_max_output_size": p},
        )
        for n, least, p in ((5, 0.0, False), (3, 0.4, True))
    ),
    (
        "NonMaxSuppressionWithOverlaps",
        [f(5, 5, low=0.0, high=1.0), SCORES, C(np.int32(4)), C(np.float32(0.6)), C(np.float32(0.1))],
        {},
    ),
    *(
        (
            "CombinedNonMaxSuppression",
            [np.repeat(MANY, q, 2), f(2, 5, 3, low=0.0, high=1.0), *LIMITS],
            {"pad_per_class": p, "clip_boxes": c},
        )
        for q, p, c in ((1, False, True), (3, False, False), (1, True, True))
    ),
]

RANDOM = ("RandomUniformInt", "Multinomial", "TruncatedNormal")
GROUPS = {
    "bits": BITS,
    "search": SEARCH,
    "segments": SEGMENTED,
    "scatter": SCATTERED,
    "diagonals": DIAGONALS,
    "images": IMAGES,
    "numbers": NUMBERS,
    "made": MADE,
    "recurrent": RECURRENT,
    "audio": AUDIO,
    "suppressed": SUPPRESSED,
}
MORE = [case for group in GROUPS.values() for case in group]
MORE_NAMES = [f"{n}-{case[0]}" for n, case in enumerate(MORE)]
__all__ = ["DOUBLE", "I8", "MORE", "MORE_NAMES", "RANDOM"]
