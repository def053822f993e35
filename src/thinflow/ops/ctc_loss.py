"""The loss of connectionist temporal classification, and its gradient.

Source: Graves et al., "Connectionist temporal classification" (2006), the forward and backward variables.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from thinflow.ir.types import TensorSpec
from thinflow.ops._numeric import quiet
from thinflow.ops._shapes import rank_of
from thinflow.ops.registry import OpDef, op, require
from thinflow.typing import Array


@op("CTCLoss")
class CTCLoss(OpDef):
    """(loss [n], gradient [t,n,c]) of scores x [t,n,c] for labels, a sparse matrix [n,...], and lengths [n].

    The blank is the last class.
    """

    num_outputs = 2

    @staticmethod
    def infer(
        x: TensorSpec, indices: TensorSpec, values: TensorSpec, lengths: TensorSpec
    ) -> tuple[TensorSpec, ...]:
        _, batch, _ = rank_of(x, 3, "x")
        return x.with_shape((batch,)), x.with_shape(x.shape)

    @staticmethod
    def kernel(
        x: Array,
        indices: Array,
        values: Array,
        lengths: Array,
        *,
        preprocess_collapse_repeated: bool = False,
        ctc_merge_repeated: bool = True,
        ignore_longer_outputs_than_inputs: bool = False,
    ) -> tuple[Array, Array]:
        steps, batch, classes = x.shape
        require(lengths.shape == (batch,), f"there are {lengths.size} lengths for {batch} sequences")
        require(bool((lengths <= steps).all()), f"a sequence is longer than the {steps} steps")
        blank = classes - 1
        rows: list[list[int]] = [[] for _ in range(batch)]
        for row, label in zip(indices[:, 0].tolist(), values.tolist(), strict=True):
            require(0 <= row < batch, f"labels of sequence {row} of {batch}")
            require(0 <= label < blank, f"the label {label} is not among {blank}")
            if not (preprocess_collapse_repeated and rows[row] and rows[row][-1] == label):
                rows[row].append(label)
        loss, gradient = np.zeros(batch, x.dtype), np.zeros(x.shape, x.dtype)
        for row, labels in enumerate(rows):
            length = int(lengths[row])
            require(length > 0 or not labels or ignore_longer_outputs_than_inputs, "a sequence has no steps")
            if length == 0:
                continue
            if not _fits(labels, length, ctc_merge_repeated):
                require(
                    ignore_longer_outputs_than_inputs,
                    f"{len(labels)} labels do not fit {length} steps",
                    "set ignore_longer_outputs_than_inputs",
                )
                continue
            one, slope = _single(x[:length, row].astype(np.float64), labels, blank, ctc_merge_repeated)
            loss[row], gradient[:length, row] = one, slope
        return loss, gradient


def _fits(labels: list[int], length: int, merged: bool) -> bool:
    doubled = sum(a == b for a, b in pairwise(labels)) if merged else 0
    # Two equal labels need a blank between them, if repeated ones are merged.
    return len(labels) + doubled <= length


@quiet
def _single(x: Array, labels: list[int], blank: int, merged: bool) -> tuple[float, Array]:
    """Loss and gradient of one sequence of scores [t,c]."""
    top = x - x.max(1, keepdims=True)
    scores = top - np.log(np.exp(top).sum(1, keepdims=True))
    # The labels with a blank before, between and behind them.
    path = np.full(2 * len(labels) + 1, blank)
    path[1::2] = labels
    skips = np.zeros(len(path), bool)
    # The blank between two labels may be left out, unless they are equal and would merge.
    skips[2:] = (path[2:] != blank) & ((path[2:] != path[:-2]) | (not merged))
    stays = (path == blank) | merged
    emitted = scores[:, path]
    forward = _forward(emitted, skips, stays)
    skips_back = np.zeros(len(path), bool)
    # Backwards a place is reached from two places later, if that one may be reached from it.
    skips_back[2:] = skips[::-1][:-2]
    backward = _forward(emitted[::-1, ::-1], skips_back, stays[::-1])[::-1, ::-1]
    # A path may end on its last label or the blank behind it.
    total = np.logaddexp.reduce(forward[-1, -2:])
    # Forward and backward both hold the emission of the step, which must count once.
    occupied = forward + backward - emitted - total
    share = np.zeros_like(x)
    np.add.at(share.T, path, np.exp(occupied).T)
    return float(-total), np.exp(scores) - share


def _forward(emitted: Array, skips: Array, stays: Array) -> Array:
    """Logarithms of the probability to be at each place of the path after each step, [t,p]."""
    alpha = np.full(emitted.shape, -np.inf)
    alpha[0, :2] = emitted[0, :2]
    for step in range(1, len(emitted)):
        before = alpha[step - 1]
        now = np.where(stays, before, -np.inf)
        now[1:] = np.logaddexp(now[1:], before[:-1])
        now[2:] = np.where(skips[2:], np.logaddexp(now[2:], before[:-2]), now[2:])
        alpha[step] = now + emitted[step]
    return alpha
