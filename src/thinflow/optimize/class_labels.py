"""Labels of samples as numbers of classes, and what is said of those that are none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from thinflow.errors import FeedError, closest
from thinflow.ir.types import TensorSpec

_ONE_HOT = 1.0
UNCOUNTED = "so that right answers are not counted, and answers are compared with those in float"


def class_numbers(labels: Sequence[Any], names: Sequence[str] | None) -> list[int] | None:
    """Labels as class numbers; None if they cannot be told.

    Args:
        labels: whole numbers, rows of 0 with a 1 in place of the class, or words that stand in `names`.
        names: class names in the order of the model's outputs.
    """
    numbers = [_number(item) for item in labels]
    # Numbers are taken as they come, even if names are known: they are positions already.
    if all(number is not None for number in numbers):
        return [int(number) for number in numbers if number is not None]
    if names is None:
        return None
    index = {name: i for i, name in enumerate(names)}
    if not all(str(item) in index for item in labels):
        return None
    return [index[str(item)] for item in labels]


def _number(label: Any) -> int | None:
    """A whole number, of whatever type, or the place of the 1 in a row; None for what is neither."""
    if isinstance(label, (int, np.integer)):
        return int(label)
    if isinstance(label, (float, np.floating)) and float(label).is_integer():
        return int(label)
    if isinstance(label, (list, tuple)) and len(label) > 1 and all(item in (0, 1) for item in label):
        return list(label).index(_ONE_HOT) if sum(label) == 1 else None
    return None


def checked_labels(
    labels: Sequence[Any] | None,
    names: Sequence[str] | None,
    output: TensorSpec | None,
    place: Callable[[int], str],
    *,
    is_scores: bool,
) -> tuple[list[int] | None, list[str]]:
    """Class numbers of samples, None without; and a sentence where labels are no such.

    Args:
        output: the first of the model.
        place: file or number of a sample.
        is_scores: whether that output holds a score for each class, as far as anybody can tell.

    Raises:
        FeedError: a label is none of the classes that the model has.
    """
    if not labels:
        return None, []
    found, count = class_numbers(labels, names), _classes(output)
    if found is None:
        return None, _doubts(labels, names, place)
    wrong = next((n for n, label in enumerate(found) if label < 0 or (count and label >= count)), None)
    if wrong is None:
        return found, []
    has = f"the model has {count} classes" if count else "classes count from 0"
    problem = f"{place(wrong)} is labelled {found[wrong]}, and {has}"
    if is_scores:
        raise FeedError(problem, hint="labels are places in the model's scores, and count from 0")
    return None, [f"{problem}, {UNCOUNTED}"]


def _doubts(labels: Sequence[Any], names: Sequence[str] | None, place: Callable[[int], str]) -> list[str]:
    """What is to be said of labels that are no numbers of classes.

    Raises:
        FeedError: some are names of classes, and one is not.
    """
    words = [str(item) for item in labels if isinstance(item, str)]
    if len(words) < len(labels):
        odd = next(n for n, item in enumerate(labels) if _number(item) is None)
        shown = str(labels[odd])[:40]
        return [f"labels are no numbers of classes ({place(odd)} has {shown}), {UNCOUNTED}"]
    known = set(names or ())
    odd = next((n for n, word in enumerate(words) if word not in known), 0)
    # Where no word is a class, they may be no labels at all: the beginnings of file names.
    if known.isdisjoint(words):
        return [] if not known else [f"labels such as '{words[odd]}' are no class names, {UNCOUNTED}"]
    raise FeedError(
        f"{place(odd)} is labelled '{words[odd]}', which is no class of the model",
        hint=closest(words[odd], known) or f"classes are: {', '.join(sorted(known)[:8])}",
    )


def _classes(output: TensorSpec | None) -> int:
    """How many scores a row of scores has; 0 if it is none, or open."""
    if output is None or not output.shape or any(size not in (1, None) for size in output.shape[:-1]):
        return 0
    # A single number is no score among others.
    last = output.shape[-1] or 0
    return last if last > 1 else 0
