"""State that outlives a run, kept by the interpreter for each session apart; and the ops around it."""

from __future__ import annotations

from typing import Any

from thinflow.errors import NodeError
from thinflow.ir.types import RESOURCE, DType, Shape, TensorSpec, shape_text
from thinflow.ops.registry import Handle, OpDef, require
from thinflow.ops.traits import Trait
from thinflow.typing import Array


class Resource(Handle):
    """A run-time object that is made once and kept.

    Attributes:
        where: the node it belongs to, for messages.
        folder: where the model's file lies.
    """

    where = ""
    folder = ""


class Variable(Resource):
    """An array that ops replace; None until one does. Arrays that were read never change afterwards."""

    def __init__(self, element: DType, shape: Shape) -> None:
        self.element = element
        self.shape = shape
        self.array: Array | None = None

    def read(self) -> Array:
        if self.array is None:
            raise NodeError(
                f"the variable{f' of {self.where}' if self.where else ''} was never given a value",
                hint="run its initializer first, or freeze the model with its checkpoint",
            )
        return self.array

    def assign(self, value: Array, *, validate_shape: bool = True) -> None:
        """Replace what it holds."""
        # Types without a numpy counterpart (variants, resources) are held as objects, whatever those are.
        fits = self.element.numpy_name == "" or value.dtype == self.element.numpy()
        require(fits, f"a variable of {self.element} cannot hold {value.dtype}")
        if validate_shape:
            require(self.fits(value), f"{shape_text(value.shape)} does not fit {shape_text(self.shape)}")
        self.array = value

    def fits(self, value: Array) -> bool:
        """True if the declared shape allows the value; an undeclared one allows everything."""
        if self.shape is None:
            return True
        same_rank = len(self.shape) == value.ndim
        return same_rank and all(a is None or a == b for a, b in zip(self.shape, value.shape, strict=True))


class Reference(Variable):
    """A TF1 variable. Ops that do not ask for the variable itself get what it holds."""


def dereferenced(value: Any) -> Any:
    """The value that a reference holds; anything else as it is."""
    return value.read() if isinstance(value, Reference) else value


class HandsReferenceOn(OpDef):
    """Base of ops that give a TF1 variable that they get."""

    traits = Trait.TAKES_REFERENCE | Trait.GIVES_REFERENCE


class HandleOp(OpDef):
    """Base of ops without inputs that give a handle of what their kernel makes."""

    traits = Trait.STATEFUL

    @staticmethod
    def infer() -> TensorSpec:
        return TensorSpec(RESOURCE, ())


class ResourceOp(HandleOp):
    """As HandleOp; the kernel runs once a session."""

    traits = Trait.RESOURCE


class Effect(OpDef):
    """Base of ops without outputs, which change something."""

    traits = Trait.STATEFUL
    num_outputs = 0

    @staticmethod
    def infer(*inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        return ()
