"""Put measured ranges in the place of ops that find the range of every single run.

lo, hi = requantization_range(x, min, max)  ->  lo = const, hi = const      from a log of real runs
q, lo, hi = quantize_v2(x, min(x), max(x))  ->  quantize_v2(x, const, const)

The log comes from `insert_logging(op=RequantizationRange, show_name=true, message="__requant_min_max:")`.
With `op=QuantizeV2` as well, it tells the ranges of floats that are quantized, too.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from thinflow.errors import FeedError, ParameterError
from thinflow.interpreter import Plan
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.edits import Site, sweep
from thinflow.rewrite.rule import Refuse, Trace, Transform, transform
from thinflow.typing import Array

_PRINTED, _LABEL = "__print__", "__requant_min_max:"
# Values stand in brackets; behind the last there may be whatever else the line ends with.
_VALUES = re.compile(r"\[([^\[\]]*)\]\[([^\[\]]*)\][^\[\]]*\Z")
_BEHIND_VALUES = re.compile(r"\[.*\]\[([^\[\]]*)\]\[([^\[\]]*)\][^\[\]]*\Z")

Bounds = tuple[float, ...]
Record = tuple[Bounds, Bounds]
"""The (min, max) of one run: one number each, or one per channel."""


@transform("freeze_requantization_ranges")
@dataclass(frozen=True)
class FreezeRequantizationRanges(Transform):
    """Replace RequantizationRange, and the measured ranges of QuantizeV2, by constants from a log.

    Attributes:
        min_max_log_file: the log; may be repeated.
        min_percentile: percentage of the lowest minima to ignore.
        max_percentile: percentage of the highest maxima to ignore.
        strict: whether a record of a node that the graph does not have is an error.
    """

    exact = False

    min_max_log_file: tuple[str, ...]
    min_percentile: float = 5.0
    max_percentile: float = 5.0
    strict: bool = False

    def __post_init__(self) -> None:
        if not any(self.min_max_log_file):
            raise ParameterError(
                "You must pass a file name to min_max_log_file",
                hint="insert_logging tells how to get one; `thinflow transform ... --calibration` needs none",
            )
        for name, given in (("min", self.min_percentile), ("max", self.max_percentile)):
            if not 0 <= given < 100:
                raise ParameterError(
                    f"{name}_percentile is {given:g}", hint="give a number from 0 to below 100"
                )

    def apply(self, graph: Graph, trace: Trace) -> None:
        records = self._records(graph)
        if not records:
            raise FeedError(
                "No min/max range logs were found in the log file",
                ", ".join(self.min_max_log_file),
                hint=f"lines should look like ;NAME{_PRINTED};{_LABEL}[-1.5][2]",
            )
        self._complain([n for n in records if not _is_range(graph.find(n))], graph, trace)
        # Only a log that holds some can tell of floats; otherwise their absence is no news.
        logs_floats = any(measures_floats(graph.find(name)) for name in records)
        for node in graph:
            if not has(node.op, Trait.GIVES_RANGE) and not (logs_floats and measures_floats(node)):
                continue
            try:
                if node.name not in records:
                    raise Refuse("the log has no record of it")
                self._freeze(graph, node, self._bounds(node, records[node.name], trace), trace)
            except Refuse as refusal:
                trace.leave(node, refusal.reason)
        measuring = sum(measures_floats(node) for node in graph)
        if measuring and not logs_floats:
            trace.notes.append(
                f"{measuring} QuantizeV2 still measure the range of floats in every run, which costs speed; "
                "they are frozen, too, if the graph is logged with op=QuantizeV2 besides "
                "op=RequantizationRange, or with --calibration SAMPLES in place of a log"
            )

    def _records(self, graph: Graph) -> dict[str, list[Record]]:
        """Node name -> what the logs say of it."""
        records: dict[str, list[Record]] = {}
        for path in self.min_max_log_file:
            lines = read_lines(os.path.expanduser(path))
            # Such a line prints quantized values in front of the range, so it has one pair of brackets more.
            coded = [(n, r) for n, r in read_records(lines, coded=True) if measures_floats(graph.find(n))]
            for name, record in [*read_records(lines), *coded]:
                records.setdefault(name, []).append(record)
        return records

    def _complain(self, names: Sequence[str], graph: Graph, trace: Trace) -> None:
        for name in names:
            node = graph.find(name)
            problem = f"the log names '{name}', " + (
                "which is no node of the graph" if node is None else f"which is a {node.op}"
            )
            if self.strict:
                raise FeedError(
                    problem, ", ".join(self.min_max_log_file), hint="strict=false goes on without it"
                )
            trace.warnings.append(problem)

    def _bounds(self, node: Node, records: list[Record], trace: Trace) -> Record:
        """One range from those of all runs."""
        good = [r for r in records if _is_sound(r)]
        if len(good) < len(records):
            trace.warnings.append(
                f"{len(records) - len(good)} of {len(records)} records of '{node.name}' are no ranges: "
                "not finite, or upside down"
            )
        if not good:
            raise Refuse("none of its records is a range")
        counts = {len(low) for low, _ in good}
        if len(counts) > 1:
            raise Refuse("its records have different numbers of channels")
        if counts != {1} and node.op != "RequantizationRangePerChannel":
            raise Refuse(f"its records have {counts.pop()} values, but its range is one for all channels")
        return percentiles(good, self.min_percentile, self.max_percentile)

    def _freeze(self, graph: Graph, node: Node, bounds: Record, trace: Trace) -> None:
        is_replaced = has(node.op, Trait.GIVES_RANGE)
        if is_replaced and node.is_protected:
            raise Refuse("it is asked for by name")
        if is_replaced and any(v.uses for v in node.outputs if v.port > 1):
            raise Refuse("an output beyond its two is read")
        site = Site(graph, node, self.name)
        named = zip(("min", "max"), bounds, strict=True)
        low, high = (
            site.constant(_constant(numbers), f"{node.name}/frozen_{which}") for which, numbers in named
        )
        trace.changed(node, f"its range is {_text(bounds[0])} to {_text(bounds[1])}")
        if is_replaced:
            graph.bypass(node, {0: low, 1: high})
            return
        measuring = [v.node for v in node.inputs[1:3]]
        # The order of the inputs is x, min, max.
        node.set_input(1, low)
        node.set_input(2, high)
        sweep(graph, measuring)


def measures_floats(node: Node | None) -> bool:
    """True if a node quantizes floats to a range that is found while the graph runs."""
    if node is None or node.op != "QuantizeV2" or len(node.inputs) != 3 or node.get("axis", -1) >= 0:
        return False
    return any(v.node.tensor is None or v.is_graph_input for v in node.inputs[1:])


def _is_range(node: Node | None) -> bool:
    """True if the log may speak of this node."""
    return node is not None and (has(node.op, Trait.GIVES_RANGE) or measures_floats(node))


def _is_sound(record: Record) -> bool:
    # NaN fails every comparison, infinity the test for it.
    return all(
        math.isfinite(low) and math.isfinite(high) and low <= high for low, high in zip(*record, strict=True)
    )


def percentiles(records: Sequence[Record], min_percentile: float, max_percentile: float) -> Record:
    """The range that is left without the given percentages of lowest minima and highest maxima.

    Each channel by itself; one record is always left.
    """
    lows, highs = (np.sort(np.asarray(side), axis=0) for side in zip(*records, strict=True))
    count = len(records)
    # Rounded down, so that few records lose none to a small percentage.
    first = min(math.floor(count * min_percentile / 100), count - 1)
    last = count - 1 - min(math.floor(count * max_percentile / 100), count - 1)
    return tuple(lows[first].tolist()), tuple(highs[last].tolist())


def read_lines(path: str) -> list[str]:
    """The lines of a text file that may hold a record.

    Raises:
        FeedError: it cannot be read.
    """
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return [line for line in file if _LABEL in line]
    except OSError as error:
        problem = f"the log cannot be read: {error.strerror}"
        raise FeedError(problem, path, hint="check the file name") from error


def read_records(lines: Iterable[str], *, coded: bool = False) -> list[tuple[str, Record]]:
    """(node name, range) of every line that holds one; other lines are skipped.

    Args:
        lines: of a log.
        coded: take the lines that hold a third value, the quantized tensor, in front of the range, and
            no others.
    """
    form = _BEHIND_VALUES if coded else _VALUES
    records = (_record(line.split(";"), form) for line in lines if f"{_PRINTED};{_LABEL}" in line)
    return [record for record in records if record is not None]


def _record(pieces: Sequence[str], form: re.Pattern[str]) -> tuple[str, Record] | None:
    # Names may hold a semicolon, so lines are read from the back.
    last = max(i for i, piece in enumerate(pieces) if piece.startswith(_LABEL))
    values = form.match(pieces[last].removeprefix(_LABEL))
    if values is None or not pieces[last - 1].endswith(_PRINTED):
        return None
    try:
        low, high = (tuple(float(n) for n in text.split()) for text in values.groups())
    except ValueError:
        return None
    if not low or len(low) != len(high):
        return None
    return pieces[last - 1].removesuffix(_PRINTED), (low, high)


def record_line(name: str, record: Record) -> str:
    """The line of a log that says this."""
    # Nine digits bring a float32 back exactly.
    low, high = (" ".join(f"{number:.9g}" for number in side) for side in record)
    return f";{name}{_PRINTED};{_LABEL}[{low}][{high}]\n"


def _constant(numbers: Bounds) -> np.ndarray:
    return np.asarray(numbers[0] if len(numbers) == 1 else numbers, np.float32)


def _text(numbers: Bounds) -> str:
    return f"{numbers[0]:g}" if len(numbers) == 1 else f"{min(numbers):g}...{max(numbers):g} per channel"


def log_ranges(graph: Graph, feeds: Iterable[Mapping[Value, Array]]) -> str:
    """A log of the ranges that a graph finds while it runs: a line for each run of each node.

    Args:
        graph: with RequantizationRange, or QuantizeV2 of floats whose range is not constant.
        feeds: one or more runs, each an array for every input of the graph.

    Raises:
        ParameterError: no feeds.
        NodeError: a node cannot be run.
    """
    ends = [_ends(node) for node in graph if has(node.op, Trait.GIVES_RANGE) or measures_floats(node)]
    values = list(dict.fromkeys(v for pair in ends for v in pair))
    lines: list[str] = []
    has_run = False
    for feed in feeds:
        results = Plan(graph, values, list(feed)).run(feed)
        ends_of_run = dict(zip(values, (_numbers(r) for r in results), strict=True))
        lines += [record_line(low.node.name, (ends_of_run[low], ends_of_run[high])) for low, high in ends]
        has_run = True
    if not has_run:
        raise ParameterError("there are no inputs to measure on", hint="give at least one sample")
    return "".join(lines)


def _ends(node: Node) -> tuple[Value, Value]:
    """The outputs of a node that hold the range."""
    # The quantized values come first out of QuantizeV2.
    first = 0 if has(node.op, Trait.GIVES_RANGE) else 1
    return node.output(first), node.output(first + 1)


def _numbers(array: Any) -> tuple[float, ...]:
    return tuple(np.asarray(array, np.float32).reshape(-1).tolist())
