"""Stacks, which gradients of TF1 loops left behind in some graphs."""

from __future__ import annotations

from thinflow.ir.types import RESOURCE, DType, TensorSpec
from thinflow.ops.registry import Handle, OpDef, op, require
from thinflow.ops.traits import Trait
from thinflow.typing import Array


class StackValue(Handle):
    """Items of one stack of a run, at most `limit` (negative: any number)."""

    def __init__(self, limit: int) -> None:
        self.items: list[Array] = []
        self.limit = limit


@op("StackV2")
class Stack(OpDef):
    """A new stack of at most max_size [] items (negative: any number)."""

    traits = Trait.STATEFUL

    @staticmethod
    def infer(max_size: TensorSpec) -> TensorSpec:
        return TensorSpec(RESOURCE, ())

    @staticmethod
    def kernel(max_size: Array) -> StackValue:
        return StackValue(int(max_size))


@op("Stack")
class OldStack(OpDef):
    """A new stack of any number of items."""

    traits = Trait.STATEFUL

    @staticmethod
    def infer() -> TensorSpec:
        return TensorSpec(RESOURCE, ())

    @staticmethod
    def kernel() -> StackValue:
        return StackValue(-1)


@op("StackPushV2", "StackPush")
class StackPush(OpDef):
    """x, which is on top of the stack from now on."""

    traits = Trait.STATEFUL

    @staticmethod
    def infer(stack: TensorSpec, x: TensorSpec) -> TensorSpec:
        return x

    @staticmethod
    def kernel(stack: StackValue, x: Array) -> Array:
        full = 0 <= stack.limit <= len(stack.items)
        require(not full, f"the stack is full with {stack.limit} items")
        stack.items.append(x)
        return x


@op("StackPopV2", "StackPop")
class StackPop(OpDef):
    """The item on top, which is taken away."""

    traits = Trait.STATEFUL

    @staticmethod
    def infer(stack: TensorSpec, *, elem_type: DType) -> TensorSpec:
        return TensorSpec(elem_type)

    @staticmethod
    def kernel(stack: StackValue) -> Array:
        require(bool(stack.items), "nothing can be taken from an empty stack")
        return stack.items.pop()


@op("StackCloseV2", "StackClose")
class StackClose(OpDef):
    """Frees the stack."""

    traits = Trait.STATEFUL
    num_outputs = 0

    @staticmethod
    def infer(stack: TensorSpec) -> tuple[TensorSpec, ...]:
        return ()

    @staticmethod
    def kernel(stack: StackValue) -> tuple[()]:
        stack.items.clear()
        return ()
