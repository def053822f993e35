"""A graph as an .onnx file, and the proof that it computes the same."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from thinflow.analysis.shapes import infer_shapes
from thinflow.compare.differences import difference
from thinflow.engines._child import TIMEOUT_SECONDS, run_file
from thinflow.engines.onnxruntime import complex_of
from thinflow.errors import UnsupportedOp, VerificationError
from thinflow.formats._files import write_file
from thinflow.interpreter import Plan
from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Graph, Value
from thinflow.lower.onnx.convert import lower_graph, unsupported, unsupported_unit
from thinflow.onnx.program import DEFAULT_OPSET, OPSETS, Program
from thinflow.onnx.writer import INLINE_LIMIT, to_bytes, write_program
from thinflow.optimize.angles import same_turn
from thinflow.optimize.batch_sizes import (
    batch_note,
    fix_batch,
    open_else_fixed,
    several,
    takes_batches,
    told,
)
from thinflow.optimize.checking import CODES_TOLERANCE, float_tolerance
from thinflow.optimize.codes import check_codes, holds_codes, is_repeatable
from thinflow.optimize.core import Core, find_core, whole_with_texts
from thinflow.optimize.core_feeds import core_feeds, core_results
from thinflow.optimize.coverage import Coverage, coverage_of
from thinflow.optimize.float_model import settle_sizes
from thinflow.optimize.samples import Samples
from thinflow.typing import Array


@brief_repr
@dataclass
class OnnxModel:
    """The ONNX program of a graph's core.

    Attributes:
        fixed: why a batch that the graph leaves open is fixed in the program; "" if it is not.
    """

    core: Core
    program: Program
    fixed: str = ""

    @property
    def is_open(self) -> bool:
        """Whether the program takes batches of any size."""
        return takes_batches(self.core, self.program.inputs)

    @property
    def batch_notes(self) -> list[str]:
        """What to tell of a batch that is fixed."""
        return [batch_note(self.program.inputs, self.fixed)] if self.fixed else []

    @cached_property
    def coverage(self) -> Coverage:
        """How much of the graph it is."""
        return coverage_of(self.core)


def onnx_model(
    graph: Graph, samples: Samples | None = None, *, opset: int | None = None, fixed: str = ""
) -> OnnxModel:
    """Lower the part of the graph that ONNX Runtime can run whole. An open batch stays open if no more can
    be lowered with a fixed one.

    Args:
        graph: with inputs and outputs set.
        samples: the first one settles ranks that the graph leaves open.
        opset: version of ONNX's op set, 17 to 21; default: 17, or a newer one that holds more.
        fixed: why an open batch has to be fixed all the same, at that of the first sample.

    Raises:
        UnsupportedOp: it can run nothing of it.
        ParameterError: an opset that cannot be written.
    """
    if any(v.spec.shape is None for v in graph.inputs):
        settle_sizes(graph, samples)
    if fixed:
        fix_batch(graph, samples)
        return replace(_lowered(graph, opset), fixed=fixed)
    lower = partial(_lowered, graph, opset)
    model, why = open_else_fixed(graph, samples, lower, lower)
    return replace(model, fixed=why)


def _lowered(graph: Graph, opset: int | None) -> OnnxModel:
    if opset is not None:
        return _lowered_to(graph, opset)
    try:
        model = _lowered_to(graph, DEFAULT_OPSET)
    except UnsupportedOp as error:
        wanted = _newer_opset([error.problem])
        if not wanted:
            raise
        return _lowered_to(graph, wanted)
    wanted = _newer_opset(model.core.outside.values())
    return _lowered_to(graph, wanted) if wanted else model


def _newer_opset(reasons: Iterable[str]) -> int:
    """The opset that some of the reasons for leaving nodes out ask for; 0 if none does."""
    found = (int(n) for why in reasons for n in re.findall(r"since opset (\d+)", why))
    return max((n for n in found if n in OPSETS), default=0)


def _lowered_to(graph: Graph, opset: int) -> OnnxModel:
    unit = partial(unsupported_unit, specs={}, opset=opset)
    find = partial(
        find_core,
        unsupported=partial(unsupported, opset=opset),
        runtime="ONNX",
        unsupported_unit=unit,
    )
    core = whole_with_texts(graph, find)
    infer_shapes(graph, {v: v.spec for v in (*graph.inputs, *core.inputs)})
    model = OnnxModel(core, lower_graph(graph, core.inputs, core.outputs, specs={}, opset=opset).program)
    model.program.description = model.coverage.description
    return model


def write_onnx(
    program: Program,
    path: str | os.PathLike[str],
    *,
    external_data: bool | None = None,
    check: Callable[[str], object] | None = None,
) -> int:
    """Write an .onnx file; the bytes written, those of a second file included.

    Args:
        program: what to write.
        path: where to.
        external_data: whether weights go to a second file PATH.data, which has to stay beside the first;
            default: only if they do not fit into one.
        check: called with the path of the finished file before it takes its name.

    Raises:
        WriteError: a file cannot be written.
    """
    target = Path(path)
    if external_data is None:
        external_data = sum(t.array().nbytes for t in program.tensors() if t.is_constant) > INLINE_LIMIT
    beside = f"{target.name}.data" if external_data else ""
    file = write_program(program, beside=beside)
    size = 0

    def finish(part: str) -> None:
        nonlocal size
        if file.data_size:
            size = write_file(target.with_name(beside), file.data_chunks)
        if check is not None:
            check(part)

    own = write_file(target, file.chunks, check=finish)
    return own + size


def check_onnx_model(
    model: OnnxModel,
    samples: Samples,
    path: str | bytes,
    *,
    count: int | None = None,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> float:
    """Run an ONNX file beside the interpreter on some samples; the largest relative difference.

    ONNX Runtime runs in a child process, and has so many seconds for all samples together. Of a graph with
    eight-bit codes each op is judged by itself, on one sample: see `codes`.

    Args:
        model: what to check.
        samples: for the whole graph.
        path: of the file, or its content.
        count: how many of them; default: all.
        timeout_seconds: for ONNX Runtime, all samples together.

    Raises:
        EngineUnavailable: ONNX Runtime is missing, refuses the model, crashed, or took longer.
        VerificationError: they differ by more than rounding.
        UnprovenError: the graph itself does not run on made-up samples.
    """
    core = model.core
    feeds = core_feeds(core, samples, count or (1 if samples.count is None else samples.count))
    tolerance = float_tolerance(core)
    if holds_codes(core.nodes) and feeds:
        limits: dict[str, Any] = {"engine": "onnxruntime", "ends": core.outputs, "tolerance": tolerance}
        check_codes(core.graph, core.nodes, core.inputs, feeds[0], timeout_seconds, **limits)
        tolerance = float("inf")
    return _difference(model, feeds, samples, path, tolerance, timeout_seconds)


def why_one_batch(
    model: OnnxModel,
    samples: Samples,
    path: str | bytes,
    *,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> str:
    """As `checking.why_one_batch`, of an ONNX file or its bytes."""
    if not model.is_open:
        return ""
    tolerance = CODES_TOLERANCE if holds_codes(model.core.nodes) else float_tolerance(model.core)
    with told() as why:
        _difference(model, [several(model.core, samples)], samples, path, tolerance, timeout_seconds)
    return "".join(why)


def open_or_fixed(graph: Graph, samples: Samples, *, opset: int | None = None) -> OnnxModel:
    """As `checking.open_or_fixed`, for ONNX Runtime, which must be there."""
    model = onnx_model(graph, samples, opset=opset)
    why = why_one_batch(model, samples, to_bytes(model.program)) if model.is_open else ""
    return onnx_model(graph, samples, opset=opset, fixed=why) if why else model


def _difference(
    model: OnnxModel,
    feeds: Sequence[Sequence[Array]],
    samples: Samples,
    path: str | bytes,
    tolerance: float,
    timeout_seconds: float,
) -> float:
    """How far ONNX Runtime's answers are from the interpreter's; see `check_onnx_model`."""
    core = model.core
    plan = Plan(core.graph, core.outputs, core.inputs, within=frozenset(core.nodes))
    computed = core_results(plan, core, feeds, samples)
    runs = run_file(path, "onnxruntime", feeds, timeout_seconds=timeout_seconds, name="the .onnx model")
    worst = 0.0
    for expected, found in zip(computed, runs, strict=True):
        for value, a, b in zip(core.outputs, expected, found, strict=True):
            if not is_repeatable(value, core.inputs):  # no two runtimes draw the same numbers
                continue
            worst = max(worst, _compared(value, a, complex_of(b) if a.dtype.kind == "c" else b, tolerance))
    return worst


def _compared(value: Value, expected: Array, found: Array, tolerance: float) -> float:
    result = difference(expected, same_turn(value, expected, found))
    if result.relative > tolerance:
        raise VerificationError(
            f"the ONNX model gives {result.after} for '{value.name}'{list(result.index)}, "
            f"the graph {result.before}",
            hint="please report this with the model; engine='reference' gives the right answer",
        )
    return result.relative
