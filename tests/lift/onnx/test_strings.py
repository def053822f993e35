"""ONNX's ops on texts beside ONNX Runtime."""

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


def texts(*words: Any) -> np.ndarray:
    return np.array(words, object)


def plain(x: np.ndarray) -> list[Any]:
    """The elements, texts as text."""
    return [v.decode() if isinstance(v, bytes) else v for v in x.ravel().tolist()]


def check(case: Single, folder: Path) -> list[np.ndarray]:
    expected = case.expected()
    graph = case.lifted(folder)
    feed = {n: np.array([w.encode() for w in a.ravel()], object) for n, a in case.feed.items()}
    feed = {n: a.reshape(case.feed[n].shape) for n, a in feed.items()}
    found = list(thinflow.run(graph, feed, engine="reference").values())
    for one, other in zip(expected, found, strict=True):
        assert one.shape == other.shape
        assert plain(one) == plain(other)
    return expected


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (texts("ab", "c"), texts("x", "yz")),
        (texts("ab", "c"), texts(["x"], ["yz"])),
        (texts("ab", "c"), np.array("\u00e4", object)),
        (np.array("a", object), np.array("b", object)),
    ],
)
@pytest.mark.parametrize("is_open", [False, True])
def test_concat(tmp_path: Path, x: np.ndarray, y: np.ndarray, is_open: bool) -> None:
    check(Single("StringConcat", [x, y], open_axes=range(x.ndim) if is_open else ()), tmp_path)


SENTENCES = texts(["a,b,,c", " d  e f "], ["x", ",,"])
SPLITS: list[dict[str, Any]] = [{}, {"delimiter": ","}, {"maxsplit": 1}, {"delimiter": ",", "maxsplit": 2}]


@pytest.mark.parametrize(
    "options", [{}, {"delimiter": ","}, {"maxsplit": 1}, {"delimiter": ",", "maxsplit": 2}]
)
@pytest.mark.parametrize("x", [SENTENCES, SENTENCES[0], texts("abc", "b"), texts("x y")])
def test_split(tmp_path: Path, x: np.ndarray, options: Any) -> None:
    check(Single("StringSplit", [x], (), options, 2), tmp_path)


def test_split_of_white_space_alone(tmp_path: Path) -> None:
    y, counts = (v.tolist() for v in check(Single("StringSplit", [texts("  ", "a b")], (), {}, 2), tmp_path))
    assert (y, counts) == ([["", ""], ["a", "b"]], [0, 2])


@pytest.mark.parametrize("pattern", ["a.c", "(W|w)ww", "[\\w]+@[\\w.]+", ""])
def test_full_matches(tmp_path: Path, pattern: str) -> None:
    x = texts(["abc", "www"], ["me@home.org", "abcd"])
    check(Single("RegexFullMatch", [x], (), {"pattern": pattern}), tmp_path)


@pytest.mark.parametrize("action", ["NONE", "LOWER", "UPPER"])
@pytest.mark.parametrize("exact", [0, 1])
@pytest.mark.parametrize("words", [None, ["monday"], ["Monday", "Other", "today"]])
@pytest.mark.parametrize("is_row", [False, True])
def test_normalizer(tmp_path: Path, is_row: bool, words: Any, exact: int, action: str) -> None:
    x = texts("Monday", "today", "Other", "monday")
    options = {"case_change_action": action, "is_case_sensitive": exact, "locale": "C"}
    if words is not None:
        options["stopwords"] = words
    check(Single("StringNormalizer", [x[np.newaxis] if is_row else x], (), options), tmp_path)


def test_nothing_left_is_one_empty_text(tmp_path: Path) -> None:
    options = {"stopwords": ["a"], "is_case_sensitive": 1, "locale": "C"}
    (found,) = check(Single("StringNormalizer", [texts("a", "a")], (), options), tmp_path)
    assert found.tolist() == [""]


@pytest.mark.parametrize(
    ("options", "shape", "problem"),
    [
        ({"case_change_action": "TITLE"}, (1,), "it changes letters by 'TITLE'"),
        ({"case_change_action": "UPPER", "locale": "tr_TR"}, (1,), "as in the locale 'tr_TR'"),
        ({}, (1, 1, 1), "its texts have 3 dimensions"),
    ],
)
def test_what_is_refused(tmp_path: Path, options: Any, shape: Any, problem: str) -> None:
    with pytest.raises(UnsupportedOp, match=problem):
        Single("StringNormalizer", [texts("a").reshape(shape)], (), options).lifted(tmp_path)
