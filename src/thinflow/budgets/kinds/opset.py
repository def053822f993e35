"""The opset of an ONNX model."""

from __future__ import annotations

import re

from thinflow.budgets.item import BudgetItem, Status, at_most, not_meant
from thinflow.budgets.kinds import budget
from thinflow.budgets.limits import whole_number
from thinflow.budgets.subject import Subject
from thinflow.settings.table import Table


def _opset(table: Table, key: str) -> int:
    return whole_number(table, key, 17)


@budget("opset", read=_opset)
def opset(model: Subject, limit: int) -> BudgetItem:
    """The version of ONNX's operators in an .onnx file."""
    if model.kind != "onnx":
        return not_meant("it is no .onnx file")
    # What the file says of its versions, ONNX's own first: "17, ai.onnx.ml 3".
    said = model.graph.facts.get("opset", "")
    found = re.match(r"\d+", said)
    if found is None:
        return BudgetItem(Status.FAILED, "the file does not say its opset")
    told = f"opset {found[0]} of at most {limit}"
    return at_most(int(found[0]), limit, told, mend="thinflow convert MODEL OUT.onnx")
