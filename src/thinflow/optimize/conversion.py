"""Conversion of a graph into a .tflite, .onnx or .xml file, proven before the file takes its name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic

from thinflow.engines._child import TIMEOUT_SECONDS, require_opening
from thinflow.errors import EngineUnavailable, FeedError, ThinflowError, VerificationError
from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Graph
from thinflow.ir.ledger import Entry, reasons
from thinflow.ir.notebook import table_html
from thinflow.load.frozen import require_frozen
from thinflow.optimize.batch_sizes import only_batch_is_open
from thinflow.optimize.converted import ConvertedModel, UnprovenError
from thinflow.optimize.core import BESIDE, Core, narrow_advice, shape_advice
from thinflow.optimize.coverage import Coverage, coverage_of
from thinflow.optimize.eight_bit_check import holds_codes
from thinflow.optimize.float_graph import float_graph, reopened, type_notes
from thinflow.optimize.left_transposes import transpose_note
from thinflow.optimize.litert import LiteRTMaker
from thinflow.optimize.maker import M, ModelMaker
from thinflow.optimize.numeric_check import CALLS, check_alone_and_together, check_calls, require_states
from thinflow.optimize.samples import samples_for
from thinflow.optimize.source_proof import SourceProof, prove_beside_source
from thinflow.rewrite.runner import Result
from thinflow.typing import Progress

COPIED = "a copy of the file, byte for byte"
"""The proof of what needs none."""


@brief_repr
@dataclass
class Conversion:
    """The result of `convert_verified`: what it wrote and proved.

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
        """True if the file holds only a part of the model."""
        return self.coverage is not None and self.coverage.is_part

    @property
    def verdict(self) -> str:
        """One sentence on a part, which is not where it was asked for; "" for a whole model."""
        if self.coverage is None or not self.is_part:
            return ""
        return self.coverage.verdict(self.path, self.asked or self.path)

    @property
    def not_fused(self) -> list[tuple[str, int, str]]:
        """Reasons why operators stayed apart: (reason, how often, an example node), most frequent first."""
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


def write_float_tflite(graph: Graph, path: str, *, strict: bool = False) -> Conversion:
    """Write the part of a graph that LiteRT can run, whatever the target's suffix; errors as above.

    Args:
        graph: with inputs and outputs set.
        path: target.
        strict: refuse to write a part.
    """
    return Converter(LiteRTMaker(), graph, path, strict=strict).convert()


_STEPS = 3
"""Of a conversion, for those who watch it."""


@dataclass
class Converter(Generic[M]):
    """Converts a graph for one runtime into a file.

    Attributes:
        maker: of the models.
        graph: with inputs and outputs set.
        asked: path of the file; a part gets another name.
        timeout_seconds: for running the file.
        strict: refuse to write a part.
        verify: run the file before it takes its name.
        is_as_opened: whether the graph is what was opened, and not changed by anybody since.
        progress: called with (done, total, label).
    """

    maker: ModelMaker[M, Any]
    graph: Graph
    asked: str
    timeout_seconds: float = TIMEOUT_SECONDS
    strict: bool = False
    verify: bool = True
    is_as_opened: bool = True
    progress: Progress | None = None

    def convert(self) -> Conversion:
        """Write the model that answers as the graph does, its open batch fixed if it has to be."""
        self._tell(0, "transform")
        optimized = float_graph(self.graph, verify=self.verify, runtime=self.maker.order, sizes=False)
        graph, lower = optimized.graph, self.maker.lower
        # Without it the part that has a form would take every weight as an input.
        require_frozen(graph)
        # Inference of ONNX needs ranks: the first made-up sample has them.
        samples = samples_for(graph, None, limit=1) if self.maker.needs_ranks else None
        self._tell(1, "write in the runtime's words")
        model = lower(graph, samples)
        require_states(model.core)
        missing = self.maker.missing()
        if missing or not self.verify:
            size = self.maker.write(model, self._path(model))
            proof = f"not run: {missing}" if self.verify else NOT_VERIFIED
            if self.verify and (beside := self.beside_source()):
                proof = f"{proof}; {beside}"
            self._tell(_STEPS, "done")
            return self._conversion(model, optimized, size, proof)
        self._tell(2, "run the file beside the graph")
        try:
            proven = self._write_proven(model)
        # What an open batch was refused for may go through with a fixed one, which is tried once.
        except (EngineUnavailable, FeedError, VerificationError) as error:
            if not model.is_open:
                raise
            model = lower(graph, samples, fixed=error.problem)
            proven = self._write_proven(model)
        self._tell(_STEPS, "done")
        made = self._conversion(model, optimized, *proven)
        made.whole_fits = ".onnx" if self._fits_onnx(model, graph) else ""
        return made

    def _tell(self, done: int, label: str) -> None:
        if self.progress is not None:
            self.progress(done, _STEPS, label)

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
        notes = [*_core_notes(model.core), *(f"note   {text}" for text in type_notes(optimized))]
        # Of files in other words than TensorFlow's, whose layout is seldom that of the runtime.
        if self.graph.source is not None and (left := transpose_note(optimized.graph, model.transposed)):
            notes.append(left)
        notes += [*model.batch_notes, *self.maker.file_notes(model), *doubts]
        return Conversion(self._path(model), size, proof, notes, model.coverage, self.asked, left=model.left)

    def _fits_onnx(self, model: M, graph: Graph) -> bool:
        """True if an .onnx file could hold all of a graph that another file holds a part of."""
        if self.maker.suffix == ".onnx" or not model.coverage.is_part:
            return False
        # What makes eight-bit models of ONNX takes as long to import as most models to convert.
        from thinflow.optimize.onnx import fits_onnx

        return fits_onnx(reopened(self.graph, graph))

    def _write_proven(self, model: M) -> tuple[int, str, list[str]]:
        """Write a model that answers as the graph does, for one sample and, if its batch is open, for two;
        its bytes, the proof, and notes on why there is none.

        Raises:
            VerificationError: it does not; nothing is written.
            EngineUnavailable, EngineCrashed: the runtime does not open the file, crashed or took too long.
            UnprovenError: made-up inputs do not go through the graph, and the batch is open.
        """
        path, core = self._path(model), model.core
        # Lists, as the check runs inside of `write`, before the file takes its name.
        found: list[float] = []
        beside: list[str] = []

        def check(part: str) -> None:
            found.append(self._compare(model, part))
            # What a part is fed and gives only the graph knows; it is judged by that, and that by the file.
            alike = not model.coverage.is_part and bool(core.states) == bool(self.graph.states)
            beside.append(self.beside_source(part if alike else None))

        try:
            size = self.maker.write(model, path, check=check)
        except UnprovenError as error:
            # A state or an open batch that nobody has run is not handed out unproven.
            if core.states or (model.is_open and only_batch_is_open(core.graph.inputs)):
                raise
            size = self.maker.write(model, path, check=lambda part: require_opening(part, model.engine))
            return size, _UNPROVEN, _why_unproven(error)
        proof = "; ".join(filter(None, [_agrees(model).format(found[0]), *beside]))
        return size, proof, []

    def _compare(self, model: M, part: str) -> float:
        """The largest relative difference of a file's answers from the graph's."""
        keeps, seconds = bool(model.core.states), self.timeout_seconds
        # The first alone and then two at once, or as many as there are calls in a row.
        samples = samples_for(model.core.graph, None, limit=CALLS if keeps else 2)
        file = None if keeps else part  # states of its own would stand in the way of one call at a time
        apart, why = check_alone_and_together(model, samples, file=file, timeout_seconds=seconds)
        if why:
            raise VerificationError(why)
        return max(apart, check_calls(model, part, samples, timeout_seconds=seconds))

    def beside_source(self, part: str | None = None) -> str:
        """What came of comparing a file, or else the graph, with the file that the graph was made from; "" if
        it was made from none.

        Raises:
            VerificationError: they give other answers.
        """
        return told_of(self.source_proof(part), part)

    def source_proof(self, part: str | None) -> SourceProof:
        """As `beside_source`, with what came of it."""
        return prove_beside_source(
            self.graph,
            part,
            may_differ=not self.is_as_opened,
            timeout_seconds=self.timeout_seconds,
        )


def told_of(proof: SourceProof, part: str | None) -> str:
    """A proof of a file, or else of the graph, in words."""
    if not proof.sentence:
        return ""
    return f"it {proof.sentence}" if part is not None else f"the graph {proof.sentence}"


NOT_VERIFIED = "not verified (--no-verify)"
_UNPROVEN = "NOT verified: made-up inputs do not go through the graph"


RUNTIMES = {"litert": "LiteRT", "onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}
"""Engine -> what people call it in a proof."""


def _agrees(model: ConvertedModel[Any]) -> str:
    """The proof, with a place for the largest difference."""
    core, coverage = model.core, model.coverage
    runtime = RUNTIMES[model.engine]
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
    """Notes on what the graph says of made-up inputs, and on what to do about it."""
    notes = [
        f"why    {error.message}",
        "then   compare on your inputs: thinflow verify MODEL FILE --feed NAME=...",
    ]
    return notes if "--shape" not in error.hint else [*notes, f"or     {error.hint}"]


def _core_notes(core: Core) -> list[str]:
    """Notes on what a converted model takes and gives, and on what of the graph is not in it."""
    notes = [f"input  {v.name}  {v.spec}" for v in core.fed]
    notes += [f"output {v.name}  {v.spec}" for v in core.given]
    notes += [f"state  {s.name}  {s.input.spec}  kept from call to call" for s in core.states]
    if core.outside:
        reasons = core.outside.items()
        own = (pair for pair in reasons if not pair[1].startswith(BESIDE))
        node, why = next(own, next(iter(reasons)))
        is_one = len(core.outside) == 1
        count = "1 node is" if is_one else f"{len(core.outside)} nodes are"
        whose = "" if coverage_of(core).is_part else f" and run{'s' * is_one} in the app"
        notes.append(f"{count} not in it{whose}, first {node.where}: {why}")
        advice = shape_advice(core.graph.inputs)
        notes += [text for text in (advice, narrow_advice(core.outside)) if text]
    return notes
