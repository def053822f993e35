"""Single ops of ONNX's machine learning domain, and their answers beside ONNX Runtime's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import thinflow
from tests.lift.onnx.single import Single

ML = "ai.onnx.ml."


def check(case: Single, folder: Path) -> None:
    """As the runtime answers, texts included."""
    graph = case.lifted(folder)
    feed = {n: _bytes(a) if a.dtype == object else a for n, a in case.feed.items()}
    found = thinflow.run(graph, feed, engine="reference").values()
    for one, other in zip(case.expected(), found, strict=True):
        assert one.shape == other.shape
        if one.dtype == object:
            assert one.ravel().tolist() == [w.decode() for w in other.ravel()]
        else:
            assert one.dtype == other.dtype
            np.testing.assert_allclose(other, one, rtol=2e-5, atol=2e-5)


def _bytes(x: np.ndarray) -> np.ndarray:
    return np.array([w.encode() for w in x.ravel()], object).reshape(x.shape)


def single(op: str, x: np.ndarray, options: Any, outputs: int = 1, version: int = 3) -> Single:
    return Single(ML + op, [x], (), options, outputs, domain_version=version)
