"""How often a model is right."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from thinflow.budgets.item import BudgetItem, Status
from thinflow.budgets.kinds import budget
from thinflow.budgets.limits import place, points
from thinflow.budgets.subject import Subject
from thinflow.settings.table import Table

_KEYS = ("data", "min", "max_drop", "reference", "labels", "engine")


@dataclass(frozen=True)
class AccuracyLimit:
    """How good a model has to be.

    Attributes:
        data: labelled samples, as for `thinflow evaluate`.
        least: accuracy in percent; None for any.
        drop: points that it may lose beside the reference; None for any.
        reference: path of the model that it is compared with.
        labels: file of class names; None for those in the model.
        engine: that runs both; None for the usual one.
    """

    data: str
    least: float | None
    drop: float | None
    reference: str | None = None
    labels: str | None = None
    engine: str | None = None


def _read(table: Table, key: str) -> AccuracyLimit:
    inner = table.inner(key)
    assert inner is not None, "the key is there"
    inner.require_only(_KEYS)
    data = place(inner, "data", "samples/")
    if not data:
        raise inner.error(f"'{key}' names no samples", 'write data = "samples/"')
    found = AccuracyLimit(
        data,
        points(inner, "min"),
        points(inner, "max_drop"),
        place(inner, "reference", "float.tflite"),
        place(inner, "labels", "labels.txt"),
        inner.text("engine", "litert"),
    )
    if found.least is None and found.drop is None:
        raise inner.error(f"'{key}' has no limit", "write min = 92.5, or max_drop = 1.0 and a reference")
    if (found.drop is None) != (found.reference is None):
        raise inner.error(
            f"'{key}' has one of max_drop and reference", 'write both: max_drop = 1.0, reference = "float.pb"'
        )
    return found


@budget("accuracy", read=_read)
def accuracy(model: Subject, limit: AccuracyLimit) -> BudgetItem:
    """Percent of right answers on labelled samples, or what is lost beside a reference."""
    from thinflow.optimize.evaluation.evaluate import evaluate
    from thinflow.optimize.evaluation.report import Evaluations

    names: dict[str, Any] = {"labels": limit.labels, "engine": limit.engine, "progress": model.progress}
    models = [model.source] if limit.reference is None else [limit.reference, model.source]
    several = evaluate(models, limit.data, shapes=model.shapes, **names, **model.opening)
    assert isinstance(several, Evaluations), "a list was given"
    found = several[-1]
    if found.accuracy is None:
        why = "the samples have no labels, or the model answers with no classes"
        return BudgetItem(Status.FAILED, f"no accuracy is known: {why}")
    items = []
    if limit.least is not None:
        low, high = found.intervals["accuracy"]
        told = f"accuracy {found.accuracy:.2f}% of at least {limit.least:g}%"
        told += f" on {found.samples} samples (95 % interval {low:.1f} to {high:.1f})"
        items.append(_item(limit.least - found.accuracy, limit.least - high, told))
        items[-1] = replace(items[-1], value=found.accuracy, limit=limit.least, unit="%")
    # Of the same samples, which one model answers rightly and the other does not: a narrower interval.
    if limit.drop is not None and found.drop is not None and found.drop_interval is not None:
        low, high = found.drop_interval
        told = f"{found.drop:.2f} points lost of at most {limit.drop:g}"
        told += f" on {found.samples} samples (95 % interval {low:.1f} to {high:.1f})"
        items.append(_item(found.drop - limit.drop, low - limit.drop, told))
        items[-1] = replace(items[-1], value=found.drop, limit=limit.drop, unit="points")
    return _both(items)


def _item(beyond: float, surely: float, told: str) -> BudgetItem:
    """An item by how far it is beyond the limit, and by how much for all that samples can tell."""
    mend = "thinflow evaluate MODEL DATA"
    if beyond <= 0:
        return BudgetItem(Status.WITHIN, told)
    if surely > 0:
        return BudgetItem(Status.OVER, told, mend=mend)
    return BudgetItem(Status.UNSURE, f"{told}; other samples may tell otherwise", mend=mend)


def _both(items: list[BudgetItem]) -> BudgetItem:
    """One item of all: the worst, with what was found besides."""
    order = (Status.OVER, Status.UNSURE, Status.WITHIN)
    first, *others = sorted(items, key=lambda item: order.index(item.status))
    return replace(first, message="; ".join([first.message, *(item.message for item in others)]))
