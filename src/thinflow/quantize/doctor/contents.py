"""Samples that show nothing: constant ones, noise, and the same one again and again."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from thinflow.quantize.doctor import check
from thinflow.quantize.doctor.exam import Exam
from thinflow.quantize.doctor.findings import Finding
from thinflow.typing import Array

_FLAT = 1e-4
"""Spread over the largest number below which a sample is constant."""
# Sets of sounds hold silence, one class of ten.
_MANY = 0.25
"""Share of samples that may be constant, or like another."""
# Neighbours in drawn noise are alike by 1 / sqrt(numbers); in benchmarks/ptq and speech by 0.3 to 0.95.
_ALIKE = 0.04
_FEWEST = 500
"""Numbers below which likeness of neighbours is chance."""
_LONG, _SOUND, _ROW, _ROWS_SEEN = 8, 1000, 64, 256
"""Numbers along an axis that is a space or a time; of a sound; of a row of features, and how many of them
are looked at."""
# Tokens come again and again, and channels of an embedding say the same: squares of correlations are 2 to
# 180 times what they are of independent numbers. Of drawn ones they are 0.9 to 1.1 times that, and up to 1.5
# where there are few.
_CHANNELS, _DEPENDS = 16, 1.5
"""Channels of the smallest embedding; how many times as much they depend on each other as drawn ones do."""
_TWINS = 0.02
"""Distance of two samples over the usual one, below which they are nearly the same."""
_SAME = 0.004
"""The same over what a sample varies within itself: a step of eight bits."""
_LOOKED_AT = 4096
"""Numbers of a sample that tell whether it is another one."""
_LOST_DB = 6.0
"""A bit: noise and constants make ranges of about twice or half the size that real samples have."""


@check(order=10, group="answers")
def constant(exam: Exam) -> Iterator[Finding]:
    """Samples that are the same number everywhere."""
    if not exam.is_enough or not exam.inputs:
        return
    flat = [i for i in range(len(exam.feeds)) if all(_is_flat(a[i]) for a in exam.inputs.values())]
    if len(flat) > _MANY * len(exam.feeds):
        yield Finding(
            f"{len(flat)} of {len(exam.feeds)} samples are one number everywhere, such as"
            f" {exam.places[flat[0]]}",
            "look at how samples are read; give those that the model will see",
            _LOST_DB,
        )


def _is_flat(array: Array) -> bool:
    return float(np.ptp(array)) <= _FLAT * float(np.abs(array).max(initial=0.0))


@check(order=11, group="answers")
def noise(exam: Exam) -> Iterator[Finding]:
    """Samples in which neighbours have nothing to do with each other."""
    if not exam.is_enough:
        return
    for name, arrays in exam.inputs.items():
        likeness = None if _are_codes(arrays) else _neighbours(arrays)
        if likeness is not None and abs(likeness) < _ALIKE and not _are_embedded(arrays):
            yield Finding(
                f"the samples look like noise: neighbours in '{name}' are alike by {likeness:.2f}, where"
                " pictures, sounds and series have 0.3 to 1",
                "give real samples with --calibration, in the layout that the model takes",
                _LOST_DB,
            )


def _neighbours(arrays: list[Array]) -> float | None:
    """Correlation of neighbours along the axis where it is highest; None without an axis of space or time."""
    shape = arrays[0].shape
    # A lone row of features has no order, unless it is as long as a sound: noise are then numbers that have
    # nothing to do with each other. A row may be a series of one channel as well, such as a heart's, whose
    # beats fall anywhere: of its numbers those that are neighbours tell.
    is_row = sum(n > 1 for n in shape) == 1
    is_either = is_row and _ROW <= max(shape) < _SOUND
    axes = [i for i, n in enumerate(shape) if n >= (_SOUND if is_row and not is_either else _LONG)]
    if not axes or sum(a.size for a in arrays) < _FEWEST:
        return None
    found = [_dependence(np.stack([np.ravel(a) for a in arrays]).astype(np.float64))] if is_either else []
    for axis in axes:
        products = squares = 0.0
        for array in arrays:
            # Of each channel its own mean: a colour cast is no likeness of neighbours.
            wide = np.moveaxis(array.astype(np.float64), axis, 0)
            wide = wide - wide.mean(0)
            products += float((wide[1:] * wide[:-1]).sum())
            squares += float(np.square(wide).sum())
        # What lies around its own mean is unlike itself by 1 / length, even if it is noise.
        found.append(products / squares + 1 / shape[axis] if squares else 0.0)
    return max(found, key=abs)


def _are_codes(arrays: list[Array]) -> bool:
    """True for rows of whole numbers that may be those of tokens: neighbours have nothing to do with each
    other then. Sounds that are whole numbers have both signs.
    """
    is_row = sum(n > 1 for n in arrays[0].shape) == 1
    return is_row and all(bool(((a >= 0) & (a == np.rint(a))).all()) for a in arrays)


def _are_embedded(arrays: list[Array]) -> bool:
    """True for tables of channels that depend on each other, as those of embedded tokens do, whose neighbours
    are unlike.
    """
    shape = [n for n in arrays[0].shape if n > 1]
    if len(shape) != 2:
        return False
    tables = np.stack([a.reshape(shape) for a in arrays]).astype(np.float64)
    # Channels may be the last axis, or the first.
    both = [np.moveaxis(tables, axis, -1) for axis in (1, 2)]
    wide = [t.reshape(-1, t.shape[-1]) for t in both if t.shape[-1] >= _CHANNELS]
    return any(_dependence(rows) * (len(rows) - 1) > _DEPENDS - 1 for rows in wide)


def _dependence(rows: Array) -> float:
    """How much more features depend on each other than drawn ones do, about 0 for these.

    Args:
        rows: [samples, features].
    """
    rows = rows[:, :: max(1, rows.shape[1] // _ROWS_SEEN)]
    rows = rows - rows.mean(0)
    sizes = np.sqrt(np.square(rows).sum(0))
    rows = rows[:, sizes > 0] / sizes[sizes > 0]
    if rows.shape[1] < 2:
        return 1.0
    products = (rows.T @ rows)[np.triu_indices(rows.shape[1], 1)]
    # Squares of correlations of independent numbers are 1 / (samples - 1) in the mean.
    return float(np.square(products).mean() - 1 / (len(rows) - 1))


@check(order=12, group="answers")
def duplicates(exam: Exam) -> Iterator[Finding]:
    """Samples that are nearly the same."""
    if not exam.is_enough or not exam.inputs:
        return
    rows = np.stack([_row([a[i] for a in exam.inputs.values()]) for i in range(len(exam.feeds))])
    own = np.sqrt(np.square(rows - rows.mean(1, keepdims=True)).sum(1))
    rows = rows - rows.mean(0)
    # |a - b|^2 = |a|^2 + |b|^2 - 2ab, without an array of all pairs' differences.
    squares = np.square(rows).sum(1)
    distances = np.sqrt(np.maximum(squares[:, None] + squares[None] - 2 * rows @ rows.T, 0))
    pairs = distances[np.triu_indices(len(rows), 1)]
    np.fill_diagonal(distances, np.inf)
    # Where all are alike, there is no usual distance: they then differ by next to nothing of themselves.
    nearest = distances.min(1)
    is_twin = (nearest <= _TWINS * float(np.median(pairs))) | (nearest <= _SAME * own)
    if is_twin.mean() <= _MANY:
        return
    first = int(np.argmax(is_twin))
    other = int(np.argmin(distances[first]))
    yield Finding(
        f"{int(is_twin.sum())} of {len(rows)} samples are nearly the same as another, such as"
        f" {exam.places[first]} and {exam.places[other]}",
        "take samples that differ as those do which the model will see",
        _LOST_DB / 2,
    )


def _row(arrays: list[Array]) -> Array:
    flat = np.concatenate([np.ravel(a) for a in arrays]).astype(np.float64)
    return flat[:: max(1, len(flat) // _LOOKED_AT)]
