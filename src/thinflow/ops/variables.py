"""Variables: arrays that outlive a run. Resources come as handles, the references of TF1 as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from thinflow.errors import NodeError
from thinflow.ir.types import BOOL, INT32, RESOURCE, DType, Shape, TensorSpec
from thinflow.ops._state import Effect, Reference, ResourceOp, Variable
from thinflow.ops.registry import OpDef, op, require
from thinflow.ops.traits import Trait
from thinflow.typing import Array


class _OnReference(OpDef):
    """An op that changes a TF1 variable and hands it on."""

    traits = Trait.STATEFUL | Trait.TAKES_REFERENCE | Trait.GIVES_REFERENCE

    @staticmethod
    def infer(x: TensorSpec, *inputs: TensorSpec) -> TensorSpec:
        return x.with_shape(x.shape)


@op("VarHandleOp")
class VarHandleOp(ResourceOp):
    """The handle of a variable, which holds nothing at first."""

    traits = Trait.VARIABLE

    @staticmethod
    def kernel(*, dtype: DType, shape: Shape = None) -> Variable:
        return Variable(dtype, shape)


@op("LiteRTVariable")
class LiteRTVariable(OpDef):
    """The handle of a variable of a .tflite file or of a Keras layer, which holds `initial` at first."""

    traits = Trait.STATEFUL | Trait.RESOURCE

    @staticmethod
    def infer(initial: TensorSpec) -> TensorSpec:
        return TensorSpec(RESOURCE, ())

    @staticmethod
    def kernel(initial: Array, *, dtype: DType) -> Variable:
        made = Variable(dtype, tuple(initial.shape))
        made.assign(initial)
        return made


@op("VariableV2")
class VariableV2(OpDef):
    """A TF1 variable, which holds nothing at first."""

    traits = Trait.STATEFUL | Trait.RESOURCE | Trait.GIVES_REFERENCE | Trait.VARIABLE | Trait.TF1_VARIABLE

    @staticmethod
    def infer(*, dtype: DType, shape: Shape = None) -> TensorSpec:
        return TensorSpec(dtype, shape)

    @staticmethod
    def kernel(*, dtype: DType, shape: Shape = None) -> Reference:
        return Reference(dtype, shape)


@op("Variable")
class OldVariable(VariableV2):
    """As VariableV2; a shape of rank 0 says that it is not known."""

    @staticmethod
    def infer(*, dtype: DType, shape: Shape = None) -> TensorSpec:
        return TensorSpec(dtype, shape or None)

    @staticmethod
    def kernel(*, dtype: DType, shape: Shape = None) -> Reference:
        return Reference(dtype, shape or None)


@op("AutoReloadVariable")
class AutoReloadVariable(VariableV2):
    """A TF1 variable that a server fills from a file; here it is one to be frozen."""


@op("TemporaryVariable")
class TemporaryVariable(OpDef):
    """A variable of one run; what it holds at first is not defined, here zeros."""

    traits = Trait.STATEFUL | Trait.GIVES_REFERENCE

    @staticmethod
    def infer(*, dtype: DType, shape: Shape) -> TensorSpec:
        return TensorSpec(dtype, shape)

    @staticmethod
    def kernel(*, dtype: DType, shape: Shape) -> Reference:
        variable = Reference(dtype, shape)
        require(shape is not None and None not in shape, "the shape of a temporary variable must be known")
        # TensorFlow leaves it uninitialized; zeros, so that runs repeat.
        variable.array = np.zeros(tuple(d or 0 for d in shape or ()), dtype.numpy())
        return variable


@op("DestroyTemporaryVariable")
class DestroyTemporaryVariable(OpDef):
    """The last value of a temporary variable."""

    traits = Trait.STATEFUL | Trait.TAKES_REFERENCE

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        return x.with_shape(x.shape)

    @staticmethod
    def kernel(x: Variable) -> Array:
        return x.read()


@op("ReadVariableOp")
class ReadVariableOp(OpDef):
    """What the variable holds now."""

    traits = Trait.STATEFUL

    @staticmethod
    def infer(variable: TensorSpec, *, dtype: DType) -> TensorSpec:
        return TensorSpec(dtype)

    @staticmethod
    def kernel(variable: Variable) -> Array:
        return variable.read()


@op("_ReadVariablesOp")
class ReadVariablesOp(OpDef):
    """What each of N variables holds now."""

    traits = Trait.STATEFUL
    num_outputs = "N"

    @staticmethod
    def infer(*variables: TensorSpec, dtypes: tuple[DType, ...]) -> tuple[TensorSpec, ...]:
        return tuple(TensorSpec(d) for d in dtypes)

    @staticmethod
    def kernel(*variables: Variable) -> tuple[Array, ...]:
        return tuple(v.read() for v in variables)


@op("AssignVariableOp")
class AssignVariableOp(Effect):
    """The variable holds `value` from now on."""

    traits = Trait.ASSIGN

    @staticmethod
    def kernel(variable: Variable, value: Array, *, validate_shape: bool = False) -> tuple[()]:
        variable.assign(value, validate_shape=validate_shape)
        return ()


@op("Assign")
class Assign(_OnReference):
    """The variable, which holds `value` from now on."""

    traits = Trait.ASSIGN

    @staticmethod
    def kernel(variable: Variable, value: Array, *, validate_shape: bool = True) -> Variable:
        require_variable(variable)
        variable.assign(value, validate_shape=validate_shape)
        return variable


def require_variable(variable: object) -> None:
    """Refuse to write to what is no variable.

    Raises:
        NodeError: it is a constant, such as the variable became in a frozen graph.
    """
    if isinstance(variable, Variable):
        return
    raise NodeError(
        "it writes to a constant, which was a variable before the graph was frozen",
        hint="freeze the model with `thinflow freeze`, which leaves variables that change; or stop before it"
        " with --outputs",
    )


def updated(variable: Variable, function: Callable[[Array, Array], Array], value: Array) -> None:
    """Replace what the variable holds by a function of it and `value`, of the same shape."""
    require_variable(variable)
    old = variable.read()
    require(old.shape == value.shape, f"{list(value.shape)} differs from the variable's {list(old.shape)}")
    with np.errstate(all="ignore"):
        variable.assign(np.asarray(function(old, value)), validate_shape=False)


@op("AssignAddVariableOp")
class AssignAddVariableOp(Effect):
    """Adds `value` to what the variable holds."""

    @staticmethod
    def kernel(variable: Variable, value: Array) -> tuple[()]:
        updated(variable, np.add, value)
        return ()


@op("AssignSubVariableOp")
class AssignSubVariableOp(Effect):
    """Takes `value` from what the variable holds."""

    @staticmethod
    def kernel(variable: Variable, value: Array) -> tuple[()]:
        updated(variable, np.subtract, value)
        return ()


@op("AssignAdd")
class AssignAdd(_OnReference):
    """The variable, to which `value` was added."""

    @staticmethod
    def kernel(variable: Variable, value: Array) -> Variable:
        updated(variable, np.add, value)
        return variable


@op("AssignSub")
class AssignSub(_OnReference):
    """The variable, from which `value` was taken."""

    @staticmethod
    def kernel(variable: Variable, value: Array) -> Variable:
        updated(variable, np.subtract, value)
        return variable


@op("VarIsInitializedOp", "IsVariableInitialized")
class IsVariableInitialized(OpDef):
    """Whether the variable holds anything yet, bool []."""

    traits = Trait.STATEFUL | Trait.TAKES_REFERENCE

    @staticmethod
    def infer(variable: TensorSpec) -> TensorSpec:
        return TensorSpec(BOOL, ())

    @staticmethod
    def kernel(variable: Variable) -> Array:
        return np.array(variable.array is not None)


@op("VariableShape")
class VariableShape(OpDef):
    """The shape of what the variable holds, out_type [rank]."""

    traits = Trait.STATEFUL

    @staticmethod
    def infer(variable: TensorSpec, *, out_type: DType = INT32) -> TensorSpec:
        return TensorSpec(out_type, (None,))

    @staticmethod
    def kernel(variable: Variable, *, out_type: DType = INT32) -> Array:
        return np.array(variable.read().shape, out_type.numpy())


@op("DestroyResourceOp")
class DestroyResourceOp(Effect):
    """The variable holds nothing any more."""

    @staticmethod
    def kernel(variable: Any) -> tuple[()]:
        # Tables and queues stay: they live as long as the session.
        if isinstance(variable, Variable):
            variable.array = None
        return ()


@op("DisableCopyOnRead")
class DisableCopyOnRead(Effect):
    """Nothing; what was read never changes here."""

    @staticmethod
    def kernel(variable: Variable) -> tuple[()]:
        return ()


@op("CountUpTo", "ResourceCountUpTo")
class CountUpTo(OpDef):
    """What the variable [] held before it was raised by one; an error at `limit`."""

    traits = Trait.STATEFUL | Trait.TAKES_REFERENCE

    @staticmethod
    def infer(variable: TensorSpec, *, T: DType, limit: int) -> TensorSpec:
        return TensorSpec(T, ())

    @staticmethod
    def kernel(variable: Variable, *, limit: int) -> Array:
        before = variable.read()
        require(before.ndim == 0, "only a scalar can be counted up")
        require(int(before) < limit, f"the count reached its limit of {limit}")
        # A new array, as `before` is what this run gives.
        variable.array = np.asarray(before + before.dtype.type(1))
        return before
