"""ONNX's counts of n-grams beside ONNX Runtime, at random."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.lift.onnx.single import Single
from thinflow.errors import UnsupportedOp

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")


def options(rng: np.random.Generator, words: bool) -> dict[str, Any]:
    """N-grams of one to three items."""
    grams = [np.unique(rng.integers(0, 4, (rng.integers(1, 5), n)), axis=0) for n in (1, 2, 3)]
    starts = np.cumsum([0, *(g.size for g in grams)])[:-1].tolist()
    pool = np.concatenate([g.ravel() for g in grams]).tolist()
    count = sum(len(g) for g in grams)
    longest = int(rng.integers(1, 4))
    return {
        "ngram_counts": starts,
        "ngram_indexes": rng.permutation(count).tolist(),
        "min_gram_length": int(rng.integers(1, longest + 1)),
        "max_gram_length": longest,
        "max_skip_count": int(rng.integers(0, 4)),
        "mode": "TF",
        **({"pool_strings": [f"w{n}" for n in pool]} if words else {"pool_int64s": pool}),
    }


@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_counts(tmp_path: Path, seed: int, words: bool) -> None:
    rng = np.random.default_rng(seed)
    given = options(rng, words)
    if seed % 3:
        given["mode"] = "IDF" if seed % 3 == 1 else "TFIDF"
        given["ngram_indexes"] = sorted(given["ngram_indexes"])
        given["weights"] = rng.random(len(given["ngram_indexes"])).tolist()
    x = rng.integers(0, 4, (2, int(rng.integers(1, 9))) if seed % 2 else (int(rng.integers(2, 9)),))
    x = np.array([f"w{n}" for n in x.ravel()], object).reshape(x.shape) if words else x.astype(np.int32)
    case = Single("TfIdfVectorizer", [x], (), given, open_axes=range(x.ndim) if seed % 4 == 3 else ())
    fed = np.array([w.encode() for w in x.ravel()], object).reshape(x.shape) if words else x
    (found,) = thinflow.run(case.lifted(tmp_path), {"x0": fed}, engine="reference").values()
    (expected,) = case.expected()
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"mode": "BM25"}, "it weighs by 'BM25'"),
        ({"max_gram_length": 40}, "it counts n-grams from 1 to 40"),
        ({"ngram_counts": [0, 3, 4]}, "its n-grams do not fill their places"),
        ({"ngram_indexes": [0]}, "n-grams and 1 places for them"),
        ({"mode": "IDF", "weights": [1.0]}, "its weights are those of n-grams in another order"),
        ({"min_gram_length": 4, "max_gram_length": 4}, "it has no n-grams of these lengths"),
    ],
)
def test_what_is_refused(tmp_path: Path, change: dict[str, Any], problem: str) -> None:
    given = {"ngram_counts": [0, 2], "ngram_indexes": [1, 0, 2], "pool_int64s": [5, 6, 5, 6],
             "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 0, "mode": "TF"}  # fmt: skip
    with pytest.raises(UnsupportedOp, match=problem):
        Single("TfIdfVectorizer", [np.int64([5, 6])], (), given | change).lifted(tmp_path)
