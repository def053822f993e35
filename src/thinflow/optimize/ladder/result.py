"""The ladder's result: every candidate, the front, and what was chosen; as sentences, table and data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from thinflow.ir.brief import brief_repr
from thinflow.optimize.ladder.budget import Budget
from thinflow.optimize.ladder.choice import Choice, front, misfits
from thinflow.optimize.ladder.measured import POOR_SQNR_DB, Measured
from thinflow.optimize.quality import LOUDEST
from thinflow.program.amounts import bytes_text, ms_text


@brief_repr
@dataclass(frozen=True)
class Ladder:
    """All candidates of a runtime, and what was chosen of them.

    Attributes:
        runtime: LiteRT or ONNX.
        budget: that was to be kept.
        measured: every candidate, the float model first.
        choice: the best within the budget, or the best found.
        notes: sentences on how it was done.
    """

    runtime: str
    budget: Budget
    measured: Sequence[Measured]
    choice: Choice
    notes: Sequence[str] = field(default_factory=list)

    @property
    def is_reached(self) -> bool:
        """True if what is shipped keeps the budget."""
        return not self.choice.missed

    @cached_property
    def front(self) -> list[Measured]:
        """Candidates that no other beats in size, time and quality at once, the smallest first."""
        return front(self.measured)

    @property
    def sentence(self) -> str:
        """What became of the budget, up to the best's name."""
        if self.is_reached:
            return f"within {self.budget.text}"
        return f"OUT OF REACH is {self.budget.text}: {self.choice.missed}; best found"

    def data(self) -> dict[str, Any]:
        """For JSON."""
        on_front = {m.name for m in self.front}
        return {
            "budget": asdict(self.budget),
            "reached": self.is_reached,
            "missed": self.choice.missed,
            "chosen": self.choice.best.name,
            "front": [m.name for m in self.front],
            "candidates": [
                {**m.data(), "on_front": m.name in on_front, "misfits": misfits(m, self.budget)}
                for m in self.measured
            ],
            "notes": list(self.notes),
        }

    def rows(self) -> list[list[str]]:
        """A table: a header, then a row for each candidate with a file of its own, the smallest first."""
        own = sorted((m for m in self.measured if m.is_own), key=lambda m: (m.size_bytes, m.loss))
        times = ["time", "x float"] if self._is_timed else []
        return [["  candidate", "size", "RAM", *times, "loss", "dB"], *map(self._row, own)]

    @property
    def _is_timed(self) -> bool:
        return any(m.latency is not None for m in self.measured)

    def _row(self, one: Measured) -> list[str]:
        mark = ">" if one is self.choice.best else "*" if one in self.front else " "
        over = misfits(one, self.budget)
        drop, found = one.quality.drop, one.latency
        cells = {
            "name": f"{mark} {one.name}",
            "size": bytes_text(one.size_bytes),
            "RAM": bytes_text(one.ram_bytes),
            "latency": "-" if found is None else ms_text(found.ms),
            "ratio": "-" if found is None else f"{found.ratio:.2f}",
            "drop": "-" if drop is None else f"{drop:.1f}",
            "dB": "-" if one.is_float or one.exactness_db >= LOUDEST else f"{one.exactness_db:.1f}",
        }
        # Where there is no share of answers, noise is what is judged.
        judged = "dB" if drop is None else "drop"
        for word in over:
            cells[judged if word == "drop" else word] += "!"
        if not self._is_timed:
            del cells["latency"], cells["ratio"]
        return list(cells.values())

    def table(self) -> list[str]:
        """The same as lines, of at most 80 columns."""
        return aligned(self.rows(), numbers_from=1)

    def lines(self) -> list[str]:
        """What the command prints of it."""
        head = f"{self.runtime} candidates, {self.sentence}: {self.choice.best.name}"
        return [head, *self.table(), *self.remarks()]

    @property
    def plot_name(self) -> str:
        """The file name of its picture."""
        return f"ladder_{self.runtime.lower()}.svg"

    def remarks(self) -> list[str]:
        """Sentences below the table: what the marks mean, what failed, and which files are the same."""
        quality = self.choice.best.quality
        loss = (
            "loss in points of accuracy"
            if quality.accuracy is not None
            else "loss in points of equal answers"
        )
        if quality.drop is None:
            loss = f"no answers to count, so SQNR has to be {POOR_SQNR_DB:g} dB"
        found = [
            "marks: > shipped, * on the front of size, time and quality, ! over the budget",
            f"{loss}; {_memory(self.budget)}",
        ]
        twins = [f"{m.name} is {m.same_as}" for m in self.measured if m.same_as]
        more = f", and {len(twins) - _SHOWN} more" if len(twins) > _SHOWN else ""
        found += [f"the same files: {', '.join(twins[:_SHOWN])}{more}"] if twins else []
        found += [f"{m.name}: {m.failure}" for m in self.measured if m.failure]
        found += [f"{m.name}: {m.note}" for m in self.measured if m.recipe.prune and m.note and m.is_own]
        return [*found, *self.notes]


_SHOWN = 3
"""Candidates without a file of their own that are told."""


def aligned(rows: Sequence[Sequence[str]], *, numbers_from: int | None = None) -> list[str]:
    """Rows as lines, two spaces between columns; those from a number on are aligned to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    right = len(widths) if numbers_from is None else numbers_from
    return [
        "  ".join(
            cell.rjust(width) if i >= right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _memory(budget: Budget) -> str:
    """What the columns of size and memory hold."""
    if budget.target:
        return f"size and RAM: flash and all memory of the C on {budget.target}"
    return "RAM: activations and unpacked weights in one arena"
