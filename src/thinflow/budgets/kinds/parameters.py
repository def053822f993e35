"""The number of parameters."""

from __future__ import annotations

from thinflow.budgets.item import BudgetItem, at_most
from thinflow.budgets.kinds import budget
from thinflow.budgets.limits import a_count
from thinflow.budgets.subject import Subject


@budget("parameters", read=a_count)
def parameters(model: Subject, limit: float) -> BudgetItem:
    """Numbers in all constants."""
    # Those of loops and branches lie in functions.
    found = model.summary.parameters.count + model.summary.parameters.in_functions
    return at_most(found, limit, f"{found:,} of {limit:,.0f}", mend="thinflow inspect MODEL")
