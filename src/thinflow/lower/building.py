"""The base of all targets' builders: names, types, shapes, constants, and small steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from thinflow.errors import ShapeError, UnsupportedOp
from thinflow.ir.graph import Node, Value
from thinflow.ir.types import FLOAT, INT32, UNKNOWN, DType, TensorSpec, dtype
from thinflow.lower.operands import axes_of
from thinflow.lower.slots import Slot
from thinflow.ops import registry
from thinflow.ops._shapes import broadcast
from thinflow.program import model
from thinflow.program.model import Dims, O, T
from thinflow.typing import Array

MISFIT = "sizes do not fit"
"""How a refusal begins whose cause is a model that contradicts itself."""

B = TypeVar("B", bound="Building[Any, Any]")

CUT_OFF = "no engine here has it either: cut it off with --inputs or --outputs"
"""What to do about an op that nothing knows."""
REFUSED = "REFUSED"
"""Code of an operator that stands for a node the target cannot express."""
# Shapes, axes and the like are small; elements of larger tensors are not followed.
_MAX_ELEMENTS = 64
# Each factor is an operator more.
_MAX_EXPONENT = 8


_SAME: Any = object()


class Building(Generic[T, O]):
    """Collects the operators of one program, node by node; enough for a target without needs of its own.

    Attributes:
        operators: in the order they run.
        origin: tensor -> name of the value it stands for, or of the node that needs it.
        TENSOR, OPERATOR: the classes of the program's parts.
        INDEX: the integer type in which the target counts places.
    """

    TENSOR: ClassVar[type[Any]] = model.Tensor
    OPERATOR: ClassVar[type[Any]] = model.Operator
    INDEX: ClassVar[DType] = INT32

    def __init__(self, specs: Mapping[Value, TensorSpec] | None = None) -> None:
        self.operators: list[O] = []
        self.origin: dict[T, str] = {}
        self._given = specs or {}
        self._refined: dict[Value, TensorSpec] = {}
        self._known: dict[model.Tensor, TensorSpec] = {}
        self._names: set[str] = set()
        self._node: Node | None = None

    # --- what a target may say otherwise ------------------------------------------------------------------

    def plain(self, element: DType) -> DType:
        """The type in which the target holds a TensorFlow type."""
        return element

    def type_of_result(self, code: str, inputs: Sequence[T | None]) -> DType:
        """The type of what an operator gives, unless it is said."""
        return next(t.dtype for t in inputs if t is not None)

    def code_of(self, op: str) -> str:
        """The operator for an op of TensorFlow, elementwise, of which formulas are made."""
        return op

    def formula(self, code: str, *operands: T, element: DType) -> T:
        """The result, of some type, of an operator in a formula; its operands broadcast."""
        return self.step(code, *operands, element=element)

    def transpose(self, x: T, order: tuple[int, ...], shape: Dims) -> T:
        """The operator behind `transposed`."""
        return self.step("transpose", x, shape=shape, order=order)

    def reshape(self, x: T, sizes: Sequence[int], shape: Dims, suffix: str) -> T:
        """The operator behind `reshaped`, with -1 for one size that is not known."""
        return self.step("reshape", x, shape=shape, suffix=suffix, sizes=tuple(sizes))

    def convert(self, x: T, element: DType) -> T:
        """The operator behind `cast`."""
        return self.step("cast", x, shape=x.shape, element=element)

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

    def tensor_spec(self, tensor: Slot) -> TensorSpec:
        """The spec of what stands for a value, small integer constants with their elements."""
        if not isinstance(tensor, model.Tensor):
            return TensorSpec(tensor.dtype, tensor.shape)
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
        self.operators.append(self.OPERATOR(code, list(inputs), outputs, options, self.node.name))
        return outputs

    def step(
        self,
        code: str,
        *inputs: T | None,
        shape: Dims = _SAME,
        element: DType | None = None,
        suffix: str = "",
        **options: Any,
    ) -> T:
        """An operator on the way.

        Args:
            shape: of its output; default: what its inputs broadcast to.
            element: type of its output; default: that of its first input, or what the target says.
            suffix: of the output's name; default: the code.
        """
        if shape is _SAME:
            shape = _broadcast(inputs)
        return self.step_ports(code, *inputs, shapes=[shape], elements=[element], suffix=suffix, **options)[0]

    def step_ports(
        self,
        code: str,
        *inputs: T | None,
        shapes: Sequence[Dims],
        elements: Sequence[DType | None],
        suffix: str = "",
        **options: Any,
    ) -> tuple[T, ...]:
        """As `step`, with several outputs."""
        default = self.type_of_result(code, inputs)
        outputs = [
            self.own(suffix or code.lower(), shape, element or default)
            for shape, element in zip(shapes, elements, strict=True)
        ]
        return tuple(self.append(code, inputs, outputs, options))

    def refuse(self, error: UnsupportedOp, ports: int, inputs: Sequence[T] = ()) -> tuple[T, ...]:
        """Tensors nothing can compute from `inputs`: an error that counts only if somebody reads them."""
        # Any type will do: nothing computes it. The builder's own `value` would refuse types that the target
        # lacks.
        like = self.TENSOR("", None, FLOAT)
        outputs = [Building.value(self, self.node.output(port), like=like) for port in range(ports)]
        self.operators.append(self.OPERATOR(REFUSED, list(inputs), outputs, {"error": error}, self.node.name))
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
            raise self._unknown_type(value)
        tensor = self._tensor(value.name, spec.shape, found)
        self._known[tensor] = spec
        self.origin[tensor] = value.name
        return tensor

    def _unknown_type(self, value: Value) -> UnsupportedOp:
        """Why a type is unknown: mostly sizes that do not fit, at this node or at one before it."""
        from thinflow.analysis.shapes import infer_node

        node, seen = value.node, {value.node}
        while before := [v.node for v in node.inputs if self.spec(v).dtype is None and v.node not in seen]:
            if registry.find(node.op) is None:
                break
            node = before[0]
            seen.add(node)
        try:
            infer_node(node, [self.spec(v) for v in node.inputs])
        except ShapeError as error:
            place = "" if node is value.node else f" at {node.where}"
            return UnsupportedOp(f"{MISFIT}{place}: {error.problem}", hint="give others with --shape")
        if registry.find(node.op) is None:
            why = f"the type of '{value.name}' is not known, as nothing here knows the op {node.op}"
            return UnsupportedOp(why, hint=CUT_OFF)
        return UnsupportedOp(f"the type of '{value.name}' is not known", hint="give the types of the inputs")

    def constant(self, value: Value, array: Array, element: DType) -> T:
        """A constant that stands for a value of the graph; the array is shared."""
        tensor = self._tensor(value.name, tuple(array.shape), element, array)
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
        tensor = self._tensor(f"{self.node.name}/{suffix}", shape, element, data)
        self.origin[tensor] = self.node.name
        return tensor

    def _tensor(self, name: str, shape: Dims, element: DType, data: Array | None = None) -> T:
        tensor: T = self.TENSOR(self.unique(name), shape, self.plain(element), data)
        return tensor

    def unique(self, wished: str) -> str:
        """A name nobody else has."""
        name, count = wished, 0
        while name in self._names:
            count += 1
            name = f"{wished}_{count}"
        self._names.add(name)
        return name

    # --- small steps --------------------------------------------------------------------------------------

    def ints(self, values: Iterable[int], suffix: str = "const") -> T:
        """A constant [n] of the type of places."""
        return self.const(np.array(list(values), self.INDEX.numpy()), suffix)

    def index(self, x: T) -> T:
        """An integer tensor in the type of places."""
        return self.cast(x, self.INDEX)

    def cast(self, x: T, element: DType) -> T:
        """x in another type; converted now if it is constant."""
        element = self.plain(element)
        if x.dtype is element:
            return x
        if x.is_constant:
            # What does not fit has no defined result in any runtime: not worth a warning here.
            with np.errstate(all="ignore"):
                return self.const(x.array().astype(element.numpy()), "cast", element)
        return self.convert(x, element)

    def transposed(self, x: T, order: Sequence[int]) -> T:
        """The axes in another order; a view of a constant."""
        if tuple(order) == tuple(range(len(order))):
            return x
        if x.is_constant:
            return self.const(x.array().transpose(order), "transposed", x.dtype)
        shape = None if x.shape is None else tuple(x.shape[a] for a in order)
        return self.transpose(x, tuple(order), shape)

    def reshaped(self, x: T, shape: Sequence[int | None], *, suffix: str = "") -> T:
        """The same elements in another shape, of which one size may be None; a view of a constant."""
        sizes = [-1 if n is None else n for n in shape]
        if x.is_constant:
            return self.const(x.array().reshape(sizes), "reshaped", x.dtype)
        # Shapes that are equal but for an unknown size may still differ in it.
        if x.shape == tuple(shape) and None not in shape:
            return x
        return self.reshape(x, sizes, tuple(shape), suffix)


def _broadcast(inputs: Sequence[model.Tensor | None]) -> Dims:
    try:
        return broadcast(*(t.shape for t in inputs if t is not None))
    except ShapeError:
        return None


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
