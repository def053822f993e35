"""Channels rescaled as a recipe says, by what samples or weights tell of their sizes.

A trained network may hold channels that are a hundred times larger than others: nothing in training forbids
it. One scale for a whole tensor then leaves nothing of the small ones, and answers fall to chance.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
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
from thinflow.quantize.kernels import Operator, is_float
from thinflow.quantize.macs import main_block
from thinflow.quantize.recipe import Recipe
from thinflow.quantize.runners import Feed
from thinflow.tflite import model as tflite
from thinflow.typing import Array

P = TypeVar("P", bound=tflite.Program | onnx.Program)

# Of 8 bits, a channel of the middle size has 4 left where the largest is 16 times as large. Networks as they
# come from training stay below 4 (benchmarks/ptq, held by a test), one of heat maps reaches 5.2.
UNEQUAL = 16.0

SCALED = "/scaled"
"""Behind the name of an input: what it is times a factor for each channel."""


@dataclass(frozen=True)
class Rescaling(Generic[P]):
    """A program whose channels were rescaled.

    Attributes:
        program: computes the same in float.
        groups: number of channel groups that have other factors than 1.
        ratio: the largest channel over the middle one, in the most unequal of all groups; 1.0 without any.
        where: the name of a tensor of that group.
        scaled_inputs: names of inputs whose channels are multiplied first.
    """

    program: P
    groups: int = 0
    ratio: float = 1.0
    where: str = ""
    scaled_inputs: tuple[str, ...] = ()


def rescale(program: P, recipe: Recipe, feeds: Sequence[Feed], *, threads: int = 1) -> Rescaling[P]:
    """The program as `Recipe.rescale` says.

    Schemes with ranges of activations ask for smoothing, by what samples show; others store weights alone,
    and ask for equalization, by weights. So do weights with one scale for a whole layer.

    Args:
        feeds: samples; a few tell the sizes of channels.

    Raises:
        FeedError: a sample does not fit.
    """
    program, scales = with_scaled_inputs(program) if recipe.scales_inputs else (program, ())
    groups = find_groups(program, loops=True) if recipe.rescale != "off" or scales else []
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
        if recipe.rescale == "all" or (r > UNEQUAL and recipe.rescale != "off") or _begins_with(g, scales)
    ]
    if not chosen:
        return Rescaling(program)
    if smooths:
        factors = {group: smoothing_factors(group, seen) for group in chosen}
    else:
        factors = dict(zip(chosen, equalizing_factors(chosen), strict=True))
    most = int(np.argmax(ratios))
    names = tuple(str(product.inputs[0].name) for product in scales)
    return Rescaling(
        rescaled(program, factors), len(chosen), float(ratios[most]), _name_of(groups[most]), names
    )


def _begins_with(group: Group, operators: Collection[Operator]) -> bool:
    return any(border.operator in operators for border in group.writers)


def with_scaled_inputs(program: P) -> tuple[P, tuple[Any, ...]]:
    """The program with a product by ones behind each float input whose channels a layer can take factors
    of, and these products; the program itself if there is no such input.

    Channels lie last, or, where nothing there can be rescaled, behind the batch, as ONNX has pictures.
    """
    inputs = [t for t in main_block(program).inputs if is_float(t) and len(t.shape or ()) > 1]
    axes = {t: axis for axis in (1, -1) for t in _scalable(program, dict.fromkeys(inputs, axis))}
    made, products = _with_products(program, axes)
    return (made, tuple(products.values())) if axes else (program, ())


def _scalable(program: P, axes: Mapping[Any, int]) -> list[Any]:
    """Those of some inputs whose channels along an axis can be rescaled."""
    made, products = _with_products(program, axes)
    first = {border.operator for group in find_groups(made, loops=True) for border in group.writers}
    return [x for x, product in products.items() if product in first]


def _with_products(program: P, axes: Mapping[Any, int]) -> tuple[P, dict[Any, Any]]:
    """The program with products by ones along axes of inputs, for all who read them."""
    is_onnx = isinstance(program, onnx.Program)
    products: dict[Any, Any] = {}
    for x, axis in axes.items():
        shape = [1] * len(x.shape or ())
        count = (x.shape or ())[axis]
        if not count or count == 1:
            continue
        shape[axis] = count
        name = f"{x.name}{SCALED}"
        ones = replace(x, name=f"{name}/by", shape=tuple(shape), data=np.ones(shape, np.float32))
        y = replace(x, name=name)
        if is_onnx:
            products[x] = onnx.Operator("Mul", [x, ones], [y], {}, name)
        else:
            products[x] = tflite.Operator("MUL", [x, ones], [y], {"fused_activation_function": "NONE"}, name)
    scaled = {x: product.outputs[0] for x, product in products.items()}
    main = main_block(program)
    operators = [
        *products.values(),
        *(
            replace(o, inputs=[t if t is None else scaled.get(t, t) for t in o.inputs])
            if not scaled.keys().isdisjoint(o.reads())
            else o
            for o in main.operators
        ),
    ]
    if isinstance(program, onnx.Program):
        return cast("P", replace(program, operators=operators)), products
    first = replace(program.subgraphs[0], operators=operators)
    return cast("P", replace(program, subgraphs=[first, *program.subgraphs[1:]])), products


def _ratio(sizes: Array) -> float:
    """The largest over the middle one; channels of zeros left out."""
    sizes = sizes[sizes > 0]
    return float(sizes.max() / np.median(sizes)) if sizes.size else 1.0


def _name_of(group: Group) -> str:
    return str(group.tensors[0].name)
