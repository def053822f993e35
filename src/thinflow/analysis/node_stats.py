"""Time and memory node by node over several runs, in the tables that TensorFlow's tools print."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

_RULE = "=" * 30
_NODE_COLUMNS = (
    ("[node type]", 40),
    ("[first]", 9),
    ("[avg ms]", 9),
    ("[%]", 8),
    ("[cdf%]", 8),
    ("[mem KB]", 10),
    ("[times called]", 9),
)
_TYPE_COLUMNS = (
    ("[Node type]", 40),
    ("[count]", 9),
    ("[avg ms]", 10),
    ("[avg %]", 11),
    ("[cdf %]", 11),
    ("[mem KB]", 10),
    ("[times called]", 10),
)


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
        spread = math.isqrt(max(int(self.squares / self.count - self.mean**2), 0))
        return (
            f"count={self.count} first={self.first} curr={self.last} min={self.least} max={self.most} "
            f"avg={self.mean:.6g} std={spread}"
        )


@dataclass
class NodeRow:
    """One node: microseconds and bytes per run, and how often it ran in all of them."""

    name: str
    op: str
    order: int
    micros: Series = field(default_factory=Series)
    memory: int = 0
    calls: int = 0


class NodeStats:
    """What the nodes of a graph took."""

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
        for order, (name, op, micros, size) in enumerate(steps):
            self.rows.setdefault(name, NodeRow(name, op, order))
            entry = run.setdefault(name, [0, 0, 0])
            entry[0] += micros
            entry[1] += size
            entry[2] += 1
        for name, (micros, size, calls) in run.items():
            row = self.rows[name]
            row.micros.add(micros)
            row.memory = size
            row.calls += calls
        self.micros.add(sum(e[0] for e in run.values()))
        self.memory.add(sum(e[1] for e in run.values()))

    def by_time(self, title: str = "Top by Computation Time", limit: int | None = None) -> str:
        """The nodes that took longest, longest first; equal ones in running order."""
        rows = sorted(self.rows.values(), key=lambda r: (-r.micros.total, r.order))
        return self._node_table(title, rows[:limit])

    def by_order(self, title: str = "Run Order") -> str:
        """All nodes as they ran."""
        return self._node_table(title, sorted(self.rows.values(), key=lambda r: r.order))

    def _node_table(self, title: str, rows: Sequence[NodeRow]) -> str:
        lines = [_title(title), _cells(f"{name:>{width}}" for name, width in _NODE_COLUMNS) + "\t[Name]"]
        total, runs, reached = max(self.micros.total, 1), max(self.micros.count, 1), 0
        for row in rows:
            reached += row.micros.total
            cells = [
                f"{row.op:>40}",
                f"{row.micros.first / 1000:9.3f}",
                f"{row.micros.mean / 1000:9.3f}",
                f"{100 * row.micros.total / total:7.3f}%",
                f"{100 * reached / total:7.3f}%",
                f"{row.memory / 1000:10.3f}",
                f"{row.calls // runs:9d}",
            ]
            lines.append(f"{_cells(cells)}\t{row.name}")
        return "\n".join([*lines, "", ""])

    def by_type(self) -> str:
        """Sums over the nodes of each op, the longest first."""
        runs = max(self.micros.count, 1)
        sums: dict[str, list[int]] = {}
        for row in sorted(self.rows.values(), key=lambda r: r.order):
            entry = sums.setdefault(row.op, [0, 0, 0, 0])
            for i, number in enumerate((1, row.micros.total // runs, row.memory, row.calls // runs)):
                entry[i] += number
        total, reached = max(sum(e[1] for e in sums.values()), 1), 0
        lines = [
            f"Number of nodes executed: {len(self.rows)}",
            _title("Summary by node type"),
            _cells(f"{name:>{width}}" for name, width in _TYPE_COLUMNS),
        ]
        for op, (count, micros, memory, calls) in sorted(sums.items(), key=lambda item: -item[1][1]):
            reached += micros
            cells = [
                f"{op:>40}",
                f"{count:9d}",
                f"{micros / 1000:10.3f}",
                f"{100 * micros / total:10.3f}%",
                f"{100 * reached / total:10.3f}%",
                f"{memory / 1000:10.3f}",
                f"{calls:9d}",
            ]
            lines.append(_cells(cells))
        return "\n".join([*lines, "", ""])

    def short_summary(self) -> str:
        """Three lines about whole runs."""
        return (
            f"Timings (microseconds): {self.micros}\nMemory (bytes): {self.memory}\n"
            f"{len(self.rows)} nodes observed\n"
        )


def _title(text: str) -> str:
    return f"{_RULE} {text} {_RULE}"


def _cells(cells: Iterable[str]) -> str:
    return "".join(f"\t{c}" for c in cells)
