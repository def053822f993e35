"""The result of a verification: the differences of outputs, and the first value that differs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from thinflow.compare.differences import NO_CHANGE, Difference
from thinflow.compare.divergence import Divergence
from thinflow.compare.layer_differences import Layer
from thinflow.errors.plain_text import one_line
from thinflow.ir.brief import brief_repr
from thinflow.ir.notebook import text_html


@brief_repr
@dataclass
class OutputReport:
    """One output of both graphs, over all feeds."""

    name: str
    largest: float = 0.0
    relative: float = 0.0
    index: tuple[int, ...] = ()
    before: Any = None
    after: Any = None
    step: float = 0.0
    """Distance of neighbouring codes of a quantized output; 0 if it is not quantized."""

    def __str__(self) -> str:
        codes = f" ({self.largest / self.step:.3g} codes of {self.step:.3g})" if self.step else ""
        return f"{self.name}: {self.largest:.3g} absolute{codes}, {self.relative:.3g} relative"

    def add(self, found: Difference) -> None:
        """Take one more run into account."""
        # Not above only: the first run's numbers are shown even if nothing differs.
        if found.relative >= self.relative:
            self.largest, self.relative = found.largest, found.relative
            self.index, self.before, self.after = found.index, found.before, found.after


@brief_repr
@dataclass
class Verification:
    """Result of comparing two graphs.

    Attributes:
        outputs: per output the worst difference.
        tolerance: relative difference up to which they agree.
        first_divergence: name in the first graph of the first value (in running order) that differs and
            reaches an output; "" if none, or if nobody could look.
        runs: how many feeds were compared.
        notes: what else to know.
        divergence: the same value with its twin's name and the numbers; None likewise.
        layers: of files, how far apart each pair of inner tensors is, in the order they run; see
            `layer_differences`.
    """

    outputs: list[OutputReport]
    tolerance: float
    first_divergence: str = ""
    runs: int = 0
    notes: list[str] = field(default_factory=list)
    divergence: Divergence | None = None
    layers: list[Layer] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return all(o.relative <= self.tolerance for o in self.outputs)

    @property
    def worst(self) -> float:
        """Largest relative difference of any output."""
        return max((o.relative for o in self.outputs), default=0.0)

    @property
    def worst_output(self) -> str:
        """Name of the output that differs most; "" if nothing differs."""
        worst = max(self.outputs, key=lambda o: o.relative, default=None)
        return worst.name if worst is not None and worst.relative > 0 else ""

    def _repr_html_(self) -> str:
        return text_html(str(self))

    def __str__(self) -> str:
        verdict = "the graphs agree" if self.ok else "the graphs DIFFER"
        lines = [
            f"{verdict}: largest relative difference {self.worst:.3g} over {self.runs} runs "
            f"(tolerance {self.tolerance:g})"
        ]
        lines += [f"  {o}" for o in self.outputs]
        if not self.ok and len(self.outputs) > 1:
            lines.append(f"worst output: {self.worst_output}")
        if self.divergence is not None:
            lines += [f"first value that differs: {self.divergence}", self.divergence.detail]
        elif self.first_divergence:
            lines.append(f"first value that differs: {self.first_divergence}")
        return "\n".join(map(one_line, [*lines, *self.notes, explain_tolerance(self.tolerance)]))


def explain_tolerance(tolerance: float) -> str:
    """The meaning of a tolerance, in a sentence."""
    return (
        f"tolerance {tolerance:g}: |a - b| may be up to {tolerance:g} of the largest |a| of the same output; "
        f"another order of additions alone makes about {NO_CHANGE:g} per layer"
    )
