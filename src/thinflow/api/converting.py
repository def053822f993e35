"""Writing a model in another format, and proving what was written."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

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
from thinflow.ir.ledger import Entry, reasons
from thinflow.ir.notebook import table_html
from thinflow.load.graphs import load, load_for_inference, require_outputs, require_tensorflow

if TYPE_CHECKING:
    from thinflow.optimize.converted import ConvertedModel
    from thinflow.optimize.core import Core
    from thinflow.optimize.coverage import Coverage
    from thinflow.optimize.maker import ModelMaker
    from thinflow.rewrite.runner import Result
    from thinflow.typing import FilePath

M = TypeVar("M", bound="ConvertedModel[Any]")


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
        left: operators of the file that were not fused with their neighbours, though they nearly qualified.
    """

    path: str
    size_bytes: int
    proof: str
    notes: list[str] = field(default_factory=list)
    coverage: Coverage | None = None
    asked: str = ""
    whole_fits: str = ""
    left: list[Entry] = field(default_factory=list)

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

    @property
    def not_fused(self) -> list[tuple[str, int, str]]:
        """Why operators stayed apart: (reason, how often, an example node), most frequent first."""
        return reasons(self.left)

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
            "not_fused": [list(reason) for reason in self.not_fused],
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
    from thinflow.optimize.litert import LiteRTMaker
    from thinflow.optimize.onnx import OnnxMaker

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
        order = (graph, target, seconds, strict, verify)
        if target.endswith(".onnx"):
            return _Converter(OnnxMaker(opset, external_data=external_data), *order).convert()
        return _Converter(LiteRTMaker(), *order).convert()

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


def write_float_tflite(graph: Graph, path: str, *, strict: bool = False) -> Conversion:
    """Write the part of a graph that LiteRT can run, whatever the target's suffix; errors as above.

    Args:
        graph: with inputs and outputs set.
        path: target.
        strict: refuse to write a part.
    """
    from thinflow.optimize.litert import LiteRTMaker

    return _Converter(LiteRTMaker(), graph, path, strict=strict).convert()


@dataclass
class _Converter(Generic[M]):
    """Converts a graph for one runtime into a file.

    Attributes:
        maker: of the models.
        graph: with inputs and outputs set.
        asked: path of the file; a part gets another name.
        timeout_seconds: for running the file.
        strict: refuse to write a part.
        verify: run the file before it takes its name.
    """

    maker: ModelMaker[M, Any]
    graph: Graph
    asked: str
    timeout_seconds: float = TIMEOUT_SECONDS
    strict: bool = False
    verify: bool = True

    def convert(self) -> Conversion:
        """Write the model that answers as the graph does, its open batch fixed if it has to be."""
        from thinflow.optimize.float_graph import float_graph
        from thinflow.optimize.kept_state import require_states
        from thinflow.optimize.samples import samples_for

        optimized = float_graph(self.graph, verify=self.verify, runtime=self.maker.order)
        graph, lower = optimized.graph, self.maker.lower
        samples = samples_for(graph, None, limit=1) if self.maker.needs_ranks else None
        model = lower(graph, samples)
        require_states(model.core)
        missing = self.maker.missing()
        if missing or not self.verify:
            size = self.maker.write(model, self._path(model))
            proof = f"not run: {missing}" if self.verify else _NOT_VERIFIED
            return self._conversion(model, optimized, size, proof)
        try:
            proven = self._write_proven(model)
        except (EngineUnavailable, FeedError, VerificationError) as error:
            if not model.is_open:
                raise
            model = lower(graph, samples, fixed=error.problem)
            proven = self._write_proven(model)
        made = self._conversion(model, optimized, *proven)
        made.whole_fits = ".onnx" if self._fits_onnx(model, graph) else ""
        return made

    def _path(self, model: M) -> str:
        """The path of the file to write: a part has another name.

        Raises:
            PartialModel: it is a part, and that is not allowed.
        """
        if self.strict:
            model.coverage.require_whole()
        return model.coverage.path(self.asked)

    def _conversion(
        self, model: M, optimized: Result, size: int, proof: str, doubts: Sequence[str] = ()
    ) -> Conversion:
        """The account of what was written."""
        from thinflow.optimize.float_graph import type_notes

        notes = [*_core_notes(model.core), *(f"note   {text}" for text in type_notes(optimized))]
        notes += [*model.batch_notes, *self.maker.file_notes(model), *doubts]
        return Conversion(self._path(model), size, proof, notes, model.coverage, self.asked, left=model.left)

    def _fits_onnx(self, model: M, graph: Graph) -> bool:
        """Whether an .onnx file could hold all of a graph that another file holds a part of."""
        from thinflow.optimize.advice import fits_onnx
        from thinflow.optimize.float_graph import reopened

        is_other = self.maker.suffix != ".onnx" and model.coverage.is_part
        return is_other and fits_onnx(reopened(self.graph, graph))

    def _write_proven(self, model: M) -> tuple[int, str, list[str]]:
        """Write a model that answers as the graph does, for one sample and, if its batch is open, for two;
        its bytes, the proof, and notes on why there is none.

        Raises:
            VerificationError: it does not; nothing is written.
            EngineUnavailable, EngineCrashed: the runtime does not open the file, crashed or took too long.
            UnprovenError: made-up inputs do not go through the graph, and the batch is open.
        """
        from thinflow.engines._child import require_opening
        from thinflow.optimize.batch_sizes import only_batch_is_open
        from thinflow.optimize.core_feeds import UnprovenError

        path, core = self._path(model), model.core
        found: list[float] = []
        try:
            size = self.maker.write(model, path, check=lambda part: found.append(self._compare(model, part)))
        except UnprovenError as error:
            if core.states or (model.is_open and only_batch_is_open(core.graph.inputs)):
                raise
            size = self.maker.write(model, path, check=lambda part: require_opening(part, model.engine))
            return size, _UNPROVEN, _why_unproven(error)
        return size, _agrees(core, model.coverage).format(found[0]), []

    def _compare(self, model: M, part: str) -> float:
        """The largest relative difference of a file's answers from the graph's."""
        from thinflow.optimize.kept_state import CALLS, check_calls
        from thinflow.optimize.numeric_check import check_model, why_one_batch
        from thinflow.optimize.samples import samples_for

        keeps, seconds = bool(model.core.states), self.timeout_seconds
        samples = samples_for(model.core.graph, None, limit=CALLS if keeps else 2)
        file = None if keeps else part  # states of its own would stand in the way of one call at a time
        apart = check_model(model, samples, count=1, file=file, timeout_seconds=seconds)
        if why := why_one_batch(model, samples, file=file, timeout_seconds=seconds):
            raise VerificationError(why)
        return max(apart, check_calls(model, part, samples, timeout_seconds=seconds))


_NOT_VERIFIED = "not verified (--no-verify)"
_UNPROVEN = "NOT verified: made-up inputs do not go through the graph"


def _agrees(core: Core, coverage: Coverage) -> str:
    """The proof, with a place for the largest difference."""
    from thinflow.optimize.eight_bit_check import holds_codes
    from thinflow.optimize.kept_state import CALLS

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
