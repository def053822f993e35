"""Activations and softmax: edges, narrow floats, empty axes."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement
from thinflow.errors import ShapeError
from thinflow.ir.types import FLOAT, INT64, TensorSpec
from thinflow.ops import registry

_random = np.random.default_rng(3)
_FLOATS: list[Any] = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]
_EDGES = np.array([np.nan, 0, -0.0, -1, np.inf, -np.inf, 1e-5, 40, -40, 100, -15, 15], np.float32)


def _floats(**attrs: Any) -> list[Case]:
    cases: list[Case] = [([_EDGES], attrs)]
    cases += [([_random.normal(0, 4, (2, 5)).astype(kind)], attrs) for kind in _FLOATS]
    return cases


def _rows(*shape: int) -> list[Case]:
    return [([_random.normal(0, 2, shape).astype(kind)], {}) for kind in _FLOATS]


_INTS: list[Case] = [([np.array([-5, 0, 7], kind)], {}) for kind in (np.int32, np.int8, np.int64)]
_FAR: list[Case] = [([np.array([[1e4, -1e4]], np.float32)], {})]
_LOGITS = _random.normal(0, 2, (3, 4)).astype(np.float32)
_LABELS = np.array([[0, 1, 0, 0], [0.5, 0.5, 0, 0], [0, 0, 0, 1]], np.float32)

CASES: dict[str, list[Case]] = {
    "Relu": _floats() + _INTS + [([np.array([3, 200], np.uint8)], {})],
    "Relu6": _floats() + _INTS,
    "LeakyRelu": _floats() + _floats(alpha=2.0),
    "Elu": _floats(),
    "Selu": _floats(),
    "Softplus": _floats(),
    "Softsign": _floats(),
    "Softmax": _rows(2, 5) + _rows(4) + _rows(2, 3, 0)
    + [([np.array([[np.inf, 2], [-np.inf, -np.inf], [1e4, -1e4]], np.float32)], {})],
    "LogSoftmax": _rows(2, 5) + _rows(4) + _FAR,
    "L2Loss": [*_rows(3, 2), ([np.ones(3000, np.float16)], {}), ([np.zeros(0, np.float32)], {})],
    "SoftmaxCrossEntropyWithLogits": [([_LOGITS, _LABELS], {}), ([_LOGITS, _LABELS[:1]], {})],
    "SparseSoftmaxCrossEntropyWithLogits": [([_LOGITS, np.array([0, 3, 1], np.int64)], {})],
}  # fmt: skip


def run(name: str, *inputs: Any, **attrs: Any) -> tuple[Any, ...]:
    return registry.call_kernel(registry.get(name), [np.asarray(x) for x in inputs], attrs)


@pytest.mark.parametrize("name", sorted(CASES))
def test_shape_rule_agrees_with_kernel(name: str) -> None:
    for case in CASES[name]:
        check_agreement(name, case)


def test_rectifiers_keep_nan() -> None:
    for name in ("Relu", "Relu6", "LeakyRelu", "Elu", "Selu", "Softplus"):
        assert np.isnan(run(name, np.float32([np.nan]))[0]).all()


def test_alpha_above_one_still_scales_the_negative_side() -> None:
    assert run("LeakyRelu", np.float32([-1, 1]), alpha=2.0)[0].tolist() == [-2, 1]


def test_softplus_does_not_overflow() -> None:
    y = run("Softplus", np.float32([-40, 0, 1000]))[0]
    np.testing.assert_allclose(y, [math.exp(-40), math.log(2), 1000], rtol=1e-6)


def test_relu_of_integers_keeps_the_type() -> None:
    y = run("Relu6", np.int8([-5, 3, 100]))[0]
    assert y.dtype == np.int8
    assert y.tolist() == [0, 3, 6]


def test_softmax() -> None:
    y = run("Softmax", np.float32([[1e4, -1e4], [0, 0]]))[0]
    assert y.tolist() == [[1, 0], [0.5, 0.5]]
    assert run("LogSoftmax", np.float32([[0, -1e4]]))[0].tolist() == [[0, -1e4]]
    assert run("Softmax", np.zeros((2, 0), np.float32))[0].shape == (2, 0)
    with pytest.raises(ShapeError, match="rank 1 or more"):
        registry.call_infer(registry.get("Softmax"), [TensorSpec(FLOAT, ())], {})


def test_l2_loss_of_halves_adds_up_in_float32() -> None:
    assert run("L2Loss", np.ones(3000, np.float16))[0] == 1500


def test_cross_entropies_agree() -> None:
    dense = run("SoftmaxCrossEntropyWithLogits", _LOGITS, np.eye(4, dtype=np.float32)[[2, 0, 3]])
    sparse = run("SparseSoftmaxCrossEntropyWithLogits", _LOGITS, np.int64([2, 0, 3]))
    for a, b in zip(dense, sparse, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)
    loss, backprop = run("SparseSoftmaxCrossEntropyWithLogits", _LOGITS, np.int64([2, 4, 3]))
    assert np.isnan(loss).tolist() == [False, True, False]
    assert np.isnan(backprop[1]).all()


def test_cross_entropy_shapes() -> None:
    loss, backprop = registry.call_infer(
        registry.get("SparseSoftmaxCrossEntropyWithLogits"),
        [TensorSpec(FLOAT, (None, 4)), TensorSpec(INT64, (3,))],
        {},
    )
    assert (loss.shape, backprop.shape) == ((3,), (3, 4))
