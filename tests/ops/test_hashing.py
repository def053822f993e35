"""Strings into buckets. The expected numbers are what TensorFlow gives."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement, run, text
from thinflow.errors import ShapeError

LENGTHS = text(b"", b"a", b"hello", b"hello world", b"x" * 20, b"y" * 40, b"z" * 100)

CASES: dict[str, list[Case]] = {
    "StringToHashBucketFast": [
        ([LENGTHS], {"num_buckets": 1000}),
        ([text(b"a").reshape(1, 1)], {"num_buckets": 3}),
    ]
}


@pytest.mark.parametrize("case", CASES["StringToHashBucketFast"])
def test_agreement(case: Case) -> None:
    check_agreement("StringToHashBucketFast", case)


def test_every_length_has_its_formula() -> None:
    buckets = run("StringToHashBucketFast", LENGTHS, num_buckets=1000)
    assert buckets.dtype == np.int64
    assert buckets.tolist() == [263, 939, 296, 11, 348, 6, 73]
    with pytest.raises(ShapeError, match="0 buckets"):
        run("StringToHashBucketFast", LENGTHS, num_buckets=0)
