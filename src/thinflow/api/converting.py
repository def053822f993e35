"""Writing a model in another format, and proving what was written."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thinflow.api._types import Shapes, Source, opening
from thinflow.api.files import FOREIGN, WRITABLE, runtime_format, save
from thinflow.engines._child import TIMEOUT_SECONDS
from thinflow.errors import (
    EngineUnavailable,
    FeedError,
    ParameterError,
    PartialModel,
    ThinflowError,
    UnsupportedOp,
    VerificationError,
)
from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Graph
from thinflow.ir.notebook import table_html
from thinflow.load.graphs import load, load_for_inference, require_outputs, require_tensorflow

if TYPE_CHECKING:
    from thinflow.optimize.core import Core
    from thinflow.optimize.coverage import Coverage
    from thinflow.optimize.float_model import FloatModel
    from thinflow.optimize.onnx import OnnxModel
    from thinflow.rewrite.runner import Result
    from thinflow.typing import FilePath


def convert(
    source: Source,
    path: FilePath,
    *,
    verify: bool = True,
    shapes: Shapes | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    tags: str | None = None,
    signature: str | None = None,
    checkpoint: FilePath | None = None,
    state: str | None = None,
) -> int:
    """Write a model in the format of the target's suffix; returns the bytes written.

    All of the model, or nothing. A .tflite or .onnx file is run beside the interpreter before it takes its
    name, as `thinflow convert` does; `convert_verified` tells what came of that, and also writes the part
    that a runtime can run.

    Args:
        source: path or Graph.
        path: target, for example model.tflite; see `save`.
        verify: whether to run it.
        shapes: input name -> shape to assume.
        inputs, outputs: names of values; default: what the model declares, else the best guess.
        tags, signature, checkpoint: as for `load`.
        state: as for `convert_verified`.

    Raises:
        WriteError: it cannot be written.
        UnsupportedOp: a node cannot be expressed in the format.
        VerificationError: it gives other answers; nothing is written.
        EngineCrashed: running it crashed or took too long; nothing is written.
    """
    kept = state_for(state, os.fspath(path))
    if Path(path).suffix not in (".tflite", ".onnx") or _is_of_a_runtime(source):
        # The same nodes in other letters, or a file's bytes as they were.
        options = {"state": kept, **opening(tags, signature, checkpoint)}
        return save(load(source, inputs=inputs, outputs=outputs, shapes=shapes, **options), path)
    try:
        made = convert_verified(
            source,
            path,
            verify=verify,
            strict=True,
            shapes=shapes,
            inputs=inputs,
            outputs=outputs,
            tags=tags,
            signature=signature,
            checkpoint=checkpoint,
            state=state,
        )
    except PartialModel as error:
        raise UnsupportedOp(error.problem, error.where, error.hint) from error
    return made.size_bytes


def _is_of_a_runtime(source: Source) -> bool:
    """Whether a model is a .tflite or .onnx file, or a graph in the words of one."""
    return bool(source.vocabulary if isinstance(source, Graph) else runtime_format(source))


@brief_repr
@dataclass
class Conversion:
    """What `convert_verified` wrote and proved.

    Attributes:
        path: of the file, which has another name than the one asked for if it holds a part of the model.
        size_bytes: of it.
        proof: what it was compared with, and what came of that.
        notes: what else to know.
        coverage: how much of the model it holds; None for a format that holds every graph.
        asked: the path that was asked for.
        whole_fits: a suffix of which a file could hold all of it; "" if none is known to.
    """

    path: str
    size_bytes: int
    proof: str
    notes: list[str] = field(default_factory=list)
    coverage: Coverage | None = None
    asked: str = ""
    whole_fits: str = ""

    def __post_init__(self) -> None:
        if self.coverage is not None and self.coverage.note:
            self.proof = f"{self.proof}; {self.coverage.note}"

    @property
    def is_part(self) -> bool:
        """Whether the file holds only a part of the model."""
        return self.coverage is not None and self.coverage.is_part

    @property
    def verdict(self) -> str:
        """One sentence on a part, which is not where it was asked for; "" for a whole model."""
        if self.coverage is None or not self.is_part:
            return ""
        return self.coverage.verdict(self.path, self.asked or self.path)

    def _repr_html_(self) -> str:
        rows = [("file", self.path), ("bytes", self.size_bytes), ("proof", self.proof)]
        return table_html(self.verdict or self.path, [*rows, *(("note", note) for note in self.notes)])

    def data(self) -> dict[str, Any]:
        """For machines."""
        return {
            "verdict": self.verdict,
            "path": self.path,
            "size_bytes": self.size_bytes,
            "proof": self.proof,
            "notes": self.notes,
            "partial": self.is_part,
            "coverage": None if self.coverage is None else self.coverage.data(),
        }


def convert_verified(
    source: Source,
    path: str | os.PathLike[str],
    *,
    verify: bool = True,
    shapes: Shapes | None = None,
    opset: int | None = None,
    external_data: bool | None = None,
    timeout: float | None = None,
    strict: bool = False,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    tags: str | None = None,
    signature: str | None = None,
    checkpoint: FilePath | None = None,
    state: str | None = None,
) -> Conversion:
    """As `convert`; a .tflite or .onnx may hold only the part its runtime can run, and is run beside the
    interpreter before it is written. A part is written under another name: model.tflite becomes
    model_part.tflite.

    Args:
        source, path, shapes: as for `convert`.
        verify: whether to run it.
        opset: for .onnx, version of ONNX's op set: 17 to 21; default 17, or a newer one that holds more.
        external_data: for .onnx, whether weights go to a file of their own, PATH.data; default: only if they
            do not fit into one.
        timeout: seconds for running the written file, in a child process; default 300.
        strict: refuse to write a part.
        inputs, outputs, tags, signature, checkpoint: as for `load`.
        state: what becomes of variables that runs change: "keep", from call to call (.tflite); "freeze", as
            they were saved; "inputs", for the app to hand on; default "auto": kept in a .tflite if it can
            keep them, else frozen.

    Raises:
        PartialModel: the file could hold only a part, and `strict` forbids that; nothing is written.
        StateNotKept: the file cannot keep state, and that was asked for.
        VerificationError: it gives other answers; nothing is written.
        EngineCrashed: running it crashed or took too long; nothing is written.
        ParameterError: senseless options.
    """
    from thinflow.analysis.opened import opening_notes
    from thinflow.analysis.switches import switch_notes
    from thinflow.engines._child import checked_timeout

    target = os.fspath(path)
    suffix = Path(target.removesuffix(".gz")).suffix
    if suffix not in {*WRITABLE, *FOREIGN, ""} and not os.path.isdir(target):
        raise ParameterError(
            f"{target}: this suffix names no format", hint=f"end the name in {', '.join(WRITABLE)}"
        )
    if (opset is not None or external_data is not None) and not target.endswith(".onnx"):
        what = "an opset goes" if opset is not None else "external data goes"
        raise ParameterError(f"{what} with .onnx files only", hint="end the output's name in .onnx")
    seconds = checked_timeout(timeout)
    options = opening(tags, signature, checkpoint)
    names = {"inputs": inputs, "outputs": outputs, "state": state_for(state, target)} | options
    if not target.endswith((".tflite", ".onnx")):
        graph = load(source, shapes=shapes, **names)
        require_tensorflow(graph, "converted")
        size = save(graph, target)
        return Conversion(target, size, "every node and weight kept as it was", opening_notes(graph))

    def write(graph: Graph) -> Conversion:
        if target.endswith(".onnx"):
            return _convert_to_onnx(graph, target, verify, opset, external_data, seconds, strict)
        return write_float_tflite(graph, target, verify=verify, timeout_seconds=seconds, strict=strict)

    made, graph, settings = _kept_else_frozen(source, shapes, names, write)
    made.notes += [*switch_notes(settings), *opening_notes(graph)]
    return made


def state_for(state: str | None, path: str) -> str:
    """What becomes of state in a file of that name.

    Raises:
        ParameterError: its format has no variables to keep state in.
    """
    from thinflow.load.keeping import AUTO, FREEZE, KEEP

    if path.endswith(".tflite"):
        return state or AUTO
    if state == KEEP:
        raise ParameterError(
            f"{path}: only .tflite files keep state from call to call",
            hint="--state inputs makes it inputs and outputs of the model, for the app to hand on",
        )
    return FREEZE if state in (None, AUTO) else state


def _kept_else_frozen(
    source: Source, shapes: Shapes | None, names: dict[str, Any], write: Callable[[Graph], Conversion]
) -> tuple[Conversion, Graph, list[str]]:
    """What was written of a model, with its state if the file can keep that; also the graph, and what was set
    in it for inference.

    Raises:
        StateNotKept: the file cannot, and that was asked for.
    """
    from thinflow.analysis.opened import tell_unkept
    from thinflow.load.keeping import AUTO, FREEZE

    graph, settings = load_for_inference(source, shapes=shapes, **names)
    require_tensorflow(graph, "converted")
    require_outputs(graph)
    try:
        return write(graph), graph, settings
    except ThinflowError as error:
        if not graph.states or names["state"] != AUTO or isinstance(source, Graph):
            raise
        why = error.problem
    graph, settings = load_for_inference(source, shapes=shapes, **names | {"state": FREEZE})
    tell_unkept(graph, why)
    return write(graph), graph, settings


def write_float_tflite(
    graph: Graph,
    path: str,
    *,
    verify: bool = True,
    timeout_seconds: float = TIMEOUT_SECONDS,
    strict: bool = False,
) -> Conversion:
    """Write the part of a graph that LiteRT can run, whatever the target's suffix; errors as above.

    Args:
        graph: with inputs and outputs set.
        path: target.
        verify: whether to run it before it takes its name.
        timeout_seconds: for that run.
        strict: refuse to write a part.
    """
    from thinflow.formats._files import write_file
    from thinflow.optimize.advice import fits_onnx
    from thinflow.optimize.calls import require_states
    from thinflow.optimize.float_model import float_graph, float_model
    from thinflow.optimize.onnx_quantizing import reopened

    prepared = float_graph(graph, verify=verify, runtime="litert")
    optimised = prepared.graph
    asked, model = path, float_model(optimised)
    require_states(model.core)
    path = _settled(model.coverage, path, strict)
    if not verify:
        notes = [*_core_notes(model.core), *_type_notes(prepared), *model.batch_notes]
        size = write_file(path, model.chunks())
        return Conversion(path, size, _NOT_VERIFIED, notes, model.coverage, asked)
    try:
        size, proof, doubts = _write_proven(model, path, timeout_seconds)
    except (EngineUnavailable, FeedError, VerificationError) as error:
        if not model.is_open:
            raise
        model = float_model(optimised, fixed=error.problem)
        path = _settled(model.coverage, asked, strict)
        size, proof, doubts = _write_proven(model, path, timeout_seconds)
    notes = [*_core_notes(model.core), *_type_notes(prepared), *model.batch_notes]
    whole_fits = ".onnx" if model.coverage.is_part and fits_onnx(reopened(graph, optimised)) else ""
    return Conversion(path, size, proof, [*notes, *doubts], model.coverage, asked, whole_fits)


def _write_proven(model: FloatModel, path: str, timeout_seconds: float) -> tuple[int, str, list[str]]:
    """Write a float model that answers as the graph does, for one sample and, if its batch is open, for two;
    see `_proven`.

    Raises:
        VerificationError: it does not; nothing is written.
        EngineCrashed: running it crashed or took too long; nothing is written.
        UnprovenError: made-up inputs do not go through the graph, and the batch is open.
    """
    from thinflow.formats._files import write_file
    from thinflow.optimize.batch_sizes import only_batch_is_open
    from thinflow.optimize.calls import CALLS, check_calls
    from thinflow.optimize.checking import check_float_model, why_one_batch
    from thinflow.optimize.samples import samples_for

    keeps = bool(model.core.states)
    samples = samples_for(model.core.graph, None, limit=CALLS if keeps else 2)

    def compare(part: str) -> float:
        path = None if keeps else part  # states of its own would stand in the way of one call at a time
        apart = check_float_model(model, samples, count=1, path=path, timeout_seconds=timeout_seconds)
        why = why_one_batch(model, samples, path=path, timeout_seconds=timeout_seconds)
        if why:
            raise VerificationError(why)
        calls = check_calls(model.core, part, samples, timeout_seconds=timeout_seconds)
        return max(apart, calls)

    return _proven(
        lambda check: write_file(path, model.chunks(), check=check),
        compare,
        _agrees(model.core, model.coverage),
        "litert",
        write_unproven=not keeps and not (model.is_open and only_batch_is_open(model.core.graph.inputs)),
    )


def _convert_to_onnx(
    graph: Graph,
    target: str,
    verify: bool,
    opset: int | None,
    external_data: bool | None,
    timeout_seconds: float,
    strict: bool,
) -> Conversion:
    from thinflow.engines.onnxruntime import ENGINE
    from thinflow.onnx.program import check_opset
    from thinflow.optimize.float_model import float_graph
    from thinflow.optimize.onnx import onnx_model, write_onnx
    from thinflow.optimize.samples import samples_for

    opset = None if opset is None else check_opset(opset)
    prepared = float_graph(graph, verify=verify, runtime="onnx")
    optimised = prepared.graph
    samples = samples_for(optimised, None, limit=1)
    asked, model = target, onnx_model(optimised, samples, opset=opset)
    target = _settled(model.coverage, target, strict)
    missing = ENGINE.available()
    if missing or not verify:
        size = write_onnx(model.program, target, external_data=external_data)
        notes = [*_core_notes(model.core), *_type_notes(prepared), *_file_notes(model)]
        proof = f"not run: {missing}" if verify else _NOT_VERIFIED
        return Conversion(target, size, proof, notes, model.coverage, asked)
    try:
        size, proof, doubts = _write_proven_onnx(model, target, external_data, timeout_seconds)
    except (EngineUnavailable, FeedError, VerificationError) as error:
        if not model.is_open:
            raise
        model = onnx_model(optimised, samples, opset=opset, fixed=error.problem)
        target = _settled(model.coverage, asked, strict)
        size, proof, doubts = _write_proven_onnx(model, target, external_data, timeout_seconds)
    notes = [*_core_notes(model.core), *_type_notes(prepared), *_file_notes(model)]
    return Conversion(target, size, proof, [*notes, *doubts], model.coverage, asked)


def _file_notes(model: OnnxModel) -> list[str]:
    """What to tell of an .onnx file: a batch that is fixed, and its op set."""
    return [*model.batch_notes, f"opset  {model.program.opset}"]


def _write_proven_onnx(
    model: OnnxModel, target: str, external_data: bool | None, timeout_seconds: float
) -> tuple[int, str, list[str]]:
    """As `_write_proven`, for ONNX Runtime."""
    from thinflow.optimize.batch_sizes import only_batch_is_open
    from thinflow.optimize.onnx import check_onnx_model, why_one_batch, write_onnx
    from thinflow.optimize.samples import samples_for

    samples = samples_for(model.core.graph, None, limit=2)

    def compare(part: str) -> float:
        apart = check_onnx_model(model, samples, part, count=1, timeout_seconds=timeout_seconds)
        why = why_one_batch(model, samples, part, timeout_seconds=timeout_seconds)
        if why:
            raise VerificationError(why)
        return apart

    return _proven(
        lambda check: write_onnx(model.program, target, external_data=external_data, check=check),
        compare,
        _agrees(model.core, model.coverage),
        "onnxruntime",
        write_unproven=not (model.is_open and only_batch_is_open(model.core.graph.inputs)),
    )


_NOT_VERIFIED = "not verified (--no-verify)"
_UNPROVEN = "NOT verified: made-up inputs do not go through the graph"


def _settled(coverage: Coverage, target: str, strict: bool) -> str:
    """The path of the file to write: a part has another name.

    Raises:
        PartialModel: it is a part, and that is not allowed.
    """
    if strict:
        coverage.require_whole()
    return coverage.path(target)


def _proven(
    write: Callable[[Callable[[str], None] | None], int],
    compare: Callable[[str], float],
    agrees: str,
    engine: str,
    *,
    write_unproven: bool = True,
) -> tuple[int, str, list[str]]:
    """Write a file that is compared with the graph before it takes its name: its bytes, the proof, and notes
    on why there is none.

    Args:
        write: writes the file, and calls what it is given with the path of the finished one.
        compare: how far its answers are from the graph's.
        agrees: the proof, with a place for that number.
        engine: what has to open the file, at least, in a child process.
        write_unproven: whether it is written where made-up inputs do not go through the graph.

    Raises:
        UnprovenError: they do not, and it is not.
        EngineUnavailable: the engine does not open the file; it is not written.
    """
    from thinflow.engines._child import require_opening
    from thinflow.optimize.core_feeds import UnprovenError

    found: list[float] = []
    try:
        size = write(lambda part: found.append(compare(part)))
    except UnprovenError as error:
        if not write_unproven:
            raise
        size = write(lambda part: require_opening(part, engine))
        return size, _UNPROVEN, _why_unproven(error)
    return size, agrees.format(found[0]), []


def _agrees(core: Core, coverage: Coverage) -> str:
    """The proof, with a place for the largest difference."""
    from thinflow.optimize.calls import CALLS
    from thinflow.optimize.codes import holds_codes

    runtime = "LiteRT" if coverage.runtime == "LiteRT" else "ONNX Runtime"
    if coverage.is_part:
        runtime = f"the part in {runtime}"
    if holds_codes(core.nodes):
        return (
            f"each eight-bit op in {runtime} agrees with the graph's, one rounding aside, which adds up to"
            " {:.2g} of the largest value"
        )
    twin = "the same nodes of the graph" if coverage.is_part else "the graph"
    if core.states:
        twin += f" over {CALLS} calls in a row, which keep the state"
    return f"{runtime} agrees with {twin}, largest relative difference {{:.2g}}"


def _why_unproven(error: ThinflowError) -> list[str]:
    """What the graph says of made-up inputs, and what to do about it."""
    notes = [
        f"why    {error.message}",
        "then   compare on your inputs: thinflow verify MODEL FILE --feed NAME=...",
    ]
    return notes if "--shape" not in error.hint else [*notes, f"or     {error.hint}"]


def _type_notes(prepared: Result) -> list[str]:
    """What was turned into float on the way."""
    from thinflow.optimize.float_model import type_notes

    return [f"note   {text}" for text in type_notes(prepared)]


def _core_notes(core: Core) -> list[str]:
    """What a converted model takes and gives, and what of the graph is not in it."""
    from thinflow.optimize.core import BESIDE, narrow_advice, shape_advice
    from thinflow.optimize.coverage import coverage_of

    notes = [f"input  {v.name}  {v.spec}" for v in core.fed]
    notes += [f"output {v.name}  {v.spec}" for v in core.given]
    notes += [f"state  {s.name}  {s.input.spec}  kept from call to call" for s in core.states]
    if core.outside:
        reasons = core.outside.items()
        own = (pair for pair in reasons if not pair[1].startswith(BESIDE))
        node, why = next(own, next(iter(reasons)))
        whose = "" if coverage_of(core).is_part else " and run in the app"
        notes.append(f"{len(core.outside)} nodes are not in it{whose}, first {node.where}: {why}")
        advice = shape_advice(core.graph.inputs)
        notes += [text for text in (advice, narrow_advice(core.outside)) if text]
    return notes
