"""What operators do with factors of their inputs' channels: what rules for a runtime's operators are made of.

    op(s * x) = s * op(x)        with a factor s > 0 for each channel

A tensor's factors are an array of cells (see `Cells`) that broadcasts to the tensor: its size is 1 along the
axes where factors are all the same. Rules get those of an operator's inputs and return those of its outputs:
what moves numbers about moves their factors alike, so a rule is as a kernel, on factors. A layer takes up
what its input has in its weights, and gives its output factors of its own.

    @rule("RELU", "ABS", of=RULES)
    def passes(flow, operator):
        return flow.of(input_at(operator, 0))

None refuses: such an operator has to see the numbers that it saw before.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from thinflow.program.model import Block, Tensor
from thinflow.quantize.channel_cells import Cells
from thinflow.quantize.channel_products import Products
from thinflow.quantize.kernels import Operator, input_at, is_float
from thinflow.quantize.weights import memory_key
from thinflow.typing import Array

# Products with larger constants carry factors on, and take none up: such constants are whole pictures.
LARGEST_ROW = 1 << 18

_BODY, _CONDITION = "body_subgraph_index", "cond_subgraph_index"
"""Options of LiteRT's loops."""

Factors = Array
"""Cells that broadcast to a tensor."""
Sizes = Sequence[int | None]


@dataclass(frozen=True, eq=False)
class Border:
    """A constant that takes up factors: of weights, a row of a product, or what is added to a result.

    Attributes:
        operator: that has it.
        number: of the input.
        x, y: the tensors whose factors it takes up, and makes up for; None if it does not.
        reads: factors that it is multiplied by.
        gives: factors that it is divided by.
        kind: "layer", "row" or "added".
        is_own_scale: whether each channel is read with a weight scale of its own alone.
    """

    operator: Operator
    number: int
    x: Tensor | None
    y: Tensor | None
    reads: Factors | None
    gives: Factors | None
    kind: str
    is_own_scale: bool = False

    @property
    def constants(self) -> Array:
        return np.asarray(input_at(self.operator, self.number).array())


Rule = Callable[["Flow", Operator], "Factors | Sequence[Factors] | None"]
Rules = dict[str, Rule]


def rule(*codes: str, of: Rules) -> Callable[[Rule], Rule]:
    """Function decorator: what operators of these kinds do with factors."""

    def register(function: Rule) -> Rule:
        of.update(dict.fromkeys(codes, function))
        return function

    return register


class Flow:
    """Follows factors through a block, and notes which have to be the same, or 1.

    Args:
        clamps: whether an operator does nothing but cut its input off at limits, for those who want to know
            which channels belong together, and not to rescale them; None if limits hold factors at 1.
        bodies: of loops, by the numbers that LiteRT's operators give; without them loops hold factors at 1.

    Attributes:
        borders: constants that take up factors.
        products: of two tensors.
    """

    def __init__(
        self,
        block: Block[Any, Any],
        rules: Rules,
        clamps: Callable[[Operator], bool] | None = None,
        bodies: Sequence[Block[Any, Any]] = (),
    ) -> None:
        self._rules, self._clamps, self._bodies = rules, clamps, bodies
        self.cells = Cells()
        self.borders: list[Border] = []
        self._factors: dict[Tensor, Factors] = {}
        self.products = Products(self.cells)
        self._asked: set[Tensor] = set()
        blocks = [block, *(b for b in bodies if b is not block)]
        self._shared = _shared_constants(blocks)
        self._called = Counter(
            number for b in blocks for o in b.operators if (number := o.options.get(_BODY)) is not None
        )
        self._walk(block)
        self._bind(block.outputs)
        self.products.settle()

    def _walk(self, block: Block[Any, Any]) -> None:
        for operator in block.operators:
            is_loop = self._bodies and _BODY in operator.options
            found = self._through_loop(operator) if is_loop else self._by_rule(operator)
            if found is None:
                self._bind(operator.reads())
            for tensor, factors in zip(operator.outputs, found or (), strict=False):
                self._factors[tensor] = factors

    def _through_loop(self, operator: Operator) -> Sequence[Factors] | None:
        """What a loop hands on unchanged from turn to turn has its factors inside, too: layers of the body
        take them up. All that the body makes keeps its numbers.
        """
        number = operator.options[_BODY]
        body, condition = self._bodies[number], self._bodies[operator.options[_CONDITION]]
        if self._called[number] > 1:
            return None
        # Of inputs that are one tensor nobody could tell which of them has factors.
        handed = {
            x: t
            for x, y, judged, t in zip(
                body.inputs, body.outputs, condition.inputs, operator.inputs, strict=True
            )
            if x is y and is_float(x) and t in self._factors and not _reads(condition, judged)
        }
        self._bind(t for t in operator.reads() if t not in handed.values())
        made, known = len(self.borders), set(self._factors)
        first = self.cells.fresh(1)
        self._factors.update({x: self._factors[t] for x, t in handed.items()})
        self._walk(body)
        self.cells.bind(np.arange(int(first[0]), int(self.cells.fresh(1)[0]), 2))
        self._bind(t for t in body.outputs if t not in handed)
        # Nobody sees tensors of the body in a run: what a layer there reads is known outside of it.
        for tensor in set(self._factors) - known:
            del self._factors[tensor]
        self.borders[made:] = [
            replace(b, x=self._with_factors(b.reads, handed.values()), y=None) for b in self.borders[made:]
        ]
        return [
            self._factors[t]
            if t is not None and t in handed.values()
            else np.zeros((1,) * len(y.shape or ()), np.int64)
            for t, y in zip(operator.inputs, operator.outputs, strict=True)
        ]

    def _with_factors(self, reads: Factors | None, tensors: Iterable[Tensor]) -> Tensor | None:
        """The first tensor with one of some factors that are not 1."""
        wanted = set() if reads is None else {*self.cells.roots(reads).ravel().tolist()} - {0}
        roots = ((t, self.cells.roots(self._factors[t]).ravel().tolist()) for t in tensors)
        return next((t for t, found in roots if not wanted.isdisjoint(found)), None)

    def _by_rule(self, operator: Operator) -> Sequence[Factors] | None:
        known = self._rules.get(operator.code)
        if self._clamps is not None and self._clamps(operator):
            known = _passes
        has_ranks = all(t.shape is not None for t in operator.touched() if is_float(t))
        if known is None or not has_ranks or not (is_float(operator.outputs[0]) or known is sizes):
            return None
        # Variables of LiteRT keep their numbers from run to run.
        if any(getattr(t, "is_variable", False) for t in operator.touched()):
            return None
        self._asked.clear()
        found = known(self, operator)
        # A rule may not pass over an operand: a slope of PReLU that is computed, say.
        self._bind(t for t in operator.reads() if t not in self._asked)
        found = [found] if isinstance(found, np.ndarray) else found
        # A shape that is stated wrongly is none that later rules could go by.
        if not all(_fits(f, t.shape) for f, t in zip(found or (), operator.outputs, strict=False)):
            return None
        # LiteRT's operators may cut their results at limits, which would be others for each channel.
        fused = operator.options.get("fused_activation_function", "NONE")
        if fused not in ("NONE", "RELU") and self._clamps is None:
            for factors in found or ():
                self.cells.bind(factors)
        return found

    @property
    def tensors(self) -> dict[Tensor, Factors]:
        """Computed tensors that operators gave factors."""
        return self._factors

    def _bind(self, tensors: Iterable[Tensor]) -> None:
        for tensor in tensors:
            if tensor in self._factors:
                self.cells.bind(self._factors[tensor])

    # ------------------------------------------------------------------------------------ what rules need

    def of(self, tensor: Tensor | None, rank: int | None = None) -> Factors:
        """A tensor's factors; of constants, inputs and what no rule knows, 1.

        Args:
            rank: of the result, at least that of the tensor; axes are added in front.
        """
        assert tensor is not None, "an operand that is not optional"
        self._asked.add(tensor)
        given = self._factors.get(tensor)
        if given is None:
            given = np.zeros((1,) * len(tensor.shape or ()), np.int64)
        return with_rank(given, rank or given.ndim)

    def along(self, tensor: Tensor, axis: int, size: int) -> Factors | None:
        """[size] factors of a tensor that are the same along all other axes; None if it has another size."""
        factors = self.of(tensor)
        if not factors.ndim or (tensor.shape or ())[axis] not in (None, size):
            return None
        return self.row(factors, axis, size)

    def row(self, factors: Factors, axis: int, size: int) -> Factors:
        """[size] factors along an axis, the same along all others."""
        axis %= factors.ndim
        row = self.cells.even(factors, (a for a in range(factors.ndim) if a != axis)).reshape(-1)
        return np.broadcast_to(row, (size,))

    def together(self, *parts: Factors) -> Factors:
        """The factors of all, which have to be the same; ranks are aligned at the last axis."""
        for other in parts[1:]:
            self.cells.join(parts[0], other)
        rank = max(p.ndim for p in parts)
        smallest = min(parts, key=np.size)
        return with_rank(smallest, rank)

    def reshaped(
        self, factors: Factors, before: Sequence[int | None], shape: Sequence[int | None]
    ) -> Factors:
        """Factors after a reshape, which keeps numbers in row-major order."""
        varies = [a for a, n in enumerate(factors.shape) if n > 1]
        if not varies:
            return self._bare(factors, len(shape))
        # Number i of the tensor has the factor i modulo the size of all axes from the first that varies on.
        inner = before[varies[0] :]
        for start in reversed(range(len(shape))):
            if None in inner or None in shape[start:]:
                break
            period, size = math.prod(n or 0 for n in inner), math.prod(n or 0 for n in shape[start:])
            if period and size and size % period == 0:
                row = np.broadcast_to(factors[(0,) * varies[0]], [n or 0 for n in inner]).reshape(-1)
                made = np.tile(row, size // period).reshape([n or 0 for n in shape[start:]])
                return compact(made.reshape((1,) * start + made.shape))
        return self._bare(self.cells.even(factors, varies), len(shape))

    @staticmethod
    def _bare(factors: Factors, rank: int) -> Factors:
        return factors.reshape(-1)[:1].reshape((1,) * rank)

    def joined(self, parts: Sequence[Tensor], axis: int) -> Factors | None:
        """Factors of tensors side by side."""
        given = [self.of(t) for t in parts]
        rank = given[0].ndim
        if any(len(t.shape or ()) != rank for t in parts) or not -rank <= axis < rank:
            return None
        axis %= rank
        sizes = [(t.shape or ())[axis] for t in parts]
        if all(f.shape[axis] == 1 for f in given):
            return self.together(*given)
        if None in sizes:
            return self.together(*(self.cells.even(f, [axis]) for f in given))
        wide = [max(f.shape[a] for f in given) for a in range(rank)]
        pieces = [
            np.broadcast_to(f, [n or 0 if a == axis else m for a, m in enumerate(wide)])
            for f, n in zip(given, sizes, strict=True)
        ]
        return np.concatenate(pieces, axis)

    def cut(self, x: Tensor, pieces: Sequence[Tensor], axis: int) -> list[Factors] | None:
        """Factors of pieces of a tensor, one behind the other along an axis."""
        factors, sizes = self.of(x), [(t.shape or ())[axis] for t in pieces]
        if factors.shape[axis] == 1:
            return [factors] * len(pieces)
        if None in sizes or sum(n or 0 for n in sizes) != factors.shape[axis]:
            return None
        ends = np.cumsum([n or 0 for n in sizes])[:-1].tolist()
        return list(np.split(factors, ends, axis))

    def sliced(self, x: Tensor, parts: Sequence[slice]) -> Factors | None:
        """Factors of a part of a tensor, by a slice for each axis."""
        factors = self.of(x)
        made = factors[tuple(p if n > 1 else slice(None) for p, n in zip(parts, factors.shape, strict=True))]
        return made if made.size else None

    def reduced(self, x: Tensor, axes: Iterable[int], y: Tensor) -> Factors:
        """Factors of sums, means and extremes over axes."""
        rank = len(x.shape or ())
        axes = sorted({a % rank for a in axes})
        factors = self.cells.even(self.of(x), axes)
        return factors if len(y.shape or ()) == rank else np.asarray(np.squeeze(factors, tuple(axes)))

    # ------------------------------------------------------------------------------- constants at borders

    def is_usable(self, tensor: Tensor | None) -> bool:
        """True for a float constant that may be changed."""
        if tensor is None or not tensor.is_constant or not is_float(tensor):
            return False
        data = np.asarray(tensor.array())
        # Shared ones are there once for each operator when they are rescaled: rows may be, weights not.
        return data.size == max(data.shape, default=1) or memory_key(data) not in self._shared

    def layer(
        self,
        operator: Operator,
        weights: int,
        bias: int | None,
        row: Factors | None,
        axis: int,
        takes: Array,
        gives: Array,
        *,
        is_own_scale: bool = False,
    ) -> Factors | None:
        """Factors of a layer's output, which may be any; its weights make up for those of its input.

        Args:
            weights, bias: numbers of the inputs.
            row: the factors of the input's channels; None refuses.
            axis: of the output's channels.
            takes, gives: the channel of the input and that of the output for each weight; they broadcast to
                the weights.
        """
        y = operator.outputs[0]
        rank, count = len(y.shape or ()), int(gives.max(initial=0)) + 1
        added = operator.inputs[bias] if bias is not None and bias < len(operator.inputs) else None
        if row is None or not rank or not (added is None or added.is_constant):
            return None
        fresh = self.cells.fresh(count)
        x = next((t for t in operator.reads() if not t.is_constant), None)
        self.borders.append(Border(operator, weights, x, y, row[takes], fresh[gives], "layer", is_own_scale))
        if added is not None and not self.adds(operator, bias or 0, fresh):
            self.cells.bind(fresh)
        return on_axis(fresh, axis % rank, rank)

    def adds(self, operator: Operator, number: int, factors: Factors) -> bool:
        """Note a constant that is added to what has some factors; False if it cannot take them up."""
        constant = input_at(operator, number)
        gives = fitted(factors, np.asarray(constant.array()).shape)
        if gives is None:
            return not np.asarray(constant.array()).any()
        if gives.size and not self.is_usable(constant):
            return bool(self.cells.are_bound(gives).all())
        y = operator.outputs[0]
        self.borders.append(Border(operator, number, None, y, None, gives, "added"))
        return True

    def times_row(self, operator: Operator, number: int, *, divides: bool = False) -> Factors | None:
        """Factors of a product with a constant, which takes and gives factors as a layer does."""
        x, constant = operands(operator, 1 - number, number)
        y = operator.outputs[0]
        rank = len(y.shape or ())
        data, given = np.asarray(constant.array()), self.of(x, rank)
        shape = (1,) * (rank - data.ndim) + data.shape
        # It may always carry factors on, and has to if it is one number where they differ.
        is_row = all(m > 1 or n == 1 for n, m in zip(given.shape, shape, strict=True))
        if not is_row or data.size == 1 or data.size > LARGEST_ROW or not self.is_usable(constant):
            return given
        fresh = self.cells.fresh(*shape)
        reads, gives = fitted(given, data.shape), fresh.reshape(data.shape)
        if divides:
            reads, gives = None if reads is None else reads ^ 1, gives ^ 1
        self.borders.append(Border(operator, number, x, y, reads, gives, "row"))
        return fresh


def sizes(flow: Flow, operator: Operator) -> Sequence[Factors]:
    """What tells how large a tensor is sees none of its numbers."""
    flow.of(input_at(operator, 0))
    return ()


def _passes(flow: Flow, operator: Operator) -> Factors:
    return flow.of(input_at(operator, 0))


def compact(factors: Factors) -> Factors:
    """Of size 1 along the axes where they are the same."""
    for axis in range(factors.ndim):
        first = factors.take([0], axis)
        if factors.shape[axis] > 1 and (factors == first).all():
            factors = first
    return factors


def fitted(factors: Factors, shape: Sequence[int]) -> Factors | None:
    """Factors as they lie beside a constant of this shape; None if it is one number where they differ."""
    rank = len(shape)
    if factors.ndim > rank:
        if any(n > 1 for n in factors.shape[: factors.ndim - rank]):
            return None
        factors = factors.reshape(factors.shape[factors.ndim - rank :])
    factors = with_rank(factors, rank)
    return factors if all(n in (1, m) for n, m in zip(factors.shape, shape, strict=True)) else None


def _fits(factors: Factors, shape: Sizes) -> bool:
    """True if factors broadcast to a shape."""
    sizes = zip(factors.shape, shape, strict=False)
    return factors.ndim == len(shape) and all(n == 1 or m in (None, n) for n, m in sizes)


def with_rank(factors: Factors, rank: int) -> Factors:
    """Factors with axes of size 1 in front."""
    return np.asarray(factors.reshape((1,) * (rank - factors.ndim) + factors.shape))


def operands(operator: Operator, *numbers: int) -> list[Any]:
    """Some inputs of an operator."""
    return [input_at(operator, number) for number in numbers]


def constant_numbers(tensor: Tensor | None) -> list[int] | None:
    """Integers of a constant operand; None if it is computed or absent."""
    if tensor is None or not tensor.is_constant:
        return None
    return [int(n) for n in np.asarray(tensor.array()).ravel()]


def on_axis(numbers: Array, axis: int, rank: int) -> Array:
    """A row in the shape that lies along an axis."""
    return numbers.reshape([-1 if a == axis else 1 for a in range(rank)])


def _shared_constants(blocks: Iterable[Block[Any, Any]]) -> set[tuple[Any, ...]]:
    """Constants that several operators use."""
    uses: Counter[tuple[Any, ...]] = Counter()
    for operator in (o for block in blocks for o in block.operators):
        uses.update({memory_key(t.array()) for t in operator.reads() if t.is_constant and is_float(t)})
    return {key for key, count in uses.items() if count > 1}


def _reads(block: Block[Any, Any], tensor: Tensor) -> bool:
    return tensor in block.outputs or any(tensor in operator.inputs for operator in block.operators)
