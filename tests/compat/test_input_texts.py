"""Expressions of saved_model_cli: sizes are judged by the arguments that are sizes."""

from __future__ import annotations

import numpy as np
import pytest

from thinflow.compat.input_texts import from_expressions, split_pairs


@pytest.mark.parametrize(
    ("expression", "shape"),
    [
        ("np.full((1, 224, 224, 3), 5000)", (1, 224, 224, 3)),
        ("np.random.randint(0, 255, (1, 1080, 1920, 3))", (1, 1080, 1920, 3)),
        ("np.random.uniform(low=-1e9, high=1e9, size=(2, 3))", (2, 3)),
        ("np.random.random((2, 2))", (2, 2)),
        ("np.random.rand(3, 4)", (3, 4)),
        ("np.ones(shape=(2, 3))", (2, 3)),
        ("np.linspace(0, 1e12, 7)", (7,)),
        ("np.arange(1000000000, 1000000005)", (5,)),
        ("np.arange(5, 0, -1)", (5,)),
        ("np.eye(3)", (3, 3)),
    ],
)
def test_numbers_that_are_no_sizes_may_be_large(expression: str, shape: tuple[int, ...]) -> None:
    assert np.shape(from_expressions(f"x={expression}")["x"]) == shape


def test_a_backslash_behind_a_backslash_escapes_nothing() -> None:
    assert list(split_pairs(r"a='b\\';y=1")) == [("a", r"'b\\'"), ("y", "1")]
    assert list(split_pairs(r"a='b\';y=1'")) == [("a", r"'b\';y=1'")]
