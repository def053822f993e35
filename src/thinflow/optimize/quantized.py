"""Models in fewer bits, for LiteRT and for ONNX Runtime: the program, its file, and how it came to be."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from thinflow.compare.differences import difference
from thinflow.engines._child import run_file
from thinflow.errors import VerificationError, WriteError
from thinflow.formats.files import write_file
from thinflow.ir.brief import brief_repr
from thinflow.ir.interface import State
from thinflow.ir.notebook import table_html
from thinflow.ir.types import FLOAT
from thinflow.lower.onnx.target import write_onnx
from thinflow.lower.tflite.variables import with_variables
from thinflow.onnx.metadata import described as onnx_described
from thinflow.onnx.program import Program as OnnxProgram
from thinflow.onnx.writer import to_bytes as onnx_to_bytes
from thinflow.optimize.converted import ConvertedModel, batch_failure, several
from thinflow.optimize.core import Core
from thinflow.optimize.coverage import Coverage, coverage_of, require_name
from thinflow.optimize.layer_errors import LayerErrors
from thinflow.optimize.samples import Samples, note_without_ranges
from thinflow.optimize.trials import Climb
from thinflow.quantize.calibrate import Calibration
from thinflow.quantize.doctor.findings import Finding
from thinflow.quantize.recipe import Quantized
from thinflow.quantize.shares import Shares, shares
from thinflow.tflite.described import described
from thinflow.tflite.model import Operator, Program, Subgraph, Tensor
from thinflow.tflite.writer import to_bytes
from thinflow.typing import Array

if TYPE_CHECKING:
    from thinflow.optimize.c_conversion import CFiles
    from thinflow.optimize.c_options import COptions

P = TypeVar("P", Program, OnnxProgram)

# Rounding differs from sample to sample, so twice the distance proves nothing. A batch that is laid out
# wrongly gives the second sample the answers of another one, which differ by much of the largest value.
_WORSE, _FARTHER = 3.0, 0.1
"""How much farther from the float model's answers those for two samples may be than those for one: by this
factor, and by that share of the largest value. Answers of other samples are farther away."""


@brief_repr
@dataclass
class SmallerModel(ABC, Generic[P]):
    """The smaller program of a graph's core, and how it came to be.

    Attributes:
        core: what of the graph it holds.
        quantized: the program, and what was decided for each tensor.
        calibration: empty for schemes that need no samples.
        float_bytes: size of the float file that it was made from.
        warnings: sentences for the reader.
        way: what was tried to make it better, and the recipe that was best.
        findings: of the calibration doctor on the samples that it was made with.
        layers: the noise in each, where it was measured.
    """

    core: Core = field(repr=False)
    quantized: Quantized[P]
    calibration: Calibration
    float_bytes: int
    warnings: list[str] = field(default_factory=list)
    way: Climb = field(default_factory=Climb)
    findings: list[Finding] = field(default_factory=list, kw_only=True)
    layers: LayerErrors = field(default_factory=LayerErrors, kw_only=True, repr=False)

    runtime: ClassVar[str]

    @abstractmethod
    def _bytes(self) -> bytes:
        """The program as a file."""

    @cached_property
    def shares(self) -> Shares:
        """The shares of its multiplications that are computed in integers."""
        floats = (operator.code for operator, _ in self.quantized.float_operators)
        return shares(self.quantized.program, floats, self.layers.sizes)

    @property
    def ranges_note(self) -> str:
        """A sentence on ranges that the model brought along; "" if it brought none."""
        stated, measured = len(self.quantized.stated), len(self.quantized.measured)
        if not stated:
            return ""
        rest = f"{measured} others have what samples showed" if measured else "none is from samples"
        return f"{stated} tensors keep the eight-bit ranges that the model states, {rest}"

    def note_of(self, samples: Samples) -> str:
        """The note of samples; without a word on ranges where the model brought all of its own."""
        is_own = bool(self.quantized.stated) and not self.quantized.measured
        return note_without_ranges(samples.note) if is_own else samples.note

    @cached_property
    def content(self) -> bytes:
        """The program as a file, in memory; kept once made."""
        return self._bytes()

    @property
    def comparable(self) -> bytes:
        """A file that takes and gives floats as the float model does, whatever the types at the borders."""
        return self.content

    @cached_property
    def coverage(self) -> Coverage:
        """The coverage of the graph by the program."""
        return coverage_of(self.core)

    def _repr_html_(self) -> str:
        rows: list[tuple[str, object]] = [
            ("bytes", f"{len(self.content):,}, float {self.float_bytes:,}"),
            ("computed", self.shares.sentence),
            ("quantized tensors", len(self.quantized.decisions)),
            ("operators that stay float", len(self.quantized.float_operators)),
        ]
        title = "part of a model" if self.coverage.is_part else "whole model"
        rows += [("kept", f"{t.what}: {t.sqnr_db:.1f} dB") for t in self.way.trials if t.kept]
        rows += [("warning", text) for text in self.warnings]
        return table_html(f"{self.runtime}, {title}", rows)


@brief_repr
@dataclass
class QuantizedModel(SmallerModel[Program]):
    """The smaller program, its file content, and how it came to be.

    Attributes:
        quantized: the program, and what was decided for each tensor.
        calibration: empty for schemes that need no samples.
        content: the file's bytes.
        warnings: sentences for the reader.
        for_onnx: makes the same for ONNX Runtime, where the graph is known.
        coverage: how much of the graph it is.
    """

    for_onnx: Callable[[], OnnxQuantizedModel] | None = field(default=None, repr=False, kw_only=True)
    runtime = "LiteRT"

    def _bytes(self) -> bytes:
        program = with_variables(self.quantized.program, self.core.states)
        return to_bytes(described(program, self.core.graph.usage))

    @cached_property
    def comparable(self) -> bytes:
        """The file that takes and gives floats as the float model does, whatever the types at the borders."""
        # States stay inputs and outputs here, so that single calls can be compared.
        return to_bytes(with_float_borders(self.quantized.program, self.core.states))

    def save(self, path: str | os.PathLike[str]) -> int:
        """Write a .tflite file, a .c of the same operators, a .pb or .pbtxt that rounds as they do, or an
        .onnx or .xml made from the same graph and samples; the bytes written.

        Raises:
            WriteError: the name ends otherwise, or it cannot be written.
            ParameterError: the scheme has no ONNX form.
            PartialModel: it is a part of the model, and the name does not say so.
        """
        name = os.fspath(path)
        if name.endswith((".onnx", ".xml")) and self.for_onnx is not None:
            return self.for_onnx().save(path)
        if name.endswith((".pb", ".pbtxt")):
            # Imported late: few want such a file.
            from thinflow.optimize.quantized_graph import save_quantized_graph

            return save_quantized_graph(self.core, self.way.recipe, self.comparable, path)
        if not name.endswith((".tflite", ".c")):
            raise WriteError("this is a LiteRT model", name, hint="name it .tflite, .c or .pb")
        require_name(self.coverage, path)
        if name.endswith(".c"):
            return self.save_c(path).size_bytes
        return write_file(path, [self.content])

    def save_c(self, path: str | os.PathLike[str], asked: COptions | None = None) -> CFiles:
        """Write a .c with what is asked of it; see `save`."""
        # Imported late: it needs engines that others do not.
        from thinflow.lower.c.sound import know_rate
        from thinflow.optimize.c_conversion import convert_to_c
        from thinflow.optimize.c_options import COptions
        from thinflow.tflite.reader import read_program

        require_name(self.coverage, path)
        asked = asked or COptions()
        program = read_program(self.content)
        know_rate(program, asked.sample_rate)
        return convert_to_c(program, path, asked.chosen())


@brief_repr
@dataclass
class OnnxQuantizedModel(SmallerModel[OnnxProgram]):
    """The smaller ONNX program of a graph's core, and how it came to be.

    Attributes:
        calibration: empty for float16.
        float_bytes: size of the float file, prepared for quantization.
        content: the file's bytes.
        warnings: sentences for the reader.
        coverage: how much of the graph it is.
    """

    runtime = "ONNX"

    def _bytes(self) -> bytes:
        return onnx_to_bytes(onnx_described(self.quantized.program, self.core.graph.usage))

    def save(self, path: str | os.PathLike[str], *, external_data: bool | None = None) -> int:
        """Write an .onnx file, or an .xml for OpenVINO; the bytes written.

        Raises:
            WriteError: the name ends otherwise, or it cannot be written.
            EngineUnavailable: OpenVINO is missing, which writes its own files.
            PartialModel: it is a part of the model, and the name does not say so.
        """
        name = os.fspath(path)
        if not name.endswith((".onnx", ".xml")):
            raise WriteError("this is an ONNX model", name, hint="end the name in .onnx or .xml")
        require_name(self.coverage, path)
        if name.endswith(".xml"):
            # Imported late: few have OpenVINO.
            from thinflow.lower.openvino.writing import model_of, write_ir

            program = self.quantized.program
            return write_ir(model_of(program), path, notes={"description": program.description})
        program = onnx_described(self.quantized.program, self.core.graph.usage)
        return write_onnx(program, path, external_data=external_data)


def with_float_borders(program: Program, states: Sequence[State] = ()) -> Program:
    """The program behind QUANTIZE and before DEQUANTIZE where its inputs and outputs are integers.

    States that are codes in the float model, too, stay what they are.
    """
    main = program.subgraphs[0]
    codes = {v.name for s in states if s.start.dtype.is_integer for v in (s.input, s.output)}
    ends = (*main.inputs, *main.outputs)
    inside = [t for t in ends if t.quantization is not None and t.name not in codes]
    # Nothing to wrap: the program itself, and no copy of it.
    if not inside:
        return program
    # One twin for a tensor that is input and output at once:
    # it is handed out as it came, without an operator.
    outside = {t: Tensor(f"{t.name}/float", t.shape, FLOAT) for t in dict.fromkeys(inside)}
    before = [Operator("QUANTIZE", [outside[t]], [t]) for t in main.inputs if t in outside]
    after = [
        Operator("DEQUANTIZE", [t], [outside[t]])
        for t in dict.fromkeys(main.outputs)
        if t in outside and t not in main.inputs
    ]
    inputs, outputs = ([outside.get(t, t) for t in side] for side in (main.inputs, main.outputs))
    wrapped = Subgraph(inputs, outputs, [*before, *main.operators, *after], name=main.name)
    # Signatures name the old ends.
    return replace(program, subgraphs=[wrapped, *program.subgraphs[1:]], signatures={})


def why_one_smaller_batch(model: ConvertedModel[Any], smaller: bytes, samples: Samples) -> str:
    """The reason why a smaller model with an open batch is not as good with two samples at once as with one;
    "" if it is.

    Args:
        model: the float model that it was made from.
        smaller: its file, which takes and gives the types of the float one.
        samples: for the whole graph.
    """
    with batch_failure() as why:
        feeds = [model.core.before(next(iter(samples))), several(model.core, samples)]
        exact = run_file(model.content, model.engine, feeds, name="the float model")
        found = run_file(smaller, model.engine, feeds, name="the smaller model")
        one, two = (_distance(a, b) for a, b in zip(exact, found, strict=True))
        # Two samples may be as far off as one, and rounding moves; the factor alone would refuse a model that
        # is nearly exact.
        if two > _WORSE * one + _FARTHER:
            raise VerificationError(f"off by {two:.2g} of the largest value, with one sample by {one:.2g}")
    return "".join(why)


def _distance(exact: Sequence[Array], found: Sequence[Array]) -> float:
    """The largest relative difference of real outputs; classes and counts may well differ."""
    pairs = zip(exact, found, strict=True)
    if any(a.shape != b.shape for a, b in zip(exact, found, strict=True)):
        raise VerificationError("its outputs have other shapes than the float model's")
    return max((difference(a, b).relative for a, b in pairs if a.dtype.kind == "f"), default=0.0)
