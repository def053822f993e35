"""Labelled data that is drawn: digits, pictures of shapes with their corners, spoken-like spectra, motions.

Every set is made from a seed, so a test set is the same everywhere; a picture differs from the next by what
cameras and hands differ in: position, size, slant, stroke, contrast and noise.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


class Data(NamedTuple):
    """Inputs [count, ...] float32, and what belongs to them: classes [count] int64, or maps float32."""

    x: Array
    y: Array


# Strokes of the ten digits in a unit square, y downwards: lines through points.
_DIGITS = (
    ("0.5,.1 .75,.25 .8,.5 .75,.75 .5,.9 .25,.75 .2,.5 .25,.25 .5,.1",),
    (".35,.25 .55,.1 .55,.9",),
    (".25,.28 .35,.13 .6,.1 .75,.27 .7,.45 .25,.9 .78,.9",),
    (".25,.13 .6,.1 .75,.27 .65,.43 .45,.48 .7,.55 .78,.72 .6,.9 .25,.86",),
    (".62,.9 .62,.1 .2,.62 .82,.62",),
    (".75,.1 .3,.1 .27,.45 .6,.42 .77,.6 .7,.82 .5,.9 .25,.85",),
    (".68,.1 .4,.3 .25,.6 .35,.85 .6,.9 .76,.72 .65,.54 .4,.54 .27,.66",),
    (".22,.1 .78,.1 .45,.9", ".35,.5 .68,.5"),
    (".5,.48 .3,.35 .32,.17 .5,.1 .68,.17 .7,.35 .5,.48 .25,.65 .3,.85 .5,.9 .7,.85 .75,.65 .5,.48",),
    (".72,.38 .55,.48 .35,.42 .27,.27 .4,.12 .6,.12 .72,.27 .7,.6 .55,.9",),
)


def _segments(strokes: tuple[str, ...]) -> Array:
    """[segments, 2 ends, 2] of strokes."""
    found = []
    for stroke in strokes:
        points = [tuple(map(float, point.split(","))) for point in stroke.split()]
        found += pairwise(points)
    return np.array(found)


def _drawn(segments: Array, size: int, width: float) -> Array:
    """A picture [size, size] in 0..1 of segments in pixels, with soft edges."""
    grid = np.stack(np.meshgrid(np.arange(size), np.arange(size)), -1)[:, :, None] + 0.5
    start, along = segments[:, 0], segments[:, 1] - segments[:, 0]
    share = ((grid - start) * along).sum(-1) / np.maximum((along**2).sum(-1), 1e-9)
    nearest = start + np.clip(share, 0, 1)[..., None] * along
    distance = np.sqrt(((grid - nearest) ** 2).sum(-1)).min(-1)
    drawn: Array = np.clip(width - distance + 0.5, 0, 1)
    return drawn


def digits(count: int, seed: int) -> Data:
    """Handwritten-like digits: [count, 20, 20, 1] in 0..1."""
    rng = np.random.default_rng(seed)
    size = 20
    y = rng.integers(0, 10, count)
    x = np.zeros((count, size, size, 1), np.float32)
    for i, digit in enumerate(y):
        points = _segments(_DIGITS[digit])
        points = points + rng.normal(0, 0.025, points.shape)
        angle, slant = rng.normal(0, 0.17), rng.normal(0, 0.2)
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        scale = size * rng.uniform(0.62, 0.9, 2)
        centred = (points - 0.5) @ (turn @ np.array([[1, slant], [0, 1]])).T * scale
        ink = _drawn(centred + size / 2 + rng.uniform(-1.6, 1.6, 2), size, rng.uniform(0.5, 1.3))
        x[i, :, :, 0] = np.clip(ink * rng.uniform(0.55, 1) + rng.normal(0, 0.2, ink.shape), 0, 1)
    return Data(x, y.astype(np.int64))


def _polygon(kind: int, rng: np.random.Generator) -> Array:
    """Corners [n, 2] around 0 of a triangle, square, pentagon, star, cross, bar, arrow or crescent."""
    if kind < 3:
        turns = np.arange(kind + 3) / (kind + 3) * 2 * np.pi
        return np.stack([np.sin(turns), -np.cos(turns)], 1)
    if kind == 3:
        turns = np.arange(10) / 10 * 2 * np.pi
        return np.stack([np.sin(turns), -np.cos(turns)], 1) * np.where(np.arange(10) % 2, 0.42, 1.0)[:, None]
    arm = rng.uniform(0.26, 0.36)
    if kind == 4:
        quarter = np.array([[arm, -1], [arm, -arm], [1, -arm]])
        spin = np.array([[0, -1], [1, 0]])
        return np.concatenate([quarter @ np.linalg.matrix_power(spin, k).T for k in range(4)])
    if kind == 5:
        return np.array([[-1, -arm], [1, -arm], [1, arm], [-1, arm]])
    if kind == 6:
        return np.array([[-1, -arm], [0.1, -arm], [0.1, -0.8], [1, 0], [0.1, 0.8], [0.1, arm], [-1, arm]])
    turns = np.linspace(-2, 2, 12)
    outer = np.stack([np.sin(turns), -np.cos(turns)], 1)
    return np.concatenate([outer, outer[::-1] * 0.75 + np.array([0, 0.45])])


def _filled(corners: Array, size: int) -> Array:
    """[size, size] in 0..1 of a polygon in pixels: how many of 3x3 points of a pixel lie inside."""
    ticks = (np.arange(size * 3) + 0.5) / 3
    px, py = np.meshgrid(ticks, ticks)
    inside = np.zeros(px.shape, bool)
    for (x0, y0), (x1, y1) in zip(corners, np.roll(corners, -1, 0), strict=True):
        crosses = (y0 > py) != (y1 > py)
        with np.errstate(divide="ignore", invalid="ignore"):
            inside ^= crosses & (px < (x1 - x0) * (py - y0) / (y1 - y0) + x0)
    shares: Array = inside.reshape(size, 3, size, 3).mean((1, 3))
    return shares


SHAPES = 8


def _scene(rng: np.random.Generator, size: int, kind: int) -> tuple[Array, Array]:
    """A picture [size, size, 3] in 0..1 of a shape before a background, and its centre in pixels."""
    coarse = rng.uniform(0, 1, (5, 5, 3))
    places = np.linspace(0, 3.999, size)
    low, share = places.astype(int), places % 1
    rows = coarse[low] * (1 - share)[:, None, None] + coarse[low + 1] * share[:, None, None]
    ground = rows[:, low] * (1 - share)[None, :, None] + rows[:, low + 1] * share[None, :, None]
    ground = ground * rng.uniform(0.15, 0.6) + rng.uniform(0, 0.4)
    angle, radius = rng.uniform(-0.5, 0.5), size * rng.uniform(0.24, 0.4)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    centre = size / 2 + rng.uniform(-1, 1, 2) * (size / 2 - radius)
    mask = _filled(_polygon(kind, rng) @ turn.T * radius * rng.uniform(0.85, 1.1, 2) + centre, size)[
        :, :, None
    ]
    colour = rng.uniform(0, 1, 3)
    colour += np.where(np.abs(colour - ground.mean((0, 1))).max() < 0.35, 0.5, 0)
    picture = ground * (1 - mask) + colour * mask
    return np.clip(picture + rng.normal(0, 0.03, picture.shape), 0, 1), centre


def shapes(count: int, seed: int, size: int = 32) -> Data:
    """Eight shapes in colour: [count, size, size, 3] in -1..1."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, SHAPES, count)
    x = np.stack([_scene(rng, size, kind)[0] for kind in y])
    return Data((x * 2 - 1).astype(np.float32), y.astype(np.int64))


def points(count: int, seed: int) -> Data:
    """Where shapes are: pictures [count, 48, 48, 3] in -1..1, and a map [12, 12] in 0..1 for each shape."""
    rng = np.random.default_rng(seed)
    size, cells = 48, 12
    x, y = np.zeros((count, size, size, 3), np.float32), np.zeros((count, cells, cells, SHAPES), np.float32)
    ticks = (np.arange(cells) + 0.5) * size / cells
    for i in range(count):
        kind = int(rng.integers(0, SHAPES))
        picture, centre = _scene(rng, size, kind)
        x[i] = picture * 2 - 1
        squared = (ticks[None, :] - centre[0]) ** 2 + (ticks[:, None] - centre[1]) ** 2
        y[i, :, :, kind] = np.exp(-squared / (2 * 4.0**2))
    return Data(x, y)


WORDS = 12


def words(count: int, seed: int) -> Data:
    """Spectra of made-up words: 49 frames of 10 cepstral coefficients, [count, 49, 10, 1] of about -60..30.

    A word is three formants that move along its own curves; the first coefficient, loudness, is many times
    larger than the others, as in the features that keyword nets are fed.
    """
    rng = np.random.default_rng(seed)
    kinds = np.random.default_rng(7)  # of the words, not of a set
    # Two of a kind differ by little, so that some are mistaken for each other.
    curves = kinds.uniform(2, 38, (WORDS // 2, 3, 5)).repeat(2, 0) + kinds.normal(0, 1.0, (WORDS, 3, 5))
    cosines = np.cos(np.pi / 40 * (np.arange(40)[:, None] + 0.5) * np.arange(10)) * np.sqrt(2 / 40)
    y = rng.integers(0, WORDS, count)
    x = np.zeros((count, 49, 10, 1), np.float32)
    bands = np.arange(40)
    for i, word in enumerate(y):
        length, start = rng.integers(22, 40), rng.integers(2, 9)
        time = np.clip(np.arange(length) / (length - 1) * 4 + rng.normal(0, 0.1), 0, 3.999)
        low, share = time.astype(int), time % 1
        voice = rng.normal(0, 1.5)
        energy = np.full((49, 40), -7.0) + rng.normal(0, 2.5, (49, 40))
        for formant, loud in zip(curves[word], (6.0, 5.0, 4.0), strict=True):
            track = formant[low] * (1 - share) + formant[low + 1] * share + voice + rng.normal(0, 2.2, length)
            peak = loud - ((bands[None] - track[:, None]) / rng.uniform(1.8, 3)) ** 2
            energy[start : start + length] = np.maximum(energy[start : start + length], peak)
        energy += rng.normal(0, 1.5)
        x[i, :, :, 0] = energy @ cosines
    return Data(x, y.astype(np.int64))


MOTIONS = 6


def motions(count: int, seed: int) -> Data:
    """Gestures as a sensor of motion sees them: [count, 40, 6], about -3..3."""
    rng = np.random.default_rng(seed)
    kinds = np.random.default_rng(11)
    # Two of a kind differ by little, as above.
    pairs = (MOTIONS // 2, 6, 2)
    tempo, phase = kinds.uniform(0.5, 3.5, pairs).repeat(2, 0), kinds.uniform(0, 6.28, pairs).repeat(2, 0)
    tempo, weight = tempo + kinds.normal(0, 0.15, tempo.shape), kinds.normal(0, 0.8, pairs).repeat(2, 0)
    y = rng.integers(0, MOTIONS, count)
    x = np.zeros((count, 40, 6), np.float32)
    for i, kind in enumerate(y):
        time = np.linspace(0, 1, 40) ** rng.uniform(0.75, 1.35) * rng.uniform(0.85, 1.15) + rng.uniform(
            0, 0.2
        )
        waves = np.sin(6.28 * time[:, None, None] * tempo[kind] + phase[kind] + rng.normal(0, 0.25))
        x[i] = (waves * weight[kind]).sum(-1) * rng.uniform(0.6, 1.4) + rng.normal(0, 0.7, (40, 6))
    return Data(x, y.astype(np.int64))


SETS: dict[str, Callable[[int, int], Data]] = {
    "digits": digits,
    "shapes": shapes,
    "points": points,
    "words": words,
    "motions": motions,
}
TRAINING, CALIBRATION, TEST = 1, 2, 3
"""Seeds of what is trained with, calibrated with, and judged on."""

NETWORKS = {
    "attention": "shapes",
    "crnn": "motions",
    "dense": "words",
    "depthwise": "words",
    "gated": "shapes",
    "gru": "motions",
    "inverted": "shapes",
    "lstm": "motions",
    "mobile": "shapes",
    "plain": "digits",
    "points": "points",
    "residual": "shapes",
    "wide": "words",
}
"""The set of each network, by the first word of its name; those who compare ask here, without Keras."""


def drawn_for(network: str, count: int, seed: int) -> Data:
    """Samples that a network is trained with, calibrated with or judged on; deterministic."""
    return SETS[NETWORKS[network.partition("_")[0]]](count, seed)


def peaks(maps: Array) -> Array:
    """Channel, row and column of the loudest number of maps [count, rows, columns, channels]: [3, count]."""
    count, rows, columns, channels = maps.shape
    row, column, channel = np.unravel_index(maps.reshape(count, -1).argmax(1), (rows, columns, channels))
    return np.stack([channel, row, column])


def right(found: Array, wanted: Array) -> float | None:
    """The share of right answers: classes, or the loudest map with its peak at most a cell aside.

    None where inputs are rebuilt, which is never right or wrong.
    """
    if found.ndim == 4:
        far = np.abs(peaks(found) - peaks(wanted))
        return float(((far[0] == 0) & (far[1:].max(0) <= 1)).mean())
    if found.shape[1] > wanted.max() + 1:
        return None
    return float((found.argmax(1) == wanted).mean())
