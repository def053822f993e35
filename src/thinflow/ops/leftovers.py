"""Ops that training, debugging and placement leave behind in a graph."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from thinflow.ir.tensor import Tensor
from thinflow.ir.types import DOUBLE, INT32, INT64, DType, Shape, TensorSpec
from thinflow.ops.registry import OpDef, op, require
from thinflow.ops.traits import Trait
from thinflow.typing import Array


@op("Copy", "CopyHost", "DebugIdentity", "DebugIdentityV2")
class Copy(OpDef):
    """y = x.   Any type."""

    traits = Trait.PASSES_THROUGH

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        return x

    @staticmethod
    def kernel(x: Array) -> Array:
        return x


@op("DebugNanCount")
class DebugNanCount(OpDef):
    """Number of NaNs in x, int64 [1]."""

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        return TensorSpec(INT64, (1,))

    @staticmethod
    def kernel(x: Array) -> Array:
        # Strings and complex numbers count as none.
        wide = x.astype(np.float64) if x.dtype.kind not in "Oc" else np.zeros(1)
        return np.array([np.isnan(wide).sum()], np.int64)


@op("Timestamp")
class Timestamp(OpDef):
    """Seconds since 1970, double []."""

    traits = Trait.STATEFUL

    @staticmethod
    def infer() -> TensorSpec:
        return TensorSpec(DOUBLE, ())

    @staticmethod
    def kernel() -> Array:
        return np.array(time.time())


@op("FakeParam")
class FakeParam(OpDef):
    """What a branch that was not taken would have given: zeros, which nobody reads."""

    @staticmethod
    def infer(*, dtype: DType, shape: Shape) -> TensorSpec:
        return TensorSpec(dtype, shape)

    @staticmethod
    def kernel(*, dtype: DType, shape: Shape) -> Array:
        empty: Any = b"" if dtype.kind == "O" else 0
        return np.full([d or 0 for d in shape or ()], empty, dtype.numpy() if dtype.numpy_name else object)


@op("HostConst")
class HostConst(OpDef):
    """The tensor in the attribute `value`."""

    @staticmethod
    def infer(*, value: Tensor) -> TensorSpec:
        return TensorSpec(value.dtype, value.shape)

    @staticmethod
    def kernel(*, value: Tensor) -> Array:
        return value.numpy()


@op("DeviceIndex")
class DeviceIndex(OpDef):
    """Number of the CPU among device_names, int32 []; their number if it is not among them."""

    @staticmethod
    def infer(*, device_names: tuple[str, ...]) -> TensorSpec:
        return TensorSpec(INT32, ())

    @staticmethod
    def kernel(*, device_names: tuple[str, ...]) -> Array:
        # This engine runs on the CPU alone.
        place = device_names.index("CPU") if "CPU" in device_names else len(device_names)
        return np.array(place, np.int32)


@op("RefSelect")
class RefSelect(OpDef):
    """The variable that `index` [] names.   index, N variables."""

    traits = Trait.TAKES_REFERENCE | Trait.GIVES_REFERENCE

    @staticmethod
    def infer(index: TensorSpec, *variables: TensorSpec) -> TensorSpec:
        same = len({v.shape for v in variables}) == 1
        return variables[0].with_shape(variables[0].shape if same else None) if variables else TensorSpec()

    @staticmethod
    def kernel(index: Array, *variables: Any) -> Any:
        place = int(index)
        require(0 <= place < len(variables), f"there is no variable {place} among {len(variables)}")
        return variables[place]


@op("ControlTrigger")
class ControlTrigger(OpDef):
    """Nothing: it waits for its control inputs, those on branches that were not taken included."""

    num_outputs = 0

    @staticmethod
    def infer() -> tuple[TensorSpec, ...]:
        return ()

    @staticmethod
    def kernel() -> tuple[()]:
        return ()
