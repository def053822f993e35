"""The float model: a graph after the float pipeline, and the LiteRT program of its core."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from typing import Any

import numpy as np

from thinflow.analysis.shapes import infer_shapes, port_count
from thinflow.compare.output_comparer import OutputComparer
from thinflow.errors import FeedError, NodeError
from thinflow.formats.graphdef import serialized_size
from thinflow.ir.brief import brief_repr
from thinflow.ir.counterparts import counterparts
from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import DType, TensorSpec
from thinflow.lower.tflite.convert import lower_graph
from thinflow.lower.tflite.program import Program, to_bytes, write_program
from thinflow.lower.tflite.variables import with_variables
from thinflow.optimize.batch_sizes import batch_note, fix_batch, is_open, open_else_fixed, takes_batches
from thinflow.optimize.core import Core, find_core, whole_with_texts
from thinflow.optimize.coverage import Coverage, coverage_of
from thinflow.optimize.samples import Samples
from thinflow.rewrite.runner import Result, run
from thinflow.synthetic import declared_spec
from thinflow.transforms import resolve
from thinflow.transforms.to_nhwc import LAYOUTS
from thinflow.transforms.widen_floats import OTHER_FLOATS, mentions_type
from thinflow.typing import Array, Progress

_SAMPLES_FOR_SIZES = 5


def float_graph(
    graph: Graph,
    *,
    samples: Samples | None = None,
    verify: bool = True,
    progress: Progress | None = None,
    runtime: str = "",
) -> Result:
    """The graph after the float pipeline, each step verified on the first sample.

    Loops and branches are calls of functions then, whatever they came as; see `as_it_came`.

    Args:
        graph: not changed.
        samples: for verification; made up if None.
        verify: whether to run it before and after each step.
        progress: called with (done, total, label).
        runtime: "litert" or "onnx" to also write it in the types and the layout that this one computes in.
    """
    feeds = None
    if samples is not None:
        first = next(iter(samples), None)
        if first is None:
            raise FeedError("there are no samples", hint="give at least one")
        feeds = [{v.name: a for v, a in first.items()}]
    comparer = OutputComparer(feeds) if verify else None
    order = f"for_runtime(runtime={runtime})" if runtime else "float"
    result = run(
        graph,
        [step for step in resolve(order) if step.rounds is not None],
        comparer=comparer,
        port_count=port_count,
        size_of=serialized_size,
        progress=progress,
    )
    inputs = counterparts(graph.inputs, result.graph.inputs, result.graph)
    infer_shapes(
        result.graph, {twin: spec_after(v, twin) for v, twin in zip(graph.inputs, inputs, strict=True)}
    )
    if comparer is not None:
        result.note = f"not compared: {comparer.skipped}" if comparer.skipped else ""
    return result


def spec_after(before: Value, after: Value) -> TensorSpec:
    """What is known of an input, in the type that it has by now."""
    made = after.node.get("dtype")
    return TensorSpec(made, before.spec.shape) if isinstance(made, DType) else before.spec


def is_ready_for_litert(graph: Graph) -> bool:
    """Whether `float_graph` with runtime="litert" has nothing to do: channels last, only float."""
    graphs = [graph, *(f.graph for f in graph.functions.values())]
    return not any(
        n.get("data_format") in LAYOUTS or mentions_type(n, OTHER_FLOATS.values()) for g in graphs for n in g
    )


def type_notes(result: Result) -> list[str]:
    """What was turned into float by `float_graph`, and how far that moves the answers."""
    notes = []
    for step in result.steps:
        if step.transform.startswith("widen_floats") and step.changes:
            first, *others = dict.fromkeys(step.trace.notes)
            moved = "" if step.difference is None else f", largest relative difference {step.difference:.2g}"
            notes += [f"{first}{moved}", *others]
    return notes


@brief_repr
@dataclass
class FloatModel:
    """The float LiteRT program of a graph's core.

    Attributes:
        fixed: why a batch that the graph leaves open is fixed in the program; "" if it is not.
    """

    core: Core
    program: Program
    fixed: str = ""

    @property
    def is_open(self) -> bool:
        """Whether the program takes batches of any size."""
        return takes_batches(self.core, self.program.subgraphs[0].inputs)

    @property
    def batch_notes(self) -> list[str]:
        """What to tell of a batch that is fixed."""
        return [batch_note(self.program.subgraphs[0].inputs, self.fixed)] if self.fixed else []

    @cached_property
    def coverage(self) -> Coverage:
        """How much of the graph it is."""
        return coverage_of(self.core)

    @cached_property
    def content(self) -> bytes:
        """The program as a file, in memory; kept once made. States are inputs and outputs."""
        return to_bytes(self.program)

    @cached_property
    def stored(self) -> Program:
        """What the file holds: the program, which keeps states from run to run."""
        return with_variables(self.program, self.core.states)

    def chunks(self) -> Iterable[Any]:
        """The file piece by piece, for writing without a copy in memory."""
        return write_program(self.stored)[1]

    def feeds(self, samples: Iterable[Mapping[Value, Array]]) -> Iterator[dict[str, Array]]:
        """Core inputs by name, one dict per sample."""
        for feed in samples:
            yield dict(zip((v.name for v in self.core.inputs), self.core.before(feed), strict=True))


def float_model(
    graph: Graph, samples: Samples | None = None, *, fixed: str = "", settle: bool = True
) -> FloatModel:
    """Lower the part of the graph that LiteRT can run whole. An open batch stays open if no more can be
    lowered with a fixed one.

    Args:
        graph: with inputs and outputs set.
        samples: the first one settles sizes that the graph leaves open.
        fixed: why an open batch has to be fixed all the same, at that of the first sample.
        settle: whether the first sample settles sizes beyond the batch; if not, they stay open.

    Raises:
        UnsupportedOp: it can run nothing of it.
    """
    require_numbers(graph)
    if settle:
        settle_sizes(graph, samples)
    if fixed:
        fix_batch(graph, samples)
        return replace(_lowered(graph, samples, fix=True), fixed=fixed)
    lowered, why = open_else_fixed(
        graph, samples, partial(_lowered, graph, samples), partial(_lowered, graph, samples, fix=True)
    )
    return replace(lowered, fixed=why)


def _lowered(graph: Graph, samples: Samples | None, *, fix: bool = False) -> FloatModel:
    """The program of the core.

    Args:
        fix: whether the batch of what is computed before the core is fixed, where it is always one; so it is
            too where the graph's inputs leave none open.
    """
    core = whole_with_texts(graph, partial(find_core, one_sample=False))
    fix = fix or not any(is_open(v.spec) for v in graph.inputs)
    counts = _leading_sizes(core, samples) if fix else {}
    specs = {v: _with_sizes(v, counts.get(v, {1} if fix else {})) for v in core.inputs}
    infer_shapes(graph, {v: v.spec for v in graph.inputs} | specs)
    lowered = lower_graph(graph, core.inputs, core.outputs, specs={})
    model = FloatModel(core, lowered.program)
    model.program.description = model.coverage.description
    return model


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
            batch = None if is_open(spec) and len(spec.shape or ()) == len(shape) else shape[0]
            sizes[value] = TensorSpec(spec.dtype, (batch, *shape[1:]))
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
    """The spec to convert with: an open batch becomes 1 if nothing else was seen, other open sizes stay open.

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
