"""`thinflow view`: size of the page of a graph of 5,000 nodes, and memory for a model of 100 MB."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.bench import Bench
from benchmarks.budgets.inspect import chain
from benchmarks.lines import Line, judged
from benchmarks.processes import in_turns

TITLE = "`thinflow view`"
IN_QUICK = True
NODES = 5_000
LIMIT_MB = 5
LIMIT_SECONDS = 20
LIMIT_PEAK_MB = 300


def measure(bench: Bench) -> Iterator[Line]:
    path, page = bench.folder / "nodes.pb", bench.folder / "page.html"
    path.write_bytes(chain(NODES))
    in_turns({"view": [*bench.thinflow, "view", str(path), "--no-weights", "-o", str(page)]}, 1)
    size = page.stat().st_size / 1e6
    what = f"page of {NODES:,} nodes, without weights"
    yield judged(what, f"≤ {LIMIT_MB} MB", f"{size:.2f} MB", size <= LIMIT_MB)
    model = bench.model("resnet_v2_50")
    runs = in_turns({"view": [*bench.thinflow, "view", str(model), "-o", str(page)]}, 3)["view"]
    seconds, peak = min(r.cpu_seconds for r in runs), max(r.peak_bytes for r in runs) / 1e6
    what = f"page of a model of {model.stat().st_size / 1e6:.0f} MB"
    yield judged(f"{what}, CPU time", f"≤ {LIMIT_SECONDS} s", f"{seconds:.1f} s", seconds <= LIMIT_SECONDS)
    yield judged(f"{what}, peak memory", f"≤ {LIMIT_PEAK_MB} MB", f"{peak:.0f} MB", peak <= LIMIT_PEAK_MB)
