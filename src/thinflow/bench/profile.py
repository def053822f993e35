"""What each operator of a model takes, by the names of the graph that it came from."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thinflow.analysis.node_stats import NodeStats
from thinflow.bench.feeding import Feeds, FeedsFor, Shapes, as_input, by_position, made_up_arrays
from thinflow.bench.opened import open_subjects
from thinflow.bench.subjects import (
    GraphSubject,
    OnnxSubject,
    Subject,
    TFLiteSubject,
    lifted,
)
from thinflow.errors import EngineUnavailable, GraphError, ParameterError, UnsupportedOp
from thinflow.formats._secrecy import may_write_copies
from thinflow.formats.packed_bytes import content_of
from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import TensorSpec
from thinflow.typing import Array

if TYPE_CHECKING:
    from thinflow.interpreter import Plan
    from thinflow.lower.tflite.convert import Lowered

Step = tuple[str, str, int, int]
"""Node name, op, microseconds, bytes of its outputs."""


@brief_repr
@dataclass
class Profile:
    """The times of a model's operators over several runs.

    Attributes:
        stats: microseconds and bytes by node; tables as TensorFlow's tools print them.
        engine, threads: what ran it.
        method: how the times were come by, in a sentence.
        kernels: node name -> the engine's name for the code that ran; missing where it has none.
        whole_micros: each run from start to end, with what lies between the operators.
        outputs: node name -> types and sizes of what it computed, where the engine tells.
    """

    stats: NodeStats
    engine: str
    threads: int
    method: str
    kernels: dict[str, str] = field(default_factory=dict)
    whole_micros: list[int] = field(default_factory=list)
    outputs: dict[str, list[TensorSpec]] = field(default_factory=dict)


def profile(
    source: Any,
    *,
    engine: str = "litert",
    threads: int = 1,
    runs: int = 20,
    warmup: int = 3,
    feeds: Feeds | FeedsFor | None = None,
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
        runs, warmup: runs that count, and runs before them.
        feeds: as for `benchmark`.
        shapes: input name -> shape to assume.
        inputs, outputs: names in the graph; default: declared, else guessed.
        options: how to open a model that keeps its variables outside the graph.

    Raises:
        ParameterError: senseless numbers, or no such engine.
        EngineUnavailable: the engine is missing, or does not run all of a file. A graph runs in parts then.
    """
    for name, number, least in (("runs", runs, 1), ("warmup", warmup, 0), ("threads", threads, 1)):
        if number < least:
            raise ParameterError(f"{name} is {number}", hint=f"give {least} or more")
    if engine not in ("litert", "onnxruntime", "reference"):
        raise ParameterError(f"there is no profile of '{engine}'", hint="litert, onnxruntime or reference")
    known: dict[str, Any] = {"feeds": feeds, "shapes": shapes, "inputs": inputs, "outputs": outputs}
    (subject,) = open_subjects(source, **known, **options)
    if engine == "reference":
        return _in_reference(subject, threads, runs, warmup)
    try:
        by = _in_litert if engine == "litert" else _in_onnxruntime
        return by(subject, threads, runs, warmup)
    except NotWhole:
        from thinflow.bench.profile_parts import profile_in_parts

        assert isinstance(subject, GraphSubject)
        return profile_in_parts(subject, engine, threads, runs, warmup)


class NotWhole(EngineUnavailable):
    """The engine runs a part of the graph only."""


def collect(runs: Iterable[Sequence[Step]]) -> NodeStats:
    """The statistics of several runs."""
    stats = NodeStats()
    for steps in runs:
        stats.add_run(steps)
    return stats


def _in_reference(subject: Subject, threads: int, runs: int, warmup: int) -> Profile:
    """Each kernel of the interpreter by the clock; a function's nodes count for the node that calls it."""
    from thinflow.engines._threads import blas
    from thinflow.interpreter import Plan

    graph, arrays = _for_reference(subject)
    if not graph.outputs:
        raise GraphError(
            "the graph has no outputs to compute", subject.name, hint="name them with outputs=[...]"
        )
    plan = Plan(graph, graph.outputs, graph.inputs)
    feeds = dict(zip(graph.inputs, arrays, strict=True))
    with blas().limited(threads):
        for _ in range(warmup):
            plan.run(feeds)
        recorded = [observed(plan, feeds) for _ in range(runs)]
    method = "the reference interpreter's kernels, one after the other by the clock"
    whole = [micros for _, micros in recorded]
    stats = collect(steps for steps, _ in recorded)
    return Profile(stats, "reference", threads, method, whole_micros=whole)


def _for_reference(subject: Subject) -> tuple[Graph, list[Array]]:
    """A model in TensorFlow's ops, and what it is fed."""
    if isinstance(subject, GraphSubject):
        return subject.graph, subject.arrays()
    return lifted(subject)


def observed(plan: Plan, feeds: Mapping[Value, Array]) -> tuple[list[Step], int]:
    """One run of the interpreter: its nodes, and the microseconds of all of it."""
    steps: list[Step] = []
    begin = last = time.perf_counter_ns()

    def observe(value: Value, array: Array) -> None:
        nonlocal last
        now = time.perf_counter_ns()
        steps.append((value.node.name, value.node.op, (now - last) // 1000, getattr(array, "nbytes", 0)))
        last = time.perf_counter_ns()

    plan.run(feeds, observe)
    return _merged(steps), (time.perf_counter_ns() - begin) // 1000


def _merged(steps: Sequence[Step]) -> list[Step]:
    """The outputs of one node in one step; what is computed again in a loop stays apart."""
    merged: list[Step] = []
    for step in steps:
        if merged and merged[-1][0] == step[0] and merged[-1][1] == step[1]:
            name, op, micros, size = merged.pop()
            step = (name, op, micros + step[2], size + step[3])
        merged.append(step)
    return merged


def _in_litert(subject: Subject, threads: int, runs: int, warmup: int) -> Profile:
    """By LiteRT's own profiler; where there is none, operator by operator as models of their own."""
    from thinflow.bench.profile_litert import profile_file
    from thinflow.lower.tflite.program import to_bytes, write_program

    if isinstance(subject, TFLiteSubject):
        content = content_of(subject.path)
        return profile_file(content, _tflite_arrays(subject, content), {}, threads, runs, warmup)
    if not isinstance(subject, GraphSubject):
        raise EngineUnavailable("an .onnx file runs on the engine 'onnxruntime' only", subject.name)
    by_name = dict(zip((v.name for v in subject.graph.inputs), subject.arrays(), strict=True))
    lowered = _whole_program(subject)
    arrays = [by_name[name] for name in lowered.inputs]
    if not may_write_copies():
        return profile_file(to_bytes(lowered.program), arrays, lowered.origin, threads, runs, warmup)
    with tempfile.TemporaryDirectory(prefix="thinflow-") as folder:
        path = Path(folder) / "model.tflite"
        with path.open("wb") as file:
            for chunk in write_program(lowered.program)[1]:
                file.write(chunk)
        return profile_file(str(path), arrays, lowered.origin, threads, runs, warmup)


def _tflite_arrays(subject: TFLiteSubject, content: bytes | str) -> list[Array]:
    """What a .tflite file is fed, in order."""
    from thinflow.tflite.runtime import interpreter, source

    details = interpreter(**source(content), allocated=False).get_input_details()
    given = by_position(subject.feeds, [d["name"] for d in details])
    if given is None:
        return made_up_arrays(details, subject.shapes, subject.made)
    return [as_input(x, detail) for x, detail in zip(given, details, strict=True)]


def _whole_program(subject: GraphSubject) -> Lowered:
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
    return lower_graph(graph, graph.inputs, graph.outputs, specs={}, matrix_unit=multiplies_matrices())


def _in_onnxruntime(subject: Subject, threads: int, runs: int, warmup: int) -> Profile:
    """By ONNX Runtime's own profiler."""
    from thinflow.bench.profile_onnx import profile_file
    from thinflow.engines._files import open_file
    from thinflow.lower.onnx.convert import lower_graph
    from thinflow.onnx.writer import to_bytes, write_program

    if isinstance(subject, OnnxSubject):
        ports = open_file(subject.path, "onnxruntime", threads).inputs
        arrays = dict(zip((p.name for p in ports), subject.arrays(ports), strict=True))
        return profile_file(content_of(subject.path), arrays, threads, runs, warmup)
    if not isinstance(subject, GraphSubject):
        raise EngineUnavailable("a .tflite file runs on the engine 'litert' only", subject.name)
    graph = subject.graph
    by_name = dict(zip((v.name for v in graph.inputs), subject.arrays(), strict=True))
    try:
        lowered = lower_graph(graph, graph.inputs, graph.outputs, specs={})
    except UnsupportedOp as refused:
        problem = f"not all of the graph runs in ONNX Runtime: {refused.where}: {refused.problem}"
        hint = "engine='reference' profiles every graph"
        raise NotWhole(problem, subject.name, hint) from refused
    arrays = {name: by_name[name] for name in lowered.inputs}
    names = [n.name for n in graph]
    if not may_write_copies():
        return profile_file(to_bytes(lowered.program), arrays, threads, runs, warmup, names)
    with tempfile.TemporaryDirectory(prefix="thinflow-") as folder:
        path = Path(folder) / "model.onnx"
        with path.open("wb") as file:
            for chunk in write_program(lowered.program).chunks:
                file.write(chunk)
        return profile_file(str(path), arrays, threads, runs, warmup, names)


def require_fixed(arrays: Sequence[Array]) -> None:
    """Refuse what cannot be handed over as a block of memory.

    Raises:
        EngineUnavailable: an input holds strings.
    """
    if any(a.dtype.hasobject or a.dtype.kind in "SU" for a in arrays):
        raise EngineUnavailable(
            "a model that is fed strings cannot be profiled here", hint="use engine='reference'"
        )
