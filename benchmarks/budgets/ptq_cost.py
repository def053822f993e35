"""What making eight-bit models takes: seconds, and memory by the number of samples.

Whole processes, from the command line on: opening the model, everything that the default effort tries, and
judging what was made.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.bench import Bench
from benchmarks.lines import Line, judged
from benchmarks.processes import Finished, run
from benchmarks.ptq.cases import MODELS
from benchmarks.ptq.data import CALIBRATION, drawn_for

TITLE = "quantizing to int8"
IN_QUICK = False
NETWORK, PICTURES = "mobilenet_v2", 200
SECONDS, MOST_MB = 20.0, 600.0
"""For a network of its size, on two cores."""
SMALL, COUNTS = "depthwise", (100, 1_000, 10_000)
MARGIN_MB = 10.0
"""Allowed growth; the samples of the largest count are 20 MB."""


def measure(bench: Bench) -> Iterator[Line]:
    done = quantized(bench, bench.model(NETWORK), bench.images(NETWORK, PICTURES))
    what = f"{TITLE}, {NETWORK}, {PICTURES} pictures"
    took = f"{done.seconds:.1f} s ({done.cpu_seconds:.1f} s of the processor)"
    yield judged(f"{what}: whole process", f"≤ {SECONDS:.0f} s", took, done.seconds <= SECONDS)
    peak = done.peak_bytes / 1e6
    yield judged(f"{what}: peak memory", f"≤ {MOST_MB:.0f} MB", f"{peak:.0f} MB", peak <= MOST_MB)
    small = MODELS / f"{SMALL}.keras"
    few, *more = [(count, quantized(bench, small, drawn(bench, count))) for count in COUNTS]
    least = few[1].peak_bytes / 1e6
    for count, done in more:
        peak = done.peak_bytes / 1e6
        yield judged(
            f"{TITLE}, {SMALL}, {count} samples: peak memory",
            f"≤ that of {COUNTS[0]} + {MARGIN_MB:.0f} MB",
            f"{peak:.0f} MB ({COUNTS[0]} samples: {least:.0f} MB), {done.seconds:.1f} s",
            peak <= least + MARGIN_MB,
        )


def drawn(bench: Bench, count: int) -> Path:
    """Samples of the small network, repeated with a little noise."""
    own, rng = drawn_for(SMALL, 200, CALIBRATION).x, np.random.default_rng(0)
    many = np.resize(own, (count, *own.shape[1:]))
    path = bench.folder / f"{SMALL}_drawn.npz"
    np.savez(path, many + rng.normal(0, 0.02, many.shape).astype(np.float32))
    return path


def quantized(bench: Bench, model: Path, samples: Path) -> Finished:
    """The process that quantizes a network."""
    target = bench.folder / f"{model.stem}_cost.tflite"
    command = [*bench.thinflow, "quantize", str(model), str(target)]
    return run([*command, "--calibration", str(samples)])
