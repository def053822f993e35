"""Ops that training, debugging, placement and TensorBoard leave behind in a graph."""

from __future__ import annotations

import time
from bisect import bisect_right
from functools import cache
from typing import Any

import numpy as np

from thinflow.errors import NodeError
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import DOUBLE, INT32, INT64, STRING, DType, Shape, TensorSpec
from thinflow.ops._tensor_proto import tensor_bytes
from thinflow.ops.registry import OpDef, op, require
from thinflow.ops.traits import Trait, declare
from thinflow.typing import Array
from thinflow.wire.values import iter_values, put, put_double


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


# ---- Summaries, messages for TensorBoard that training left in a graph.
#
# Source: TensorFlow's `summary.proto`.


# Field numbers of `Summary.Value`.
_TAG, _SIMPLE, _HISTOGRAM, _TENSOR, _METADATA = 1, 2, 5, 8, 9


class _Summary(OpDef):
    traits = Trait.SUMMARY

    @staticmethod
    def infer(*inputs: TensorSpec) -> TensorSpec:
        return TensorSpec(STRING, ())


def _summary(*values: bytes) -> Array:
    return np.array(b"".join(put(1, v) for v in values), object)


@op("ScalarSummary")
class ScalarSummary(_Summary):
    """A number for each tag.   tags [...], values like tags -> bytes []."""

    @staticmethod
    def kernel(tags: Array, values: Array) -> Array:
        require(
            tags.shape == values.shape or (tags.size == 1 == values.size), "tags and values differ in shape"
        )
        pairs = zip(tags.ravel().tolist(), values.ravel(), strict=True)
        return _summary(*(put(_TAG, tag) + put(_SIMPLE, float(value)) for tag, value in pairs))


@op("MergeSummary")
class MergeSummary(_Summary):
    """All values of N summaries in one; a tag may occur once only."""

    @staticmethod
    def kernel(*inputs: Array) -> Array:
        tags: set[bytes] = set()
        parts: list[bytes] = []
        for message in (bytes(m) for x in inputs for m in x.ravel().tolist()):
            for number, _, value in iter_values(message):
                require(number == 1 and isinstance(value, bytes), "an input is no summary")
                tag = next((v for n, _, v in iter_values(value) if n == _TAG and isinstance(v, bytes)), b"")
                require(
                    not tag or tag not in tags,
                    f"two summaries have the tag {tag.decode('utf-8', 'replace')!r}",
                )
                tags.add(tag)
                parts.append(value)
        return _summary(*parts)


@op("TensorSummary")
class TensorSummary(_Summary):
    """A tensor, without a tag of its own and without the name of the node, which a kernel does not know."""

    @staticmethod
    def kernel(x: Array, *, T: DType | None = None) -> Array:
        return _summary(put(_TENSOR, tensor_bytes(x, T)))


@op("TensorSummaryV2")
class TensorSummaryV2(_Summary):
    """A tensor under a tag [], with the metadata of the plugin that shows it, a message []."""

    @staticmethod
    def kernel(tag: Array, x: Array, metadata: Array, *, T: DType | None = None) -> Array:
        note = metadata.item()
        return _summary(put(_TAG, tag.item()) + put(_TENSOR, tensor_bytes(x, T)) + (put(_METADATA, note)))


@cache
def _limits() -> list[float]:
    """Upper limits of a histogram's buckets: from 1e-12 in steps of a tenth, both signs, and zero."""
    rising: list[float] = []
    # TensorFlow's buckets (`histogram.cc`): readers merge histograms, so the limits must be the same to the
    # last bit, and so they are made by the same repeated product.
    value = 1e-12
    while value < 1e20:
        rising.append(value)
        value *= 1.1
    rising.append(float(np.finfo(np.float64).max))
    return [-v for v in reversed(rising)] + [0.0] + rising


@op("HistogramSummary")
class HistogramSummary(_Summary):
    """A histogram of the values under a tag [].   values of any shape -> bytes []."""

    @staticmethod
    def kernel(tag: Array, values: Array) -> Array:
        numbers = values.astype(np.float64).ravel()
        if not np.isfinite(numbers).all():
            raise NodeError("a value of the histogram is not finite", hint="look for NaN further up")
        limits = _limits()
        counts = [0.0] * len(limits)
        for number in numbers.tolist():
            # The last limit is the largest double, and belongs to the last bucket.
            counts[min(bisect_right(limits, number), len(limits) - 1)] += 1
        return _summary(put(_TAG, tag.item()) + put(_HISTOGRAM, _histogram(numbers, limits, counts)))


def _histogram(numbers: Array, limits: list[float], counts: list[float]) -> bytes:
    # Of no values: minimum and maximum as TensorFlow starts them, the wrong way round.
    bounds = (numbers.min(), numbers.max()) if numbers.size else (limits[-1], -limits[-1])
    total = total_squares = 0.0
    # Summed one by one, in order, as TensorFlow does; numpy's pairwise sum has other last bits.
    for number in numbers.tolist():
        total += number
        total_squares += number * number
    facts = (*bounds, float(numbers.size), total, total_squares)
    # HistogramProto: min, max, num, sum, sum_squares are 1 to 5; proto3 leaves zeros out.
    head = b"".join(put_double(i, float(v)) for i, v in enumerate(facts, 1) if v != 0)
    kept = _runs(limits, counts)
    packed = [np.array(column, "<f8").tobytes() for column in zip(*kept, strict=True)]
    return head + b"".join(put(number, data) for number, data in zip((6, 7), packed, strict=True))


def _runs(limits: list[float], counts: list[float]) -> list[tuple[float, float]]:
    """Limits and counts, with each run of empty buckets as one."""
    kept: list[tuple[float, float]] = []
    at = 0
    while at < len(counts):
        end, count = limits[at], counts[at]
        at += 1
        # Only the last of a run of empty buckets is stored: it says where the next full one begins.
        if count <= 0:
            while at < len(counts) and counts[at] <= 0:
                end, count = limits[at], counts[at]
                at += 1
        kept.append((end, count))
    return kept or [(limits[-1], 0.0)]


# Written by nobody here: a run leaves them out, and so does whoever takes the summaries out of a graph.
declare(
    (
        *("ImageSummary", "AudioSummary", "AudioSummaryV2", "DebugNumericSummary"),
        *("WriteSummary", "WriteScalarSummary", "WriteHistogramSummary", "WriteImageSummary"),
        *("WriteAudioSummary", "WriteGraphSummary", "SummaryWriter", "CreateSummaryFileWriter"),
        *("FlushSummaryWriter", "CloseSummaryWriter"),
    ),
    Trait.SUMMARY,
)
