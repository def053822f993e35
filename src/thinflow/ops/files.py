"""Ops on files and input pipelines: types and shapes only; see `_failures` for the reason."""

from __future__ import annotations

from thinflow.ir.types import STRING, DType, Shape, TensorSpec
from thinflow.ops.registry import OpDef, op
from thinflow.ops.traits import Trait


@op("ReadFile")
class ReadFile(OpDef):
    """y = the content of a file; it has no kernel.   filename [] -> y [] string."""

    @staticmethod
    def infer(filename: TensorSpec) -> TensorSpec:
        return TensorSpec(STRING, ())


@op("MatchingFiles")
class MatchingFiles(OpDef):
    """y = the names of the files that match; it has no kernel.   pattern [] or [n] -> y [m] string."""

    @staticmethod
    def infer(pattern: TensorSpec) -> TensorSpec:
        return TensorSpec(STRING, (None,))


# ---- Ends of input pipelines: what datasets hand to a model. Nothing here runs; feed what comes out instead.


@op(
    "IteratorGetNext",
    "IteratorGetNextSync",
    "MultiDeviceIteratorGetNextFromShard",
    "DatasetToSingleElement",
)
class IteratorGetNext(OpDef):
    """The next element of a dataset: a tensor for each component, of the declared types and shapes."""

    traits = Trait.STATEFUL
    num_outputs = "output_types"

    @staticmethod
    def infer(
        *inputs: TensorSpec, output_types: tuple[DType, ...], output_shapes: tuple[Shape, ...] = ()
    ) -> tuple[TensorSpec, ...]:
        shapes = output_shapes if len(output_shapes) == len(output_types) else (None,) * len(output_types)
        return tuple(TensorSpec(t, s) for t, s in zip(output_types, shapes, strict=True))


@op("ReaderReadV2", "ReaderRead")
class ReaderRead(OpDef):
    """The next record of a reader: its key and its value, strings []."""

    traits = Trait.STATEFUL
    num_outputs = 2

    @staticmethod
    def infer(*inputs: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
        return TensorSpec(STRING, ()), TensorSpec(STRING, ())
