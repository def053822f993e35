"""Made-up numbers that say how much there is of something: rates, sizes, shapes, counts.

Zeros and numbers drawn from anywhere are refused by the ops that read them, or make results without elements.
"""

from __future__ import annotations

import numpy as np

from thinflow.ir.graph import Use, Value
from thinflow.ir.types import Shape
from thinflow.synthetic.files import SIZE
from thinflow.synthetic.indices import uses_of
from thinflow.typing import Array

RATE = 16000
"""Samples a second that speech models are made for, and how long a sound of open length is made."""
_CUSTOM = "tfl.custom."
"""In front of ops that a .tflite file has by TensorFlow's own names."""
_RATES = frozenset({("Mfcc", 1), ("EncodeWav", 1), ("AudioSummaryV2", 2)})
_SOUNDS = frozenset({"AudioSpectrogram", "EncodeWav"})
_SIDES = frozenset(
    {
        *(f"Resize{how}" for how in ("Area", "Bicubic", "Bilinear", "NearestNeighbor")),
        *("tfl.RESIZE_BILINEAR", "tfl.RESIZE_NEAREST_NEIGHBOR"),
    }
)
"""Ops whose second input is the height and width of a picture."""
_SHAPES = frozenset({"Reshape", "tfl.RESHAPE", "onnx.Reshape"})
"""Ops whose second input says how to arrange what is there."""
_COUNTS = frozenset(
    {
        *(("Fill", 0), ("tfl.FILL", 0), ("Tile", 1), ("tfl.TILE", 1), ("onnx.Tile", 1)),
        *(("TopKV2", 1), ("tfl.TOPK_V2", 1), ("onnx.TopK", 1), ("OneHot", 1), ("tfl.ONE_HOT", 1)),
        *(("LinSpace", 2), ("NonMaxSuppression", 2), ("NonMaxSuppressionV2", 2)),
        *((f"NonMaxSuppressionV{n}", 2) for n in (3, 4, 5)),
        *(("RandomUniform", 0), ("RandomStandardNormal", 0), ("onnx.ConstantOfShape", 0)),
    }
)
_MOST = 3
"""Of what is counted: few, as sizes multiply, and one of k largest may be of few."""


def amounts_for(value: Value, shape: tuple[int, ...], rng: np.random.Generator) -> Array | None:
    """Numbers for an input that says how much there is of something; None if it does not."""
    for use in uses_of(value):
        op = use.node.op.removeprefix(_CUSTOM)
        if (op, use.index) in _RATES:
            return np.full(shape, RATE)
        if op in _SIDES and use.index == 1:
            return np.full(shape, SIZE)
        if op in _SHAPES and use.index == 1 and len(shape) == 1:
            # [-1, 1, 1, ...] takes any number of elements.
            return np.where(np.arange(shape[0]) == 0, -1, 1)
        if (op, use.index) in _COUNTS:
            return rng.integers(1, _MOST, shape, endpoint=True)
    return None


def sound_shape(value: Value, shape: Shape) -> Shape:
    """The shape with an open length settled where a value is a sound [samples, channels]: one of a second."""
    if shape is None or len(shape) != 2 or shape[0] is not None:
        return shape
    return (RATE, shape[1]) if any(map(_is_sound, uses_of(value))) else shape


def _is_sound(use: Use) -> bool:
    return use.index == 0 and use.node.op.removeprefix(_CUSTOM) in _SOUNDS
