"""Models of Keras saved, read without it, and compared."""

from __future__ import annotations

import random
import zlib
from pathlib import Path
from typing import Any

import numpy as np

import thinflow
from tests.oracle._keras_cases import CASES, Draw
from tests.oracle._keras_drawn_functions import DRAWN
from tests.oracle._keras_functions import KERAS_3, TENSORFLOW
from tests.oracle._keras_structures import STRUCTURES, inputs_of

TOLERANCE = 1e-5
BATCH = 2


def package(generation: int) -> Any:
    """Keras of a generation."""
    if generation == 3:
        import keras

        return keras
    import tf_keras

    return tf_keras


def draw(generation: int, name: str, number: int) -> Draw:
    return Draw(package(generation), generation, random.Random(zlib.crc32(f"{name} {number}".encode())))


def layer_model(d: Draw, name: str) -> tuple[Any, list[np.ndarray]]:
    """A model around one layer of a random configuration, and inputs for it."""
    case = CASES[name][0](d)
    rng = np.random.default_rng(d.random.randrange(1 << 30))
    kind = "int32" if case.integers else "float32"
    inputs = [d.keras.Input(shape, dtype=kind, name=f"in{n}") for n, shape in enumerate(case.shapes)]
    result = case.layer(inputs[0] if len(inputs) == 1 else inputs, **case.kwargs)
    model = d.keras.Model(inputs, result)
    randomize(model, rng)
    return model, [fed(rng, shape, case.integers) for shape in case.shapes]


def fed(rng: np.random.Generator, shape: tuple[int, ...], integers: int = 0) -> np.ndarray:
    if integers:
        return rng.integers(0, integers, (BATCH, *shape)).astype(np.int32)
    return rng.standard_normal((BATCH, *shape)).astype(np.float32)


def randomize(model: Any, rng: np.random.Generator) -> None:
    """Weights of any size, not zeros and ones; variances positive."""
    for weight in model.weights:
        if str(getattr(weight, "dtype", "")).find("float") < 0:
            continue
        values = rng.standard_normal(tuple(weight.shape)) * 0.5
        is_variance = "variance" in (getattr(weight, "path", "") or weight.name)
        weight.assign(np.abs(values) + 0.5 if is_variance else values)


def wanted(model: Any, inputs: list[np.ndarray]) -> list[np.ndarray]:
    given: Any = inputs[0] if len(inputs) == 1 else inputs
    if isinstance(getattr(model, "_inputs_struct", None), dict):
        given = dict(zip(sorted(model._inputs_struct), inputs, strict=True))
    results = model(given, training=False)
    if isinstance(results, dict):
        results = [results[key] for key in sorted(results)]
    return [np.asarray(r) for r in (results if isinstance(results, list | tuple) else [results])]


def structure_model(generation: int, name: str) -> tuple[Any, list[np.ndarray]]:
    """A model of a structure, with random weights, and inputs for it."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    model = STRUCTURES[name][0](package(generation), generation)
    randomize(model, rng)
    return model, inputs_of(model, rng)


def compare(
    model: Any,
    inputs: list[np.ndarray],
    path: Path,
    engine: str = "reference",
    tolerance: float = TOLERANCE,
    expected: list[np.ndarray] | None = None,
    **options: Any,
) -> None:
    """Save a model, read it, and compare the answers, with those of the model if none are expected.

    Raises:
        AssertionError: they differ.
    """
    expected = wanted(model, inputs) if expected is None else expected
    model.save(path)
    graph = thinflow.formats.load(path, **options) if options else thinflow.load(path)
    session = thinflow.Session(graph, engine=engine)
    got = session.run(list(session.outputs), dict(zip(session.inputs, inputs, strict=True)))
    assert len(got) == len(expected)
    for mine, theirs in zip(got, expected, strict=True):
        assert mine.shape == theirs.shape, (mine.shape, theirs.shape)
        assert mine.dtype == theirs.dtype, (mine.dtype, theirs.dtype)
        assert (np.isnan(mine) == np.isnan(theirs)).all()
        one, other = (np.nan_to_num(v.astype(np.float64)) for v in (mine, theirs))
        difference = np.abs(one - other).max() if mine.size else 0.0
        assert difference <= tolerance * max(1.0, np.abs(other).max(initial=0)), difference


def function_model(generation: int, name: str) -> tuple[Any, list[np.ndarray]]:
    """A model around a function of two tensors, with a layer before and behind it."""
    keras = package(generation)
    x, y = (keras.Input((4, 6), name=n) for n in "xy")
    if generation == 3:
        result = KERAS_3[name](keras.ops, x, y)
    else:
        import tensorflow as tf

        result = TENSORFLOW[name](tf, x, y)
    model = keras.Model([x, y], keras.layers.Activation("linear")(result))
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    return model, [rng.uniform(-2, 2, (BATCH, 4, 6)).astype(np.float32) for _ in range(2)]


def compare_drawn(name: str, number: int, folder: Path) -> None:
    """Compare a function with random options, in a model of it.

    Raises:
        AssertionError: the answers differ.
    """
    import keras

    d = draw(3, name, number)
    case = DRAWN[name](d)
    given = [
        keras.Input(batch_shape=shape, dtype=kind)
        for shape, kind in zip(case.shapes, case.all_kinds, strict=True)
    ]
    inputs = case.inputs(np.random.default_rng(d.random.randrange(1 << 30)))
    expected = [np.asarray(case.call(keras.ops, *inputs))] if case.is_eager else None
    tolerance = 5e-3 if any(kind == "float16" for kind in case.all_kinds) else TOLERANCE
    model = keras.Model(given[0] if len(given) == 1 else given, case.call(keras.ops, *given))
    compare(model, inputs, folder / f"{number}.keras", tolerance=tolerance, expected=expected)
