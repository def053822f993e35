"""The steps of the main job, each of use on its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from thinflow.analysis.interface import is_class_scores
from thinflow.analysis.shapes import infer_shapes, port_count
from thinflow.analysis.switches import inference_setting
from thinflow.differences import difference
from thinflow.engines import onnxruntime
from thinflow.engines._child import TIMEOUT_SECONDS, run_file
from thinflow.engines._files import is_file
from thinflow.engines.litert import Model
from thinflow.errors import FeedError, NodeError, ParameterError, VerificationError
from thinflow.formats.graphdef import serialized_size
from thinflow.interpreter import Plan
from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import STRING, TensorSpec
from thinflow.lower.lowering import needed_nodes
from thinflow.lower.tflite.convert import lower_graph
from thinflow.lower.tflite.program import Program, to_bytes, write_program
from thinflow.optimizing.codes import check_codes, holds_codes
from thinflow.optimizing.core import Core, find_core
from thinflow.optimizing.quality import Quality, QualityMeter, class_numbers, is_ranked
from thinflow.quantize.feeds import Feeds, Scaling, open_feeds
from thinflow.rewrite.runner import Result, run
from thinflow.synthetic import declared_spec, synthetic_feeds
from thinflow.transforms import resolve
from thinflow.verify import OutputComparer

Array = np.ndarray[Any, Any]
Progress = Callable[[int, int, str], None]

SYNTHETIC_SAMPLES = 20
_SAMPLES_FOR_SIZES = 5
FLOAT_TOLERANCE = 1e-3
"""How far LiteRT's float answer may be from the interpreter's, relative to the largest value."""

_RANDOM = ("Random", "Multinomial", "TruncatedNormal", "ParameterizedTruncatedNormal", "StatelessRandom")


@dataclass
class Samples:
    """Feeds for the whole graph, walkable again and again.

    Attributes:
        synthetic: whether they were made up.
        labels: class number per sample, or None.
        note: where they come from, in words.
    """

    walk: Callable[[], Iterator[dict[Value, Array]]]
    count: int | None
    synthetic: bool
    labels: list[int] | None = None
    note: str = ""

    def __iter__(self) -> Iterator[dict[Value, Array]]:
        return self.walk()


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
    if source is None:
        _require_shapes(graph)
        number = limit or SYNTHETIC_SAMPLES
        note = f"{number} made-up inputs: speed and size are real, accuracy and eight-bit ranges are not"
        return Samples(lambda: synthetic_feeds(graph.inputs, number), number, True, note=note)
    specs = {v.name: _sample_spec(v) for v in graph.inputs}
    feeds = open_feeds(source, specs, scaling=scaling, limit=limit)
    labels = class_numbers(feeds.labels, class_names) if feeds.labels is not None else None
    count = _length(feeds)
    where = str(source) if isinstance(source, (str, Path)) else "the given samples"

    def walk() -> Iterator[dict[Value, Array]]:
        for feed in feeds:
            yield {graph.value(name): array for name, array in feed.items()}

    return Samples(
        walk, count, False, labels, f"{count if count is not None else 'some'} samples from {where}"
    )


def _require_shapes(graph: Graph) -> None:
    """Refuse to make up numbers for an input of unknown rank.

    Raises:
        FeedError: names the input.
    """
    for value in graph.inputs:
        spec = declared_spec(value)
        if spec.shape is None and spec.dtype is not STRING and inference_setting(value.node) is None:
            raise FeedError(
                f"the graph does not say what shape the input '{value.name}' has",
                graph.path,
                hint=f"give it: --shape {value.name}=1,224,224,3 (or samples: --calibration FOLDER)",
            )


def _sample_spec(value: Value) -> TensorSpec:
    """What one sample of an input looks like: a batch of one where the batch is open."""
    spec = declared_spec(value)
    if spec.shape and spec.shape[0] is None:
        return TensorSpec(spec.dtype, (1, *spec.shape[1:]))
    return spec


def _length(feeds: Feeds) -> int | None:
    try:
        return len(feeds)
    except TypeError:
        return None


def switch_notes(settings: Sequence[str]) -> list[str]:
    """What to tell of training switches that were set when the model was opened."""
    if not settings:
        return []
    return [f"set for inference: {', '.join(settings)}; name them among the inputs to feed them instead"]


def float_graph(
    graph: Graph, *, samples: Samples | None = None, verify: bool = True, progress: Progress | None = None
) -> Result:
    """The graph after the float pipeline, each step verified on the first sample.

    Loops and branches are calls of functions then, whatever they came as; see `as_it_came`.
    """
    feeds = None
    if samples is not None:
        first = next(iter(samples), None)
        if first is None:
            raise FeedError("there are no samples", hint="give at least one")
        feeds = [{v.name: a for v, a in first.items()}]
    comparer = OutputComparer(feeds) if verify else None
    result = run(
        graph,
        [step for step in resolve("float") if step.rounds is not None],
        comparer=comparer,
        port_count=port_count,
        size_of=serialized_size,
        progress=progress,
    )
    infer_shapes(result.graph, {result.graph.value(v.name): v.spec for v in graph.inputs})
    if comparer is not None:
        result.note = f"not compared: {comparer.skipped}" if comparer.skipped else ""
    return result


@dataclass
class FloatModel:
    """The float LiteRT program of a graph's core."""

    core: Core
    program: Program

    @cached_property
    def content(self) -> bytes:
        """The program as a file, in memory; kept once made."""
        return to_bytes(self.program)

    def chunks(self) -> Iterable[Any]:
        """The same piece by piece, for writing without a copy in memory."""
        return write_program(self.program)[1]

    def feeds(self, samples: Iterable[Mapping[Value, Array]]) -> Iterator[dict[str, Array]]:
        """Core inputs by name, one dict per sample."""
        for feed in samples:
            yield dict(zip((v.name for v in self.core.inputs), self.core.before(feed), strict=True))


def float_model(graph: Graph, samples: Samples | None = None) -> FloatModel:
    """Lower the part of the graph that LiteRT can run whole.

    Args:
        graph: with inputs and outputs set.
        samples: the first one settles sizes that the graph leaves open.

    Raises:
        UnsupportedOp: it can run nothing of it.
    """
    require_numbers(graph)
    settle_sizes(graph, samples)
    core = find_core(graph)
    counts = _leading_sizes(core, samples)
    specs = {v: _with_sizes(v, counts.get(v, {1})) for v in core.inputs}
    infer_shapes(graph, {v: v.spec for v in graph.inputs} | specs)
    lowered = lower_graph(graph, core.inputs, core.outputs, specs={})
    return FloatModel(core, lowered.program)


def require_numbers(graph: Graph) -> None:
    """Refuse weights that are not numbers. Infinities may be meant, as in masks. Reads every float constant.

    Raises:
        NodeError: names the first.
    """
    for node in graph:
        tensor = node.tensor
        if tensor is not None and tensor.dtype.is_floating:
            count = int(np.isnan(tensor.numpy().astype(np.float32, copy=False)).sum())
            if count:
                raise NodeError(
                    f"{count} of its {tensor.size} values are NaN",
                    node.where,
                    hint="the training diverged, or the file is damaged; export the model again",
                )


def settle_sizes(graph: Graph, samples: Samples | None) -> None:
    """Infer shapes with the sizes of the first sample where the graph leaves them open; an open batch stays
    open.
    """
    first = next(iter(samples), None) if samples is not None else None
    if first is None:
        return
    sizes: dict[Value, TensorSpec] = {}
    for value, array in first.items():
        spec = value.spec if value.spec.dtype is not None else declared_spec(value)
        if spec.dtype is None or spec.is_static or spec.dtype.itemsize == 0:
            continue
        shape: tuple[int | None, ...] = array.shape
        if spec.shape is None or None in spec.shape[1:]:
            sizes[value] = TensorSpec(spec.dtype, shape)
    if sizes:
        infer_shapes(graph, {v: sizes.get(v, v.spec) for v in graph.inputs})


def _leading_sizes(core: Core, samples: Samples | None) -> dict[Value, set[int]]:
    """How long what is computed before the core is for the first samples where the graph leaves it open."""
    computed = [v for v in core.inputs if v not in core.graph.inputs and v.shape and v.shape[0] is None]
    found: dict[Value, set[int]] = {v: set() for v in computed}
    for feed in islice(samples, _SAMPLES_FOR_SIZES) if samples is not None and computed else ():
        for value, array in zip(core.inputs, core.before(feed), strict=True):
            if value in found and array.ndim:
                found[value].add(len(array))
    return {value: sizes for value, sizes in found.items() if sizes}


def _with_sizes(value: Value, leading: Collection[int]) -> TensorSpec:
    """The spec to convert with: an open batch becomes 1, other open sizes stay open.

    Args:
        leading: leading sizes that were seen; an open one that is not always 1 is no batch, and stays open.
    """
    spec = declared_spec(value) if value.node.op.startswith("Placeholder") else value.spec
    if value.spec.shape is not None:
        spec = value.spec
    fixed = _reshaped_size(value, spec)
    if fixed is not None and spec.shape is not None:
        return TensorSpec(spec.dtype, (fixed, *spec.shape[1:]))
    if spec.shape and spec.shape[0] is None and None not in spec.shape[1:] and set(leading) == {1}:
        return TensorSpec(spec.dtype, (1, *spec.shape[1:]))
    return spec


def _reshaped_size(value: Value, spec: TensorSpec) -> int | None:
    """The open leading size of a computed value, told by a Reshape that gives it a known size; else None.

    Rows that were looked up in parts of a table and put together again are such.
    """
    if not spec.shape or spec.shape[0] is not None or None in spec.shape[1:] or value.is_graph_input:
        return None
    each = math.prod(size or 0 for size in spec.shape[1:])
    for use in value.uses:
        result = use.node.output().spec
        if use.node.op == "Reshape" and use.index == 0 and result.is_static and each:
            return (result.size or 0) // each
    return None


def check_float_model(
    model: FloatModel,
    samples: Samples,
    *,
    count: int = 3,
    path: str | None = None,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> float:
    """Run the LiteRT model beside the interpreter on some samples; the largest relative difference.

    LiteRT runs in a child process. Of a graph with eight-bit codes each op is judged by itself, on one
    sample: see `codes`.

    Args:
        model: what to check.
        samples: for the whole graph.
        count: how many of them.
        path: the file to run; default the program in memory.
        timeout_seconds: for LiteRT, all samples together.

    Raises:
        VerificationError: above `FLOAT_TOLERANCE`.
        EngineCrashed: LiteRT crashed, or took longer.
    """
    core = model.core
    plan = Plan(core.graph, core.outputs, core.inputs, within=frozenset(core.nodes))
    feeds = [model.core.before(feed) for feed in islice(samples, count)]
    runs = run_file(
        path or model.content, "litert", feeds, timeout_seconds=timeout_seconds, name="the .tflite model"
    )
    tolerance = FLOAT_TOLERANCE
    if holds_codes(model.core.nodes) and feeds:
        check_codes(model.core.graph, model.core.nodes, model.core.inputs, feeds[0], timeout_seconds)
        tolerance = float("inf")
    worst = 0.0
    for arrays, found_here in zip(feeds, runs, strict=True):
        expected = plan.run(dict(zip(model.core.inputs, arrays, strict=True)))
        for value, a, b in zip(model.core.outputs, expected, found_here, strict=True):
            found = difference(a, b.reshape(a.shape) if a.size == b.size else b)
            if _is_random(value, model.core):
                continue
            if found.relative > tolerance:
                raise VerificationError(
                    f"the LiteRT model gives {found.after} for '{value.name}'{list(found.index)}, "
                    f"the graph {found.before}",
                    hint="please report this with the model; engine='reference' gives the right answer",
                )
            worst = max(worst, found.relative)
    return worst


def _is_random(value: Value, core: Core) -> bool:
    """Whether random numbers are part of a value: no two runtimes draw the same."""
    return any(node.op.startswith(_RANDOM) for node in needed_nodes([value], core.inputs))


class HasCore(Protocol):
    """A model of a graph's core, for any runtime."""

    @property
    def core(self) -> Core: ...


def compare_models(
    model: HasCore,
    contents: Mapping[str, bytes],
    original: Graph,
    samples: Samples,
    *,
    threads: int = 2,
    engine: str = "litert",
    progress: Progress | None = None,
) -> dict[str, Quality]:
    """Quality of models (by name) for a runtime beside the original graph in the interpreter, end to end on
    all samples.

    Where the original has the same core inputs, what stands before the core runs once per sample.

    Raises:
        EngineCrashed: the runtime crashed or hung on the first sample, which a child process tries first.
    """
    for name, content in contents.items():
        first = [model.core.before(feed) for feed in islice(samples, 1)]
        run_file(content, engine, first, threads=threads, name=f"the {name} model")
    made = onnxruntime.Model if engine == "onnxruntime" else Model
    runtimes = {name: made(content, threads=threads) for name, content in contents.items()}
    plan = Plan(original, original.outputs, original.inputs)
    meters: dict[str, QualityMeter] = {}
    for number, feed in enumerate(samples):
        before = plan.run({original.value(v.name): a for v, a in feed.items()})
        arrays = model.core.before(feed)
        for name, runtime in runtimes.items():
            after = model.core.after(runtime.run(arrays), feed)
            if name not in meters:
                meters[name] = QualityMeter(samples.labels, ranked=_is_ranked(original, before, samples))
            meters[name].add(before, after)
        if progress is not None:
            progress(number + 1, samples.count or 0, "comparing answers")
    return {name: meter.result() for name, meter in meters.items()}


def _is_ranked(graph: Graph, outputs: Sequence[Array], samples: Samples) -> bool:
    """Whether the first output has a top answer: a vector that labels or the graph say holds scores."""
    if not outputs or not is_ranked(outputs[0]):
        return False
    return samples.labels is not None or is_class_scores(graph.outputs[0])


def rebind(samples: Samples, old: Graph, new: Graph) -> Samples:
    """The same samples with the values of another graph as keys, paired by name."""
    pairs = [(v, new.value(v.name)) for v in old.inputs]

    def walk() -> Iterator[dict[Value, Array]]:
        for feed in samples:
            yield {to: feed[value] for value, to in pairs}

    return Samples(walk, samples.count, samples.synthetic, samples.labels, samples.note)


def evaluate(
    source: Any, data: Any, *, labels: str | Path | Sequence[str] | None = None, **names: Any
) -> Quality:
    """Accuracy of a graph on labelled samples, in the interpreter; of a .tflite or .onnx file in its engine.

    Args:
        source: path or Graph.
        data: samples with labels: file names `LABEL_...`, or a `labels` array.
        labels: class names in the order of the outputs, or a file with one per line.
        names: as for `load`.

    Raises:
        ParameterError: the samples have no labels.
    """
    from thinflow.api import load

    if is_file(source):
        from thinflow.optimizing.evaluating import evaluate_file

        return evaluate_file(source, data, read_class_names(labels))
    graph = load(source, **names)
    samples = samples_for(graph, data, class_names=read_class_names(labels))
    if samples.labels is None:
        raise ParameterError(
            "the samples have no labels", hint="name files LABEL_something, or give a 'labels' array"
        )
    plan = Plan(graph, graph.outputs, graph.inputs)
    meter = QualityMeter(samples.labels)
    for feed in samples:
        outputs = plan.run(feed)
        meter.add(outputs, outputs)
    return meter.result()


def read_class_names(labels: str | Path | Sequence[str] | None) -> list[str] | None:
    """Class names from a file with one per line, or as given."""
    if labels is None:
        return None
    if isinstance(labels, (str, Path)):
        try:
            return [
                line.strip() for line in Path(labels).read_text(encoding="utf-8").splitlines() if line.strip()
            ]
        except (OSError, UnicodeDecodeError) as error:
            raise ParameterError(
                f"the labels cannot be read: {error}", str(labels), "give a text file, one label a line"
            ) from error
    return list(labels)
