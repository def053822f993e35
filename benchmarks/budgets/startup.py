"""`thinflow --help` against an empty Python program."""

from __future__ import annotations

import sys

from benchmarks.bench import Bench
from benchmarks.lines import Line, figure, ratio_line
from benchmarks.processes import in_turns

TITLE = "`thinflow --help` : `python -c pass`"
IN_QUICK = True


def measure(bench: Bench) -> list[Line]:
    commands = {
        "help": [*bench.thinflow, "--help"],
        "pass": [sys.executable, "-c", "pass"],
        "verb": [*bench.thinflow, "inspect", "--help"],
    }
    found = in_turns(commands, 15 if bench.quick else 60, warmup=3)
    times = {name: [1000 * f.seconds for f in runs] for name, runs in found.items()}
    verb = sorted(times["verb"])[len(times["verb"]) // 2]
    return [
        ratio_line(TITLE, times["help"], times["pass"], 3, "ms"),
        figure("`thinflow inspect --help`", f"{verb:.0f} ms"),
    ]
