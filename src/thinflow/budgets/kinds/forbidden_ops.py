"""The operators that a model must not have."""

from __future__ import annotations

from thinflow.budgets.item import BudgetItem
from thinflow.budgets.kinds import budget
from thinflow.budgets.limits import names
from thinflow.budgets.matching import matches, op_item
from thinflow.budgets.subject import Subject


@budget("forbidden_ops", read=names)
def forbidden_ops(model: Subject, limit: tuple[str, ...]) -> BudgetItem:
    """Operators that must not be in it; as its file calls them, with * for any letters."""
    wrong = [o for o in model.operations if matches(o.op, limit)]
    return op_item(wrong, model.operations, "is forbidden")
