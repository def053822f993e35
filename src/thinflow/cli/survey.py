"""`thinflow survey`: what is in a collection of models."""

from __future__ import annotations

import shlex
import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from thinflow.cli._console import print_lines, print_table, progress
from thinflow.cli._making import add_calibration
from thinflow.cli._options import (
    add_alias,
    add_all,
    add_cluster,
    add_effort,
    add_html,
    add_json,
    add_timeout,
    check_html,
    html_lines,
)
from thinflow.errors.plain_text import one_line

if TYPE_CHECKING:
    from thinflow.survey.report import SurveyReport

EXAMPLES = """
  thinflow survey models/
  thinflow survey models/ --html survey.html         # a table to sort and filter
  thinflow survey models/ --csv survey.csv --no-lint
  thinflow survey old/ new/ backup.zip --all
  thinflow survey https://example.org/models.zip
  thinflow survey models/ --optimize out             # the main job on all of them
"""
_SHOWN = 40


def add_arguments(p: ArgumentParser) -> None:
    p.add_argument(
        "sources", nargs="+", metavar="FOLDER|FILE|URL", help="what is to be looked at, all below it"
    )
    p.add_argument("--csv", metavar="FILE", help="also write a row for each file there")
    add_html(p)
    p.add_argument("--no-run", action="store_true", help="do not run the models on made-up inputs")
    p.add_argument("--no-convert", action="store_true", help="do not try to write them for runtimes")
    p.add_argument("--no-lint", action="store_true", help="do not let the linter look at them")
    p.add_argument("--no-unpack", action="store_true", help="do not look into archives")
    p.add_argument("--processes", type=int, metavar="N", help="at once (default: as many as processors)")
    add_timeout(p, 60)
    memory = p.add_argument(
        *("--max-memory",),
        type=float,
        default=4.0,
        metavar="GIB",
        help="for the look at one file (default 4; on Linux)",
    )
    add_alias(p, memory, "--max_memory")
    p.add_argument("--optimize", metavar="OUT", help="do the main job on each model, into folders there")
    job = p.add_argument(
        "--job-timeout",
        type=float,
        default=1800.0,
        metavar="S",
        help="for one main job (default 1800)",
    )
    add_alias(p, job, "--job_timeout")
    add_calibration(p, "for the main job, which all models take")
    add_effort(p)
    add_cluster(p, "look at the files")
    add_all(p)
    add_json(p)


def run(args: Namespace) -> int:
    import json

    import thinflow

    check_html(args)
    report = thinflow.survey(
        args.sources,
        run=not args.no_run,
        convert=not args.no_convert,
        lint=not args.no_lint,
        unpack=not args.no_unpack,
        optimize=args.optimize,
        calibration=args.calibration,
        effort=args.effort,
        jobs=args.processes,
        timeout=args.timeout,
        memory_gib=args.max_memory,
        job_timeout=args.job_timeout,
        cluster=args.cluster,
        store=args.store,
        progress=progress(),
    )
    if args.csv:
        from thinflow.formats.files import write_file

        write_file(args.csv, [report.to_csv().encode("utf-8", "surrogateescape")])
    if args.html:
        report.save_html(args.html)
    if not report.sound:
        _tell_nothing(args, report)
    if args.json:
        print(json.dumps(report.data(), indent=2))
    else:
        _print(args, report)
    return 0 if report.sound else 1


def _print(args: Namespace, report: SurveyReport) -> None:
    print_lines([report.verdict])
    headers, rows = report.table()
    shown = rows if args.all else rows[:_SHOWN]
    if rows:
        print()
        print_table(shown, headers)
    if len(rows) > len(shown):
        print(f"... and {len(rows) - len(shown)} more (--all)")
    lines = report.lines(everything=args.all)
    if lines:
        print()
        print_lines(lines)
    if args.csv:
        print_lines([f"written: {args.csv}"])
    print_lines(html_lines(args))
    if report.sound:
        print()
        print_lines([f"next: {_next(args)}"])


def _next(args: Namespace) -> str:
    """The command to try next: what shows more, then what makes them smaller."""
    sources = " ".join(map(shlex.quote, args.sources))
    if not args.html:
        return f"thinflow survey {sources} --html survey.html"
    return f"thinflow survey {sources} --optimize out"


def _tell_nothing(args: Namespace, report: SurveyReport) -> None:
    """Why it is all for nothing: there is no model, or none that opens."""
    sources = ", ".join(args.sources)
    problem = f"no model in {sources} opens" if report.models else f"no model is in {sources}"
    if len(report.models) == 1:
        problem = f"{report.models[0].name}: {report.models[0].problem}"
    print(f"error: {one_line(problem)}", file=sys.stderr)
