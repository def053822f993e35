"""What came of one budget of one model."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from thinflow.ir.brief import brief_repr


class Status(Enum):
    """What came of a budget."""

    WITHIN = "within"
    OVER = "over"
    UNSURE = "unsure"
    """Beyond the limit, but by no more than the measurement may be off."""
    NOT_COMPARED = "not compared"
    """There is nothing to compare with here."""
    NOT_MEANT = "not meant"
    """The budget is for models of another kind."""
    FAILED = "failed"
    """It could not be told."""

    def __str__(self) -> str:
        return str(self.value)


@brief_repr
@dataclass(frozen=True)
class BudgetItem:
    """One budget of one model.

    Attributes:
        status: what came of it.
        message: the claim with its numbers, one sentence without a full stop.
        value, limit: what was found, and what may be at most, or of accuracy at least; None where the budget
            is no number.
        unit: of both: "bytes", "ms", "times", "points"; "" for a count.
        nodes: the evidence: names of nodes in the model, in its order.
        mend: the next step, in words. "" for none.
        budget: the key of the budget.
        seconds: that it took to find out.
    """

    status: Status
    message: str
    value: float | None = None
    limit: float | None = None
    unit: str = ""
    nodes: tuple[str, ...] = ()
    mend: str = ""
    budget: str = ""
    seconds: float = 0.0

    def fails(self, *, strict: bool = False) -> bool:
        """Whether a check ends badly by it.

        Args:
            strict: also where it is not known whether the budget was kept.
        """
        bad = {Status.OVER, Status.FAILED} | ({Status.UNSURE, Status.NOT_COMPARED} if strict else set())
        return self.status in bad

    def data(self) -> dict[str, Any]:
        """For machines."""
        return {**vars(self), "status": str(self.status), "nodes": list(self.nodes)}


def at_most(
    value: float,
    limit: float,
    told: str,
    *,
    unit: str = "",
    nodes: tuple[str, ...] = (),
    mend: str = "",
) -> BudgetItem:
    """An item of a number that is known exactly.

    Args:
        told: number and limit in words.
        mend: the next step where it is over.
    """
    is_over = value > limit
    status = Status.OVER if is_over else Status.WITHIN
    return BudgetItem(status, told, value, limit, unit, nodes if is_over else (), mend if is_over else "")


def not_meant(why: str) -> BudgetItem:
    """An item of a budget for models of another kind."""
    return BudgetItem(Status.NOT_MEANT, why)
