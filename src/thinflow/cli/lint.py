"""`thinflow lint`: what an expert would notice in a trained network, and what mends it."""

from __future__ import annotations

import os
import shlex
import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from thinflow.cli._console import print_lines, progress
from thinflow.cli._making import add_calibration
from thinflow.cli._options import (
    add_alias,
    add_all,
    add_engine,
    add_interface,
    add_json,
    add_list,
    add_model,
    interface,
    interface_flags,
    names,
)
from thinflow.errors import FormatError, ParameterError, ThinflowError
from thinflow.errors.plain_text import one_line

if TYPE_CHECKING:
    from thinflow.lint.report import LintReport
    from thinflow.lint.settings import Settings

EXAMPLES = """
  thinflow lint model.pb
  thinflow lint model.pb --fix mended.pb
  thinflow lint model.tflite --select TF5,TF6 --all
  thinflow lint model.onnx --ignore TF403 --fail-on error --format github
  thinflow lint model.pb --calibration samples/      # also rules that run it
  thinflow lint model.pb --profile                   # and what findings take, in ms
  thinflow lint --explain TF301
  thinflow lint --list
"""
_MISUSED = 2
_KEPT = (".onnx", ".tflite")


def add_arguments(p: ArgumentParser) -> None:
    add_model(p, needed=False)
    p.add_argument(
        "--fix", metavar="OUT", help="write the model with all mended that transforms mend, each step proven"
    )
    p.add_argument(
        "--select",
        action="append",
        metavar="CODE[,CODE...]",
        help="only these rules: codes, names, prefixes (TF3)",
    )
    p.add_argument(
        "--ignore", action="append", metavar="CODE[,CODE...]", help="not these; a longer prefix wins"
    )
    failing = p.add_argument(
        "--fail-on",
        metavar="SEVERITY",
        help="exit with 1 from this severity on: info, warning (default) or error",
    )
    add_alias(p, failing, "--fail_on")
    p.add_argument(
        "--config",
        metavar="FILE",
        help="a thinflow.toml with a table [lint]; default: the nearest in the folders above the model",
    )
    alone = p.add_argument("--no-config", action="store_true", help="read no thinflow.toml")
    add_alias(p, alone, "--no_config")
    add_calibration(p, "for rules that look at values of runs")
    p.add_argument("--synthetic", action="store_true", help="let such rules run on made-up inputs")
    p.add_argument(
        "--profile", action="store_true", help="also tell what each node takes; the findings tell it"
    )
    add_engine(p, None)
    p.add_argument(
        "--format",
        choices=("text", "json", "github"),
        default="text",
        help="of the report: text (default), json, or annotations of a workflow on GitHub",
    )
    add_all(p)
    p.add_argument("--explain", metavar="CODE", help="tell what a rule looks for, why, and what to do")
    add_list(p)
    add_interface(p)
    add_json(p)


def run(args: Namespace) -> int:
    from thinflow.api import (
        check_lint_engine,
        check_lint_rules,
        check_lint_target,
        lint_settings,
        lint_severity,
    )

    # What is typed wrongly is told apart from what is found: 2, not 1.
    try:
        if args.list or args.explain:
            return _tell(args)
        if args.model is None:
            raise ParameterError("no model was given", hint="name one: thinflow lint MODEL")
        check_lint_rules(_codes(args.select), _codes(args.ignore))
        if args.engine is not None:
            check_lint_engine(args.engine)
            if not args.profile:
                raise ParameterError("--engine says where to time the model", hint="add --profile")
        given = lint_severity(args.fail_on) if args.fail_on else None
        settings = None if args.no_config else lint_settings(args.config, args.model)
        if args.fix is not None:
            check_lint_target(args.model, args.fix)
    # Settings that cannot be read are told apart as well.
    except (ParameterError, FormatError) as error:
        return _misused(error)
    report = _report(args, settings)
    _print(args, report)
    limit = given or (settings.fail_on if settings is not None else lint_severity("warning"))
    return 1 if report.broken or report.at_least(limit) else 0


def _codes(given: list[str] | None) -> list[str] | None:
    """Codes with commas, of flags that may be repeated; None if the flag was not given."""
    return None if given is None else [code for text in given for code in names(text) or []]


def _tell(args: Namespace) -> int:
    """Explain a rule, or list all."""
    import json

    from thinflow.api import lint_rule, lint_rule_data, lint_rule_lines, lint_rules

    chosen = [lint_rule(args.explain)] if args.explain else lint_rules()
    if args.json or args.format == "json":
        print(json.dumps([lint_rule_data(one) for one in chosen], indent=2))
        return 0
    print_lines(lint_rule_lines(chosen, explained=bool(args.explain)))
    model = "MODEL" if args.model is None else shlex.quote(args.model)
    print(f"next: thinflow lint {model} --select {chosen[0].code}" if args.explain else _EXPLAIN)
    return 0


_EXPLAIN = "next: thinflow lint --explain CODE"


def _misused(error: ThinflowError) -> int:
    print(f"error: {one_line(error.message)}", file=sys.stderr)
    if error.hint:
        print(f"hint: {one_line(error.hint)}", file=sys.stderr)
    return _MISUSED


def _report(args: Namespace, settings: Settings | None) -> LintReport:
    import thinflow

    return thinflow.lint(
        args.model,
        select=_codes(args.select),
        ignore=_codes(args.ignore) or (),
        fix=args.fix,
        calibration=args.calibration,
        synthetic=args.synthetic,
        profile=(args.engine or "auto") if args.profile else None,
        settings=settings.path if settings is not None and settings.path else False,
        progress=progress(),
        **interface(args),
    )


def _print(args: Namespace, report: LintReport) -> None:
    import json

    from thinflow.api import lint_report_lines

    if args.json or args.format == "json":
        print(json.dumps(report.data(), indent=2))
        return
    print_lines(lint_report_lines(report, everything=args.all, github=args.format == "github"))
    if args.format == "text":
        print(f"next: {_next(args, report)}")


def _next(args: Namespace, report: LintReport) -> str:
    """The command to try next: what mends, else what explains the first finding, else what comes then."""
    model = shlex.quote(args.model)
    broken = [f for f in report.findings if str(f.severity) == "error" and not f.fix]
    # Of a graph without its weights nothing can be verified, and what fails comes before what is slow.
    if broken:
        return f"thinflow lint --explain {broken[0].code}"
    if report.written:
        return f"thinflow verify {model} {shlex.quote(report.written)}"
    # What could not be mended a moment ago cannot be now.
    if report.fixable and args.fix is None:
        stem, suffix = os.path.splitext(os.path.basename(os.path.normpath(args.model)))
        # In the format that it came in; others, such as checkpoints, become a frozen graph.
        mended = f"{stem.split('.')[0] or 'model'}_mended{suffix if suffix in _KEPT else '.pb'}"
        return f"thinflow lint {model}{interface_flags(args)} --fix {shlex.quote(mended)}"
    if report.findings:
        return f"thinflow lint --explain {report.findings[0].code}"
    return f"thinflow optimize {model} out{interface_flags(args)}"
