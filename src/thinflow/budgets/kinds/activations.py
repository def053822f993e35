"""The memory of what is computed between inputs and outputs."""

from __future__ import annotations

from thinflow.budgets.item import BudgetItem, Status, at_most
from thinflow.budgets.kinds import budget
from thinflow.budgets.limits import size_in_bytes
from thinflow.budgets.subject import Subject
from thinflow.program.amounts import bytes_text


@budget("activations", read=size_in_bytes)
def activations(model: Subject, limit: float) -> BudgetItem:
    """Bytes of the values that are alive at once, planned, not measured; of a .tflite file, of its arena."""
    where: tuple[str, ...] = ()
    if model.program is not None:
        # The plan of the runtime itself, which cannot pack as tightly as the graph alone suggests.
        from thinflow.program.arena import arena_bytes

        found = arena_bytes(model.program.subgraphs)
    else:
        peak = model.summary.peak
        if peak is None or not peak.complete:
            why = "the graph cannot be sorted" if peak is None else "sizes are open"
            return BudgetItem(
                Status.FAILED, f"not known: {why}", limit=limit, unit="bytes", mend="thinflow inspect MODEL"
            )
        found, where = peak.size_bytes, (peak.node,)
    told = f"{bytes_text(found)} of {bytes_text(limit)}"
    return at_most(found, limit, told, unit="bytes", nodes=where, mend="thinflow inspect MODEL")
