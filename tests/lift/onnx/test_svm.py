"""ONNX's support vector machines beside ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.lift.onnx.machine_learning import ML, check, single
from tests.lift.onnx.single import Single
from thinflow.errors import UnsupportedOp

pytest.importorskip("onnxruntime")
KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")
X = np.random.default_rng(3).standard_normal((5, 3)).astype(np.float32)


def vectors(rng: Any, kind: str, count: int) -> dict[str, Any]:
    return {
        "kernel_type": kind,
        "kernel_params": [0.4, 0.3, float(rng.integers(1, 4))],
        "support_vectors": rng.standard_normal(3 * count).tolist(),
    }


def classifier(seed: int, kind: str, classes: int, *, proba: bool, how: str = "NONE") -> Single:
    rng = np.random.default_rng([seed, classes])
    sizes = rng.integers(1, 4, classes).tolist()
    count, pairs = sum(sizes), classes * (classes - 1) // 2
    options = {
        **vectors(rng, kind, count),
        "vectors_per_class": sizes,
        "coefficients": [-0.5, *rng.standard_normal((classes - 1) * count - 1).tolist()],
        "rho": rng.standard_normal(pairs).tolist(),
        "post_transform": how,
    }
    if proba:
        options |= {n: rng.standard_normal(pairs).tolist() for n in ("prob_a", "prob_b")}
    labels = {"classlabels_ints": rng.permutation(9)[:classes].tolist()}
    if seed % 2:
        labels = {"classlabels_strings": [f"class {n}" for n in range(classes)]}
    return single("SVMClassifier", X, {**options, **labels}, 2)


@pytest.mark.parametrize("proba", [False, True])
@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("kind", KERNELS)
def test_classes(tmp_path: Path, kind: str, classes: int, proba: bool) -> None:
    for seed in range(3):
        check(classifier(seed, kind, classes, proba=proba), tmp_path)


@pytest.mark.parametrize("classes", [2, 4])
def test_scores_changed(tmp_path: Path, classes: int) -> None:
    check(classifier(1, "RBF", classes, proba=False, how="LOGISTIC"), tmp_path)


@pytest.mark.parametrize("one_class", [0, 1])
@pytest.mark.parametrize("kind", KERNELS)
def test_regression(tmp_path: Path, kind: str, one_class: int) -> None:
    rng = np.random.default_rng(one_class)
    options = {
        **vectors(rng, kind, 4),
        "n_supports": 4,
        "coefficients": rng.standard_normal(4).tolist(),
        "rho": [0.2],
        "one_class": one_class,
    }
    check(single("SVMRegressor", X, options), tmp_path)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"kernel_type": "OTHER"}, "its kernel 'OTHER' is not known"),
        ({"rho": [0.1, 0.2]}, "coefficients are not those of 2 classes"),
        ({"coefficients": [0.5] * 3}, "none of its coefficients is negative"),
        ({"vectors_per_class": [3]}, "it has 2 classes, and vectors of 1"),
        ({"support_vectors": [1.0] * 7}, "its support vectors are not 3 rows"),
        ({"post_transform": "SOFTMAX"}, "scores of two classes by 'SOFTMAX'"),
    ],
)
def test_what_is_refused(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    options = {
        "kernel_type": "RBF", "kernel_params": [0.5, 0.0, 3.0], "support_vectors": [1.0] * 9,
        "vectors_per_class": [1, 2], "coefficients": [0.5, -0.5, 1.0], "rho": [0.1],
        "classlabels_ints": [3, 4],
    }  # fmt: skip
    with pytest.raises(UnsupportedOp, match=said):
        single("SVMClassifier", X, {**options, **changed}, 2).lifted(tmp_path)


def test_a_regression_without_vectors(tmp_path: Path) -> None:
    case = Single(ML + "SVMRegressor", [X], (), {"coefficients": [1.0, 2.0, 3.0], "rho": [0.5]})
    with pytest.raises(UnsupportedOp, match="its support vectors are not 0 rows"):
        case.lifted(tmp_path)
