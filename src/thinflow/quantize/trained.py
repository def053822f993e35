"""Ranges that a LiteRT model was trained with: FAKE_QUANT operators, and what follows for other tensors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from thinflow.lower.tflite.wiring import Wiring
from thinflow.program.model import Block
from thinflow.program.model import Operator as AnyOperator
from thinflow.program.wiring import Wiring as AnyWiring
from thinflow.quantize.kernels import Kernels, float_inputs, float_outputs
from thinflow.quantize.kernels.litert import CLAMPS, INT8_KERNELS
from thinflow.quantize.kernels.onnx import INT8_KERNELS as ONNX_KERNELS
from thinflow.quantize.ranges import Range, fixed_parameters
from thinflow.tflite.model import Operator, Program, Signature, Subgraph


def without_fake_quants(
    program: Program, *, observer: str = "trained", bits: int | None = None
) -> tuple[Program, dict[Any, Range]]:
    """The program without the simulated quantization of its main subgraph, and the ranges that it stated.

    The tensors are those of the given program, which stays as it is. O(operators).

    Args:
        observer: of the ranges.
        bits: only what rounds to so many; default: all.
    """
    main = program.subgraphs[0]
    if not any(o.code == "FAKE_QUANT" for o in main.operators):
        return program, {}
    copies = [replace(o, inputs=list(o.inputs), outputs=list(o.outputs)) for o in main.operators]
    subgraph = Subgraph(list(main.inputs), list(main.outputs), copies, name=main.name)
    wiring = Wiring(subgraph)
    stated = {
        o: _range_of(o, observer)
        for o in copies
        if o.code == "FAKE_QUANT" and bits in (None, o.options["num_bits"]) and _computed(o) is not None
    }
    roundings = Roundings(wiring, stated)
    for operator in stated:
        roundings.take_out(operator)
    wiring.finish()
    signatures = {key: Signature(*signature) for key, signature in program.signatures.items()}
    made = replace(program, subgraphs=[subgraph, *program.subgraphs[1:]], signatures=signatures)
    return made, roundings.ranges


def _range_of(operator: Operator, observer: str) -> Range:
    """The range that a FAKE_QUANT states."""
    low, high = operator.options["min"], operator.options["max"]
    codes = 1 << operator.options["num_bits"]
    # Codes with 0 in the middle have one more below it, which symmetric arithmetic leaves unused.
    if codes > _BYTE_CODES and abs(low + high * codes / (codes - 2)) < 1e-6 * high:
        low = -high
    return Range(low, high, observer)


_BYTE_CODES = 256


def _computed(operator: AnyOperator[Any]) -> Any:
    """What a simulated quantization rounds; None if that is a constant."""
    x = operator.inputs[0]
    return None if x is None or x.is_constant else x


class Roundings:
    """Simulated quantizations of a program, to be taken out one by one in running order.

    Args:
        wiring: of the program.
        stated: their operators and the ranges that they round in.

    Attributes:
        ranges: what is known of tensors since they are gone.
    """

    def __init__(self, wiring: AnyWiring[Any, Any], stated: Mapping[Any, Range]) -> None:
        self.ranges: dict[Any, Range] = {}
        self._wiring, self._stated = wiring, stated
        # One tensor may be rounded for several readers, each with a range of its own.
        self._widest: dict[Any, Range] = {}
        for operator, given in stated.items():
            x = operator.inputs[0]
            self._widest[x] = given.union(self._widest.get(x, given))

    def take_out(self, operator: AnyOperator[Any]) -> bool:
        """Take one out: what it was done to has its range. An output keeps its tensor; what one that stays
        gives has the range that it rounds in.

        Returns:
            True if that was possible: not where it cuts off what others read, and not where an output is
            rounded and others read what it is made of.
        """
        wiring, given = self._wiring, self._stated[operator]
        x, y = operator.inputs[0], operator.outputs[0]
        known = self.ranges.get(x) or self._widest.get(x, given)
        if _cuts(given, known):
            self.ranges[x], self.ranges[y] = known, given
            return False
        before = wiring.producer(x)
        if not wiring.is_wanted(y):
            wiring.bypass(operator, x)
            self.ranges[x] = known
        # An output keeps its name: the operator before writes it now, if nobody else reads what it wrote.
        elif before is not None and wiring.is_read_once(x):
            number = before.outputs.index(x)
            wiring.remove(operator)
            wiring.set_output(before, number, y)
            self.ranges[y] = known
        else:
            self.ranges[x], self.ranges[y] = known, given
            return False
        return True


def _cuts(given: Range, known: Range) -> bool:
    """True if rounding in a range changes numbers of a wider one by more than its own steps do.

    A file may say an activation so, by a second grid that ends at its limits.
    """
    step = given.width / _BYTE_CODES
    return given.low - known.low > step or known.high - given.high > step


def spread(program: Program, known: Mapping[Any, Range]) -> dict[Any, Range]:
    """Known ranges, and those that follow: of what only moves numbers around, and of what the kernel fixes.

    O(operators * depth of what moves numbers around).
    """
    return _spread(program.subgraphs[0], known, INT8_KERNELS)


def before_clamps(block: Block[Any, Any], known: Mapping[Any, Range]) -> dict[Any, Range]:
    """Known ranges, and for what clamps alone read theirs: what they cut off is nobody's. O(operators)."""
    found = dict(known)
    reads = Counter([*(t for o in block.operators for t in o.reads()), *block.outputs])
    for operator in reversed(block.operators):
        x = operator.inputs[0] if operator.inputs else None
        if _is_clamp(operator) and operator.outputs[0] in found and reads[x] == 1:
            found.setdefault(x, found[operator.outputs[0]])
    return _spread(block, found, ONNX_KERNELS)


def _spread(block: Block[Any, Any], known: Mapping[Any, Range], kernels: Kernels) -> dict[Any, Range]:
    found = dict(known)
    for operator in block.operators:
        kernel = kernels.table.get(operator.code)
        if kernel is not None and kernel.fixed is not None:
            fixed = fixed_parameters(kernel.fixed, operator.code).range
            found.update((t, fixed) for t in float_outputs(operator) if t not in known)
    # Ranges travel both ways, from outputs to inputs too, so one walk in running order is not enough.
    while _spread_once(block.operators, found, kernels):
        pass
    return found


def _is_clamp(operator: AnyOperator[Any]) -> bool:
    kernel = ONNX_KERNELS.table.get(operator.code)
    return kernel is not None and kernel.is_clamp


def _spread_once(operators: Sequence[Any], found: dict[Any, Range], kernels: Kernels) -> bool:
    """Share the range of each operator that ties its tensors together; whether any was new."""
    before = len(found)
    torn = _torn(operators, found, kernels)
    for operator in operators:
        _bound(operator, found)
        kernel = kernels.table.get(operator.code)
        if kernel is None or not kernel.same_scale:
            continue
        tensors = [t for t in (*float_inputs(operator), *float_outputs(operator)) if not t.is_constant]
        stated = [found[t] for t in tensors if t in found]
        if stated and len(stated) < len(tensors):
            whole = stated[0]
            for other in stated[1:]:
                whole = whole.union(other)
            for tensor in tensors:
                # Stated ranges stay: the weights were trained with exactly these.
                if tensor not in torn:
                    found.setdefault(tensor, whole)
    return len(found) > before


def _torn(operators: Sequence[Any], found: Mapping[Any, Range], kernels: Kernels) -> set[Any]:
    """Tensors without a range whose parts have several: on one's grid the others would be rounded twice."""
    asked: dict[Any, Range] = {}
    torn: set[Any] = set()
    for operator in operators:
        kernel = kernels.table.get(operator.code)
        if kernel is None or not kernel.same_scale:
            continue
        stated = [found[t] for t in float_outputs(operator) if t in found]
        for x in float_inputs(operator):
            if x not in found and stated and asked.setdefault(x, stated[0]) != stated[0]:
                torn.add(x)
    return torn


def _bound(operator: AnyOperator[Any], found: dict[Any, Range]) -> None:
    """A mean lies in the range of its input, and so does what a clamp leaves of it."""
    x = operator.inputs[0] if operator.inputs else None
    if x not in found or x is None or operator.outputs[0] in found:
        return
    given = found[x]
    if operator.code == "MEAN":
        found[operator.outputs[0]] = given
    elif operator.code in CLAMPS:
        found[operator.outputs[0]] = given.cut(*CLAMPS[operator.code])
