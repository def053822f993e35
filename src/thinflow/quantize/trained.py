"""Ranges that a LiteRT model was trained with: FAKE_QUANT operators, and what follows for other tensors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from thinflow.lower.tflite.wiring import Wiring
from thinflow.program.model import Block
from thinflow.program.model import Operator as AnyOperator
from thinflow.program.wiring import Wiring as AnyWiring
from thinflow.quantize.kernels import Kernels, float_inputs, float_outputs, is_float
from thinflow.quantize.kernels.litert import CLAMPS, INT8_KERNELS
from thinflow.quantize.kernels.onnx import INT8_KERNELS as ONNX_KERNELS
from thinflow.quantize.placement import KEPT
from thinflow.quantize.ranges import Range, fixed_parameters, parameters_for
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
    roundings = Roundings(wiring, stated, INT8_KERNELS if observer == KEPT else None)
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
_ON_GRID = 1e-3
"""Of a step, by which numbers of a file may miss it: scales are stored in float32."""
_ONNX_CLAMPS = frozenset(code for code, kernel in ONNX_KERNELS.table.items() if kernel.is_clamp)


def _computed(operator: AnyOperator[Any]) -> Any:
    """What a simulated quantization rounds; None if that is a constant."""
    x = operator.inputs[0]
    return None if x is None or x.is_constant else x


class Roundings:
    """Simulated quantizations of a program, to be taken out one by one in running order.

    Args:
        wiring: of the program.
        stated: their operators and the ranges that they round in.
        kernels: of the runtime, if who reads what is not rounded yet is to read it so wherever that costs no
            layer its integers; None if all are to read it rounded.

    Attributes:
        ranges: what is known of tensors since they are gone.
    """

    def __init__(
        self,
        wiring: AnyWiring[Any, Any],
        stated: Mapping[Any, Range],
        kernels: Kernels | None = None,
    ) -> None:
        self.ranges: dict[Any, Range] = {}
        self._wiring, self._stated, self._kernels = wiring, stated, kernels
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
        if self._is_read_exact(x):
            self.ranges[y] = given
            return False
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

    def _is_read_exact(self, x: Any) -> bool:
        """True if somebody reads a tensor before it is rounded, and is to.

        A layer cannot give both from its integers: half a step less exact for that reader, it stays one.
        """
        if self._kernels is None:
            return False
        wiring, table = self._wiring, self._kernels.table
        if not wiring.is_wanted(x) and all(o in self._stated for o in wiring.readers(x)):
            return False
        before = wiring.producer(x)
        while before is not None and (before.code in CLAMPS or before.code in _ONNX_CLAMPS):
            before = wiring.producer(before.inputs[0])
        kernel = None if before is None else table.get(before.code)
        is_layer = kernel is not None and kernel.is_heavy
        return not (is_layer and before is not None and any(map(self._has_grid, float_inputs(before))))

    def _has_grid(self, x: Any) -> bool:
        """True if a tensor has been rounded, or that of which it is another view."""
        assert self._kernels is not None, "asked for a runtime"
        while x not in self.ranges:
            before = self._wiring.producer(x)
            kernel = None if before is None else self._kernels.table.get(before.code)
            if before is None or kernel is None or not kernel.same_scale or kernel.averages:
                return False
            x = next(iter(float_inputs(before)), None)
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
    is_kept = any(given.observer == KEPT for given in known.values())
    for operator in block.operators:
        kernel = kernels.table.get(operator.code)
        # What a source file does not round there, its fixed steps would.
        if kernel is not None and kernel.fixed is not None and not is_kept:
            fixed = fixed_parameters(kernel.fixed, operator.code).range
            found.update((t, fixed) for t in float_outputs(operator) if t not in known)
    # Ranges travel both ways, from outputs to inputs too, so one walk in running order is not enough.
    share = _spread_exactly if is_kept else _spread_once
    while share(block, found, kernels):
        pass
    return found


def _is_clamp(operator: AnyOperator[Any]) -> bool:
    kernel = ONNX_KERNELS.table.get(operator.code)
    return kernel is not None and kernel.is_clamp


def _spread_once(block: Block[Any, Any], found: dict[Any, Range], kernels: Kernels) -> bool:
    """Share the range of each operator that ties its tensors together; whether any was new."""
    before = len(found)
    torn = _torn(block.operators, found, kernels)
    for operator in block.operators:
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


def _spread_exactly(block: Block[Any, Any], found: dict[Any, Range], kernels: Kernels) -> bool:
    """Share the grids of a source file where that changes nothing; whether any was new.

    What only moves numbers, or chooses among them, may do so before they are rounded or after. Averages may
    not: they are no multiples of the steps of their parts, and narrower than these.
    """
    before = len(found)
    reads = Counter([*(t for o in block.operators for t in o.reads()), *block.outputs])
    for operator in reversed(block.operators):
        kernel = kernels.table.get(operator.code)
        if kernel is None or not kernel.same_scale or kernel.averages:
            continue
        inputs, outputs = float_inputs(operator), float_outputs(operator)
        given = {found.get(t) for t in outputs}
        wanted = given.pop() if len(given) == 1 else None
        if wanted is not None:
            own = Counter(operator.reads())
            # Whoever else reads them reads what is neither rounded nor cut off.
            alone = (t for t in inputs if reads[t] == own[t])
            found.update((t, wanted) for t in alone if t not in found)
            continue
        given = {found.get(t) for t in inputs}
        known = given.pop() if len(given) == 1 else None
        constants = [t for t in operator.reads() if t.is_constant and is_float(t)]
        if known is not None and all(_is_on_grid(t, known) for t in constants):
            found.update((t, known) for t in outputs if t not in found)
    return len(found) > before


def _is_on_grid(constant: Any, given: Range) -> bool:
    """True if rounding in a range changes no number of a constant."""
    grid, array = parameters_for(given), np.asarray(constant.array(), np.float64)
    codes = grid.quantized(array).astype(np.float64) - grid.zero_point
    return bool(np.allclose(codes * grid.scale, array, rtol=0, atol=_ON_GRID * grid.scale))


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
