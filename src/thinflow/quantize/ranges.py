"""From observed ranges to one scale and zero point per tensor, tied where the kernels want them tied."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from thinflow.ir.brief import brief_repr
from thinflow.lower.tflite.program import Operator, Subgraph, Tensor
from thinflow.quantize.arithmetic import EIGHT, Arithmetic
from thinflow.quantize.kernels import CLAMPS, FUSED, Fixed
from thinflow.quantize.placement import Placement, float_inputs, float_outputs, is_float

MIN_WIDTH = 1e-6  # of a range, relative to max(1, its high end)
NARROW = 8.0  # a tied range this many times narrower than its class loses 3 of its 8 bits
UNEQUAL = 16.0  # times one part of a sum may be wider than the other


class Range(NamedTuple):
    """An interval of real numbers and who proposed it."""

    low: float
    high: float
    observer: str = ""

    def union(self, other: Range) -> Range:
        """The smallest range that holds both."""
        return self._replace(low=min(self.low, other.low), high=max(self.high, other.high))

    @property
    def width(self) -> float:
        """Length, zero included in the range."""
        return max(self.high, 0.0) - min(self.low, 0.0)


@dataclass(frozen=True)
class Parameters:
    """real = scale * (code - zero_point).

    Attributes:
        scale: a float32 value, normal and positive.
        zero_point: a code; 0 in symmetric arithmetic.
        range: what was asked for, before it was widened to contain zero.
        reason: where it comes from.
    """

    scale: float
    zero_point: int
    range: Range
    reason: str
    arithmetic: Arithmetic = EIGHT

    def codes(self, values: np.ndarray) -> np.ndarray:
        """Nearest codes of some values, ties to even; copies."""
        return self.arithmetic.codes(values, self.scale, self.zero_point)


def parameters_for(wanted: Range, reason: str = "observed", arithmetic: Arithmetic = EIGHT) -> Parameters:
    """Parameters whose codes span a range; zero is always a code.

    An empty range gets scale 1, a tiny one is widened: a scale near the smallest float would overflow the
    kernels' integer factors.
    """
    low, high = min(wanted.low, 0.0), max(wanted.high, 0.0)
    if high - low <= 0:
        return Parameters(1.0, 0, wanted, f"{reason}; it is always 0", arithmetic)
    smallest = MIN_WIDTH * max(1.0, abs(high))
    if high - low < smallest:
        low, high = (low, low + smallest) if high > 0 else (high - smallest, high)
    if arithmetic.is_symmetric:
        return Parameters(float(np.float32(max(-low, high) / arithmetic.high)), 0, wanted, reason, arithmetic)
    scale = (high - low) / (arithmetic.high - arithmetic.low)
    zero_point = int(np.clip(np.rint(arithmetic.low - low / scale), arithmetic.low, arithmetic.high))
    return Parameters(float(np.float32(scale)), zero_point, wanted, reason, arithmetic)


def fixed_parameters(fixed: Fixed, code: str, arithmetic: Arithmetic = EIGHT) -> Parameters:
    """The parameters that an op's kernel dictates for its output."""
    low = fixed.scale * (arithmetic.low - fixed.zero_point)
    high = fixed.scale * (arithmetic.high - fixed.zero_point)
    dictated = Range(low, high, "fixed")
    return Parameters(fixed.scale, fixed.zero_point, dictated, f"{code} always has these", arithmetic)


@brief_repr
@dataclass
class Assignment:
    """Parameters of every tensor that some integer operator reads or writes.

    Attributes:
        of: by tensor.
        tied_as: for outputs with fixed parameters, those that operators which tie them to others must read.
        warnings: classes in which a member loses much of its precision.
    """

    of: dict[Tensor, Parameters] = field(default_factory=dict)
    tied_as: dict[Tensor, Parameters] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


class _Classes:
    """Union-find over tensors; insertion order is kept, so results do not depend on hashes."""

    def __init__(self) -> None:
        self.parent: dict[Tensor, Tensor] = {}

    def find(self, tensor: Tensor) -> Tensor:
        self.parent.setdefault(tensor, tensor)
        while self.parent[tensor] is not tensor:
            self.parent[tensor] = tensor = self.parent[self.parent[tensor]]
        return tensor

    def join(self, tensors: list[Tensor]) -> None:
        for tensor in tensors[1:]:
            self.parent[self.find(tensor)] = self.find(tensors[0])

    def groups(self) -> list[list[Tensor]]:
        members: dict[Tensor, list[Tensor]] = {}
        for tensor in self.parent:
            members.setdefault(self.find(tensor), []).append(tensor)
        return list(members.values())


def assign(
    subgraph: Subgraph,
    placement: Placement,
    observed: Mapping[Tensor, Range],
    arithmetic: Arithmetic = EIGHT,
) -> Assignment:
    """Parameters for all tensors at integer operators, from the ranges of the tensors alone. O(tensors)."""
    integer = [o for o, why in placement.items() if not why]
    wanted = _wanted_ranges(subgraph, placement, observed, arithmetic)
    classes = _Classes()
    for operator in integer:
        tensors = [*float_outputs(operator), *float_inputs(operator)]
        for tensor in tensors:
            classes.find(tensor)
        if arithmetic.kernels[operator.code].tied:
            classes.join(tensors)
            for constant in operator.inputs:
                if constant is not None and is_float(constant) and constant.is_constant and tensors:
                    wanted[tensors[0]] = wanted[tensors[0]].union(constant_range(constant))
    result = Assignment()
    # Symmetric codes do not saturate at 0.
    absorbed = {} if arithmetic.is_symmetric else _absorb_clamps(subgraph, integer, classes, arithmetic)
    writers = {t: o for o in integer for t in float_outputs(o)}
    for members in classes.groups():
        _assign_class(members, wanted, writers, absorbed, arithmetic, result)
    result.warnings += _unequal_sums(integer, result)
    return result


def _unequal_sums(integer: list[Operator], result: Assignment) -> list[str]:
    """Sums in which rounding hides one of the two parts."""
    found = []
    for operator in integer:
        parts = [t for t in float_inputs(operator) if t in result.of]
        if operator.code in {"ADD", "SUB"} and len(parts) == 2:
            small, large = sorted(parts, key=lambda t: result.of[t].scale)
            ratio = result.of[large].scale / result.of[small].scale
            if ratio > UNEQUAL:
                found.append(
                    f"{operator.code} '{operator.outputs[0].name}': '{large.name}' spans {ratio:.0f} times as"
                    f" much as '{small.name}', which is mostly rounded away"
                )
    return found


def constant_range(tensor: Tensor) -> Range:
    """Extremes of a constant; O(its elements)."""
    data = np.asarray(tensor.array())
    return (
        Range(float(data.min()), float(data.max()), "constant") if data.size else Range(0.0, 0.0, "constant")
    )


def _assign_class(
    members: list[Tensor],
    wanted: Mapping[Tensor, Range],
    writers: Mapping[Tensor, Operator],
    absorbed: Mapping[Tensor, str],
    arithmetic: Arithmetic,
    result: Assignment,
) -> None:
    """One class of tied tensors. A fixed output rules it if all of it fits; else it is requantized."""
    kernels = arithmetic.kernels
    fixed = {t: f for t in members if t in writers and (f := kernels[writers[t].code].fixed) is not None}
    ranges = {t: wanted[t] for t in members if t not in absorbed}
    union = next(iter(ranges.values()))
    for one in ranges.values():
        union = union.union(one)
    if fixed:
        first = next(iter(fixed))
        parameters = fixed_parameters(fixed[first], writers[first].code, arithmetic)
        slack = parameters.scale
        fits = parameters.range.low - slack <= union.low and union.high <= parameters.range.high + slack
        if len(set(fixed.values())) == 1 and fits:
            result.of.update(dict.fromkeys(members, parameters))
            return
    bits = 8 * arithmetic.activation.itemsize
    shared = f"shared by {len(members)} tensors" if len(members) > 1 else "observed"
    parameters = parameters_for(union, shared, arithmetic)
    for tensor in members:
        if tensor in fixed:
            result.of[tensor] = fixed_parameters(fixed[tensor], writers[tensor].code, arithmetic)
            result.tied_as[tensor] = parameters
        else:
            result.of[tensor] = parameters
        own = wanted[tensor].width
        if tensor not in absorbed and 0 < own * NARROW < union.width:
            result.warnings.append(
                f"'{tensor.name}' spans {own:.4g} but shares the scale of a range of {union.width:.4g}"
                f" and keeps {bits - math.log2(union.width / own):.1f} of {bits} bits"
            )


def _wanted_ranges(
    subgraph: Subgraph, placement: Placement, observed: Mapping[Tensor, Range], arithmetic: Arithmetic
) -> dict[Tensor, Range]:
    """The observed ranges, cut to what fused activations pass and saturating readers distinguish."""
    wanted = dict(observed)
    for operator in placement:
        fused = operator.options.get("fused_activation_function", "NONE")
        clamp = FUSED.get(operator.code if operator.code in CLAMPS else fused)
        if clamp is not None:
            wanted |= {t: _cut(wanted[t], *clamp) for t in operator.outputs if t in wanted}
    consumers = subgraph.consumers()
    for tensor in list(wanted):
        readers = {o.code for o, _ in consumers.get(tensor, ())}
        if len(readers) == 1 and tensor not in subgraph.outputs:
            limit = arithmetic.saturates.get(readers.pop())
            if limit is not None:
                wanted[tensor] = _cut(wanted[tensor], -limit, limit)
    return wanted


def _cut(wanted: Range, low: float, high: float | None) -> Range:
    inside = wanted._replace(low=max(wanted.low, low), high=max(wanted.high, low))
    return inside if high is None else inside._replace(low=min(inside.low, high), high=min(inside.high, high))


def _absorb_clamps(
    subgraph: Subgraph, integer: list[Operator], classes: _Classes, arithmetic: Arithmetic
) -> dict[Tensor, str]:
    """Let the only input of a RELU take the RELU's output range: its codes saturate, which clamps.

    Only for inputs that nothing else reads and that are tied to nothing. Joins the two tensors' classes.
    """
    absorbed: dict[Tensor, str] = {}
    consumers = subgraph.consumers()
    sizes: dict[Tensor, int] = {}
    for group in classes.groups():
        sizes[classes.find(group[0])] = len(group)
    producers = subgraph.producers()
    for operator in integer:
        if operator.code not in CLAMPS:
            continue
        x, y = operator.inputs[0], operator.outputs[0]
        if x is None or len(consumers[x]) > 1 or x in subgraph.outputs or sizes.get(classes.find(x), 0) != 1:
            continue
        producer = producers.get(x)
        kernel = arithmetic.kernels.get(producer.code) if producer is not None else None
        if kernel is not None and kernel.fixed is not None:
            continue
        absorbed[x] = operator.code
        classes.join([y, x])
    return absorbed
