"""Ops that touch files by names the model chooses: types and shapes only; see `_missing` for the reason."""

from __future__ import annotations

from thinflow.ir.types import STRING, TensorSpec
from thinflow.ops.registry import OpDef, op


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
