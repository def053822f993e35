"""LiteRT's operators and their counterparts in TensorFlow."""

from __future__ import annotations

import pytest

from thinflow.ops import registry
from thinflow.tflite import schema
from thinflow.tflite.counterparts import Kind, same_in_tensorflow, same_in_tflite


@pytest.mark.parametrize("kind", Kind)
def test_counterparts_are_ops_of_tensorflow_and_operators_of_the_schema(kind: Kind) -> None:
    assert same_in_tflite(kind).keys() <= {name for name, _ in registry.all_ops()}
    assert set(same_in_tflite(kind).values()) <= set(schema.OP_CODES)
    assert {same_in_tflite(kind)[op] for op in same_in_tensorflow(kind).values()} == same_in_tensorflow(
        kind
    ).keys()


def test_several_ops_may_mean_one_operator_which_is_read_as_the_first() -> None:
    assert {op for op, code in same_in_tflite(Kind.BINARY).items() if code == "DIV"} == {
        "RealDiv",
        "Div",
        "TruncateDiv",
    }
    assert same_in_tensorflow(Kind.BINARY)["DIV"] == "RealDiv"
