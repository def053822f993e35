"""Times of a model's operators, by the names of the graph that it came from."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thinflow.bench.inputs import FeedsFor, Given, Shapes, each_feed, given_text
from thinflow.bench.open_targets import open_subjects
from thinflow.bench.profile_litert import profile_file as profile_litert_file
from thinflow.bench.profile_model import Profile, collect, observed
from thinflow.bench.profile_onnx import profile_file as profile_onnx_file
from thinflow.bench.profile_parts import profile_in_parts
from thinflow.bench.targets import (
    GraphSubject,
    OnnxSubject,
    Subject,
    TFLiteSubject,
    lifted,
)
from thinflow.errors import EngineUnavailable, GraphError, ParameterError, UnsupportedOp
from thinflow.formats.packed_bytes import content_of
from thinflow.formats.sealing import may_write_copies
from thinflow.ir.graph import Graph
from thinflow.typing import Array

if TYPE_CHECKING:
    from thinflow.lower.tflite.convert import Lowered


def profile(
    source: Any,
    *,
    engine: str = "litert",
    threads: int = 1,
    runs: int | None = None,
    warmup: int = 3,
    feeds: Given | FeedsFor = None,
    shapes: Shapes | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    **options: Any,
) -> Profile:
    """Time the operators of one model.

    Args:
        source: a Graph or path; a .tflite file for "litert" only, an .onnx file for "onnxruntime" only.
        engine: "litert", "onnxruntime" or "reference".
        threads: for the kernels; in the reference interpreter for numpy's matrix products.
        runs, warmup: runs that count, and runs before them; default: 20, or each of more samples once.
        feeds: as for `benchmark`.
        shapes: input name -> shape to assume.
        inputs, outputs: names in the graph; default: declared, else guessed.
        options: how to open a model that keeps its variables outside the graph.

    Raises:
        ParameterError: senseless numbers, or no such engine.
        EngineUnavailable: the engine is missing, or does not run all of a file. A graph runs in parts then.
    """
    given = (("runs", _RUNS if runs is None else runs, 1), ("warmup", warmup, 0), ("threads", threads, 1))
    for name, number, least in given:
        if number < least:
            raise ParameterError(f"{name} is {number}", hint=f"give {least} or more")
    if engine not in ("litert", "onnxruntime", "reference"):
        raise ParameterError(f"there is no profile of '{engine}'", hint="litert, onnxruntime or reference")
    known: dict[str, Any] = {"feeds": feeds, "shapes": shapes, "inputs": inputs, "outputs": outputs}
    # One model, which is opened as for a benchmark, so that both run it with the same sizes.
    (subject,) = open_subjects(source, **known, **options)
    if runs is None:
        runs = max(_RUNS, len(each_feed(subject.feeds)))
    found = _profiled(subject, engine, threads, runs, warmup)
    found.fed = given_text(subject.feeds)
    return found


def _profiled(subject: Subject, engine: str, threads: int, runs: int, warmup: int) -> Profile:
    if engine == "reference":
        return _in_reference(subject, threads, runs, warmup)
    try:
        by = _in_litert if engine == "litert" else _in_onnxruntime
        return by(subject, threads, runs, warmup)
    # Part of the graph runs elsewhere, so no single profiler sees all of it.
    except NotWhole:
        assert isinstance(subject, GraphSubject)
        return profile_in_parts(subject, engine, threads, runs, warmup)


_RUNS = 20


class NotWhole(EngineUnavailable):
    """The engine runs a part of the graph only."""


def _in_reference(subject: Subject, threads: int, runs: int, warmup: int) -> Profile:
    """Each kernel of the interpreter by the clock; a function's nodes count for the node that calls it."""
    from thinflow.engines._threads import blas
    from thinflow.interpreter import Plan

    graph, samples = _for_reference(subject)
    if not graph.outputs:
        raise GraphError(
            "the graph has no outputs to compute", subject.name, hint="name them with outputs=[...]"
        )
    plan = Plan(graph, graph.outputs, graph.inputs)
    series = [dict(zip(graph.inputs, arrays, strict=True)) for arrays in samples]
    with blas().limited(threads):
        for _ in range(warmup):
            plan.run(series[0])
        recorded = [observed(plan, series[turn % len(series)]) for turn in range(runs)]
    method = "the reference interpreter's kernels, one after the other by the clock"
    whole = [micros for _, micros in recorded]
    stats = collect(steps for steps, _ in recorded)
    return Profile(stats, "reference", threads, method, whole_micros=whole)


def _for_reference(subject: Subject) -> tuple[Graph, list[list[Array]]]:
    """A model in TensorFlow's ops, and the samples that it is fed."""
    if isinstance(subject, GraphSubject):
        return subject.graph, subject.samples()
    return lifted(subject)


def _in_litert(subject: Subject, threads: int, runs: int, warmup: int) -> Profile:
    """By LiteRT's own profiler; where there is none, operator by operator as models of their own."""
    from thinflow.tflite.writer import to_bytes, write_program

    if isinstance(subject, TFLiteSubject):
        content = content_of(subject.path)
        samples = tflite_samples(subject, content)
        return profile_litert_file(content, samples, {}, threads, runs, warmup)
    if not isinstance(subject, GraphSubject):
        raise EngineUnavailable("an .onnx file runs on the engine 'onnxruntime' only", subject.name)
    lowered = whole_program(subject)
    # Lowering drops inputs that nothing reads.
    samples = [[named[name] for name in lowered.inputs] for named in named_samples(subject)]
    # A decrypted model stays in memory; others go to a file, which the engine maps.
    if not may_write_copies():
        return profile_litert_file(to_bytes(lowered.program), samples, lowered.origin, threads, runs, warmup)
    with tempfile.TemporaryDirectory(prefix="thinflow-") as folder:
        path = Path(folder) / "model.tflite"
        with path.open("wb") as file:
            for chunk in write_program(lowered.program)[1]:
                file.write(chunk)
        return profile_litert_file(str(path), samples, lowered.origin, threads, runs, warmup)


def named_samples(subject: GraphSubject) -> list[dict[str, Array]]:
    """Input name -> array, of each sample."""
    names = [v.name for v in subject.graph.inputs]
    return [dict(zip(names, arrays, strict=True)) for arrays in subject.samples()]


def tflite_samples(subject: TFLiteSubject, content: bytes | str) -> list[list[Array]]:
    """The inputs of a .tflite file, in order, of each sample."""
    from thinflow.tflite.runtime import interpreter, source

    # Only names and types are asked for; to allocate would take time, and may fail before the profiler tells
    # why.
    details = interpreter(**source(content), allocated=False).get_input_details()
    return subject.samples_for(details)


def whole_program(subject: GraphSubject, *, matrix_unit: bool | None = None) -> Lowered:
    """All of a graph in LiteRT's words.

    Raises:
        EngineUnavailable: some of it cannot be said so.
    """
    from thinflow.interpreter import Plan
    from thinflow.lower.tflite.convert import lower_graph, unsupported
    from thinflow.tflite.runtime import multiplies_matrices

    graph = subject.graph
    nodes = [n for n in Plan(graph, graph.outputs, graph.inputs).nodes if n.tensor is None]
    left = unsupported(graph, nodes, specs={})
    if left or not nodes:
        node, why = next(iter(left.items())) if left else (None, "it computes nothing")
        raise NotWhole(
            f"not all of the graph runs in LiteRT: {f'{node.name}: ' if node else ''}{why}",
            subject.name,
            hint="engine='reference' profiles every graph",
        )
    unit = multiplies_matrices() if matrix_unit is None else matrix_unit
    return lower_graph(graph, graph.inputs, graph.outputs, specs={}, matrix_unit=unit)


def _in_onnxruntime(subject: Subject, threads: int, runs: int, warmup: int) -> Profile:
    """By ONNX Runtime's own profiler."""
    from thinflow.engines._files import open_file
    from thinflow.engines.onnxruntime import lower_whole
    from thinflow.onnx.writer import to_bytes, write_program

    if isinstance(subject, OnnxSubject):
        ports = open_file(subject.path, "onnxruntime", threads).inputs
        named = [p.name for p in ports]
        samples = [dict(zip(named, arrays, strict=True)) for arrays in subject.samples(ports)]
        return profile_onnx_file(content_of(subject.path), samples, threads, runs, warmup)
    if not isinstance(subject, GraphSubject):
        raise EngineUnavailable("a .tflite file runs on the engine 'litert' only", subject.name)
    graph = subject.graph
    try:
        lowered = lower_whole(graph, graph.inputs, graph.outputs)
    except UnsupportedOp as refused:
        problem = f"not all of the graph runs in ONNX Runtime: {refused.where}: {refused.problem}"
        hint = "engine='reference' profiles every graph"
        raise NotWhole(problem, subject.name, hint) from refused
    samples = [{name: fed[name] for name in lowered.inputs} for fed in named_samples(subject)]
    names = [n.name for n in graph]
    if not may_write_copies():
        return profile_onnx_file(to_bytes(lowered.program), samples, threads, runs, warmup, names)
    with tempfile.TemporaryDirectory(prefix="thinflow-") as folder:
        path = Path(folder) / "model.onnx"
        with path.open("wb") as file:
            for chunk in write_program(lowered.program).chunks:
                file.write(chunk)
        return profile_onnx_file(str(path), samples, threads, runs, warmup, names)
