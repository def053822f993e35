"""Names of operators, and what is told of those that break a budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from thinflow.budgets.item import BudgetItem, Status
from thinflow.budgets.subject import Operation
from thinflow.errors.plain_text import one_line

_SHOWN = 3


def matches(op: str, patterns: Iterable[str]) -> bool:
    """Whether a name is one of some, which may have * in them for any letters."""
    return any(fnmatchcase(op, pattern) for pattern in patterns)


def op_item(wrong: Sequence[Operation], every: Sequence[Operation], why: str) -> BudgetItem:
    """The item of a budget on operators.

    Args:
        wrong: those that break it.
        every: all.
        why: of one, in a few words.
    """
    kinds = Counter(o.op for o in wrong)
    if not kinds:
        count = len({o.op for o in every})
        told = f"{len(every):,} operators of {count} kind{'s' if count != 1 else ''}, all of them allowed"
        return BudgetItem(Status.WITHIN, told)
    told = ", ".join(f"{count} x {one_line(op)}" for op, count in kinds.most_common(_SHOWN))
    more = f" and {len(kinds) - _SHOWN} kinds more" if len(kinds) > _SHOWN else ""
    plural = why.replace("is ", "are ", 1) if sum(kinds.values()) > 1 else why
    return BudgetItem(
        Status.OVER,
        f"{told}{more} {plural}",
        nodes=tuple(o.name for o in wrong),
        mend="thinflow inspect MODEL",
    )
