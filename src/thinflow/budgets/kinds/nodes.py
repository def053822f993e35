"""The number of operators."""

from __future__ import annotations

from thinflow.budgets.item import BudgetItem, at_most
from thinflow.budgets.kinds import budget
from thinflow.budgets.limits import a_count
from thinflow.budgets.subject import Subject


@budget("nodes", read=a_count)
def nodes(model: Subject, limit: float) -> BudgetItem:
    """Operators: nodes without constants and inputs."""
    # What a run has to start one after the other, which is what slows small networks down.
    found = len(model.operations)
    return at_most(found, limit, f"{found:,} of {limit:,.0f}", mend="thinflow lint MODEL")
