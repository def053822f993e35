"""`thinflow check`: whether models keep their budgets, for workflows."""

from __future__ import annotations

import shlex
import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from thinflow.cli._console import print_lines, progress
from thinflow.cli._options import (
    add_alias,
    add_all,
    add_json,
    add_list,
    add_model_options,
    add_shape,
    model_options,
    shapes,
)
from thinflow.errors import FormatError, ParameterError, ThinflowError, WriteError
from thinflow.errors.plain_text import one_line

if TYPE_CHECKING:
    from thinflow.budgets.report import CheckReport

EXAMPLES = """
  thinflow check model.tflite                        # by the nearest thinflow.toml
  thinflow check models/*.tflite --budget thinflow.toml --strict
  thinflow check --budget thinflow.toml              # the models that its tables are for
  thinflow check model.tflite --update-baseline
  thinflow check model.tflite --format github --report junit.xml
  thinflow check --list
"""
_MISUSED = 2


def add_arguments(p: ArgumentParser) -> None:
    p.add_argument(
        "models",
        nargs="*",
        metavar="MODEL",
        help="models of any kind; default: those that tables of the budget name",
    )
    p.add_argument(
        "--budget",
        metavar="FILE",
        help="a thinflow.toml with a table [budget]; default: the nearest in the folders above each model",
    )
    p.add_argument(
        "--baseline",
        metavar="FILE",
        help="stored times, for budgets of latency (default: thinflow-baseline.json beside the budget)",
    )
    update = p.add_argument(
        "--update-baseline", action="store_true", help="measure and store the times of these models"
    )
    add_alias(p, update, "--update_baseline")
    p.add_argument(
        "--strict",
        action="store_true",
        help="exit with 1 also where it is not known whether a budget was kept",
    )
    p.add_argument(
        "--format",
        choices=("text", "github", "junit", "json"),
        default="text",
        help="of the report: text (default), annotations of a workflow on GitHub, JUnit's XML, or json",
    )
    p.add_argument("--report", metavar="FILE", help="also write it: .xml as JUnit's XML, .json, else text")
    add_all(p)
    add_list(p)
    add_model_options(p)
    add_shape(p)
    add_json(p)


def run(args: Namespace) -> int:
    import thinflow
    from thinflow.api import check_lines, write_text

    if args.list:
        return _list(args)
    # What is typed or settled wrongly is told apart from what is over: 2, not 1.
    try:
        report = thinflow.check(
            args.models,
            budget=args.budget,
            baseline=args.baseline,
            update_baseline=args.update_baseline,
            shapes=shapes(args.shape) or None,
            progress=progress(),
            **model_options(args),
        )
    except WriteError:
        raise
    except (ParameterError, FormatError) as error:
        return _misused(error)
    if args.report is not None:
        lines = check_lines(report, form=_form_of(args.report), everything=True, strict=args.strict)
        write_text(args.report, "\n".join(lines) + "\n")
    form = "json" if args.json else args.format
    print_lines(check_lines(report, form=form, everything=args.all, strict=args.strict))
    if form == "text":
        print(f"next: {_next(args, report)}")
    return 1 if report.failures(strict=args.strict) else 0


def _list(args: Namespace) -> int:
    """What can be bounded."""
    import json
    from textwrap import wrap

    from thinflow.api import budget_kinds

    found = budget_kinds()
    if args.json or args.format == "json":
        print(json.dumps(found, indent=2))
        return 0
    width = max(map(len, found)) + 4
    lines = (
        wrap(f"  {key:{width - 2}}{text}", 80, subsequent_indent=" " * width) for key, text in found.items()
    )
    print_lines([f"{len(found)} kinds of budgets", *(line for one in lines for line in one)])
    print("next: thinflow check MODEL --budget thinflow.toml")
    return 0


def _misused(error: ThinflowError) -> int:
    print(f"error: {one_line(error.message)}", file=sys.stderr)
    if error.hint:
        print(f"hint: {one_line(error.hint)}", file=sys.stderr)
    return _MISUSED


def _form_of(path: str) -> str:
    suffix = path.rpartition(".")[2].lower()
    return {"xml": "junit", "json": "json"}.get(suffix, "text")


def _next(args: Namespace, report: CheckReport) -> str:
    """The command to try next: a look at the first model that is over, else what its budgets may be."""
    bad = [m for m in report.models if any(item.fails(strict=args.strict) for item in m.items)]
    opened = [m for m in bad if m.item("model") is None]
    if opened:
        return f"thinflow inspect {shlex.quote(opened[0].model)}"
    return "thinflow check --list" if bad else f"thinflow inspect {shlex.quote(report.models[0].model)}"
