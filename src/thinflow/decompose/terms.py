"""Formulas over values of a graph, written as formulas: every operation adds a TensorFlow node."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from thinflow.analysis.shapes import infer_node
from thinflow.errors import UnsupportedOp
from thinflow.ir.attrs import Attr
from thinflow.ir.function import ARGUMENT, Function
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.types import FLOAT, INT32, DType, TensorSpec
from thinflow.typing import Array

Dims = tuple[int | None, ...]


class Body:
    """The graph that a node is written as.

    Attributes:
        node: what is written, for rules that several ops share; None for the body of a loop.
        index: the integer type of the target's indices.
        ports: the outputs of the node that somebody reads; None for all.
        graph: holds nodes for the arguments, and what the rule adds; functions: those that it calls.
    """

    def __init__(
        self,
        name: str,
        node: Node | None = None,
        index: DType = INT32,
        ports: Collection[int] | None = None,
    ) -> None:
        self.node, self.index, self.ports = node, index, ports
        self.graph = Graph()
        self.name = name
        self.functions: dict[str, Function] = {}
        # Loops of the graph name their functions, and find them in its table.
        self.graph.functions = self.functions

    @property
    def op(self) -> str:
        return "" if self.node is None else self.node.op

    def is_read(self, port: int) -> bool:
        """False for an output that nobody reads: its term may be None."""
        return self.ports is None or port in self.ports

    def argument(self, index: int, spec: TensorSpec, known: Array | None = None) -> Term:
        """The term of an input of the node; its elements are known if it is constant."""
        element = spec.dtype if spec.dtype is not None else FLOAT
        node = self.graph.add(ARGUMENT, (), f"{self.name}/input_{index}", attrs={"T": element})
        value = node.output()
        # Small integer constants keep their elements, from which shapes are inferred.
        value.spec = TensorSpec(element, spec.shape, spec.elements)
        return Term(self, value, known)

    def add(
        self, op: str, inputs: Sequence[Value], /, *, ports: int = 1, **attrs: Attr | str
    ) -> tuple[Term, ...]:
        """A new node's first outputs, with types and shapes as its op's rule says."""
        # Attributes that are strings are bytes in a GraphDef.
        stored = {k: v.encode() if isinstance(v, str) else v for k, v in attrs.items()}
        node = self.graph.add(op, inputs, f"{self.name}/{op.lower()}", attrs=stored)
        # Shapes are inferred at once, so that rules can ask the terms they have made.
        specs = infer_node(node, [v.spec for v in node.inputs])
        for port in range(ports):
            node.output(port).spec = specs[port]
        return tuple(Term(self, node.output(port)) for port in range(ports))

    def constant(self, content: Any, element: DType) -> Term:
        """A new constant of a type."""
        array = np.asarray(content, element.numpy())
        value = self.graph.constant(array, f"{self.name}/const")
        (value.spec,) = infer_node(value.node, [])
        return Term(self, value, array)


TermLike: TypeAlias = "Term | float | Sequence[float] | Array"


@dataclass(frozen=True, eq=False)
class Term:
    """A tensor with arithmetic. Numbers and arrays become constants of its type.

    Attributes:
        known: its elements, if it is constant.
    """

    body: Body
    value: Value
    known: Array | None = None

    @property
    def dtype(self) -> DType:
        found = self.value.spec.dtype
        if found is None:
            raise UnsupportedOp("its type is not known", hint="give the types of the inputs")
        return found

    @property
    def shape(self) -> Dims:
        """The sizes, None where one is open.

        Raises:
            UnsupportedOp: not even the rank is known.
        """
        found = self.value.spec.shape
        if found is None:
            raise UnsupportedOp("its rank is not known", hint="give the shapes of the inputs")
        return found

    @property
    def elements(self) -> tuple[int | None, ...] | None:
        """A small integer tensor's elements as far as they are known; see `TensorSpec.elements`."""
        if self.known is not None:
            return tuple(int(n) for n in self.known.ravel().tolist())
        return self.value.spec.elements

    def ints(self, what: str) -> list[int]:
        """The elements of a constant.

        Raises:
            UnsupportedOp: they are computed while the model runs.
        """
        if self.known is None:
            raise UnsupportedOp(f"{what} is computed while the model runs, and has to be fixed")
        return [int(n) for n in self.known.ravel().tolist()]

    def static_size(self, axis: int, what: str) -> int:
        """The size of an axis.

        Raises:
            UnsupportedOp: it is open.
        """
        found = self.shape[axis]
        if found is None:
            raise UnsupportedOp(f"{what} is not known", hint="give the shapes of the inputs")
        return found

    def of(self, other: TermLike) -> Term:
        """An operand as a term of this one's type."""
        return other if isinstance(other, Term) else self.body.constant(other, self.dtype)

    def apply(self, op: str, *others: TermLike, **attrs: Any) -> Term:
        """The result of an op whose first input this is, and whose inputs have one type."""
        inputs = [self.value, *(self.of(o).value for o in others)]
        return self.body.add(op, inputs, T=self.dtype, **attrs)[0]

    def __add__(self, other: TermLike) -> Term:
        return self.apply("AddV2", other)

    def __radd__(self, other: TermLike) -> Term:
        return self.of(other) + self

    def __sub__(self, other: TermLike) -> Term:
        return self.apply("Sub", other)

    def __rsub__(self, other: TermLike) -> Term:
        return self.of(other) - self

    def __mul__(self, other: TermLike) -> Term:
        return self.apply("Mul", other)

    def __rmul__(self, other: TermLike) -> Term:
        return self.of(other) * self

    def __truediv__(self, other: TermLike) -> Term:
        return self.apply("RealDiv", other)

    def __rtruediv__(self, other: TermLike) -> Term:
        return self.of(other) / self

    def __neg__(self) -> Term:
        return self.apply("Neg")

    def __matmul__(self, other: Term) -> Term:
        """Products of matrices [..., m, k] and [..., k, n]."""
        return self.apply("BatchMatMulV2", other)

    def __lt__(self, other: Term | float) -> Term:
        return self.apply("Less", other)

    def __le__(self, other: Term | float) -> Term:
        return self.apply("LessEqual", other)

    def __gt__(self, other: Term | float) -> Term:
        return self.apply("Greater", other)

    def __ge__(self, other: Term | float) -> Term:
        return self.apply("GreaterEqual", other)

    def __and__(self, other: Term) -> Term:
        return self.body.add("LogicalAnd", [self.value, other.value])[0]

    def __or__(self, other: Term) -> Term:
        return self.body.add("LogicalOr", [self.value, other.value])[0]

    def __invert__(self) -> Term:
        return self.body.add("LogicalNot", [self.value])[0]

    def equal(self, other: TermLike) -> Term:
        return self.apply("Equal", other)

    def minimum(self, other: TermLike) -> Term:
        """The smaller of both."""
        return self.apply("Minimum", other)

    def maximum(self, other: TermLike) -> Term:
        """The larger of both."""
        return self.apply("Maximum", other)

    def clip(self, low: TermLike, high: TermLike) -> Term:
        """The nearest number between two limits."""
        return self.maximum(low).minimum(high)

    def abs(self) -> Term:
        return self.apply("Abs")

    def ones(self) -> Term:
        """1 for each element."""
        sizes = self.shape
        if None in sizes:
            return self.apply("OnesLike")
        return self.of(np.ones([n or 0 for n in sizes]))

    def descending(self) -> Term:
        """Numbers in the opposite order, each the only one of its kind; doing it twice gives x."""
        if self.dtype.kind not in "iu":
            return -self
        # The negative of the least integer is itself; of unsigned ones only that of 0 keeps its place.
        limits = np.iinfo(self.dtype.numpy())
        return (-1 if limits.min < 0 else limits.max) - self

    def square(self) -> Term:
        return self * self

    def sqrt(self) -> Term:
        return self.apply("Sqrt")

    def log(self) -> Term:
        return self.apply("Log")

    def cast(self, element: DType) -> Term:
        """The same in another type."""
        if element is self.dtype:
            return self
        return self.body.add("Cast", [self.value], SrcT=self.dtype, DstT=element)[0]

    # --- shapes -------------------------------------------------------------------------------------------

    def reduced(self, op: str, *axes: int, keep: bool = False) -> Term:
        """Sum, Prod, Max or Min over some axes."""
        over = self.body.constant(axes, INT32)
        return self.body.add(op, [self.value, over.value], T=self.dtype, Tidx=INT32, keep_dims=keep)[0]

    def sum(self, *axes: int, keep: bool = False) -> Term:
        return self.reduced("Sum", *axes, keep=keep)

    def mean(self, *axes: int, keep: bool = False) -> Term:
        return self.reduced("Mean", *axes, keep=keep)

    def split(self, count: int, axis: int) -> tuple[Term, ...]:
        """So many equal parts along an axis."""
        over = self.body.constant(axis % len(self.shape), INT32)
        return self.body.add("Split", [over.value, self.value], ports=count, T=self.dtype, num_split=count)

    def is_all(self, number: float) -> bool:
        """True if all elements are known to be a number."""
        return self.known is not None and bool((self.known == number).all())

    def expand_dims(self, axis: int) -> Term:
        """With a new axis of size 1."""
        at = self.body.constant(axis, INT32)
        return self.body.add("ExpandDims", [self.value, at.value], T=self.dtype, Tdim=INT32)[0]

    def reshape(self, sizes: Sequence[int] | Term) -> Term:
        """The same elements in another shape, in which one size may be -1."""
        to = sizes if isinstance(sizes, Term) else self.body.constant(list(sizes), INT32)
        return self.body.add("Reshape", [self.value, to.value], T=self.dtype, Tshape=to.dtype)[0]

    def matrix_transpose(self) -> Term:
        """The last two axes exchanged."""
        rank = len(self.shape)
        return self.transpose((*range(rank - 2), rank - 1, rank - 2))

    def transpose(self, order: Sequence[int]) -> Term:
        """The axes in another order."""
        to = self.body.constant(list(order), INT32)
        return self.body.add("Transpose", [self.value, to.value], T=self.dtype, Tperm=INT32)[0]

    def sizes(self) -> Term:
        """The shape at run time, int32 [rank]."""
        return self.body.add("Shape", [self.value], T=self.dtype, out_type=INT32)[0]

    def cut(self, axis: int, start: int, stop: int | None, step: int = 1) -> Term:
        """The elements from start to stop of an axis, None for its end."""
        return self.slice({axis: (start, stop, step)})

    def slice(self, parts: Mapping[int, tuple[int, int | None, int]]) -> Term:
        """The elements from start to stop, by step, of some axes; all of the others."""
        rank = len(self.shape)
        begin, end, steps = [0] * rank, [0] * rank, [1] * rank
        # A set bit takes an axis from its start or to its end: all of those that are not named.
        begin_mask = end_mask = (1 << rank) - 1
        for axis, (start, stop, step) in parts.items():
            begin[axis], end[axis], steps[axis] = start, stop or 0, step
            # Axes may be counted from the end; bits of a mask may not.
            begin_mask &= ~(1 << axis % rank)
            if stop is not None:
                end_mask &= ~(1 << axis % rank)
        operands = [self.body.constant(n, INT32).value for n in (begin, end, steps)]
        return self.body.add(
            "StridedSlice", [self.value, *operands], T=self.dtype, Index=INT32,
            begin_mask=begin_mask, end_mask=end_mask,
        )[0]  # fmt: skip

    def at(self, axis: int, place: int) -> Term:
        """One slice of an axis, which is gone then."""
        wanted = self.body.constant(place, INT32)
        return self.gather(wanted, axis)

    def gather(self, places: Term, axis: int = 0) -> Term:
        """The slices at some indices of an axis."""
        over = self.body.constant(axis % len(self.shape), INT32)
        return self.body.add(
            "GatherV2",
            [self.value, places.value, over.value],
            Tparams=self.dtype,
            Tindices=places.dtype,
            Taxis=INT32,
        )[0]

    def gather_nd(self, places: Term) -> Term:
        """The slices at some indices: as many leading axes as the last axis of `indices` is long."""
        return self.body.add(
            "GatherNd", [self.value, places.value], Tparams=self.dtype, Tindices=places.dtype
        )[0]

    def pad(self, pads: Sequence[tuple[int, int]], number: float = 0) -> Term:
        """With elements before and after on every axis."""
        counts = self.body.constant(list(pads), INT32)
        # Pad is known to more kernels than PadV2.
        if not number:
            return self.body.add("Pad", [self.value, counts.value], T=self.dtype, Tpaddings=INT32)[0]
        given = [self.value, counts.value, self.of(number).value]
        return self.body.add("PadV2", given, T=self.dtype, Tpaddings=INT32)[0]

    def reverse(self, axis: int) -> Term:
        over = self.body.constant([axis % len(self.shape)], INT32)
        return self.body.add("ReverseV2", [self.value, over.value], T=self.dtype, Tidx=INT32)[0]

    def argmax(self, axis: int) -> Term:
        """The index of the largest element along an axis, int32."""
        over = self.body.constant(axis, INT32)
        return self.body.add("ArgMax", [self.value, over.value], T=self.dtype, Tidx=INT32, output_type=INT32)[
            0
        ]


def where(condition: Term, x: Term | float, y: Term | float) -> Term:
    """x where the condition holds, else y; one of them at least is a term."""
    like = x if isinstance(x, Term) else y
    assert isinstance(like, Term)
    operands = [condition.value, like.of(x).value, like.of(y).value]
    return like.body.add("SelectV2", operands, T=like.dtype)[0]


def concat(terms: Sequence[Term], axis: int) -> Term:
    """Terms one behind the other on an axis."""
    first = terms[0]
    if len(terms) == 1:
        return first
    over = first.body.constant(axis % len(first.shape), INT32)
    values = [*(t.value for t in terms), over.value]
    return first.body.add("ConcatV2", values, T=first.dtype, Tidx=INT32, N=len(terms))[0]


def stack(terms: Sequence[Term], axis: int) -> Term:
    """Terms side by side on a new axis."""
    first = terms[0]
    return first.body.add("Pack", [t.value for t in terms], T=first.dtype, N=len(terms), axis=axis)[0]


def one_hot(places: Term, count: int, element: DType) -> Term:
    """1 at an index of a new last axis, else 0.   indices [...] -> [..., count]."""
    body = places.body
    operands = [body.constant(count, INT32), body.constant(1, element), body.constant(0, element)]
    return body.add("OneHot", [places.value, *(t.value for t in operands)], T=element, TI=places.dtype)[0]


def polynomial(x: Term, coefficients: Sequence[float]) -> Term:
    """A polynomial, highest power first."""
    # Horner's scheme: a product and a sum for each power.
    y = x * coefficients[0] + coefficients[1]
    for c in coefficients[2:]:
        y = y * x + c
    return y


def refuse_unless(condition: bool, problem: str, hint: str = "") -> None:
    """Raise UnsupportedOp unless the condition holds."""
    if not condition:
        raise UnsupportedOp(problem, hint=hint)
