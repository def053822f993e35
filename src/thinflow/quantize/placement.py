"""Placement: the operators that compute in integers, and for the others why not. For any runtime.

`place` looks at every operator alone, and then lets one rule after the other keep more of them float.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from thinflow.ir.disjoint_sets import DisjointSets
from thinflow.ir.types import Shape
from thinflow.program.model import Block, Tensor
from thinflow.quantize.crossings import AMONG_FLOATS, cheaper_in_float
from thinflow.quantize.kernels import Kernels, Operator, float_inputs, float_outputs, is_float
from thinflow.quantize.recipe import Recipe

WANTED_IN_FLOAT = "its results are wanted in float only"

SCALES = "it is there so that channels are of like sizes where they are rounded"

KEPT = "kept"
"""The observer of a range that is a grid of the source file: its scale and zero point are to stay."""

_SAME_GRID = 1e-5
"""Of a range, by which the ends of another one of the same steps may differ: files store them rounded."""

_AS_FINE = 0.9
"""Of the steps that a kernel dictates: finer ones of a file than these would be lost."""

UNSEEN = "calibration saw no finite value of"
"""Begins the reason of an operator that reads or writes a tensor without a range."""

Placement = dict[Any, str]
"""Every operator that computes on float32 tensors -> why it stays float; "" if it becomes integer."""


def place(
    block: Block[Any, Any],
    kernels: Kernels,
    recipe: Recipe,
    observed: Collection[Any] | Mapping[Any, Any],
    forced: Mapping[Any, str] | None = None,
) -> Placement:
    """Decide for every operator that touches floats. O(operators * length of the longest float tail).

    Args:
        observed: the tensors whose range is known.
        forced: operators that must stay float, and why.
    """
    placement: Placement = {}
    made_one = kernels.made_one(block.operators)
    for operator in block.operators:
        touches = any(map(is_float, (*operator.inputs, *operator.outputs)))
        if touches and operator.code not in kernels.reads_sizes:
            why = recipe.why_float(operator) or (forced or {}).get(operator)
            if not why and _scales_an_end(operator, block, recipe):
                why = SCALES
            why = why or made_one.get(operator, "")
            placement[operator] = why or _why_impossible(operator, observed, kernels)
    # The order matters: each rule sees what those before it keep float, and only ever adds to it.
    keep_batch_statistics(placement, kernels.reciprocal_root, kernels.scalings)
    neighbours = Neighbours(block, placement)
    _keep_rows(placement, kernels, neighbours)
    # What ONNX Runtime computes in float between two pairs, it finds by itself.
    if recipe.leaves("scores") and recipe.output_type == "float32" and not kernels.floats_are_free:
        _keep_scores(placement, kernels, neighbours, observed)
    if recipe.leaves("slow") and kernels.slower:
        inputs = block.inputs if recipe.input_type != "float32" else ()
        outputs = block.outputs if recipe.output_type != "float32" else ()
        placement |= cheaper_in_float(block, placement, kernels, {*inputs, *outputs})
    has_codes_at_ends = (recipe.input_type, recipe.output_type) != ("float32", "float32")
    _keep_islands(placement, kernels, has_codes_at_ends=has_codes_at_ends)
    _keep_float_tails(placement, kernels, neighbours)
    return placement


def _scales_an_end(operator: Operator, block: Block[Any, Any], recipe: Recipe) -> bool:
    read = [t for t in operator.reads() if not t.is_constant]
    is_product = operator.code.upper() == "MUL" and len(read) == 1
    is_first = recipe.scales_inputs and all(t in block.inputs for t in read)
    is_last = recipe.scales_outputs and all(t in block.outputs for t in operator.outputs)
    return is_product and (is_first or is_last)


@dataclass
class Neighbours:
    """Writers and readers of the tensors of placed operators, in float or as integers.

    Attributes:
        fetched: outputs of the block.
    """

    producers: dict[Tensor, Operator]
    readers: dict[Tensor, list[Any]]
    fetched: frozenset[Any]

    def __init__(self, block: Block[Any, Any], placed: Collection[Operator]) -> None:
        self.producers = {t: o for o in block.operators for t in o.outputs}
        self.readers = {}
        for operator in placed:
            for tensor in float_inputs(operator):
                self.readers.setdefault(tensor, []).append(operator)
        self.fetched = frozenset(block.outputs)

    def after(self, operator: Operator) -> list[Any]:
        """The placed operators that read what an operator writes."""
        return [reader for t in float_outputs(operator) for reader in self.readers.get(t, ())]


def gives_floats(operator: Operator, placement: Placement, kernels: Kernels, neighbours: Neighbours) -> bool:
    """True if nobody wants the integers of an operator that can give floats as well."""
    after = neighbours.after(operator)
    # Without such readers it is an answer of the model, which is wanted in float, or only its sizes are read.
    return kernels.table[operator.code].gives_floats and all(placement[reader] for reader in after)


# ----------------------------------------------------------------------------------------- one operator alone


def _why_impossible(
    operator: Operator, observed: Collection[Any] | Mapping[Any, Any], kernels: Kernels
) -> str:
    kernel = kernels.table.get(operator.code)
    if kernel is None:
        return kernels.why_missing(operator)
    why = kernels.why_form(operator)
    if why:
        return why
    weights, bias = kernels.weights(operator), kernels.bias(operator)
    if kernel.weighted is not None and weights is None and not kernel.weighted.may_compute:
        return "its weights are computed at run time"
    if bias is not None and not bias.is_constant:
        return "its bias is computed at run time"
    for tensor in filter(is_float, (*kernels.data_inputs(operator), weights, bias, *operator.outputs)):
        if tensor.is_constant:
            if not np.isfinite(np.asarray(tensor.array())).all():
                return f"constant '{tensor.name}' has values that are not finite"
        elif tensor not in observed:
            return f"{UNSEEN} '{tensor.name}'"
    if isinstance(observed, Mapping):
        rules = (_why_coarser, _why_apart, _why_cut)
        return next((why for rule in rules if (why := rule(operator, observed, kernels))), "")
    return ""


def _why_coarser(operator: Operator, observed: Mapping[Any, Any], kernels: Kernels) -> str:
    """Why not the steps that a kernel dictates, where a file has finer ones for its result."""
    fixed, result, arithmetic = kernels.table[operator.code].fixed, operator.outputs[0], kernels.arithmetic
    given = observed.get(result)
    # Those of sixteen bits are finer than what comes in.
    if fixed is None or given is None or given.observer != KEPT or arithmetic.is_symmetric:
        return ""
    if given.width > _AS_FINE * fixed.scale * (arithmetic.high - arithmetic.low):
        return ""
    return f"the file's steps of '{result.name}' are finer than those that {operator.code} has in integers"


def _why_apart(operator: Operator, observed: Mapping[Any, Any], kernels: Kernels) -> str:
    """Why not one grid for all that an operator gives, where a file has several."""
    if not kernels.table[operator.code].same_scale:
        return ""
    ranges = [observed[t] for t in float_outputs(operator)]
    if len({r for r in ranges if r.observer == KEPT}) < 2:
        return ""
    return f"the file has several grids for what {operator.code} gives, which is codes of one"


def _why_cut(operator: Operator, observed: Mapping[Any, Any], kernels: Kernels) -> str:
    """Why not the grid of its output, on which a kernel that averages would get its input.

    What lies beyond the mean's own range is part of the mean: it may not be cut off before. And what is
    rounded to other steps before is a step off behind every other time.
    """
    if not kernels.table[operator.code].averages:
        return ""
    (result,) = operator.outputs
    after = observed[result]
    for tensor in kernels.computed_inputs(operator):
        before = observed[tensor]
        near = _SAME_GRID * max(before.width, after.width)
        is_other = abs(before.low - after.low) > near or abs(before.high - after.high) > near
        if is_other and before.observer == after.observer == KEPT:
            return f"the file's grid of '{result.name}' is not that of its input '{tensor.name}'"
    return ""


# --------------------------------------------------------------------------------------------- its neighbours


def _keep_rows(placement: Placement, kernels: Kernels, neighbours: Neighbours) -> None:
    """Leave the bias of a product of several matrices to the kernel that gives floats."""
    product, addition = kernels.float_row
    for operator, why in placement.items():
        if why or operator.code != addition:
            continue
        row = next((t for t in operator.inputs if t is not None and t.is_constant), None)
        for tensor in kernels.computed_inputs(operator):
            before = neighbours.producers.get(tensor)
            is_alone = neighbours.readers[tensor] == [operator] and tensor not in neighbours.fetched
            # Only where nobody else wants the bare product: it would have to be quantized for them.
            if before is None or before.code != product or placement.get(before) != "" or not is_alone:
                continue
            if row is not None and row.array().ndim <= 1:
                placement[operator] = "it is added to the sums of the product"


def _keep_scores(
    placement: Placement,
    kernels: Kernels,
    neighbours: Neighbours,
    observed: Collection[Any] | Mapping[Any, Any],
) -> None:
    """Keep float, behind the last layer, what squashes numbers into a range of its own, what joins numbers of
    unlike ranges, and what follows it.

    Of a softmax 256 steps keep no small probability and make ties of large ones. Boxes of 0 to 300 joined
    with scores of 0 to 1 leave the scores one step; each in floats by itself, they cost no more.
    """
    late: set[Any] = set()
    for operator in reversed(list(placement)):
        if kernels.is_light(operator) and all(placement[o] or o in late for o in neighbours.after(operator)):
            late.add(operator)
    kept: set[Any] = set()
    for operator, why in placement.items():
        kernel = kernels.table.get(operator.code)
        squashes = kernel is not None and kernel.fixed is not None
        apart = squashes or _joins_unlike(operator, kernels, observed)
        if not why and operator in late and (apart or not kept.isdisjoint(operator.inputs)):
            placement[operator] = WANTED_IN_FLOAT
            kept.update(operator.outputs)


def _joins_unlike(
    operator: Operator, kernels: Kernels, observed: Collection[Any] | Mapping[Any, Any]
) -> bool:
    """True if one scale for all inputs and the output takes a bit or more from one of them."""
    kernel = kernels.table.get(operator.code)
    if kernel is None or not kernel.same_scale or not isinstance(observed, Mapping):
        return False
    ranges = [observed[t] for t in kernels.computed_inputs(operator) if t in observed]
    if len(ranges) < 2:
        return False
    whole = reduce(lambda a, b: a.union(b), ranges)
    # What is always 0 loses nothing.
    return any(0 < 2 * one.width <= whole.width for one in ranges)


def _keep_islands(placement: Placement, kernels: Kernels, *, has_codes_at_ends: bool) -> None:
    """Keep light operators float that, as a group, border on no heavy integer operator.

    Where crossing costs something, only groups that border on float operators: others cost no crossing. And
    groups that only move numbers from a float input to a float output: a state that is handed through, say,
    which would be cut off where calibration saw no larger one.
    """
    touching: dict[Tensor, list[Any]] = {}
    for operator in placement:
        for tensor in (*kernels.computed_inputs(operator), *float_outputs(operator)):
            touching.setdefault(tensor, []).append(operator)
    islands: DisjointSets[Any] = DisjointSets()
    light = {o for o, why in placement.items() if not why and kernels.is_light(o)}
    for operators in touching.values():
        islands.join([o for o in operators if o in light])
    near_heavy: set[Any] = set()
    near_float: set[Any] = set()
    for operators in touching.values():
        shores = {islands.find(o) for o in operators if o in light}
        others = [o for o in operators if o not in light]
        if any(not placement[o] for o in others):
            near_heavy |= shores
        if any(placement[o] for o in others):
            near_float |= shores
    heavy = [o for o, why in placement.items() if not why and o not in light]
    moves = {o for o in light if (k := kernels.table[o.code]).same_scale and not k.averages}
    computing = {islands.find(o) for o in light - moves}
    for operator in light:
        # An island among floats would cost a QUANTIZE and a DEQUANTIZE for arithmetic that is cheap anyway.
        group = islands.find(operator)
        # A network that only moves numbers is asked for as it is.
        only_moves = bool(heavy) and not has_codes_at_ends and group not in computing
        is_apart = group in near_float or only_moves
        if group not in near_heavy and (kernels.floats_are_free or is_apart):
            placement[operator] = AMONG_FLOATS


def _keep_float_tails(placement: Placement, kernels: Kernels, neighbours: Neighbours) -> None:
    """Keep a light operator float if only float operators want its results, and that saves a crossing."""
    is_tail = _is_free_tail if kernels.floats_are_free else _is_tail
    _until_stable(
        placement,
        lambda o: kernels.is_light(o) and is_tail(o, placement, kernels, neighbours),
        WANTED_IN_FLOAT,
    )


def _is_tail(operator: Operator, placement: Placement, kernels: Kernels, neighbours: Neighbours) -> bool:
    """True if an operator inside the network can read floats that exist anyway."""
    del kernels
    after = neighbours.after(operator)
    # A result that is also fetched has to exist in the form the recipe wants.
    if not after or any(not placement[r] for r in after) or neighbours.fetched.intersection(operator.outputs):
        return False

    def exists_in_float(tensor: Tensor) -> bool:
        producer = neighbours.producers.get(tensor)
        return (producer is None or bool(placement.get(producer))) or any(
            placement[r] for r in neighbours.readers[tensor] if r is not operator
        )

    return all(exists_in_float(t) for t in float_inputs(operator))


def _is_free_tail(operator: Operator, placement: Placement, kernels: Kernels, neighbours: Neighbours) -> bool:
    """True if only floats are wanted of an operator, the model's outputs included: from floats it computes
    them better.
    """
    before: Any = neighbours.producers.get(kernels.data_inputs(operator)[0])
    # What is cut off needs no integers of its own before it. Nor do layers give floats to a clamp that stays
    # float: ONNX Runtime takes the two for one, and then unpacks the weights in every run.
    reads_integers = before is not None and placement.get(before) == ""
    if kernels.table[operator.code].is_clamp and reads_integers:
        return False
    return bool(float_outputs(operator)) and all(placement[r] for r in neighbours.after(operator))


def _until_stable(placement: Placement, rule: Callable[[Any], bool], reason: str) -> None:
    # From the outputs up: a tail of any length is then taken in one walk, unless branches make another
    # needed.
    order: Sequence[Any] = list(reversed(placement))
    changed = True
    while changed:
        changed = False
        for operator in order:
            if not placement[operator] and rule(operator):
                placement[operator] = reason
                changed = True


def keep_batch_statistics(
    placement: MutableMapping[Any, str], root: str, arithmetic: Collection[str]
) -> None:
    """Keep float what applies 1/sqrt(variance) of the batch: 8 bits per tensor would blur such factors.

    A factor stays one while arithmetic does not make it larger; x * factor is the last operator to be kept.

    Args:
        placement: operators in the order they run -> why each stays float; "" if it does not. Is changed.
        root: the op that makes a factor of a variance.
        arithmetic: the ops that a factor may go through.
    """
    factors: set[Any] = set()
    # Only values of the dict change while it is walked, never its keys.
    for operator, why in placement.items():
        sizes = [_size(t.shape) for t in operator.inputs if t in factors]
        if operator.code == root:
            factors.update(operator.outputs)
        elif sizes and operator.code in arithmetic:
            if not why:
                placement[operator] = "it applies statistics that are computed at run time"
            # A result larger than its factors is x * factor, an activation like any other: the walk ends
            # there.
            factors.update(t for t in operator.outputs if _size(t.shape) <= max(sizes))
    _keep_variances(placement, root, arithmetic)


def _keep_variances(placement: MutableMapping[Any, str], root: str, arithmetic: Collection[str]) -> None:
    """Keep float what a variance is made of: mean((x - mean(x))^2).

    Squares of small differences vanish in eight bits, and what is left of x behind a mean is small beside x.
    The walk ends at x, which is any tensor of the network: a convolution's result, or a sum of branches.
    """
    maker = {tensor: operator for operator in placement for tensor in operator.outputs}

    def makers(operators: Collection[Any]) -> list[Any]:
        return [maker[t] for operator in operators for t in operator.inputs if t in maker]

    around, means = [o for o in placement if o.code == root], set[Any]()
    while around:  # down to the mean of the squares: adding epsilon, reshaping
        found = makers(around)
        means.update(o for o in found if _is_mean(o))
        around = [o for o in found if o.code in arithmetic and o not in means]
    squares = [o for o in makers(means) if _is_square(o)]
    centred = [o for o in makers(squares) if o.code.upper() == "SUB"]
    averages = [o for o in makers([*squares, *centred]) if _is_mean(o)]
    # A mean without squares under the root is no variance; it stays with what the other rules say.
    for operator in (*squares, *centred, *averages, *(means if squares else ())):
        placement[operator] = placement[operator] or "it is part of a variance that is computed at run time"


def _is_mean(operator: Operator) -> bool:
    """MEAN in LiteRT's words; in ONNX's a ReduceMean, which over a picture is a GlobalAveragePool."""
    return operator.code in ("MEAN", "ReduceMean", "GlobalAveragePool")


def _is_square(operator: Operator) -> bool:
    """x * x, or the square of a difference."""
    # It centres and squares in one op: there is no SUB above it to be found.
    if operator.code == "SQUARED_DIFFERENCE":
        return True
    first, *others = operator.inputs
    return operator.code.upper() == "MUL" and bool(others) and first is others[0]


def _size(shape: Shape) -> float:
    """Number of elements; infinite if unknown."""
    if shape is None or None in shape:
        return math.inf
    return math.prod(n or 0 for n in shape)
