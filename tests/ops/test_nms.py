"""Non-maximum suppression: order, ties, thresholds, padding, soft scores, classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement, infer, run, spec_of
from thinflow.errors import ShapeError
from thinflow.ir.types import INT32, TensorSpec

Array = np.ndarray[Any, Any]


def f32(value: Any) -> Array:
    return np.array(value, np.float32)


def i32(value: Any) -> Array:
    return np.array(value, np.int32)


# Two overlapping pairs (overlap 0.82), one alone; corners in both orders.
BOXES = f32([[0, 0, 1, 1], [1.1, 1, 0.1, 0], [0, 10, 1, 11], [0, 10, 1, 10.82], [5, 5, 6, 6]])
SCORES = f32([0.9, 0.75, 0.6, 0.95, 0.3])
LIMITS = [i32(5), f32(0.5), f32(0.4)]
Q = np.stack([BOXES, BOXES + 1], axis=1)[None]
S = np.stack([SCORES, SCORES[::-1]], axis=1)[None]
CASES: dict[str, list[Case]] = {
    "NonMaxSuppression": [([BOXES, SCORES, i32(3)], {})],
    "NonMaxSuppressionV2": [([BOXES, SCORES, i32(3), f32(0.5)], {})],
    "NonMaxSuppressionV3": [([BOXES, SCORES, *LIMITS], {})],
    "NonMaxSuppressionV4": [([BOXES, SCORES, *LIMITS], {"pad_to_max_output_size": p}) for p in (False, True)],
    "NonMaxSuppressionV5": [
        ([BOXES, SCORES, *LIMITS, f32(0.5)], {"pad_to_max_output_size": True}),
        ([BOXES.astype(np.float16), SCORES.astype(np.float16), i32(5), *(np.float16([0.5, 0.4, 0]))], {}),
    ],
    "NonMaxSuppressionWithOverlaps": [([np.eye(5, dtype=np.float32), SCORES, *LIMITS], {})],
    "CombinedNonMaxSuppression": [
        ([Q, S, i32(3), i32(9), f32(0.5), f32(0.4)], {"pad_per_class": p}) for p in (False, True)
    ],
}


@pytest.mark.parametrize(("name", "case"), [(n, c) for n, cases in CASES.items() for c in cases])
def test_agreement(name: str, case: Case) -> None:
    check_agreement(name, case, exact=False)


def test_best_first_and_neighbours_dropped() -> None:
    assert run("NonMaxSuppression", BOXES, SCORES, i32(5)).tolist() == [3, 0, 4]
    assert run("NonMaxSuppression", BOXES, SCORES, i32(2)).tolist() == [3, 0]
    assert run("NonMaxSuppression", BOXES, SCORES, i32(5), iou_threshold=0.9).tolist() == [3, 0, 1, 2, 4]
    assert run("NonMaxSuppressionV3", BOXES, SCORES, *LIMITS).tolist() == [3, 0]


def test_equal_scores_keep_their_order_and_empty_boxes_overlap_nothing() -> None:
    boxes = f32([[0, 0, 1, 1], [0, 0, 0, 1], [0, 0, 1, 1], [0, 0, 0, 1]])
    assert run("NonMaxSuppression", boxes, f32([1, 1, 1, 1]), i32(9)).tolist() == [0, 1, 3]


def test_nan_scores_are_never_chosen() -> None:
    assert run("NonMaxSuppression", BOXES, f32([np.nan, 0.75, 0.6, 0.95, np.nan]), i32(5)).tolist() == [3, 1]


def test_padding() -> None:
    kept, valid = run("NonMaxSuppressionV4", BOXES, SCORES, *LIMITS, pad_to_max_output_size=True)
    assert kept.tolist() == [3, 0, 0, 0, 0]
    assert valid == 2


def test_soft_scores() -> None:
    kept, scores, _ = run("NonMaxSuppressionV5", BOXES, SCORES, i32(5), f32(0.5), f32(0), f32(0.5))
    assert kept.tolist() == [3, 0, 1, 2, 4]  # 0.6 exp(-0.82 ** 2) is 0.306
    overlap = 0.9 / 1.1
    np.testing.assert_allclose(scores[2], 0.75 * np.exp(-(overlap**2)), rtol=1e-5)


def test_classes_compete_for_the_total() -> None:
    boxes, scores, classes, valid = run("CombinedNonMaxSuppression", Q, S, i32(2), i32(3), f32(0.5), f32(0.4))
    np.testing.assert_array_equal(scores, f32([[0.95, 0.95, 0.9]]))
    assert classes.tolist() == [[0, 1, 0]]
    assert valid.tolist() == [3]
    assert boxes.min() >= 0
    assert boxes.max() <= 1  # clipped
    boxes, *_ = run("CombinedNonMaxSuppression", Q, S, i32(2), i32(3), f32(0.5), f32(0.4), clip_boxes=False)
    np.testing.assert_array_equal(boxes[0, 0], BOXES[3])


def test_no_boxes() -> None:
    assert run("NonMaxSuppression", BOXES[:0], SCORES[:0], i32(5)).shape == (0,)
    kept, *_ = run(
        "NonMaxSuppressionV5", BOXES[:0], SCORES[:0], *LIMITS, f32(0.5), pad_to_max_output_size=True
    )
    assert kept.tolist() == [0] * 5


def test_shapes() -> None:
    specs = [spec_of(x) for x in (BOXES, SCORES, *LIMITS)]
    assert infer("NonMaxSuppressionV4", *specs)[0] == TensorSpec(INT32, (None,))
    assert infer("NonMaxSuppressionV4", *specs, pad_to_max_output_size=True)[0].shape == (5,)
    with pytest.raises(ShapeError, match=r"\[n,4\]"):
        run("NonMaxSuppression", BOXES[:, :3], SCORES, i32(5))
