"""Connectionist temporal classification: from scores per time step to labels."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from thinflow.ir.types import INT64, TensorSpec
from thinflow.ops._numeric import quiet
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


# ---- Beam search over what a connectionist temporal classification emits.
#
# Source: Graves, "Supervised sequence labelling with recurrent neural networks" (2012), chapter 7.5.


@dataclass(eq=False)
class _Beam:
    """A prefix of labels, and the logarithms of its probability after a blank and after its last label.

    Attributes:
        label: the last one; -1 for the empty prefix.
        old, new: before and after a step: in all, after a blank, after the label.
        children: the prefixes with one label more.
    """

    parent: _Beam | None
    label: int
    old: list[float] = field(default_factory=lambda: [-np.inf, -np.inf, -np.inf])
    new: list[float] = field(default_factory=lambda: [-np.inf, -np.inf, -np.inf])
    children: dict[int, _Beam] = field(default_factory=dict)

    @property
    def total(self) -> float:
        return self.new[0]

    def labels(self, merged: bool) -> list[int]:
        found: list[int] = []
        beam: _Beam | None = self
        last = -1
        while beam is not None and beam.parent is not None:
            if not (merged and beam.label == last):
                found.append(beam.label)
            last = beam.label
            beam = beam.parent
        return found[::-1]


def _add(a: float, b: float) -> float:
    return float(np.logaddexp(a, b))


def _stay(beam: _Beam, scores: list[float], blank: int, active: set[int]) -> None:
    """The prefix stays as it is: another blank, or its last label again."""
    if beam.parent is not None:
        if id(beam.parent) in active:
            parent = beam.parent
            # A label that repeats its parent's counts as a new one only after a blank.
            before = parent.old[1] if beam.label == parent.label else parent.old[0]
            beam.new[2] = _add(beam.new[2], before)
        # new[2] still holds the step before here: the last label seen once more leaves the prefix as it is.
        beam.new[2] += scores[beam.label]
    beam.new[1] = beam.old[0] + scores[blank]
    beam.new[0] = _add(beam.new[1], beam.new[2])


def _joins(value: float, leaves: list[_Beam], width: int) -> bool:
    """True if a prefix of that probability has a place among the best."""
    return value > -np.inf and (len(leaves) < width or value > min(b.total for b in leaves))


def _step(beams: list[_Beam], scores: list[float], blank: int, width: int) -> list[_Beam]:
    """The best prefixes after one more step of scores [c]."""
    for beam in beams:
        # All beams step at once: what a parent was before the step is read by its children.
        beam.old = list(beam.new)
    active = {id(b) for b in beams}
    for beam in beams:
        _stay(beam, scores, blank, active)
    # Prefixes that stay compete with those that grow: both are in the same beam.
    leaves = sorted(beams, key=lambda b: -b.total)[:width]
    for beam in sorted(beams, key=lambda b: -b.old[0]):
        if not _joins(beam.old[0], leaves, width):
            continue
        for label, score in enumerate(scores):
            if label == blank:
                continue
            child = beam.children.get(label)
            # It is among the beams already, and `_stay` has counted this way to it.
            if child is not None and child.total > -np.inf:
                continue
            before = beam.old[1] if label == beam.label else beam.old[0]
            value = score + before
            if not _joins(value, leaves, width):
                if child is not None:  # one that fell out in this step does not grow either
                    child.old = [-np.inf] * 3
                continue
            child = beam.children.setdefault(label, _Beam(beam, label))
            child.new = [value, -np.inf, value]
            if len(leaves) >= width:
                worst = min(leaves, key=lambda b: b.total)
                leaves.remove(worst)
                worst.new = [-np.inf] * 3
            leaves.append(child)
    return leaves


def _decoded(x: Array, blank: int, width: int, paths: int, merged: bool) -> list[tuple[list[int], float]]:
    """The likeliest label sequences of scores [t,c] with the logarithms of their probability."""
    root = _Beam(None, -1)
    root.new = [0.0, 0.0, -np.inf]
    beams = [root]
    for row in x.astype(np.float64):
        # Log-softmax in double, shifted so that nothing overflows.
        scores = row - row.max()
        scores = scores - np.log(np.exp(scores).sum())
        beams = _step(beams, scores.tolist(), blank, width)
    # Python's sort is stable: of equal prefixes the one found first comes first.
    best = sorted(beams, key=lambda b: -b.total)
    require(len(best) >= paths, f"there are {len(best)} paths, {paths} are asked for")
    return [(b.labels(merged), b.total) for b in best[:paths]]


@op("CTCBeamSearchDecoder")
class CTCBeamSearchDecoder(OpDef):
    """The top_paths likeliest label sequences, each as a sparse matrix, and their scores.

    x [t,n,c], lengths [n] -> top_paths indices [m,2], values [m], shapes [2], scores [n,top_paths]. The blank
    is the last class. merge_repeated makes one label of equal ones in a row.
    """

    num_outputs = ""

    @staticmethod
    def infer(x: TensorSpec, lengths: TensorSpec, *, top_paths: int) -> tuple[TensorSpec, ...]:
        _, batch, _ = rank_of(x, 3, "x")
        parts = (TensorSpec(INT64, (None, 2)), TensorSpec(INT64, (None,)), TensorSpec(INT64, (2,)))
        return (*(p for p in parts for _ in range(top_paths)), x.with_shape((batch, top_paths)))

    @staticmethod
    def kernel(
        x: Array, lengths: Array, *, beam_width: int, top_paths: int, merge_repeated: bool = True
    ) -> tuple[Array, ...]:
        steps, batch, classes = x.shape
        require(lengths.shape == (batch,), f"there are {lengths.size} lengths for {batch} sequences")
        require(bool(((lengths >= 0) & (lengths <= steps)).all()), f"a length is outside 0..{steps}")
        require(1 <= top_paths <= beam_width, f"{top_paths} paths of a beam of {beam_width}")
        found = [
            _decoded(x[: int(n), row], classes - 1, beam_width, top_paths, merge_repeated)
            for row, n in enumerate(lengths)
        ]
        triples = [_sparse([paths[k][0] for paths in found]) for k in range(top_paths)]
        scores = np.array([[score for _, score in paths] for paths in found], x.dtype)
        return (
            *(part for column in zip(*triples, strict=True) for part in column),
            scores.reshape(batch, top_paths),
        )


def _sparse(rows: list[list[int]]) -> tuple[Array, Array, Array]:
    places = [(r, c) for r, row in enumerate(rows) for c in range(len(row))]
    values = np.array([label for row in rows for label in row], np.int64)
    shape = np.array([len(rows), max(map(len, rows), default=0)], np.int64)
    return np.array(places, np.int64).reshape(-1, 2), values, shape


# ---- The loss of connectionist temporal classification, and its gradient.
#
# Source: Graves et al., "Connectionist temporal classification" (2006), the forward and backward variables.


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
