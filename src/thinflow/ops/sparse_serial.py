"""Sparse tensors as messages: three strings for indices, values and shape."""

from __future__ import annotations

import numpy as np

from thinflow.ir.types import INT64, STRING, DType, TensorSpec
from thinflow.ops._tensor_proto import parsed_tensor, tensor_content
from thinflow.ops.registry import OpDef, op, require
from thinflow.ops.sparse import _places
from thinflow.typing import Array

Triple = tuple[Array, Array, Array]


def _words(*messages: bytes) -> Array:
    y: Array = np.empty(len(messages), object)
    y[:] = messages
    return y


def _only_strings(out_type: DType) -> None:
    require(out_type is STRING, f"sparse tensors are stored as strings, not as {out_type}")


@op("SerializeSparse")
class SerializeSparse(OpDef):
    """A sparse tensor as three messages [3]."""

    @staticmethod
    def infer(indices: TensorSpec, values: TensorSpec, shape: TensorSpec) -> TensorSpec:
        return TensorSpec(STRING, (3,))

    @staticmethod
    def kernel(indices: Array, values: Array, shape: Array, *, out_type: DType = STRING) -> Array:
        _only_strings(out_type)
        return _words(tensor_content(indices), tensor_content(values), tensor_content(shape))


@op("SerializeManySparse")
class SerializeManySparse(OpDef):
    """The rows of a sparse tensor as three messages each, [rows,3]."""

    @staticmethod
    def infer(indices: TensorSpec, values: TensorSpec, shape: TensorSpec) -> TensorSpec:
        count = (shape.elements or (None,))[0]
        return TensorSpec(STRING, (count, 3))

    @staticmethod
    def kernel(indices: Array, values: Array, shape: Array, *, out_type: DType = STRING) -> Array:
        _only_strings(out_type)
        _places(indices, shape)
        require(shape.size >= 2, "rank 2 or more is needed")
        require(int(shape[0]) <= 1 << 24, f"there are {int(shape[0])} rows")
        y: Array = np.empty((int(shape[0]), 3), object)
        for row in range(len(y)):
            own = indices[:, 0] == row
            parts = indices[own, 1:], values[own], shape[1:]
            y[row] = _words(*(tensor_content(np.ascontiguousarray(p)) for p in parts))
        return y


def _deserialized(messages: Array, element: DType) -> Triple:
    """Sparse tensors [..., 3] as one, with the leading axes in front."""
    require(messages.ndim >= 1 and messages.shape[-1] == 3, "three messages make a sparse tensor")
    lead = messages.shape[:-1]
    parts: list[Triple] = []
    for row in messages.reshape(-1, 3).tolist():
        kinds, arrays = zip(*(parsed_tensor(m) for m in row), strict=True)
        require(kinds == (INT64, element, INT64), f"the messages hold {', '.join(map(str, kinds))}")
        _places(arrays[0], arrays[2])
        parts.append(arrays)
    if not lead:
        return parts[0]
    require(bool(parts), "there is nothing to put together")
    require(len({len(p[2]) for p in parts}) == 1, "the sparse tensors differ in rank")
    places = np.indices(lead).reshape(len(lead), -1).T
    joined = [
        np.concatenate([np.broadcast_to(at, (len(i), len(lead))), i], 1)
        for at, (i, _, _) in zip(places, parts, strict=True)
    ]
    # Rows of different shapes fit into the largest.
    inner = np.max([shape for _, _, shape in parts], axis=0)
    shape = np.concatenate([np.array(lead, np.int64), inner])
    return np.concatenate(joined).astype(np.int64), np.concatenate([v for _, v, _ in parts]), shape


@op("DeserializeSparse", "DeserializeManySparse")
class DeserializeSparse(OpDef):
    """The sparse tensors in messages [...,3] as one, which has the leading axes in front."""

    num_outputs = 3

    @staticmethod
    def infer(messages: TensorSpec, *, dtype: DType) -> tuple[TensorSpec, ...]:
        return TensorSpec(INT64, (None, None)), TensorSpec(dtype, (None,)), TensorSpec(INT64, (None,))

    @staticmethod
    def kernel(messages: Array, *, dtype: DType) -> Triple:
        return _deserialized(messages, dtype)
