"""Ops of ONNX's domain of classical machine learning in TensorFlow's words: tables, scales, linear models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import DOUBLE, FLOAT, INT32, INT64, STRING, dtype
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.strings import texts
from thinflow.lift.onnx.values import integers, like, rank, text, typed
from thinflow.lift.rules import lifts
from thinflow.typing import Array

_MOST_KEYS = 1 << 16
"""Keys of a table: each is compared with each element."""


_NAN_IS_A_KEY = 4
"""The version of the domain from which on a key that is no number is found."""


def ml_version(c: Call) -> int:
    """The version of the domain that the model asks for."""
    entries = (entry.split() for entry in c.facts.get("opset", "").split(","))
    return next((int(e[1]) for e in entries if len(e) == 2 and e[0] == "ai.onnx.ml" and e[1].isdecimal()), 1)


def listed(c: Call, prefix: str, *, tensor: bool = True) -> Array | None:
    """The one of an op's lists of a kind that is given: `keys_int64s`, `keys_strings`, `keys_tensor`..."""
    if tensor and c.get(f"{prefix}_tensor") is not None:
        content: Array = c.get(f"{prefix}_tensor").numpy()
        return content.reshape(-1)
    for ending, kind in (("int64s", np.int64), ("floats", np.float32)):
        if c.get(f"{prefix}_{ending}") is not None:
            return np.array(c.get(f"{prefix}_{ending}"), kind).reshape(-1)
    return texts(c, f"{prefix}_strings")


def floats(c: Call, option: str) -> Array | None:
    """An option that is a list of numbers."""
    given = c.get(option)
    return None if given is None else np.array(given, np.float32).reshape(-1)


def looked_up(c: Call, x: Value, keys: Array, values: Array, default: Array) -> Value:
    """For each element the value of the last key that equals it; a default where none does.

    Raises:
        UnsupportedOp: keys and values are not pairs, or too many.
    """
    if keys.size != values.size or not keys.size or keys.size > _MOST_KEYS:
        raise UnsupportedOp(f"it has {keys.size} keys and {values.size} values")
    # Backwards: the first that is equal is the last one then.
    keys, values = keys[::-1].copy(), values[::-1].copy()
    wide = c.emit("ExpandDims", x, c.constant(-1))
    same = c.emit("Equal", wide, c.constant(keys))
    is_nan = np.isnan(keys) if keys.dtype.kind == "f" else np.zeros(1, bool)
    if is_nan.any() and ml_version(c) >= _NAN_IS_A_KEY:
        # Not-a-number equals nothing else, and stands for itself here.
        both = c.emit("LogicalAnd", c.emit("IsNan", wide), c.constant(is_nan))
        same = c.emit("LogicalOr", same, both)
    place = c.emit("ArgMax", typed(c, same, INT32), c.constant(-1), output_type=INT64)
    found = c.emit("GatherV2", c.constant(values), place, c.constant(0), batch_dims=0)
    is_there = c.emit("Any", same, c.constant([-1]), keep_dims=False)
    return c.emit("SelectV2", is_there, found, c.constant(default))


def _default(c: Call, values: Array) -> Array:
    """What a table gives for an unknown key, in the type of its values."""
    given = c.get("default_tensor")
    # All are read: an old exporter writes each of them.
    word, whole = c.get("default_string", b"_Unused"), c.get("default_int64", -1)
    number = c.get("default_float", -0.0)
    if given is not None:
        content: Array = given.numpy()
        return content.reshape(()).astype(values.dtype)
    if values.dtype == object:
        return np.array(word if isinstance(word, bytes) else str(word).encode(), object)
    return np.array(whole if values.dtype.kind in "iu" else number, values.dtype)


@lifts("onnx.ai.onnx.ml.LabelEncoder")
def _label_encoder(c: Call) -> Value:
    """By two lists, or in version 1 by one, between texts and their numbers in it."""
    classes = texts(c, "classes_strings")
    if classes is not None:
        numbers = np.arange(classes.size, dtype=np.int64)
        keys, values = (classes, numbers) if c[0].dtype is STRING else (numbers, classes)
        return looked_up(c, c[0], keys, values, _default(c, values))
    names, meant = listed(c, "keys"), listed(c, "values")
    if names is None or meant is None or c[0].dtype is not dtype(names.dtype):
        raise UnsupportedOp("its keys are not of the type of its input")
    return looked_up(c, c[0], names, meant, _default(c, meant))


@lifts("onnx.ai.onnx.ml.CategoryMapper")
def _category_mapper(c: Call) -> Value:
    words, numbers = texts(c, "cats_strings"), np.array(c.get("cats_int64s", ()), np.int64)
    if words is None:
        raise UnsupportedOp("it has no texts")
    keys, values = (words, numbers) if c[0].dtype is STRING else (numbers, words)
    return looked_up(c, c[0], keys, values, _default(c, values))


@lifts("onnx.ai.onnx.ml.OneHotEncoder")
def _one_hot_encoder(c: Call) -> Value:
    """[...] -> [..., categories]: 1 where the element is the category."""
    if not c.flag("zeros", default=True):
        raise UnsupportedOp("it fails where an element is in no category")
    categories = listed(c, "cats", tensor=False)
    if categories is None or categories.size > _MOST_KEYS:
        raise UnsupportedOp("its categories are missing, or too many")
    x = c[0] if c[0].dtype is STRING else typed(c, c[0], INT64)
    same = c.emit("Equal", c.emit("ExpandDims", x, c.constant(-1)), c.constant(categories))
    return typed(c, same, FLOAT)


@lifts("onnx.ai.onnx.ml.Binarizer")
def _binarizer(c: Call) -> Value:
    over = c.emit("Greater", c[0], like(c, c.get("threshold", 0.0), c[0]))
    assert c[0].dtype is not None
    return typed(c, over, c[0].dtype)


@lifts("onnx.ai.onnx.ml.Scaler")
def _scaler(c: Call) -> Value:
    """(x - offset) * scale."""
    y = typed(c, c[0], FLOAT)
    offset, scale = floats(c, "offset"), floats(c, "scale")
    y = y if offset is None else c.emit("Sub", y, c.constant(offset))
    y = y if scale is None else c.emit("Mul", y, c.constant(scale))
    return c.emit("Identity", y) if y is c[0] else y


@lifts("onnx.ai.onnx.ml.Normalizer")
def _normalizer(c: Call) -> Value:
    """Each row by its largest absolute number, the sum of those, or the root of the sum of squares."""
    x, how = typed(c, c[0], FLOAT), text(c, "norm", "MAX")
    axis = c.constant([-1])
    if how == "MAX":
        by = c.emit("Max", c.emit("Abs", x), axis, keep_dims=True)
    elif how == "L1":
        by = c.emit("Sum", c.emit("Abs", x), axis, keep_dims=True)
    elif how == "L2":
        by = c.emit("Sqrt", c.emit("Sum", c.emit("Square", x), axis, keep_dims=True))
    else:
        raise UnsupportedOp(f"it divides by '{how}'")
    # A row of zeros stays as it is.
    is_zero = c.emit("Equal", by, like(c, 0, by))
    return c.emit("RealDiv", x, c.emit("SelectV2", is_zero, like(c, 1, by), by))


@lifts("onnx.ai.onnx.ml.Imputer")
def _imputer(c: Call) -> Value:
    """Other numbers in place of one that stands for a missing one."""
    x = c[0]
    is_real = x.dtype is not None and x.dtype.is_floating
    real, whole = floats(c, "imputed_value_floats"), c.get("imputed_value_int64s")
    old: Any = c.get("replaced_value_float", 0.0), c.get("replaced_value_int64", 0)
    new = real if is_real else None if whole is None else np.array(whole)
    if new is None or x.dtype is None:
        raise UnsupportedOp("what it puts in place of missing numbers is not given")
    if is_real and np.isnan(old[0]):
        is_missing = c.emit("IsNan", x)
    else:
        is_missing = c.emit("Equal", x, like(c, old[0] if is_real else old[1], x))
    return c.emit("SelectV2", is_missing, c.constant(new.reshape(-1).astype(x.dtype.numpy())), x)


@lifts("onnx.ai.onnx.ml.FeatureVectorizer", ignores=("inputdimensions",))
def _feature_vectorizer(c: Call) -> Value:
    """All columns side by side; a vector is a row."""
    parts = [typed(c, c[i], FLOAT) for i in range(len(c.xs))]
    rows = [c.emit("Reshape", x, integers(c, (1, -1))) if rank(c, i) == 1 else x for i, x in enumerate(parts)]
    return c.emit("ConcatV2", *rows, c.constant(1)) if len(rows) > 1 else c.emit("Identity", rows[0])


def transformed(c: Call, y: Value, how: str) -> Value:
    """Scores [n, classes] as probabilities.

    Raises:
        UnsupportedOp: in a way that is not known here.
    """
    if how == "NONE":
        return y
    if how == "SOFTMAX":
        return c.emit("Softmax", y)
    if how == "LOGISTIC":
        return c.emit("Sigmoid", y)
    raise UnsupportedOp(f"it changes scores by '{how}'")


def linear_scores(c: Call, rows: int) -> Value:
    """x [n, features] times coefficients [rows, features], and intercepts.

    Raises:
        UnsupportedOp: the coefficients do not fill these rows.
    """
    weights, bias = floats(c, "coefficients"), floats(c, "intercepts")
    if weights is None or rows < 1 or weights.size % rows or rank(c) != 2:
        raise UnsupportedOp(f"its coefficients are not those of {rows} rows")
    x = typed(c, c[0], FLOAT)
    y = c.emit("MatMul", x, c.constant(np.ascontiguousarray(weights.reshape(rows, -1).T)))
    if bias is None or not bias.size:
        return y
    if bias.size != rows:
        raise UnsupportedOp(f"it has {bias.size} intercepts for {rows} rows")
    return c.emit("BiasAdd", y, c.constant(bias))


@lifts("onnx.ai.onnx.ml.LinearRegressor")
def _linear_regressor(c: Call) -> Value:
    return transformed(c, linear_scores(c, c.get("targets", 1)), text(c, "post_transform", "NONE"))


@lifts("onnx.ai.onnx.ml.LinearClassifier", ignores=("multi_class",))
def _linear_classifier(c: Call) -> list[Value]:
    labels = class_labels(c, ("classlabels_ints", "classlabels_strings"))
    bias = floats(c, "intercepts")
    if labels.size < 2 or bias is None or bias.size != labels.size:
        raise UnsupportedOp("it has no row of coefficients for each of its classes")
    scores = linear_scores(c, labels.size)
    return [best(c, scores, labels), transformed(c, scores, text(c, "post_transform", "NONE"))]


def class_labels(c: Call, options: Sequence[str]) -> Array:
    """The names of classes: numbers, or texts."""
    numbers, words = c.get(options[0]), texts(c, options[1])
    if words is not None:
        return words
    if numbers is None:
        raise UnsupportedOp("its classes have no names")
    return np.array(numbers, np.int64).reshape(-1)


def best(c: Call, scores: Value, labels: Array) -> Value:
    """The name of the class with the highest score; of equal ones the first."""
    place = c.emit("ArgMax", scores, c.constant(-1), output_type=INT64)
    return c.emit("GatherV2", c.constant(labels), place, c.constant(0), batch_dims=0)


def real(c: Call, x: Value) -> Value:
    """Numbers to compare with thresholds: doubles as they are, others as float32."""
    return x if x.dtype in (FLOAT, DOUBLE) else typed(c, x, FLOAT)
