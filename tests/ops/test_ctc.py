"""From scores per step to labels."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement, run
from thinflow.errors import ShapeError


def scores(*best: int) -> np.ndarray:
    """[t,1,3], the class named being worth 2."""
    return np.eye(3, dtype=np.float32)[list(best)][:, None] * 2


LENGTH = np.array([6], np.int32)
SPOKEN = scores(0, 0, 2, 0, 1, 1)

CASES: dict[str, list[Case]] = {
    "CTCGreedyDecoder": [
        ([SPOKEN, LENGTH], {"merge_repeated": True}),
        ([SPOKEN.astype(np.float64), LENGTH], {"blank_index": 0}),
        ([SPOKEN, np.zeros(1, np.int32)], {}),
    ]
}


@pytest.mark.parametrize("case", CASES["CTCGreedyDecoder"])
def test_agreement(case: Case) -> None:
    check_agreement("CTCGreedyDecoder", case, exact=False)


def test_blanks_part_equal_labels() -> None:
    indices, values, shape, total = run("CTCGreedyDecoder", SPOKEN, LENGTH, merge_repeated=True)
    assert values.tolist() == [0, 0, 1]
    assert (indices.tolist(), shape.tolist()) == ([[0, 0], [0, 1], [0, 2]], [1, 3])
    assert total.tolist() == [[-12]]
    assert run("CTCGreedyDecoder", SPOKEN, LENGTH)[1].tolist() == [0, 0, 0, 1, 1]


def test_steps_beyond_the_length_do_not_count() -> None:
    both = np.concatenate([SPOKEN, scores(1, 1, 1, 1, 1, 1)], 1)
    indices, values, shape, total = run("CTCGreedyDecoder", both, np.int32([1, 2]))
    assert (values.tolist(), shape.tolist(), total.tolist()) == ([0, 1, 1], [2, 2], [[-2], [-4]])
    assert indices.tolist() == [[0, 0], [1, 0], [1, 1]]
    with pytest.raises(ShapeError, match="longer than the 6 steps"):
        run("CTCGreedyDecoder", SPOKEN, np.int32([7]))
