"""From observed ranges to one scale and zero point per tensor of an ONNX program, tied where need be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from thinflow.ir.brief import brief_repr
from thinflow.onnx.program import Operator, Program, Tensor
from thinflow.quantize.onnx.kernels import (
    KERNELS,
    UNIT_RANGE,
    all_reads,
    computed_inputs,
    data_inputs,
    float_outputs,
)
from thinflow.quantize.onnx.placement import Placement, clip_limits, gives_floats
from thinflow.quantize.ranges import NARROW, Parameters, Range, parameters_for

SIGMOID_SATURATES = 8.0
"""Beyond this input a sigmoid stays within one code of its limit."""


@brief_repr
@dataclass
class Assignment:
    """Parameters of every tensor whose codes some operator reads or writes.

    Attributes:
        of: by tensor; codes are numbered from -128 to 127.
        absorbed: output of a Relu or Clip -> its input, which has its parameters and thus is the same.
        warnings: tensors that lose much of their precision.
    """

    of: dict[Tensor, Parameters] = field(default_factory=dict)
    absorbed: dict[Tensor, Tensor] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def assign(
    program: Program,
    placement: Placement,
    observed: Mapping[Tensor, Range],
    imported: Mapping[Tensor, Range] | None = None,
) -> Assignment:
    """Parameters for all tensors at integer operators. O(tensors).

    Args:
        observed: the range of every such tensor.
        imported: ranges the model was trained with. They rule the tensors they are tied to.
    """
    readers = all_reads(program.operators)
    integer = [o for o in program.operators if placement.get(o) == ""]
    wanted = _wanted_ranges(program, integer, {**(imported or {}), **observed}, readers)
    groups = _Groups()
    for operator in integer:
        outputs = [] if gives_floats(operator, placement, readers) else float_outputs(operator)
        tensors = [*outputs, *computed_inputs(operator)]
        for tensor in tensors:
            groups.find(tensor)
        if KERNELS[operator.code].tied:
            groups.join(tensors)
            _hold_constants(operator, tensors, wanted)
    result = Assignment()
    result.absorbed = _absorbed(program, integer, groups, readers)
    for members in groups.members():
        _settle(members, wanted, imported or {}, result)
    return result


class _Groups:
    """Sets of tensors with the same parameters, joined as they are found."""

    def __init__(self) -> None:
        self._parent: dict[Tensor, Tensor] = {}

    def find(self, tensor: Tensor) -> Tensor:
        """The tensor that stands for the set."""
        self._parent.setdefault(tensor, tensor)
        while self._parent[tensor] is not tensor:
            self._parent[tensor] = tensor = self._parent[self._parent[tensor]]
        return tensor

    def join(self, tensors: Sequence[Tensor]) -> None:
        for tensor in tensors[1:]:
            self._parent[self.find(tensor)] = self.find(tensors[0])

    def members(self) -> list[list[Tensor]]:
        """All sets, in an order that does not depend on hashes."""
        found: dict[Tensor, list[Tensor]] = {}
        for tensor in self._parent:
            found.setdefault(self.find(tensor), []).append(tensor)
        return list(found.values())


def _wanted_ranges(
    program: Program,
    integer: Sequence[Operator],
    observed: Mapping[Tensor, Range],
    readers: Mapping[Tensor, list[Operator]],
) -> dict[Tensor, Range]:
    """The observed ranges; what lies between 0 and 1 by nature, and what a sigmoid distinguishes."""
    wanted = dict(observed)
    for operator in integer:
        if operator.code in UNIT_RANGE:
            wanted[operator.outputs[0]] = Range(0.0, 255 / 256, "fixed")
        if operator.code == "Sigmoid":
            (x,) = data_inputs(operator)
            if readers[x] == [operator] and x not in program.outputs:
                wanted[x] = _cut(wanted[x], -SIGMOID_SATURATES, SIGMOID_SATURATES)
        if KERNELS[operator.code].clamps:
            low, high = clip_limits(operator)
            output = operator.outputs[0]
            wanted[output] = _cut(wanted[output], low or 0.0, 0.0 if high is None else high)
    return wanted


def _cut(wanted: Range, low: float, high: float) -> Range:
    inside = [min(max(v, low), high) for v in (wanted.low, wanted.high)]
    return wanted._replace(low=inside[0], high=inside[1])


def _hold_constants(operator: Operator, tensors: list[Tensor], wanted: dict[Tensor, Range]) -> None:
    """Widen the range of a tied operator's tensors to hold its constants."""
    constants = [t for t in data_inputs(operator) if t.is_constant]
    if operator.code == "Pad":
        constants += [t for t in operator.inputs[2:3] if t is not None]
    for constant in constants:
        array = constant.array()
        if array.size and tensors:
            own = Range(float(array.min()), float(array.max()), "constant")
            wanted[tensors[0]] = wanted[tensors[0]].union(own)


def _absorbed(
    program: Program, integer: Sequence[Operator], groups: _Groups, readers: Mapping[Tensor, list[Operator]]
) -> dict[Tensor, Tensor]:
    """The Relus and Clips whose input nobody else reads: the limits of its codes can do their work.

    Joins the sets of their input and output.
    """
    found: dict[Tensor, Tensor] = {}
    tied = {t for members in groups.members() if len(members) > 1 for t in members}
    producers = {t: o for o in program.operators for t in o.outputs}
    written = {t for o in integer for t in o.outputs}
    for operator in integer:
        if KERNELS[operator.code].clamps:
            x, y = data_inputs(operator)[0], operator.outputs[0]
            is_free = readers[x] == [operator] and x not in program.outputs and x not in tied
            if is_free and x in written and producers[x].code not in UNIT_RANGE:
                found[y] = x
                groups.join([y, x])
    return found


def _settle(
    members: list[Tensor],
    wanted: Mapping[Tensor, Range],
    imported: Mapping[Tensor, Range],
    result: Assignment,
) -> None:
    """One set of tied tensors: the smallest range that holds all of them."""
    inputs_of_clamps = {result.absorbed[t] for t in members if t in result.absorbed}
    counted = [t for t in members if t not in inputs_of_clamps]
    given = [imported[t] for t in members if t in imported]
    ranges = given or [wanted[t] for t in counted]
    union = ranges[0]
    for one in ranges[1:]:
        union = union.union(one)
    reason = "given by the model" if given else "observed"
    parameters = parameters_for(union, f"shared by {len(members)} tensors" if len(members) > 1 else reason)
    result.of.update(dict.fromkeys(members, parameters))
    for tensor in counted:
        own = wanted[tensor].width
        if not given and 0 < own * NARROW < union.width:
            result.warnings.append(
                f"'{tensor.name.removesuffix('/raw')}' spans {own:.4g} but shares the scale of a range of"
                f" {union.width:.4g}"
            )
