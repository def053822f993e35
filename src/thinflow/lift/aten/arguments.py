"""Arguments of ATen's ops by the names of their schemas, and rules that read them.

    @aten("hardtanh")
    def hardtanh(a):
        return a.onnx("Clip", a.tensor("self"), a.like(a.number("min_val", -1.0)), ...)

PyTorch and ONNX cut networks into ops of the same kind, channels in front in both: a rule here says which of
ONNX's ops it is where there is one, whose rule then says it in TensorFlow's words. Every argument that the
file gives has to be read, whatever its value: an argument that is not known is one of a newer PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from thinflow.analysis.foreign import stated
from thinflow.decompose.terms import Term
from thinflow.errors import UnsupportedOp
from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Value
from thinflow.ir.types import DOUBLE, FLOAT, INT32, DType, TensorSpec
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.delegated import onnx_results
from thinflow.lift.onnx.formulas import Formula, Size
from thinflow.lift.onnx.values import integers, like, typed
from thinflow.lift.rules import lifts
from thinflow.typing import Array

Results = Value | list[Value]
AtenRule = Callable[["Arguments"], Results]


class Arguments:
    """The arguments of one op.

    Attributes:
        call: the op on its way.
        body: formulas in its place.
        specs: what the file says of its results.
    """

    def __init__(self, call: Call) -> None:
        self.call, self.body = call, Formula(call)
        self.specs = stated(call.node)
        names = call.node.attrs.get("_arguments", ())
        assert isinstance(names, tuple)
        self._places = {n.decode(): place for place, n in enumerate(names) if isinstance(n, bytes)}
        self._read: set[str] = set()

    # --- operands ------------------------------------------------------------------------------------------

    def has(self, name: str) -> bool:
        """True if the file gives an argument; None counts as not given."""
        self._read.add(name)
        return name in self._places or name in self.call.node.attrs

    def is_tensor(self, name: str) -> bool:
        """True if an argument is a tensor, or a number that is computed."""
        return name in self._places

    def tensor(self, name: str) -> Value:
        """A tensor.

        Raises:
            UnsupportedOp: it is not given.
        """
        self._read.add(name)
        if name not in self._places:
            raise UnsupportedOp(f"its argument '{name}' is missing")
        return self.call[self._places[name]]

    def maybe(self, name: str) -> Value | None:
        """A tensor that may be absent."""
        self._read.add(name)
        return self.tensor(name) if name in self._places else None

    def tensors(self, name: str) -> list[Value]:
        """A list of tensors."""
        found = self.optional_tensors(name)
        if any(v is None for v in found):
            raise UnsupportedOp(f"a tensor of its argument '{name}' is missing")
        return [v for v in found if v is not None]

    def optional_tensors(self, name: str) -> list[Value | None]:
        """A list of tensors, some of which may be absent."""
        count = self._option(name, 0)
        assert isinstance(count, int)
        return [self.maybe(f"{name}.{n}") for n in range(count)]

    def term(self, name: str = "self") -> Term:
        """A tensor for a formula."""
        return self.body.term(self.tensor(name))

    @property
    def x(self) -> Value:
        """The operand that ATen calls self or input, or A if it is of matrices."""
        return self.tensor(next((n for n in ("self", "A") if n in self._places), "input"))

    @property
    def rank(self) -> int:
        """The number of dimensions of that operand."""
        return len(self.body.term(self.x).shape)

    # --- options -------------------------------------------------------------------------------------------

    def _option(self, name: str, default: Attr | None) -> Attr | None:
        self._read.add(name)
        value: Attr | None = self.call.get(name)
        return default if value is None else value

    def number(self, name: str, default: float | None = None) -> float:
        """A number that is known.

        Raises:
            UnsupportedOp: it is not given and there is no default, or it is computed.
        """
        value = self._option(name, default)
        if name in self._places:
            value = self._known(name)
        if not isinstance(value, int | float):
            raise UnsupportedOp(f"its argument '{name}' is missing, or no number")
        return value

    def integer(self, name: str, default: int | None = None) -> int:
        """A whole number that is known."""
        value = self.number(name, default)
        if not isinstance(value, int):
            raise UnsupportedOp(f"its argument '{name}' is no whole number")
        return int(value)

    def _known(self, name: str) -> float:
        content = self.call.content(self.tensor(name))
        if content is None or content.size != 1:
            raise UnsupportedOp(f"its argument '{name}' is computed")
        number: float = content.reshape(()).item()
        return number

    def flag(self, name: str, default: bool = False) -> bool:
        """True or false."""
        return bool(self.number(name, default))

    def text(self, name: str, default: str = "") -> str:
        """A word."""
        value = self._option(name, default.encode())
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)

    def kind(self, name: str = "dtype") -> DType | None:
        """An element type; None if it is not given."""
        value = self._option(name, None)
        return value if isinstance(value, DType) else None

    def ints(self, name: str, default: Sequence[int] | None = None) -> list[int]:
        """Whole numbers that are all known."""
        found = self.sizes(name, default)
        known = [n for n in found if isinstance(n, int)]
        if len(known) < len(found):
            raise UnsupportedOp(f"its argument '{name}' is computed")
        return known

    def floats(self, name: str) -> list[float] | None:
        """Numbers; None if they are not given."""
        value = self._option(name, None)
        if value is None:
            return None
        if not isinstance(value, tuple):
            raise UnsupportedOp(f"its argument '{name}' is no list of numbers")
        return [float(n) for n in value if isinstance(n, int | float)]

    def sizes(self, name: str, default: Sequence[int] | None = None) -> list[Size]:
        """Whole numbers, each known or a term."""
        value = self._option(name, tuple(default) if default is not None else None)
        # One number stands for a list of one.
        value = (value,) if isinstance(value, int) else value
        if not isinstance(value, tuple):
            if name in self._places:
                return [self.size(name)]
            raise UnsupportedOp(f"its argument '{name}' is missing, or no list")
        found: list[Size] = []
        for n, each in enumerate(value):
            if f"{name}.{n}" in self._places:
                found.append(self.size(f"{name}.{n}"))
            elif isinstance(each, int):
                found.append(int(each))
            else:
                raise UnsupportedOp(f"its argument '{name}' is no list of whole numbers")
        return found

    def size(self, name: str, default: int | None = None) -> Size:
        """A whole number, known or a term of int32."""
        if name not in self._places:
            return self.integer(name, default)
        content = self.call.content(self.tensor(name))
        if content is not None and content.size == 1:
            return int(content.reshape(()).item())
        return self.body.term(self.tensor(name)).cast(INT32)

    def ignore(self, *names: str) -> None:
        """Note arguments that do not bear on the result of a run."""
        self._read.update(names)

    def axis(self, name: str = "dim", default: int | None = None, rank: int | None = None) -> int:
        """An axis of the operand, counted from the front.

        Raises:
            UnsupportedOp: there is no such axis.
        """
        return self.counted(self.integer(name, default), self.rank if rank is None else rank)

    def axes(self, name: str = "dim") -> list[int]:
        """Some axes of the operand; all of them if none is given."""
        rank = self.rank
        given = self.ints(name, ())
        return [self.counted(n, rank) for n in given] if given else list(range(rank))

    def counted(self, axis: int, rank: int) -> int:
        """An axis counted from the front."""
        if not -max(rank, 1) <= axis < max(rank, 1):
            raise UnsupportedOp(f"there is no axis {axis} among {rank}")
        return axis % max(rank, 1)

    # --- results -------------------------------------------------------------------------------------------

    def is_read(self, port: int) -> bool:
        """True if a result is read by another op, or by who runs the model."""
        outputs = self.call.node.outputs
        return port < len(outputs) and bool(outputs[port].uses or outputs[port].is_graph_output)

    @property
    def spec(self) -> TensorSpec:
        """What the file says of the first result."""
        return self.call.spec

    @property
    def dtype(self) -> DType:
        """The type of the first result."""
        return self.spec.dtype or FLOAT

    def emit(self, op: str, *inputs: Value, **attrs: Any) -> Value:
        """The first output of a new node."""
        return self.call.emit(op, *inputs, **attrs)

    def cast(self, value: Value, kind: DType | None) -> Value:
        """A value in another type."""
        if kind is None:
            return value
        own = value.dtype
        if kind.kind == "c" and own is not None and own.kind != "c":
            # Said by its parts, as few targets cast to complex numbers.
            part = DOUBLE if kind.name == "complex128" else FLOAT
            nothing = self.call.constant(np.array(0, part.numpy()))
            return self.emit("Complex", typed(self.call, value, part), nothing, Tout=kind)
        return typed(self.call, value, kind)

    def like(self, number: float | Array, value: Value | None = None) -> Value:
        """A number of a value's type, or of that of the operand."""
        return like(self.call, number, self.x if value is None else value)

    def integers(self, numbers: Sequence[int] | int) -> Value:
        """A constant of int64."""
        return integers(self.call, tuple(numbers) if isinstance(numbers, Sequence) else numbers)

    def onnx(self, op: str, *operands: Value | None, **options: Attr) -> Value:
        """The first result of one of ONNX's ops."""
        return self.onnx_results(op, *operands, count=1, **options)[0]

    def onnx_results(self, op: str, *operands: Value | None, count: int, **options: Attr) -> list[Value]:
        """The results of one of ONNX's ops in this place.

        Raises:
            UnsupportedOp: its rule refuses it.
        """
        return onnx_results(self.call, op, operands, options, count)

    def finished(self, results: Results, ignores: Iterable[str]) -> list[Value]:
        """The results, in the types that the file states.

        Raises:
            UnsupportedOp: an argument was not looked at, or shapes are not those that the file states.
        """
        given = {n for n in self.call.node.attrs if not n.startswith("_")} | set(self._places)
        # An element of a list is read with the list.
        unread = sorted(n for n in given if not {n, n.partition(".")[0]} & (self._read | set(ignores)))
        if unread:
            raise UnsupportedOp(f"its argument '{unread[0]}' is not known here")
        self.call.read_options.update(self.call.node.attrs)
        self.call.read_operands.update(range(len(self.call.xs)))
        every = results if isinstance(results, list) else [results]
        if any(self.is_read(n) for n in range(len(every), len(self.call.node.outputs))):
            raise UnsupportedOp(f"its result {len(every)} is read, which is not made here")
        return [self._agreeing(y, self.specs[n]) if n < len(self.specs) else y for n, y in enumerate(every)]

    def _agreeing(self, y: Value, said: TensorSpec) -> Value:
        ours, theirs = y.spec.shape, said.shape
        if ours is not None and theirs is not None:
            pairs = zip(ours, theirs, strict=False)
            if len(ours) != len(theirs) or any(None not in p and p[0] != p[1] for p in pairs):
                raise UnsupportedOp(f"its result would have the shape {ours}, the file states {theirs}")
        return self.cast(y, said.dtype)


def aten(*ops: str, ignores: Iterable[str] = ()) -> Callable[[AtenRule], AtenRule]:
    """Function decorator: the rule for these ops of ATen.

    Args:
        ops: without `aten.`; an overload stands behind a dot, unless it is `default`.
        ignores: arguments that do not bear on results.
    """
    names = tuple(ignores)

    def register(rule: AtenRule) -> AtenRule:
        def lifted(c: Call) -> Results:
            a = Arguments(c)
            return a.finished(rule(a), names)

        lifts(*(f"aten.{op}" for op in ops))(lifted)
        return rule

    return register


def constant(value: Value) -> Array | None:
    """The elements of a constant; None for anything else."""
    return None if value.node.tensor is None else np.asarray(value.node.tensor.numpy())
