"""Entries of the ledgers that transforms and fusion keep: what was done or left alone, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """One node with a sentence about it: what was done, or why nothing was."""

    node: str
    op: str
    text: str


def reasons(entries: Sequence[Entry]) -> list[tuple[str, int, str]]:
    """(reason, how often, an example node), most frequent first."""
    counts = Counter(e.text for e in entries)
    example = {e.text: e.node for e in reversed(entries)}
    return [(text, count, example[text]) for text, count in counts.most_common()]
