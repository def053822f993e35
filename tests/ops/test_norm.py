"""Batch normalization in both modes, and response normalization."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement
from thinflow.errors import ShapeError
from thinflow.ir.types import FLOAT, HALF, TensorSpec
from thinflow.ops import registry

_random = np.random.default_rng(4)
_CHANNELS = [_random.uniform(0.5, 2, 3).astype(np.float32) for _ in range(4)]
_NONE = np.zeros(0, np.float32)


def _batch_norm(kinds: tuple[Any, ...]) -> list[Case]:
    cases: list[Case] = []
    for kind in kinds:
        nhwc = _random.normal(1, 2, (2, 4, 5, 3)).astype(kind)
        cases += [
            ([nhwc, *_CHANNELS], {"is_training": False, "epsilon": 0.01}),
            ([nhwc, *_CHANNELS[:2], _NONE, _NONE], {"is_training": True}),
            ([nhwc, *_CHANNELS], {"is_training": True, "exponential_avg_factor": 0.25}),
        ]
    nchw = _random.normal(1, 2, (2, 3, 4, 5)).astype(np.float32)
    cases.append(([nchw, *_CHANNELS[:2], _NONE, _NONE], {"is_training": True, "data_format": "NCHW"}))
    cases.append(([nchw[:1, :, :1, :1], *_CHANNELS[:2], _NONE, _NONE], {"data_format": "NCHW"}))
    return cases


CASES: dict[str, list[Case]] = {
    "FusedBatchNorm": _batch_norm((np.float32,)),
    "FusedBatchNormV2": _batch_norm((np.float32, np.float16, ml_dtypes.bfloat16)),
    "FusedBatchNormV3": [
        *_batch_norm((np.float32, np.float16, ml_dtypes.bfloat16)),
        ([_random.normal(1, 2, (1, 2, 4, 5, 3)).astype(np.float32), *_CHANNELS[:2], _NONE, _NONE],
         {"data_format": "NDHWC"}),
    ],
    "_FusedBatchNormEx": [
        ([_random.normal(0, 1, (2, 2, 2, 3)).astype(np.float32), *_CHANNELS],
         {"is_training": False, "activation_mode": "Relu"}),
        ([np.ones((1, 2, 2, 3), np.float32), *_CHANNELS, np.ones((1, 2, 2, 3), np.float32)],
         {"is_training": False, "num_side_inputs": 1}),
    ],
    "BatchNormWithGlobalNormalization": [
        ([_random.normal(0, 1, (2, 2, 2, 3)).astype(np.float32), *_CHANNELS],
         {"variance_epsilon": 0.001, "scale_after_normalization": scaled}) for scaled in (True, False)
    ],
    "LRN": [
        ([_random.normal(0, 1, (1, 2, 2, 7)).astype(kind)],
         {"depth_radius": 2, "bias": 2.0, "alpha": 0.5, "beta": 0.75})
        for kind in (np.float32, np.float16, ml_dtypes.bfloat16)
    ] + [([_random.normal(0, 1, (1, 2, 2, 3)).astype(np.float32)], {})],
}  # fmt: skip


def run(name: str, *inputs: Any, **attrs: Any) -> tuple[Any, ...]:
    return registry.call_kernel(registry.get(name), [np.asarray(x) for x in inputs], attrs)


def infer(name: str, *specs: TensorSpec, **attrs: Any) -> tuple[TensorSpec, ...]:
    return registry.call_infer(registry.get(name), specs, attrs)


@pytest.mark.parametrize("name", sorted(CASES))
def test_shape_rule_agrees_with_kernel(name: str) -> None:
    for case in CASES[name]:
        check_agreement(name, case)


def test_training_returns_running_and_used_statistics() -> None:
    x = np.arange(16, dtype=np.float32).reshape(1, 2, 2, 4)
    one = np.ones(4, np.float32)
    y, *rest = run("FusedBatchNormV3", x, 2 * one, one, 3 * one, 5 * one, exponential_avg_factor=0.25)
    mean, variance, used_mean, used_variance, reserve = rest
    assert mean.tolist() == [3.75, 4, 4.25, 4.5]
    np.testing.assert_allclose(variance, 0.75 * 5 + 0.25 * 20 * 4 / 3, rtol=1e-6)
    assert used_mean.tolist() == [6, 7, 8, 9]
    assert used_variance.tolist() == [20] * 4
    assert reserve.shape == (0,)
    np.testing.assert_allclose(y.mean(axis=(0, 1, 2)), 1, atol=1e-6)


def test_layouts_agree() -> None:
    x = _random.normal(1, 2, (2, 4, 5, 3)).astype(np.float32)
    for training in (True, False):
        a = run("FusedBatchNorm", x, *_CHANNELS, is_training=training)
        b = run(
            "FusedBatchNorm", x.transpose(0, 3, 1, 2), *_CHANNELS, is_training=training, data_format="NCHW"
        )
        np.testing.assert_allclose(a[0], b[0].transpose(0, 2, 3, 1), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(a[2], b[2], rtol=1e-5)


def test_half_keeps_its_statistics_in_float() -> None:
    y, mean, *_ = run("FusedBatchNormV2", np.ones((1, 2, 2, 3), np.float16), *_CHANNELS, is_training=True)
    assert (y.dtype, mean.dtype) == (np.float16, np.float32)


def test_shapes_come_from_any_input() -> None:
    c, none = TensorSpec(FLOAT, (3,)), TensorSpec(FLOAT, (0,))
    x = TensorSpec(HALF, (None, 2, 2, None))
    specs = infer("FusedBatchNormV3", x, c, c, none, none, is_training=True)
    assert specs[0] == TensorSpec(HALF, (None, 2, 2, 3))
    assert [s.shape for s in specs[1:]] == [(3,)] * 4 + [(0,)]
    assert specs[1].dtype is FLOAT
    assert infer("FusedBatchNorm", TensorSpec(FLOAT), c, c, c, c)[0].shape is None
    with pytest.raises(ShapeError):
        infer("FusedBatchNorm", TensorSpec(FLOAT, (1, 2, 2, 4)), c, c, c, c)


def test_gamma_counts_only_when_asked() -> None:
    x, one = np.ones((1, 1, 1, 1), np.float32), np.ones(1, np.float32)
    attrs = {"variance_epsilon": 0.0, "scale_after_normalization": False}
    inputs = (x * 3, one, one * 4, one * 10, one * 100)  # x, mean, variance, beta, gamma
    assert run("BatchNormWithGlobalNormalization", *inputs, **attrs)[0].item() == 11
    attrs["scale_after_normalization"] = True
    assert run("BatchNormWithGlobalNormalization", *inputs, **attrs)[0].item() == 110


def test_response_normalization_counts_neighbours_within_the_radius() -> None:
    x = np.float32([1, 2, 3]).reshape(1, 1, 1, 3)
    y = run("LRN", x, depth_radius=1, bias=1.0, alpha=1.0, beta=1.0)[0]
    np.testing.assert_allclose(y.ravel(), [1 / 6, 2 / 15, 3 / 14], rtol=1e-6)
