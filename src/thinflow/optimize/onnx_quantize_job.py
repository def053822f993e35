"""What `thinflow quantize` does for .onnx files: one smaller file, and how good it is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from thinflow.engines.onnxruntime import Model
from thinflow.errors import ParameterError
from thinflow.onnx.program import DEFAULT_OPSET, check_opset
from thinflow.optimize.checking import compare_models
from thinflow.optimize.onnx import write_onnx
from thinflow.optimize.onnx_quantizing import onnx_quantized_model
from thinflow.optimize.preparing import prepared
from thinflow.optimize.quantizing import chosen_recipe
from thinflow.quantize.pictures import Scaling
from thinflow.quantize.recipe import QdqOptions, Recipe, check_recipe
from thinflow.typing import Progress


def quantize_to_onnx(
    source: Any,
    path: str | os.PathLike[str],
    calibration: Any = None,
    *,
    test: Any = None,
    labels: str | os.PathLike[str] | Sequence[str] | None = None,
    scheme: str | None = None,
    recipe: Recipe | None = None,
    tune: bool = False,
    sensitivity: bool = False,
    samples: int | None = None,
    scaling: Scaling | None = None,
    opset: int = DEFAULT_OPSET,
    external_data: bool | None = None,
    activations: str = "uint8",
    reduce_range: bool = False,
    strict: bool = False,
    progress: Progress | None = None,
    **names: Any,
) -> dict[str, Any]:
    """Write a smaller .onnx, and tell its size, its quality beside the graph, and warnings.

    Args:
        opset: version of ONNX's op set, 17 to 21.
        external_data: whether weights go to a file of their own, PATH.data; default: only if they do not fit.
        activations, reduce_range: see `QdqOptions`.
        source, path, calibration, test, labels, scheme, recipe, samples, scaling, strict, progress, names: as
            for `quantize_to_file`.
        tune, sensitivity: not there for ONNX.

    Raises:
        PartialModel: the file could hold only a part, and `strict` forbids that; nothing is written.
        ThinflowError: the model cannot be read, quantized or written.
    """
    if tune or sensitivity:
        raise ParameterError(
            "tuning and sensitivity are measured with LiteRT",
            hint="write a .tflite with them first; what helped there, an observer say, helps here too",
        )
    recipe, options = chosen_recipe(scheme, recipe), QdqOptions(activations, reduce_range)
    check_recipe(recipe)
    check_opset(opset)
    ready = prepared(
        source,
        calibration,
        test,
        names,
        runtime="onnx",
        labels=labels,
        samples=samples,
        scaling=scaling,
        progress=progress,
    )
    made = onnx_quantized_model(
        ready.graph, ready.fitting, recipe=recipe, options=options, opset=opset, progress=progress
    )
    if strict:
        made.coverage.require_whole()
    quality = compare_models(
        made,
        {"it": made.content},
        ready.original,
        ready.judging,
        engine="onnxruntime",
        progress=progress,
    )["it"]
    target = made.coverage.path(os.fspath(path))
    written = write_onnx(made.quantized.program, target, external_data=external_data, check=Model)
    return {
        **ready.account(made, quality, recipe, path, (written, made.float_bytes), made.coverage),
        "trials": [],
        "sensitivity": [],
    }
