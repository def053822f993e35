"""Files of a network and what they answer: on whose runtime, beside float, and how long a run takes."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.ptq import data
from thinflow.analysis.stats import ratio_of_medians

Array = np.ndarray[Any, Any]
Run = Callable[[Array], Array]
"""The answer, as float64, to a sample with its batch of 1."""

MOST_CLASSES = 12
ROUNDS, STRETCH_SECONDS = 15, 0.01


@dataclass(frozen=True)
class Quality:
    """How a file does beside float.

    Attributes:
        sqnr_db: of the logits over all samples.
        agreement: share of samples with the same top answer as in float; of maps, of peaks. None where
            numbers are rebuilt, which have no top.
        right: share of right answers; None likewise.
    """

    sqnr_db: float
    agreement: float | None
    right: float | None


@dataclass(frozen=True)
class Judge:
    """Samples [count, ...], what is right, and what float answers."""

    x: Array
    y: Array
    wanted: Array

    def quality(self, path: Path) -> Quality:
        """How a file does beside float."""
        run = opened(path)
        found = np.concatenate([run(sample[None]) for sample in self.x])
        noise = float(((found - self.wanted) ** 2).sum())
        sqnr = np.inf if noise == 0 else 10 * np.log10(float((self.wanted**2).sum()) / noise)
        has_tops = found.ndim == 4 or found.shape[1] <= MOST_CLASSES
        agreement = float((top(found) == top(self.wanted)).mean()) if has_tops else None
        return Quality(float(sqnr), agreement, data.right(found, self.y) if has_tops else None)


def top(found: Array) -> Array:
    """The class of each answer [count, classes]; of maps [count, rows, columns, maps], where the peak lies.

    Of maps in which nothing is found, only the loudest has a peak worth the name.
    """
    if found.ndim == 4:
        found = found.reshape(len(found), -1)
    best: Array = found.argmax(-1)
    return best


def opened(path: Path) -> Run:
    """A file in its runtime, on one thread."""
    return _onnx(path) if path.suffix == ".onnx" else _tflite(path)


def _onnx(path: Path) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name

    def run(sample: Array) -> Array:
        found: Array = session.run(None, {name: sample})[0].astype(np.float64)
        return found

    return run


def _tflite(path: Path) -> Run:
    from ai_edge_litert.interpreter import Interpreter

    runner = Interpreter(str(path), num_threads=1)
    fed, given = runner.get_input_details()[0], runner.get_output_details()[0]
    runner.resize_tensor_input(fed["index"], [1, *fed["shape"][1:]])
    runner.allocate_tensors()

    def run(sample: Array) -> Array:
        # TensorFlow's converter leaves the state of an LSTM in the model; every sample begins anew.
        runner.reset_all_variables()
        runner.set_tensor(fed["index"], coded(sample, fed))
        runner.invoke()
        return decoded(runner.get_tensor(given["index"]), given)

    return run


def coded(x: Array, end: Mapping[str, Any]) -> Array:
    """What an input of LiteRT is fed: the LiteRT quantizer leaves ends of a model in integers."""
    if end["dtype"] == np.float32:
        return x
    (scale, zero), limits = end["quantization"], np.iinfo(end["dtype"])
    return np.clip(np.round(x / scale) + zero, limits.min, limits.max).astype(end["dtype"])


def decoded(y: Array, end: Mapping[str, Any]) -> Array:
    """The real numbers of an output of LiteRT."""
    wide = y.astype(np.float64)
    if end["dtype"] == np.float32:
        return wide
    scale, zero = end["quantization"]
    return (wide - zero) * scale


def by_turns(paths: Sequence[Path], sample: Array) -> list[list[float]]:
    """Seconds of a run of each file: in every round the fastest of a short stretch, all files in turns.

    One process and one thread runs them all, in an order shuffled anew. The fastest, since whatever else goes
    on in the machine can only add.
    """
    runs = [opened(path) for path in paths]
    counts = [_runs_in_a_stretch(run, sample) for run in runs]
    found: list[list[float]] = [[] for _ in runs]
    order, shuffle = list(range(len(runs))), random.Random(0)
    for _ in range(ROUNDS):
        shuffle.shuffle(order)
        for i in order:
            found[i].append(min(_seconds(runs[i], sample) for _ in range(counts[i])))
    return found


def times_as_long(seconds: Sequence[float], base: Sequence[float]) -> float:
    """How many times as long a run takes as another that was measured by turns with it."""
    return ratio_of_medians(seconds, base, paired=True).value


def _runs_in_a_stretch(run: Run, sample: Array) -> int:
    fastest = min(_seconds(run, sample) for _ in range(3))
    return max(3, min(50, round(STRETCH_SECONDS / fastest)))


def _seconds(run: Run, sample: Array) -> float:
    started = time.perf_counter()
    run(sample)
    return time.perf_counter() - started
