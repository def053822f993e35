"""Facts about ONNX's operators."""

from __future__ import annotations

import numpy as np
import pytest

from thinflow.errors import UnsupportedOp
from thinflow.ir.types import dtype
from thinflow.onnx import operators
from thinflow.onnx.operators import Trait, facts_of, fitting, has, same_in_onnx, same_in_tensorflow
from thinflow.ops import registry
from thinflow.ops.registry import call_kernel

KINDS = (Trait.UNARY, Trait.BINARY, Trait.REDUCTION)


@pytest.mark.parametrize("kind", KINDS)
def test_counterparts_are_ops_of_tensorflow(kind: Trait) -> None:
    assert same_in_onnx(kind).keys() <= {name for name, _ in registry.all_ops()}
    assert set(same_in_tensorflow(kind).values()) <= same_in_onnx(kind).keys()


def test_several_ops_may_mean_one_operator_which_is_read_as_the_first() -> None:
    assert {op for op, code in same_in_onnx(Trait.BINARY).items() if code == "Add"} == {"AddV2", "Add"}
    assert same_in_tensorflow(Trait.BINARY)["Add"] == "AddV2"


@pytest.mark.parametrize("code", [c for c in same_in_tensorflow(Trait.UNARY) if facts_of(c).exact])
def test_exact_functions_agree_with_tensorflows_kernels(code: str) -> None:
    x = np.array([-2.5, -0.0, 0.5, 1.5, np.inf, np.nan], np.float32)
    x = x > 0 if facts_of(code).types == ("bool",) else x
    (y,) = call_kernel(registry.get(same_in_tensorflow(Trait.UNARY)[code]), [x], {})
    function = facts_of(code).exact
    assert function is not None
    np.testing.assert_array_equal(function(x), y)


def test_an_operator_nobody_listed_takes_any_type() -> None:
    assert facts_of("Loop").types == ()
    assert not has("Loop", Trait.ELEMENTWISE)
    assert fitting("Loop", dtype("uint16")) is dtype("uint16")


def test_the_type_to_run_in() -> None:
    assert fitting("Add", dtype("int8")) is dtype("int32")
    assert fitting("Exp", dtype("half")) is dtype("half")
    # ONNX itself has no IsInf of half, so the runtime does not widen it.
    assert fitting("IsInf", dtype("half")) is dtype("float")
    with pytest.raises(UnsupportedOp, match="ONNX Runtime has no Exp for int32, only for float, double"):
        fitting("Exp", dtype("int32"))


def test_an_operator_is_defined_once() -> None:
    with pytest.raises(AssertionError, match="Add is defined twice"):
        operators._define("Add")
