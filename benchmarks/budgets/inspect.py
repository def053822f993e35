"""`thinflow inspect` of a 100 MB file."""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.lines import Line, judged
from benchmarks.processes import in_turns

TITLE = "`thinflow inspect` of a 100 MB .pb"
IN_QUICK = True
LIMIT_SECONDS = 1.0
LIMIT_MB = 120


def measure(bench: Bench) -> list[Line]:
    path = bench.model("resnet_v2_50")
    runs = in_turns({"inspect": [*bench.thinflow, "inspect", str(path)]}, 3 if bench.quick else 11)["inspect"]
    seconds = sorted(r.seconds for r in runs)[len(runs) // 2]
    peak = max(r.peak_bytes for r in runs) / 1e6
    what = f"`thinflow inspect` of {path.stat().st_size / 1e6:.0f} MB, whole process"
    return [
        judged(what, f"≤ {LIMIT_SECONDS:g} s", f"{seconds:.2f} s", seconds <= LIMIT_SECONDS),
        judged("its peak memory", f"≤ {LIMIT_MB} MB", f"{peak:.0f} MB", peak <= LIMIT_MB),
    ]
