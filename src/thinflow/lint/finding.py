"""Findings of the linter."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from enum import IntEnum
from typing import Any

from thinflow.errors import ParameterError, closest
from thinflow.ir.brief import brief_repr


class Severity(IntEnum):
    """The weight of a finding; a larger one weighs more."""

    INFO = 1
    """Worth knowing, and often on purpose."""
    WARNING = 2
    """Costs size, speed or accuracy, or makes a mistake likely."""
    ERROR = 3
    """The model gives wrong answers, or none."""

    def __str__(self) -> str:
        return self.name.lower()


def severity(name: str) -> Severity:
    """A severity by its name.

    Raises:
        ParameterError: there is none of that name.
    """
    known = {str(s): s for s in Severity}
    if name not in known:
        hint = closest(name, known) or f"it is one of {', '.join(known)}"
        raise ParameterError(f"there is no severity '{name}'", hint=hint)
    return known[name]


@brief_repr
@dataclass(frozen=True)
class LintFinding:
    """One thing that a rule of the linter noticed.

    Attributes:
        message: the claim with its numbers, one sentence without a full stop.
        nodes: the evidence: names of nodes in the model, in its order.
        size_bytes: that it costs in the file; None if that cannot be told.
        flops: operations of each run that it costs; None if that cannot be told.
        ms: milliseconds of each run that its nodes take, if the model was timed; None if that is not known.
        mend: what mends it, in words; MODEL stands for the model. "" where `fix` says it all.
        fix: transforms that mend it, as a transform string; "" if none does.
        severity: of its rule, unless the rule says otherwise.
        code, rule: of its rule: "TF301", "foldable_batch_norm".
    """

    message: str
    nodes: tuple[str, ...] = ()
    size_bytes: int | None = None
    flops: int | None = None
    ms: float | None = None
    mend: str = ""
    fix: str = ""
    severity: Severity | None = None
    code: str = ""
    rule: str = ""

    def beyond_mending(self) -> LintFinding:
        """The same where its transforms were run in vain, or cannot be: they are proposed no more."""
        vain = f"{self.fix} does not mend it in this file; export the model without it"
        return replace(self, fix="", mend=self.mend or vain) if self.fix else self

    def data(self) -> dict[str, Any]:
        """For machines."""
        return {**asdict(self), "severity": str(self.severity), "nodes": list(self.nodes)}
