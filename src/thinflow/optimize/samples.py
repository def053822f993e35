"""Samples for the whole graph, given or made up, and the names of the classes that they are labelled with."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from thinflow.analysis.interface import is_class_scores
from thinflow.analysis.shapes import declared_spec
from thinflow.analysis.training_mode import inference_setting
from thinflow.errors import FeedError, ParameterError, ThinflowError
from thinflow.interpreter import Plan
from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Graph, Value
from thinflow.ir.interface import counterparts, states_of, without_states
from thinflow.ir.types import STRING, DType, TensorSpec
from thinflow.optimize.class_labels import checked_labels
from thinflow.optimize.stated_usage import labels_of, scaling_of, usage_of
from thinflow.quantize.feed_parts import FeedPart, RenamedPart, in_float_type, some_of
from thinflow.quantize.feeds import Feeds, open_feeds
from thinflow.quantize.finite_samples import finite_feeds
from thinflow.quantize.sample_files import Scaling
from thinflow.synthetic import open_sizes, override_shapes, synthetic_feeds
from thinflow.typing import Array

if TYPE_CHECKING:
    from thinflow.cluster.workers import Workers

T = TypeVar("T")

# Made-up samples show no real ranges, however many there are; few are quick.
SYNTHETIC_SAMPLES = 20


@brief_repr
@dataclass
class Samples:
    """Feeds for the whole graph, walkable again and again.

    Attributes:
        synthetic: whether they were made up.
        labels: class number per sample, or None.
        note: where they come from, in words.
        path: the folder or file they come from, "" if from none.
        given_labels: the labels as they came, words or numbers; None without.
        scaling: of pictures whose numbers go into float inputs; None if there are none.
        unscaled: whether it was left to us, so that pixels go in as 0 to 255.
        doubts: sentences on samples that were left out.
        places: file or number of each sample, where known.
        loudest: number of the sample with the largest number in an input, where known.
        part: numbers of samples, rising -> these by names of the inputs, for another process; None where
            only a walk gives them.
        named: a value of the graph by its name; goes with `part`.
        workers: that look at them for ranges; None for this process.
    """

    walk: Callable[[], Iterator[dict[Value, Array]]]
    count: int | None
    synthetic: bool
    labels: list[int] | None = None
    note: str = ""
    path: str = ""
    given_labels: Sequence[Any] | None = None
    scaling: Scaling | None = None
    unscaled: bool = False
    doubts: Sequence[str] = ()
    places: Sequence[str] = ()
    loudest: int | None = None
    part: Callable[[Sequence[int]], FeedPart] | None = None
    named: Callable[[str], Value] | None = None
    workers: Workers | None = None

    def __iter__(self) -> Iterator[dict[Value, Array]]:
        return self.walk()

    def some(self, numbers: Sequence[int]) -> Iterator[dict[Value, Array]]:
        """Those of some numbers, rising; others are not even read where that is possible."""
        if self.part is None or self.named is None:
            wanted = set(numbers)
            few = islice(self, max(wanted, default=-1) + 1)
            return (feed for number, feed in enumerate(few) if number in wanted)
        named = self.named
        return ({named(name): array for name, array in feed.items()} for feed in self.part(numbers))

    def taken(self, is_taken: Callable[[int], bool], note: str = "") -> Samples:
        """Those whose number is taken, with all that is known of them.

        Args:
            note: in words; default: that of all.
        """

        def walk() -> Iterator[dict[Value, Array]]:
            return (feed for number, feed in enumerate(self) if is_taken(number))

        numbers = None if self.count is None else [n for n in range(self.count) if is_taken(n)]
        loudest = self.loudest
        is_there = numbers is not None and loudest is not None and is_taken(loudest)
        return replace(
            self,
            walk=walk,
            count=None if numbers is None else len(numbers),
            labels=_taken(self.labels, is_taken),
            given_labels=_taken(self.given_labels, is_taken),
            places=_taken(self.places, is_taken) or [],
            loudest=sum(map(is_taken, range(loudest or 0))) if is_there else None,
            part=None if numbers is None else some_of(self.part, numbers),
            note=note or self.note,
        )

    def place(self, number: int) -> str:
        """The file of a sample, or its number where it comes from."""
        return self.places[number] if number < len(self.places) else f"sample {number}"


def _taken(items: Sequence[T] | None, is_taken: Callable[[int], bool]) -> list[T] | None:
    return None if items is None else [item for number, item in enumerate(items) if is_taken(number)]


def samples_for(
    graph: Graph,
    source: Any,
    *,
    scaling: Scaling | None = None,
    limit: int | None = None,
    class_names: Sequence[str] | None = None,
) -> Samples:
    """Samples from a folder, a file or Python objects; made up if `source` is None.

    Raises:
        FeedError: nothing there, or it does not fit the inputs.
    """
    if limit is not None and limit < 1:
        raise ParameterError(f"{limit} samples are too few", hint="give at least 1")
    return with_states(_samples_for(graph, source, scaling, limit, class_names), graph)


_RANGES = " and eight-bit ranges are"
_SHOWN_SIZES = 3


def _fitting_specs(graph: Graph, inputs: Sequence[Value]) -> dict[Value, TensorSpec]:
    """Sizes for what the file behind a graph leaves open, with which its ops go through; none without one."""
    source = graph.source
    if source is None or not source.engine or source.orders or not open_sizes(inputs):
        return {}
    from thinflow.load.fitting_sizes import sizes_of_file

    try:
        shapes = sizes_of_file(source.path, source.signature)
        return override_shapes(inputs, {n: s for n, s in shapes.items() if n in {v.name for v in inputs}})
    except ThinflowError:
        # The file may have gone since, or be cut into other inputs: then the usual sizes have to do.
        return {}


def _made_up_sizes(inputs: Sequence[Value], fitting: Mapping[Value, TensorSpec]) -> str:
    """The sizes that inputs are made up in where more than their batch is open; "" for none."""
    is_open = [v for v in inputs if v.name in open_sizes(inputs)]
    if not is_open:
        return ""
    first = next(iter(synthetic_feeds(inputs, 1, specs=fitting)))
    told = (f"{v.name} {list(first[v].shape)}" for v in is_open[:_SHOWN_SIZES])
    more = ", ..." if len(is_open) > _SHOWN_SIZES else ""
    return f" of sizes that the graph leaves open, {', '.join(told)}{more}"


def note_without_ranges(note: str) -> str:
    """The note of samples of which no range was taken."""
    return note.replace(_RANGES, " is")


def _samples_for(
    graph: Graph, source: Any, scaling: Scaling | None, limit: int | None, class_names: Sequence[str] | None
) -> Samples:
    """As `samples_for`, without the states of the graph."""
    inputs = without_states(graph, graph.inputs)
    if source is None:
        _require_shapes(graph)
        number = limit or SYNTHETIC_SAMPLES
        fitting = _fitting_specs(graph, inputs)
        sizes = _made_up_sizes(inputs, fitting)
        note = f"{number} made-up inputs{sizes}: speed and size are real, accuracy{_RANGES} not"
        # A generator anew for each walk, from the same seed: the same numbers every time.
        return Samples(lambda: synthetic_feeds(inputs, number, specs=fitting), number, True, note=note)
    specs = {v.name: one_sample(declared_spec(v)) for v in inputs}
    is_left = scaling is None or scaling.keeps_range
    stated = scaling_of(usage_of(graph), specs) if is_left else None
    scaling = stated if scaling is None else scaling.settled(stated)
    feeds, odd_files = open_samples(source, specs, scaling, limit)
    feeds, doubts = finite_feeds(feeds)
    first = graph.outputs[0] if graph.outputs else None
    labels, odd = checked_labels(
        feeds.labels,
        class_names,
        None if first is None else first.spec,
        feeds.place,
        is_scores=first is not None and is_class_scores(first),
    )
    count = _length(feeds)
    path = str(source) if isinstance(source, (str, Path)) else ""

    def walk() -> Iterator[dict[Value, Array]]:
        for feed in feeds:
            yield {graph.value(name): array for name, array in feed.items()}

    pictures = feeds.has_pictures and any(_is_float(spec) for spec in specs.values())
    used = (scaling or Scaling()) if pictures else None
    return Samples(
        walk,
        count,
        False,
        labels,
        _note(feeds, count, path, used) + (", as the model's file says" if pictures and stated else ""),
        path,
        given_labels=feeds.labels,
        scaling=used,
        unscaled=pictures and scaling is None,
        doubts=[*odd_files, *doubts, *odd],
        places=[feeds.place(number) for number in range(count or 0)],
        loudest=feeds.loudest,
        part=feeds.part,
        named=graph.value,
    )


def open_samples(
    source: Any, specs: Mapping[str, TensorSpec], scaling: Scaling | None, limit: int | None
) -> tuple[Feeds, list[str]]:
    """The samples of a source, and sentences on those that cannot be read."""
    if isinstance(source, str | os.PathLike):
        from thinflow.datasets.calibration import dataset_feeds, is_dataset

        if is_dataset(os.fspath(source)):
            return dataset_feeds(os.fspath(source), specs, scaling, limit)
    return open_feeds(source, specs, scaling=scaling, limit=limit), []


def _is_float(spec: TensorSpec) -> bool:
    return spec.dtype is None or spec.dtype.is_floating


def _note(feeds: Feeds, count: int | None, path: str, scaling: Scaling | None) -> str:
    """A note on where samples are from, which of how many, and what becomes of pixels."""
    taken = "some" if count is None else str(count)
    origin = f"samples from {path or 'the given samples'}"
    if count is not None and feeds.total is not None and count < feeds.total:
        over = f"{feeds.classes} classes" if feeds.classes > 1 else "all of them"
        origin = f"of {feeds.total} {origin}, spread over {over}"
    pixels = "" if scaling is None else f", pixels as {scaling.range_text()}"
    return f"{taken} {origin}{pixels}"


@dataclass(frozen=True, kw_only=True)
class SampleOptions:
    """Options that say which samples there are.

    Attributes:
        calibration: samples for the ranges, a source as for `samples_for`; None makes inputs up.
        test: other samples to judge on; default: the calibration samples.
        labels: class names in the order of the outputs, or a file of them; default: a labels file beside the
            model.
        samples: use so many samples only.
        scaling: of pictures, for float inputs.
        workers: that look at the samples for ranges; None for this process.
    """

    calibration: Any = None
    test: Any = None
    labels: str | os.PathLike[str] | Sequence[str] | None = None
    samples: int | None = None
    scaling: Scaling | None = None
    workers: Workers | None = None


def both_samples(graph: Graph, options: SampleOptions) -> tuple[Samples, Samples]:
    """Samples to calibrate with, and to judge on: the very same ones if no others are given.

    Raises:
        ParameterError: the labels cannot be read.
        FeedError: nothing there, or it does not fit the inputs.
    """
    names = class_names_of(graph, options.labels)
    open_source = partial(
        samples_for, graph, scaling=options.scaling, limit=options.samples, class_names=names
    )
    data = replace(open_source(options.calibration), workers=options.workers)
    return data, data if options.test is None else open_source(options.test)


def doubts_of(data: Samples, tested: Samples) -> list[str]:
    """Sentences on samples that were left out, of those to calibrate with and of those to judge on."""
    judges = [] if tested is data else [f"test samples: {text}" for text in tested.doubts]
    return [*data.doubts, *judges]


def _require_shapes(graph: Graph) -> None:
    """Refuse to make up numbers for an input of unknown rank.

    Raises:
        FeedError: names the input.
    """
    for value in graph.inputs:
        spec = declared_spec(value)
        if spec.shape is None and spec.dtype is not STRING and inference_setting(value.node) is None:
            name = shlex.quote(value.name)
            raise FeedError(
                f"the graph does not say what shape the input '{value.name}' has",
                graph.path,
                hint=f"give it: --shape {name}=1,SIZE, or for pictures --shape {name}=1,224,224,3 "
                "(or samples: --calibration FOLDER)",
            )


def one_sample(spec: TensorSpec) -> TensorSpec:
    """The spec of one sample: a batch of one where the batch is open.

    [?,?,3] may be one picture of any size, or rows of three numbers in a batch: which, the samples tell.
    """
    if spec.shape and spec.shape[0] is None and not _may_be_picture(spec.shape):
        return TensorSpec(spec.dtype, (1, *spec.shape[1:]))
    return spec


def _may_be_picture(shape: Sequence[int | None]) -> bool:
    return len(shape) == 3 and shape[1] is None and shape[2] == 3


def _length(feeds: Feeds) -> int | None:
    try:
        # Feeds from a generator have no length, and counting them would cost a walk.
        return len(feeds)
    except TypeError:
        return None


def as_declared(value: Value, array: Array) -> Array:
    """An input in the type that its placeholder says, where both are floats: runtimes lack some of them."""
    # The pipeline may have widened bfloat16 or half inputs: each graph is fed its own type.
    return in_float_type(array, _wanted(value))


def with_states(samples: Samples, graph: Graph) -> Samples:
    """The samples as calls one after the other: each with the states that those before it leave."""
    states = states_of(graph)
    if not states:
        return samples

    def walk() -> Iterator[dict[Value, Array]]:
        plan = Plan(graph, [s.output for s in states], graph.inputs)
        # The state after sample n belongs to sample n + 1: walks begin anew with the stored one.
        held = {s.input: s.first for s in states}
        for feed in samples:
            whole = {**feed, **held}
            yield whole
            held = dict(zip(held, plan.run(whole), strict=True))

    # What a sample holds depends on those before it.
    return replace(samples, walk=walk, part=None)


def rebind(samples: Samples, old: Graph, new: Graph) -> Samples:
    """The same samples with the values of another graph as keys, paired by name, else by place."""
    pairs = list(zip(old.inputs, counterparts(old.inputs, new.inputs, new), strict=True))

    def walk() -> Iterator[dict[Value, Array]]:
        for feed in samples:
            yield {to: as_declared(to, feed[value]) for value, to in pairs}

    return replace(samples, walk=walk, part=_renamed(samples.part, pairs), named=new.value)


def _renamed(
    inner: Callable[[Sequence[int]], FeedPart] | None, pairs: Sequence[tuple[Value, Value]]
) -> Callable[[Sequence[int]], FeedPart] | None:
    names = tuple((value.name, to.name, _wanted(to)) for value, to in pairs)
    return None if inner is None else lambda numbers: RenamedPart(inner(numbers), names)


def _wanted(value: Value) -> str:
    element = value.node.get("dtype")
    return element.name if isinstance(element, DType) and element.is_floating else ""


def read_class_names(labels: str | os.PathLike[str] | Sequence[str] | None) -> list[str] | None:
    """Class names from a file with one per line, or as given."""
    if labels is None:
        return None
    # A string is a path: walked as a sequence it would make a class of each letter.
    if isinstance(labels, (str, os.PathLike)):
        try:
            return [
                line.strip() for line in Path(labels).read_text(encoding="utf-8").splitlines() if line.strip()
            ]
        except (OSError, UnicodeDecodeError) as error:
            raise ParameterError(
                f"the labels cannot be read: {error}", str(labels), "give a text file, one label a line"
            ) from error
    return list(labels)


def _labels_beside(path: str | os.PathLike[str], output: TensorSpec | None) -> Path | None:
    """A labels file beside a model whose number of lines is the width of its first output.

    Args:
        path: of the model; "" if it came from no file.
        output: what is known of that output; None if there is none.
    """
    if not os.fspath(path) or output is None or not output.shape:
        return None
    for file in sorted(Path(path).parent.glob("*label*.txt")):
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            continue
        # A list of other classes, such as one with a background class more, would name each answer wrongly.
        if sum(1 for line in lines if line.strip()) == output.shape[-1]:
            return file
    return None


def class_names_of(graph: Graph, labels: str | os.PathLike[str] | Sequence[str] | None) -> list[str] | None:
    """The class names of a graph: as given, else as its file has them, else from a labels file beside it."""
    stated = labels_of(graph.usage, {v.name: v.spec for v in graph.outputs[:1]}) if labels is None else None
    if stated is not None:
        return list(stated.words)
    return class_names_for(graph.path, graph.outputs[0].spec if graph.outputs else None, labels)


def class_names_for(
    path: str | os.PathLike[str],
    output: TensorSpec | None,
    labels: str | os.PathLike[str] | Sequence[str] | None,
) -> list[str] | None:
    """Class names as given; else from a labels file beside the model, None if there is none."""
    return read_class_names(labels if labels is not None else _labels_beside(path, output))
