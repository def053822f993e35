"""Vocabularies of Keras's layers, read without it, give the numbers that Keras gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.oracle._keras_models import package

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("default")]
WORDS = np.array([["a"], ["zz"], ["b"], [""]], object)
NUMBERS = np.array([[7], [0], [5], [9]])
TEXTS = np.array([["Hello, world  foo"], ["foo?"], [""]], object)
LAYERS: dict[str, tuple[str, dict[str, Any], np.ndarray]] = {
    "texts": ("StringLookup", {"vocabulary": ["a", "b", "c"]}, WORDS),
    "texts, several unknown ones": (
        "StringLookup", {"vocabulary": ["a", "b", "c"], "mask_token": "", "num_oov_indices": 3}, WORDS,
    ),
    "texts, one hot": ("StringLookup", {"vocabulary": ["a", "b"], "output_mode": "one_hot"}, WORDS),
    "places": ("StringLookup", {"vocabulary": ["a", "b", "c"], "invert": True}, NUMBERS),
    "numbers": ("IntegerLookup", {"vocabulary": [7, 3, 5]}, NUMBERS),
    "numbers, masked": (
        "IntegerLookup", {"vocabulary": [7, 3, 5], "mask_token": 0, "num_oov_indices": 2}, NUMBERS,
    ),
    "words": ("TextVectorization", {"vocabulary": ["hello", "foo"], "output_sequence_length": 4}, TEXTS),
    "words of any number": ("TextVectorization", {"vocabulary": ["hello", "foo"]}, TEXTS),
    "words, many hot": ("TextVectorization", {"vocabulary": ["foo"], "output_mode": "multi_hot"}, TEXTS),
    "words, as they are": ("TextVectorization", {"vocabulary": ["foo"], "standardize": None}, TEXTS),
    "words in pairs": ("TextVectorization", {"vocabulary": ["foo", "hello world", "c"], "ngrams": 2}, TEXTS),
    "words in threes, cut": (
        "TextVectorization",
        {"vocabulary": ["foo", "hello world foo"], "ngrams": (3, 1), "output_sequence_length": 2}, TEXTS,
    ),
    "words in pairs, counted": (
        "TextVectorization", {"vocabulary": ["foo", "world foo"], "ngrams": 2, "output_mode": "count"}, TEXTS,
    ),
    "words, weighed": (
        "TextVectorization",
        {"vocabulary": ["foo", "hello"], "idf_weights": [0.5, 0.25], "output_mode": "tf_idf"}, TEXTS,
    ),
    "words by character": (
        "TextVectorization", {"vocabulary": ["l", "o", " "], "split": "character"}, TEXTS,
    ),
    "pairs of characters, counted": (
        "TextVectorization",
        {"vocabulary": ["l o", "o o"], "split": "character", "ngrams": 2, "output_mode": "count"}, TEXTS,
    ),
    "whole texts": (
        "TextVectorization", {"vocabulary": ["foo"], "split": None, "output_mode": "count"}, TEXTS,
    ),
    "texts, masked in counts": (
        "StringLookup",
        {"vocabulary": ["a", "b"], "mask_token": "", "output_mode": "multi_hot", "num_oov_indices": 2}, WORDS,
    ),
    "numbers, all known": ("IntegerLookup", {"vocabulary": [7, 0, 5, 9], "num_oov_indices": 0}, NUMBERS),
    "texts, weighed": (
        "StringLookup",
        {
            "vocabulary": ["a", "b", "c"], "idf_weights": [0.5, 0.25, 2.0], "output_mode": "tf_idf",
            "pad_to_max_tokens": True, "max_tokens": 7, "num_oov_indices": 2,
        }, WORDS,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("generation", [2, 3])
def test_vocabulary_of_the_config(generation: int, name: str, tmp_path: Path) -> None:
    kind, options, x = LAYERS[name]
    keras = package(generation)
    compare(keras, getattr(keras.layers, kind)(**options), x, tmp_path / "model.keras")


@pytest.mark.parametrize("generation", [2, 3])
@pytest.mark.parametrize("kind", ["StringLookup", "TextVectorization"])
def test_vocabulary_that_was_learnt(generation: int, kind: str, tmp_path: Path) -> None:
    import tensorflow as tf

    keras = package(generation)
    layer = getattr(keras.layers, kind)()
    layer.adapt(tf.constant(["foo", "b", "foo hello"]))
    compare(keras, layer, TEXTS, tmp_path / "model.keras")


@pytest.mark.parametrize("generation", [2, 3])
def test_weights_that_were_learnt(generation: int, tmp_path: Path) -> None:
    import tensorflow as tf

    keras = package(generation)
    layer = keras.layers.TextVectorization(output_mode="tf_idf", ngrams=2)
    layer.adapt(tf.constant(["foo", "b", "foo hello", "hello world"]))
    compare(keras, layer, TEXTS, tmp_path / "model.keras")


def compare(keras: Any, layer: Any, x: np.ndarray, path: Path) -> None:
    import tensorflow as tf

    model = keras.Sequential([keras.Input((1,), dtype="string" if x.dtype == object else "int64"), layer])
    wanted = np.asarray(model(tf.constant(x)))
    model.save(path)
    session = thinflow.Session(thinflow.load(path), engine="reference")
    (y,) = session.run(list(session.outputs), {next(iter(session.inputs)): x})
    assert y.dtype == wanted.dtype
    np.testing.assert_array_equal(y, wanted)
