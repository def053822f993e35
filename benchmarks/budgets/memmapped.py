"""A memmapped package beside the GraphDef it was made from: opening, the first answer, and peak memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.budgets.float_latency import prepared
from benchmarks.lines import Line, figure, ratio_line
from benchmarks.processes import Finished, in_turns, run

TITLE = "memmapped package"
IN_QUICK = True
MODEL, QUICK_MODEL = "resnet_v2_50", "mobilenet_v2"
SLOWER, LARGER = 1.1, 1.1
"""A package may not cost more than this times the GraphDef, which is mapped here as well."""

OPEN = "import sys, thinflow; print(len(thinflow.load(sys.argv[1])))"
PARSE = """
import sys
from pathlib import Path
from thinflow.wire import protos
print(len(protos.parse("GraphDef", Path(sys.argv[1]).read_bytes()).node))
"""
ANSWER = """
import sys
import numpy as np
import thinflow
session = thinflow.Session(sys.argv[1], sys.argv[4])
(name, spec), *_ = session.inputs.items()
y, = session.run([sys.argv[2]], {sys.argv[3]: np.zeros([n or 1 for n in spec.shape], np.float32)})
print(y.shape)
"""


def measure(bench: Bench) -> Iterator[Line]:
    name = QUICK_MODEL if bench.quick else MODEL
    path, feed, fetch, _ = prepared(bench, name)
    package = bench.folder / f"{name}.mmpb"
    tool = "convert_graphdef_memmapped_format"
    run([*bench.thinflow, tool, f"--in_graph={path}", f"--out_graph={package}"])
    yield from _opening(name, Path(path), package, 5 if bench.quick else 15)
    for engine in ("litert", "reference"):
        commands = {
            kind: [sys.executable, "-c", ANSWER, str(file), fetch, feed, engine]
            for kind, file in (("package", package), ("graph", path))
        }
        found = in_turns(commands, 3 if bench.quick else 7)
        yield from _pair(f"{TITLE}, {name} on {engine}, first answer", found, "package", "graph")


def _opening(name: str, path: Path, package: Path, repeats: int) -> Iterator[Line]:
    """Opening either file, and parsing all of a GraphDef with protobuf, as most programs do."""
    commands = {
        "package": [sys.executable, "-c", OPEN, str(package)],
        "graph": [sys.executable, "-c", OPEN, str(path)],
        "parsed": [sys.executable, "-c", PARSE, str(path)],
    }
    found = in_turns(commands, repeats)
    yield from _pair(f"{TITLE}, {name}, opening", found, "package", "graph")
    seconds, peaks = _seconds(found["parsed"]), _peaks(found["parsed"])
    detail = f"{sorted(seconds)[len(seconds) // 2]:.2f} s, peak {sorted(peaks)[len(peaks) // 2]:.0f} MB"
    yield figure(f"{TITLE}, {name}: the same GraphDef parsed by protobuf", detail)


def _pair(what: str, found: dict[str, list[Finished]], ours: str, theirs: str) -> Iterator[Line]:
    """The time and the peak memory of two commands run by turns."""
    label = f"{what}, package : .pb"
    yield ratio_line(f"{label}, time", _seconds(found[ours]), _seconds(found[theirs]), SLOWER, "s")
    yield ratio_line(f"{label}, peak memory", _peaks(found[ours]), _peaks(found[theirs]), LARGER, "MB")


def _seconds(runs: Sequence[Finished]) -> list[float]:
    return [r.seconds for r in runs]


def _peaks(runs: Sequence[Finished]) -> list[float]:
    return [r.peak_bytes / 1e6 for r in runs]
