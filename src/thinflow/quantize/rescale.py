"""Channels rescaled as a recipe says, by what samples or weights tell of their sizes.

A trained network may hold channels that are a hundred times larger than others: nothing in training forbids
it. One scale for a whole tensor then leaves nothing of the small ones, and answers fall to chance.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar, cast

import numpy as np

from thinflow.onnx import program as onnx
from thinflow.quantize.channel_groups import Group, find_groups, watched
from thinflow.quantize.channels import channel_statistics
from thinflow.quantize.equalize import (
    channel_sizes,
    equalizing_factors,
    rescaled,
    smoothing_factors,
    weight_sizes,
)
from thinflow.quantize.kernels import is_float
from thinflow.quantize.macs import main_block
from thinflow.quantize.recipe import Recipe
from thinflow.quantize.runners import Feed
from thinflow.tflite import model as tflite
from thinflow.typing import Array

P = TypeVar("P", bound=tflite.Program | onnx.Program)

# Of 8 bits, a channel of the middle size has 4 left where the largest is 16 times as large. Networks as they
# come from training stay below 4 (benchmarks/ptq, held by a test), one of heat maps reaches 5.2.
UNEQUAL = 16.0

KINDS = 32
"""Numbers of an answer, of which more are of one kind."""

_CUSTOM = "CUSTOM"

SCALED = "/scaled"
"""Behind the name of an end of the model: what it is without, or with, a factor for each channel."""


@dataclass(frozen=True)
class Rescaling(Generic[P]):
    """A program whose channels were rescaled.

    Attributes:
        program: computes the same in float.
        groups: number of channel groups that have other factors than 1.
        ratio: the largest channel over the middle one, in the most unequal of all groups; 1.0 without any.
        where: the name of a tensor of that group.
        scaled_inputs: names of inputs whose channels are multiplied first.
        scaled_outputs: name of each output whose channels are multiplied last -> their `unlikeness`.
    """

    program: P
    groups: int = 0
    ratio: float = 1.0
    where: str = ""
    scaled_inputs: tuple[str, ...] = ()
    scaled_outputs: Mapping[str, float] = field(default_factory=dict)


def rescale(program: P, recipe: Recipe, feeds: Sequence[Feed], *, threads: int = 1) -> Rescaling[P]:
    """The program as `Recipe.rescale` says.

    Schemes with ranges of activations ask for smoothing, by what samples show; others store weights alone,
    and ask for equalization, by weights. So do weights with one scale for a whole layer.

    Args:
        feeds: samples; a few tell the sizes of channels.

    Raises:
        FeedError: a sample does not fit.
    """
    ends = ScaledEnds(program, recipe)
    program = ends.program
    has_ends = bool(ends.first or ends.last)
    groups = find_groups(program, loops=True) if recipe.rescale != "off" or has_ends else []
    if not groups:
        return Rescaling(program)
    smooths = recipe.needs_samples and (recipe.per_channel or recipe.rescale == "unequal")
    if smooths:
        seen = channel_statistics(program, watched(groups), feeds, threads=threads)
        ratios = [_ratio(channel_sizes(group, seen)) for group in groups]
    else:
        ratios = [_ratio(weight_sizes(group)) for group in groups]
    chosen = [
        g
        for g, r in zip(groups, ratios, strict=True)
        if recipe.rescale == "all" or (r > UNEQUAL and recipe.rescale != "off") or ends.bound(g)
    ]
    if not chosen:
        return Rescaling(program)
    if smooths:
        # A product in float takes over all of the size.
        factors = {g: smoothing_factors(g, seen, alpha=1.0 if ends.is_last(g) else 0.5) for g in chosen}
    else:
        factors = dict(zip(chosen, equalizing_factors(chosen), strict=True))
    most = int(np.argmax(ratios))
    inputs = tuple(str(product.inputs[0].name) for product in ends.first)
    outputs = {
        str(b.operator.outputs[0].name): unlikeness(channel_sizes(g, seen) if smooths else weight_sizes(g))
        for g in chosen
        if ends.is_last(g)
        for b in g.readers
    }
    made = rescaled(program, factors)
    return Rescaling(made, len(chosen), float(ratios[most]), _name_of(groups[most]), inputs, outputs)


class ScaledEnds(Generic[P]):
    """A program with products by ones behind float inputs and in front of float outputs, as far as layers can
    take up what they multiply by.

    Channels lie last, or, where nothing there can be rescaled, behind the batch, as ONNX has pictures.

    Attributes:
        program: with the products.
        first, last: products of inputs and of outputs.
    """

    def __init__(self, program: P, recipe: Recipe) -> None:
        main = main_block(program)
        made = main.producers()
        # Features that an op of somebody else makes, as of a sound, are floats as inputs are.
        given = [t for o in main.operators if o.code == _CUSTOM for t in o.outputs]
        firsts = [t for t in (*main.inputs, *given) if recipe.scales_inputs]
        lasts = {t: None for t in main.outputs if recipe.scales_outputs and t in made and t not in firsts}
        ends = [t for t in (*firsts, *lasts) if is_float(t) and len(t.shape or ()) > 1]
        axes = {t: axis for axis in (1, -1) for t in _scalable(program, dict.fromkeys(ends, axis), lasts)}
        self.program, products = _with_products(program, axes, lasts)
        self.first = tuple(o for t, o in products.items() if t not in lasts)
        self.last = tuple(o for t, o in products.items() if t in lasts)

    def bound(self, group: Group) -> bool:
        """True if a group lies at an end that was scaled."""
        return any(b.operator in self.first for b in group.writers) or self.is_last(group)

    def is_last(self, group: Group) -> bool:
        """True if all of a group's factors are given back in float."""
        return bool(group.readers) and all(b.operator in self.last for b in group.readers)


def _scalable(program: P, axes: Mapping[Any, int], lasts: Collection[Any]) -> list[Any]:
    """Those of some ends whose channels along an axis can be rescaled."""
    made, products = _with_products(program, axes, lasts)
    groups = find_groups(made, loops=True)
    met = {border.operator for g in groups for border in (*g.writers, *g.readers)}
    return [x for x, product in products.items() if product in met]


def _with_products(program: P, axes: Mapping[Any, int], lasts: Collection[Any]) -> tuple[P, dict[Any, Any]]:
    """The program with products by ones along axes of inputs, for all who read them, and of outputs.

    Args:
        lasts: which of them are outputs.
    """
    main = main_block(program)
    made = main.producers()
    products: dict[Any, Any] = {}
    # Who reads an input reads its product; what made an output makes what is multiplied.
    read, written = dict[Any, Any](), dict[Any, Any]()
    for x, axis in axes.items():
        shape = [1] * len(x.shape or ())
        count = (x.shape or ())[axis]
        if not count or count == 1:
            continue
        shape[axis] = count
        name = f"{x.name}{SCALED}"
        ones = replace(x, name=f"{name}/by", shape=tuple(shape), data=np.ones(shape, np.float32))
        twin = replace(x, name=name)
        (written if x in lasts else read)[x] = twin
        ends = ([twin, ones], [x]) if x in lasts else ([x, ones], [twin])
        if isinstance(program, onnx.Program):
            products[x] = onnx.Operator("Mul", *ends, {}, name)
        else:
            products[x] = tflite.Operator("MUL", *ends, {"fused_activation_function": "NONE"}, name)
    others = {**read, **written}
    operators: list[Any] = [products[x] for x in read if x not in made]
    for o in main.operators:
        inputs = [t if t is None else others.get(t, t) for t in o.inputs]
        outputs = [written.get(t, t) for t in o.outputs]
        is_other = not others.keys().isdisjoint(o.reads()) or not written.keys().isdisjoint(o.outputs)
        operators.append(replace(o, inputs=inputs, outputs=outputs) if is_other else o)
        operators += [products[t] for t in o.outputs if t in read]
    operators += [products[x] for x in written]
    if isinstance(program, onnx.Program):
        return cast("P", replace(program, operators=operators)), products
    first = replace(program.subgraphs[0], operators=operators)
    return cast("P", replace(program, subgraphs=[first, *program.subgraphs[1:]])), products


def unlikeness(sizes: Array) -> float:
    """How many times the size of others the largest number of an answer is: 1.0 if there is no other.

    A few numbers may be of several kinds, each with a unit of its own. Many are of one, as pixels are: where
    some of these are small, as at the border of a picture, they matter little.
    """
    sizes = sizes[sizes > 0]
    is_of_kinds = 0 < sizes.size <= KINDS
    return float(sizes.max() / np.quantile(sizes, 0.25, method="lower")) if is_of_kinds else 1.0


def _ratio(sizes: Array) -> float:
    """The largest over the middle one; channels of zeros left out."""
    sizes = sizes[sizes > 0]
    return float(sizes.max() / np.median(sizes)) if sizes.size else 1.0


def _name_of(group: Group) -> str:
    return str(group.tensors[0].name)
