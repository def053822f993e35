"""Sizes that a file does not state: what follows from the lifted graph, and what is assumed of inputs."""

from __future__ import annotations

from collections.abc import Mapping

from thinflow.analysis.foreign import is_foreign
from thinflow.analysis.shapes import infer_shapes
from thinflow.errors import ThinflowError
from thinflow.formats.foreign import UNSTATED
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import TensorSpec
from thinflow.load.graphs import load
from thinflow.synthetic import concrete_shape

_CHANNELS = (1, 3, 4)


def lifted_twin(graph: Graph) -> Graph | None:
    """TensorFlow's ops for a file that leaves sizes open, under the file's names; None if nothing is gained.

    Exporters of ONNX may write the types and shapes of a model's ends alone. What lies between follows from
    the rules of TensorFlow's ops, which are all there; tensors keep their names and layouts.
    """
    if not graph.path or all(not is_foreign(n.op) or _is_stated(n.outputs) for n in graph):
        return None
    try:
        return load(graph.path)
    except ThinflowError:  # an op without counterpart: what the file states is shown
        return None


def _is_stated(outputs: tuple[Value, ...]) -> bool:
    # A batch that is open is followed through any file by itself.
    return all(v.shape is not None and None not in v.shape[1:] for v in outputs)


def state_shapes(graph: Graph, lifted: Graph) -> None:
    """Give tensors the types and shapes of their twins, as if the file stated them."""
    known = {_plain(v): v.spec for node in lifted for v in node.outputs}
    for node in graph:
        if not is_foreign(node.op) or not node.outputs:
            continue
        specs = [_known_better(v.spec, known.get(_plain(v))) for v in node.outputs]
        node.attrs["_output_shapes"] = tuple(ShapeAttr(s.shape) for s in specs)
        node.attrs["_output_types"] = tuple(s.dtype or UNSTATED for s in specs)
    infer_shapes(graph)


def _plain(value: Value) -> str:
    return value.name.removesuffix(":0")


def _known_better(stated: TensorSpec, twin: TensorSpec | None) -> TensorSpec:
    if twin is None or twin.shape is None:
        return stated
    if stated.shape is not None and len(stated.shape) != len(twin.shape):
        return stated
    sizes = stated.shape or (None,) * len(twin.shape)
    shape = tuple(other if size is None else size for size, other in zip(sizes, twin.shape, strict=True))
    return TensorSpec(stated.dtype or twin.dtype, shape)


def assumed_sizes(graph: Graph) -> Mapping[Value, TensorSpec]:
    """Specs of open inputs with sizes as `benchmark` makes them up; what cannot be guessed stays open."""
    found: dict[Value, TensorSpec] = {}
    for value in graph.inputs:
        shape = value.shape
        if not shape or None not in shape:
            continue
        is_batch_alone = shape[0] is None and None not in shape[1:]
        # Of one picture without a batch the first size is its height, not a batch of one.
        if is_batch_alone or len(shape) in (2, 4) or (len(shape) == 3 and shape[-1] not in _CHANNELS):
            found[value] = value.spec.with_shape(concrete_shape(value.spec))
    return found


def assumption(assumed: Mapping[Value, TensorSpec]) -> str:
    """What is assumed beyond a batch of one, in a sentence; "" for nothing."""
    texts = [
        f"{value.name} {'×'.join(map(str, spec.shape or ()))}"
        for value, spec in assumed.items()
        if None in (value.shape or ())[1:]
    ]
    return f" Sizes that are left open are assumed: {', '.join(texts)}." if texts else ""
