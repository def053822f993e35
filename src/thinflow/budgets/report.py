"""The report on budgets: in lines, for GitHub, for JUnit and for machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from thinflow.budgets.item import BudgetItem, Status
from thinflow.errors.plain_text import one_line
from thinflow.ir.brief import brief_repr
from thinflow.ir.notebook import text_html
from thinflow.lint.words import count, wrapped

_SHOWN_NODES = 3
_NOT_KEPT = {
    Status.OVER: "over",
    Status.FAILED: "failed",
    Status.UNSURE: "unsure",
    Status.NOT_COMPARED: "not compared",
}


@brief_repr
@dataclass(frozen=True)
class ModelCheck:
    """The budgets of one model.

    Attributes:
        model: its path; "" for a graph in memory.
        items: what came of each budget.
        settings: path of the file that they stand in; "" for none.
    """

    model: str
    items: tuple[BudgetItem, ...]
    settings: str = ""

    @property
    def name(self) -> str:
        """The path, or what a graph in memory is called."""
        return self.model or "graph"

    def item(self, budget: str) -> BudgetItem | None:
        """What came of a budget, by its key; None if the model has no such budget."""
        return next((item for item in self.items if item.budget == budget), None)

    @property
    def verdict(self) -> str:
        """One sentence: `1 of 5 budgets over: size`."""
        asked = [item for item in self.items if item.status is not Status.NOT_MEANT]
        told = [
            f"{len(keys)} {word}: {', '.join(keys)}"
            for status, word in _NOT_KEPT.items()
            if (keys := [item.budget for item in asked if item.status is status])
        ]
        if not asked:
            return "no budget is for it"
        if not told:
            return f"within {'its budget' if len(asked) == 1 else f'all {len(asked)} budgets'}"
        return f"{count(len(asked), 'budget')}, {'; '.join(told)}"

    def data(self) -> dict[str, Any]:
        """For machines."""
        items = [item.data() for item in self.items]
        return {"model": self.model, "verdict": self.verdict, "settings": self.settings, "items": items}


@brief_repr
@dataclass(frozen=True)
class CheckReport:
    """Whether models keep their budgets.

    Attributes:
        models: one after the other.
        stored: paths of the files that times were stored in.
    """

    models: tuple[ModelCheck, ...]
    stored: tuple[str, ...] = ()

    @property
    def items(self) -> list[BudgetItem]:
        """What came of each budget of each model."""
        return [item for model in self.models for item in model.items]

    def failures(self, *, strict: bool = False) -> list[BudgetItem]:
        """What makes the check end badly.

        Args:
            strict: also where it is not known whether a budget was kept.
        """
        return [item for item in self.items if item.fails(strict=strict)]

    @property
    def is_within(self) -> bool:
        """Whether no model is known to be over a budget, and all could be told."""
        return not self.failures()

    @property
    def verdict(self) -> str:
        """One sentence."""
        if len(self.models) == 1:
            return f"{self.models[0].name}: {self.models[0].verdict}"
        # Of several models the verdict counts, and their own lines name.
        bad = [model.name for model in self.models if any(item.fails() for item in model.items)]
        kinds = Counter(item.status for item in self.items)
        unknown = sum(kinds[status] for status in (Status.UNSURE, Status.NOT_COMPARED))
        more = f"; {count(unknown, 'budget')} not known" if unknown else ""
        if not bad:
            return f"{len(self.models)} models within their budgets{more}"
        return f"{len(bad)} of {len(self.models)} models not within their budgets{more}"

    def data(self) -> dict[str, Any]:
        """For machines."""
        return {
            "verdict": self.verdict,
            "within": self.is_within,
            "models": [model.data() for model in self.models],
            "stored": list(self.stored),
        }

    def lines(self, *, everything: bool = False) -> list[str]:
        """The verdict, then each model with what came of its budgets, those that were not kept first.

        Args:
            everything: also budgets for models of another kind, and all nodes.
        """
        return [*_lines(self, everything)]

    def _repr_html_(self) -> str:
        return text_html(str(self))

    def __str__(self) -> str:
        return "\n".join(self.lines())


_ORDER = (Status.OVER, Status.FAILED, Status.UNSURE, Status.NOT_COMPARED, Status.WITHIN, Status.NOT_MEANT)


def _lines(report: CheckReport, everything: bool) -> Iterator[str]:
    yield from wrapped(report.verdict)
    for model in report.models:
        if len(report.models) > 1:
            yield from wrapped(f"{model.name}: {model.verdict}")
        width = max((len(item.budget) for item in model.items), default=0)
        for item in sorted(model.items, key=lambda item: _ORDER.index(item.status)):
            if everything or item.status is not Status.NOT_MEANT:
                yield from _item_lines(item, width, everything)
    for path in report.stored:
        yield from wrapped(f"stored: {path}")


def _item_lines(item: BudgetItem, width: int, everything: bool) -> Iterator[str]:
    head = f"  {item.budget:{width}}  {item.status!s:12}  "
    later = " " * len(head)
    first, *others = wrapped(item.message, later, later)
    yield f"{head}{first.lstrip()}"
    yield from others
    shown = item.nodes if everything else item.nodes[:_SHOWN_NODES]
    for name in shown:
        # On a line of its own: names are never cut, and are long.
        yield f"{later}at {one_line(name)}"
    if len(item.nodes) > len(shown):
        yield f"{later}and at {len(item.nodes) - len(shown)} more"
    if item.mend and item.status not in (Status.WITHIN, Status.NOT_MEANT):
        yield from wrapped(f"try: {item.mend}", later, f"{later}  ")
