"""Of classifiers: the right class among the best k, and which class is taken for which."""

from __future__ import annotations

import math

import numpy as np

from thinflow.errors import ParameterError
from thinflow.optimize.chance import wilson
from thinflow.optimize.evaluation.metric import Answered, Figure, metric
from thinflow.optimize.quality import is_ranked, top_answer


@metric("top")
class Top:
    """How often the right class is among the best k.

    Args:
        k: how many count, 1 or more.
    """

    def __init__(self, k: int = 5) -> None:
        if not isinstance(k, int) or k < 1:
            raise ParameterError(f"the best {k} cannot be looked at", hint="give top(k=5)")
        self._k = k
        self.right = self.count = 0

    def add(self, sample: Answered) -> None:
        """See `Metric`."""
        scores = next(iter(sample.outputs.values()), None)
        if sample.label is None or scores is None or not is_ranked(scores):
            return
        flat = scores.reshape(-1)
        self.count += 1
        if not 0 <= sample.label < flat.size or np.isnan(flat).any():
            return
        # Of equal scores the first class is the answer, as `argmax` has it.
        mine = flat[sample.label]
        before = int((flat > mine).sum()) + int((flat[: sample.label] == mine).sum())
        self.right += before < self._k

    def merge(self, later: Top) -> None:
        """See `Metric`."""
        self.right += later.right
        self.count += later.count

    def figures(self) -> list[Figure]:
        """The share, with its interval."""
        name = f"top {self._k}"
        if not self.count:
            return [Figure(name, None, "%")]
        return [Figure(name, 100 * self.right / self.count, "%", *wilson(self.right, self.count))]


@metric("confusion")
class Confusion:
    """How often each class is answered for each: `pairs[label, answer]`."""

    def __init__(self) -> None:
        self.pairs: dict[tuple[int, int], int] = {}

    def add(self, sample: Answered) -> None:
        """See `Metric`."""
        scores = next(iter(sample.outputs.values()), None)
        if sample.label is not None and scores is not None and is_ranked(scores):
            pair = (sample.label, top_answer(scores))
            self.pairs[pair] = self.pairs.get(pair, 0) + 1

    def merge(self, later: Confusion) -> None:
        """See `Metric`."""
        for pair, count in later.pairs.items():
            self.pairs[pair] = self.pairs.get(pair, 0) + count

    def figures(self) -> list[Figure]:
        """The mean over classes of precision and recall, which rare classes count in as much as others."""
        shares = per_class(self.pairs)
        found = []
        for name, of in (("mean recall", 0), ("mean precision", 1)):
            known = [share for pair in shares.values() if (share := pair[of]) is not None]
            found.append(Figure(name, 100 * math.fsum(known) / len(known) if known else None, "%"))
        return found


def per_class(pairs: dict[tuple[int, int], int]) -> dict[int, tuple[float, float | None]]:
    """Class -> the share of its samples that is found, and of the answers with it that are right; the latter
    is None where nothing was answered so.
    """
    labelled: dict[int, int] = {}
    answered: dict[int, int] = {}
    for (label, answer), count in pairs.items():
        labelled[label] = labelled.get(label, 0) + count
        answered[answer] = answered.get(answer, 0) + count
    found: dict[int, tuple[float, float | None]] = {}
    for label in sorted(labelled):
        right = pairs.get((label, label), 0)
        found[label] = (right / labelled[label], right / answered[label] if label in answered else None)
    return found
