"""Configs that contradict themselves: what is said, and that nothing worse happens."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.keras.written import dense, functional, layer, node, sequential, source, write_h5

X = node(source(2))


def refusal(folder: Path, config: Any, **weights: list[np.ndarray]) -> str:
    with pytest.raises(thinflow.ThinflowError) as caught:
        thinflow.load(write_h5(folder / "net.h5", config, weights))
    return caught.value.message


def relu(name: str, *reads: list[Any]) -> dict[str, Any]:
    return node(layer("Activation", name, activation="relu"), *reads)


def net(*layers: Any, ends: Any = (("y", 0, 0),)) -> Any:
    return functional([X, *layers], [["x", 0, 0]], [list(end) for end in ends])


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        (net(relu("y", ["z", 0, 0])), "use 0 of the layer 'z' is read, which is not there"),
        (net(relu("y", ["x", 3, 0])), "use 3 of the layer 'x' is read"),
        (net(relu("y", ["x", 0, 2])), "output 2 of the layer 'x' is read, of 1"),
        (net(relu("y", ["z", 0, 0]), relu("z", ["y", 0, 0])), "reads what it gives"),
        (net(relu("y")), "the layer 'y' is read, and nothing goes into it"),
        (net(relu("y", ["x", 0, 0]), relu("y", ["x", 0, 0])), "two layers are named 'y'"),
        (net(relu("y", ["x", 0, 0]), ends=[["q", 0, 0]]), "use 0 of the layer 'q' is read"),
        (functional([X], [["q", 0, 0]], [["x", 0, 0]]), "its input 'q' is no layer of it"),
        (sequential(), "it has no layers"),
        (sequential(source(2), {"class_name": "Dense"}), "the config of a Dense is missing"),
        (sequential(source(2), {"config": {}}), "the config of a layer has no class"),
        (sequential(source(2), layer("Nonsense")), "the layer Nonsense is not known"),
        (sequential(source(2), layer("Activation", activation=3)), "its activation '3' is no name"),
        (sequential(source(2), layer("Activation", activation="x")), "the activation 'x' is not known"),
        (sequential(source(2), layer("ReLU", max_value="a")), "the option max_value is 'a', not a number"),
        (sequential(source(2), layer("RepeatVector", n=2.5)), "the option n is '2.5', not a whole number"),
        (sequential(source(2), layer("Permute", dims="ab")), "the option dims is 'ab', not whole numbers"),
        (sequential(source(2), layer("Permute", dims=[2])), "its dims are [2], and its input has 2 axes"),
        (sequential(source(2), layer("Reshape", target_shape=[5])), "2 elements cannot become [5]"),
        (sequential(source(2), layer("Softmax", axis=4)), "its axis is 4, and its input has 2"),
        (sequential(source(2), layer("ReLU", new_option=4)), "its option new_option (4) is not known"),
        (sequential(source(2), layer("Subtract")), "it takes 2 inputs, not 1"),
        (sequential(source(4, 4, 3), layer("UpSampling2D", size=2, interpolation="a")), "only nearest"),
    ],
)
def test_what_is_said(tmp_path: Path, config: Any, problem: str) -> None:
    assert problem in refusal(tmp_path, config)


def test_models_nested_without_end(tmp_path: Path) -> None:
    config = sequential(source(2))
    for _ in range(100):
        config = sequential(config)
    assert "its models are nested too deeply" in refusal(tmp_path, config)


def test_training_mode_is_refused(tmp_path: Path) -> None:
    weights = [np.ones(2, np.float32)] * 4
    y = node(layer("BatchNormalization", "y", axis=[1], epsilon=0.001), ["x", 0, 0])
    assert thinflow.load(write_h5(tmp_path / "good.h5", net(y), {"y": weights}))
    y["inbound_nodes"][0][0][3] = {"training": True}
    assert "it normalizes by its input's own mean" in refusal(tmp_path, net(y), y=weights)
    y = relu("y", ["x", 0, 0])
    y["inbound_nodes"][0][0][3] = {"training": True}
    assert "it is called with training=True, which is not known" in refusal(tmp_path, net(y))


def places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    keys = tree if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    for key in keys:
        yield (*path, key)
        yield from places(tree[key], (*path, key))


def test_any_change(tmp_path: Path) -> None:
    """Whatever stands in a config, what comes out is a model or an error of ours."""
    conv = layer(
        "Conv2D", "c", filters=2, kernel_size=[3, 3], strides=[1, 1], padding="same", activation="relu"
    )
    shaped = layer("Reshape", "r", target_shape=[18])
    good = net(
        node(layer("Reshape", "p", target_shape=[3, 3, 2]), ["x", 0, 0]),
        node(conv, ["p", 0, 0]),
        node(layer("BatchNormalization", "b", axis=[3], epsilon=0.001), ["c", 0, 0]),
        node(shaped, ["b", 0, 0]),
        node(dense("d"), ["r", 0, 0]),
        node(layer("Add", "y"), ["d", 0, 0], ["d", 0, 0]),
    )
    good["config"]["layers"][0] = node(source(18))
    kernels = [np.ones((3, 3, 2, 2), np.float32), np.ones(2, np.float32)]
    weights = {"c": kernels, "b": [np.ones(2, np.float32)] * 4, "d": [np.ones((18, 3), np.float32)]}
    thinflow.load(write_h5(tmp_path / "net.h5", good, weights))
    odd = [None, True, 0, -1, 1 << 40, -(1 << 70), 3.5, float("nan"), "", "same", [], [None], ["c", 0, 0], {}]
    rng = random.Random(5)
    for _ in range(150):
        config = copy.deepcopy(good)
        for _ in range(rng.choice((1, 1, 2))):
            *path, last = rng.choice(list(places(config)))
            where = config
            for key in path:
                where = where[key]
            where[last] = copy.deepcopy(rng.choice(odd))
        try:
            thinflow.formats.load(write_h5(tmp_path / "net.h5", config, weights))
        except thinflow.ThinflowError:
            continue
