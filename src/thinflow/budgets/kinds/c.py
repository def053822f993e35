"""Plain C for microcontrollers."""

from __future__ import annotations

from dataclasses import dataclass

from thinflow.budgets.item import BudgetItem, Status
from thinflow.budgets.kinds import budget
from thinflow.budgets.limits import size_in_bytes
from thinflow.budgets.subject import Subject
from thinflow.errors import ParameterError, UnsupportedOp
from thinflow.fit.judge import Place, place_of
from thinflow.program.amounts import bytes_text
from thinflow.settings.table import Table

_KEYS = ("cpu", "chip", "flash", "ram")


@dataclass(frozen=True)
class CLimit:
    """What a model may take as C.

    Attributes:
        place: where it is to run, with the memory of it.
        is_bounded: whether that is a limit.
    """

    place: Place
    is_bounded: bool = False


def _read(table: Table, key: str) -> CLimit:
    if table.values[key] is True:
        return CLimit(place_of())
    inner = table.inner(key)
    assert inner is not None, "the key is there"
    inner.require_only(_KEYS)
    flash, ram = (size_in_bytes(inner, name) if name in inner else None for name in ("flash", "ram"))
    chip = inner.text("chip", "nRF52840")
    try:
        place = place_of(inner.text("cpu", "cortex-m4"), None, ram, flash, chip)
    except ParameterError as error:
        raise inner.error(f"'{key}': {error.problem}", error.hint) from error
    return CLimit(place, is_bounded=bool(flash or ram or chip))


@budget("c", read=_read)
def c(model: Subject, limit: CLimit) -> BudgetItem:
    """Whether it can be written as C, and what it takes then of flash and memory, estimated."""
    from thinflow.optimize.fit_job import FitOptions, fit

    # Without a compiler: the same answer on all machines.
    options = FitOptions(limit.place, compile=False, remedies=False)
    try:
        found = fit(model.source, model.shapes, dict(model.opening), options)
    except UnsupportedOp as error:
        return BudgetItem(Status.OVER, f"it has no form in C: {error.message}", mend=error.hint)
    took = f"{bytes_text(found.flash_bytes)} of flash, {bytes_text(found.ram_bytes)} of RAM on {found.cpu}"
    if found.misses and limit.is_bounded:
        mend = "thinflow fit MODEL"
        return BudgetItem(Status.OVER, f"{', '.join(found.misses)} on {found.cpu}", mend=mend)
    return BudgetItem(Status.WITHIN, f"it can be written as C: {took}")
