"""What LiteRT's benchmark_model prints, as data.

Its lines changed over the years: what is looked for is told by how its figures are named, wherever they
stand in a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

# Averages beyond a second come as 2.95e+06, since streams of C++ have six digits.
_NUMBER = r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
# `count=50 first=… avg=…`; a loop whose runs all took the same has `count=50 curr=…(all same)` alone, and
# one without runs `count=0`.
_COUNTED = re.compile(r"\bcount=(?P<count>\d+)(?P<rest>(?: [a-z0-9]+=\S+)*)")
_NAMED = re.compile(rf"([a-z0-9]+)=({_NUMBER})")
# Since 2019 `Inference timings in us: Init: …, First inference: …`, before that `Average inference timings in
# us: Warmup: …, Init: …, no stats: …`.
_TIMINGS = re.compile(r"[Ii]nference timings in us: (?P<rest>.*)")
_LABELLED = re.compile(rf"([A-Za-z][A-Za-z ()]*): ({_NUMBER})")
# The same two figures were called peaks once, and are differences to the start of the tool since.
_FOOTPRINT = re.compile(
    rf"[Mm]emory footprint.*\(MB\): init=(?P<init>{_NUMBER}) overall=(?P<overall>{_NUMBER})"
)
_PEAK = re.compile(rf"peak memory footprint \(MB\) via periodic monitoring: (?P<peak>{_NUMBER})")
# Only delegates that were asked for by a flag are told so: XNNPACK by default is not among them.
_APPLIED = re.compile(
    r"Explicitly applied (?P<name>.+?) delegate, and the model graph will be (?P<how>completely|partially)"
    r" executed by the delegate(?: w/ (?P<kernels>\d+) delegate kernels)?"
)
_IGNORED = re.compile(r"Though (?P<name>.+?) delegate is explicitly applied, the model graph will not be")
# Of every delegate, that of the CPU included, where the tool is verbose enough to say it.
_REPLACED = re.compile(
    r"Replacing (?P<nodes>\d+) out of (?P<all>\d+) node\(s\) with delegate \((?P<name>[^)]*)\) node, "
    r"yielding (?P<partitions>\d+) partitions"
)
_REFUSED = re.compile(r"(?P<why>Failed to apply .+? delegate|.+ (?:acceleration|delegate) is unsupported .+)")
# A flag that a tool does not know it passes over, and measures something else.
_UNKNOWN_FLAGS = re.compile(r"Unconsumed cmdline flags: (?P<flags>.*)")
_BEGINS = "Running benchmark for at least"
# Levels stand before lines since 2024 only, and never before those of the loops.
_LEVEL = re.compile(r"^(?:INFO|WARNING|WARN): ")
_ERROR = re.compile(r"^(?:ERROR|FATAL): (?P<text>.+)")

_HEADER = re.compile(r"^\t?\s*\[?node type\]?", re.IGNORECASE)
# Each table comes up to three times: in running order, by time, by memory. The first has all rows.
_RUN_ORDER = "= Run Order ="
_RUNS_PROFILE = "Operator-wise Profiling Info"
_INIT_PROFILE = "Profiling Info for Benchmark Initialization"
_SUBGRAPH = re.compile(r"Subgraph \(index: (?P<index>\d+)")
_PRIMARY = "Primary graph"
_INTERNAL = "Delegate internal"
# Names of tensors may hold colons; the number is behind the last.
_NUMBERED = re.compile(r"^(?P<name>.*):(?P<number>\d+)$", re.DOTALL)
_DELEGATE = "Delegate/"


@dataclass(frozen=True)
class Statistic:
    """Microseconds of several runs. None is what this benchmark_model does not tell.

    Attributes:
        count: of runs.
        p5, median, p95: that so many percent of the runs are below.
    """

    count: int
    average: float
    first: float | None = None
    minimum: float | None = None
    maximum: float | None = None
    deviation: float | None = None
    p5: float | None = None
    median: float | None = None
    p95: float | None = None

    @property
    def typical(self) -> float:
        """The median; the average where no median is told."""
        return self.average if self.median is None else self.median


@dataclass(frozen=True)
class Delegation:
    """What became of a delegate.

    Attributes:
        name: as benchmark_model calls it.
        kernels: how many it runs; 0: it runs nothing, and the CPU everything.
        whole: it runs all of the model.
    """

    name: str
    kernels: int
    whole: bool


@dataclass(frozen=True)
class Replaced:
    """Operators that a delegate took.

    Attributes:
        name: of the delegate's class, such as "TfLiteXNNPackDelegate".
        nodes: how many it took, of
        all: so many.
        partitions: in so many parts.
    """

    name: str
    nodes: int
    all: int
    partitions: int


@dataclass(frozen=True)
class Row:
    """A row of a table of operators, in running order.

    Attributes:
        kind: the type of operator, or what a kernel within a delegate is called.
        name: as it is printed, without its number.
        number: of the operator in its subgraph, or of the kernel within the delegate.
        micros: of a run on average, all calls together.
        calls: of one run.
        subgraph: number of it.
        inside: it is within a delegate, whose own row has its time, too.
    """

    kind: str
    name: str
    number: int
    micros: float
    calls: int
    subgraph: int = 0
    inside: bool = False


@dataclass
class Output:
    """What benchmark_model told of a model.

    Attributes:
        init_us: until the model was ready.
        first_us: the first run.
        warmup, inference: runs before those that count, and these; None if it never came to them.
        init_mb, overall_mb: memory since it was started: for the model opened, and after all runs.
        peak_mb: the most that was seen while it ran; None if it was not asked to look.
        delegations, replaced: see there.
        refused: why a delegate cannot be used, in its words.
        unknown_flags: those that this benchmark_model does not know.
        errors: what it calls errors.
        rows: tables of operators.
    """

    init_us: float | None = None
    first_us: float | None = None
    warmup: Statistic | None = None
    inference: Statistic | None = None
    init_mb: float | None = None
    overall_mb: float | None = None
    peak_mb: float | None = None
    delegations: list[Delegation] = field(default_factory=list)
    replaced: list[Replaced] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    unknown_flags: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)


def parse_output(text: str) -> Output:
    """What is told; what is not, stays as it is by default."""
    found = Output()
    counted: list[Statistic | None] = []
    lines = [_LEVEL.sub("", line) for line in text.splitlines()]
    for line in lines:
        # Statistics of the loops by their order: both lines look the same.
        if _BEGINS in line:
            counted.append(None)
        elif counted and counted[-1] is None and (statistic := _statistic(line)) is not None:
            counted[-1] = statistic
        else:
            _take(found, line)
    # The first loop warms up, the second counts.
    found.warmup, found.inference = [*counted, None, None][:2]
    if found.inference is None and (average := _summary(lines)) is not None:
        found.inference = Statistic(1, average)
    found.rows = list(_rows(lines))
    return found


def _statistic(line: str) -> Statistic | None:
    matched = _COUNTED.search(line)
    if matched is None:
        return None
    count, told = int(matched["count"]), {k: float(v) for k, v in _NAMED.findall(matched["rest"])}
    if not count:
        return None
    if "avg" not in told:
        # All runs took the same, which is printed once.
        only = told.get("curr", 0.0)
        return Statistic(
            count, only, only, only, only, 0.0, told.get("p5"), told.get("median"), told.get("p95")
        )
    return Statistic(
        count,
        told["avg"],
        told.get("first"),
        told.get("min"),
        told.get("max"),
        told.get("std"),
        told.get("p5"),
        told.get("median"),
        told.get("p95"),
    )


def _summary(lines: list[str]) -> float | None:
    """The average of the closing line, where the line of the loop itself is missing."""
    for line in lines:
        if matched := _TIMINGS.search(line):
            told = {k.strip(): float(v) for k, v in _LABELLED.findall(matched["rest"])}
            return told.get("Inference (avg)", told.get("Inference", told.get("no stats")))
    return None


def _take(found: Output, line: str) -> None:
    """Note what a line tells."""
    if matched := _TIMINGS.search(line):
        told = {k.strip(): float(v) for k, v in _LABELLED.findall(matched["rest"])}
        found.init_us = told.get("Init", found.init_us)
        found.first_us = told.get("First inference", found.first_us)
    elif matched := _PEAK.search(line):
        found.peak_mb = float(matched["peak"])
    elif matched := _FOOTPRINT.search(line):
        found.init_mb, found.overall_mb = float(matched["init"]), float(matched["overall"])
    elif matched := _APPLIED.search(line):
        whole = matched["how"] == "completely"
        found.delegations.append(Delegation(matched["name"], int(matched["kernels"] or 1), whole))
    elif matched := _IGNORED.search(line):
        found.delegations.append(Delegation(matched["name"], 0, False))
    elif matched := _REPLACED.search(line):
        nodes, total, parts = (int(matched[k]) for k in ("nodes", "all", "partitions"))
        found.replaced.append(Replaced(matched["name"], nodes, total, parts))
    elif matched := _REFUSED.search(line):
        found.refused.append(_ERROR.sub(r"\g<text>", matched["why"]).strip())
    elif matched := _UNKNOWN_FLAGS.search(line):
        found.unknown_flags += [f.partition("=")[0].lstrip("-") for f in matched["flags"].split()]
    elif matched := _ERROR.match(line):
        found.errors.append(matched["text"].strip())


def _rows(lines: list[str]) -> Iterator[Row]:
    """Rows of the tables in running order that are about runs, not about the beginning."""
    about_runs = in_table = inside = False
    subgraph = 0
    headers: list[str] = []
    for line in lines:
        if _RUNS_PROFILE in line:
            about_runs, subgraph, inside = True, 0, False
        elif _INIT_PROFILE in line:
            about_runs = False
        elif matched := _SUBGRAPH.search(line):
            subgraph, inside = int(matched["index"]), False
        elif _PRIMARY in line:
            subgraph, inside = 0, False
        elif _INTERNAL in line:
            inside = True
        elif "=====" in line:
            in_table = about_runs and _RUN_ORDER in line
        elif in_table and _HEADER.match(line):
            headers = [h.strip().strip("[]").lower() for h in line.strip("\t").split("\t")]
        elif in_table and not line.strip():
            in_table = False
        elif in_table and (row := _row(line, headers, subgraph, inside)) is not None:
            yield row


def _row(line: str, headers: list[str], subgraph: int, inside: bool) -> Row | None:
    # Names may hold tabs; the name comes last.
    cells = [c.strip() for c in line.strip("\t").split("\t", max(0, len(headers) - 1))]
    told = dict(zip(headers, cells, strict=False))
    try:
        # The average is of a call, and in a loop an operator is called often.
        calls = max(1, int(told["times called"]))
        micros = float(told["avg ms"]) * 1000 * calls
    except (KeyError, ValueError):
        return None
    # Rows about the tool itself, such as AllocateTensors/0, have no number of an operator.
    matched = _NUMBERED.match(told.get("name", ""))
    if matched is None:
        return None
    name, kind = matched["name"], told.get("node type", "")
    if name.startswith(_DELEGATE):
        name = kind = name.removeprefix(_DELEGATE)
        inside = True
    return Row(kind, name, int(matched["number"]), micros, calls, subgraph, inside)
