"""How many answers noise is expected to change: a few samples held out may all agree and still not tell.

A top answer changes where noise moves the two best ones further apart than they are. How far it moves them
is a standard deviation, which a few samples tell well enough; how near they are is known of every sample that
there is, since the float model alone says it. Of both follows a share that no count of so few samples shows:
fifteen of them that agree are compatible with one answer in five that changes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import reduce

import numpy as np

from thinflow.onnx import program as onnx
from thinflow.optimize.quality import Score
from thinflow.optimize.sqnr import has_softmax, logits_of
from thinflow.quantize.macs import main_block
from thinflow.quantize.runners import Feed
from thinflow.tflite import model as tflite
from thinflow.typing import Array

AT_RISK = 0.005
"""Expected share of changed answers from which on more is tried, and from which on there is a word: half a
percent is what eight bits cost trained networks at most where nothing is wrong."""
_MANY = 400
"""Places with an answer of their own that tell a share of half a percent."""
_FEWEST = 16
"""Samples below which how near answers are is not told: the nearest in a hundred decide."""


def expected_changes(margins: Array, shift: float) -> float:
    """The share of top answers that noise is expected to change.

    Args:
        margins: [samples], of float's best answer over its second best.
        shift: standard deviation of what noise adds to that distance; taken as normal, and the same for all.
    """
    if not shift:
        return 0.0
    return float(np.mean([0.5 * math.erfc(m / (shift * math.sqrt(2.0))) for m in margins.tolist()]))


def are_at_risk(
    program: tflite.Program | onnx.Program,
    feeds: Sequence[Feed],
    scores: Iterable[Score],
    threads: int = 2,
    *,
    share: float = AT_RISK,
) -> bool:
    """True if noise is expected to change more than a share of top answers; of numbers that are no scores,
    too, since none but a softmax says which these are.

    Args:
        feeds, scores: as for `changed_answers_advice`.
    """
    total = reduce(Score.plus, scores, Score())
    if len(main_block(program).outputs) == 1 and total.shift:
        return _share(program, feeds, total, threads) > share
    # Of pictures each place has its own answer, and those of a few samples are many.
    return total.tops >= _MANY and (total.agreement or 0.0) < 1 - share


def _share(
    program: tflite.Program | onnx.Program, feeds: Sequence[Feed], total: Score, threads: int
) -> float:
    """The share of top answers that are expected to change; 0 if too little is known.

    Args:
        total: of all samples that made no ranges.
    """
    if len(feeds) < _FEWEST or not total.tops or not total.shift:
        return 0.0
    names = [t.name for t in main_block(program).inputs]
    rows = ([feed[name] for name in names] for feed in feeds)
    found = [
        np.sort(logits.reshape(-1, logits.shape[-1]), -1) for logits in logits_of(program, rows, threads)
    ]
    ordered = np.concatenate(found)
    return expected_changes(ordered[:, -1] - ordered[:, -2], math.sqrt(total.shift / total.tops))


def changed_answers_advice(
    program: tflite.Program | onnx.Program,
    feeds: Sequence[Feed],
    scores: Iterable[Score],
    effort: str,
    *,
    threads: int = 2,
) -> list[str]:
    """A sentence where noise is expected to change more than half a percent of a classifier's answers.

    Only a softmax tells that numbers are classes: the largest of an embedding's means nothing.

    Args:
        program: in float.
        feeds: all samples that were looked at.
        scores: of the smaller program, on those among them that made no ranges.
        effort: that it was made with.
    """
    if not has_softmax(program):
        return []
    share = _share(program, feeds, reduce(Score.plus, scores, Score()), threads)
    if share <= AT_RISK:
        return []
    more = (
        "activations of sixteen bits (--scheme int16x8) or layers in float (--keep-float) leave less noise"
        if effort == "best"
        else "--effort best tries what leaves less noise"
    )
    return [
        f"about {share:.1%} of top answers are expected to change: so near are the two best answers of"
        f" {len(feeds)} samples, and so far does noise move them; {more}"
    ]
