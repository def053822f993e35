"""Beam search and loss of connectionist temporal classification. The expected numbers are TensorFlow's."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement, run
from thinflow.errors import ShapeError

X = np.log(np.float32([[[0.1, 0.2, 0.7]], [[0.6, 0.1, 0.3]], [[0.2, 0.5, 0.3]]]))
LENGTH = np.array([3], np.int32)
WHERE, LABELS = np.array([[0, 0], [0, 1]], np.int64), np.array([0, 1], np.int32)
BATCH = np.random.default_rng(0).normal(size=(7, 2, 4)).astype(np.float32) * 2
LENGTHS = np.array([7, 4], np.int32)
MORE_WHERE = np.array([[0, 0], [0, 1], [0, 2], [1, 0]], np.int64)
MORE_LABELS = np.array([1, 1, 0, 2], np.int32)

CASES: dict[str, list[Case]] = {
    "CTCBeamSearchDecoder": [
        ([X, LENGTH], {"beam_width": 3, "top_paths": 2}),
        ([BATCH, LENGTHS], {"beam_width": 5, "top_paths": 3, "merge_repeated": False}),
        ([BATCH.astype(np.float64), LENGTHS], {"beam_width": 20, "top_paths": 1}),
    ],
    "CTCLoss": [
        ([X, WHERE, LABELS, LENGTH], {}),
        ([BATCH, MORE_WHERE, MORE_LABELS, LENGTHS], {"ctc_merge_repeated": False}),
        (
            [BATCH.astype(np.float64), MORE_WHERE, MORE_LABELS, LENGTHS],
            {"preprocess_collapse_repeated": True},
        ),
    ],
}


@pytest.mark.parametrize(("name", "case"), [(n, c) for n, cases in CASES.items() for c in cases])
def test_agreement(name: str, case: Case) -> None:
    check_agreement(name, case, exact=name == "CTCLoss")


def test_beams() -> None:
    found = run("CTCBeamSearchDecoder", X, LENGTH, beam_width=3, top_paths=2)
    assert [a.tolist() for a in found[2:4]] == [[0], [0, 1]]
    np.testing.assert_allclose(found[6], [[-1.2344321, -1.3664918]], 1e-6)
    with pytest.raises(ShapeError, match="4 paths of a beam of 3"):
        run("CTCBeamSearchDecoder", X, LENGTH, beam_width=3, top_paths=4)


def test_loss_and_gradient() -> None:
    loss, gradient = run("CTCLoss", X, WHERE, LABELS, LENGTH)
    np.testing.assert_allclose(loss, [1.3356012], 1e-6)
    np.testing.assert_allclose(gradient[1, 0], [-0.31254745, 0.06958175, 0.24296576], 1e-5)
    with pytest.raises(ShapeError, match="2 labels do not fit 1 steps"):
        run("CTCLoss", X, WHERE, LABELS, np.array([1], np.int32))
    loss, gradient = run(
        "CTCLoss", X, WHERE, LABELS, np.array([1], np.int32), ignore_longer_outputs_than_inputs=True
    )
    assert (loss.tolist(), gradient.any()) == ([0], False)
