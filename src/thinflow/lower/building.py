"""The base of all targets' builders: names, types, shapes and constants of a graph's values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Node, Value
from thinflow.ir.types import FLOAT, UNKNOWN, DType, TensorSpec, dtype
from thinflow.lower.operands import axes_of
from thinflow.program.model import Operator
from thinflow.typing import Array

Dims = tuple[int | None, ...] | None
T = TypeVar("T", bound=Any)

REFUSED = "REFUSED"
"""Code of an operator that stands for a node the target cannot express."""
# Shapes, axes and the like are small; elements of larger tensors are not followed.
_MAX_ELEMENTS = 64
# Each factor is an operator more.
_MAX_EXPONENT = 8


class Building(Generic[T]):
    """Collects the operators of one program, node by node; enough for a target without needs of its own.

    Attributes:
        operators: in the order they run.
        origin: tensor -> name of the value it stands for, or of the node that needs it.
    """

    def __init__(
        self,
        new_tensor: Callable[..., T],
        specs: Mapping[Value, TensorSpec] | None = None,
        new_operator: Callable[..., Any] = Operator,
    ) -> None:
        self.operators: list[Any] = []
        self._new_operator = new_operator
        self.origin: dict[T, str] = {}
        self._new_tensor = new_tensor
        self._given = specs or {}
        self._refined: dict[Value, TensorSpec] = {}
        self._known: dict[T, TensorSpec] = {}
        self._names: set[str] = set()
        self._node: Node | None = None

    # --- what is known ------------------------------------------------------------------------------------

    def spec(self, value: Value) -> TensorSpec:
        """Type and shape of a value of the graph."""
        refined = self._refined.get(value)
        return self._given.get(value, value.spec) if refined is None else refined

    def refine(self, value: Value, spec: TensorSpec) -> None:
        """Add what is known of a value's shape now that more constants are known."""
        old = self.spec(value)
        # Only what says more: an op's own rule may know less than the shapes that were given.
        if old.shape is None or (spec.shape is not None and spec.shape.count(None) < old.shape.count(None)):
            self._refined[value] = TensorSpec(
                old.dtype or spec.dtype, spec.shape, old.elements or spec.elements
            )

    def tensor_spec(self, tensor: T) -> TensorSpec:
        """The spec of a tensor, small integer constants with their elements."""
        if not tensor.is_constant:
            return self._known.get(tensor, TensorSpec(tensor.dtype, tensor.shape))
        array = np.asarray(tensor.array())
        # Shape inference follows whole numbers only.
        is_small = array.size <= _MAX_ELEMENTS and tensor.dtype.kind in "iub"
        return TensorSpec(
            tensor.dtype, tensor.shape, tuple(map(int, array.ravel().tolist())) if is_small else None
        )

    def elements(self, tensor: T) -> tuple[int | None, ...] | None:
        """A small integer tensor's elements as far as they are known; see `TensorSpec.elements`."""
        if tensor.is_constant:
            return tuple(int(v) for v in np.asarray(tensor.array()).ravel().tolist())
        return self._known.get(tensor, UNKNOWN).elements

    def result_spec(self, port: int = 0) -> TensorSpec:
        """Type and shape of an output of the current node."""
        return self.spec(self.node.output(port))

    @property
    def node(self) -> Node:
        """The node being lowered."""
        assert self._node is not None, "begin() comes first"
        return self._node

    def axes(self, axes: T, rank: int | None, what: str = "axis") -> tuple[int, ...]:
        """As `operands.axes_of`."""
        return axes_of(axes, rank, what)

    # --- operators ----------------------------------------------------------------------------------------

    def emit(self, code: str, *inputs: T | None, port: int = 0, like: T | None = None, **options: Any) -> T:
        """The operator that computes an output of the node; `like` lends its type where none is known."""
        return self.append(code, inputs, [self.value(self.node.output(port), like=like)], options)[0]

    def emit_ports(self, code: str, *inputs: T | None, count: int, **options: Any) -> tuple[T, ...]:
        """The operator that computes outputs 0 to `count` - 1 of the current node."""
        outputs = [self.value(self.node.output(port)) for port in range(count)]
        return tuple(self.append(code, inputs, outputs, options))

    def append(
        self, code: str, inputs: Sequence[T | None], outputs: list[T], options: dict[str, Any]
    ) -> list[T]:
        """An operator with tensors made before; `outputs`."""
        self.operators.append(self._new_operator(code, list(inputs), outputs, options, self.node.name))
        return outputs

    def refuse(self, error: UnsupportedOp, ports: int, inputs: Sequence[T] = ()) -> tuple[T, ...]:
        """Tensors nothing can compute from `inputs`: an error that counts only if somebody reads them."""
        # Any type will do: nothing computes it. The builder's own `value` would refuse types that the target
        # lacks.
        like = self._new_tensor("", None, FLOAT)
        outputs = [Building.value(self, self.node.output(port), like=like) for port in range(ports)]
        self.operators.append(
            self._new_operator(REFUSED, list(inputs), outputs, {"error": error}, self.node.name)
        )
        return tuple(outputs)

    # --- tensors ------------------------------------------------------------------------------------------

    def begin(self, node: Node) -> None:
        """Make `node` the owner of what is emitted from now on."""
        self._node = node

    def value(self, value: Value, *, like: T | None = None, element: DType | None = None) -> T:
        """A new tensor that stands for a value of the graph, with its name, type and shape.

        Raises:
            UnsupportedOp: the type is unknown.
        """
        spec = self.spec(value)
        found = element or spec.dtype or (like.dtype if like is not None else None)
        if found is None:
            raise UnsupportedOp(
                f"the type of '{value.name}' is not known", hint="give the types of the inputs"
            )
        tensor = self._new_tensor(self.unique(value.name), spec.shape, found)
        self._known[tensor] = spec
        self.origin[tensor] = value.name
        return tensor

    def constant(self, value: Value, array: Array, element: DType) -> T:
        """A constant that stands for a value of the graph; the array is shared."""
        tensor = self._new_tensor(self.unique(value.name), tuple(array.shape), element, array)
        self.origin[tensor] = value.name
        return tensor

    def const(self, array: Any, suffix: str = "const", element: DType | None = None) -> T:
        """A constant of the current node's own; the array is shared."""
        array = np.asarray(array)
        return self.own(suffix, tuple(array.shape), element or dtype(array.dtype), array)

    def scalar(self, number: float, like: T, suffix: str = "const") -> T:
        """A constant [] of the type of `like`."""
        return self.const(np.array(number, like.dtype.numpy()), suffix, like.dtype)

    def own(self, suffix: str, shape: Dims, element: DType, data: Array | None = None) -> T:
        """A tensor of the current node's own."""
        # The node's name goes before, so that reports and profiles can tell where it comes from.
        tensor = self._new_tensor(self.unique(f"{self.node.name}/{suffix}"), shape, element, data)
        self.origin[tensor] = self.node.name
        return tensor

    def unique(self, wished: str) -> str:
        """A name nobody else has."""
        name, count = wished, 0
        while name in self._names:
            count += 1
            name = f"{wished}_{count}"
        self._names.add(name)
        return name


def whole_exponent(elements: tuple[int | None, ...] | None, shape: Dims) -> int:
    """The exponent of a power of integers that is a product of a few factors.

    Args:
        elements, shape: what is known of the exponent.

    Raises:
        UnsupportedOp: it is not one small number that is known and above 0.
    """
    if shape == () and elements is not None:
        (exponent,) = elements
        if exponent is not None and 1 <= exponent <= _MAX_EXPONENT:
            return exponent
    raise UnsupportedOp(f"powers of integers have a form for a fixed exponent of 1 to {_MAX_EXPONENT} only")
