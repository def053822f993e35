"""The ONNX half of the main job: the same two models, for ONNX Runtime."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from thinflow.engines.onnxruntime import ENGINE, Model
from thinflow.errors import EngineUnavailable
from thinflow.ir.brief import brief_repr
from thinflow.onnx.writer import to_bytes
from thinflow.optimize.checking import compare_models
from thinflow.optimize.onnx import OnnxModel, check_onnx_model, open_or_fixed, write_onnx
from thinflow.optimize.onnx_quantizing import OnnxQuantizedModel, onnx_quantized_model, reopened
from thinflow.optimize.quality import Quality
from thinflow.optimize.samples import rebind
from thinflow.optimize.small_graph import SmallGraph
from thinflow.quantize.recipe import Recipe, check_recipe

_CHECKED = 3
"""Samples on which the float model has to agree with the interpreter."""


@brief_repr
@dataclass(frozen=True)
class OnnxPair:
    """Both ONNX models of a graph; the keys of `qualities` are those of the files in a report."""

    plain: OnnxModel
    quantized: OnnxQuantizedModel
    qualities: dict[str, Quality]

    def write(self, folder: Path, stem: str, scheme: str) -> dict[str, Path]:
        """Write both and load each; the files by role.

        Raises:
            WriteError: one cannot be written.
        """
        stem = self.plain.coverage.stem(stem)
        files = {"onnx_fp32": folder / f"{stem}_fp32.onnx", "onnx_int8": folder / f"{stem}_{scheme}.onnx"}
        write_onnx(self.plain.program, files["onnx_fp32"], check=Model)
        write_onnx(self.quantized.quantized.program, files["onnx_int8"], check=Model)
        return files


def require_onnx(recipe: Recipe) -> None:
    """Refuse what cannot be done before any work is.

    Raises:
        EngineUnavailable: ONNX Runtime is missing.
        ParameterError: the recipe asks for what an ONNX model cannot have.
    """
    missing = ENGINE.available()
    if missing:
        raise EngineUnavailable(missing, hint="pip install 'thinflow[onnx]', or leave the .onnx files out")
    check_recipe(recipe)


def onnx_pair(small: SmallGraph) -> OnnxPair:
    """Lower, quantize and judge, all in memory.

    Raises:
        EngineCrashed: ONNX Runtime does not survive one of the models.
    """
    task, chosen = small.task, small.task.choices
    graph = reopened(task.graph, small.graph)
    calibration = rebind(task.data, task.graph, graph)
    judges = calibration if task.tested is task.data else rebind(task.tested, task.graph, graph)
    plain = open_or_fixed(graph, calibration)
    check_onnx_model(plain, calibration, to_bytes(plain.program), count=_CHECKED)
    quantized = onnx_quantized_model(
        graph, calibration, recipe=chosen.recipe, fixed=plain.fixed, progress=chosen.progress
    )
    contents = {"onnx_fp32": to_bytes(plain.program), "onnx_int8": quantized.content}
    qualities = compare_models(
        plain, contents, task.graph, judges, engine="onnxruntime", progress=chosen.progress
    )
    return OnnxPair(plain, quantized, qualities)
