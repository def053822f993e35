"""Times of the nodes of benchmarked models as tables and data, and why an eight-bit model is slower."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from thinflow.bench.profile import profile
from thinflow.bench.profile_model import Profile
from thinflow.bench.rows import Table, pipes, shortened
from thinflow.bench.timing_loop import tell
from thinflow.errors import ThinflowError
from thinflow.errors.plain_text import markdown
from thinflow.ir.brief import brief_repr
from thinflow.typing import Progress

if TYPE_CHECKING:
    from thinflow.bench.report import BenchmarkReport
    from thinflow.bench.rows import Row

TOP = 15
# Columns an op, a kernel beside a long name, and any name gets; and a kernel beside a part, which says where.
_OP, _KERNEL, _SHORTEST, _SHORT_KERNEL = 22, 24, 12, 8
_GAP, _FIGURES = 2, 22  # between columns; what the columns of numbers take, with the gaps around them


@brief_repr
@dataclass(frozen=True)
class RowProfile:
    """Times of the nodes of one row of a benchmark.

    Attributes:
        profile: None if there is none.
        refusal: why not.
    """

    row: Row
    profile: Profile | None
    refusal: str = ""

    @property
    def title(self) -> str:
        """The model, its engine and the method, as a heading."""
        how = ""
        if self.profile is not None:
            how = f": {self.profile.method}; medians of {self.profile.stats.micros.count} runs"
        engine = f"{self.row.engine}, " if self.row.threads is not None else ""
        return f"{self.row.subject}, {engine}{self.row.setting}, node by node{how}"

    def tables(self, width: int | None = None) -> list[Table]:
        """Sums by op, and the nodes that take longest; names are shortened to fit a width, if given."""
        if self.profile is None:
            return []
        count = len(self.profile.stats.rows)
        nodes = "node" if count <= TOP else f"node (the slowest {TOP} of {count})"
        headers, cells = [nodes, "op", "ms", "%", "kernel"], node_rows(self.profile, width=width)
        tables = [(["op", "nodes", "ms", "%"], type_rows(self.profile))]
        # Where one engine runs all of it there is nothing to tell apart.
        if self.profile.parts:
            tables.insert(0, (["part", "nodes", "ms", "%"], part_rows(self.profile)))
            headers.insert(1, "part")
        return [*tables, (headers, cells)]

    def markdown(self) -> str:
        """Title and tables."""
        lines = ["", f"## {markdown(self.title)}", *([markdown(self.refusal)] if self.refusal else [])]
        for headers, cells in self.tables():
            lines += ["", pipes(headers), "|" + "---|" * len(headers), *map(pipes, cells)]
        return "\n".join(lines) + "\n"

    def data(self) -> dict[str, Any]:
        """For JSON: every node, by the graph's names, as they ran."""
        row = {"subject": self.row.subject, "engine": self.row.engine, "threads": self.row.threads}
        if self.profile is None:
            return {**row, "refusal": self.refusal}
        whole = self.profile.whole_micros
        return {
            **row,
            "method": self.profile.method,
            "fed": self.profile.fed,
            "runs": self.profile.stats.micros.count,
            "run_ms": median(whole or [0]) / 1000,
            "parts": [part.data() for part in self.profile.parts],
            "nodes": list(_nodes(self.profile)),
        }


def profile_rows(
    report: BenchmarkReport, *, progress: Progress | None = None, **options: Any
) -> list[RowProfile]:
    """Profile every row of a report of files, in the same setting.

    Args:
        progress: called with (done, total, label).
        options: how to open the models, as for `benchmark`.
    """
    paths = {name: path for path, name in report.paths.items()}
    found: list[RowProfile] = []
    for row in report.rows:
        tell(progress, len(found), len(report.rows), f"profiling {row.subject}")
        try:
            made = profile(paths[row.subject], engine=row.engine, threads=row.threads or 1, **options)
            found.append(RowProfile(row, made))
        except ThinflowError as error:
            hint = f" ({error.hint})" if error.hint else ""
            found.append(RowProfile(row, None, f"{error.message}{hint}"))
    tell(progress, len(found), len(found), "profiling")
    return found


def _nodes(found: Profile) -> Iterator[dict[str, Any]]:
    runs, medians = max(found.stats.micros.count, 1), found.stats.medians()
    for row in sorted(found.stats.rows.values(), key=lambda r: r.order):
        yield {
            "name": row.name,
            "op": row.op,
            "ms": medians[row.name] / 1000,
            "calls": row.calls // runs,
            "output_bytes": row.memory,
            "kernel": found.kernels.get(row.name, ""),
            **({"part": found.part_of.get(row.name, "")} if found.parts else {}),
        }


def part_rows(found: Profile) -> list[list[str]]:
    """Part, its nodes in the graph, median ms a run, percent: in the order in which they run."""
    total = max(sum(part.micros for part in found.parts), 1e-9)
    return [
        [part.name, str(part.nodes), f"{part.micros / 1000:.3f}", f"{100 * part.micros / total:.1f}"]
        for part in found.parts
    ]


def type_rows(found: Profile) -> list[list[str]]:
    """Op, number of nodes, median ms a run, percent: the ops that take longest first."""
    counts: dict[str, int] = {}
    for row in found.stats.rows.values():
        counts[row.op] = counts.get(row.op, 0) + 1
    by_op = found.stats.medians_by_op()
    # Not 0, where every node took less than a microsecond.
    total = max(sum(micros for _, micros in by_op), 1e-9)
    return [
        [op, str(counts[op]), f"{micros / 1000:.3f}", f"{100 * micros / total:.1f}"] for op, micros in by_op
    ]


def node_rows(found: Profile, limit: int | None = TOP, *, width: int | None = None) -> list[list[str]]:
    """Node, its part if there are some, op, median ms a run, percent, kernel: those that take longest first.

    Args:
        limit: how many nodes.
        width: columns of the table; long names and kernels are shortened to fit. None: they stay whole.
    """
    medians = found.stats.medians()
    total = max(sum(medians.values()), 1e-9)
    rows = sorted(found.stats.rows.values(), key=lambda r: (-medians[r.name], r.order))[:limit]
    names, ops, kernels = (
        [r.name for r in rows],
        [r.op for r in rows],
        [found.kernels.get(r.name, "") for r in rows],
    )
    parts = [[found.part_of.get(r.name, "")] if found.parts else [] for r in rows]
    if width is not None:
        width -= max((len(part) + _GAP for cells in parts for part in cells), default=0)
        least = _SHORT_KERNEL if found.parts else _SHORTEST
        names, ops, kernels = _fitted(names, ops, kernels, width, least)
    return [
        [
            name,
            *part,
            op,
            f"{medians[row.name] / 1000:.3f}",
            f"{100 * medians[row.name] / total:.1f}",
            kernel,
        ]
        for name, part, op, kernel, row in zip(names, parts, ops, kernels, rows, strict=True)
    ]


def _fitted(
    names: list[str], ops: list[str], kernels: list[str], width: int, least: int
) -> tuple[list[str], list[str], list[str]]:
    """The columns of words for a table of that width: kernels give way first, down to `least`, then names."""
    ops = [shortened([op], _OP)[0] for op in ops]
    room = width - max(map(len, ops), default=0) - _FIGURES - 2 * _GAP
    longest = max(map(len, names), default=0)
    # Names matter more than kernels, which get what is left.
    each = max(min(longest, room - min(_KERNEL, max(map(len, kernels), default=0))), _SHORTEST)
    names = [shortened([name], each)[0] for name in names]
    rest = max(room - max(map(len, names), default=0), least)
    return names, ops, [shortened([kernel], rest)[0] for kernel in kernels]


# --- reasons ------------------------------------------------------------------------------------------------

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
    """Median milliseconds a run of each op."""
    return {op: micros / 1000 for op, micros in profile.stats.medians_by_op()}
