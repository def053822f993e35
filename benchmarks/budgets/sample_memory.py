"""Reading calibration samples: the memory must not depend on how many there are."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np

from benchmarks.bench import Bench
from benchmarks.lines import Line, judged
from benchmarks.processes import run

TITLE = "reading 10,000 calibration samples"
IN_QUICK = True
COUNTS = (1_000, 10_000)
SIDE = 48
MARGIN_MB = 8
"""Allowed growth; all samples together have 276 MB."""

_READ = """
import sys
from thinflow.ir.types import FLOAT, TensorSpec
from thinflow.quantize.feeds import open_feeds
side = int(sys.argv[2])
feeds = open_feeds(sys.argv[1], {"image": TensorSpec(FLOAT, (1, side, side, 3))})
count = sum(1 for feed in feeds if feed["image"].shape == (1, side, side, 3))
print(count)
"""


def measure(bench: Bench) -> Iterator[Line]:
    for kind, pack in (("npz", np.savez), ("compressed npz", np.savez_compressed)):
        peaks = []
        for count in COUNTS:
            path = bench.folder / "samples.npz"
            images = (
                np.random.default_rng(0).integers(0, 8, (count, SIDE, SIDE, 3), np.int8).astype(np.float32)
            )
            pack(path, image=images)
            del images
            done = run([sys.executable, "-c", _READ, str(path), str(SIDE)])
            if done.output.split() != [str(count)]:
                raise RuntimeError(f"{done.output.strip()} samples were read, not {count}")
            peaks.append(done.peak_bytes / 1e6)
            path.unlink()
        few, many = peaks
        yield judged(
            f"{TITLE}, .{kind}: peak memory",
            f"≤ that of {COUNTS[0]} + {MARGIN_MB} MB",
            f"{many:.0f} MB ({COUNTS[0]} samples: {few:.0f} MB)",
            many <= few + MARGIN_MB,
        )
        if bench.quick:
            return
