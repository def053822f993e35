"""LiteRT's ops on complex and random numbers, bits and bins, and non-maximum suppression."""

from __future__ import annotations

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import FLOAT, INT64, DType, dtype
from thinflow.lift.lifter import Call
from thinflow.lift.rules import Rule, lifts
from thinflow.lift.tflite.custom import results_of

_COMPLEX = dtype("complex64")
_TYPES = {"T": FLOAT, "T_threshold": FLOAT}


def _random(op: str) -> Rule:
    """Random numbers of a shape; LiteRT has TensorFlow's generator, and repeats its numbers by seeds."""

    def rule(c: Call) -> Value:
        seeds = {"seed": c.get("seed", 0), "seed2": c.get("seed2", 0)}
        return c.emit(op, c[0], dtype=FLOAT, **seeds)

    return rule


@lifts("tfl.MULTINOMIAL")
def _multinomial(c: Call) -> Value:
    kind = c.spec.dtype if isinstance(c.spec.dtype, DType) else INT64
    seeds = {"seed": c.get("seed", 0), "seed2": c.get("seed2", 0)}
    return c.emit("Multinomial", c[0], c[1], output_dtype=kind, **seeds)


def _threshold(c: Call) -> Value:
    """The overlap from which on boxes are dropped; above which, for TensorFlow."""
    below = np.nextafter(c.known(3).astype(np.float32), np.float32(-np.inf))
    return c.constant(np.asarray(below, np.float32))


@lifts("tfl.NON_MAX_SUPPRESSION_V4")
def _suppression(c: Call) -> list[Value]:
    """NON_MAX_SUPPRESSION_V4: places, filled up with zeros, and how many of them count."""
    inputs = [c[0], c[1], c[2], _threshold(c), c[4]]
    return results_of(c, "NonMaxSuppressionV4", *inputs, count=2, pad_to_max_output_size=True, **_TYPES)


@lifts("tfl.NON_MAX_SUPPRESSION_V5")
def _soft_suppression(c: Call) -> list[Value]:
    """NON_MAX_SUPPRESSION_V5: scores besides, which overlaps lower."""
    # LiteRT lowers scores, drops boxes, and may take one twice; TensorFlow does one or the other.
    if c.known(5) > 0:
        raise UnsupportedOp("it both lowers scores and drops boxes, which TensorFlow's op does not")
    inputs = [c[0], c[1], c[2], _threshold(c), c[4], c[5]]
    return results_of(c, "NonMaxSuppressionV5", *inputs, count=3, pad_to_max_output_size=True, T=FLOAT)


@lifts("tfl.BITCAST")
def _bitcast(c: Call) -> Value:
    return c.emit("Bitcast", c[0], type=c.spec.dtype)


lifts("tfl.RANDOM_UNIFORM")(_random("RandomUniform"))
lifts("tfl.RANDOM_STANDARD_NORMAL")(_random("RandomStandardNormal"))
lifts("tfl.BUCKETIZE")(lambda c: c.emit("Bucketize", c[0], boundaries=c.get("boundaries", ())))
lifts("tfl.RFFT2D")(lambda c: c.emit("RFFT2D", c[0], c[1], T=None, Treal=FLOAT, Tcomplex=_COMPLEX))
lifts("tfl.REAL")(lambda c: c.emit("Real", c[0], Tout=FLOAT))
lifts("tfl.IMAG")(lambda c: c.emit("Imag", c[0], Tout=FLOAT))
lifts("tfl.COMPLEX_ABS")(lambda c: c.emit("ComplexAbs", c[0], Tout=FLOAT))
lifts("tfl.MATRIX_SET_DIAG")(lambda c: c.emit("MatrixSetDiag", c[0], c[1]))
