"""Masks where branches meet: versions of Keras differ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.keras.written import functional, layer, node, sequential, source, write_h5

X, Y = (np.array([[[n] for n in row]], np.float32) for row in ([2, 0, 3, 0], [5, 7, 0, 0]))


def answer(folder: Path, version: str, kind: str, masked: str = "xy", mean: bool = False) -> list[float]:
    """What two inputs give, of which some have a mask that hides zeros."""
    layers = [node(source(4, 1, name=n)) for n in "xy"]
    layers += [node(layer("Masking", f"masked_{n}", mask_value=0.0), [n, 0, 0]) for n in masked]
    ends = [[f"masked_{n}" if n in masked else n, 0, 0] for n in "xy"]
    layers.append(node(layer(kind, "joined"), *ends))
    if mean:
        layers.append(node(layer("GlobalAveragePooling1D", "mean"), ["joined", 0, 0]))
    config = functional(layers, [["x", 0, 0], ["y", 0, 0]], [["mean" if mean else "joined", 0, 0]])
    graph = thinflow.load(write_h5(folder / "net.h5", config, version=version))
    (y,) = thinflow.Session(graph, engine="reference").run(None, {"x": X, "y": Y})
    found: list[float] = y.ravel().tolist()
    return found


@pytest.mark.parametrize(
    ("kind", "now", "before"),
    [
        ("Multiply", [10, 7, 3, 0], [10, 0, 0, 0]),
        ("Minimum", [2, 7, 3, 0], [2, 0, 0, 0]),
        ("Maximum", [5, 7, 3, 0], [5, 7, 3, 0]),
    ],
)
def test_masked_steps_of_one_input_do_not_count(
    kind: str, now: list[float], before: list[float], tmp_path: Path
) -> None:
    assert answer(tmp_path, "3.8.0", kind) == now
    for version in ("2.15.0", "3.3.3"):
        assert answer(tmp_path, version, kind) == before


def test_one_mask_alone_hides_what_it_multiplies(tmp_path: Path) -> None:
    assert answer(tmp_path, "3.8.0", "Multiply", "x") == [10, 7, 0, 0]
    assert answer(tmp_path, "3.8.0", "Minimum", "y") == [2, 0, 3, 0]
    assert answer(tmp_path, "3.8.0", "Minimum", "x") == [2, 7, 0, 0]


def test_the_mask_behind(tmp_path: Path) -> None:
    """Steps that all inputs hide, if all have a mask; once those that any hides."""
    assert answer(tmp_path, "3.4.0", "Add", mean=True) == pytest.approx([17 / 3])
    assert answer(tmp_path, "3.4.0", "Add", "x", mean=True) == [17 / 4]
    assert answer(tmp_path, "2.15.0", "Add", mean=True) == [7]
    assert answer(tmp_path, "2.15.0", "Add", "x", mean=True) == [5]


@pytest.mark.parametrize(("unroll", "expected"), [(False, [0, 2, 3]), (True, [0, 2, 0])])
def test_zeros_for_masked_steps_read_backwards(unroll: bool, expected: list[float], tmp_path: Path) -> None:
    """Unrolled, Keras takes the mask in the order of the steps for results in the order of reading."""
    options = {"units": 1, "activation": "linear", "use_bias": False, "go_backwards": True, "unroll": unroll}
    options |= {"return_sequences": True, "zero_output_for_mask": True}
    config = sequential(source(3, 1), layer("Masking", mask_value=0.0), layer("SimpleRNN", "sums", **options))
    one = np.ones((1, 1), np.float32)
    graph = thinflow.load(write_h5(tmp_path / "net.h5", config, {"sums": [one, one]}))
    x = np.array([[[1], [2], [0]]], np.float32)
    (y,) = thinflow.Session(graph, engine="reference").run(None, {"x": x})
    assert y.ravel().tolist() == expected
