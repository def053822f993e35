"""TensorFlow's scripts on graphs: strip_unused, optimize_for_inference, memmapped packages, TensorBoard."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thinflow.api.files import stored_graph
from thinflow.errors import ParameterError
from thinflow.ir.graph import Graph, Node
from thinflow.load.graphs import Source, load
from thinflow.typing import Progress

if TYPE_CHECKING:
    from thinflow.formats.memmapped import Written
    from thinflow.ir.types import DType
    from thinflow.rewrite.rule import Transform
    from thinflow.rewrite.runner import Result

LEARNING_PHASE = {"keras_learning_phase": False}
"""Setting of a placeholder of Keras's training switch, by a part of its name."""


def strip_unused(
    source: Source, inputs: Sequence[str], outputs: Sequence[str], types: Sequence[str | int] = ()
) -> Graph:
    """The nodes that the outputs need, fed at the inputs: each becomes a placeholder.

    Args:
        source: path or Graph.
        inputs: names of the values to feed; at least one.
        outputs: names of the values to keep; at least one.
        types: element types of the placeholders, by name or number: one for each input, one for all, or none
            to take what the values are.

    Raises:
        ParameterError: no inputs, no outputs, or types that do not fit them.
        GraphError: a name does not exist; the closest is offered.
    """
    from thinflow.api.transforming import transform_with_ledger

    _require(inputs=inputs, outputs=outputs)
    graph = load(source, inputs=inputs, outputs=outputs)
    return transform_with_ledger(graph, [_stripping(graph, types)], verify=False).graph


def optimize_for_inference(
    source: Source,
    inputs: Sequence[str],
    outputs: Sequence[str],
    types: Sequence[str | int] = (),
    *,
    constants: Mapping[str, bool] | None = None,
    fuse_convolutions: bool = True,
    verify: bool = True,
    progress: Progress | None = None,
) -> Result:
    """A graph without what only training needs: switches set, checks gone, batch norms in the weights.

    Args:
        source, inputs, outputs, types: as for `strip_unused`.
        constants: parts of names of bool placeholders -> what to set them to, besides `LEARNING_PHASE`.
        fuse_convolutions: also let convolutions pad and resize, with ops that only TensorFlow runs.
        verify: run the graph before and after each step.
        progress: called with (done, total, label).

    Returns:
        The graph and what each step did.

    Raises:
        ParameterError, GraphError: as for `strip_unused`.
    """
    from thinflow.api.transforming import transform_with_ledger

    _require(inputs=inputs, outputs=outputs)
    graph = load(source, inputs=inputs, outputs=outputs)
    warnings = _set_switches(graph, {**LEARNING_PHASE, **(constants or {})})
    steps: list[Any] = [
        _stripping(graph, types),
        "remove_nodes(op=CheckNumerics, op=Identity, op=StopGradient)",
        # Before the norms: their parameters may be expressions that only folding makes constants.
        "fold_constants",
        "fold_batch_norms",
        "fold_old_batch_norms",
    ]
    if fuse_convolutions:
        steps.append("fuse_convolutions")
    result = transform_with_ledger(graph, steps, verify=verify, progress=progress)
    # The switches were set before the first step; its record is where warnings are read.
    result.steps[0].trace.warnings[:0] = warnings
    return result


def _require(**given: Sequence[str]) -> None:
    for role, names in given.items():
        if not names:
            raise ParameterError(f"no {role} are named", hint="'thinflow inspect MODEL' suggests some")


def _stripping(graph: Graph, types: Sequence[str | int]) -> Transform:
    """The transform `strip_unused_nodes`, with a type for each input if types are given."""
    from thinflow.transforms.strip_unused_nodes import StripUnusedNodes

    if not types:
        return StripUnusedNodes()
    count = len(graph.inputs)
    if len(types) not in (1, count):
        raise ParameterError(
            f"there are {len(types)} types for {count} inputs", hint="give one for each input, or one for all"
        )
    each = [_read_type(t).name for t in types] * (count if len(types) == 1 else 1)
    names = tuple(value.name for value in graph.inputs)
    return StripUnusedNodes(name_=names, type_for_name=tuple(each), override=True)


def _read_type(given: str | int) -> DType:
    from thinflow.ir.types import dtype

    text = str(given).strip()
    element = (
        dtype(int(text)) if text.isdecimal() and len(text) < 8 else dtype(text.removeprefix("DT_").lower())
    )
    if not element.numpy_name:
        raise ParameterError(
            f"a placeholder cannot be of type {text}",
            hint="give a number of TensorFlow's DataType: 1 is float",
        )
    return element


def _set_switches(graph: Graph, constants: Mapping[str, bool]) -> list[str]:
    """Turn bool placeholders into constants, by parts of their names; what to warn of."""
    warnings: list[str] = []
    fed = {value.node for value in graph.inputs}
    for node in graph:
        # By a part of the name, as in the original: Keras adds numbers to it.
        part = next((part for part in constants if part in node.name), None)
        # A switch that is named as an input is meant to be fed.
        if part is None or node in fed or node.op not in {"Placeholder", "PlaceholderWithDefault"}:
            continue
        if _is_bool(node):
            graph.replace(node, _constant(graph, node, constants[part]))
        else:
            warnings.append(f"'{node.name}' is no bool placeholder and stays")
    return warnings


def _is_bool(node: Node) -> bool:
    from thinflow.ir.types import BOOL

    return node.attrs.get("dtype") is BOOL


def _constant(graph: Graph, node: Node, setting: bool) -> Node:
    import numpy as np

    return graph.constant(np.array(setting), f"{node.name}/constant", before=node).node


def convert_memmapped(source: Source, path: str | os.PathLike[str], *, min_bytes: int = 10_000) -> Written:
    """Write a memmapped package: constants of at least so many bytes lie outside the graph, aligned.

    Args:
        source: path of a model of any kind, or a Graph.
        path: where to.
        min_bytes: smaller constants stay in the graph.

    Raises:
        FormatError: the source cannot be read.
        ParameterError: the limit is not positive.
        WriteError: the package cannot be written.
    """
    from thinflow.formats.memmapped import write
    from thinflow.load.sources import open_model

    return write(source if isinstance(source, Graph) else open_model(source), path, min_bytes=min_bytes)


_SMALL_BYTES = 1024
"""Constants up to this size stay when weights are left out: TensorBoard shows nothing larger."""


def write_events(
    source: Source,
    log_dir: str | os.PathLike[str],
    *,
    tags: str | None = None,
    run_metadata: Sequence[str | os.PathLike[str]] = (),
    keep_weights: bool = True,
) -> Path:
    """Write an event file with a graph as it stands in its file, variables and functions included.

    Args:
        source: path of a model of any kind, or a Graph.
        log_dir: folder for `tensorboard --logdir`; made if need be.
        tags: which graph of a SavedModel.
        run_metadata: files with a serialized RunMetadata each, listed by their names.
        keep_weights: whether big constants keep their contents, which TensorBoard does not show.

    Returns:
        The path of the file.

    Raises:
        FormatError: the source cannot be read.
        WriteError: the event file cannot be written.
    """
    from thinflow.formats import events

    graph = stored_graph(source, tags)
    runs = [events.read_run_metadata(path) for path in run_metadata]
    return events.save(graph if keep_weights else _without_weights(graph), log_dir, runs)


def _without_weights(graph: Graph) -> Graph:
    """A copy whose big constants are zeros, stored as one."""
    import numpy as np

    from thinflow.ir.tensor import Tensor

    copy = graph.clone()
    for node in copy:
        tensor = node.tensor
        if tensor is not None and tensor.dtype.itemsize and tensor.storage.stored_bytes > _SMALL_BYTES:
            # A repeated value: it is written as a single number, with type and shape in place.
            zeros = np.broadcast_to(np.zeros((), tensor.dtype.numpy()), tensor.shape)
            node.attrs["value"] = Tensor.from_array(zeros, tensor.dtype)
    return copy
