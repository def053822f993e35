"""`thinflow benchmark`: latency and memory of models, side by side."""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, Namespace
from typing import Any

from thinflow.cli._console import print_lines, terminal_width
from thinflow.cli._options import (
    THREADS,
    add_inter_op,
    add_interface,
    add_scaling,
    add_timeout,
    interface,
    interface_flags,
    names,
)
from thinflow.errors import ParameterError
from thinflow.errors.plain_text import csv_cell, one_line

EXAMPLES = """
  thinflow benchmark model.tflite
  thinflow benchmark model_fp32.tflite model_int8.tflite --threads 1,2
  thinflow benchmark model.pb --engines litert,onnxruntime --profile    # and what each node takes
  thinflow benchmark pose.pb --shape image=1,184,184,3 --engines litert,reference --runs 20
  thinflow benchmark kws_int8.tflite --calibration clips/    # run with the first clip
  thinflow benchmark *.tflite --csv > figures.csv
"""
_WIDTH = 100
_INTERRUPTED = 130  # what a shell reports after Ctrl-C


def add_arguments(p: ArgumentParser) -> None:
    p.add_argument(
        "models",
        nargs="+",
        metavar="MODEL",
        help="a model of any kind: .pb, .tflite, .onnx, .tfpack, a SavedModel's folder; the first is what "
        "the others are compared with",
    )
    p.add_argument(
        *THREADS,
        default="1",
        metavar="1,2",
        help="numbers of threads to try, which share the work of each node (default 1)",
    )
    add_inter_op(p)
    p.add_argument(
        "--engines",
        default="auto",
        metavar="NAMES",
        help="engines to try: litert, onnxruntime, reference; auto, the default, is the one a file belongs "
        "to, litert for graphs",
    )
    p.add_argument(
        "--runs", type=int, metavar="N", help="run each N times; default: until its median is known to 2 %%"
    )
    p.add_argument(
        "--seconds",
        type=float,
        default=10.0,
        metavar="S",
        help="stop after so long, all together (default 10)",
    )
    p.add_argument(
        "--warmup", type=int, default=3, metavar="N", help="runs of each before measuring (default 3)"
    )
    add_timeout(p)
    p.add_argument("--profile", action="store_true", help="also tell what each node takes")
    p.add_argument("--no-memory", dest="memory", action="store_false", help="do not measure peak memory")
    p.add_argument(
        "--no-peak", dest="peaks", action="store_false", help="do not measure what the machine can do at most"
    )
    add_interface(p)
    p.add_argument(
        "--calibration",
        metavar="FOLDER|FILE",
        help="samples, as for quantize: models are run with the first; default: inputs are made up",
    )
    add_scaling(p)
    p.add_argument(
        "--feed",
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="an input from a file: .npy, .npz, .txt, a picture, or any file for a string; one for each",
    )
    form = p.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print everything for machines")
    form.add_argument("--csv", action="store_true", help="print exact figures as comma-separated values")
    form.add_argument("--markdown", action="store_true", help="print a Markdown report with exact figures")


def run(args: Namespace) -> int:
    import json

    import thinflow
    from thinflow.cli._console import progress

    if args.csv and args.profile:
        raise ParameterError(
            "--csv holds one table, and --profile makes others",
            hint="take --json, or for the nodes "
            f"`thinflow benchmark_model --graph={shlex.quote(args.models[0])} --csv`",
        )
    told = progress()
    report = thinflow.benchmark(
        args.models,
        threads=_counts(args.threads),
        inter_op_threads=args.inter_op,
        engines=names(args.engines) or [],
        runs=args.runs,
        seconds=args.seconds,
        warmup=args.warmup,
        memory=args.memory,
        peaks=args.peaks,
        timeout=args.timeout,
        progress=told,
        **_feeding(args),
        **interface(args),
    )
    profiles = _profiles(args, report, told) if args.profile and not report.interrupted else []
    if args.json:
        data = report.data()
        if args.profile:
            data["profiles"] = [p.data() for p in profiles]
        print(json.dumps(data, indent=2))
    elif args.markdown:
        print(report.markdown(), end="")
        print("".join(p.markdown() for p in profiles), end="")
    elif args.csv:
        _print_csv(report)
    else:
        _print_report(args, report, profiles)
    return _INTERRUPTED if report.interrupted else 0


def _profiles(args: Namespace, report: Any, told: Any) -> list[Any]:
    """What the nodes take, for each row of the report."""
    from thinflow.api import profile_rows

    return profile_rows(report, progress=told, **_feeding(args), **interface(args))


def _feeding(args: Namespace) -> dict[str, Any]:
    """What the models are fed, as `thinflow.benchmark` takes it."""
    from thinflow.api import feeds_of_files, picture_scaling

    if not args.feed:
        return {"calibration": args.calibration, "scaling": picture_scaling(args.mean, args.std)}
    if args.calibration is not None:
        raise ParameterError("--feed and --calibration go not together", hint="give one of them")
    paths = {}
    for text in args.feed:
        name, equals, path = text.partition("=")
        if not equals:
            raise ParameterError(f"--feed {text}: the name is missing", hint="write --feed NAME=FILE")
        paths[name.strip()] = path
    return {"feeds": feeds_of_files(paths)}


def _counts(text: str) -> list[int]:
    counts = [n.strip() for n in text.split(",") if n.strip()]
    # A number of threads of six digits is a slip.
    if not counts or not all(n.isdecimal() and len(n) < 6 for n in counts):
        raise ParameterError(f"--threads {text}: not a list of whole numbers", hint="write --threads 1,2")
    return [int(n) for n in counts]


def _print_csv(report: Any) -> None:
    import csv
    import sys

    from thinflow.api import benchmark_figures

    headers, cells = benchmark_figures(report)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(headers)
    # Names of models could be read as formulas by a spreadsheet.
    writer.writerows(map(csv_cell, line) for line in cells)


def _print_report(args: Namespace, report: Any, profiles: list[Any]) -> None:
    from thinflow.api import benchmark_table, measured_reasons
    from thinflow.cli._console import print_table

    verdict, *others = report.sentences()
    others += measured_reasons(report, profiles)
    print_lines([verdict, *(f"  {line}" for line in others), ""])
    headers, cells = benchmark_table(report, terminal_width())
    print_table(cells, headers)
    print()
    for found in profiles:
        _print_profile(found)
    for line in report.caveats():
        _print_wrapped(f"note: {line}")
    for peak in report.peaks():
        print_lines([f"peak: {peak}"])
    _print_wrapped(f"measured: {report.rounds} rounds in turns, {report.seconds:.1f} s, on {report.machine}")
    print_lines([f"next: {_next(args)}"])


def _print_wrapped(line: str) -> None:
    """On a terminal in lines of a hundred columns, names whole; else in one line, for what reads it."""
    import sys
    import textwrap

    if not sys.stdout.isatty():
        print_lines([line])
        return
    print(
        textwrap.fill(
            one_line(line), _WIDTH, subsequent_indent="      ", break_long_words=False, break_on_hyphens=False
        )
    )


def _print_profile(found: Any) -> None:
    from thinflow.cli._console import print_table

    _print_wrapped(found.title)
    if found.refusal:
        from thinflow.cli._hints import in_flags

        _print_wrapped(f"      {in_flags(found.refusal, 'benchmark')}")
        print()
        return
    for headers, cells in found.tables(terminal_width()):
        print()
        print_table(cells, headers)
    print()


def _next(args: Namespace) -> str:
    from thinflow.api import runtime_format

    flags = interface_flags(args) + _feeding_flags(args)
    files = " ".join(map(shlex.quote, args.models)) + flags
    # One step further each time: optimize a graph, then more threads, then the nodes.
    if len(args.models) == 1 and not args.feed and not runtime_format(args.models[0]):
        return f"thinflow optimize {shlex.quote(args.models[0])} out{flags}"
    if args.threads == "1":
        return f"thinflow benchmark {files} --threads 1,2"
    return f"thinflow benchmark {files} {'--json' if args.profile else '--profile'}"


def _feeding_flags(args: Namespace) -> str:
    """The flags that say what models are fed, again."""
    given = [("feed", text) for text in args.feed] + [
        (name, str(value))
        for name in ("calibration", "mean", "std")
        if (value := getattr(args, name)) is not None
    ]
    return "".join(f" --{name} {shlex.quote(text)}" for name, text in given)
