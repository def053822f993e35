"""Ops that hand their input on, and ops that compute nothing."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np

from thinflow.errors import NodeError
from thinflow.errors.plain_text import shown
from thinflow.ir.types import Shape, TensorSpec, shape_text
from thinflow.ops._numeric import widen
from thinflow.ops._shapes import merge
from thinflow.ops._state import HandsReferenceOn
from thinflow.ops.formatting import summary
from thinflow.ops.registry import OpDef, op, require
from thinflow.ops.traits import Trait
from thinflow.typing import Array


@op(
    "Identity",
    "Snapshot",
    "StopGradient",
    "PreventGradient",
    "DeepCopy",
    "DebugGradientIdentity",
    "GuaranteeConst",
)
class Identity(OpDef):
    """y = x.   Any type."""

    traits = Trait.PASSES_THROUGH | Trait.IDENTITY | Trait.T_OF_FIRST_INPUT

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        return x

    @staticmethod
    def kernel(x: Array) -> Array:
        return x


@op("RefIdentity")
class RefIdentity(HandsReferenceOn, Identity):
    """As Identity, for TF1 variables."""


@op("IdentityN")
class IdentityN(OpDef):
    """y0, y1, ... = x0, x1, ...   Any types."""

    traits = Trait.PASSES_THROUGH
    num_outputs = "T"

    @staticmethod
    def infer(*xs: TensorSpec) -> tuple[TensorSpec, ...]:
        return xs

    @staticmethod
    def kernel(*xs: Array) -> tuple[Array, ...]:
        return xs


@op("PlaceholderWithDefault")
class PlaceholderWithDefault(OpDef):
    """y = x, unless something else is fed in its place; so neither x's elements nor x's exact shape count.

    y: `shape` (unknown rank if absent), of x's type.
    """

    traits = Trait.PLACEHOLDER

    @staticmethod
    def infer(x: TensorSpec, *, shape: Shape = None) -> TensorSpec:
        # For its check only: what is fed may have any shape that `shape` allows.
        merge(x.shape, shape)
        return x.with_shape(shape)

    @staticmethod
    def kernel(x: Array) -> Array:
        return x


@op("EnsureShape")
class EnsureShape(OpDef):
    """y = x, or an error if x's shape does not fit `shape`."""

    traits = Trait.PASSES_THROUGH | Trait.REARRANGES

    @staticmethod
    def infer(x: TensorSpec, *, shape: Shape) -> TensorSpec:
        return replace(x, shape=merge(x.shape, shape))

    @staticmethod
    def kernel(x: Array, *, shape: Shape) -> Array:
        fits = shape is None or (
            len(shape) == x.ndim and all(d in (None, size) for d, size in zip(shape, x.shape, strict=True))
        )
        require(fits, f"the tensor has shape {shape_text(x.shape)}, {shape_text(shape)} is demanded")
        return x


@op("CheckNumerics", "CheckNumericsV2")
class CheckNumerics(OpDef):
    """y = x, or an error with `message` if x holds an infinity or a NaN.   Floats."""

    traits = Trait.PASSES_THROUGH | Trait.ASSERT

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        return x

    @staticmethod
    def kernel(x: Array, *, message: str) -> Array:
        values = widen(x)
        if not np.all(np.isfinite(values)):
            found = " and ".join(n for n, t in (("Inf", np.isinf), ("NaN", np.isnan)) if np.any(t(values)))
            raise NodeError(
                f"{message}: the tensor has {found} values" if message else f"the tensor has {found} values"
            )
        return x


@op("Print")
class Print(OpDef):
    """y = x; writes `message` and the first `summarize` elements of each of data to stderr.

    With `first_n` at or above 0 so often at most; whoever runs the node counts.
    """

    traits = Trait.PASSES_THROUGH | Trait.STATEFUL | Trait.PRINT

    @staticmethod
    def infer(x: TensorSpec, *data: TensorSpec) -> TensorSpec:
        return x

    @staticmethod
    def kernel(x: Array, *data: Array, message: str = "", summarize: int = 3) -> Array:
        # `shown` escapes what would command the terminal: the text is the model's, and a model may come from
        # anyone.
        print(shown(message + "".join(summary(d, summarize) for d in data)), file=sys.stderr)
        return x


@op("PrintV2")
class PrintV2(OpDef):
    """Writes a string scalar to `output_stream` ("stdout"; any other name goes to stderr), then `end`."""

    traits = Trait.STATEFUL | Trait.PRINT
    num_outputs = 0

    @staticmethod
    def infer(x: TensorSpec) -> tuple[TensorSpec, ...]:
        return ()

    @staticmethod
    def kernel(x: Array, *, output_stream: str = "stderr", end: str = "\n") -> tuple[Array, ...]:
        text = x.item()
        stream = sys.stdout if output_stream == "stdout" else sys.stderr
        text = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
        print(shown(text + end), end="", file=stream)
        return ()


@op("Assert")
class Assert(OpDef):
    """Nothing, or an error that shows data if the bool scalar `condition` is false."""

    traits = Trait.STATEFUL | Trait.ASSERT
    num_outputs = 0

    @staticmethod
    def infer(condition: TensorSpec, *data: TensorSpec) -> tuple[TensorSpec, ...]:
        return ()

    @staticmethod
    def kernel(condition: Array, *data: Array, summarize: int = 3) -> tuple[Array, ...]:
        if not np.all(condition):
            raise NodeError(f"assertion failed: {' '.join(summary(d, summarize) for d in data)}")
        return ()


@op("NoOp")
class NoOp(OpDef):
    """Nothing: it exists for its control dependencies."""

    num_outputs = 0

    @staticmethod
    def infer() -> tuple[TensorSpec, ...]:
        return ()

    @staticmethod
    def kernel() -> tuple[Array, ...]:
        return ()
