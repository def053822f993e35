"""Which operators compute in integers, and for the others why not."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from thinflow.ir.types import FLOAT
from thinflow.lower.tflite.program import Operator, Subgraph, Tensor
from thinflow.quantize.arithmetic import EIGHT, Arithmetic
from thinflow.quantize.batch_statistics import keep_batch_statistics
from thinflow.quantize.kernels import FUSED, READS_ANYTHING
from thinflow.quantize.recipe import Recipe
from thinflow.tflite import schema

Placement = dict[Operator, str]
"""Every operator that computes on float32 tensors -> why it stays float; "" if it becomes integer."""

_ARITHMETIC = frozenset(("MUL", "ADD", "SUB", "DIV", "RESHAPE"))


def is_float(tensor: Tensor | None) -> bool:
    """Whether a tensor is one that quantization is about."""
    return tensor is not None and tensor.dtype is FLOAT


def float_inputs(operator: Operator) -> list[Tensor]:
    """Its float32 inputs that are computed or fed, each once."""
    return list(
        dict.fromkeys(t for t in operator.inputs if t is not None and is_float(t) and not t.is_constant)
    )


def float_outputs(operator: Operator) -> list[Tensor]:
    """Its float32 outputs."""
    return [t for t in operator.outputs if is_float(t)]


def place(
    subgraph: Subgraph,
    recipe: Recipe,
    observed: Collection[Tensor] | Mapping[Tensor, Any],
    forced: Mapping[Operator, str] | None = None,
    arithmetic: Arithmetic = EIGHT,
) -> Placement:
    """Decide for every operator that touches floats. O(operators * length of the longest float tail).

    Args:
        observed: the tensors whose range is known.
        forced: operators that must stay float, and why.
    """
    placement: Placement = {}
    for operator in subgraph.operators:
        if operator.code not in READS_ANYTHING and any(map(is_float, (*operator.inputs, *operator.outputs))):
            why = recipe.why_skipped(operator) or (forced or {}).get(operator)
            placement[operator] = why or _why_impossible(operator, observed, arithmetic)
    keep_batch_statistics(placement, "RSQRT", _ARITHMETIC)
    light = {o for o in placement if o.code in arithmetic.kernels and not arithmetic.kernels[o.code].is_heavy}
    _keep_islands(placement, light)
    _keep_float_tails(placement, subgraph, light)
    return placement


# ----------------------------------------------------------------------------------------- one operator alone


def _why_impossible(
    operator: Operator, observed: Collection[Tensor] | Mapping[Tensor, Any], arithmetic: Arithmetic
) -> str:
    kernel = arithmetic.kernels.get(operator.code)
    if kernel is None:
        custom = operator.custom_code
        return f"custom op {custom}" if custom else arithmetic.why_not(operator.code)
    tensors = [t for t in (*operator.inputs, *operator.outputs) if t is not None]
    if any(t.is_variable for t in tensors) or schema.SUBGRAPH_OPTIONS & operator.options.keys():
        return "it keeps state between runs or calls another subgraph"
    fused = operator.options.get("fused_activation_function", "NONE")
    if fused not in FUSED:
        return f"LiteRT's {arithmetic.name} kernels cannot fuse {fused}"
    if kernel.weighted is not None:
        weights, bias = (
            _input(operator, number) for number in (kernel.weighted.weights, kernel.weighted.bias)
        )
        if weights is None or not weights.is_constant:
            return "its weights are computed at run time"
        if not is_float(weights):
            return f"its weights are {weights.dtype}"
        if bias is not None and not bias.is_constant:
            return "its bias is computed at run time"
    for tensor in filter(is_float, tensors):
        if tensor.is_constant:
            if not np.isfinite(np.asarray(tensor.array())).all():
                return f"constant '{tensor.name}' has values that are not finite"
        elif tensor not in observed:
            return f"calibration saw no finite value of '{tensor.name}'"
    return ""


def _input(operator: Operator, number: int) -> Tensor | None:
    return operator.inputs[number] if number < len(operator.inputs) else None


# --------------------------------------------------------------------------------------------- its neighbours


def _keep_islands(placement: Placement, light: Collection[Operator]) -> None:
    """Keep light operators float that border on float operators and, as a group, on no heavy integer one."""
    island: dict[Operator, Operator] = {o: o for o, why in placement.items() if not why and o in light}

    def root(operator: Operator) -> Operator:
        while island[operator] is not operator:
            island[operator] = operator = island[island[operator]]
        return operator

    touching: dict[Tensor, list[Operator]] = {}
    for operator in placement:
        for tensor in (*float_inputs(operator), *float_outputs(operator)):
            touching.setdefault(tensor, []).append(operator)
    for operators in touching.values():
        joined = [o for o in operators if o in island]
        for operator in joined[1:]:
            island[root(operator)] = root(joined[0])
    near_heavy: set[Operator] = set()
    near_float: set[Operator] = set()
    for operators in touching.values():
        shores = {root(o) for o in operators if o in island}
        others = [o for o in operators if o not in island]
        if any(not placement[o] for o in others):
            near_heavy |= shores
        if any(placement[o] for o in others):
            near_float |= shores
    for operator in island:
        if root(operator) in near_float and root(operator) not in near_heavy:
            placement[operator] = "the operators around it are float"


def _keep_float_tails(placement: Placement, subgraph: Subgraph, light: Collection[Operator]) -> None:
    """Keep a light operator float if only float operators want its results and its inputs exist in float."""
    readers: dict[Tensor, list[Operator]] = {}
    for operator in placement:
        for tensor in float_inputs(operator):
            readers.setdefault(tensor, []).append(operator)
    producers = subgraph.producers()
    kept_outputs = set(subgraph.outputs)

    def is_tail(operator: Operator) -> bool:
        after = [r for t in float_outputs(operator) for r in readers.get(t, ())]
        if not after or any(not placement[r] for r in after) or kept_outputs.intersection(operator.outputs):
            return False
        return all(exists_in_float(t, operator) for t in float_inputs(operator))

    def exists_in_float(tensor: Tensor, operator: Operator) -> bool:
        producer = producers.get(tensor)
        return (producer is None or bool(placement.get(producer))) or any(
            placement[r] for r in readers[tensor] if r is not operator
        )

    _until_stable(placement, light, is_tail, "its results are wanted in float only")


def _until_stable(
    placement: Placement, light: Collection[Operator], rule: Callable[[Operator], bool], reason: str
) -> None:
    changed = True
    while changed:
        changed = False
        for operator in reversed(list(placement)):
            if not placement[operator] and operator in light and rule(operator):
                placement[operator] = reason
                changed = True
