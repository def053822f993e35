"""Inputs for what is measured: those given, in the type of the model, or made up to suit their readers."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from thinflow.analysis.shapes import declared_spec
from thinflow.analysis.size_names import shapes_of_inputs, size_names
from thinflow.engines._files import FilePort
from thinflow.errors import FeedError, ThinflowError
from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import TensorSpec
from thinflow.load.fitting_sizes import fitting_sizes
from thinflow.load.lifted import give_sizes, in_tensorflow
from thinflow.synthetic import amounts_for, concrete_shape, likely_shape, synthetic_array
from thinflow.typing import Array

Shapes = Mapping[str, Sequence[int | None]]
Feeds = Mapping[str, Any] | Sequence[Any]
"""Input name -> array, or the arrays in the order of the inputs."""


@dataclass(frozen=True)
class FeedSeries:
    """Samples that runs take in turns, the same in each run of all models.

    Attributes:
        feeds: one or more, of the same sizes.
        origin: where they are from, in words.
        total: how many there are; None if that is not known.
        left_out: how many were not taken since their sizes differ from those of the first.
        places: file or number of each; empty if they are not known.
        text: all of it in words; "" for what these say.
    """

    feeds: tuple[Feeds, ...]
    origin: str = ""
    total: int | None = None
    left_out: int = 0
    places: tuple[str, ...] = ()
    text: str = ""

    def __str__(self) -> str:
        if self.text:
            return self.text
        count = len(self.feeds)
        of_all = f" of {self.total}" if self.total is not None and self.total > count else ""
        plural = "s" if count > 1 or of_all else ""
        origin = f" of {self.origin}" if self.origin else ""
        return f"{count}{of_all} sample{plural}{origin}"

    def first(self, count: int) -> FeedSeries:
        """The first of them."""
        return replace(self, feeds=self.feeds[:count], places=self.places[:count])


Given = Feeds | FeedSeries | None
"""What a model is fed; None: it is made up."""
FeedsFor = Callable[[str, Mapping[str, TensorSpec]], Given]
"""Feeds by a model's path ("" without) and what its inputs take; None: they are made up."""

_SEED = 0
Made = Mapping[str, Array | None]
"""Input of a file, in its order -> what it is fed where not any numbers will do; see `sensible_inputs`."""
FEED_IT = "feed your own: feeds={...}, or calibration=SAMPLES"


def by_position(feeds: Feeds | None, wanted: Sequence[str]) -> list[Array] | None:
    """Feeds in the order of a model's inputs; a single one goes to a single input whatever their names."""
    if feeds is None:
        return None
    if not isinstance(feeds, Mapping):
        if len(feeds) != len(wanted):
            raise FeedError(
                f"{len(feeds)} arrays are fed to {len(wanted)} inputs", hint=f"they are {', '.join(wanted)}"
            )
        return list(feeds)
    named = {str(k).removesuffix(":0"): v for k, v in feeds.items()}
    # Files of one model, converted by different programs, often differ in its input's name only.
    if len(named) == len(wanted) == 1:
        return list(named.values())
    missing = [n for n in wanted if n.removesuffix(":0") not in named]
    if missing:
        raise FeedError(f"nothing is fed to '{missing[0]}'", hint=f"the inputs are {', '.join(wanted)}")
    return [named[n.removesuffix(":0")] for n in wanted]


def given_text(given: Given) -> str:
    """What a model is fed, in words."""
    return (
        "made-up inputs" if given is None else str(given) if isinstance(given, FeedSeries) else "given arrays"
    )


def each_feed(given: Given) -> list[Feeds | None]:
    """What a model is fed run after run, from the first again when all were used."""
    return list(given.feeds) if isinstance(given, FeedSeries) else [given]


def each_by_position(given: Given, wanted: Sequence[str]) -> Given:
    """As `by_position`, of each of several feeds."""
    if isinstance(given, FeedSeries):
        return replace(given, feeds=tuple(by_position(feeds, wanted) or () for feeds in given.feeds))
    return by_position(given, wanted)


def as_declared(array: Any, value: Value) -> Array:
    found = np.asarray(array)
    element = declared_spec(value).dtype
    if element is None or not element.numpy_name:
        return found
    # Cast here, outside of what is timed.
    return np.asarray(found, element.numpy(), order="C")


def as_input(array: Any, detail: Mapping[str, Any]) -> Array:
    """The array in the type of a file's input, quantized as the model says if that is eight-bit."""
    found = np.asarray(array)
    # Strings have no numbers to quantize, and engines take them as objects.
    if found.dtype.kind in "OSU":
        return found
    wanted = np.dtype(detail["dtype"])
    scale, zero_point = detail.get("quantization", (0, 0))
    if found.dtype.kind == "f" and wanted.kind in "iu" and scale:
        limits = np.iinfo(wanted)
        # Fed floats are real numbers; the codes that stand for them go in, as a converter would have put
        # them.
        found = np.clip(np.round(found / scale) + zero_point, limits.min, limits.max)
    return np.asarray(found, wanted, order="C")


def check_rank(name: str, own: Sequence[int | None] | None, asked: Sequence[int | None]) -> None:
    """Refuse a shape with more or fewer sizes than an input has; other sizes than declared are fine.

    Args:
        name: of the input.
        own: its sizes; None if even their number is unknown.
        asked: those that were asked for.

    Raises:
        FeedError: they are not as many.
    """
    if own is None or len(own) == len(asked):
        return

    def shown(sizes: Sequence[int | None]) -> str:
        return ",".join("?" if n is None or n < 0 else str(n) for n in sizes)

    raise FeedError(
        f"the input '{name}' has {len(own)} sizes, [{shown(own)}], "
        f"and {len(asked)} were given: [{shown(asked)}]",
        hint=f"give sizes like {shown(own).replace('?', '1')}",
    )


def made_up(detail: Mapping[str, Any], shapes: Shapes, rng: np.random.Generator) -> Array:
    """Numbers for an input of which only type and shape are known; small ones where they are integers."""
    asked = shapes.get(detail["name"].removesuffix(":0"))
    if asked is not None:
        check_rank(detail["name"], [int(n) for n in detail["shape"]] or None, asked)
    shape = tuple(1 if n is None else n for n in asked) if asked is not None else _default_shape(detail)
    wanted = np.dtype(detail["dtype"])
    if wanted.kind == "f":
        return rng.uniform(-1, 1, shape).astype(wanted)
    if wanted.kind == "b":
        return rng.random(shape) < 0.5
    if wanted.kind not in "iu":
        raise FeedError(f"no input can be made up for '{detail['name']}' of type {wanted}", hint=FEED_IT)
    # Bytes are mostly pixels or codes. Larger integers are mostly indices, and small ones lie within any
    # table.
    top = 256 if wanted.itemsize == 1 else 4
    least = 0 if shape else 1  # one number is a count or a rate: of nothing there is seldom a result
    return (rng.integers(least, top, shape) - (128 if wanted == np.int8 else 0)).astype(wanted)


def made_up_arrays(details: Sequence[Mapping[str, Any]], shapes: Shapes, made: Made) -> list[Array]:
    """An array for each input of a file; seeded.

    Args:
        details: of the inputs, as LiteRT describes them.
        shapes: input -> sizes.
        made: what was made for the file; engines may call an input otherwise than our reader does.
    """
    names = [d["name"] for d in details]
    found = [made.get(name) for name in names]
    # Names differ between the engine and our reader, the order does not.
    if not all(name in made for name in names) and len(made) == len(names):
        found = list(made.values())
    rng = np.random.default_rng(_SEED)
    return [
        made_up(detail, shapes, rng) if array is None else as_input(array, detail)
        for detail, array in zip(details, found, strict=True)
    ]


def _default_shape(detail: Mapping[str, Any]) -> tuple[int, ...]:
    """Sizes for an input as LiteRT describes it: those it has, and for open ones what a graph would get."""
    shape, signature = tuple(map(int, detail["shape"])), detail.get("shape_signature", ())
    if len(signature) != len(shape):
        return shape
    return concrete_shape(TensorSpec(None, tuple(None if n < 0 else int(n) for n in signature)))


def described(port: FilePort) -> dict[str, Any]:
    """An input as LiteRT would describe it; open sizes are what a graph would get.

    Raises:
        FeedError: nothing is known of it.
    """
    element, shape = port.spec.dtype, port.spec.shape
    if element is None or shape is None:
        raise FeedError(f"no input can be made up for '{port.name}'", hint=FEED_IT)
    kind = element.numpy() if element.numpy_name else np.dtype(object)
    return {"name": port.name, "shape": concrete_shape(port.spec), "dtype": kind}


def input_specs(path: str | os.PathLike[str], signature: str | None = None) -> dict[str, TensorSpec]:
    """Input -> type and shape, in the file's order, read without its engine."""
    return {v.name: declared_spec(v) for v in _read(path, signature).inputs}


def sensible_inputs(path: str | os.PathLike[str], shapes: Shapes, signature: str | None = None) -> Made:
    """Input -> made-up array, in the file's order, where not any numbers will do: indices, sizes, rates,
    switches, text; and all of them where open sizes must fit each other. None for the others, and for what
    cannot be made up; empty if it is all of them.

    Who reads an input tells what it is for, by TensorFlow's ops where the file's can be said so.

    Args:
        shapes: input, or open size by its name -> sizes to make.
    """
    try:
        graph = _read(path, signature)
        names = [v.name for v in graph.inputs]
        is_fitted = _settle(graph, shapes)
        if all(map(_takes_any_numbers, graph.inputs)) and not is_fitted:
            return {}
        graph = _in_tensorflows_ops(graph)
    except ThinflowError:  # the engine says what is wrong with it
        return {}
    rng = np.random.default_rng(_SEED)
    return {
        name: synthetic_array(value, rng)
        if is_fitted and _takes_any_numbers(value)
        else _made(value, shapes, rng)
        for name, value in zip(names, graph.inputs, strict=True)
    }


def by_inputs(path: str | os.PathLike[str], shapes: Shapes, signature: str | None = None) -> Shapes:
    """Shapes of a file's inputs, from those by names of open sizes as well; others stay."""
    try:
        inputs = _read(path, signature).inputs
    except ThinflowError:  # the engine says what is wrong with it
        return shapes
    return shapes_of_inputs(inputs, shapes) if size_names(inputs).keys() & shapes.keys() else shapes


def named_sizes(path: str | os.PathLike[str], signature: str | None = None) -> list[str]:
    """Names that a file gives to sizes that it leaves open; none if it cannot be read here."""
    try:
        return list(size_names(_read(path, signature).inputs))
    except ThinflowError:
        return []


def _settle(graph: Graph, shapes: Shapes) -> bool:
    """Settle sizes that go by a name, and such that are open beyond the batch; whether there are any."""
    sizes = size_names(graph.inputs)
    given = {n: s for n, s in shapes.items() if n in sizes or n in {v.name for v in graph.inputs}}
    if given:
        give_sizes(graph, given)
    fitting = fitting_sizes(graph)
    if fitting:
        give_sizes(graph, fitting)
    return bool(fitting) or any(n in sizes for n in given)


def _made(value: Value, shapes: Shapes, rng: np.random.Generator) -> Array | None:
    if _takes_any_numbers(value):
        return None
    asked = shapes.get(value.name.removesuffix(":0"))
    if asked is not None:
        value.spec = TensorSpec(declared_spec(value).dtype, tuple(asked))
    try:
        return synthetic_array(value, rng)
    except FeedError:
        return None


def _read(path: str | os.PathLike[str], signature: str | None) -> Graph:
    from thinflow.analysis.shapes import infer_shapes
    from thinflow.formats import load, recognise
    from thinflow.formats.openvino import FORMAT, inputs_of

    # Its inputs are all that is read of it.
    if recognise(path) is FORMAT:
        return inputs_of(path)
    graph = load(path, **({} if signature is None else {"signature": signature}))
    infer_shapes(graph)
    return graph


def _in_tensorflows_ops(graph: Graph) -> Graph:
    """The graph lifted; as it is where it has an op that TensorFlow's cannot say."""
    try:
        lifted = in_tensorflow(graph.clone(), keep_grids=False)
    except ThinflowError:
        return graph
    # Inputs are matched by their order, as lifting may rename them.
    return lifted if len(lifted.inputs) == len(graph.inputs) else graph


def _takes_any_numbers(value: Value) -> bool:
    """True if an input is of the kind that pictures, sounds and features are: many numbers with fractions, or
    codes of eight bits."""
    spec = declared_spec(value)
    if spec.dtype is None or spec.shape is None or not spec.dtype.numpy_name:
        return False
    # A reader that wants other sizes than the default ones knows what the input is for.
    if likely_shape(value, spec) != concrete_shape(spec):
        return False
    # Of bytes only pictures, with more than two sizes: a row of bytes may be text or indices.
    return (spec.dtype.is_floating and len(spec.shape) > 0) or (
        spec.dtype.itemsize == 1 and len(spec.shape) > 2 and spec.dtype.is_integer
    )


def amounts(model: Graph | str, name: str, shape: Sequence[int]) -> Array | None:
    """Numbers for an input that says how much there is of something; None if it does not."""
    try:
        graph = model if isinstance(model, Graph) else _read(model, None)
        value = graph.value(name)
    except ThinflowError:  # an engine may call an input of a file otherwise
        return None
    return amounts_for(value, tuple(shape), np.random.default_rng(_SEED))
