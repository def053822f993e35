"""Ranges that a LiteRT model was trained with: FAKE_QUANT operators, and what follows for other tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from thinflow.lower.tflite.program import Operator, Program, Signature, Subgraph
from thinflow.lower.tflite.wiring import Wiring
from thinflow.quantize.kernels import float_inputs, float_outputs
from thinflow.quantize.kernels.litert import CLAMPS, INT8_KERNELS
from thinflow.quantize.ranges import Range, fixed_parameters


def without_fake_quants(program: Program) -> tuple[Program, dict[Any, Range]]:
    """The program without the simulated quantization of its main subgraph, and the ranges that it stated.

    The tensors are those of the given program, which stays as it is. O(operators).
    """
    main = program.subgraphs[0]
    if not any(o.code == "FAKE_QUANT" for o in main.operators):
        return program, {}
    copies = [replace(o, inputs=list(o.inputs), outputs=list(o.outputs)) for o in main.operators]
    subgraph = Subgraph(list(main.inputs), list(main.outputs), copies, name=main.name)
    wiring = Wiring(subgraph)
    trained: dict[Any, Range] = {}
    for operator in copies:
        if operator.code == "FAKE_QUANT":
            _take_out(wiring, operator, trained)
    wiring.finish()
    signatures = {key: Signature(*signature) for key, signature in program.signatures.items()}
    made = replace(program, subgraphs=[subgraph, *program.subgraphs[1:]], signatures=signatures)
    return made, trained


def _take_out(wiring: Wiring, operator: Operator, trained: dict[Any, Range]) -> None:
    """Without it, what it was done to has its range. An output of the model keeps its tensor."""
    x, y = operator.inputs[0], operator.outputs[0]
    if x is None or x.is_constant:
        return
    given = Range(operator.options["min"], operator.options["max"], "trained")
    before = wiring.producer(x)
    if not wiring.is_wanted(y):
        wiring.bypass(operator, x)
        trained[x] = given.union(trained[x]) if x in trained else given
    elif before is not None and len(before.outputs) == 1 and wiring.is_read_once(x):
        wiring.absorb(operator, before)
        trained[y] = given
    else:
        trained[x] = trained[y] = given


def spread(program: Program, known: Mapping[Any, Range]) -> dict[Any, Range]:
    """Known ranges, and those that follow: of what only moves numbers around, and of what the kernel fixes.

    O(operators * depth of what moves numbers around).
    """
    found = dict(known)
    operators = program.subgraphs[0].operators
    for operator in operators:
        kernel = INT8_KERNELS.table.get(operator.code)
        if kernel is not None and kernel.fixed is not None:
            fixed = fixed_parameters(kernel.fixed, operator.code).range
            found.update((t, fixed) for t in float_outputs(operator) if t not in known)
    while _spread_once(operators, found):
        pass
    return found


def _spread_once(operators: list[Operator], found: dict[Any, Range]) -> bool:
    """Share the range of each operator that ties its tensors together; whether any was new."""
    before = len(found)
    for operator in operators:
        _bound(operator, found)
        kernel = INT8_KERNELS.table.get(operator.code)
        if kernel is None or not kernel.same_scale:
            continue
        tensors = [t for t in (*float_inputs(operator), *float_outputs(operator)) if not t.is_constant]
        stated = [found[t] for t in tensors if t in found]
        if stated and len(stated) < len(tensors):
            whole = stated[0]
            for other in stated[1:]:
                whole = whole.union(other)
            for tensor in tensors:
                found.setdefault(tensor, whole)
    return len(found) > before


def _bound(operator: Operator, found: dict[Any, Range]) -> None:
    """A mean lies in the range of its input, and so does what a clamp leaves of it."""
    x = operator.inputs[0] if operator.inputs else None
    if x not in found or x is None or operator.outputs[0] in found:
        return
    given = found[x]
    if operator.code == "MEAN":
        found[operator.outputs[0]] = given
    elif operator.code in CLAMPS:
        found[operator.outputs[0]] = given.cut(*CLAMPS[operator.code])
