"""`thinflow --help`, and the help of every verb, against an empty Python program."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks.bench import Bench
from benchmarks.lines import Line, figure, ratio_line
from benchmarks.processes import Finished, in_turns
from thinflow.cli import COMMANDS

TITLE = "`thinflow --help` : `python -c pass`"
IN_QUICK = True
LIMIT = 3
_EMPTY, _OVERVIEW = "python -c pass", "thinflow --help"


def measure(bench: Bench) -> list[Line]:
    commands = {_EMPTY: [sys.executable, "-c", "pass"], _OVERVIEW: [*bench.thinflow, "--help"]}
    commands |= {verb: [*bench.thinflow, verb, "--help"] for verb in COMMANDS}
    found = in_turns(commands, 7 if bench.quick else 25, warmup=2)
    empty = _cpu_ms(found[_EMPTY])
    middle = {verb: _median(_cpu_ms(found[verb])) for verb in COMMANDS}
    worst = max(middle, key=lambda verb: middle[verb])
    best = min(middle, key=lambda verb: middle[verb])
    return [
        ratio_line(TITLE, _wall_ms(found[_OVERVIEW]), _wall_ms(found[_EMPTY]), LIMIT, "ms"),
        ratio_line(f"{TITLE}, CPU time", _cpu_ms(found[_OVERVIEW]), empty, LIMIT, "ms"),
        ratio_line(
            f"help of the slowest of {len(COMMANDS)} verbs, {worst} : `python -c pass`, CPU time",
            _cpu_ms(found[worst]),
            empty,
            LIMIT,
            "ms",
        ),
        figure(f"help of the quickest verb, {best}, CPU time", f"{middle[best]:.1f} ms"),
    ]


def _cpu_ms(runs: Sequence[Finished]) -> list[float]:
    return [1000 * r.cpu_seconds for r in runs]


def _wall_ms(runs: Sequence[Finished]) -> list[float]:
    return [1000 * r.seconds for r in runs]


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]
