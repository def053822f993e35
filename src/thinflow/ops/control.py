"""Control flow of TF1 graphs, and calls of functions.

What these do is the interpreter's business; here are only their types and shapes. What a call gives depends
on the function: `analysis.function_shapes` looks into it, the rules here do without.
"""

from __future__ import annotations

from thinflow.ir.types import BOOL, INT32, DType, Shape, TensorSpec
from thinflow.ops._state import HandsReferenceOn
from thinflow.ops.registry import OpDef, op
from thinflow.ops.traits import Trait


class _Passing(OpDef):
    traits = Trait.CONTROL_FLOW

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        return x


@op("Enter")
class Enter(_Passing):
    """x, inside a loop."""

    traits = Trait.ENTER


@op("RefEnter")
class RefEnter(HandsReferenceOn, Enter):
    """As Enter, for TF1 variables."""


@op("Exit")
class Exit(_Passing):
    """x, once the loop is over."""

    traits = Trait.EXIT


@op("RefExit")
class RefExit(HandsReferenceOn, Exit):
    """As Exit, for TF1 variables."""


@op("NextIteration")
class NextIteration(_Passing):
    """x, in the next turn of the loop."""

    traits = Trait.NEXT_ITERATION


@op("RefNextIteration")
class RefNextIteration(HandsReferenceOn, NextIteration):
    """As NextIteration, for TF1 variables."""


@op("LoopCond")
class LoopCond(OpDef):
    """Whether the loop turns once more, bool []."""

    traits = Trait.CONTROL_FLOW

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        return TensorSpec(BOOL, ())


@op("Switch")
class Switch(OpDef):
    """x on output 1 if pred, else on output 0; nothing on the other."""

    traits = Trait.CONTROL_FLOW | Trait.SWITCH
    num_outputs = 2

    @staticmethod
    def infer(x: TensorSpec, pred: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
        return x, x


@op("RefSwitch")
class RefSwitch(HandsReferenceOn, Switch):
    """As Switch, for TF1 variables."""


@op("_SwitchN")
class SwitchN(OpDef):
    """x on the output that `index` [] names, on the last one if there is none such; nothing on the others."""

    traits = Trait.CONTROL_FLOW | Trait.SWITCH
    num_outputs = "num_outs"

    @staticmethod
    def infer(x: TensorSpec, index: TensorSpec, *, num_outs: int) -> tuple[TensorSpec, ...]:
        return (x.with_shape(x.shape),) * num_outs


@op("Merge")
class Merge(OpDef):
    """Whichever input arrives -> it, its number int32."""

    traits = Trait.CONTROL_FLOW | Trait.MERGE
    num_outputs = 2

    @staticmethod
    def infer(*xs: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
        shapes = {x.shape for x in xs}
        if len(shapes) == 1:
            return TensorSpec(xs[0].dtype, xs[0].shape), TensorSpec(INT32, ())
        known = [s for s in shapes if s is not None]
        if len(known) != len(shapes) or len({len(s) for s in known}) != 1:
            return TensorSpec(xs[0].dtype), TensorSpec(INT32, ())
        # Only one input arrives, but before the run nobody knows which: a size counts where all agree.
        dims = tuple(d[0] if len(set(d)) == 1 else None for d in zip(*known, strict=True))
        return TensorSpec(xs[0].dtype, dims), TensorSpec(INT32, ())


@op("RefMerge")
class RefMerge(HandsReferenceOn, Merge):
    """As Merge, for TF1 variables."""


@op("_Arg")
class Argument(OpDef):
    """An argument of the function whose body this is in."""

    @staticmethod
    def infer(*, T: DType) -> TensorSpec:
        return TensorSpec(T)


class _Call(OpDef):
    num_outputs = "Tout"

    @staticmethod
    def infer(
        *inputs: TensorSpec, Tout: tuple[DType, ...], output_shapes: tuple[Shape, ...] = ()
    ) -> tuple[TensorSpec, ...]:
        # The attribute is a hint, and empty in most graphs.
        shapes = output_shapes if len(output_shapes) == len(Tout) else (None,) * len(Tout)
        return tuple(TensorSpec(element, shape) for element, shape in zip(Tout, shapes, strict=True))


@op("PartitionedCall")
class PartitionedCall(_Call):
    """What the function `f` gives."""

    traits = Trait.CALL


@op("StatefulPartitionedCall")
class StatefulPartitionedCall(_Call):
    """What the function `f` gives, which may have side effects."""

    traits = Trait.STATEFUL | Trait.CALL


@op("StatelessIf")
class StatelessIf(_Call):
    """What `then_branch` gives for the other inputs if the condition is true, else `else_branch`."""

    traits = Trait.IF


@op("If")
class If(_Call):
    """As StatelessIf; the branches may have side effects."""

    traits = Trait.STATEFUL | Trait.IF


@op("StatelessCase")
class StatelessCase(_Call):
    """What the branch gives for the other inputs that input 0 names; the last one if there is none such."""

    traits = Trait.CASE


@op("Case")
class Case(_Call):
    """As StatelessCase; the branches may have side effects."""

    traits = Trait.STATEFUL | Trait.CASE


@op("StatelessWhile")
class StatelessWhile(OpDef):
    """The inputs, replaced by what `body` gives for them as long as `cond` gives true for them."""

    traits = Trait.WHILE
    num_outputs = "T"

    @staticmethod
    def infer(
        *inputs: TensorSpec, T: tuple[DType, ...], output_shapes: tuple[Shape, ...] = ()
    ) -> tuple[TensorSpec, ...]:
        shapes = output_shapes if len(output_shapes) == len(T) else (None,) * len(T)
        return tuple(TensorSpec(element, shape) for element, shape in zip(T, shapes, strict=True))


@op("While")
class While(StatelessWhile):
    """As StatelessWhile; the functions may have side effects."""

    traits = Trait.STATEFUL


@op("For")
class For(OpDef):
    """The inputs behind start, limit and delta, replaced by what `body` gives for a counter and them."""

    traits = Trait.STATEFUL
    num_outputs = "T"

    @staticmethod
    def infer(
        start: TensorSpec, limit: TensorSpec, delta: TensorSpec, *inputs: TensorSpec, T: tuple[DType, ...]
    ) -> tuple[TensorSpec, ...]:
        return tuple(TensorSpec(element) for element in T)
