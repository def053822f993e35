"""What a list of inner tensors says."""

from __future__ import annotations

import math

import numpy as np
import pytest

import thinflow
from thinflow.compare.differences import difference, first_beyond, layer_of, size_of, steepest
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.types import FLOAT

ENDS = ("a", "Relu", "b", "tfl.RELU")


def test_a_layer_in_codes_and_noise() -> None:
    found = layer_of(ENDS, np.float32([1, 2, -2]), np.float32([1, 2, -1]), 0.5)
    assert found.codes == 2
    assert found.difference.index == (2,)
    assert found.noise == math.sqrt(1 / 3) / math.sqrt(3)
    assert str(found) == "a | b (Relu | RELU): 1 absolute, 2 codes, 0.5 relative, noise 0.33"
    assert found.data()["codes"] == 2
    assert layer_of(ENDS, np.float32([1]), np.float32([1]), 0.0).codes is None


def test_noise_of_odd_numbers() -> None:
    x = np.float32([np.inf, 1])
    assert layer_of(ENDS, x, x, 0.0).noise == 0
    assert layer_of(ENDS, x, np.float32([0, 1]), 0.0).noise == math.inf
    assert layer_of(ENDS, np.float32([0, 0]), np.float32([0, 1]), 0.0).noise == math.inf
    words = np.array([b"x"], object)
    assert layer_of(ENDS, words, words, 0.0).noise == 0


def test_rounding_to_codes_alone_is_no_divergence() -> None:
    rounded = layer_of(ENDS, np.float32([1, 1]), np.float32([1, 1.05]), 0.1)
    wrong = layer_of(("c", *ENDS[1:]), np.float32([1, 1]), np.float32([1, 1.5]), 0.1)
    assert first_beyond([rounded, wrong], 1e-4) is wrong
    assert first_beyond([rounded], 1e-4) is None
    assert first_beyond([wrong], 0.9) is None


def test_where_noise_grows() -> None:
    layers = [layer_of((n, *ENDS[1:]), np.float32([1, 1]), np.float32([1, 1 + e]), 0.0)
              for n, e in (("p", 0.001), ("q", 0.002), ("r", 0.5), ("s", 0.51))]  # fmt: skip
    found = steepest(layers)
    assert found is not None
    assert [x.name for x in found] == ["q", "r"]
    assert steepest(layers[:2]) is None
    assert steepest([]) is None


def test_an_imaginary_part_counts_on_either_side() -> None:
    real, other = np.ones(2, np.float32), np.array([1, 1 + 2j], np.complex64)
    assert difference(real, other).largest == 2
    assert difference(other, real).largest == 2


def test_a_logistic_function_is_as_exact_as_1() -> None:
    graph = thinflow.Graph()
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((1, 2))}).output()
    y = graph.add("Sigmoid", [x], "y", attrs={"T": FLOAT}).output()
    z = graph.add("Identity", [y], "z", attrs={"T": FLOAT}).output()
    assert [size_of(v) for v in (x, y, z)] == [0.0, 1e-3, 1e-3]
    tiny, none = np.float32([2e-8, 1e-9]), np.float32([9e-8, 0])
    assert difference(tiny, none).relative > 1
    assert difference(tiny, none, least_size=size_of(z)).relative < 1e-3
    # What is wrong by more than rounding stays wrong.
    assert difference(np.float32([2e-6]), np.float32([0]), least_size=size_of(z)).relative > 1e-3
    half = difference(np.float32([0.5]), np.float32([0.4]), least_size=size_of(z))
    assert half.relative == pytest.approx(0.2)
