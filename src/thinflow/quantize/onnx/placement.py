"""Which operators of an ONNX program compute on 8-bit codes, and for the others why not."""

from __future__ import annotations

from collections.abc import Collection
from fnmatch import fnmatchcase

import numpy as np

from thinflow.onnx.program import Operator, Program, Tensor
from thinflow.quantize.batch_statistics import keep_batch_statistics
from thinflow.quantize.onnx.kernels import (
    KERNELS,
    all_reads,
    bias_of,
    computed_inputs,
    data_inputs,
    float_outputs,
    is_float,
    weights_of,
    why_not_int8,
)
from thinflow.quantize.recipe import Recipe

Placement = dict[Operator, str]
"""Every operator that computes on float32 tensors -> why it stays float; "" if it computes on codes."""

_ARITHMETIC = frozenset(("Mul", "Add", "Sub", "Div", "Reciprocal", "Reshape"))


def place(program: Program, recipe: Recipe, observed: Collection[Tensor]) -> Placement:
    """Decide for every operator that touches floats. O(operators * length of the longest float tail).

    Args:
        observed: the tensors whose range is known.
    """
    placement: Placement = {}
    for operator in program.operators:
        if any(map(is_float, (*operator.inputs, *operator.outputs))) and operator.code != "Shape":
            placement[operator] = _why_skipped(operator, recipe) or _why_impossible(operator, observed)
    keep_batch_statistics(placement, "Sqrt", _ARITHMETIC)
    _keep_rows(placement, program)
    _keep_islands(placement)
    _keep_float_tails(placement, program)
    return placement


def gives_floats(operator: Operator, placement: Placement, readers: dict[Tensor, list[Operator]]) -> bool:
    """Whether nobody wants the codes of an operator that can give floats as well."""
    wanted = [r for t in operator.outputs for r in readers.get(t, ())]
    return KERNELS[operator.code].tail_is_free and all(placement.get(r) != "" for r in wanted)


# ----------------------------------------------------------------------------------------- one operator alone


def _why_skipped(operator: Operator, recipe: Recipe) -> str:
    names = [operator.origin, *(t.name for t in operator.outputs)]
    for pattern in recipe.skip_nodes:
        if any(name and fnmatchcase(name, pattern) for name in names):
            return f"skip_nodes has '{pattern}'"
    return ""


def _why_impossible(operator: Operator, observed: Collection[Tensor]) -> str:
    kernel = KERNELS.get(operator.code)
    if kernel is None:
        return why_not_int8(operator.code)
    why = _why_form(operator)
    if why:
        return why
    inputs = data_inputs(operator)
    if not inputs or all(t.is_constant for t in inputs):
        return "it does not compute on floats"
    for tensor in (*inputs, *float_outputs(operator), weights_of(operator)):
        if tensor is not None and tensor.is_constant:
            if not np.isfinite(tensor.array()).all():
                return f"constant '{tensor.name}' has values that are not finite"
        elif tensor is not None and tensor not in observed:
            return f"calibration saw no finite value of '{tensor.name}'"
    return ""


def _why_form(operator: Operator) -> str:
    """What the integer kernels of an op leave out."""
    options, bias = operator.options, bias_of(operator)
    if bias is not None and not bias.is_constant:
        return "its bias is computed at run time"
    if operator.code == "Conv" and weights_of(operator) is None:
        return "its weights are computed at run time"
    if operator.code == "Gemm":
        if any(options.get(name, 1) != 1 for name in ("alpha", "beta")):
            return "it scales the product"
        if bias is not None and bias.array().size not in (1, _units(operator)):
            return "its bias is no row"
    if operator.code == "Resize" and options.get("mode", "nearest") != "nearest":
        return "ONNX Runtime resizes codes to the nearest only"
    if operator.code == "Clip" and not _holds_zero(operator):
        return "its limits are computed, or 0 is not between them"
    if operator.code == "Pad" and any(t is not None and not t.is_constant for t in operator.inputs[2:3]):
        return "what it pads with is computed at run time"
    return ""


def _units(operator: Operator) -> int | None:
    """Columns of the product that a Gemm computes."""
    shape = operator.outputs[0].shape
    return None if shape is None else shape[-1]


def _holds_zero(operator: Operator) -> bool:
    low, high = clip_limits(operator)
    return low is not None and high is not None and low <= 0 <= high


def clip_limits(operator: Operator) -> tuple[float | None, float | None]:
    """The limits of a Clip or Relu, infinite where it has none; None where they are not constant."""
    if operator.code == "Relu":
        return 0.0, np.inf
    found: list[float | None] = [-np.inf, np.inf]
    for number, tensor in enumerate(operator.inputs[1:3]):
        if tensor is not None:
            found[number] = float(tensor.array().reshape(())) if tensor.is_constant else None
    return found[0], found[1]


# --------------------------------------------------------------------------------------------- its neighbours


def _keep_islands(placement: Placement) -> None:
    """Keep light operators float that no chain of other light ones joins with a heavy one."""
    touching: dict[Tensor, list[Operator]] = {}
    for operator, why in placement.items():
        for tensor in (*computed_inputs(operator), *float_outputs(operator)) if not why else ():
            touching.setdefault(tensor, []).append(operator)
    pending = [o for o, why in placement.items() if not why and KERNELS[o.code].is_heavy]
    reached = set(pending)
    while pending:
        operator = pending.pop()
        for tensor in (*computed_inputs(operator), *float_outputs(operator)):
            new = [o for o in touching[tensor] if o not in reached]
            reached.update(new)
            pending += new
    for operator, why in placement.items():
        if not why and operator not in reached:
            placement[operator] = "the operators around it are float"


def _keep_float_tails(placement: Placement, program: Program) -> None:
    """Keep a light operator float if only floats are wanted of it: from floats it computes them better."""
    readers = all_reads(program.operators)
    producers = {t: o for o in program.operators for t in o.outputs}
    for operator in reversed(program.operators):
        if placement.get(operator) != "" or KERNELS[operator.code].is_heavy:
            continue
        after = [r for t in float_outputs(operator) for r in readers.get(t, ())]
        before = producers.get(data_inputs(operator)[0])
        # What is cut off does not need any codes before it.
        cuts_codes = KERNELS[operator.code].clamps and before is not None and placement.get(before) == ""
        if cuts_codes and before is not None and not KERNELS[before.code].tail_is_free:
            continue
        if float_outputs(operator) and all(placement.get(r) != "" for r in after):
            placement[operator] = "its results are wanted in float only"


def _keep_rows(placement: Placement, program: Program) -> None:
    """Leave the bias of a product of several matrices to the kernel that gives floats."""
    readers = all_reads(program.operators)
    producers = {t: o for o in program.operators for t in o.outputs}
    for operator, why in placement.items():
        if why or operator.code != "Add":
            continue
        row = next((t for t in operator.inputs if t is not None and t.is_constant), None)
        for tensor in computed_inputs(operator):
            before = producers.get(tensor)
            is_alone = readers[tensor] == [operator] and tensor not in program.outputs
            if before is None or before.code != "MatMul" or placement.get(before) != "" or not is_alone:
                continue
            if row is not None and row.array().ndim <= 1:
                placement[operator] = "it is added to the sums of the product"
