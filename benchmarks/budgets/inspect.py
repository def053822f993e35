"""`thinflow inspect` of a 100 MB file, and of graphs with very many nodes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.lines import Line, judged
from benchmarks.processes import Finished, in_turns
from thinflow.wire import protos

TITLE = "`thinflow inspect` of a 100 MB .pb"
IN_QUICK = True
LIMIT_SECONDS = 1.0
LIMIT_MB = 120
LARGE = {100_000: (3.0, 300), 1_000_000: (25.0, 1400)}
"""Nodes -> seconds of CPU time and MB at most. A hundred thousand is more than any model at hand has."""
_FLOAT = 1


def measure(bench: Bench) -> Iterator[Line]:
    path = bench.model("resnet_v2_50")
    runs = _inspected(bench, path, 3 if bench.quick else 11)
    seconds = sorted(r.seconds for r in runs)[len(runs) // 2]
    cpu = sorted(r.cpu_seconds for r in runs)[len(runs) // 2]
    peak = _peak_mb(runs)
    what = f"`thinflow inspect` of {path.stat().st_size / 1e6:.0f} MB, whole process"
    detail = f"{seconds:.2f} s ({cpu:.2f} s of CPU time)"
    yield judged(what, f"≤ {LIMIT_SECONDS:g} s", detail, seconds <= LIMIT_SECONDS)
    yield judged("its peak memory", f"≤ {LIMIT_MB} MB", f"{peak:.0f} MB", peak <= LIMIT_MB)
    for count, (limit, most) in LARGE.items():
        if not bench.quick or count == min(LARGE):
            yield from _large(bench, count, limit, most)


def _large(bench: Bench, count: int, limit: float, most: float) -> Iterator[Line]:
    path = bench.folder / f"chain_{count}.pb"
    path.write_bytes(chain(count))
    runs = _inspected(bench, path, 3)
    seconds, peak = min(r.cpu_seconds for r in runs), _peak_mb(runs)
    what = f"`thinflow inspect` of {count:,} nodes"
    yield judged(f"{what}, CPU time", f"≤ {limit:g} s", f"{seconds:.2f} s", seconds <= limit)
    yield judged(f"{what}, peak memory", f"≤ {most} MB", f"{peak:.0f} MB", peak <= most)


def chain(count: int) -> bytes:
    """A GraphDef of so many additions, one after the other."""
    graph = protos.message("GraphDef")()
    graph.node.add(name="x", op="Placeholder").attr["dtype"].type = _FLOAT
    constant = graph.node.add(name="w", op="Const")
    constant.attr["dtype"].type = _FLOAT
    tensor = constant.attr["value"].tensor
    tensor.dtype = _FLOAT
    tensor.tensor_shape.SetInParent()
    tensor.float_val.append(1.0)
    last = "x"
    for number in range(count):
        name = f"layer{number % 1000}/add{number}"
        graph.node.add(name=name, op="AddV2", input=[last, "w"]).attr["T"].type = _FLOAT
        last = name
    return protos.serialize(graph)


def _inspected(bench: Bench, path: Path, repeats: int) -> list[Finished]:
    return in_turns({"inspect": [*bench.thinflow, "inspect", str(path)]}, repeats)["inspect"]


def _peak_mb(runs: list[Finished]) -> float:
    return max(r.peak_bytes for r in runs) / 1e6
