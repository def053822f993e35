"""`python -m benchmarks [NAME ...] [--quick] [--list]`: the table of budgets; all in RESULTS.md.

Some have tables of their own and take minutes: `python -m benchmarks ptq` compares eight-bit models with
those of other tools, `ptq_doctor` tells what is said of spoilt samples, `ptq_rungs` what each rung of a climb
brings, `ptq_ladder` what a budget chooses, `ptq_few_bits` what weights of four bits keep, `ptq_prune` what
goes with channels that hardly tell anything, `ptq_stored_codes` what codes of weights cost in ONNX Runtime,
`c` what networks take in C on microcontrollers that QEMU plays, `c_here` on this machine, `c_ram` what they
cost in less memory, `c_sound` what features of sound take in fixed point, `c_exact` compares their answers
with LiteRT's layer by layer, `fit_costs` counts what `thinflow fit` estimates by, `int8_kernels` times
LiteRT's integer kernels beside its float ones, `arm_answers` compares what models answer on Arm processors,
`arm_operators` what operators do (`arm_root` makes what both need), `engines` races what `auto` picks with
the fastest of other roads from the same graph, and `cluster_disasters` kills, stops and loses the machines of
an evaluation.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import os
import pkgutil
import subprocess
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType

from benchmarks import budgets
from benchmarks.bench import ROOT, Bench
from benchmarks.lines import Line, NeedsOracle, guarded
from thinflow.bench.machine import this_machine, usable_cores

RESULTS = Path(__file__).parent / "RESULTS.md"
BUSY = 0.5
"""Load per core from which on the results are not to be trusted."""
APART = {
    "arm_answers": "benchmarks.arm.answers",
    "arm_operators": "benchmarks.arm.operators",
    "arm_root": "benchmarks.arm.root",
    "c": "benchmarks.c.table",
    "c_exact": "benchmarks.c.exact",
    "c_here": "benchmarks.c.here",
    "c_ram": "benchmarks.c.memory",
    "c_sound": "benchmarks.c.features",
    "cluster_disasters": "benchmarks.disasters",
    "engines": "benchmarks.engines",
    "fit_costs": "benchmarks.c.calibrate",
    "ptq": "benchmarks.ptq.compare",
    "ptq_doctor": "benchmarks.ptq.doctor",
    "ptq_few_bits": "benchmarks.ptq.few_bits",
    "ptq_ladder": "benchmarks.ptq.ladder",
    "ptq_prune": "benchmarks.ptq.near_dead",
    "ptq_rungs": "benchmarks.ptq.rungs",
    "ptq_stored_codes": "benchmarks.ptq.stored_codes",
    "int8_kernels": "benchmarks.int8_kernels",
}
"""Benchmarks with a command of their own, by name."""
HEADERS = ("what", "budget", "measured", "verdict")


def names() -> list[str]:
    """Every budget, in the order of the table."""
    found = [m.name for m in pkgutil.iter_modules(budgets.__path__)]
    order = {name: number for number, name in enumerate(ORDER)}
    return sorted(found, key=lambda n: (order.get(n, len(order)), n))


ORDER = ("installed_size", "startup", "inspect", "recipe", "convert", "float_latency", "int8_latency")


def main() -> int:
    if sys.argv[1:2] and sys.argv[1] in APART:
        done: int = importlib.import_module(APART[sys.argv[1]]).main(sys.argv[2:])
        return done
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure speed, size and memory."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="which budgets; default all")
    parser.add_argument(
        "--quick", action="store_true", help="fewer repeats and smaller models: under two minutes"
    )
    parser.add_argument("--list", action="store_true", help="list the names")
    args = parser.parse_args()
    if args.list:
        print("\n".join(f"{name:20} {_module(name).TITLE}" for name in names()))
        return 0
    unknown = set(args.names) - set(names())
    if unknown:
        parser.error(f"there is no budget {min(unknown)!r}; --list shows the names")
    _make_importable()
    chosen = args.names or [n for n in names() if not args.quick or _module(n).IN_QUICK]
    started = time.monotonic()
    busy = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    lines: list[tuple[str, Line]] = []
    with tempfile.TemporaryDirectory(prefix="thinflow-bench-") as folder:
        bench = Bench(args.quick, Path(folder))
        if busy > BUSY * usable_cores():
            bench.notes.append(
                f"the machine was busy with other work (load {busy:.1f} on {usable_cores()} cores): "
                "whole processes suffer most, so see their CPU times"
            )
        for name in chosen:
            print(f"{name} ...", file=sys.stderr, flush=True)
            lines += [(name, line) for line in guarded(_module(name).TITLE, _module(name).measure, bench)]
    text = table([line for _, line in lines])
    print("\n".join([text, *bench.notes]))
    if args.names or args.quick:  # RESULTS.md is for complete runs
        return _exit_code(lines)
    took = time.monotonic() - started
    RESULTS.write_text(document(text, bench.notes, took), "utf-8")
    print(f"\nwritten to {os.path.relpath(RESULTS)} after {took:.0f} s")
    return _exit_code(lines)


def _exit_code(lines: list[tuple[str, Line]]) -> int:
    return int(any(line.verdict == "error" for _, line in lines))


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"{budgets.__name__}.{name}")


def _make_importable() -> None:
    """Let child processes import thinflow from the sources where it is not installed.

    With its bytecode beside it, as an installed package has it: compiling would take longer than most of
    what is measured.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    path = [str(ROOT / "src"), str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(path))


def table(lines: list[Line]) -> str:
    """All lines as a Markdown table that can also be read as it is."""
    rows = [
        [c.replace("|", "/") for c in (line.what, line.budget, line.measured, line.verdict)] for line in lines
    ]
    widths = [max(len(row[i]) for row in [list(HEADERS), *rows]) for i in range(len(HEADERS))]

    def spelled(cells: list[str]) -> str:
        return "| " + " | ".join(c.ljust(w) for c, w in zip(cells, widths, strict=True)) + " |"

    return "\n".join([spelled(list(HEADERS)), spelled(["-" * w for w in widths]), *map(spelled, rows)])


def document(text: str, notes: list[str], took: float) -> str:
    """RESULTS.md."""
    parts = [
        "# Benchmarks",
        "",
        f"Written by `python -m benchmarks` on {datetime.date.today()} in {took:.0f} s.",
        "Ratios compare programs that ran by turns on one machine; ± is half of a 95 % interval.",
        "`within error` means that a value is on the wrong side of its budget by less than that.",
        "",
        text,
        "",
        f"- machine: {this_machine()}",
        f"- software: {_software()}",
        *(f"- {note}" for note in dict.fromkeys(notes)),
    ]
    return "\n".join(parts) + "\n"


def _software() -> str:
    found = [f"Python {sys.version.split()[0]}"]
    for package in ("numpy", "protobuf", "ai-edge-litert"):
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    try:
        python = Bench(True, Path()).oracle_python
    except NeedsOracle:
        return ", ".join(found)
    ask = (
        "from importlib.metadata import packages_distributions as owners, version\n"
        "name = owners()['tensorflow'][0]\n"
        "print(name, version(name))"
    )
    told = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=False).stdout.strip()
    return ", ".join([*found, told] if told else found)


if __name__ == "__main__":
    sys.exit(main())
