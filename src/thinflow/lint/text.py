"""Reports of the linter as lines of text, and as annotations of a workflow on GitHub."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from thinflow.errors.plain_text import one_line
from thinflow.lint.finding import Severity
from thinflow.lint.report import LintReport
from thinflow.lint.rules import THEMES, Rule
from thinflow.lint.words import count, wrapped

_SHOWN_NODES = 3
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}
"""GitHub's words."""


def github_lines(report: LintReport) -> Iterator[str]:
    """A report as commands of a GitHub workflow, which shows them beside the changed files."""
    for finding in report.findings:
        level = _LEVELS[finding.severity or Severity.INFO]
        at = f" (at {', '.join(finding.nodes[:_SHOWN_NODES])})" if finding.nodes else ""
        yield command(level, report.model, f"{finding.code} {finding.rule}", f"{finding.message}{at}")
    for code, why in report.broken.items():
        yield command("error", report.model, code, f"the rule failed: {why}")


def command(level: str, file: str, title: str, text: str) -> str:
    """A command of a GitHub workflow that annotates a file: level is error, warning or notice."""
    return f"::{level} file={_property(file)},title={_property(title)}::{_escaped(text)}"


def _escaped(text: str) -> str:
    """The text as data of a workflow command: no name from a model begins one of its own."""
    return one_line(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")


def rule_lines(one: Rule) -> Iterator[str]:
    """What a rule looks for, why, and what to do."""
    yield f"{one.code} {one.name} ({one.severity}, {THEMES[one.code[:3]]})"
    for paragraph in one.paragraphs:
        yield ""
        yield from wrapped(paragraph)
    if one.needs_runs:
        yield ""
        yield "It looks at values of runs: give --calibration, or --synthetic."


def list_lines(known: Sequence[Rule]) -> Iterator[str]:
    """All rules by theme."""
    yield count(len(known), "rule")
    width = max(len(one.name) for one in known)
    theme = ""
    for one in known:
        if one.code[:3] != theme:
            theme = one.code[:3]
            yield f"{theme}: {THEMES[theme]}"
        yield f"  {one.code}  {one.name:{width}}  {one.severity}"
