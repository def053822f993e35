"""GraphDef files: TensorFlow reads what thinflow writes, and every encoding of constants means the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.framework.tensor_pb2 import TensorProto

import thinflow
from tests.oracle._frozen import SMALL, get
from thinflow.formats import graphdef

GRAPHS = (*SMALL, "mobilenet_small", "keras3:mobilenet_v2_small", "zoo:digits")

TYPES = [
    tf.float32,
    tf.float64,
    tf.float16,
    tf.bfloat16,
    tf.int8,
    tf.int16,
    tf.int32,
    tf.int64,
    tf.uint8,
    tf.uint16,
    tf.uint32,
    tf.uint64,
    tf.bool,
    tf.complex64,
    tf.complex128,
]
QUANTIZED = [tf.qint8, tf.quint8, tf.qint16, tf.quint16, tf.qint32]
FIELDS = {
    tf.float32: "float_val",
    tf.float64: "double_val",
    tf.float16: "half_val",
    tf.bfloat16: "half_val",
    tf.int64: "int64_val",
    tf.uint32: "uint32_val",
    tf.uint64: "uint64_val",
    tf.bool: "bool_val",
    tf.complex64: "scomplex_val",
    tf.complex128: "dcomplex_val",
}
"""Type -> the field that holds single values; `int_val` for the rest."""


@pytest.mark.parametrize("name", GRAPHS)
def test_binary_is_read_back_equal(name: str) -> None:
    message = get(name).graph_def
    written = graphdef.to_bytes(graphdef.from_bytes(message.SerializeToString()))
    assert tf.compat.v1.GraphDef.FromString(written) == message


@pytest.mark.parametrize("name", GRAPHS)
def test_text_is_read_both_ways(name: str) -> None:
    message = get(name).graph_def
    ours = graphdef.to_text(graphdef.from_bytes(message.SerializeToString()))
    assert text_format.Parse(ours, tf.compat.v1.GraphDef()) == message
    theirs = graphdef.from_text(text_format.MessageToString(message))
    assert tf.compat.v1.GraphDef.FromString(graphdef.to_bytes(theirs)) == message


@pytest.mark.parametrize("suffix", [".pb", ".pbtxt", ".pb.gz"])
def test_saved_files_load(suffix: str, tmp_path: Path) -> None:
    message = get("tf1_norms").graph_def
    path = tmp_path / f"graph{suffix}"
    thinflow.save(graphdef.from_bytes(message.SerializeToString()), path)
    again = tf.compat.v1.GraphDef.FromString(graphdef.to_bytes(thinflow.load(path)))
    assert again == message
    if suffix == ".pb":
        assert tf.compat.v1.GraphDef.FromString(path.read_bytes()) == message


def decoded(tensor: Any) -> np.ndarray[Any, Any]:
    """The TensorProto as thinflow reads it from a Const node."""
    message = tf.compat.v1.GraphDef()
    node = message.node.add(name="k", op="Const")
    node.attr["dtype"].type = tensor.dtype
    node.attr["value"].tensor.CopyFrom(tensor)
    constant = graphdef.from_bytes(message.SerializeToString()).node("k").tensor
    assert constant is not None
    return constant.numpy()


def _numbers(kind: Any, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    numbers = np.random.default_rng(1).integers(0, 100, shape)
    return np.asarray(numbers * (1 - 0.5j) if kind.is_complex else numbers).astype(kind.as_numpy_dtype)


def _assert_equal(tensor: Any) -> None:
    expected = tf.make_ndarray(tensor)
    found = decoded(tensor)
    assert found.shape == expected.shape
    if expected.dtype.fields is not None:  # quantized types are structures in numpy
        expected = expected.view(expected.dtype[0])
    if expected.dtype != object:
        assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0), (2, 3)])
@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_constants_with_raw_content(kind: Any, shape: tuple[int, ...]) -> None:
    tensor = tf.make_tensor_proto(_numbers(kind, shape))
    _assert_equal(tensor)
    raw = TensorProto()
    raw.CopyFrom(tensor)
    for field in {*FIELDS.values(), "int_val"}:
        raw.ClearField(field)
    raw.tensor_content = _numbers(kind, shape).tobytes()
    _assert_equal(raw)


@pytest.mark.parametrize("values", [1, 2, 6])
@pytest.mark.parametrize("kind", [*TYPES, *QUANTIZED], ids=lambda kind: kind.name)
def test_constants_with_single_values(kind: Any, values: int) -> None:
    """Fewer values than elements: the last one is repeated."""
    tensor = TensorProto(dtype=kind.as_datatype_enum)
    for size in (2, 3):
        tensor.tensor_shape.dim.add(size=size)
    field = getattr(tensor, FIELDS.get(kind, "int_val"))
    for number in range(values):
        if kind.is_complex:
            field.extend([number + 1, 7 - number])
        elif kind in {tf.float16, tf.bfloat16}:
            field.append(int(np.array([number + 0.5], kind.as_numpy_dtype).view(np.uint16)[0]))
        else:
            field.append(bool(number % 2) if kind == tf.bool else number + 1)
    _assert_equal(tensor)


@pytest.mark.parametrize("values", [[], [b"one"], [b"", b"\xff\x00", b"three", b"4", b"five", b"six"]])
def test_constants_of_strings(values: list[bytes]) -> None:
    tensor = TensorProto(dtype=tf.string.as_datatype_enum, string_val=values)
    tensor.tensor_shape.dim.add(size=6 if values else 0)
    _assert_equal(tensor)
