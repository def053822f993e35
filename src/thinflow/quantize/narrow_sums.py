"""Weights of an ONNX program whose products overflow no sum of 16 bits.

Without VNNI, x86 processors multiply unsigned by signed bytes two at a time and add both in 16 bits, which
cut off what lies beyond (VPMADDUBSW): 255 * 127 fits, twice that does not. ONNX Runtime does so with weights
of int8. Seven bits for all weights would avoid it. But few pairs of weights are large and of one sign: so a
scale is made coarser only as far as the largest pair of its channel needs, which costs networks 0.2 to 2 dB
where seven bits cost 0.2 to 3.

Weights of uint8 with zero point 128 are the same numbers, and products of them are added in 32 bits
(VPMADDWD): what has codes already that overflow keeps them so. Layers take 1.05 to 1.45 times as long on
AVX2. Where scales are free they stay signed: once the rungs have tried their best the networks of
`benchmarks/ptq` gain -0.3 to 0.2 dB by finer ones, and VNNI takes signed weights alone.
"""

from __future__ import annotations

import numpy as np

from thinflow.quantize.kernels import Operator
from thinflow.typing import Array

# 255 * 128 is 32640.
_MOST = 128
"""The largest sum of two weights of one sign in a pair."""
_ROUNDED = 127
"""The same before both are rounded."""


def pair_scales(operator: Operator, w: Array, axis: int | None) -> Array:
    """float64 [channels along axis], or [1] for None: scales in which the largest pair just fits.

    0 where nothing is added in pairs.
    """
    pairs = _pairs(operator, w)
    if pairs is None or not pairs.size:
        return np.zeros(1 if axis is None else w.shape[axis])
    found = _largest_sums(pairs).astype(np.float64) / _ROUNDED
    return np.atleast_1d(found.max() if axis is None else found)


def narrowed(operator: Operator, codes: Array) -> Array:
    """Codes whose pairs fit: of a pair that does not, as weights that make up for one another may be rounded,
    the larger one is taken nearer to zero.
    """
    pairs = _pairs(operator, codes.astype(np.int32))
    if pairs is None or not pairs.size:
        return codes
    both = np.where(np.sign(pairs).prod(-1) > 0, np.abs(pairs).sum(-1), 0)
    excess = np.maximum(both - _MOST, 0)
    if not excess.any():
        return codes
    larger = np.abs(pairs).argmax(-1)[..., None]
    taken = np.take_along_axis(pairs, larger, -1)
    np.put_along_axis(pairs, larger, taken - np.sign(taken) * excess[..., None], -1)
    rows = pairs.reshape(len(pairs), -1)
    return _restored(operator, rows, codes.shape).astype(codes.dtype)


def overflow(operator: Operator, codes: Array) -> bool:
    """True if two products of codes may be more than 16 bits hold."""
    pairs = _pairs(operator, codes.astype(np.int16))
    return pairs is not None and pairs.size > 0 and bool(_largest_sums(pairs).max() > _MOST)


def _largest_sums(pairs: Array) -> Array:
    """The largest sum of a pair of each channel [channels]: of two signs one weight alone counts."""
    return np.asarray(np.maximum(np.maximum(pairs, 0).sum(-1), -np.minimum(pairs, 0).sum(-1)).max(-1))


def _pairs(operator: Operator, w: Array) -> Array | None:
    """[channels, pairs, 2] weights in the order in which kernels add them; None if they do not."""
    if operator.code == "Conv":
        # Depthwise kernels multiply in 16 bits. Others take what a window shows place by place.
        if w.shape[1] == 1 and operator.options.get("group", 1) == w.shape[0]:
            return None
        rows = np.moveaxis(w, 1, -1).reshape(len(w), -1)
    elif w.ndim == 2:
        rows = w if operator.options.get("transB") else w.T
    else:
        return None
    if rows.shape[1] % 2:
        rows = np.concatenate([rows, np.zeros((len(rows), 1), rows.dtype)], axis=1)
    return np.ascontiguousarray(rows).reshape(len(rows), -1, 2)


def _restored(operator: Operator, rows: Array, shape: tuple[int, ...]) -> Array:
    """Weights of a shape from rows of `_pairs`."""
    rows = rows[:, : int(np.prod(shape)) // len(rows)]
    if operator.code == "Conv":
        return np.moveaxis(rows.reshape(shape[0], *shape[2:], shape[1]), -1, 1)
    return rows if operator.options.get("transB") else rows.T
