"""The float pipeline ahead of lowering, and the way back from it to the control flow of TF1."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thinflow.analysis.shapes import declared_spec, infer_shapes, port_count
from thinflow.compare.output_comparer import OutputComparer
from thinflow.errors import FeedError, NodeError
from thinflow.formats.graphdef import serialized_size
from thinflow.ir.graph import Graph, Value
from thinflow.ir.interface import counterparts
from thinflow.ir.types import DType, TensorSpec
from thinflow.optimize.batch_sizes import is_open
from thinflow.optimize.samples import Samples
from thinflow.rewrite.runner import Result, run
from thinflow.transforms import resolve
from thinflow.transforms.layout.layouts import LAYOUTS
from thinflow.transforms.pipelines import AS_IT_CAME
from thinflow.transforms.widen_floats import OTHER_FLOATS, mentions_type
from thinflow.typing import Progress


def float_graph(
    graph: Graph,
    *,
    samples: Samples | None = None,
    verify: bool = True,
    progress: Progress | None = None,
    runtime: str = "",
    sizes: bool = True,
) -> Result:
    """The graph after the float pipeline, each step verified on the first sample.

    Loops and branches are calls of functions then, whatever they came as; see `restore_control_flow`.

    Args:
        graph: not changed.
        samples: for verification; made up if None.
        verify: whether to run it before and after each step.
        progress: called with (done, total, label).
        runtime: "litert" or "onnx" to also write it in the types and the layout that this one computes in.
        sizes: whether the ledger tells the graph's bytes before and after each step.
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
        size_of=serialized_size if sizes else None,
        progress=progress,
    )
    inputs = counterparts(graph.inputs, result.graph.inputs, result.graph)
    infer_shapes(result.graph, _input_specs(graph, inputs))
    if comparer is not None:
        result.note = f"not compared: {comparer.skipped}" if comparer.skipped else ""
    return result


def _input_specs(before: Graph, inputs: Sequence[Value]) -> dict[Value, TensorSpec]:
    """Specs of inputs after the pipeline: the shapes from before it, in the types that they have by now."""
    specs = {}
    for old, new in zip(before.inputs, inputs, strict=True):
        dtype = new.node.get("dtype")
        specs[new] = TensorSpec(dtype, old.spec.shape) if isinstance(dtype, DType) else old.spec
    return specs


def is_ready_for_litert(graph: Graph) -> bool:
    """True if `float_graph` with runtime="litert" has nothing to do: channels last, only float."""
    # Bodies of loops and branches are functions, too.
    graphs = [graph, *(f.graph for f in graph.functions.values())]
    return not any(
        n.get("data_format") in LAYOUTS or mentions_type(n, OTHER_FLOATS.values()) for g in graphs for n in g
    )


def type_notes(result: Result) -> list[str]:
    """The types that `float_graph` turned into float, and how far that moves the answers."""
    notes = []
    for step in result.steps:
        if step.transform.startswith("widen_floats") and step.changes:
            first, *others = dict.fromkeys(step.trace.notes)
            moved = "" if step.difference is None else f", largest relative difference {step.difference:.2g}"
            notes += [f"{first}{moved}", *others]
    return notes


def restore_control_flow(result: Result, samples: Samples, *, verify: bool = True) -> Result:
    """The graph with frames, Switch and Merge again where it had them, and its ledger with that step.

    Old runtimes know no other loops and branches. The result's own graph stays as it is.

    Args:
        result: of `float_graph`.
        samples: for the result's graph; the first one verifies the step.
        verify: whether to.
    """
    first = next(iter(samples), None) if verify else None
    comparer = None if first is None else OutputComparer([{v.name: a for v, a in first.items()}])
    back = run(
        result.graph, resolve(AS_IT_CAME), comparer=comparer, port_count=port_count, size_of=serialized_size
    )
    (step,) = back.steps
    # Nothing went back, and nothing would have: the ledger needs no step for that.
    if not step.changes and not step.trace.left:
        return result
    return Result(back.graph, [*result.steps, step], result.note)


def reopened(original: Graph, optimised: Graph) -> Graph:
    """A copy of the optimised graph with the sizes the original has.

    Making a LiteRT model fixes the batch that the graph leaves open; an ONNX model leaves it open.
    """
    graph = optimised.clone()
    inputs = counterparts(original.inputs, graph.inputs, graph)
    infer_shapes(graph, _input_specs(original, inputs))
    return graph


def require_numbers(graph: Graph) -> None:
    """Refuse weights that are not numbers. Infinities may be meant, as in masks, and so may a lone NaN: what
    `tf.where` gives where there is no answer. Reads every float constant.

    Raises:
        NodeError: names the first.
    """
    for node in graph:
        tensor = node.tensor
        if tensor is not None and tensor.dtype.is_floating and tensor.size > 1:
            # NaN stays NaN in float32, whatever type it had; a float32 is not copied.
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
        spec = declared_spec(value)
        if spec.dtype is None or spec.is_static or spec.dtype.itemsize == 0:
            continue
        shape: tuple[int | None, ...] = array.shape
        # Sizes beyond the batch are settled; the batch itself is what the app chooses.
        if spec.shape is None or None in spec.shape[1:]:
            leaves_open = is_open(spec) and len(spec.shape or ()) == len(shape)
            # A scalar has no batch.
            front = (None,) if leaves_open else shape[:1]
            sizes[value] = TensorSpec(spec.dtype, (*front, *shape[1:]))
    if sizes:
        infer_shapes(graph, {v: sizes.get(v, v.spec) for v in graph.inputs})
