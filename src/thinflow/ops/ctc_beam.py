"""Beam search over what a connectionist temporal classification emits.

Source: Graves, "Supervised sequence labelling with recurrent neural networks" (2012), chapter 7.5.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from thinflow.ir.types import INT64, TensorSpec
from thinflow.ops._shapes import rank_of
from thinflow.ops.registry import OpDef, op, require
from thinflow.typing import Array


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
