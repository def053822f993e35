"""Control flow of TF1 graphs. What these do is the interpreter's business; here are only their shapes."""

from __future__ import annotations

from thinflow.ir.types import BOOL, INT32, TensorSpec
from thinflow.ops.registry import OpDef, op


class _Passing(OpDef):
    control_flow = True

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        return x


@op("Enter", "RefEnter")
class Enter(_Passing):
    """x, inside a loop."""


@op("Exit", "RefExit")
class Exit(_Passing):
    """x, once the loop is over."""


@op("NextIteration", "RefNextIteration")
class NextIteration(_Passing):
    """x, in the next turn of the loop."""


@op("LoopCond")
class LoopCond(OpDef):
    """Whether the loop turns once more, bool []."""

    control_flow = True

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        return TensorSpec(BOOL, ())


@op("Switch", "RefSwitch")
class Switch(OpDef):
    """x on output 1 if pred, else on output 0; nothing on the other."""

    control_flow = True
    num_outputs = 2

    @staticmethod
    def infer(x: TensorSpec, pred: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
        return x, x


@op("Merge", "RefMerge")
class Merge(OpDef):
    """Whichever input arrives -> it, its number int32."""

    control_flow = True
    num_outputs = 2

    @staticmethod
    def infer(*xs: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
        shapes = {x.shape for x in xs}
        if len(shapes) == 1:
            return TensorSpec(xs[0].dtype, xs[0].shape), TensorSpec(INT32, ())
        known = [s for s in shapes if s is not None]
        if len(known) != len(shapes) or len({len(s) for s in known}) != 1:
            return TensorSpec(xs[0].dtype), TensorSpec(INT32, ())
        dims = tuple(d[0] if len(set(d)) == 1 else None for d in zip(*known, strict=True))
        return TensorSpec(xs[0].dtype, dims), TensorSpec(INT32, ())
