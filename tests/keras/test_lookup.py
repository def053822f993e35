"""Layers with vocabularies and categories, written without Keras: answers that are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.keras.written import functional, layer, node, sequential, source, write_h5, write_keras
from thinflow.errors import ThinflowError, UnsupportedOp

AB: dict[str, Any] = {"vocabulary": ["a", "b"], "output_mode": "int", "num_oov_indices": 1}
TEXT: dict[str, Any] = {
    "vocabulary": ["", "[UNK]", "a", "é", "a é"],
    "output_mode": "int",
    "split": "character",
}


def texts(*rows: list[str]) -> np.ndarray:
    return np.array([[t.encode() for t in row] for row in rows], object)


def ends(kind: str, options: dict[str, Any], columns: int) -> dict[str, Any]:
    first = source(columns)
    first["config"]["dtype"] = "string"
    return sequential(first, layer(kind, **options))


def looked_up(folder: Path, kind: str, x: np.ndarray, **options: Any) -> list[Any]:
    path = write_keras(folder / "net.keras", ends(kind, options, x.shape[1]), {})
    (y,) = thinflow.run(path, {"x": x}, engine="reference").values()
    found: list[Any] = y.tolist()
    return found


@pytest.mark.parametrize(
    ("mode", "expected"), [("multi_hot", [[1, 1, 0], [0, 0, 1]]), ("count", [[1, 2, 0], [0, 0, 1]])]
)
def test_a_masked_token_is_in_no_category(tmp_path: Path, mode: str, expected: Any) -> None:
    x = texts(["a", "?", "a"], ["b", "-", "-"])
    options = AB | {"output_mode": mode, "mask_token": "-"}
    assert looked_up(tmp_path, "StringLookup", x, **options) == expected


def test_a_model_that_knows_all_tokens_stops_at_others(tmp_path: Path) -> None:
    options = AB | {"num_oov_indices": 0}
    assert looked_up(tmp_path, "StringLookup", texts(["b", "a"]), **options) == [[1, 0]]
    with pytest.raises(ThinflowError, match="a token is not in the vocabulary"):
        looked_up(tmp_path, "StringLookup", texts(["b", "c"]), **options)


def test_a_masked_text_is_in_the_first_bin(tmp_path: Path) -> None:
    x = texts(["", "a"])
    masked, other = looked_up(tmp_path, "Hashing", x, num_bins=5, mask_value="", output_mode="int")[0]
    plain = looked_up(tmp_path, "Hashing", x, num_bins=4, output_mode="int")[0]
    assert (masked, other) == (0, plain[1] + 1)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [[2, 3], [2, 0], [0, 0]]),
        ({"output_sequence_length": 3}, [[2, 3, 0], [2, 0, 0], [0, 0, 0]]),
        ({"ngrams": 2}, [[2, 3, 4], [2, 0, 0], [0, 0, 0]]),
        ({"split": None}, [[1], [2], [0]]),
        ({"split": None, "output_sequence_length": 2}, [[1, 0], [2, 0], [0, 0]]),
        ({"split": None, "output_mode": "multi_hot", "vocabulary": ["a"]}, [[1, 0], [0, 1], [0, 0]]),
    ],
)
def test_texts_cut_into_characters_or_not_at_all(tmp_path: Path, options: Any, expected: Any) -> None:
    assert looked_up(tmp_path, "TextVectorization", texts(["aé"], ["a"], [""]), **TEXT | options) == expected


def test_texts_cut_by_a_function_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedOp, match="it splits texts by a Python function"):
        looked_up(tmp_path, "TextVectorization", texts(["a"]), **TEXT | {"split": {"class_name": "function"}})


def test_categories_count_for_what_is_given_beside_them(tmp_path: Path) -> None:
    numbers = source(3, name="n")
    numbers["config"]["dtype"] = "int64"
    counted = node(layer("CategoryEncoding", num_tokens=3, output_mode="count"), ("n", 0, 0))
    counted["inbound_nodes"] = [[["n", 0, 0, {"count_weights": ["w", 0, 0]}]]]
    config = functional(
        [node(numbers), node(source(3, name="w")), counted],
        [["n", 0, 0], ["w", 0, 0]],
        [["categoryencoding", 0, 0]],
    )
    path = write_h5(tmp_path / "net.h5", config)
    fed = {"n": np.array([[2, 0, 2]]), "w": np.array([[0.5, 3, -2]], np.float32)}
    (y,) = thinflow.run(path, fed, engine="reference").values()
    assert y.tolist() == [[3, 0, -1.5]]


def test_h5_lacks_the_weights_of_learnt_tokens(tmp_path: Path) -> None:
    """Keras 3 writes them, as vocabularies, into archives alone."""
    options = {"output_mode": "tf_idf", "vocabulary": None, "num_oov_indices": 1}
    path = write_h5(tmp_path / "net.h5", ends("StringLookup", options, 2), {"stringlookup": []}, "3.9.0")
    with pytest.raises(UnsupportedOp, match="its vocabulary is not in the file"):
        thinflow.load(path)
