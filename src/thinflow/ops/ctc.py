"""Connectionist temporal classification: from scores per time step to labels."""

from __future__ import annotations

import numpy as np

from thinflow.ir.types import INT64, TensorSpec
from thinflow.ops._shapes import rank_of
from thinflow.ops.registry import OpDef, op, require
from thinflow.typing import Array


@op("CTCGreedyDecoder")
class CTCGreedyDecoder(OpDef):
    """The likeliest class of each step, blanks dropped, as a sparse matrix and minus the sum of the scores.

    x [t,n,c], lengths [n] -> indices [m,2], values [m], shape [2], scores [n,1]. The blank is the last class
    unless blank_index says otherwise. merge_repeated makes one label of equal ones in a row.
    """

    num_outputs = 4

    @staticmethod
    def infer(x: TensorSpec, lengths: TensorSpec) -> tuple[TensorSpec, ...]:
        _, batch, _ = rank_of(x, 3, "x")
        sparse = (TensorSpec(INT64, (None, 2)), TensorSpec(INT64, (None,)), TensorSpec(INT64, (2,)))
        return (*sparse, x.with_shape((batch, 1)))

    @staticmethod
    def kernel(
        x: Array, lengths: Array, *, merge_repeated: bool = False, blank_index: int = -1
    ) -> tuple[Array, ...]:
        steps, batch, classes = x.shape
        require(lengths.shape == (batch,), f"there are {lengths.size} lengths for {batch} sequences")
        require(bool((lengths <= steps).all()), f"a sequence is longer than the {steps} steps")
        require(-classes <= blank_index < classes, f"class {blank_index} is not among {classes}")
        blank = blank_index % classes
        best, scores = x.argmax(-1), x.max(-1)
        found: list[Array] = []
        for row, length in enumerate(lengths.tolist()):
            labels = best[: max(length, 0), row]
            kept = labels != blank
            # Compared with the step before, blanks included: a blank between two equal labels keeps both.
            if merge_repeated:
                kept[1:] &= labels[1:] != labels[:-1]
            found.append(labels[kept])
        sizes = [len(labels) for labels in found]
        rows = np.repeat(np.arange(batch), sizes)
        places = np.concatenate([np.arange(0), *(np.arange(n) for n in sizes)])
        during = np.arange(steps)[:, None] < lengths
        # Summed in the type of x, as TensorFlow does.
        total = -np.where(during, scores, 0).sum(0, dtype=x.dtype)
        return (
            np.stack([rows, places], -1).astype(np.int64),
            np.concatenate([np.arange(0), *found]).astype(np.int64),
            np.array([batch, max(sizes, default=0)], np.int64),
            total[:, None],
        )
