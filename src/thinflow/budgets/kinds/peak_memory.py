"""The memory of a process that runs a model."""

from __future__ import annotations

from thinflow.budgets.item import BudgetItem, Status, at_most
from thinflow.budgets.kinds import budget
from thinflow.budgets.limits import size_in_bytes
from thinflow.budgets.subject import Subject
from thinflow.program.amounts import bytes_text


@budget("peak_memory", read=size_in_bytes)
def peak_memory(model: Subject, limit: float) -> BudgetItem:
    """Bytes of a new process that opens the model and runs it three times, as `benchmark` measures them."""
    from thinflow.bench.memory import measure_memory
    from thinflow.bench.open_targets import open_subjects

    # As it ships: a file in its own runtime, a graph in LiteRT.
    (opened,) = open_subjects(model.source, shapes=model.shapes, **model.opening)
    found = measure_memory(opened, opened.own_engine, 1)
    if found.peak_bytes is None:
        return BudgetItem(Status.FAILED, f"not measured: {found.error}", limit=limit, unit="bytes")
    told = f"{bytes_text(found.peak_bytes)} of {bytes_text(limit)}"
    return at_most(found.peak_bytes, limit, told, unit="bytes", mend="thinflow benchmark MODEL")
