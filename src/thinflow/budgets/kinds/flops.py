"""The operations of a run."""

from __future__ import annotations

from dataclasses import replace

from thinflow.budgets.item import BudgetItem, Status, at_most
from thinflow.budgets.kinds import budget
from thinflow.budgets.limits import operations
from thinflow.budgets.subject import Subject


@budget("flops", read=operations)
def flops(model: Subject, limit: float) -> BudgetItem:
    """Operations of a run; one multiplication and addition are two."""
    cost = model.summary.cost
    found = cost.total.flops
    told = f"{_text(found)} of {_text(limit)}"
    item = at_most(found, limit, told, unit="FLOP", mend="thinflow inspect MODEL")
    # Inputs of open sizes are not known either, but do nothing.
    unknown = [o.name for o in model.operations if o.name in cost.unknown]
    if not unknown or item.status is Status.OVER:
        return item
    # What is counted is the least that it computes.
    more = f" and of {len(unknown) - 1} more" if len(unknown) > 1 else ""
    told = f"at least {told}; the work of '{unknown[0]}'{more} is not known: {cost.unknown[unknown[0]]}"
    return replace(item, status=Status.UNSURE, message=told, nodes=tuple(unknown))


def _text(count: float) -> str:
    for factor, unit in ((1e9, "GFLOP"), (1e6, "MFLOP"), (1e3, "kFLOP")):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count:g} FLOP"
