"""The LiteRT half of the main job: a float model, the same in fewer bits, and what proves both."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

from thinflow.engines.litert import Model
from thinflow.errors import UnsupportedOp
from thinflow.formats._files import write_file
from thinflow.ir.brief import brief_repr
from thinflow.lower.tflite.program import to_bytes
from thinflow.lower.tflite.variables import with_variables
from thinflow.optimize.batch_check import checked_batch
from thinflow.optimize.calls import CALLS, check_calls
from thinflow.optimize.checking import compare_models, open_or_fixed
from thinflow.optimize.float_model import FloatModel
from thinflow.optimize.quality import Quality
from thinflow.optimize.quantizing import QuantizedModel, quantized_model, with_float_borders
from thinflow.optimize.small_graph import SmallGraph
from thinflow.optimize.trying import reaches_core, require_running


@brief_repr
@dataclass(frozen=True)
class LiteRTPair:
    """Both LiteRT models of a graph.

    Attributes:
        plain: the float model.
        difference: of its answers from the interpreter's, relative to the largest value.
        quantized: the model in fewer bits.
        qualities: both beside the graph as it came; the keys are "float" and "int8".
    """

    plain: FloatModel
    difference: float
    quantized: QuantizedModel
    qualities: dict[str, Quality]

    def write(self, folder: Path, stem: str, scheme: str) -> dict[str, Path]:
        """Write both and open each; the files by role.

        Raises:
            WriteError: one cannot be written.
        """
        files = write_plain(self.plain, folder, stem)
        files["int8"] = folder / f"{self.plain.coverage.stem(stem)}_{scheme}.tflite"
        write_file(files["int8"], [self.quantized.content], check=Model.as_it_says)
        return files


def write_plain(model: FloatModel, folder: Path, stem: str) -> dict[str, Path]:
    """Write a float model and open it; the file by its role. The name says whether it is a part.

    Raises:
        WriteError: it cannot be written.
    """
    files = {"fp32": folder / f"{model.coverage.stem(stem)}_fp32.tflite"}
    write_file(files["fp32"], model.chunks(), check=Model.as_it_says)
    return files


def running_model(small: SmallGraph) -> FloatModel:
    """The float model of what LiteRT can hold of a graph; it was tried where that may fail.

    Raises:
        UnsupportedOp: LiteRT can run nothing of it, or nothing here can compute what it is fed.
    """
    model = open_or_fixed(small.graph, small.calibration)
    unknown = small.unknown
    if unknown is not None and not reaches_core(model, small.calibration):
        raise UnsupportedOp("nothing here knows an op that it begins with", unknown.where, unknown.hint)
    require_running(model, small.calibration)
    return model


def litert_pair(small: SmallGraph, model: FloatModel, difference: float) -> LiteRTPair:
    """Quantize and judge, all in memory.

    Args:
        small: the graph, and samples for it.
        model: its float model.
        difference: what checking that one found.

    Raises:
        EngineCrashed: LiteRT does not survive the smaller model.
    """
    chosen, original = small.task.choices, small.task.graph
    made = quantized_model(model, small.calibration, recipe=chosen.recipe, progress=chosen.progress)
    quantized = checked_batch(model, made, small.calibration)
    qualities = compare_models(
        model,
        {"float": model.content, "int8": quantized.comparable},
        original,
        small.judges,
        progress=chosen.progress,
        end_to_end=small.unknown is None,
    )
    if model.core.states:
        quantized = replace(quantized, warnings=[*quantized.warnings, _drift(model, quantized, small)])
    return LiteRTPair(model, difference, quantized, qualities)


def _drift(model: FloatModel, quantized: QuantizedModel, small: SmallGraph) -> str:
    """How far calls in a row lead a smaller model that keeps its own state away, in a sentence."""
    content = to_bytes(with_variables(with_float_borders(quantized.quantized.program), model.core.states))
    apart = check_calls(model.core, content, small.judges, tolerance=math.inf)
    return (
        f"the smaller model keeps its state with its own rounding: over {CALLS} calls in a row its answers"
        f" are up to {apart:.2g} of the largest value away; the qualities shown are those of single calls"
    )
