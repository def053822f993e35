"""Graph in, changed graph out, and what happened on the way."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from thinflow.ir.graph import Graph
from thinflow.load.graphs import Source, load, opening
from thinflow.typing import Progress, Shapes

if TYPE_CHECKING:
    from thinflow.optimize.frozen_norms import FrozenQuality
    from thinflow.rewrite.runner import Result
    from thinflow.transforms import Pipeline
    from thinflow.typing import Feed, FilePath


def transform(
    source: Source,
    transforms: Pipeline,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    *,
    verify: bool = True,
    feeds: Sequence[Feed] | None = None,
    shapes: Shapes | None = None,
    seed: int = 0,
    keep_going: bool = False,
    progress: Progress | None = None,
    tags: str | None = None,
    signature: str | None = None,
    checkpoint: FilePath | None = None,
) -> Graph:
    """A new graph with the transforms applied; the source is not changed.

        small = thinflow.transform("model.pb", "strip_unused_nodes fold_constants", ["image"], ["scores"])

    Args:
        source: path or Graph.
        transforms: `'strip_unused_nodes(type=float) fold_constants'`, or a list of names, (name, options)
            pairs and configured transforms. `thinflow transforms` lists them.
        inputs, outputs: names; default: those of the graph.
        verify: run the graph before and after every step that changed something, and undo and report one
            that changed the numbers.
        feeds: what to run it on; made up if None.
        shapes: input name -> shape to assume.
        seed: for made-up feeds.
        keep_going: undo a transform that fails and run the next, as if each had ignore_errors=true.
        progress: called with (done, total, label).
        tags, signature, checkpoint: how to open the model, as for `load`.

    Raises:
        ParseError, ParameterError: the transforms cannot be read; nothing ran.
        TransformError: one failed.
        VerificationError: one changed what the graph computes.
    """
    return transform_with_ledger(
        source,
        transforms,
        inputs,
        outputs,
        verify=verify,
        feeds=feeds,
        shapes=shapes,
        seed=seed,
        keep_going=keep_going,
        progress=progress,
        tags=tags,
        signature=signature,
        checkpoint=checkpoint,
    ).graph


def transform_with_ledger(
    source: Source,
    transforms: Pipeline,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    *,
    verify: bool = True,
    feeds: Sequence[Feed] | None = None,
    shapes: Shapes | None = None,
    seed: int = 0,
    keep_going: bool = False,
    progress: Progress | None = None,
    tags: str | None = None,
    signature: str | None = None,
    checkpoint: FilePath | None = None,
) -> Result:
    """As `transform`, but returns the graph together with what each step did, left, and why."""
    from thinflow.analysis.shapes import infer_shapes, port_count
    from thinflow.compare.output_comparer import OutputComparer
    from thinflow.formats.graphdef import serialized_size
    from thinflow.optimize.advice import propose_folding
    from thinflow.rewrite.runner import run as run_steps
    from thinflow.transforms import resolve

    steps = resolve(transforms)
    if keep_going:
        # What ignore_errors=true in a transform string says for one step, said for all.
        steps = [replace(step, ignore_errors=True) for step in steps]
    options = opening(tags, signature, checkpoint)
    graph = load(source, inputs=inputs, outputs=outputs, shapes=shapes, **options)
    if verify and graph.source is not None:
        from thinflow.optimize.source_proof import note_proof

        note_proof(graph, may_differ=isinstance(source, Graph))
    comparer = OutputComparer(_named_feeds(graph, feeds), seed=seed) if verify else None
    result = run_steps(
        graph, steps, comparer=comparer, port_count=port_count, size_of=serialized_size, progress=progress
    )
    # Transforms leave shapes behind that no longer hold.
    infer_shapes(result.graph)
    if comparer is not None and comparer.skipped:
        result.note = f"not compared: {comparer.skipped}"
    propose_folding(result)
    return result


def transform_saved_model(
    input_dir: FilePath,
    output_dir: FilePath,
    transforms: Pipeline,
    signature_name: str = "serving_default",
    tags: str | None = None,
    *,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    verify: bool = True,
    feeds: Sequence[Feed] | None = None,
    shapes: Shapes | None = None,
    seed: int = 0,
    keep_going: bool = False,
    progress: Progress | None = None,
    checkpoint: FilePath | None = None,
) -> Graph:
    """Freeze one signature of a SavedModel, transform it, and write it as a SavedModel with that signature.

    Args:
        input_dir: the folder of a SavedModel, its variables and tables included.
        output_dir: the folder to write; a new one.
        transforms: as for `transform`.
        signature_name: which signature; its inputs and outputs keep their names.
        tags: which graph, by its tags, with commas; default: the only one, or "serve".
        inputs, outputs: names of values; default: those of the signature.
        verify, feeds, shapes, seed, keep_going, progress: as for `transform`.
        checkpoint: another one than the model's own.

    Returns:
        The graph that was written.

    Raises:
        FormatError: no such model, signature or graph.
        ParseError, ParameterError: the transforms cannot be read.
        TransformError, VerificationError: one of them failed.
        WriteError: the folder cannot be written, or holds something else.
    """
    from thinflow.formats import savedmodel

    meta = savedmodel.read(input_dir).select(tags)
    signature = savedmodel.choose_signature(meta, signature_name)
    graph = transform(
        input_dir,
        transforms,
        inputs,
        outputs,
        verify=verify,
        feeds=feeds,
        shapes=shapes,
        seed=seed,
        keep_going=keep_going,
        progress=progress,
        tags=tags,
        signature=signature_name,
        checkpoint=checkpoint,
    )
    savedmodel.save(
        graph,
        output_dir,
        signature=signature_name,
        tags=meta.tags,
        # The keys of the signature, not the names of nodes: callers use those.
        inputs=list(signature.inputs) if signature is not None else None,
        outputs=list(signature.outputs) if signature is not None else None,
    )
    return graph


def measure_batch_norms(
    source: Source,
    calibration: Any,
    path: str | os.PathLike[str],
    *,
    samples: int | None = None,
    **names: Any,
) -> FrozenQuality:
    """Measure statistics for batch norms in training mode on samples, for the transform
    `freeze_batch_norms`. One sample of four makes none of them, and tells what freezing does.

    Args:
        source: path or Graph.
        calibration: samples, as for `optimize`.
        path: the .npz file to write, keyed NAME/mean and NAME/variance.
        samples: use the first so many only.
        names: as for `load`.

    Returns:
        How many norms were measured, and how near the frozen graph's outputs are to those before.
    """
    from thinflow.optimize.frozen_norms import measure_and_judge
    from thinflow.optimize.samples import samples_for

    graph = load(source, **names)
    feeds = samples_for(graph, calibration, limit=samples)
    return measure_and_judge(graph, feeds, feeds.count, os.fspath(path))


def measure_ranges(
    source: Source,
    calibration: Any,
    path: str | os.PathLike[str],
    *,
    samples: int | None = None,
    **names: Any,
) -> int:
    """Measure the ranges that an eight-bit graph finds while it runs, for the transform
    `freeze_requantization_ranges`.

    Args:
        source: path or Graph.
        calibration: samples, as for `optimize`.
        path: the log to write.
        samples: use the first so many only.
        names: as for `load`.

    Returns:
        How many lines the log has: one for each run of each node.
    """
    from thinflow.formats.files import write_file
    from thinflow.optimize.samples import samples_for
    from thinflow.transforms.quantized.freeze_requantization_ranges import log_ranges

    graph = load(source, **names)
    log = log_ranges(graph, samples_for(graph, calibration, limit=samples))
    write_file(path, [log.encode()])
    return log.count("\n")


def _named_feeds(graph: Graph, feeds: Sequence[Feed] | None) -> list[dict[str, Any]] | None:
    import numpy as np

    if feeds is None:
        return None
    return [{graph.value(name).name: np.asarray(array) for name, array in feed.items()} for feed in feeds]


class GraphDefMessage(Protocol):
    """A GraphDef of TensorFlow's own, of which the bytes are wanted."""

    def SerializeToString(self) -> bytes:
        """The message as bytes."""

    def ParseFromString(self, data: bytes, /) -> object:
        """Become what the bytes say."""


Message = TypeVar("Message", bound=GraphDefMessage)


@overload
def TransformGraph(
    input_graph_def: bytes | bytearray | memoryview,
    inputs: Sequence[str],
    outputs: Sequence[str],
    transforms: Sequence[str] | str,
) -> bytes: ...


@overload
def TransformGraph(
    input_graph_def: Message,
    inputs: Sequence[str],
    outputs: Sequence[str],
    transforms: Sequence[str] | str,
) -> Message: ...


def TransformGraph(  # the name TensorFlow gave it
    input_graph_def: bytes | bytearray | memoryview | Message,
    inputs: Sequence[str],
    outputs: Sequence[str],
    transforms: Sequence[str] | str,
) -> bytes | Message:
    """TensorFlow's own Python entry point: a GraphDef (message or bytes) in, the same kind out.

    Args:
        input_graph_def: a GraphDef message with SerializeToString, or its bytes.
        inputs, outputs: node names.
        transforms: transform strings.

    Raises:
        ParameterError, ParseError: a bad transform or parameter, or not a GraphDef (also ValueErrors).
        TransformError: anything else that went wrong (also a RuntimeError).
    """
    from thinflow.errors import FormatError, ParameterError, ThinflowError, TransformError
    from thinflow.formats import graphdef

    if isinstance(input_graph_def, (bytes, bytearray, memoryview)):
        raw: bytes | bytearray | memoryview = input_graph_def
    else:
        raw = input_graph_def.SerializeToString()
    pipeline = transforms if isinstance(transforms, str) else " ".join(transforms)
    # Old callers pass one string with commas.
    named = [names.split(",") if isinstance(names, str) else names for names in (inputs, outputs)]
    try:
        graph = graphdef.from_bytes(memoryview(raw))
        result = transform(graph, pipeline, *named, verify=False) if pipeline.strip() else graph
    except FormatError as error:
        raise ParameterError("Couldn't interpret input as a GraphDef", hint=error.message) from error
    except ThinflowError as error:
        # TensorFlow's caller catches ValueError for bad transforms and RuntimeError for all else; what is
        # either already passes.
        if isinstance(error, (ValueError, RuntimeError)) and not isinstance(error.__cause__, ValueError):
            raise
        kind = ParameterError if isinstance(error.__cause__, ValueError) else TransformError
        raise kind(error.problem, error.where, error.hint) from error
    data = graphdef.to_bytes(result)
    if isinstance(input_graph_def, (bytes, bytearray, memoryview)):
        return data
    # The message's own class, so that no TensorFlow has to be imported here.
    message = type(input_graph_def)()
    message.ParseFromString(data)
    return message


def transform_names() -> list[str]:
    """Every transform, sorted."""
    from thinflow.transforms import names

    return names()


def parse_transforms(text: str) -> list[Any]:
    """The calls in a transform string.

    Raises:
        ParseError: with the place of the mistake.
    """
    from thinflow.rewrite.spec import parse_transforms as parse

    return list(parse(text))
