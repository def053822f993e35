"""What scripts that run others' converters share: attempts in a process of their own, and two calls."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

SECONDS = 300.0
"""Until an attempt is given up."""


def attempt(make: Callable[[], object], seconds: float = SECONDS) -> str:
    """Why it failed, in a line; "" if it did not.

    Each in a process of its own, since converters crash, and some never end. Whoever calls this has not
    imported them: a fork of their threads does not run.
    """
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told"
        child = multiprocessing.get_context("fork").Process(target=_child, args=(make, told))
        child.start()
        child.join(seconds)
        if child.is_alive():
            child.kill()
            child.join()
            return f"not done after {seconds:.0f} s"
        if child.exitcode == 0:
            return ""
        lines = told.read_text("utf-8", "replace").strip().splitlines()
    if child.exitcode is not None and child.exitcode < 0:
        where = next((line.strip() for line in lines if line.startswith("  File ")), "")
        return f"{signal.Signals(-child.exitcode).name} {where.replace('File ', 'in ', 1)}"[:200]
    last = lines[-1] if lines else "no message"
    if last.startswith("ModuleNotFoundError: No module named "):
        return f"{last.rpartition(' ')[2]} is not installed"
    return next((line for line in reversed(lines) if _names_an_error(line)), last)[:200]


def _names_an_error(line: str) -> bool:
    """`some.module.KindError: why`, without what a message of many lines goes on with."""
    return line[:1].isalpha() and "rror" in line.partition(":")[0] and " " not in line.partition(":")[0]


def _child(make: Callable[[], object], told: Path) -> None:
    """Runs to the end of the process; what it says, and where it crashes, goes into a file."""
    import faulthandler

    file = os.open(told, os.O_WRONLY | os.O_CREAT)
    os.dup2(file, 1)
    os.dup2(file, 2)
    faulthandler.enable(2)
    code = 0
    try:
        make()
    except BaseException:
        traceback.print_exc(file=sys.stderr)
        code = 1
    sys.stderr.flush()
    os._exit(code)


def tflite_by_converter(converter: Any, samples: Sequence[np.ndarray], target: Path) -> None:
    """Write what a TFLiteConverter makes; in eight bits if there are samples, each with its batch of 1."""
    import tensorflow as tf  # noqa: TID251

    if samples:

        def calibration() -> Iterator[list[np.ndarray]]:
            for sample in samples:
                yield [sample]

        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = calibration
    target.write_bytes(converter.convert())


def onnx_by_runtime(
    source: Path, target: Path, samples: Sequence[np.ndarray], *, method: str = "MinMax", **options: object
) -> None:
    """Write what ONNX Runtime's static quantization makes, with QDQ and signed weights by channel.

    Args:
        method: of `CalibrationMethod`.
        options: of `quantize_static`.
    """
    import onnx
    from onnxruntime.quantization import (
        CalibrationDataReader,
        CalibrationMethod,
        QuantFormat,
        QuantType,
        quantize_static,
    )
    from onnxruntime.quantization.shape_inference import quant_pre_process

    prepared = target.with_suffix(".prepared.onnx")
    quant_pre_process(source, prepared, skip_symbolic_shape=True)
    feed = onnx.load(source).graph.input[0].name

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self._left = iter(samples)

        def get_next(self) -> dict[str, np.ndarray] | None:
            sample = next(self._left, None)
            return None if sample is None else {feed: sample}

    quantize_static(
        prepared,
        target,
        Reader(),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        reduce_range=False,
        weight_type=QuantType.QInt8,
        calibrate_method=getattr(CalibrationMethod, method),
        **options,
    )
