"""Reports on budgets for workflows: annotations of GitHub, and JUnit's XML."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from thinflow.budgets.item import BudgetItem, Status
from thinflow.budgets.report import CheckReport, ModelCheck
from thinflow.errors.plain_text import one_line
from thinflow.lint.text import command

_SHOWN_NODES = 3
# What XML 1.0 has no place for, not even escaped.
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_RESULTS = {
    Status.OVER: "failure",
    Status.UNSURE: "skipped",
    Status.NOT_COMPARED: "skipped",
    Status.NOT_MEANT: "skipped",
    Status.FAILED: "error",
}
"""JUnit's elements."""


def github_lines(report: CheckReport, *, strict: bool = False) -> Iterator[str]:
    """A report as commands of a GitHub workflow, which shows them beside the changed files; then the verdict.

    Args:
        strict: as for the exit code: what is not known is an error, too.
    """
    for model in report.models:
        for item in model.items:
            known = item.status in (Status.WITHIN, Status.NOT_MEANT)
            if item.fails(strict=strict) or not known:
                level = "error" if item.fails(strict=strict) else "warning"
                yield command(level, model.name, f"budget {item.budget}", _told(item))
    yield one_line(report.verdict)


def _told(item: BudgetItem) -> str:
    at = f" (at {', '.join(item.nodes[:_SHOWN_NODES])})" if item.nodes else ""
    return one_line(f"{item.status}: {item.message}{at}")


def junit(report: CheckReport, *, strict: bool = False) -> str:
    """A report as JUnit's XML: a suite for each model, a case for each budget.

    Args:
        strict: as for the exit code: what is not known is a failure, too.
    """
    suites = [line for model in report.models for line in _suite(model, strict)]
    head = _counts(report.items, strict)
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f'<testsuites name="thinflow check" {head}>']
    return "\n".join([*lines, *suites, "</testsuites>"]) + "\n"


def _suite(model: ModelCheck, strict: bool) -> Iterator[str]:
    name = _attribute(model.name)
    yield f"  <testsuite name={name} {_counts(model.items, strict)}>"
    for item in model.items:
        case = f'    <testcase classname={name} name={_attribute(item.budget)} time="{item.seconds:.3f}"'
        result = _result(item, strict)
        yield f"{case}>"
        yield f"      {_element(item, result)}"
        yield "    </testcase>"
    yield "  </testsuite>"


def _element(item: BudgetItem, result: str) -> str:
    if not result:
        return f"<system-out>{_text(one_line(item.message))}</system-out>"
    told = f"message={_attribute(item.message)}"
    if result == "skipped":
        return f"<skipped {told}/>"
    more = _text("\n".join([_told(item), *([f"try: {one_line(item.mend)}"] if item.mend else [])]))
    return f"<{result} {told} type={_attribute(str(item.status))}>{more}</{result}>"


def _result(item: BudgetItem, strict: bool) -> str:
    """JUnit's element for what came of a budget; "" for one that was kept."""
    # Where nobody minds that it is not known, readers show it as passed over.
    found = _RESULTS.get(item.status, "")
    return "failure" if found == "skipped" and item.fails(strict=strict) else found


def _counts(items: list[BudgetItem] | tuple[BudgetItem, ...], strict: bool) -> str:
    results = [_result(item, strict) for item in items]
    kinds = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    counts = " ".join(f'{name}="{results.count(result)}"' for name, result in kinds.items())
    return f'tests="{len(items)}" {counts} time="{sum(item.seconds for item in items):.3f}"'


def _attribute(text: str) -> str:
    return quoteattr(_NO_XML.sub("\ufffd", one_line(text)))


def _text(text: str) -> str:
    return escape(_NO_XML.sub("\ufffd", text))
