"""Unsigned weights with a code of 0 as the int8 weights around 0 that fast kernels want.

Weights less their code of 0 need nine bits: -zero ... 255 - zero. All but a few fit into -127 ... 127. What
is left over of those few is either so little that the result cannot move by a code: then half of it goes into
the bias, and the rest is dropped. Or it becomes further weights of the same convolution, which reads the
channels in question once more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_LIMIT = 127
_MAX_RUNS = 4
"""Stretches of channels that are cut out of the input; with more, all of it is read once more."""


@dataclass(frozen=True)
class Split:
    """Weights in eight bits.

    Attributes:
        weights: int8 [taps,c',m], of the channels of the input and then of `copies`.
        copies: stretches (first channel, count) of the input, to be joined to it along the channels.
        shift: what to add to each sum, int64 [m].
        error: how far each sum may be off, [m].
    """

    weights: np.ndarray
    copies: tuple[tuple[int, int], ...]
    shift: np.ndarray
    error: np.ndarray


def split(weights: np.ndarray, zero: int, tolerance: np.ndarray | float) -> Split:
    """Weights as int8.

    Args:
        weights: int16 [taps,c,m] around 0.
        zero: the code of 0 of the input, 0 to 255.
        tolerance: how far each sum may be off, [m] or one for all.
    """
    first = np.clip(weights, -_LIMIT, _LIMIT)
    rest = weights - first
    # An input less its zero lies in -zero ... 255 - zero: its middle is taken for it.
    largest = np.abs(rest).sum(axis=(0, 1)) * 127.5
    is_small = largest <= tolerance
    dropped = np.where(is_small, rest, 0)
    shift = np.rint(dropped.sum(axis=(0, 1)) * (127.5 - zero)).astype(np.int64)
    error = np.where(is_small, largest, 0.0) + 0.5 * (shift != 0)
    rest = np.where(is_small, 0, rest)
    parts, copies = [first], list[tuple[int, int]]()
    while rest.any():
        runs = _runs(rest)
        channels = np.concatenate([np.arange(start, start + count) for start, count in runs])
        part = np.clip(rest[:, channels], -_LIMIT, _LIMIT)
        rest[:, channels] -= part
        parts.append(part)
        copies += runs
    return Split(np.concatenate(parts, axis=1).astype(np.int8), tuple(copies), shift, error)


def _runs(rest: np.ndarray) -> list[tuple[int, int]]:
    """The stretches of channels [taps,c,m] that are not 0; all in one if there are many."""
    used = np.flatnonzero(rest.any(axis=(0, 2)))
    breaks = np.flatnonzero(np.diff(used) > 1) + 1
    groups = np.split(used, breaks)
    if len(groups) > _MAX_RUNS:
        return [(0, rest.shape[1])]
    return [(int(g[0]), len(g)) for g in groups]
