"""Lets rules look at a model."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from thinflow.errors import ThinflowError
from thinflow.ir.graph import Graph, paused_gc
from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding
from thinflow.lint.report import LintReport, in_order
from thinflow.lint.rules import Rule
from thinflow.typing import Progress

logger = logging.getLogger(__name__)

NO_RUNS = "no samples were given to run (--calibration), nor leave to make some up (--synthetic)"


def look(
    context: Context, rules: Sequence[Rule], *, progress: Progress | None = None, model: str = ""
) -> LintReport:
    """The report of some rules on a model.

    A rule that fails is reported by its code, and so is one that the model keeps from looking; the others
    look all the same.
    """
    findings: list[LintFinding] = []
    skipped = {r.code: NO_RUNS for r in rules if r.needs_runs and not context.may_run}
    looking = [r for r in rules if r.code not in skipped]
    broken: dict[str, str] = {}
    for number, one in enumerate(looking):
        if progress is not None:
            progress(number, len(looking), one.name)
        try:
            with paused_gc():
                findings += _named(context, one, one.check(context))
        # The model does not run, say, on inputs of made-up sizes.
        except ThinflowError as error:
            skipped[one.code] = error.message
        # Whatever a rule raises on a model nobody has seen: the other rules have their say.
        except Exception as error:
            logger.debug("rule %s failed", one.code, exc_info=True)
            broken[one.code] = f"{type(error).__name__}: {error}"
    if progress is not None:
        progress(len(looking), len(looking), "")
    codes = [one.code for one in looking if one.code not in skipped]
    return LintReport(model, in_order(findings), codes, skipped, broken, list(context.notes))


def _named(context: Context, one: Rule, findings: Iterable[LintFinding]) -> list[LintFinding]:
    """What a rule yields, with its code and severity, at nodes by their names in the file."""
    return [
        replace(
            f if context.can_mend else f.beyond_mending(),
            code=one.code,
            rule=one.name,
            nodes=context.names_in_file(f.nodes),
            severity=one.severity if f.severity is None else f.severity,
        )
        for f in findings
    ]


def path_of(source: Any) -> str:
    """The path of a model as it was given; "" for a graph in memory."""
    return source.path if isinstance(source, Graph) else str(source)
