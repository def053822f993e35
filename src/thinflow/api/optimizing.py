"""The main job and its smaller half, quantization."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, TypeVar, cast

from thinflow.api._types import Source
from thinflow.errors import ParameterError

_ONNX_ONLY = ("opset", "external_data", "activations", "reduce_range")
Job = TypeVar("Job", bound=Callable[..., Any])


def _in_one_thread(job: Job) -> Job:
    """A job whose matrix products keep to one thread.

    The interpreter's are small: further threads save it little, and on a machine that has other work to do
    each product waits for the slowest of them. Runtimes have threads of their own and are not concerned.
    """

    @functools.wraps(job)
    def limited(*given: Any, **options: Any) -> Any:
        from thinflow.engines._threads import blas

        with blas().limited(1):
            return job(*given, **options)

    return cast("Job", limited)


@_in_one_thread
def optimize(source: Source, out_dir: str | os.PathLike[str], **options: Any) -> Any:
    """The main job: find inputs and outputs, optimise in 32 bits, quantize, measure both, report.

    Writes STEM_fp32.pb, STEM_fp32.tflite, STEM_SCHEME.tflite, report.json and report.md into `out_dir`.
    Options: see `thinflow.optimizing.job.optimize`.
    """
    from thinflow.optimizing.job import optimize as run_job

    return run_job(source, out_dir, **options)


def optimize_lines(report: Any) -> list[str]:
    """What `thinflow optimize` prints: the verdict first, the next command last."""
    lines: list[str] = report.lines()
    return lines


@_in_one_thread
def quantize(
    source: Source,
    calibration: Any = None,
    *,
    scheme: str | None = None,
    format: str = "tflite",
    **options: Any,
) -> Any:
    """A smaller model for LiteRT, or with format="onnx" for ONNX Runtime; `save` writes it.

    Options: see `thinflow.optimizing.quantizing.quantize` and `.onnx_quantizing.quantize_onnx`.

    Raises:
        ParameterError: another format.
    """
    if format not in ("tflite", "onnx"):
        raise ParameterError(f"no smaller model can be made as '{format}'", hint="choose tflite or onnx")
    if format == "onnx":
        from thinflow.optimizing.onnx_quantizing import quantize_onnx

        return quantize_onnx(source, calibration, scheme=scheme, **options)
    from thinflow.optimizing.quantizing import quantize as run_quantize

    return run_quantize(source, calibration, scheme=scheme, **options)


@_in_one_thread
def quantize_to_file(
    source: Source, path: str | os.PathLike[str], calibration: Any = None, **options: Any
) -> dict[str, Any]:
    """Write a smaller .tflite or .onnx and say how good it is: its size, quality beside the graph, and
    warnings.

    Options: see `thinflow.optimizing.quantize_job.quantize_to_file` and
    `thinflow.optimizing.onnx_quantize_job.quantize_to_onnx`.

    Raises:
        ParameterError: options of the one format with a file of the other.
    """
    if os.fspath(path).endswith(".onnx"):
        from thinflow.optimizing.onnx_quantize_job import quantize_to_onnx

        return quantize_to_onnx(source, path, calibration, **options)
    wrong = next((name for name in _ONNX_ONLY if name in options), None)
    if wrong is not None:
        raise ParameterError(f"{wrong} goes with .onnx files only", hint="end the output's name in .onnx")
    from thinflow.optimizing.quantize_job import quantize_to_file as run_job

    return run_job(source, path, calibration, **options)


def quantization_recipe(**choices: Any) -> Any:
    """A recipe from a command line's words. Choices: see `thinflow.optimizing.quantize_job.recipe_from`."""
    from thinflow.optimizing.quantize_job import recipe_from

    return recipe_from(**choices)


def picture_scaling(mean: float | None, std: float | None) -> Any:
    """(pixel - mean) / std for pictures that feed float inputs; None where neither is given.

    Raises:
        ParameterError: std is 0.
    """
    from thinflow.quantize.pictures import Scaling

    if mean is None and std is None:
        return None
    return Scaling(mean or 0.0, 1.0 if std is None else std)
