"""Quantization parameters of every tensor, from observed ranges; shared where kernels want them shared."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from thinflow.ir.brief import brief_repr
from thinflow.ir.disjoint_sets import DisjointSets
from thinflow.program.model import Block, Tensor
from thinflow.quantize.kernels import Arithmetic, Fixed, Kernels, float_inputs, float_outputs
from thinflow.quantize.kernels.litert import EIGHT
from thinflow.quantize.placement import KEPT, WANTED_IN_FLOAT, Neighbours, Placement, gives_floats
from thinflow.quantize.zero_points import steps_below_zero
from thinflow.typing import Array

# Of a range, relative to max(1, its high end); see `parameters_for`.
MIN_WIDTH = 1e-6
# A range so many times narrower than the one whose scale it shares loses 3 of its 8 bits.
NARROW = 8.0
# The scale of a sum follows its wider part: at 16 times its width, 4 of the 8 bits of the other one are left.
UNEQUAL = 16.0


class Range(NamedTuple):
    """An interval of real numbers and who proposed it."""

    low: float
    high: float
    observer: str = ""

    def union(self, other: Range) -> Range:
        """The smallest range that holds both."""
        return self._replace(low=min(self.low, other.low), high=max(self.high, other.high))

    def cut(self, low: float, high: float) -> Range:
        """The part of it between two limits."""
        return self._replace(low=min(max(self.low, low), high), high=min(max(self.high, low), high))

    def centred(self, arithmetic: Arithmetic) -> Range:
        """The smallest range around it whose parameters have a zero point of 0."""
        scale = max(self.low / arithmetic.low, self.high / arithmetic.high, 0.0)
        return self._replace(low=arithmetic.low * scale, high=arithmetic.high * scale)

    @property
    def width(self) -> float:
        """Length, zero included in the range."""
        return max(self.high, 0.0) - min(self.low, 0.0)


@dataclass(frozen=True)
class Parameters:
    """real = scale * (quantized - zero_point).

    Attributes:
        scale: a float32 value, normal and positive.
        zero_point: 0 in symmetric arithmetic.
        range: what was asked for, before it was widened to contain zero.
        reason: where it comes from.
    """

    scale: float
    zero_point: int
    range: Range
    reason: str
    arithmetic: Arithmetic = EIGHT

    def quantized(self, values: Array) -> Array:
        """The nearest quantized values, ties to even; copies."""
        return self.arithmetic.quantized(values, self.scale, self.zero_point)

    def is_like(self, other: Parameters) -> bool:
        """True if the same integers stand for the same numbers."""
        return (self.scale, self.zero_point) == (other.scale, other.zero_point)

    @property
    def reach(self) -> Range:
        """The real numbers that the lowest and the highest quantized value stand for."""
        low, high = (
            (end - self.zero_point) * self.scale for end in (self.arithmetic.low, self.arithmetic.high)
        )
        return Range(low, high, self.range.observer)


def parameters_for(wanted: Range, reason: str = "observed", arithmetic: Arithmetic = EIGHT) -> Parameters:
    """Parameters whose quantized values span a range; zero is always one of them.

    An empty range gets the scale of 0..1, a tiny one is widened: a scale near the smallest float would
    overflow the kernels' integer factors, and one of 1 ends the process in kernels that compare.
    """
    low, high = min(wanted.low, 0.0), max(wanted.high, 0.0)
    if high - low <= 0:
        return zero_parameters(1 / (arithmetic.high - arithmetic.low), wanted, reason, arithmetic)
    smallest = MIN_WIDTH * max(1.0, abs(high))
    if high - low < smallest:
        # On the side where the numbers are, so that 0 stays in the range.
        low, high = (low, low + smallest) if high > 0 else (high - smallest, high)
    if arithmetic.is_symmetric:
        # The longer side decides, and the shorter one leaves integers unused: the price of a zero point of 0.
        return Parameters(float(np.float32(max(-low, high) / arithmetic.high)), 0, wanted, reason, arithmetic)
    scale = (high - low) / (arithmetic.high - arithmetic.low)
    # Where 0 lies is rounded to a step, so that zeros (padding, ReLU) are exact. The range moves by up to
    # half a step.
    zero_point = min(arithmetic.low + steps_below_zero(low, scale), arithmetic.high)
    return Parameters(float(np.float32(scale)), zero_point, wanted, reason, arithmetic)


def zero_parameters(scale: float, wanted: Range, reason: str, arithmetic: Arithmetic) -> Parameters:
    """Parameters of what is always 0, for which any scale is exact."""
    return Parameters(float(np.float32(scale)), 0, wanted, f"{reason}; it is always 0", arithmetic)


def fixed_parameters(fixed: Fixed, code: str, arithmetic: Arithmetic = EIGHT) -> Parameters:
    """The parameters that an op's kernel dictates for its output."""
    # real = scale * (quantized - zero_point), at both ends.
    low = fixed.scale * (arithmetic.low - fixed.zero_point)
    high = fixed.scale * (arithmetic.high - fixed.zero_point)
    dictated = Range(low, high, "fixed")
    return Parameters(fixed.scale, fixed.zero_point, dictated, f"{code} always has these", arithmetic)


def constant_range(tensor: Tensor) -> Range:
    """Extremes of a constant; O(its elements)."""
    data = np.asarray(tensor.array())
    return (
        Range(float(data.min()), float(data.max()), "constant") if data.size else Range(0.0, 0.0, "constant")
    )


def passes_limits(clamp: Any, kernels: Kernels, given: Range) -> bool:
    """True if a grid reaches beyond what a clamp lets through: then quantizing to it is no clamp.

    Training chooses such grids where it observed numbers before the clamp. Half a step rounds to the limit.
    """
    limits = kernels.clamp(clamp)
    if limits is None:
        return False
    half = (given.high - given.low) / (2 * (_CODES - 1))
    return given.low < limits[0] - half or given.high > limits[1] + half


_CODES = 256
# What is always 0 may have steps finer by so much than those it is computed from. Sums of int16 allow 2^14,
# and layers whose weights have steps below 1, as all have, 128.
_COARSER = 64.0


@brief_repr
@dataclass
class Assignment:
    """Parameters of every tensor that some integer operator reads or writes.

    Attributes:
        of: by tensor.
        shared_as: for outputs with fixed parameters, those that operators which share them with others read.
        absorbed: output of a clamp -> its input, which has its parameters and thus the same integers.
        warnings: tensors that lose much of their precision.
    """

    of: dict[Any, Parameters] = field(default_factory=dict)
    shared_as: dict[Any, Parameters] = field(default_factory=dict)
    absorbed: dict[Any, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def assign(
    block: Block[Any, Any],
    placement: Placement,
    observed: Mapping[Any, Range],
    kernels: Kernels,
    imported: Mapping[Any, Range] | None = None,
) -> Assignment:
    """Parameters for all tensors at integer operators, from the ranges of the tensors alone. O(tensors).

    Args:
        observed: the range of every such tensor.
        imported: ranges the model was trained with, which rule the tensors that share parameters with theirs.
    """
    return _Assigner(block, placement, kernels, {**(imported or {}), **observed}, imported or {}).result


class _Assigner:
    """Joins tensors that share parameters, and settles one set after the other."""

    def __init__(
        self,
        block: Block[Any, Any],
        placement: Placement,
        kernels: Kernels,
        observed: Mapping[Any, Range],
        imported: Mapping[Any, Range],
    ) -> None:
        self.kernels, self.imported = kernels, imported
        self.neighbours = Neighbours(block, placement)
        self.integer = [o for o, why in placement.items() if not why]
        self._is_integer = set(self.integer)
        self.wanted = dict(observed)
        self.sets: DisjointSets[Any] = DisjointSets()
        self.writers = {t: o for o in self.integer for t in float_outputs(o)}
        self.result = Assignment()
        self._centred = {
            o.inputs[n] for o in self.integer for n in kernels.table[o.code].centred if n < len(o.inputs)
        }
        self._limit_ranges(placement)
        for operator in self.integer:
            # It writes floats: its output needs no parameters.
            is_sum = gives_floats(operator, placement, kernels, self.neighbours)
            self._join(operator, [] if is_sum else float_outputs(operator))
        # Symmetric integers do not saturate at 0.
        if not kernels.arithmetic.is_symmetric:
            self._absorb_clamps()
        zeros = [members for members in self.sets.sets() if not self._settle(members)]
        for members in zeros:
            self._settle_zeros(members)
        self.result.warnings += self._unequal_sums()

    def _limit_ranges(self, placement: Placement) -> None:
        """Cut the observed ranges to what clamps pass and saturating readers distinguish."""
        kernels, wanted = self.kernels, self.wanted
        for operator in placement:
            # Of operators that stay float as well: what they write may be quantized by a reader.
            limits = kernels.clamp(operator)
            if limits is not None:
                wanted |= {t: wanted[t].cut(*limits) for t in operator.outputs if t in wanted}
        for operator in self.integer:
            known = kernels.table[operator.code].known_range
            if known is not None:
                wanted[operator.outputs[0]] = Range(*known, "fixed")
        for tensor in list(wanted):
            readers = self.neighbours.readers.get(tensor, ())
            ops = {o.code for o in readers}
            # A reader in float does distinguish them; of the model's scores, by less than steps are worth.
            is_seen_whole = tensor in self.neighbours.fetched or any(
                placement[o] not in {"", WANTED_IN_FLOAT} for o in readers
            )
            # Beyond it the only reader gives the same integer, so steps are better spent below it.
            limit = kernels.saturates.get(ops.pop()) if len(ops) == 1 and not is_seen_whole else None
            if limit is not None:
                wanted[tensor] = wanted[tensor].cut(-limit, limit)

    def _join(self, operator: Any, outputs: Sequence[Any]) -> None:
        """Note the tensors of an integer operator; join those that its kernel wants to share parameters."""
        kernels = self.kernels
        tensors = [*outputs, *kernels.computed_inputs(operator)]
        for tensor in tensors:
            self.sets.find(tensor)
        if kernels.table[operator.code].same_scale and tensors:
            self.sets.join([t for t in tensors if not self._has_other_grid(t, operator)])
            for constant in (t for t in kernels.data_inputs(operator) if t.is_constant):
                self.wanted[tensors[0]] = self.wanted[tensors[0]].union(constant_range(constant))

    def _has_other_grid(self, tensor: Any, operator: Any) -> bool:
        """True if a source file has one grid for a tensor and another one for what an operator makes of it.

        Both stay, and what the operator reads is requantized for it.
        """
        own, result = self.imported.get(tensor), self.imported.get(operator.outputs[0])
        grids = [r for r in (own, result) if r is not None and r.observer == KEPT]
        return len(set(grids)) > 1

    def _absorb_clamps(self) -> None:
        """Let the only input of a clamp take its output's range: quantized values saturate, which clamps.

        Only for inputs that nothing else reads and that share parameters with nothing. Joins both sets.
        """
        kernels, near = self.kernels, self.neighbours
        alone = {members[0] for members in self.sets.sets() if len(members) == 1}
        for operator in self.integer:
            if not kernels.table[operator.code].is_clamp:
                continue
            x, y = kernels.data_inputs(operator)[0], operator.outputs[0]
            if near.readers[x] != [operator] or x in near.fetched or x not in alone:
                continue
            if y in self.imported and passes_limits(operator, kernels, self.imported[y]):
                continue
            if self._has_other_grid(x, operator):
                continue
            # A fixed output cannot take another range, even if only the clamp reads it.
            writer = self.writers.get(x)
            if writer is None and kernels.floats_are_free:
                continue  # quantizing x is the clamp
            kernel = None if writer is None else kernels.table[writer.code]
            if kernel is None or (kernel.fixed is None and kernel.known_range is None):
                self.result.absorbed[y] = x
                self.sets.join([y, x])

    def _settle(self, members: list[Any]) -> bool:
        """One set of tensors with the same parameters: the smallest range that holds all of them.

        A fixed output rules the set if all of it fits; else it is requantized for the others. False, and
        nothing done, for a set that is always 0: its scale is free, and follows from others'.
        """
        result, kernels = self.result, self.kernels
        # What a clamp cuts off need not be representable.
        inputs_of_clamps = {result.absorbed[t] for t in members if t in result.absorbed}
        counted = [t for t in members if t not in inputs_of_clamps]
        # A range that the model was trained with is what its weights have adapted to; observed ones do not
        # widen it.
        given = [self.imported[t] for t in members if t in self.imported]
        union = _union(given or [self.wanted[t] for t in counted])
        if not given and not self._centred.isdisjoint(members):
            union = union.centred(kernels.arithmetic)
        fixed = {t: f for t in members if (f := self._fixed(t)) is not None}
        if not fixed and not given and not union.width:
            return False
        if fixed:
            parameters = next(iter(fixed.values()))
            # One step: the integers of a fixed range end at 255/256, and floats reach 1.
            slack = parameters.scale
            fits = parameters.range.low - slack <= union.low and union.high <= parameters.range.high + slack
            if len({(p.scale, p.zero_point) for p in fixed.values()}) == 1 and fits:
                result.of.update(dict.fromkeys(members, parameters))
                return True
        alone = "given by the model" if given else "observed"
        reason = f"shared by {len(members)} tensors" if len(members) > 1 else alone
        parameters = parameters_for(union, reason, kernels.arithmetic)
        for tensor in members:
            result.of[tensor] = fixed.get(tensor, parameters)
            if tensor in fixed:
                result.shared_as[tensor] = parameters
        if not given:
            result.warnings += self._narrow(counted, union)
        return True

    def _settle_zeros(self, members: list[Any]) -> None:
        """One set of tensors that are always 0: the scale that suits the kernels around them best.

        Kernels rescale by quotients of scales that are bounded on both sides. So steps are as fine as the
        finest beside it at its readers, and not much finer than those of what it is computed from.
        """
        of, kernels = self.result.of, self.kernels

        def scales(tensors: Sequence[Any]) -> list[float]:
            return [of[t].scale for t in tensors if t in of]

        writers = [self.writers[t] for t in members if t in self.writers]
        readers = [o for t in members for o in self.neighbours.readers.get(t, ()) if o in self._is_integer]
        before = scales([t for o in writers for t in kernels.computed_inputs(o)])
        beside = scales([t for o in readers for t in (*o.outputs, *kernels.computed_inputs(o))])
        wanted = self.wanted[members[0]]
        scale = min(beside or before, default=parameters_for(wanted, arithmetic=kernels.arithmetic).scale)
        if before:
            scale = max(scale, max(before) / _COARSER)
        of.update(
            dict.fromkeys(members, zero_parameters(scale, wanted, "as others around it", kernels.arithmetic))
        )

    def _fixed(self, tensor: Any) -> Parameters | None:
        """The parameters that the kernel which writes a tensor dictates."""
        writer = self.writers.get(tensor)
        if writer is None:
            return None
        fixed = self.kernels.table[writer.code].fixed
        return None if fixed is None else fixed_parameters(fixed, writer.code, self.kernels.arithmetic)

    def _narrow(self, tensors: Sequence[Any], union: Range) -> list[str]:
        """Warnings where a tensor shares the scale of a much wider one."""
        bits = 8 * self.kernels.arithmetic.activation.itemsize
        texts = []
        for tensor in tensors:
            own = self.wanted[tensor].width
            # A width of 0 is a constant zero, which every scale holds exactly.
            if 0 < own * NARROW < union.width:
                kept = bits - math.log2(union.width / own)
                texts.append(
                    f"'{tensor.name.removesuffix('/raw')}' spans {own:.4g} but shares the scale of a range of"
                    f" {union.width:.4g} and keeps {f'{kept:.1f}' if kept >= 0.05 else 'none'} of {bits} bits"
                )
        return texts

    def _unequal_sums(self) -> list[str]:
        """Sums in which rounding hides one of the two parts."""
        texts = []
        for operator in self.integer:
            parts = [t for t in float_inputs(operator) if t in self.result.of and self.wanted[t].width]
            if operator.code.upper() in {"ADD", "SUB"} and len(parts) == 2:
                small, large = sorted(parts, key=lambda t: self.result.of[t].scale)
                ratio = self.result.of[large].scale / self.result.of[small].scale
                if ratio > UNEQUAL:
                    texts.append(
                        f"{operator.code} '{operator.outputs[0].name}': '{large.name}' spans"
                        f" {ratio:.0f} times as much as '{small.name}', which is mostly rounded away"
                    )
        return texts


def _union(ranges: Sequence[Range]) -> Range:
    union = ranges[0]
    for one in ranges[1:]:
        union = union.union(one)
    return union
