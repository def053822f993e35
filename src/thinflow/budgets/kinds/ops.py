"""The operators that a model may have."""

from __future__ import annotations

from thinflow.budgets.item import BudgetItem
from thinflow.budgets.kinds import budget
from thinflow.budgets.limits import names
from thinflow.budgets.matching import matches, op_item
from thinflow.budgets.subject import Subject


@budget("ops", read=names)
def ops(model: Subject, limit: tuple[str, ...]) -> BudgetItem:
    """Operators that may be in it, and no others; as its file calls them, with * for any letters."""
    wrong = [o for o in model.operations if not matches(o.op, limit)]
    return op_item(wrong, model.operations, "is not allowed")
