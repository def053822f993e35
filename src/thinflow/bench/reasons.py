"""Why an eight-bit model is slower than a float one, by what their operators took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from thinflow.bench.profile_model import Profile

if TYPE_CHECKING:
    from thinflow.bench.profile_text import RowProfile
    from thinflow.bench.report import BenchmarkReport

_SHARE = 0.5
"""Of the time that a model takes more, what takes less of it is no reason."""


def measured_reasons(report: BenchmarkReport, profiles: Sequence[RowProfile]) -> list[str]:
    """A sentence for each eight-bit model that is slower than a float one, where their profiles show why."""
    found = {id(p.row): p.profile for p in profiles}
    lines = []
    for slow, fast in report.slower_eight_bits():
        after, before = found.get(id(slow)), found.get(id(fast))
        why = reason(after, before) if after is not None and before is not None else ""
        if why:
            lines.append(f"{slow.subject} is eight-bit and slower on {slow.setting}: {why}")
    return list(dict.fromkeys(lines))


def reason(slow: Profile, fast: Profile) -> str:
    """The op that most of the additional time goes into, in words; empty if there is no such op or time."""
    before, after = _ms_by_op(fast), _ms_by_op(slow)
    more = sum(after.values()) - sum(before.values())
    conversions = {"QUANTIZE", "DEQUANTIZE", "QuantizeLinear", "DequantizeLinear", "QuantizeV2", "Dequantize"}
    # By op, since nodes of the two models have other names where a converter has fused them.
    gaps = {op: ms - before.get(op, 0.0) for op, ms in after.items() if op not in conversions}
    converting = sum(after.get(op, 0.0) - before.get(op, 0.0) for op in conversions)
    op = max(gaps, key=lambda name: gaps[name], default="")
    added, least = f"it takes {more:.3g} ms more", _SHARE * more
    if more > 0 and converting >= max(least, gaps.get(op, 0.0)):
        return f"{added}; converting between float and eight bits takes {converting:.3g} ms"
    if more > 0 and gaps.get(op, 0.0) >= least:
        return f"{added}; {op} takes {after[op]:.3g} ms, in float {before.get(op, 0.0):.3g} ms"
    return ""


def _ms_by_op(profile: Profile) -> Mapping[str, float]:
    """Milliseconds a run of each op."""
    return {op: micros / 1000 for op, micros in profile.stats.type_micros()}
