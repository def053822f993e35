"""One class per op: what it computes, what shape comes out, what it costs.

A class is registered under one or more TensorFlow op names, and says its traits (see `traits`):

    @op("MatMul")
    class MatMul(OpDef):
        \"\"\"y = a @ b.   a [m,k], b [k,n] -> y [m,n].\"\"\"

        traits = Trait.MATMUL

        @staticmethod
        def infer(a: TensorSpec, b: TensorSpec, *, transpose_a=False, transpose_b=False) -> TensorSpec: ...

        @staticmethod
        def kernel(a: np.ndarray, b: np.ndarray, *, transpose_a=False, transpose_b=False) -> np.ndarray: ...

        @staticmethod
        def cost(y: TensorSpec, a: TensorSpec, b: TensorSpec, *, transpose_a=False, ...) -> Cost: ...

Positional parameters are the data inputs (`*xs` for a variable number); keyword-only parameters are
attributes with the defaults of TensorFlow's op definition. A function names only the attributes it reads; the
registry passes just those, so `T` and the like need no mention. Several outputs are a tuple, in port order.
Attribute values arrive as Python objects: `bytes` attributes of the string kind are decoded to `str`, lists
are tuples, types are `DType`, shapes are `Shape`.

Kernels know no node names: they raise ThinflowError (or a plain numpy error) and the caller adds the node.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, TypeVar

from thinflow.errors import ShapeError, UnsupportedOp, closest
from thinflow.ir.attrs import PlaceholderAttr, ShapeAttr
from thinflow.ir.types import DType, TensorSpec
from thinflow.ops.traits import Role, Trait, classes, declare


@dataclass(frozen=True)
class Cost:
    """Operations of one run of a node, beyond reading its inputs and writing its outputs.

    Attributes:
        flops: floating-point (or integer) operations; one multiply-add counts as 2.
        macs: multiply-adds among them, 0 where the notion makes no sense.
    """

    flops: int = 0
    macs: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.flops + other.flops, self.macs + other.macs)


@dataclass(frozen=True)
class Weights:
    """The place and layout of the weights of an op that is linear in them.

    Attributes:
        input: its number among the inputs.
        data: input number of the activations.
        axes: weight axes that count output channels, for weights not transposed; () if an attribute tells.
        input_axis: weight axis that counts input channels.
        rank: number of weight axes.
        output_rank: number of output axes, None if it varies.
        layout: default `data_format`; "" for ops whose channels always come last.
    """

    input: int
    data: int
    axes: tuple[int, ...]
    input_axis: int
    rank: int
    output_rank: int | None
    layout: str = ""


class Handle:
    """Base of run-time objects that are no arrays: tensor arrays, lists, tables.

    The interpreter passes them on as they are.
    """

    def __repr__(self) -> str:
        """The kind alone: it goes into messages, which are the same in every run."""
        return f"<{type(self).__name__}>"


class OpDef:
    """Base of every op class.

    A missing method means "not known": infer gives unknown specs, kernel cannot run.
    """

    name: ClassVar[str] = ""
    """The first name the class was registered under."""
    names: ClassVar[tuple[str, ...]] = ()
    traits: ClassVar[Trait] = Trait(0)
    """Properties that others may want to know about the op; those of the bases are added."""
    roles: ClassVar[tuple[Role | None, ...]] = ()
    """The meaning of each input's numbers, where not any number will do."""
    decodes: ClassVar[str] = ""
    """The kind of bytes that it decodes: "a JPEG", "records"; "" of an op that decodes none."""
    num_outputs: ClassVar[int | str] = 1
    """Number of output ports, or the attribute that holds it (an int, or a list whose length counts)."""
    weights: ClassVar[Weights | None] = None

    infer: Callable[..., TensorSpec | tuple[TensorSpec, ...]] | None = None
    kernel: Callable[..., Any] | None = None
    cost: Callable[..., Cost] | None = None

    def __init_subclass__(cls) -> None:
        # A class that names traits of its own would hide those of its bases; here they add up.
        for base in cls.__bases__:
            cls.traits |= getattr(base, "traits", Trait(0))

    @classmethod
    def has(cls, traits: Trait) -> bool:
        """True if it has any of these traits."""
        return (cls.traits._value_ & traits._value_) != 0


RULE_ERRORS = (
    ValueError,
    TypeError,
    IndexError,
    ArithmeticError,
    KeyError,
    AttributeError,
    AssertionError,
)
"""Errors that rules and kernels raise, besides ThinflowError, when a node is not as its op demands: too few
inputs, an attribute of another kind, sizes that do not fit."""

D = TypeVar("D", bound=type[OpDef])


def op(*names: str) -> Callable[[D], D]:
    """Class decorator: register an OpDef under its TensorFlow op names."""

    def register(definition: D) -> D:
        definition.name = names[0]
        definition.names = names
        for name in names:
            other = classes.add(name, definition, definition.__module__)
            if other is not definition:
                raise RuntimeError(
                    f"op {name} is defined in both {other.__module__} and {definition.__module__}"
                )
        declare(names, definition.traits)
        return definition

    return register


def find(name: str) -> type[OpDef] | None:
    """The definition of an op, None for an op thinflow does not know."""
    return classes.find(name)


def get(name: str) -> type[OpDef]:
    """The definition of an op.

    Raises:
        UnsupportedOp: thinflow does not know it.
    """
    found = find(name)
    if found is None:
        near = closest(name, classes)
        raise UnsupportedOp(
            f"thinflow does not know the op {name}",
            hint=near or "add a class for it in src/thinflow/ops/, see CONTRIBUTING.md",
        )
    return found


def all_ops() -> Iterator[tuple[str, type[OpDef]]]:
    """Every registered name with its class, sorted by name."""
    return iter(sorted(classes.items()))


@dataclass(frozen=True)
class Signature:
    """Parameters of a function of an OpDef."""

    positional: tuple[str, ...]
    variadic: bool
    attrs: Mapping[str, Any]
    """Keyword-only parameters with their defaults; `inspect.Parameter.empty` where the attribute is required.
    """


@cache
def signature(function: Callable[..., Any]) -> Signature:
    """The parameters of an OpDef's function, split into inputs and attributes."""
    positional: list[str] = []
    attrs: dict[str, Any] = {}
    variadic = False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            variadic = True
        elif parameter.kind is parameter.KEYWORD_ONLY:
            attrs[parameter.name] = parameter.default
        else:
            positional.append(parameter.name)
    return Signature(tuple(positional), variadic, attrs)


def select_attrs(function: Callable[..., Any], attrs: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes a function reads, of all that a node has; absent ones are left to its defaults.

    Raises:
        ShapeError: an attribute without a default is absent.
    """
    chosen: dict[str, Any] = {}
    for name, default in signature(function).attrs.items():
        if name in attrs:
            # In the body of a function `$T` stands for what each caller passes.
            if isinstance(attrs[name], PlaceholderAttr):
                raise UnsupportedOp(f"the attribute '{name}' is filled in by the caller of the function")
            chosen[name] = as_argument(attrs[name])
        elif default is inspect.Parameter.empty:
            raise ShapeError(
                f"the attribute '{name}' is missing", hint=f"add '{name}' to the node; TensorFlow requires it"
            )
    return chosen


def as_argument(value: Any) -> Any:
    """An attribute as rules and kernels see it: byte strings as text, shapes as plain tuples or None."""
    if isinstance(value, bytes):
        # Strings of attributes are names of modes and formats; what is not UTF-8 matches none of them.
        return value.decode("utf-8", "replace")
    if isinstance(value, ShapeAttr):
        return value.dims
    return tuple(as_argument(v) for v in value) if isinstance(value, tuple) else value


def require(condition: bool, problem: str, hint: str = "") -> None:
    """Raise ShapeError(problem) unless the condition holds. For use inside infer and kernel."""
    if not condition:
        raise ShapeError(problem, hint=hint)


def call_infer(
    definition: type[OpDef], inputs: Sequence[TensorSpec], attrs: Mapping[str, Any]
) -> tuple[TensorSpec, ...]:
    """Run a shape rule; the result is a tuple with one spec per output port, () if there is no rule.

    Raises:
        ShapeError: the inputs do not fit, or an attribute that the rule hands on is of another kind.
    """
    if definition.infer is None:
        return ()
    result = definition.infer(*inputs, **select_attrs(definition.infer, attrs))
    specs = result if isinstance(result, tuple) else (result,)
    # Rules hand attributes on as types and shapes; a damaged file may have anything there.
    for spec in specs:
        require(
            isinstance(spec.dtype, DType | None) and isinstance(spec.shape, tuple | None),
            "an attribute that says the type or the shape is of another kind",
            "the file is damaged; export it again",
        )
    return specs


def call_kernel(definition: type[OpDef], inputs: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Any, ...]:
    """Run a kernel; the result is always a tuple with one array per output port.

    Raises:
        UnsupportedOp: the op has no kernel.
    """
    if definition.kernel is None:
        raise UnsupportedOp(
            f"thinflow cannot run {definition.name} yet",
            hint="leave it out with --outputs or --inputs; developers add a kernel in src/thinflow/ops/",
        )
    result = definition.kernel(*inputs, **select_attrs(definition.kernel, attrs))
    return result if isinstance(result, tuple) else (result,)


def call_cost(
    definition: type[OpDef],
    outputs: Sequence[TensorSpec],
    inputs: Sequence[TensorSpec],
    attrs: Mapping[str, Any],
) -> Cost:
    """Cost of one run. Ops without a rule cost one operation per output element.

    `cost` gets the first output's spec (`y`), then the inputs; asked only when every size is known.
    """
    known = all(s.is_static for s in (*outputs[:1], *inputs))
    # An op with a rule but open sizes costs 0, not a guess.
    if definition.cost is None or not known:
        return Cost(
            flops=sum(s.size or 0 for s in outputs)
            if definition.cost is None and not definition.has(Trait.PASSES_THROUGH)
            else 0
        )
    return definition.cost(outputs[0], *inputs, **select_attrs(definition.cost, attrs))
