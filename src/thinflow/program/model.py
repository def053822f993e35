"""Tensors, operators and the blocks that they form, whatever format they are of.

Tensors are objects, not numbers: an operator lists the tensors it reads and writes. Indices or unique names
are given when a file is written. A format adds what it has more of by subclasses; a target that writes text
or source code needs none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from thinflow.errors import GraphError
from thinflow.ir.brief import brief_repr
from thinflow.ir.ledger import Entry
from thinflow.ir.types import DType, TensorSpec
from thinflow.typing import Array

Dims = tuple[int | None, ...] | None
"""Sizes, None for an unknown one; None alone for an unknown rank."""


@brief_repr
@dataclass
class Quantization:
    """real = scale * (stored - zero_point), per tensor (one entry) or per slice of dimension `axis`.

    Attributes:
        scale: float32 [n].
        zero_point: int64 [n].
        axis: the dimension the entries belong to; 0 when there is one entry.
        min, max: float32 [n] ranges some writers leave behind; runtimes ignore them.
    """

    scale: Array
    zero_point: Array
    axis: int = 0
    min: Array | None = None
    max: Array | None = None

    @property
    def is_per_channel(self) -> bool:
        return len(self.scale) > 1

    @property
    def grid(self) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Scales and zero points, as what can be compared; of two that are equal codes mean the same."""
        return tuple(map(float, self.scale)), tuple(map(int, self.zero_point))


@dataclass(eq=False)
class Tensor:
    """A value of a block, or a constant. Tensors are compared by identity.

    Attributes:
        name: unique where the format says so, see `name_uniquely`.
        shape: see `Dims`.
        dtype: element type.
        data: a constant's elements, an array of the tensor's shape (of `bytes` objects for strings), or what
            the format stores, which `array` reads; None if not constant.
        quantization: how stored integers stand for real numbers.
    """

    name: str
    shape: Dims
    dtype: DType
    data: Array | memoryview | None = None
    quantization: Quantization | None = None

    @property
    def is_constant(self) -> bool:
        return self.data is not None

    def array(self) -> Array:
        """The elements of a constant; not a copy."""
        assert self.data is not None, f"{self!r} is not constant"
        import numpy as np  # late: commands that only count operators shall not wait for it

        return np.asarray(self.data)

    @property
    def size_bytes(self) -> int | None:
        """Size of the elements in memory; None if a size is not known, or the type has no fixed width."""
        return TensorSpec(self.dtype, self.shape).size_bytes

    def __repr__(self) -> str:
        sizes = "?" if self.shape is None else ",".join("?" if n is None else str(n) for n in self.shape)
        return f"Tensor({self.name!r}, {self.dtype}[{sizes}]{', constant' if self.is_constant else ''})"


T = TypeVar("T", bound=Tensor)


@dataclass(eq=False)
class Operator(Generic[T]):
    """One step of a block.

    Attributes:
        code: the op's name in the target's vocabulary.
        inputs: None for an optional input that is absent.
        outputs: tensors this operator alone writes.
        options: the op's attributes.
        origin: name of the source node it was made from.
    """

    code: str
    inputs: list[T | None]
    outputs: list[T]
    options: dict[str, Any] = field(default_factory=dict)
    origin: str = ""

    def reads(self) -> Iterator[T]:
        """The tensors it reads, once per input."""
        return (t for t in self.inputs if t is not None)

    def touched(self) -> Iterator[T]:
        """Every tensor it needs, those of absent inputs aside: what it reads, then what it writes."""
        yield from self.reads()
        yield from self.outputs

    def __repr__(self) -> str:
        names = ", ".join("-" if t is None else t.name for t in self.inputs)
        return f"{type(self).__name__}({self.code}: {names} -> {', '.join(t.name for t in self.outputs)})"


O = TypeVar("O", bound=Operator[Any])  # noqa: E741 (beside T for tensors)


class Span(NamedTuple):
    """Span of a tensor in memory: from the operator that writes it to the last one that reads it.

    Attributes:
        start: number of the operator; -1 for an input.
        end: number of the operator; that of operators if the tensor is an output of the block.
    """

    start: int
    end: int


@brief_repr
@dataclass(eq=False)
class Block(Generic[T, O]):
    """Operators in the order they run, between inputs and outputs.

    Attributes:
        inputs, outputs: in order.
        operators: each after those that write what it reads.
        name: of the block; what it is for is the format's affair.
        left: what fusion left alone, and why.
    """

    inputs: list[T]
    outputs: list[T]
    operators: list[O] = field(default_factory=list)
    name: str = "main"
    left: list[Entry] = field(default_factory=list, repr=False)

    # --- what is there ------------------------------------------------------------------------------------

    def tensors(self) -> list[T]:
        """Every tensor once: inputs, then operator by operator what it reads and writes, then outputs."""
        seen: dict[T, None] = dict.fromkeys(self.inputs)
        for operator in self.operators:
            seen.update(dict.fromkeys(operator.touched()))
        seen.update(dict.fromkeys(self.outputs))
        return list(seen)

    def constants(self) -> list[T]:
        """Every constant once, in the order of `tensors`."""
        return [t for t in self.tensors() if t.is_constant]

    def producers(self) -> dict[T, O]:
        """Tensor -> the operator that writes it; inputs and constants are missing. O(edges)."""
        return {tensor: operator for operator in self.operators for tensor in operator.outputs}

    def consumers(self) -> dict[T, list[tuple[O, int]]]:
        """Tensor -> its readers, as (operator, input number); unread tensors are missing. O(edges)."""
        readers: dict[T, list[tuple[O, int]]] = {}
        for operator in self.operators:
            for i, tensor in enumerate(operator.inputs):
                if tensor is not None:
                    readers.setdefault(tensor, []).append((operator, i))
        return readers

    def counts(self) -> Counter[str]:
        """The number of operators of each kind."""
        return Counter(o.code for o in self.operators)

    def lifetimes(self) -> dict[T, Span]:
        """The span in which each input and each computed tensor is needed, in the order they come. O(edges).

        Two tensors whose spans have no operator in common can share their memory.
        """
        # Constants have none: they are there all the time, and share with nothing.
        spans = {tensor: Span(-1, -1) for tensor in self.inputs}
        for number, operator in enumerate(self.operators):
            for tensor in operator.reads():
                if tensor in spans:
                    spans[tensor] = Span(spans[tensor].start, number)
            for tensor in operator.outputs:
                # Written again, as variables may be, a tensor keeps its start.
                spans.setdefault(tensor, Span(number, number))
        for tensor in self.outputs:
            if tensor in spans:
                # Behind the last operator: an output has to be there when the run is over.
                spans[tensor] = Span(spans[tensor].start, len(self.operators))
        return spans

    # --- changes ------------------------------------------------------------------------------------------

    def remove_dead(self) -> None:
        """Drop operators whose results nobody reads. O(edges)."""
        live = set(self.outputs)
        kept: list[O] = []
        # Backwards, an operator's readers have all been seen before itself, so that one walk takes whole dead
        # chains.
        for operator in reversed(self.operators):
            # What has no outputs is dead, too: `tflite.variables` adds its writes when all else is done.
            if any(t in live for t in operator.outputs):
                kept.append(operator)
                live.update(operator.reads())
        self.operators = kept[::-1]

    def check_order(self, ready: Iterable[T] = ()) -> None:
        """Check that operators and outputs read only what has a value by then, and that each value is written
        once.

        Args:
            ready: what has a value from the start beside inputs and constants; it may be written again.

        Raises:
            GraphError: naming the operator and the tensor at fault.
        """
        states = set(ready)
        # Constants have a value without being written; see `ready` for the others.
        known = {t for t in self.tensors() if t.is_constant} | states | set(self.inputs)
        for operator in self.operators:
            for tensor in operator.reads():
                if tensor not in known:
                    raise GraphError(f"{operator!r} reads '{tensor.name}' before anything writes it")
            for tensor in operator.outputs:
                if tensor in known and tensor not in states:
                    raise GraphError(f"{operator!r} writes '{tensor.name}', which already has a value")
                known.add(tensor)
        for tensor in self.outputs:
            if tensor not in known:
                raise GraphError(f"nothing writes the output '{tensor.name}'")


def in_running_order(operators: Iterable[O]) -> list[O]:
    """An order in which operators can run; those that already stand well stay in order. O(edges).

    Raises:
        GraphError: an operator reads what is computed from its own result.
    """
    operators = list(operators)
    producers = {t: o for o in operators for t in o.outputs}
    done: set[O] = set()
    opened: set[O] = set()  # its producers have been put on the stack
    order: list[O] = []
    for first in operators:
        stack = [first]
        # By a stack of its own: chains of operators are longer than Python's recursion may be deep.
        while stack:
            operator = stack[-1]
            if operator in done:
                stack.pop()
                continue
            missing = [p for t in operator.reads() if (p := producers.get(t)) is not None and p not in done]
            if missing:
                # All that it waited for has run when it is on top again, but for what waits for itself.
                if operator in opened:
                    raise GraphError(f"{operator!r} reads what is computed from its own result")
                opened.add(operator)
                stack.extend(missing)
            else:
                done.add(operator)
                order.append(operator)
                stack.pop()
    return order


def name_uniquely(tensors: Iterable[Tensor], fixed: Iterable[Tensor] = ()) -> None:
    """Rename tensors that share a name, or have none; those in `fixed` keep theirs."""
    kept = set(fixed)
    names = {t.name for t in kept}
    for tensor in dict.fromkeys(tensors):
        if tensor in kept:
            continue
        wished, count = tensor.name or "tensor", 0
        # Counted up until it is free: the name with a number may be another tensor's own.
        while tensor.name in names or not tensor.name:
            count += 1
            tensor.name = f"{wished}_{count}"
        names.add(tensor.name)
