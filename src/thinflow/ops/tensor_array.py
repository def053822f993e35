"""TensorArrays, the growing lists of TF1 loops. The handle holds the elements; flow orders the accesses."""

from __future__ import annotations

import numpy as np

from thinflow.ir.types import FLOAT, INT32, INT64, RESOURCE, STRING, DType, Shape, TensorSpec
from thinflow.ops.registry import Handle, OpDef, op, require
from thinflow.ops.traits import Trait
from thinflow.typing import Array

_FLOW = TensorSpec(FLOAT, ())


class Elements(Handle):
    """Elements of one TensorArray of a run."""

    def __init__(self, size: int, element: DType, shape: Shape, dynamic: bool) -> None:
        self.items: list[Array | None] = [None] * size
        self.element = element
        self.shape = shape
        self.dynamic = dynamic

    def read(self, index: int) -> Array:
        require(0 <= index < len(self.items), f"index {index} of a tensor array of {len(self.items)}")
        item = self.items[index]
        return self._unwritten() if item is None else item

    def write(self, index: int, value: Array) -> None:
        # TensorFlow grows a dynamic array on writing beyond its end, whatever lies between.
        if self.dynamic and index >= len(self.items):
            self.items.extend([None] * (index + 1 - len(self.items)))
        require(0 <= index < len(self.items), f"index {index} of a tensor array of {len(self.items)}")
        self.items[index] = value

    def _unwritten(self) -> Array:
        """Zeros, as TensorFlow gives for an element nobody wrote, if a shape is known."""
        # Any element tells the shape of all; the declared one may be open.
        written = next((i for i in self.items if i is not None), None)
        shape = written.shape if written is not None else self.shape
        require(
            shape is not None and None not in shape, "an element was never written and its shape is not known"
        )
        return np.zeros(tuple(d or 0 for d in shape or ()), self.element.numpy())

    def stacked(self, indices: Array) -> Array:
        if indices.size:
            return np.stack([self.read(int(i)) for i in indices])
        return np.zeros((0, *(d or 0 for d in self.shape or ())), self.element.numpy())


@op("TensorArrayV3")
class TensorArray(OpDef):
    """A new array of `size` elements -> handle, flow."""

    traits = Trait.STATEFUL | Trait.TENSOR_ARRAY | Trait.TENSOR_LIST
    num_outputs = 2

    @staticmethod
    def infer(size: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
        return TensorSpec(RESOURCE, ()), _FLOW

    @staticmethod
    def kernel(
        size: Array, *, dtype: DType, element_shape: Shape = None, dynamic_size: bool = False
    ) -> tuple[Elements, np.float32]:
        return Elements(int(size), dtype, element_shape, dynamic_size), np.float32(0)


@op("TensorArrayV2", "TensorArray")
class OldTensorArray(OpDef):
    """A new array of `size` elements -> handle, without a flow."""

    traits = Trait.STATEFUL | Trait.TENSOR_ARRAY | Trait.TENSOR_LIST

    @staticmethod
    def infer(size: TensorSpec) -> TensorSpec:
        # Handles of the first versions are strings in TensorFlow; here they are the object as well.
        return TensorSpec(STRING, ())

    @staticmethod
    def kernel(
        size: Array, *, dtype: DType, element_shape: Shape = None, dynamic_size: bool = False
    ) -> Elements:
        return Elements(int(size), dtype, element_shape, dynamic_size)


@op("TensorArrayWriteV3", "TensorArrayWriteV2", "TensorArrayWrite")
class TensorArrayWrite(OpDef):
    """Sets one element -> flow."""

    traits = Trait.STATEFUL | Trait.TENSOR_ARRAY_WRITE | Trait.TENSOR_LIST

    @staticmethod
    def infer(handle: TensorSpec, index: TensorSpec, value: TensorSpec, flow: TensorSpec) -> TensorSpec:
        return _FLOW

    @staticmethod
    def kernel(handle: Elements, index: Array, value: Array, flow: Array) -> Array:
        handle.write(int(index), value)
        return flow


@op("TensorArrayReadV3", "TensorArrayReadV2", "TensorArrayRead")
class TensorArrayRead(OpDef):
    """One element."""

    traits = Trait.STATEFUL | Trait.TENSOR_LIST

    @staticmethod
    def infer(handle: TensorSpec, index: TensorSpec, flow: TensorSpec, *, dtype: DType) -> TensorSpec:
        return TensorSpec(dtype)

    @staticmethod
    def kernel(handle: Elements, index: Array, flow: Array) -> Array:
        # `clear_after_read` only saves memory in TensorFlow; here elements stay until the array is closed.
        return handle.read(int(index))


@op("TensorArrayGatherV3", "TensorArrayGatherV2", "TensorArrayGather")
class TensorArrayGather(OpDef):
    """The elements at `indices` [n], stacked -> [n, ...]."""

    traits = Trait.STATEFUL | Trait.TENSOR_LIST

    @staticmethod
    def infer(
        handle: TensorSpec,
        indices: TensorSpec,
        flow: TensorSpec,
        *,
        dtype: DType,
        element_shape: Shape = None,
    ) -> TensorSpec:
        count = indices.shape[0] if indices.shape else None
        return TensorSpec(dtype, None if element_shape is None else (count, *element_shape))

    @staticmethod
    def kernel(handle: Elements, indices: Array, flow: Array) -> Array:
        return handle.stacked(indices)


@op("TensorArrayPack")
class TensorArrayPack(OpDef):
    """All elements, stacked -> [n, ...]."""

    traits = Trait.STATEFUL | Trait.TENSOR_LIST

    @staticmethod
    def infer(
        handle: TensorSpec, flow: TensorSpec, *, dtype: DType, element_shape: Shape = None
    ) -> TensorSpec:
        return TensorSpec(dtype, None if element_shape is None else (None, *element_shape))

    @staticmethod
    def kernel(handle: Elements, flow: Array) -> Array:
        return handle.stacked(np.arange(len(handle.items)))


@op("TensorArrayUnpack")
class TensorArrayUnpack(OpDef):
    """Sets the elements to the rows of `value` [n, ...] -> flow."""

    traits = Trait.STATEFUL | Trait.TENSOR_ARRAY_WRITE | Trait.TENSOR_LIST

    @staticmethod
    def infer(handle: TensorSpec, value: TensorSpec, flow: TensorSpec) -> TensorSpec:
        return _FLOW

    @staticmethod
    def kernel(handle: Elements, value: Array, flow: Array) -> Array:
        for index in range(len(value)):
            handle.write(index, value[index, ...])
        return flow


@op("TensorArrayScatterV3", "TensorArrayScatterV2", "TensorArrayScatter")
class TensorArrayScatter(OpDef):
    """Sets the elements at `indices` [n] to the rows of `value` [n, ...] -> flow."""

    traits = Trait.STATEFUL | Trait.TENSOR_ARRAY_WRITE | Trait.TENSOR_LIST

    @staticmethod
    def infer(handle: TensorSpec, indices: TensorSpec, value: TensorSpec, flow: TensorSpec) -> TensorSpec:
        return _FLOW

    @staticmethod
    def kernel(handle: Elements, indices: Array, value: Array, flow: Array) -> Array:
        require(len(indices) == len(value), f"{len(indices)} indices for {len(value)} values")
        for index, row in zip(indices, value, strict=True):
            handle.write(int(index), row)
        return flow


@op("TensorArrayConcatV3", "TensorArrayConcatV2", "TensorArrayConcat")
class TensorArrayConcat(OpDef):
    """All elements joined along their first axis -> [sum of sizes, ...], the sizes."""

    traits = Trait.STATEFUL | Trait.TENSOR_LIST
    num_outputs = 2

    @staticmethod
    def infer(
        handle: TensorSpec, flow: TensorSpec, *, dtype: DType, element_shape_except0: Shape = None
    ) -> tuple[TensorSpec, TensorSpec]:
        shape = None if element_shape_except0 is None else (None, *element_shape_except0)
        return TensorSpec(dtype, shape), TensorSpec(INT64, (None,))

    @staticmethod
    def kernel(
        handle: Elements, flow: Array, *, dtype: DType, element_shape_except0: Shape = None
    ) -> tuple[Array, Array]:
        items = [handle.read(i) for i in range(len(handle.items))]
        if not items:
            known = element_shape_except0 is not None and None not in element_shape_except0
            require(known, "the tensor array is empty and the shape of its elements is not known")
            return np.zeros((0, *(element_shape_except0 or ())), dtype.numpy()), np.zeros(0, np.int64)
        return np.concatenate(items), np.array([len(i) for i in items], np.int64)


@op("TensorArraySplitV3", "TensorArraySplitV2", "TensorArraySplit")
class TensorArraySplit(OpDef):
    """Cuts `value` into pieces of `lengths` [n], one per element -> flow."""

    traits = Trait.STATEFUL | Trait.TENSOR_ARRAY_WRITE | Trait.TENSOR_LIST

    @staticmethod
    def infer(handle: TensorSpec, value: TensorSpec, lengths: TensorSpec, flow: TensorSpec) -> TensorSpec:
        return _FLOW

    @staticmethod
    def kernel(handle: Elements, value: Array, lengths: Array, flow: Array) -> Array:
        ends = np.cumsum(lengths)
        require(
            int(ends[-1] if len(ends) else 0) == len(value),
            "the lengths do not add up to the value's first size",
        )
        for index, piece in enumerate(np.split(value, ends[:-1])):
            handle.write(index, piece)
        return flow


@op("TensorArraySizeV3", "TensorArraySizeV2", "TensorArraySize")
class TensorArraySize(OpDef):
    """Number of elements, int32 []."""

    traits = Trait.STATEFUL | Trait.TENSOR_LIST | Trait.TENSOR_ARRAY_SIZE

    @staticmethod
    def infer(handle: TensorSpec, flow: TensorSpec) -> TensorSpec:
        return TensorSpec(INT32, ())

    @staticmethod
    def kernel(handle: Elements, flow: Array) -> Array:
        return np.array(len(handle.items), np.int32)


@op("TensorArrayCloseV3", "TensorArrayCloseV2", "TensorArrayClose")
class TensorArrayClose(OpDef):
    """Frees the array."""

    traits = Trait.STATEFUL | Trait.TENSOR_LIST
    num_outputs = 0

    @staticmethod
    def kernel(handle: Elements) -> tuple[()]:
        handle.items.clear()
        return ()
