"""What making eight-bit models takes: seconds, and memory by the number of samples.

    python -m benchmarks ptq_cost [--effort E] [--memory-only | --time-only]

Whole processes, from the command line on: opening the model, everything that the effort tries, and judging
what was made. Times hold for the machine that they are measured on; its processor's are told beside.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.bench import Bench
from benchmarks.lines import Line, judged
from benchmarks.processes import Finished, run
from thinflow.optimize.climb import EFFORTS

NETWORK, PICTURES = "mobilenet_v2", 200
SECONDS, MOST_MB = 20.0, 600.0
"""For a network of its size, by the default effort, on two cores."""
SMALL, COUNTS = "digits", (100, 1_000, 10_000)
MARGIN_MB = 16.0
"""Allowed growth; the samples themselves are 2.6 MB, 26 MB apart."""


def main(argv: list[str] | None = None) -> int:
    from benchmarks.__main__ import make_importable, table

    parser = argparse.ArgumentParser(
        prog="python -m benchmarks ptq_cost", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--effort", choices=EFFORTS, default="default")
    parts = parser.add_mutually_exclusive_group()
    parts.add_argument("--memory-only", action="store_true", help="by the number of samples")
    parts.add_argument("--time-only", action="store_true", help=f"of {NETWORK}")
    args = parser.parse_args(argv)
    make_importable()
    with tempfile.TemporaryDirectory(prefix="thinflow-cost-") as folder:
        bench = Bench(quick=False, folder=Path(folder))
        lines = [] if args.memory_only else [*_time(bench, args.effort)]
        lines += [] if args.time_only else [*_memory(bench, args.effort)]
    print(table(lines))
    return 0


def _time(bench: Bench, effort: str) -> Iterator[Line]:
    """Of a network of a phone's size."""
    print(f"{NETWORK} ...", file=sys.stderr, flush=True)
    done = _quantized(bench, NETWORK, bench.images(NETWORK, PICTURES), effort)
    what = f"{NETWORK}, {PICTURES} pictures, --effort {effort}"
    took = f"{done.seconds:.1f} s ({done.cpu_seconds:.1f} s of the processor)"
    yield judged(f"{what}: time", f"≤ {SECONDS:.0f} s", took, done.seconds <= SECONDS)
    peak = done.peak_bytes / 1e6
    yield judged(f"{what}: peak memory", f"≤ {MOST_MB:.0f} MB", f"{peak:.0f} MB", peak <= MOST_MB)


def _memory(bench: Bench, effort: str) -> Iterator[Line]:
    """By the number of samples."""
    peaks = []
    for count in COUNTS:
        print(f"{SMALL}, {count} samples ...", file=sys.stderr, flush=True)
        done = _quantized(bench, SMALL, _drawn(bench, count), effort)
        peak = done.peak_bytes / 1e6
        peaks.append(peak)
        kept = peak <= peaks[0] + MARGIN_MB
        yield judged(
            f"{SMALL}, {count} samples, --effort {effort}: peak memory",
            "" if count == COUNTS[0] else f"≤ that of {COUNTS[0]} + {MARGIN_MB:.0f} MB",
            f"{peak:.0f} MB, {done.seconds:.1f} s",
            kept,
        )


def _drawn(bench: Bench, count: int) -> Path:
    """The small network's own pictures, as often as it takes, with a little noise."""
    pictures = np.load(bench.images(SMALL, 200))
    (name,) = pictures.files
    own, rng = pictures[name], np.random.default_rng(0)
    many = np.resize(own, (count, *own.shape[1:]))
    path = bench.folder / f"{SMALL}_drawn.npz"
    np.savez(path, **{name: (many + rng.normal(0, 0.02, many.shape)).astype(np.float32)})
    return path


def _quantized(bench: Bench, name: str, samples: Path, effort: str) -> Finished:
    target = bench.folder / f"{name}.tflite"
    command = [*bench.thinflow, "quantize", str(bench.model(name)), str(target)]
    return run([*command, "--calibration", str(samples), "--effort", effort])
