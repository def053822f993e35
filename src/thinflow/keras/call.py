"""One use of a layer: its inputs, options and weights, and the nodes that it becomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from thinflow.errors import FormatError
from thinflow.ir.graph import Value
from thinflow.ir.types import dtype
from thinflow.keras import config as configs
from thinflow.keras.config import LayerConfig, Literal
from thinflow.keras.nodes import Nodes
from thinflow.keras.options import DAMAGED, compute_type
from thinflow.keras.writer import Writer, element_type, typed
from thinflow.typing import Array


@dataclass
class Kept:
    """A variable that runs change.

    Attributes:
        handle: its handle.
        now: what it holds by now.
    """

    handle: Value
    now: Value


class Model(Protocol):
    """What is around a layer: the model that is being built.

    Attributes:
        writer: the graph.
        masks: value -> its mask, which layers behind may heed.
        facts: what the user should know of how the model was read: topic -> text.
    """

    writer: Writer
    masks: dict[Value, Value]
    facts: dict[str, str]

    def weight(self, path: str) -> Array | None:
        """The array of a variable by the path of its layer and its name; None if there is none."""

    def asset(self, name: str) -> bytes | None:
        """A file beside the weights, such as a vocabulary."""

    @property
    def version(self) -> tuple[int, int]:
        """The first two numbers of that of Keras which wrote the model."""

    @property
    def has_flipped_kernels(self) -> bool:
        """True if kernels of convolutions are stored turned around, as Theano wanted them."""

    def kept(self, first: Value, name: str) -> Kept:
        """A variable of the layer that is being built, which the next run finds as this one leaves it."""

    def activate(self, call: Call, x: Value, given: object) -> Value:
        """A value behind the activation that a config names."""

    def apply(
        self, layer: LayerConfig, args: Sequence[object], kwargs: Mapping[str, object], path: str
    ) -> object:
        """What a layer gives for its arguments."""


class Call(Nodes):
    """One use of a layer, as its function sees it.

    Attributes:
        layer: the config.
        args: the arguments; tensors in them are values.
        xs: the tensors of the first argument, one after the other.
        read: options and keyword arguments that the function has looked at.
        path: place of the layer's weights.
        masks: masks of `xs`, None where there is none.
        mask_out: the mask of the result, if the function sets one.
        compute: the type of floats that the layer computes in.
    """

    def __init__(
        self,
        builder: Model,
        layer: LayerConfig,
        args: Sequence[object],
        kwargs: Mapping[str, object],
        path: str,
    ) -> None:
        self.builder = builder
        super().__init__(layer, builder.writer)
        self.path = path
        self.args, self.kwargs = tuple(args), dict(kwargs)
        first = configs.leaves(self.args[0]) if self.args else iter(())
        self.xs: list[Value] = [x for x in first if isinstance(x, Value)]
        self.masks: list[Value | None] = [builder.masks.get(x) for x in self.xs]
        self.mask_out: Value | None = None
        self.compute = compute_type(layer)

    def __getitem__(self, place: int) -> Value:
        """A tensor of the first argument.

        Raises:
            FormatError: it has none there.
        """
        if place >= len(self.xs):
            raise FormatError(f"it is called with {len(self.xs)} tensors", self.where, DAMAGED)
        return self.xs[place]

    def mask(self, place: int = 0) -> Value | None:
        """The mask of a tensor of the first argument: as the call says, else as the layers before imply."""
        self.read.add("mask")
        given = self.kwargs.get("mask")
        if isinstance(given, list):
            given = given[place] if place < len(given) else None
        if given is not None and not isinstance(given, Value):
            raise FormatError("its mask is no tensor", self.where, DAMAGED)
        return given if given is not None else self.masks[place] if place < len(self.masks) else None

    @property
    def generation(self) -> int:
        """1, 2 or 3, of Keras."""
        return self.layer.generation

    # --- arguments ----------------------------------------------------------------------------------------

    def argument(self, name: str, place: int, default: object = None) -> object:
        """An argument of the call, by its name or its place (0 is the first)."""
        self.read.add(name)
        if place < len(self.args) and name not in self.kwargs:
            return self.args[place]
        return self.kwargs.get(name, default)

    # --- weights ------------------------------------------------------------------------------------------

    def array(self, name: str, shape: Sequence[int | None] | None = None) -> Array:
        """A variable of the layer as the file has it; sizes that are not None are asked for.

        Raises:
            FormatError: the file has none, or one of another shape.
        """
        import numpy as np

        array = self.builder.weight(f"{self.path}/{name}" if self.path else name)
        if array is None:
            raise FormatError(
                f"its variable {name} is missing", self.where, "save the model again, with weights"
            )
        fits = shape is None or (
            array.ndim == len(shape) and all(n in (None, m) for n, m in zip(shape, array.shape, strict=True))
        )
        if not fits:
            asked = ", ".join("?" if n is None else str(n) for n in shape or ())
            raise FormatError(
                f"its variable {name} has the shape {list(array.shape)}, and the config says [{asked}]",
                self.where,
                "the weights are of another model than the config; save the whole model again",
            )
        # The layer computes in one type, whatever the file keeps; of that type it stays a view of the file.
        return (
            array.astype(self.compute.numpy(), copy=False) if array.dtype.kind in "fV" else np.asarray(array)
        )

    def has_weight(self, name: str) -> bool:
        return self.builder.weight(f"{self.path}/{name}" if self.path else name) is not None

    def weight(self, name: str, shape: Sequence[int | None] | None = None) -> Value:
        """A variable of the layer as a constant."""
        return self.const(self.array(name, shape), name.replace("/", "_"))

    # --- what many layers do ------------------------------------------------------------------------------

    @property
    def is_channels_first(self) -> bool:
        return self.choice("data_format", "channels_last", "channels_first") == "channels_first"

    def to_last(self, x: Value) -> Value:
        """The input with its channels last."""
        rank = self.rank(x)
        return self.transpose(x, (0, *range(2, rank), 1)) if self.is_channels_first else x

    def from_last(self, y: Value) -> Value:
        """A result whose channels are last, in the layer's own layout."""
        rank = self.rank(y)
        return (
            self.transpose(y, (0, rank - 1, *range(1, rank - 1)), "transpose_1")
            if self.is_channels_first
            else y
        )

    def matmul(self, x: Value, kernel: Value) -> Value:
        """x [..., m] @ kernel [m, n]."""
        if self.rank(x) == 2:
            return self.emit("MatMul", x, kernel, transpose_a=False, transpose_b=False)
        if sum(n is None for n in self.shape(x)) > 1:
            return self.emit("BatchMatMulV2", x, kernel, name="MatMul")
        rows = self.reshape(x, (None, self.size(x, -1)), "Tensordot/Reshape")
        product = self.emit(
            "MatMul", rows, kernel, name="Tensordot/MatMul", transpose_a=False, transpose_b=False
        )
        return self.reshape(product, (*self.shape(x)[:-1], self.shape(kernel)[-1]), "Tensordot")

    def biased(self, y: Value, name: str = "bias") -> Value:
        """With the bias added where the layer has one."""
        if not self.flag("use_bias", True):
            return y
        bias = self.weight(name, (self.shape(y)[-1],))
        return self.emit("BiasAdd", y, bias, data_format="NHWC")

    def activated(self, y: Value, option: str = "activation") -> Value:
        """Behind the activation that an option names."""
        return self.builder.activate(self, y, self.get(option))

    def unchanged(self) -> object:
        """The input as it is, with its structure: of a layer that does nothing."""
        return self.args[0] if self.args else []

    def apply(self, layer: LayerConfig, path: str, *args: object, **kwargs: object) -> object:
        """The result of a layer inside, whose weights are below a path: "layer", "cell"."""
        inner = f"{self.path}/{path}" if self.path else path
        return self.builder.apply(layer, args, kwargs, inner)

    def literal(self, item: object, like: Value | None = None) -> Value:
        """An argument as a tensor: itself, or a constant of what the config holds.

        Raises:
            FormatError: it is neither.
        """
        import numpy as np

        if isinstance(item, Value):
            return item
        try:
            if isinstance(item, Literal):
                named = dtype(item.dtype) if item.dtype else None
                element = named or (element_type(like) if like is not None else dtype("float"))
                return self.const(np.asarray(item.value, element.numpy()))
            if isinstance(item, bool | int | float | list):
                plain = np.asarray(item)
                # What is behind the point is not to get lost: of both types floats win.
                if plain.dtype.kind == "f" and (like is None or element_type(like).kind in "biu"):
                    return self.const(plain.astype(np.float32))
                return self.const(plain if like is None else typed(item, element_type(like)))
        except (ValueError, TypeError, OverflowError) as error:
            raise FormatError(
                f"a constant in its config cannot be read: {error}", self.where, DAMAGED
            ) from error
        raise FormatError(f"its argument {str(item)[:60]!r} is no tensor", self.where, DAMAGED)
