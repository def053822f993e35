"""The size of a model."""

from __future__ import annotations

import os

from thinflow.budgets.item import BudgetItem, at_most, not_meant
from thinflow.budgets.kinds import budget
from thinflow.budgets.limits import size_in_bytes
from thinflow.budgets.subject import Subject
from thinflow.program.amounts import bytes_text


@budget("size", read=size_in_bytes)
def size(model: Subject, limit: float) -> BudgetItem:
    """Bytes of the file, with those of files of weights beside it; of a folder, of all files in it."""
    if not model.path or not os.path.exists(model.path):
        return not_meant("a graph in memory has no file")
    found = model.summary.file_bytes
    told = f"{bytes_text(found)} of {bytes_text(limit)}"
    return at_most(found, limit, told, unit="bytes", mend="thinflow quantize MODEL OUT")
