"""Operands and attributes of ops that have an ONNX form but none in LiteRT."""

from __future__ import annotations

import numpy as np

from tests.lower.builders import I32, I64, Constant, booleans, floats, integers, vector
from thinflow.ir.types import DOUBLE, FLOAT, INT32, INT64, dtype

U8, I8 = np.uint8, np.int8
IMAGE = floats(2, 7, 6, 3, low=0.0, high=1.0)
SEGMENTS = Constant([0, 0, 2, 2, 5], I32)
BANDS = [(0, 0), (1, 1), (-2, 1), (-1, 0), (1, 2), (-2, -1)]
ALIGN = ("LEFT_LEFT", "RIGHT_LEFT", "LEFT_RIGHT", "RIGHT_RIGHT")
MATRIX = floats(2, 4, 5)


def window(**more):
    return {"ksizes": [1, 2, 3, 1], "strides": [1, 2, 1, 1], "rates": [1, 1, 2, 1], "padding": "SAME", **more}


def pool(**more):
    return {"ksize": [1, 2, 3, 1], "strides": [1, 2, 1, 1], "padding": "SAME", **more}


def packed(band):
    """Diagonals of MATRIX as MatrixSetDiagV3 wants them."""
    longest = min(4 + min(band[1], 0), 5 - max(band[0], 0))
    return floats(2, longest) if band[0] == band[1] else floats(2, band[1] - band[0] + 1, longest)


BITS = [
    *(
        ("LeftShift", [integers(5, element=t), Constant(integers(5, low=0, high=9, element=t))], {})
        for t in (np.int8, np.int16, I32, I64, U8)
    ),
    *(
        (
            "RightShift",
            [integers(5, low=-99, high=99, element=t), Constant(integers(5, low=0, high=9, element=t))],
            {},
        )
        for t in (np.int8, np.int16, I32, I64)
    ),
    (
        "RightShift",
        [integers(5, low=0, high=250, element=U8), Constant(integers(5, low=0, high=9, element=U8))],
        {},
    ),
    *(
        ("PopulationCount", [integers(2, 5, low=-99, high=99, element=t)], {})
        for t in (np.int8, np.int16, I32, I64)
    ),
    *(("Bitcast", [integers(4, low=-99, high=99)], {"type": dtype(t)}) for t in ("uint32", "int32")),
]
SEARCH = [
    *(
        (
            op,
            [Constant(np.sort(floats(2, 6, low=0.0, high=9.0), 1)), floats(2, 4, low=0.0, high=9.0)],
            {"out_type": t},
        )
        for op in ("LowerBound", "UpperBound")
        for t in (INT32, INT64)
    ),
    ("InTopK", [floats(3, 5), integers(3, low=-1, high=6)], {"k": 2}),
    ("InTopKV2", [floats(3, 5), integers(3, low=0, high=5), Constant(np.int32(3))], {}),
    *(("NthElement", [floats(3, 5), Constant(np.int32(2))], {"reverse": r}) for r in (False, True)),
    ("ListDiff", [integers(8, low=0, high=6), Constant([1, 4], I32)], {"out_idx": INT64}),
    ("ListDiff", [floats(5), floats(5)[:2]], {}),
    ("Bincount", [integers(2, 4, low=0, high=5), Constant(np.int32(4)), Constant(floats(2, 4))], {}),
    ("Bincount", [integers(7, low=0, high=5), Constant(np.int32(6)), Constant(np.zeros(0, np.int32))], {}),
    *(
        (
            "DenseBincount",
            [integers(3, 4, low=0, high=5), Constant(np.int32(6)), Constant(np.zeros(0, np.float32))],
            {"binary_output": binary},
        )
        for binary in (False, True)
    ),
    ("HistogramFixedWidth", [floats(20), Constant([-1.5, 1.0], np.float32), Constant(np.int32(5))], {}),
    ("UniqueV2", [integers(5, 2, low=0, high=2), Constant([0], I64)], {}),
    ("UniqueWithCountsV2", [integers(2, 6, low=0, high=2), Constant([1], I64)], {}),
]
SEGMENTED = [
    *((f"Segment{kind}", [floats(5, 3), SEGMENTS], {}) for kind in ("Sum", "Mean", "Max", "Min", "Prod")),
    *(
        (f"Segment{kind}V2", [floats(5, 3), SEGMENTS, Constant(np.int32(7))], {})
        for kind in ("Sum", "Max", "Min", "Prod")
    ),
    ("SegmentMean", [integers(5, 3), SEGMENTS], {}),
    ("SegmentMax", [integers(5, element=I64), np.array([0, 1, 1, 1, 3], I32)], {}),
    *(
        (f"SparseSegment{kind}", [floats(6, 2), Constant([0, 5, 1, 1, 3], I32), SEGMENTS], {})
        for kind in ("Sum", "Mean", "SqrtN")
    ),
    *(
        (
            f"SparseSegment{kind}WithNumSegments",
            [floats(6, 2), Constant([0, 5, 1, 1, 3], I32), SEGMENTS, Constant(np.int32(8))],
            {},
        )
        for kind in ("Sum", "Mean", "SqrtN")
    ),
]
SCATTERED = [
    *(
        (f"TensorScatter{kind}", [floats(5, 2), Constant([[1], [3], [1]], I32), floats(3, 2)], {})
        for kind in ("Add", "Sub", "Max", "Min")
    ),
    ("TensorScatterUpdate", [floats(5, 2), Constant([[1, 0], [3, 1]], I32), floats(2)], {}),
    ("ScatterNdNonAliasingAdd", [integers(5), Constant([[1], [3], [1]], I32), integers(3)], {}),
    *(
        (f"Inplace{kind}", [floats(5, 2), Constant([1, -1, 6], I32), floats(3, 2)], {})
        for kind in ("Update", "Add", "Sub")
    ),
    ("UnravelIndex", [np.array([0, 7, 23], I32), vector(2, 3, 4)], {}),
    ("UnravelIndex", [np.array(7, I64), Constant([2, 3, 4], I64)], {}),
    ("TensorStridedSliceUpdate", [floats(4, 5), vector(0, 4), vector(4, 0), vector(2, -2), floats(2, 2)], {}),
    (
        "TensorStridedSliceUpdate",
        [floats(4, 5), vector(1, 0), vector(2, 5), vector(1, 1), floats(1)],
        {"shrink_axis_mask": 1},
    ),
]
DIAGONALS = [
    *((op, [floats(2, 3)], {}) for op in ("MatrixDiag", "BatchMatrixDiag")),
    *((op, [MATRIX], {}) for op in ("MatrixDiagPart", "BatchMatrixDiagPart")),
    *((op, [MATRIX, floats(2, 4)], {}) for op in ("MatrixSetDiag", "BatchMatrixSetDiag")),
    ("BatchMatrixBandPart", [MATRIX, Constant(np.int64(1)), Constant(np.int64(2))], {}),
    *(
        ("MatrixDiagPartV3", [MATRIX, vector(*band), Constant(np.float32(7))], {"align": a})
        for band in BANDS
        for a in ALIGN
    ),
    *(("MatrixDiagPartV2", [MATRIX, vector(*band), Constant(np.float32(7))], {}) for band in BANDS),
    *(
        ("MatrixSetDiagV3", [MATRIX, packed(band), vector(*band)], {"align": a})
        for band in BANDS
        for a in ALIGN
    ),
    ("MatrixSetDiagV2", [MATRIX, packed((-2, 1)), vector(-2, 1)], {}),
    *(
        (
            "MatrixDiagV3",
            [
                packed((-2, 1)),
                vector(-2, 1),
                Constant(np.int32(r)),
                Constant(np.int32(c)),
                Constant(np.float32(3)),
            ],
            {"align": a},
        )
        for r, c in ((-1, -1), (5, -1), (-1, 5))
        for a in ALIGN
    ),
    (
        "MatrixDiagV2",
        [
            floats(3),
            Constant(np.int32(1)),
            Constant(np.int32(-1)),
            Constant(np.int32(-1)),
            Constant(np.float32(3)),
        ],
        {},
    ),
    ("Diag", [floats(2, 3)], {}),
    ("DiagPart", [floats(2, 3, 2, 3)], {}),
]
IMAGES = [
    ("RGBToHSV", [IMAGE], {}),
    ("RGBToHSV", [np.float32([[1, 1, 1], [0, 0, 0], [1, 0, 0], [0, 0, 1], [0, 1, 1]])], {}),
    ("HSVToRGB", [IMAGE], {}),
    ("AdjustSaturation", [IMAGE, Constant(np.float32(1.7))], {}),
    *(("AdjustHue", [IMAGE, Constant(np.float32(d))], {}) for d in (0.3, -0.4)),
    (
        "AdjustContrast",
        [
            integers(4, 4, 3, low=0, high=200, element=U8),
            Constant(np.float32(2)),
            Constant(np.float32(0)),
            Constant(np.float32(200)),
        ],
        {},
    ),
    *(
        ("ResizeBicubic", [IMAGE, vector(*s)], {"half_pixel_centers": h, "align_corners": a})
        for s in ((9, 11), (3, 4))
        for h, a in ((False, False), (True, False), (False, True))
    ),
    *(
        ("ResizeArea", [IMAGE, vector(*s)], {"align_corners": a})
        for s in ((9, 11), (3, 4))
        for a in (False, True)
    ),
    *(
        (
            "CropAndResize",
            [
                IMAGE,
                Constant(np.float32([[0, 0, 1, 1], [0.9, 0.2, 0.1, 0.8], [-0.3, 0.1, 1.2, 0.9]])),
                Constant([0, 1, 1], I32),
                vector(*s),
            ],
            {"method": m, "extrapolation_value": 2.5},
        )
        for m in ("bilinear", "nearest")
        for s in ((4, 5), (1, 1))
    ),
    ("ExtractImagePatches", [IMAGE], window()),
    ("ExtractImagePatches", [IMAGE], window(padding="VALID")),
    *(
        (
            "Dilation2D",
            [IMAGE, floats(2, 3, 3)],
            {"strides": [1, 1, 2, 1], "rates": [1, 2, 1, 1], "padding": p},
        )
        for p in ("SAME", "VALID")
    ),
    *(("MaxPoolWithArgmax", [IMAGE], pool(include_batch_in_index=n, Targmax=INT64)) for n in (False, True)),
]
NUMBERS = [
    *((op, [floats(3, 4)], {}) for op in ("Lgamma", "Digamma")),
    ("Lgamma", [np.float32([0.1, 0.5, 1, 2, 7.5, 60, -0.5, -3.25, -20.75, -2, 0])], {}),
    ("Digamma", [np.float32([0.1, 0.5, 1, 2, 7.5, 60, -0.5, -3.25, -20.75])], {}),
    ("Erfinv", [np.float32([-1, -0.99, -0.5, 0, 1e-3, 0.3, 0.9999, 1])], {}),
    ("Ndtri", [np.float32([1e-5, 0.1, 0.5, 0.9, 0.99999])], {}),
    ("Xlog1py", [np.float32([0, 1, 2]), np.float32([-1, 2, 1e-6])], {}),
    *(
        (op, [floats(3, 4), Constant(np.int32(1))], {"exclusive": e, "reverse": r})
        for op in ("Cumprod", "CumulativeLogsumexp")
        for e in (False, True)
        for r in (False, True)
    ),
    ("Cumprod", [floats(2, 3, 4), Constant(np.int32(-3))], {}),
    ("Cross", [floats(2, 3), floats(2, 3)], {}),
    ("SparseMatMul", [floats(3, 4), floats(5, 4)], {"transpose_b": True}),
    *(
        (
            "SparseTensorDenseMatMul",
            [Constant([[0, 1], [2, 0], [2, 0]], I64), floats(3), Constant([3, 4], I64), floats(*s)],
            {"adjoint_a": s[0] == 3, "adjoint_b": s[0] == 2},
        )
        for s in ((4, 2), (3, 2), (2, 4))
    ),
    *((op, [floats(2, 3, 3)], {}) for op in ("MatrixDeterminant", "BatchMatrixDeterminant")),
    ("ConjugateTranspose", [floats(2, 3), vector(1, 0)], {}),
    ("SparseReshape", [Constant([[0, 1], [2, 3]], I64), Constant([3, 4], I64), Constant([2, -1], I64)], {}),
    ("SoftmaxCrossEntropyWithLogits", [floats(3, 5), booleans(3, 5).astype(np.float32)], {}),
    ("SparseSoftmaxCrossEntropyWithLogits", [floats(3, 5), np.array([0, 4, 2], I32)], {}),
]
MADE = [
    ("Empty", [np.array([2, 3], I32)], {"dtype": FLOAT, "init": True}),
    *(
        ("LinSpace", [Constant(np.float32(-1)), Constant(np.float32(2)), Constant(np.int32(n))], {})
        for n in (1, 2, 7)
    ),
    ("BroadcastArgs", [np.array([3, 1, 4], I32), np.array([5, 1], I32)], {}),
    ("ConcatOffset", [Constant(np.int32(1)), np.array([2, 3, 4], I32), np.array([2, 7, 4], I32)], {"N": 2}),
    ("DataFormatDimMap", [np.array([0, 1, -1, 3], I32)], {}),
    *(("DataFormatVecPermute", [integers(*s)], {}) for s in ((4,), (4, 2), (2,))),
    ("ParallelConcat", [floats(1, 3), floats(1, 3)], {"N": 2, "shape": [2, 3]}),
]


def lstm(**more):
    return {"forget_bias": 0.7, "cell_clip": 0.5, "use_peephole": True, **more}


WEIGHTS = [
    Constant(floats(7, 16)),
    Constant(floats(4)),
    Constant(floats(4)),
    Constant(floats(4)),
    Constant(floats(16)),
]
RECURRENT = [
    *(
        ("LSTMBlockCell", [floats(2, 3), floats(2, 4), floats(2, 4), *WEIGHTS], lstm(use_peephole=p))
        for p in (False, True)
    ),
    *(
        ("BlockLSTM", [Constant(np.int64(n)), floats(5, 2, 3), floats(2, 4), floats(2, 4), *WEIGHTS], lstm())
        for n in (5, 3)
    ),
    (
        "BlockLSTMV2",
        [Constant(np.int64(5)), floats(5, 2, 3), Constant(floats(2, 4)), Constant(floats(2, 4)), *WEIGHTS],
        {"cell_clip": 0.0},
    ),
    (
        "GRUBlockCell",
        [
            floats(2, 3),
            floats(2, 4),
            Constant(floats(7, 8)),
            Constant(floats(7, 4)),
            Constant(floats(8)),
            Constant(floats(4)),
        ],
        {},
    ),
]
AUDIO = [
    *(
        ("AudioSpectrogram", [floats(400, c)], {"window_size": w, "stride": 100, "magnitude_squared": m})
        for c in (1, 2)
        for w, m in ((128, False), (200, True))
    ),
    *(
        (
            "Mfcc",
            [floats(1, 3, 129, low=0.0), Constant(np.int32(16000))],
            {"upper_frequency_limit": u, "dct_coefficient_count": 10},
        )
        for u in (4000.0, 9000.0)
    ),
    ("Mfcc", [floats(1, 3, 129, low=0.0), np.int32(16000)], {}),
]
BOXES = np.float32([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 2, 1, 3], [0, 2.05, 1, 3.05], [1, 1, 0, 0]])
SCORES = np.float32([0.9, 0.8, 0.7, 0.95, 0.3])
MANY = np.stack([BOXES, BOXES + np.float32(0.2)])[:, :, None]
LIMITS = [Constant(np.int32(2)), Constant(np.int32(7)), Constant(np.float32(0.5)), Constant(np.float32(0.2))]
SUPPRESSED = [
    *(
        (
            "NonMaxSuppressionV5",
            [
                BOXES,
                SCORES,
                Constant(np.int32(n)),
                Constant(np.float32(0.5)),
                Constant(np.float32(least)),
                Constant(np.float32(0.5)),
            ],
            {"pad_to_max_output_size": p},
        )
        for n, least, p in ((5, 0.0, False), (3, 0.4, True))
    ),
    (
        "NonMaxSuppressionWithOverlaps",
        [
            floats(5, 5, low=0.0, high=1.0),
            SCORES,
            Constant(np.int32(4)),
            Constant(np.float32(0.6)),
            Constant(np.float32(0.1)),
        ],
        {},
    ),
    *(
        (
            "CombinedNonMaxSuppression",
            [np.repeat(MANY, q, 2), floats(2, 5, 3, low=0.0, high=1.0), *LIMITS],
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
