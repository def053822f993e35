"""`thinflow benchmark`: latency and memory of models, side by side."""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, Namespace
from typing import Any

from thinflow.cli._console import print_lines, terminal_width
from thinflow.cli._device import add_device, device_flags, devices, read_duration
from thinflow.cli._feeds import add_feed, feed_paths, whole_feed
from thinflow.cli._making import add_calibration
from thinflow.cli._options import (
    add_engine,
    add_html,
    add_inter_op,
    add_interface,
    add_json,
    add_scaling,
    add_threads,
    add_timeout,
    check_html,
    html_lines,
    interface,
    interface_flags,
    names,
    scaling_options,
)
from thinflow.errors import ParameterError
from thinflow.errors.plain_text import csv_cell

EXAMPLES = """
  thinflow benchmark model.tflite
  thinflow benchmark model_fp32.tflite model_int8.tflite --threads 1,2
  thinflow benchmark model.pb --engine litert,onnxruntime --profile    # and what each node takes
  thinflow benchmark pose.pb --shape image=1,184,184,3 --engine litert,reference --runs 20
  thinflow benchmark kws_int8.tflite --calibration clips/    # runs take 32 of the clips in turns
  thinflow benchmark model.tflite --device ssh:pi@board,local --threads 1,4
  thinflow benchmark model.tflite --device ssh:pi@board --soak 10m    # does heat slow it down?
  thinflow benchmark *.tflite --csv > figures.csv
  thinflow benchmark model.pb model_int8.tflite --profile --html report.html    # a page to show
"""
_INTERRUPTED = 130  # what a shell reports after Ctrl-C


def add_arguments(p: ArgumentParser) -> None:
    p.add_argument(
        "models",
        nargs="+",
        metavar="MODEL",
        help="a model of any kind: .pb, .tflite, .onnx, .tfpack, a SavedModel's folder; the first is what "
        "the others are compared with",
    )
    add_threads(p, several=True)
    add_inter_op(p)
    add_engine(p, "auto", several=True)
    p.add_argument(
        "--runs", type=int, metavar="N", help="run each N times; default: until its median is known to 2 %%"
    )
    p.add_argument(
        "--seconds",
        type=float,
        default=10.0,
        metavar="S",
        help="seconds to measure for, all together (default 10)",
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
    add_device(p)
    p.add_argument(
        "--soak",
        metavar="TIME",
        help="run for 10m or 1h, and compare the last minute with the first; on --device, or this machine",
    )
    add_interface(p)
    add_calibration(p, "runs take them in turns, all models the same; without them inputs are made up")
    p.add_argument(
        "--samples",
        type=int,
        metavar="N",
        help="use N samples only, spread evenly over classes and files (default 32)",
    )
    add_scaling(p)
    add_feed(p)
    add_html(p)
    form = p.add_mutually_exclusive_group()
    add_json(form)
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
    check_html(args)
    told = progress()
    # In front of anything that takes time, so that a slip in an address is told at once.
    there = devices(args)
    report = thinflow.benchmark(
        args.models,
        threads=_counts(args.threads),
        inter_op_threads=args.inter_op,
        engines=names(args.engine) or [],
        runs=args.runs,
        seconds=args.seconds,
        warmup=args.warmup,
        memory=args.memory,
        peaks=args.peaks,
        timeout=args.timeout,
        progress=told,
        soak=None if args.soak is None else read_duration(args.soak),
        device=there,
        **_feeding(args),
        **interface(args),
    )
    profiles = _profiles(args, report, told, there) if args.profile and not report.interrupted else []
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
    # Last: a page that cannot be written must not cost what was measured.
    if args.html is not None:
        report.save_html(args.html, profiles, [_next(args)])
    return _INTERRUPTED if report.interrupted else 0


def _profiles(args: Namespace, report: Any, told: Any, there: Any) -> list[Any]:
    """What the nodes take, for each row of the report."""
    from thinflow.api import profile_rows

    where = {"device": there or "local"} if report.devices else {}
    return profile_rows(report, progress=told, **where, **_feeding(args), **interface(args))


def _feeding(args: Namespace) -> dict[str, Any]:
    """What the models are fed, as `thinflow.benchmark` takes it."""
    from thinflow.api import feeds_of_files, picture_scaling

    if not args.feed:
        scaling = picture_scaling(**scaling_options(args))
        return {"calibration": args.calibration, "scaling": scaling, "samples": args.samples}
    if args.calibration is not None:
        raise ParameterError("--feed and --calibration go not together", hint="give one of them")
    whole = whole_feed(args)
    feeds = feeds_of_files(feed_paths(args)) if whole is None else whole
    return {"feeds": feeds, "samples": args.samples}


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
        print_lines([f"note: {line}"])
    for peak in report.peaks():
        print_lines([f"peak: {peak}"])
    print_lines([f"input: {report.fed}"] if report.fed else [])
    print_lines([f"device: {line}" for line in report.device_lines()])
    where = report.place.replace(" on", ", on", 1)
    print_lines([f"measured: {report.rounds} rounds in turns, {report.seconds:.1f} s{where}"])
    print_lines([*html_lines(args), f"next: {_next(args)}"])


def _print_profile(found: Any) -> None:
    from thinflow.cli._console import print_table

    print_lines([found.title])
    if found.refusal:
        from thinflow.cli._hints import in_flags

        print_lines([f"      {in_flags(found.refusal, 'benchmark')}"])
        print()
        return
    for headers, cells in found.tables(terminal_width()):
        print()
        print_table(cells, headers)
    print()


def _next(args: Namespace) -> str:
    from thinflow.api import runtime_format

    flags = interface_flags(args) + _feeding_flags(args) + device_flags(args)
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
        for name in ("calibration", "samples", "mean", "std")
        if (value := getattr(args, name)) is not None
    ]
    return "".join(f" --{name} {shlex.quote(text)}" for name, text in given)
