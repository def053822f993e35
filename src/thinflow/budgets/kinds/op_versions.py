"""The versions of LiteRT's operators."""

from __future__ import annotations

from thinflow.budgets.item import BudgetItem, Status, not_meant
from thinflow.budgets.kinds import budget
from thinflow.budgets.limits import whole_number
from thinflow.budgets.matching import matches
from thinflow.budgets.subject import Subject
from thinflow.settings.table import Table


def _versions(table: Table, key: str) -> dict[str, int]:
    inner = table.inner(key)
    if inner is None or not inner.values:
        raise table.error(f"'{key}' names no operator", f"write {key} = {{ CONV_2D = 3 }}")
    return {op: whole_number(inner, op, 3) for op in inner.values}


@budget("op_versions", read=_versions)
def op_versions(model: Subject, limit: dict[str, int]) -> BudgetItem:
    """The highest version that an operator of a .tflite file may have; names may have * for any letters."""
    if model.program is None:
        return not_meant("it is no .tflite file")
    found: dict[str, int] = {}
    # One code may stand in the file in several versions; the highest decides which runtimes are too old.
    for block in model.program.subgraphs:
        for operator in block.operators:
            found[operator.code] = max(found.get(operator.code, 0), operator.version)
    # The longest of several names that mean an operator: an exact one before one with *.
    asked = {op: max((p for p in limit if matches(op, [p])), key=len, default="") for op in found}
    wrong = [op for op, pattern in asked.items() if pattern and found[op] > limit[pattern]]
    if wrong:
        told = ", ".join(f"{op} has version {found[op]}, not up to {limit[asked[op]]}" for op in wrong)
        return BudgetItem(Status.OVER, told, mend="thinflow inspect MODEL")
    highest = max((op for op in asked if asked[op]), key=lambda op: found[op], default="")
    told = f"up to {highest} version {found[highest]}" if highest else "it has none of these operators"
    return BudgetItem(Status.WITHIN, told)
