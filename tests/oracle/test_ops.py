"""Kernels against TensorFlow's own, on a sample of the cases of tests/ops."""

from __future__ import annotations

import random
import zlib
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from tests.ops._agreement import Array, run
from tests.ops.test_all import cases
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.types import DType

SAMPLE = 6
"""How many cases of each op."""

SKIPPED = {
    "Round": "on integers TensorFlow's kernel is missing on some platforms",
}
"""Op -> why it differs on purpose."""

TOLERANCES = {"float64": 1e-7, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2, "complex64": 2e-5, "complex128": 1e-7}


CASES = cases()


@pytest.mark.parametrize("name", sorted(CASES))
def test_kernel_agrees(name: str) -> None:
    if name in SKIPPED:
        pytest.skip(SKIPPED[name])
    function = getattr(tf.raw_ops, name, None)
    definition = op_def_registry.get(name)
    if function is None or definition is None:
        pytest.skip("TensorFlow cannot run it eagerly")
    sample = CASES[name]
    if len(sample) > SAMPLE:
        sample = random.Random(zlib.crc32(name.encode())).sample(sample, SAMPLE)
    compared = 0
    for inputs, attrs in sample:
        arrays = [np.asarray(x) for x in inputs]
        try:
            results = function(**_arguments(definition, arrays, attrs))
        except (tf.errors.UnimplementedError, tf.errors.NotFoundError):
            continue  # no kernel for this type on this machine
        compared += 1
        mine = run(name, *arrays, **attrs)
        _check(mine if isinstance(mine, tuple) else (mine,), _flat(results), name, arrays, attrs)
    if not compared:
        pytest.skip("TensorFlow has no kernel for these types")


def _arguments(definition: Any, arrays: list[Array], attrs: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments for tf.raw_ops: lists where an input takes several tensors."""
    variadic = [bool(a.number_attr or a.type_list_attr) for a in definition.input_arg]
    each = (len(arrays) - variadic.count(False)) // max(1, variadic.count(True))
    rest = list(arrays)
    arguments: dict[str, Any] = {}
    types = {a.name: a for a in definition.attr}
    for argument, is_list in zip(definition.input_arg, variadic, strict=True):
        taken = [rest.pop(0) for _ in range(each if is_list else 1)]
        tensors = [_tensor(x, argument, types, attrs) for x in taken]
        arguments[argument.name] = tensors if is_list else tensors[0]
    inferred = {a.type_attr for a in definition.input_arg} | {a.number_attr for a in definition.input_arg}
    inferred |= {a.type_list_attr for a in definition.input_arg}
    known = {a.name for a in definition.attr} - inferred
    given = {key: _attr(value) for key, value in attrs.items() if key in known}
    defaults = {a.name: _default(a) for a in definition.attr if a.name in known and a.name not in given}
    return arguments | {k: v for k, v in defaults.items() if v is not None} | given


def _tensor(array: Array, argument: Any, types: dict[str, Any], attrs: dict[str, Any]) -> Any:
    """A tensor; of a quantized type where the op takes no other."""
    if array.dtype == object:
        return tf.constant(array.tolist(), tf.string, shape=array.shape)
    tensor = tf.constant(array)
    named = attrs.get(argument.type_attr)
    wanted = _attr(named) if isinstance(named, DType) else None
    if wanted is None and argument.type:
        wanted = tf.as_dtype(argument.type)
    if wanted is None and argument.type_attr:
        allowed = [tf.as_dtype(t) for t in types[argument.type_attr].allowed_values.list.type]
        if allowed and tensor.dtype not in allowed:
            wanted = next((t for t in allowed if t.is_quantized and t.size == tensor.dtype.size and _alike(t, array)), None)
    if wanted is not None and wanted != tensor.dtype and wanted.is_quantized:
        return tf.bitcast(tensor, wanted)
    return tensor


def _alike(quantized: Any, array: Array) -> bool:
    return np.dtype(quantized.as_numpy_dtype).fields is None or quantized.name.startswith("qu") == (array.dtype.kind == "u")


def _attr(value: Any) -> Any:
    if isinstance(value, DType):
        return tf.as_dtype(value.number)
    if isinstance(value, ShapeAttr):
        return tf.TensorShape(value.dims)
    if isinstance(value, tuple):
        return [_attr(v) for v in value]
    return value


def _default(attr: Any) -> Any:
    """A value for a type that neither the case nor TensorFlow has one for."""
    return tf.float32 if attr.type == "type" and not attr.HasField("default_value") else None


def _flat(results: Any) -> list[Any]:
    return tf.nest.flatten(results if isinstance(results, (list, tuple)) else [results])


def _check(mine: tuple[Any, ...], theirs: list[Any], name: str, arrays: list[Array], attrs: dict[str, Any]) -> None:
    where = f"{name}({', '.join(f'{x.dtype}{list(x.shape)}' for x in arrays)}, {attrs})"
    assert len(mine) == len(theirs), where
    for ours, tensor in zip(mine, theirs, strict=True):
        found = np.asarray(ours)
        if tensor.dtype.is_quantized:
            tensor = tf.bitcast(tensor, tf.as_dtype(found.dtype))
        expected = np.asarray(tensor.numpy())
        assert found.shape == expected.shape, where
        if tensor.dtype == tf.string:
            assert found.ravel().tolist() == expected.ravel().tolist(), where
            continue
        assert found.dtype == expected.dtype, where
        if str(found.dtype) not in TOLERANCES:
            np.testing.assert_array_equal(found, expected, where)
            continue
        wide = np.complex128 if found.dtype.kind == "c" else np.float64
        a, b = expected.astype(wide), found.astype(wide)
        tolerance = TOLERANCES[str(found.dtype)]
        largest = float(np.nanmax(np.abs(np.where(np.isfinite(a), a, 0)), initial=0))
        np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance * min(largest, 1.0) * 0.1, err_msg=where)
