"""The report of the linter."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from thinflow.errors.plain_text import one_line
from thinflow.ir.brief import brief_repr
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.words import count, wrapped
from thinflow.program.amounts import bytes_text

if TYPE_CHECKING:
    from thinflow.lint.times import RunTimes

_SHOWN_NODES = 3
_MODEL = re.compile(r"(\bthinflow \w+ )MODEL\b")
_NOUNS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


@brief_repr
@dataclass
class LintReport:
    """What the linter found in a model.

    Attributes:
        model: path of the model; "" for a graph in memory.
        findings: the heaviest first, then by code.
        rules: codes of the rules that looked.
        skipped: code -> why a rule did not look.
        broken: code -> how a rule failed; the others looked all the same.
        notes: sentences on how the model was opened.
        settings: path of the settings that were read; "" if there were none.
        fixed: codes of what `fix` mended; it is in none of `findings` any more.
        partly: codes of what it mended at some nodes; the rest is among `findings`.
        written: path of the file that `fix` wrote; "" if it wrote none.
        proof: what it made smaller and how that was proven, in words; "" if it wrote none.
        times: how the milliseconds of findings were measured; None if they were not.
    """

    model: str
    findings: list[LintFinding]
    rules: list[str]
    skipped: dict[str, str] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    settings: str = ""
    fixed: list[str] = field(default_factory=list)
    partly: list[str] = field(default_factory=list)
    written: str = ""
    proof: str = ""
    times: RunTimes | None = None

    def at_least(self, severity: Severity) -> list[LintFinding]:
        """The findings of that weight and above."""
        return [f for f in self.findings if f.severity is not None and f.severity >= severity]

    @property
    def fixable(self) -> list[LintFinding]:
        """The findings that transforms mend."""
        return [f for f in self.findings if f.fix]

    @property
    def verdict(self) -> str:
        """One sentence: `2 warnings, 1 note by 30 rules`."""
        counts = [(noun, sum(f.severity is s for f in self.findings)) for s, noun in _NOUNS.items()]
        told = ", ".join(count(number, noun) for noun, number in counts if number)
        looked = count(len(self.rules) - len(self.broken), "rule")
        broken = f"; {count(len(self.broken), 'rule')} failed" if self.broken else ""
        fixed = f"{len(self.fixed)} mended, " if self.written else ""
        fixed += f"{len(self.partly)} mended in part, " if self.partly else ""
        return f"{fixed}{told or 'nothing found'} by {looked}{broken}"

    def data(self) -> dict[str, Any]:
        """For machines."""
        return {
            "model": self.model,
            "verdict": self.verdict,
            "findings": [finding.data() for finding in self.findings],
            "fixed": self.fixed,
            "partly": self.partly,
            "written": self.written,
            "proof": self.proof,
            "rules": self.rules,
            "skipped": self.skipped,
            "broken": self.broken,
            "notes": self.notes,
            "settings": self.settings,
            "times": None if self.times is None else self.times.data(),
        }

    def lines(self, *, everything: bool = False) -> list[str]:
        """The verdict, then the findings, the heaviest first.

        Args:
            everything: whether all nodes are named, not only the first.
        """
        return [*_lines(self, everything=everything)]

    def _repr_html_(self) -> str:
        from thinflow.ir.notebook import text_html

        return text_html(str(self))

    def __str__(self) -> str:
        return "\n".join(self.lines())


def in_order(findings: Sequence[LintFinding]) -> list[LintFinding]:
    """Findings with the heaviest first, then by code."""
    return sorted(findings, key=lambda f: (-(f.severity or Severity.INFO), f.code))


def _lines(report: LintReport, *, everything: bool) -> Iterator[str]:
    yield from wrapped(f"{report.model or 'graph'}: {report.verdict}")
    for note in report.notes:
        yield from wrapped(f"  note: {note}")
    if report.times is not None:
        yield from wrapped(f"  times: {report.times.sentence}")
    run_ms = None if report.times is None else report.times.run_ms
    for finding in report.findings:
        yield from _finding_lines(finding, everything, report.model, run_ms)
    if report.fixed:
        yield from wrapped(f"mended: {', '.join(report.fixed)}")
    if report.partly:
        yield from wrapped(f"mended in part: {', '.join(report.partly)}")
    if report.proof:
        yield from wrapped(f"proven: {report.proof}")
    for code, why in report.broken.items():
        yield from wrapped(f"{code} failed, and says nothing of this model: {why}")
    for why in dict.fromkeys(report.skipped.values()):
        codes = [code for code, reason in report.skipped.items() if reason == why]
        yield from wrapped(f"{count(len(codes), 'rule')} did not look ({', '.join(codes)}): {why}")


def _finding_lines(finding: LintFinding, everything: bool, model: str, run_ms: float | None) -> Iterator[str]:
    yield from wrapped(f"{finding.code} {finding.severity}: {finding.message}", "", "      ")
    shown = finding.nodes if everything else finding.nodes[:_SHOWN_NODES]
    for name in shown:
        # On a line of its own: names are never cut, and are long.
        yield f"      at {one_line(name)}"
    if len(finding.nodes) > len(shown):
        yield f"      and at {len(finding.nodes) - len(shown)} more"
    if cost := cost_text(finding, run_ms):
        yield from wrapped(f"cost: {cost}", "      ", "      ")
    if finding.fix:
        yield from wrapped(f"mend: --fix OUT, which runs {finding.fix}", "      ", "        ")
    if finding.mend:
        named = shlex.quote(model) if model else "MODEL"
        mend = _MODEL.sub(lambda found: found[1] + named, finding.mend)
        yield from wrapped(f"mend: {mend}", "      ", "        ")


def cost_text(finding: LintFinding, run_ms: float | None = None) -> str:
    """What a finding costs: `12.0 kB, 3.4 MFLOP a run, 0.21 ms, 4 % of a run`; "" where nothing is known.

    Args:
        run_ms: what a run takes, if it was timed.
    """
    parts = [bytes_text(finding.size_bytes)] if finding.size_bytes else []
    parts += [f"{_flops_text(finding.flops)} a run"] if finding.flops else []
    if finding.ms is not None and run_ms:
        # Kernels of a delegate that overlap may take more than the whole.
        percent = min(100 * finding.ms / run_ms, 100)
        share = f"{percent:.0f} %" if percent >= 1 else "under 1 %"
        parts.append(f"{finding.ms:.3g} ms, {share} of a run")
    return ", ".join(parts)


def _flops_text(flops: float) -> str:
    for factor, unit in ((1e9, "GFLOP"), (1e6, "MFLOP"), (1e3, "kFLOP")):
        if flops >= factor:
            return f"{flops / factor:.3g} {unit}"
    return f"{flops:g} FLOP"
