"""Time and memory node by node over several runs, in the tables that TensorFlow's tools print."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from thinflow.errors.plain_text import csv_cell, one_line

if TYPE_CHECKING:
    from thinflow.ir.graph import Value

_RULE = "=" * 30
STYLES = ("tf2", "tf1")
"""Table layouts: that of TensorFlow 2, and that of TensorFlow 1, which has a column of starting times."""


@dataclass
class Series:
    """Integers one after another, of which only a summary is kept; str() is TensorFlow's."""

    count: int = 0
    first: int = 0
    last: int = 0
    least: int = 0
    most: int = 0
    total: int = 0
    squares: int = 0

    def add(self, number: int) -> None:
        """One more."""
        if not self.count:
            self.first = self.least = self.most = number
        self.count += 1
        self.last = number
        self.least, self.most = min(self.least, number), max(self.most, number)
        self.total += number
        self.squares += number * number

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0

    def __str__(self) -> str:
        if not self.count:
            return "count=0"
        if self.least == self.most:
            return f"count={self.count} curr={self.last}{'(all same)' if self.count > 1 else ''}"
        # The variance as mean of squares less square of mean; rounding may take it below zero.
        # TensorFlow's is an integer, too.
        spread = math.isqrt(max(int(self.squares / self.count - self.mean**2), 0))
        return (
            f"count={self.count} first={self.first} curr={self.last} min={self.least} max={self.most} "
            f"avg={self.mean:.6g} std={spread}"
        )


@dataclass
class NodeRow:
    """One node: microseconds and bytes per run, and how often it ran in all of them.

    Attributes:
        name, op: of the node.
        order: its place in the first run it was in.
        start: microseconds of that run before it.
        micros: its time, run by run.
        memory: bytes of its outputs in the last run.
        calls: how often it ran, all runs together.
        times: microseconds of each run that it was in.
    """

    name: str
    op: str
    order: int
    start: int = 0
    micros: Series = field(default_factory=Series)
    memory: int = 0
    calls: int = 0
    times: list[int] = field(default_factory=list)


@dataclass
class _TypeRow:
    """The nodes of one op."""

    op: str
    count: int = 0
    micros: int = 0
    memory: int = 0
    calls: int = 0


class NodeStats:
    """Time and memory of the nodes of a graph."""

    def __init__(self) -> None:
        self.rows: dict[str, NodeRow] = {}
        self.micros = Series()
        self.memory = Series()

    def add_run(self, steps: Iterable[tuple[str, str, int, int]]) -> None:
        """Add one run.

        Args:
            steps: (node name, op, microseconds, bytes), in the order they ran; a node in a loop comes often.
        """
        run: dict[str, list[int]] = {}
        elapsed = 0
        for order, (name, op, micros, size) in enumerate(steps):
            if name not in self.rows:
                # Start and place are those of the first run with the node, as in TensorFlow.
                self.rows[name] = NodeRow(name, op, order, elapsed)
            entry = run.setdefault(name, [0, 0, 0])
            entry[0] += micros
            # A node in a loop counts once a run, with the sum of its iterations.
            entry[1] += size
            entry[2] += 1
            elapsed += micros
        for name, (micros, size, calls) in run.items():
            row = self.rows[name]
            row.micros.add(micros)
            row.times.append(micros)
            row.memory = size
            row.calls += calls
        self.micros.add(sum(e[0] for e in run.values()))
        self.memory.add(sum(e[1] for e in run.values()))

    def type_micros(self) -> list[tuple[str, int]]:
        """Op -> mean microseconds a run of all its nodes, the longest first."""
        return [(row.op, row.micros) for row, _, _ in self._types()]

    def medians(self) -> dict[str, float]:
        """Node -> median microseconds a run; of a run that it was not in it took none.

        TensorFlow's tables have means, which one run that was disturbed moves.
        """
        return {row.name: self._median(row) for row in self.rows.values()}

    def medians_by_op(self) -> list[tuple[str, float]]:
        """Op -> microseconds a run: the sum of its nodes' medians; the longest first."""
        sums: dict[str, float] = {}
        for name, micros in self.medians().items():
            op = self.rows[name].op
            sums[op] = sums.get(op, 0.0) + micros
        return sorted(sums.items(), key=lambda pair: -pair[1])

    def _median(self, row: NodeRow) -> float:
        from statistics import median_grouped  # late: it imports decimals and fractions

        times = [*row.times, *[0] * (self.micros.count - len(row.times))]
        # Whole microseconds are counted; within the one in the middle, runs are taken to lie evenly.
        return max(0.0, median_grouped(times)) if times else 0.0

    def last_run(self) -> list[tuple[str, str, int, int]]:
        """(node name, op, microseconds, bytes) of the nodes in the order they ran, newest figures."""
        rows = sorted(self.rows.values(), key=lambda r: r.order)
        return [(r.name, r.op, r.micros.last, r.memory) for r in rows]

    # --- tables -------------------------------------------------------------------------------------------

    def by_time(
        self, title: str = "Top by Computation Time", limit: int | None = None, style: str = "tf2"
    ) -> str:
        """The nodes that took longest, longest first; equal ones in running order."""
        rows = sorted(self.rows.values(), key=lambda r: (-r.micros.total, r.order))
        return self._node_table(title, rows[:limit], style)

    def by_memory(
        self, title: str = "Top by Memory Use", limit: int | None = None, style: str = "tf2"
    ) -> str:
        """The nodes whose outputs are largest, largest first; equal ones in running order."""
        rows = sorted(self.rows.values(), key=lambda r: (-r.memory, r.order))
        return self._node_table(title, rows[:limit], style)

    def by_order(self, title: str = "Run Order", limit: int | None = None, style: str = "tf2") -> str:
        """All nodes as they ran."""
        rows = sorted(self.rows.values(), key=lambda r: r.order)
        return self._node_table(title, rows[:limit], style)

    def by_type(self, style: str = "tf2") -> str:
        """Sums over the nodes of each op, the longest first."""
        width = _name_width(style)
        columns = [("[Node type]", width), ("[count]", 9), ("[avg ms]", 10), ("[avg %]", 11)]
        columns += [("[cdf %]", 11), ("[mem KB]", 10), ("[times called]", 10)]
        lines = [
            f"Number of nodes executed: {len(self.rows)}",
            _title("Summary by node type"),
            _cells(f"{name:>{size}}" for name, size in columns),
        ]
        for row, share, reached in self._types():
            cells = [
                f"{one_line(row.op):>{width}}",
                f"{row.count:9d}",
                f"{row.micros / 1000:10.3f}",
                f"{share:10.3f}%",
                f"{reached:10.3f}%",
                f"{row.memory / 1000:10.3f}",
                f"{row.calls:9d}",
            ]
            lines.append(_cells(cells))
        return "\n".join([*lines, "", ""])

    def short_summary(self, defined: int | None = None) -> str:
        """Three lines about whole runs.

        Args:
            defined: how many nodes the graph has; told in front of how many were seen.
        """
        nodes = "" if defined is None else f"{defined} nodes defined "
        return (
            f"Timings (microseconds): {self.micros}\nMemory (bytes): {self.memory}\n"
            f"{nodes}{len(self.rows)} nodes observed\n"
        )

    def node_csv(self, style: str = "tf2") -> str:
        """The nodes as they ran, for spreadsheets: values joined with ", ", a header in front."""
        start = ["start"] if style == "tf1" else []
        head = ["node type", *start, "first", "avg_ms", "%", "cdf%", "mem KB", "times called", "name"]
        lines = [", ".join(head)]
        total, runs, reached = max(self.micros.total, 1), max(self.micros.count, 1), 0
        for row in sorted(self.rows.values(), key=lambda r: r.order):
            reached += row.micros.total
            cells = [_csv(row.op), *([_number(row.start / 1000)] if start else [])]
            cells += [_number(row.micros.first / 1000), _number(row.micros.mean / 1000)]
            cells += [f"{_number(100 * part / total)}%" for part in (row.micros.total, reached)]
            cells += [_number(row.memory / 1000), str(row.calls // runs), _csv(row.name)]
            lines.append(", ".join(cells))
        return "\n".join(lines) + "\n"

    def type_csv(self) -> str:
        """The sums over ops, for spreadsheets."""
        lines = ["node type, count, avg_ms, avg %, cdf %, mem KB, times called"]
        for row, share, reached in self._types():
            cells = [_csv(row.op), str(row.count), _number(row.micros / 1000), f"{_number(share)}%"]
            cells += [f"{_number(reached)}%", _number(row.memory / 1000), str(row.calls)]
            lines.append(", ".join(cells))
        return "\n".join(lines) + "\n"

    def _types(self) -> list[tuple[_TypeRow, float, float]]:
        """The ops, each with its share of the time and that of all up to it, in percent."""
        runs = max(self.micros.count, 1)
        sums: dict[str, _TypeRow] = {}
        for node in sorted(self.rows.values(), key=lambda r: r.order):
            row = sums.setdefault(node.op, _TypeRow(node.op))
            row.count += 1
            row.micros += node.micros.total // runs
            row.memory += node.memory
            row.calls += node.calls // runs
        total, reached = max(sum(r.micros for r in sums.values()), 1), 0
        rows = []
        for row in sorted(sums.values(), key=lambda r: -r.micros):
            reached += row.micros
            rows.append((row, 100 * row.micros / total, 100 * reached / total))
        return rows

    def _node_table(self, title: str, rows: Sequence[NodeRow], style: str) -> str:
        width = _name_width(style)
        columns = [("[node type]", width), *([("[start]", 17)] if style == "tf1" else [])]
        columns += [("[first]", 9), ("[avg ms]", 9), ("[%]", 8), ("[cdf%]", 8), ("[mem KB]", 10)]
        columns += [("[times called]", 9)]
        lines = [_title(title), _cells(f"{name:>{size}}" for name, size in columns) + "\t[Name]"]
        total, runs, reached = max(self.micros.total, 1), max(self.micros.count, 1), 0
        for row in rows:
            reached += row.micros.total
            cells = [
                f"{one_line(row.op):>{width}}",
                *([f"{row.start / 1000:17.3f}"] if style == "tf1" else []),
                f"{row.micros.first / 1000:9.3f}",
                f"{row.micros.mean / 1000:9.3f}",
                f"{100 * row.micros.total / total:7.3f}%",
                f"{100 * reached / total:7.3f}%",
                f"{row.memory / 1000:10.3f}",
                f"{row.calls // runs:9d}",
            ]
            lines.append(f"{_cells(cells)}\t{one_line(row.name)}")
        return "\n".join([*lines, "", ""])


def _name_width(style: str) -> int:
    return 24 if style == "tf1" else 40


def _number(value: float) -> str:
    return f"{value:.6g}"


def _csv(name: str) -> str:
    """A name as a cell; one that TensorFlow would not allow is quoted if it would be more than one."""
    cell = csv_cell(name)
    return '"' + cell.replace('"', '""') + '"' if {",", '"'} & {*cell} else cell


def _title(text: str) -> str:
    return f"{_RULE} {text} {_RULE}"


def _cells(cells: Iterable[str]) -> str:
    return "".join(f"\t{c}" for c in cells)


class RunSteps:
    """Times of the nodes of a run, from one output to the next.

    Attributes:
        taken: (name, op, microseconds, bytes of its outputs) in the order in which they ran.
    """

    def __init__(self) -> None:
        self.taken: list[tuple[str, str, int, int]] = []
        self._before = time.perf_counter_ns()

    def observe(self, value: Value, array: Any) -> None:
        now = time.perf_counter_ns()
        took, size = (now - self._before) // 1000, int(getattr(array, "nbytes", 0))
        node, taken = value.node, self.taken
        # Outputs of one call come one after the other: only the first took the time of the op.
        if taken and taken[-1][0] == node.name and value.port:  # another output of the same call
            took, size = taken[-1][2] + took, taken[-1][3] + size
            taken.pop()
        taken.append((node.name, node.op, took, size))
        # Read again, so that the bookkeeping above counts for no node.
        self._before = time.perf_counter_ns()
