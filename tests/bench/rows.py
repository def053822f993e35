"""Rows and reports of a benchmark, made up."""

from __future__ import annotations

import random

from thinflow.analysis.stats import describe
from thinflow.bench import machine, memory
from thinflow.bench.report import BenchmarkReport
from thinflow.bench.roofline import Peak
from thinflow.bench.rows import Row
from thinflow.bench.workload import Workload

MS = 1_000_000
WHERE = machine.Machine("Test CPU", 2, ("vnni",), "Linux x86_64", "3.12")


def row(name: str, ms: float, **more: object) -> Row:
    noise = random.Random(0)
    samples = tuple(int(ms * MS * noise.uniform(0.98, 1.02)) for _ in range(50))
    times = describe([s / MS for s in samples])
    options: dict[str, object] = {"engine": "litert", "threads": 1, **more}
    engine, threads = options.pop("engine"), options.pop("threads")
    return Row(name, engine, threads, times, None, samples, True, **options)  # type: ignore[arg-type]


def full(name: str, engine: str = "litert", threads: int = 1) -> Row:
    return row(
        name,
        10.0,
        engine=engine,
        threads=threads,
        work=Workload(10**9, 0, 3, ("a", "b", "c")),
        peak=Peak("float32", threads, 2e11, "numpy"),
        cpu_ms=9.5,
    )


def report(*rows: Row, **more: object) -> BenchmarkReport:
    used = tuple(memory.Memory(r.subject, r.engine, 80_000_000, 50_000_000) for r in rows)
    sizes = {r.subject: 17_000_000 for r in rows}
    return BenchmarkReport(rows, WHERE, 50, 1.0, (), used, sizes, {"x/m.pb": "m"}, **more)  # type: ignore[arg-type]
