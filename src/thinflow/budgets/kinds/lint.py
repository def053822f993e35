"""What the linter must not find."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from thinflow.budgets.item import BudgetItem, Status
from thinflow.budgets.kinds import budget
from thinflow.budgets.limits import names
from thinflow.budgets.subject import Subject
from thinflow.errors import ParameterError, closest
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.selection import selected
from thinflow.settings.table import Table

_SEVERITIES = {str(s): s for s in Severity}


@dataclass(frozen=True)
class LintLimit:
    """Findings that must not be.

    Attributes:
        least: the severity from which on they count; None for none.
        codes: of rules whose findings count whatever their severity.
    """

    least: Severity | None
    codes: frozenset[str]


def _read(table: Table, key: str) -> LintLimit:
    given = names(table, key)
    words = [name for name in given if name not in _SEVERITIES]
    try:
        codes = frozenset(rule.code for rule in selected(words, ())) if words else frozenset()
    except ParameterError as error:
        # A severity that was mistyped looks like a code.
        near = next((hint for word in words if (hint := closest(word, _SEVERITIES))), "")
        raise table.error(f"'{key}': {error.problem}", near or error.hint) from error
    severities = [_SEVERITIES[name] for name in given if name in _SEVERITIES]
    return LintLimit(min(severities, default=None), codes)


@budget("lint", read=_read)
def lint(model: Subject, limit: LintLimit) -> BudgetItem:
    """Severities, codes, names or prefixes of codes that the linter must not find."""
    from thinflow.lint.context import Context
    from thinflow.lint.look import look
    from thinflow.lint.settings import Settings, settings_of

    said = settings_of(model.project) if model.project.path else Settings()
    rules = {rule.code: rule for rule in selected(said.select, said.ignore)} if limit.least else {}
    # What a budget names counts, also where the project's linter ignores it.
    rules |= {rule.code: rule for rule in selected(None, ()) if rule.code in limit.codes}
    context = Context(model.source, shapes=model.shapes, **model.opening)
    report = look(context, [rules[code] for code in sorted(rules)], progress=model.progress, model=model.path)
    if report.broken:
        code, why = next(iter(report.broken.items()))
        return BudgetItem(Status.FAILED, f"the rule {code} failed: {why}")
    bad = [f for f in report.findings if _counts(f, limit)]
    if not bad:
        return BudgetItem(Status.WITHIN, f"nothing found by {len(report.rules)} rules", 0, 0)
    found = Counter(f.code for f in bad)
    told = ", ".join(f"{code} ({next(f.message for f in bad if f.code == code)})" for code in sorted(found))
    nodes = tuple(dict.fromkeys(name for f in bad for name in f.nodes))
    return BudgetItem(
        Status.OVER,
        told,
        len(bad),
        0,
        nodes=nodes,
        mend=f"thinflow lint MODEL --select {','.join(sorted(found))}",
    )


def _counts(finding: LintFinding, limit: LintLimit) -> bool:
    heavy = limit.least is not None and finding.severity is not None and finding.severity >= limit.least
    return heavy or finding.code in limit.codes
