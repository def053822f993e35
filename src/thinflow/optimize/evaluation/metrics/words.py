"""Of speech: the word error rate, substitutions, deletions and insertions over words that were said."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thinflow.errors import FeedError
from thinflow.optimize.evaluation.metric import Answered, Figure, metric
from thinflow.typing import Array


@metric("wer")
class WordErrors:
    """The word error rate of a text, of numbers of tokens, or of scores [1, time, tokens], where the best of
    each step is taken, repetitions are one, and the blank is none (CTC).

    Args:
        blank: token that is none; default: the last one.
        separator: between the tokens of a text: "" for letters; default: "" if one of the tokens is a blank.
    """

    def __init__(self, blank: int | None = None, separator: str | None = None) -> None:
        self._blank, self._separator = blank, separator
        self.errors = self.words = self.texts = self.exact = 0

    def add(self, sample: Answered) -> None:
        """See `Metric`.

        Raises:
            FeedError: there is no text to compare with, or nothing that is one.
        """
        said = sample.given_label
        if not isinstance(said, str):
            raise FeedError("the word error rate needs a text as the label", hint="--fields label=FIELD")
        wanted = said.split()
        heard = self._text(next(iter(sample.outputs.values())), sample.names).split()
        self.errors += distance(wanted, heard)
        self.words += len(wanted)
        self.texts += 1
        self.exact += wanted == heard

    def _text(self, output: Array, names: Sequence[str]) -> str:
        if output.dtype.kind in "OSU":
            item = output.reshape(-1)[0]
            return item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item)
        if output.dtype.kind == "f":
            tokens, count = output.reshape(-1, output.shape[-1]).argmax(-1), output.shape[-1]
            blank = count - 1 if self._blank is None else self._blank
            # Repetitions go before blanks: a blank between two of the same letter keeps both.
            is_new = np.ones(len(tokens), bool)
            is_new[1:] = tokens[1:] != tokens[:-1]
            tokens = tokens[is_new & (tokens != blank)]
        else:
            tokens = output.reshape(-1)
            tokens = tokens if self._blank is None else tokens[tokens != self._blank]
        if not names:
            raise FeedError("the tokens have no names", hint="give a file, one a line: --labels tokens.txt")
        # A file of tokens has none for the blank behind them.
        words = [names[t] if 0 <= t < len(names) else "" for t in tokens.tolist()]
        letters = " " in names or "▁" in names or all(len(name) <= 1 for name in names)
        separator = ("" if letters else " ") if self._separator is None else self._separator
        return separator.join(words).replace("▁", " ").replace("|", " ")

    def merge(self, later: WordErrors) -> None:
        """See `Metric`."""
        self.errors += later.errors
        self.words += later.words
        self.texts += later.texts
        self.exact += later.exact

    def figures(self) -> list[Figure]:
        """The rate, which may exceed 100 %, and how many texts came out whole."""
        return [
            Figure("word error rate", 100 * self.errors / self.words if self.words else None, "%"),
            Figure("texts without error", 100 * self.exact / self.texts if self.texts else None, "%"),
        ]


def distance(wanted: Sequence[str], heard: Sequence[str]) -> int:
    """Fewest words to replace, leave out and put in that make one text of the other. O(product of
    lengths).
    """
    # One row of the table is enough, as each needs only the one above it.
    row = list(range(len(heard) + 1))
    for number, word in enumerate(wanted, 1):
        before, row[0] = row[0], number
        for place, other in enumerate(heard, 1):
            step = min(row[place] + 1, row[place - 1] + 1, before + (word != other))
            before, row[place] = row[place], step
    return row[-1]
