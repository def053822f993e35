"""What `engine="auto"` picks when it measures, beside the fastest of other roads from the same graph.

    python -m benchmarks engines [NAME ...] [--threads 1,2] [--kinds float,int8] [--rounds 9] [--output FILE]

Ours is a `Session(graph, measure=True)` for float; for int8 the fastest of our .tflite, .onnx and .xml, which
are made with the same samples, chosen in a race of its own, as `optimize --engines` chooses. Beside it run,
each in a process of its own with as many threads, in turns: TensorFlow, LiteRT on what TFLiteConverter makes,
ONNX Runtime on what tf2onnx makes, OpenVINO on that or on the .pb itself, and for int8 ONNX Runtime and
OpenVINO on what ONNX Runtime's static quantization makes. THINFLOW_PEERS_PYTHON names a Python that has them,
else the one for the oracle tests is taken; what it lacks is told. The budget is a ratio of 1.00 to the
fastest of them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.bench import Bench
from benchmarks.budgets.peers import SHARED, SUBJECTS, Files, Subject, fastest_of
from benchmarks.lines import NeedsOracle, interval_line
from benchmarks.peers import PYTHON, Contestant, Served, by_turns
from thinflow.analysis.stats import ratio_of_medians
from thinflow.bench.machine import this_machine

HEADERS = ("model", "kind", "threads", "auto picked", "ms", "fastest of the others", "ms", "ratio", "verdict")
EXTRA = (Subject("InceptionV3", "keras", (1, 299, 299, 3)),)
"""Networks beside those of the budget `peers`."""
_CHOICE_ROUNDS = 3
_PEERS = ("tensorflow", "tf2onnx", "onnxruntime", "openvino")


@dataclass(frozen=True)
class Row:
    """What was found of one model, in one kind, on so many threads."""

    cells: tuple[str, ...]
    notes: tuple[str, ...] = ()


def main(arguments: Sequence[str]) -> int:
    """Print the table, and write it if a file is named."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m benchmarks engines", description=__doc__, formatter_class=raw)
    parser.add_argument("names", nargs="*", help="parts of names of networks; default all")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--kinds", default="float,int8")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--output")
    args = parser.parse_args(arguments)
    threads = [int(n) for n in args.threads.split(",")]
    wanted = [
        s
        for s in (*SUBJECTS, *EXTRA)
        if not args.names or any(n.lower() in s.name.lower() for n in args.names)
    ]
    lines = [f"| {' | '.join(HEADERS)} |", "|" + "---|" * len(HEADERS)]
    print("\n".join(lines), flush=True)
    notes: list[str] = []
    with tempfile.TemporaryDirectory(prefix="thinflow-") as folder:
        bench = Bench(False, Path(folder))
        python = _python(bench)
        notes += [f"{name} is not in the environment of the others" for name in _missing(python)]
        for subject in wanted:
            for row in _rows(bench, python, subject, args.kinds.split(","), threads, args.rounds):
                if row.cells:
                    lines.append(f"| {' | '.join(row.cells)} |")
                    print(lines[-1], flush=True)
                notes += row.notes
        notes += bench.notes
    machine = this_machine()
    load = ", ".join(f"{n:.1f}" for n in os.getloadavg())
    notes.append(f"measured on {machine}; load of the last 1, 5 and 15 minutes {load}")
    tail = ["", *(f"- {note}" for note in dict.fromkeys(notes))]
    print("\n".join(tail))
    if args.output:
        Path(args.output).write_text("\n".join([*lines, *tail, ""]), "utf-8")
    return 0


def _python(bench: Bench) -> str:
    """A Python with as many of the others as there are here."""
    given = os.environ.get(PYTHON)
    try:
        return given or bench.oracle_python
    except NeedsOracle:
        return sys.executable


def _missing(python: str) -> list[str]:
    look = f"import importlib.util as u; print(*(n for n in {_PEERS!r} if u.find_spec(n) is None))"
    told = subprocess.run([python, "-c", look], capture_output=True, text=True, check=False)
    return told.stdout.split()


def _rows(
    bench: Bench, python: str, subject: Subject, kinds: Sequence[str], threads: Sequence[int], rounds: int
) -> Iterator[Row]:
    if subject.source.endswith(".pb") and not (SHARED / subject.source).exists():
        yield Row((), (f"{subject.name}: there is no {subject.source} here",))
        return
    try:
        files = Files(bench, python, subject)
    except Exception as error:
        yield Row((), (f"{subject.name}: {error}",))
        return
    yield Row((), tuple(f"{subject.name}: {problem}" for problem in files.problems))
    for kind in kinds:
        for count in threads:
            try:
                yield _compared(files, kind, count, rounds)
            except Exception as error:
                yield Row((), (f"{subject.name}, {kind}, {count} threads: {error}",))


def _floats(files: Files) -> tuple[list[Contestant], list[Contestant]]:
    """Ours, and those of others."""
    ours = [Contestant("auto", "measured", files.graph, ours=True)]
    converted = files.stem.with_name(f"{files.stem.name}.onnx")
    others = [
        Contestant("LiteRT (TFLiteConverter)", "litert", Path(f"{files.stem}_tf.tflite")),
        Contestant("TensorFlow", "tensorflow", files.graph),
        Contestant("ONNX Runtime (tf2onnx)", "onnxruntime", converted),
        Contestant("OpenVINO (tf2onnx)", "openvino", converted),
        Contestant("OpenVINO (.pb)", "openvino", files.graph),
    ]
    return ours, files.present(*others)


def _integers(files: Files) -> tuple[list[Contestant], list[Contestant]]:
    """Ours, and those of others."""
    more = ("--calibration", str(files.feeds), "--effort", "none")
    ours = [
        Contestant(f"auto: {engine}", "session", files.ours(f"_int8{suffix}", "quantize", *more), ours=True)
        for engine, suffix in (("litert", ".tflite"), ("onnxruntime", ".onnx"), ("openvino", ".xml"))
    ]
    static = Path(f"{files.stem}_int8.onnx")
    by = "its own int8"
    if not static.exists():
        # Without tf2onnx they quantize what we convert.
        static, by = _quantized_by_runtime(files), "its own int8 of our .onnx"
    others = [
        Contestant("LiteRT (TFLiteConverter)", "litert", Path(f"{files.stem}_tf_int8.tflite")),
        Contestant(f"ONNX Runtime ({by})", "onnxruntime", static),
        Contestant("OpenVINO (the same)", "openvino", static),
    ]
    return files.present(*ours), files.present(*others)


def _quantized_by_runtime(files: Files) -> Path:
    """What ONNX Runtime's static quantization makes of our float .onnx."""
    plain, target = files.ours(".onnx", "convert", "--no-verify"), Path(f"{files.stem}_static.onnx")
    if target.exists():
        return target
    script = (
        "import sys, numpy as np; from pathlib import Path\n"
        f"sys.path.insert(0, {str(Path(__file__).parent / 'oracle')!r})\n"
        "from converters import onnx_by_runtime\n"
        "from onnxruntime.quantization import QuantType\n"
        "samples = [a[None] for a in next(iter(np.load(sys.argv[3]).values()))]\n"
        "onnx_by_runtime(Path(sys.argv[1]), Path(sys.argv[2]), samples, activation_type=QuantType.QUInt8)\n"
    )
    command = [sys.executable, "-c", script, str(plain), str(target), str(files.feeds)]
    subprocess.run(command, capture_output=True, check=False, timeout=600)
    return target


def _compared(files: Files, kind: str, threads: int, rounds: int) -> Row:
    """Ours in a race with the others."""
    ours, others = (_floats if kind == "float" else _integers)(files)
    name, notes = files.subject.name, list[str]()
    served = _served(files, [*ours, *others], threads, f"{name}, {kind}", notes)
    try:
        own = {c.name: served[c.name] for c in ours if c.name in served}
        if not own:
            raise RuntimeError("there is no model of ours")
        if len(own) > 1:
            # Chosen before the race: who picks the fastest of what was measured picks luck, too.
            first = by_turns(own, _CHOICE_ROUNDS)
            best = fastest_of(first, list(own))
            notes.append(f"{name}, {kind}, {threads} threads: ours, before the race: {_times(first)}")
        else:
            best = next(iter(own))
        racing = {best: own[best]} | {c.name: served[c.name] for c in others if c.name in served}
        times = by_turns(racing, rounds, seed=1)
        fastest = fastest_of(times, [n for n in times if n != best])
        found = ratio_of_medians(times[best], times[fastest], paired=True)
        line = interval_line(name, found, 1.0, "")
        told = " ".join(own[best].told) or best
        picked = told.removeprefix("auto: ").split(" ")[0]
        notes.append(f"{name}, {kind}, {threads} threads: {_times(times)}")
        if own[best].told:
            notes.append(f"{name}, {kind}, {threads} threads: Session(measure=True): {told}")
        verdict = f"**{line.verdict}**" if line.verdict == "MISS" else line.verdict
        cells = (name, kind, str(threads), picked, f"{median(times[best]):.3g}", fastest)
        return Row((*cells, f"{median(times[fastest]):.3g}", f"{found}", verdict), tuple(notes))
    finally:
        for process in served.values():
            process.close()


def _served(
    files: Files, contestants: Sequence[Contestant], threads: int, what: str, notes: list[str]
) -> dict[str, Served]:
    """Those of the contestants that open their model."""
    served = {}
    for c in contestants:
        # What is not installed for the others is taken from our own environment: the same releases.
        is_ours = c.ours or c.engine in ("litert", "onnxruntime", "openvino")
        process = Served(sys.executable if is_ours else files.python, c, files.feeds, files.names, threads)
        try:
            process.wait()
            served[c.name] = process
        except RuntimeError as error:
            process.close()
            notes.append(f"{what}: {c.name}: {str(error)[:160]}")
    return served


def _times(times: dict[str, list[float]]) -> str:
    return (
        ", ".join(f"{n} {median(t):.3g}" for n, t in sorted(times.items(), key=lambda i: median(i[1])))
        + " ms"
    )
