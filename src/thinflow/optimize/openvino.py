"""OpenVINO models of a graph's core: what OpenVINO computes as it is defined, lowered and written."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from thinflow.analysis.shapes import infer_shapes
from thinflow.engines.openvino import ENGINE, Model, culprits, require_exact
from thinflow.engines.partition import Region
from thinflow.errors import EngineUnavailable, UnsupportedOp
from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Graph, Node, Value
from thinflow.lower.onnx.convert import lower_graph, unsupported, unsupported_unit
from thinflow.lower.openvino.limits import judge
from thinflow.lower.openvino.runtime import OPSET, library
from thinflow.lower.openvino.writing import model_of, write_ir
from thinflow.optimize.converted import RuntimeModel
from thinflow.optimize.core import find_core, whole_with_texts
from thinflow.optimize.onnx import OnnxMaker, OnnxModel, onnx_model
from thinflow.optimize.quantized import OnnxQuantizedModel
from thinflow.optimize.samples import Samples

SUFFIX = ".xml"


@brief_repr
@dataclass
class OpenVinoModel(OnnxModel):
    """The float program of a graph's core, in ONNX's operators, as OpenVINO gets it."""

    runtime, engine, suffix = "OpenVINO", "openvino", SUFFIX

    @staticmethod
    def open(content: bytes, *, threads: int) -> RuntimeModel:
        return Model(content, threads=threads)


@dataclass(frozen=True)
class OpenVinoMaker(OnnxMaker):
    """Makes OpenVINO models."""

    suffix = SUFFIX
    roles = names = ("openvino_fp32", "openvino_int8")
    reads_files = False

    def lower(self, graph: Graph, samples: Samples | None = None, *, fixed: str = "") -> OnnxModel:
        return onnx_model(graph, samples, fixed=fixed, lowered=_lowered)

    def write(
        self,
        model: OnnxModel | OnnxQuantizedModel,
        path: str | os.PathLike[str],
        *,
        check: Callable[[str], object] | None = None,
    ) -> int:
        program = model.program if isinstance(model, OnnxModel) else model.quantized.program
        notes = {"description": program.description}
        return write_ir(model_of(program), path, notes=notes, check=check)

    @staticmethod
    def open_file(path: str) -> object:
        return Model(path)

    def missing(self) -> str | None:
        return ENGINE.available()

    def file_notes(self, model: OnnxModel) -> list[str]:
        return [f"opens  in OpenVINO {_release()} and newer"]


def require_openvino() -> None:
    """Refuse what cannot be done before any work is.

    Raises:
        EngineUnavailable: OpenVINO is missing; its files are written by it, too.
    """
    library()


def _release() -> str:
    """Year and number of the OpenVINO that writes: an older one may lack an operator."""
    return ".".join(str(library().__version__).split(".")[:2])


def _lowered(graph: Graph, opset: int | None) -> OpenVinoModel:
    """The heaviest part that OpenVINO computes as it is defined. What it refuses it is asked for, node by
    node, and cut off.
    """
    refused: dict[Node, str] = {}
    while True:
        model = _cut(graph, refused, opset or OPSET)
        # Notes for who quantizes the program are no operators yet, and nobody's to refuse.
        if any(o.code == "FakeQuant" for part in model.program.programs() for o in part.operators):
            return model
        try:
            require_exact(model_of(model.program))
        except (UnsupportedOp, EngineUnavailable) as error:
            core = model.core
            found = culprits(graph, Region(True, core.nodes, core.inputs, core.outputs))
            if not found.keys() - refused.keys():
                raise UnsupportedOp(error.problem, error.where, error.hint) from error
            refused |= found
        else:
            return model


def _cut(graph: Graph, refused: dict[Node, str], opset: int) -> OpenVinoModel:
    """The heaviest part without the nodes that OpenVINO refused."""
    inputs = list(graph.inputs)

    def why_not(part: Graph, nodes: Iterable[Node], **options: object) -> dict[Node, str]:
        nodes = list(nodes)
        found = unsupported(part, nodes, specs={}, opset=opset, judge=judge(part, inputs))
        return found | {n: refused[n] for n in nodes if n in refused}

    def why_no_unit(part: Graph, taken: Sequence[Value], given: Sequence[Value]) -> str:
        return unsupported_unit(part, taken, given, specs={}, opset=opset, judge=judge(part, inputs))

    find = partial(find_core, unsupported=why_not, runtime="OpenVINO", unsupported_unit=why_no_unit)
    core = whole_with_texts(graph, find)
    infer_shapes(graph, {v: v.spec for v in (*graph.inputs, *core.inputs)})
    program = lower_graph(graph, core.inputs, core.outputs, specs={}, opset=opset).program
    model = OpenVinoModel(core, program)
    model.program.description = model.coverage.description
    return model
