"""Scores to labels: the names of the classes, and which layers of a model hold the scores."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from thinflow.engines.session import Session
from thinflow.errors import FormatError, GraphError
from thinflow.ir.usage import word_lines
from thinflow.typing import Array

_PADDING = 16
"""The original fills its list of labels up to a multiple of this, with empty ones: the file for Inception v3
of 2015 has fewer lines than the model has classes.
"""


@dataclass(frozen=True)
class Guess:
    """One label with its place among the classes, from 0, and its score."""

    label: str
    index: int
    score: float


@dataclass(frozen=True)
class Clock:
    """Number of runs, at least one, and who is told the mean time of a run, in seconds."""

    runs: int
    tell: Callable[[float], None]


def ranked(
    scores: Array, labels: Sequence[str], count: int, grid: tuple[float, int] | None = None
) -> list[Guess]:
    """The best scores, best first; of equal ones the first.

    Args:
        scores: one row, apart from axes of size 1.
        labels: names of the classes; empty ones where the original would fill them up, too.
        count: how many to give.
        grid: scale and zero point of scores that stand for real numbers.

    Raises:
        GraphError: the scores are not one row, or there are more than labels.
    """
    flat = np.squeeze(np.asarray(scores))
    if flat.ndim != 1 or not np.issubdtype(flat.dtype, np.number):
        raise GraphError(
            f"the output has the shape {list(np.shape(scores))}, not one row of scores",
            hint="name the layer with the scores: --output_layer=NAME",
        )
    # Rounded up to a multiple, which is what the original's list would have.
    if len(flat) > len(labels) and len(flat) != -(-len(labels) // _PADDING) * _PADDING:
        raise GraphError(
            f"the model has {len(flat)} classes, the file of labels {len(labels)} lines",
            hint="give the labels of this model",
        )
    real = flat.astype(np.float64) if grid is None else (flat.astype(np.float64) - grid[1]) * grid[0]
    # Negated and stable, so that of equal scores the first class comes first.
    # A negative count would cut the last ones off instead.
    order = np.argsort(-real, kind="stable")[: max(count, 0)]
    return [Guess(labels[i] if i < len(labels) else "", int(i), float(real[i])) for i in order]


def layers(session: Session, given: tuple[str, str], defaults: tuple[str, str]) -> tuple[str, str, list[str]]:
    """The input and the output to use, and what is worth saying about each choice, or "".

    A name the user gave must exist. A default that does not is replaced by the model's own input or output.

    Raises:
        GraphError: a name the user gave does not exist; the closest is offered.
    """
    notes = []
    found = []
    own = (list(session.inputs), list(session.outputs))
    for name, default, names, role in zip(given, defaults, own, ("input", "output"), strict=True):
        is_other = not name and bool(names) and not _exists(session, default, role)
        found.append(names[0] if is_other else name or default)
        told = f"there is no layer '{default}'; the model's {role} is '{names[0]}'" if is_other else ""
        notes.append(told if default else "")
    return found[0], found[1], notes


def _exists(session: Session, name: str, role: str) -> bool:
    if session.graph is None:
        return name in (session.inputs if role == "input" else session.outputs)
    return session.graph.find(name.partition(":")[0]) is not None


def label_files(
    session: Session,
    files: Sequence[Path],
    feeds_of: Callable[[Path], Mapping[str, Any]],
    output: str,
    labels: Sequence[str],
    count: int,
    clock: Clock | None = None,
) -> Iterator[tuple[Path, list[Guess]]]:
    """Run a model on files, one by one: each with its best labels.

    Args:
        session: runs the model.
        files: what to label.
        feeds_of: called with a file, gives what to feed.
        output: name of the scores.
        labels: names of the classes.
        count: how many labels of each.
        clock: how often to run on each file, and whom to tell how long that took.
    """
    grid = session.grids.get(session.aliases.get(output, output))
    for file in files:
        feeds = feeds_of(file)
        # Behind the feeds: to decode and resize the file is no part of a run.
        begun = time.perf_counter()
        for _ in range(clock.runs if clock else 1):
            (scores,) = session.run([output], feeds)
        if clock:
            clock.tell((time.perf_counter() - begun) / clock.runs)
        yield file, ranked(scores, labels, count, grid)


PICTURES = frozenset({".jpg", ".jpeg", ".png", ".gif", ".bmp"})
SOUNDS = frozenset({".wav"})
_MAX_LABEL_BYTES = 1 << 26


def read_labels(path: str | os.PathLike[str]) -> list[str]:
    """The lines of a labels file, without the white space at their ends.

    Raises:
        FormatError: no such file, or it is no text.
    """
    try:
        if os.path.getsize(path) > _MAX_LABEL_BYTES:
            raise FormatError("this is too long to be a list of labels", os.fspath(path))
        text = Path(path).read_text("utf-8")
    except OSError as e:
        raise FormatError(
            f"the labels cannot be read: {e.strerror}", os.fspath(path), "give a text file, one label a line"
        ) from e
    except UnicodeDecodeError as e:
        raise FormatError("this is not a text file", os.fspath(path), "give one label a line") from e
    labels = word_lines(text)
    if not labels:
        raise FormatError("there are no labels in it", os.fspath(path), "give one label a line")
    return list(labels)


def files_of(path: str | os.PathLike[str], suffixes: frozenset[str]) -> list[Path]:
    """A file, or the files of a folder with one of the suffixes, sorted.

    Raises:
        FormatError: nothing is there.
    """
    given = Path(path)
    if not given.is_dir():
        return [given]
    found = sorted(p for p in given.rglob("*") if p.suffix.lower() in suffixes)
    if not found:
        raise FormatError(f"there is no {' or '.join(sorted(suffixes))} file in this folder", str(given))
    return found
