"""The ONNX half of the main job: the same two models, for ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from thinflow.engines.onnxruntime import ENGINE, Model
from thinflow.errors import EngineUnavailable
from thinflow.ir.graph import Graph
from thinflow.lower.onnx.writer import to_bytes
from thinflow.optimizing.checking import compare_models
from thinflow.optimizing.onnx import OnnxModel, onnx_model, write_onnx
from thinflow.optimizing.onnx_quantizing import OnnxQuantizedModel, onnx_quantized_model, reopened
from thinflow.optimizing.quality import Quality
from thinflow.optimizing.samples import Samples, rebind
from thinflow.quantize.onnx.options import check_recipe
from thinflow.quantize.recipe import Recipe

Progress = Callable[[int, int, str], None]


@dataclass
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


def onnx_pair(
    original: Graph,
    optimised: Graph,
    data: Samples,
    tested: Samples,
    recipe: Recipe,
    progress: Progress | None = None,
) -> OnnxPair:
    """Lower, quantize and judge, all in memory.

    Args:
        original: what they are judged by.
        optimised: what they are made from.
        data, tested: samples of the original, to calibrate with and to judge on.
    """
    optimised = reopened(original, optimised)
    calibration = rebind(data, original, optimised)
    judges = calibration if tested is data else rebind(tested, original, optimised)
    plain = onnx_model(optimised, calibration)
    quantized = onnx_quantized_model(optimised, calibration, recipe=recipe, progress=progress)
    contents = {"onnx_fp32": to_bytes(plain.program), "onnx_int8": quantized.content}
    qualities = compare_models(plain, contents, original, judges, engine="onnxruntime", progress=progress)
    return OnnxPair(plain, quantized, qualities)
