"""Plausible made-up inputs for a graph nobody has given data for. Seeded, so that everybody gets the same.

What an input is meant to be is read off its type, its shape and what the graph does with it first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from thinflow.analysis.shapes import declared_spec
from thinflow.analysis.size_names import shapes_of_inputs, size_names
from thinflow.analysis.training_mode import inference_setting
from thinflow.errors import (
    EngineUnavailable,
    FeedError,
    NodeError,
    ParameterError,
    ThinflowError,
    UnsupportedOp,
)
from thinflow.ir.graph import Value, graph_of
from thinflow.ir.interface import states_of
from thinflow.ir.types import BOOL, RESOURCE, STRING, DType, TensorSpec, shape_text
from thinflow.ops.traits import Trait, has
from thinflow.synthetic.integers import (
    amounts_for,
    index_limit,
    is_divisor,
    is_segmentation,
    known_keys,
    name_places_once,
    row_ends,
)
from thinflow.synthetic.scales import scales_for
from thinflow.synthetic.sizes import concrete_shape, fitting_specs, in_rows, likely_shape, rows_of, splits
from thinflow.synthetic.strings import known_maker, maker_for
from thinflow.typing import Array

MAX_RANK = 32
"""The rank that every numpy can hold."""
MAX_BYTES = 1 << 31
"""Of one made-up input. A damaged file may declare any size."""


def synthetic_feeds(
    inputs: Sequence[Value], count: int, seed: int = 0, specs: Mapping[Value, TensorSpec] | None = None
) -> Iterator[dict[Value, Array]]:
    """`count` feeds for these inputs, drawn one after the other from one seed.

    Unknown leading sizes become 1, unknown picture sizes `DEFAULT_SIZE`. Floats are uniform in [-1, 1], which
    suits models whose pixels were scaled to that range, or in the range that a quantized model states of its
    input; those of which sizes are made are such that pictures stay about as large. Integers are small, or
    what the table holds that they are looked up in, or such rates, sizes and counts as the ops take that read
    them. A training switch gets the value for inference: 1 for a keep probability, False for is_training.

    Args:
        inputs: of a graph.
        count: how many.
        seed: of the numbers.
        specs: what is known of inputs beyond what they declare.

    Raises:
        FeedError: an input of a type that cannot be made up (a resource, an unknown type).
    """
    if seed < 0:
        raise ParameterError(f"the seed is {seed}", hint="give a whole number from 0 on")
    rng = np.random.default_rng(seed)
    nests = {value: nest for value in inputs if (nest := rows_of(value))}
    known = fitting_specs(inputs, specs)
    for _ in range(count):
        feed = {value: synthetic_array(value, rng, known.get(value)) for value in inputs}
        yield feed | _parted(feed, nests)


def _parted(feed: Mapping[Value, Array], nests: Mapping[Value, list[Value]]) -> dict[Value, Array]:
    """What parts values into rows, of as many as there are: somebody may have given sizes."""
    made: dict[Value, Array] = {}
    for value, nest in nests.items():
        count = len(feed[value])
        for parts in reversed([s for s in nest if s in feed and feed[s].size]):
            rows = len(feed[parts]) - 1
            made[parts] = row_ends(rows, count).astype(feed[parts].dtype)
            count = rows
    return made


def synthetic_array(value: Value, rng: np.random.Generator, spec: TensorSpec | None = None) -> Array:
    """One made-up array for one input, of what it declares unless more is known."""
    start = _start_of(value)
    if start is not None:
        return start
    spec = declared_spec(value) if spec is None else spec
    setting = inference_setting(value.node)
    if setting is not None and spec.dtype is not None:
        return np.asarray(setting, spec.dtype.numpy())
    if spec.dtype is STRING or (spec.dtype is None and known_maker(value) is not None):
        return _strings(value, likely_shape(value, spec), rng)
    shape = _size_to_make(value, spec)
    assert spec.dtype is not None
    if len(shape) == 1 and shape[0] and splits(value):
        return row_ends(shape[0] - 1, in_rows(value)).astype(spec.dtype.numpy())
    amounts = None if spec.dtype is BOOL else amounts_for(value, shape, rng)
    if amounts is not None:
        return amounts.astype(spec.dtype.numpy())
    if spec.dtype.is_integer:
        return _integers(value, spec.dtype, shape, rng)
    ends = stated_range(value) if spec.dtype.is_floating else None
    if ends is not None:
        return rng.uniform(*ends, shape).astype(spec.dtype.numpy())
    scales = scales_for(value, shape, rng) if spec.dtype.is_floating else None
    if scales is not None:
        return scales.astype(spec.dtype.numpy())
    return _numbers(spec.dtype, shape, rng)


def stated_range(value: Value) -> tuple[float, float] | None:
    """The least and the largest number that a quantized model takes for an input; None if it says none.

    Of pictures of 0 to 255 numbers from -1 to 1 are two codes, and all that a model answers then is noise.
    """
    for node in value.readers:
        if not has(node.op, Trait.FAKE_QUANT):
            continue
        known = [v.node.tensor for v in node.inputs[1:]]
        ends = [float(t.numpy()) for t in known if t is not None and not t.shape]
        low, high = ends if len(ends) == 2 else (node.get("min", -6.0), node.get("max", 6.0))
        if len(known) == len(ends) and math.isfinite(high - low) and low < high:
            return low, high
    return None


def why_not_made_up(value: Value) -> str:
    """The reason why no array can be made up for an input; "" if one can. Nothing is made here."""
    spec = declared_spec(value)
    if inference_setting(value.node) is not None or spec.dtype is STRING or known_maker(value) is not None:
        return ""
    try:
        _size_to_make(value, spec)
    except FeedError as error:
        return error.message
    return ""


def _size_to_make(value: Value, spec: TensorSpec) -> tuple[int, ...]:
    """The shape of an array of numbers that can be made up for an input.

    Raises:
        FeedError: nothing can be made up of that type, or of that size.
    """
    if spec.dtype is RESOURCE:
        raise FeedError(
            f"'{value.name}' stands for a table or a variable (a resource) that the file does not hold",
            hint="open the SavedModel or the checkpoint it was made from, and freeze that",
        )
    if spec.dtype is None or not spec.dtype.numpy_name:
        raise FeedError(
            f"no input can be made up for '{value.name}' of type {spec.dtype}", hint="pass feeds of your own"
        )
    shape = likely_shape(value, spec)
    if len(shape) > MAX_RANK or math.prod(shape) * spec.dtype.itemsize > MAX_BYTES:
        raise FeedError(
            f"an input of shape {shape_text(shape)} is too large to make up for '{value.name}'",
            hint=f"give it smaller sizes: --shape {value.name}=...",
        )
    return shape


def _start_of(value: Value) -> Array | None:
    """The first value of a state; None for any other input."""
    graph = graph_of(value.node)
    if graph is None or not graph.states:
        return None
    return next((s.first for s in states_of(graph) if s.input == value), None)


def override_shapes(
    inputs: Sequence[Value], shapes: Mapping[str, Sequence[int | None]]
) -> dict[Value, TensorSpec]:
    """Specs of inputs with the shapes a user gave in place of the declared ones.

    Args:
        inputs: of a graph.
        shapes: as for `shapes_of_inputs`.

    Raises:
        FeedError: a shape for something that is not an input, nor an open size that the file names.
    """
    specs = {value: declared_spec(value) for value in inputs}
    by_name = {value.name: value for value in inputs}
    for name, shape in shapes_of_inputs(inputs, shapes).items():
        value = by_name.get(name)
        if value is None:
            sizes = size_names(inputs)
            named = f"; sizes that it leaves open are {', '.join(sizes)}" if sizes else ""
            raise FeedError(f"'{name}' is not an input", hint=f"the inputs are {', '.join(by_name)}{named}")
        specs[value] = TensorSpec(specs[value].dtype, shape)
    return specs


def _numbers(element: DType, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    if element is BOOL:
        return rng.random(shape) < 0.5
    if element.kind == "c":
        return (rng.uniform(-1, 1, shape) + 1j * rng.uniform(-1, 1, shape)).astype(element.numpy())
    if element.is_floating:
        return rng.uniform(-1, 1, shape).astype(element.numpy())
    return _drawn(element, shape, rng, 0)


def _integers(value: Value, element: DType, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Integers that fit a table that they are looked up in; above 0 as divisors, sorted as segments."""
    if keys := known_keys(value):
        limits = np.iinfo(element.numpy())
        # And one that the table does not hold, so that its default is seen as well.
        other = min(max(keys) + 1, int(limits.max))
        held = [*(k for k in keys if limits.min <= k <= limits.max), other]
        return np.array(held, element.numpy())[rng.integers(0, len(held), shape)].reshape(shape)
    if name_places_once(value):
        count = math.prod(shape)
        return (
            rng.permutation(max(index_limit(value) or 0, count))[:count]
            .reshape(shape)
            .astype(element.numpy())
        )
    numbers = _drawn(element, shape, rng, 1 if is_divisor(value) else 0, index_limit(value))
    # Segment ops want the numbers of their rows in order.
    return np.sort(numbers) if shape and is_segmentation(value) else numbers


def _drawn(
    element: DType, shape: tuple[int, ...], rng: np.random.Generator, least: int, limit: int | None = None
) -> Array:
    # Unsigned bytes are pixels as a rule; other integers are small, to lie within any table.
    top = 256 if element.name in {"uint8", "quint8"} else 4
    least = least if shape else 1  # a count or an index: of nothing there is seldom a result
    if limit:
        most = int(np.iinfo(element.numpy()).max)
        # int8 indices may not reach the end of a large table.
        top = min(limit, most) if shape else min(top, limit)
    return rng.integers(min(least, top - 1), top, shape).astype(element.numpy())


def _strings(value: Value, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    make = maker_for(value)
    result = np.empty(shape, object)
    for index in np.ndindex(*shape):
        result[index] = make(rng)
    return result


# --- errors on made-up inputs, told with the inputs whose sizes had to be made up too -----------------------


@contextmanager
def naming_open_sizes(unsure: Mapping[str, TensorSpec]) -> Iterator[None]:
    """Errors that a run on made-up inputs raises, as errors of the inputs if their sizes are not known.

    Args:
        unsure: as `open_sizes` finds them; if there are none, errors pass as they are.

    Raises:
        FeedError: in place of what the run raised; its hint gives the flags to write.
    """
    try:
        yield
    except ThinflowError as error:
        explained = explain_open_sizes(error, unsure)
        if explained is None:
            raise
        raise explained from error


def explain_open_sizes(error: ThinflowError, unsure: Mapping[str, TensorSpec]) -> FeedError | None:
    """The error of a run on made-up inputs as one of the inputs; None if their sizes are all known."""
    may_be_sizes = isinstance(error, NodeError | FeedError | EngineUnavailable)
    if not unsure or not may_be_sizes or isinstance(error, UnsupportedOp):
        return None
    # Nobody can tell which of them is to blame; the flags of all of them are in the hint.
    name, spec = next(iter(unsure.items()))
    tried = shape_text(concrete_shape(spec))
    if spec.shape is None:
        problem = f"the graph does not say what shape '{name}' has, and {tried} does not fit"
    else:
        problem = f"'{name}' has the shape {shape_text(spec.shape)}, and made-up sizes, {tried}, do not fit"
    flags = " ".join(f"--shape {n}={_sizes(s)}" for n, s in unsure.items())
    hint = f"say what sizes it has, for example {flags}; or feed your own"
    return FeedError(f"{problem}: {error.message}", hint=hint)


def _sizes(spec: TensorSpec) -> str:
    """Sizes to start from: what is known, and common ones for a picture."""
    if spec.shape is None:
        return "1,224,224,3"
    picture = len(spec.shape) == 4
    common = [1, 224, 224, 3] if picture else [1, *[16] * (len(spec.shape) - 1)]
    return ",".join(str(g if n is None else n) for n, g in zip(spec.shape, common, strict=True))
