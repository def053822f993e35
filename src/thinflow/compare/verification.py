"""The result of a verification: differences of outputs, and the first value that differs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from thinflow.compare.differences import NO_CHANGE, Difference, Layer, difference
from thinflow.compare.match_io import Match
from thinflow.compare.match_nodes import match_nodes
from thinflow.errors import FeedError, UnsupportedOp
from thinflow.errors.plain_text import one_line
from thinflow.interpreter import Plan
from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Graph, Value
from thinflow.ir.notebook import text_html
from thinflow.ops.random import repeatable_randomness
from thinflow.typing import Array


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
        roundings: of quantized files whose outputs are farther apart, what says that their layers are the
            same and only roundings add up; "" if that was not found.
    """

    outputs: list[OutputReport]
    tolerance: float
    first_divergence: str = ""
    runs: int = 0
    notes: list[str] = field(default_factory=list)
    divergence: Divergence | None = None
    layers: list[Layer] = field(default_factory=list)
    roundings: str = ""

    @property
    def ok(self) -> bool:
        return bool(self.roundings) or self.is_within

    @property
    def is_within(self) -> bool:
        """True if all outputs are within the tolerance."""
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
        agrees = "the graphs agree but for roundings" if self.roundings else "the graphs agree"
        verdict = agrees if self.ok else "the graphs DIFFER"
        lines = [
            f"{verdict}: largest relative difference {self.worst:.3g} over {self.runs} runs "
            f"(tolerance {self.tolerance:g})"
        ]
        lines += [f"  {o}" for o in self.outputs]
        lines += [self.roundings] if self.roundings else []
        if not self.ok and len(self.outputs) > 1:
            lines.append(f"worst output: {self.worst_output}")
        if self.divergence is not None:
            lines += [f"first value that differs: {self.divergence}", self.divergence.detail]
        elif self.first_divergence:
            lines.append(f"first value that differs: {self.first_divergence}")
        return "\n".join(map(one_line, [*lines, *self.notes, *explain_tolerance(self.tolerance)]))


def explain_tolerance(tolerance: float) -> list[str]:
    """The meaning of a tolerance, in lines."""
    return [
        f"tolerance {tolerance:g}: |a - b| may be up to {tolerance:g} of the largest |a|",
        f"  of the same output; another order of additions makes about {NO_CHANGE:g} per layer",
    ]


# Values of graphs are paired by structure, so the graphs may use different names. A value that differs and is
# made good again further down (half of a fold: other weights, and no norm behind them) is not to blame: the
# search goes up from the outputs that differ, and stops where the graphs agree.

Feeds = Mapping[Value, Array]


@brief_repr
@dataclass(frozen=True)
class Divergence:
    """The first value, in running order, that differs and reaches an output that differs.

    Attributes:
        name, op: of the value in the first graph.
        twin, twin_op: of its twin in the second.
        index: where in the tensor the largest difference is.
        before, after: the two numbers there.
        relative: the largest difference over the largest value.
        step: between neighbouring codes, where the value is quantized in one of them; else 0.
    """

    name: str
    op: str
    twin: str
    twin_op: str
    index: tuple[int, ...] = ()
    before: Any = None
    after: Any = None
    relative: float = 0.0
    step: float = 0.0

    def __str__(self) -> str:
        if self.name == self.twin:
            return self.name
        return f"{self.name} in the first, {self.twin} in the second"

    @property
    def detail(self) -> str:
        """The values, for people."""
        ops = self.op if self.op == self.twin_op else f"{self.op} and {self.twin_op}"
        codes = ""
        if self.step:
            apart = abs(float(self.before) - float(self.after))
            codes = f", {apart / self.step:.3g} codes of {self.step:.3g}"
        gap = f"{self.relative:.3g} relative{codes}"
        return f"  {ops}, at {list(self.index)}: {self.before} and {self.after} ({gap})"


def find_divergence(
    a: Graph,
    b: Graph,
    feeds: tuple[Feeds, Feeds],
    outputs: Match[Value],
    tolerance: float,
) -> Divergence | None:
    """Run both on the reference interpreter and look inside.

    Keeps every value of the first graph that has a twin until the second has run.

    Args:
        a, b: the graphs.
        feeds: what each gets.
        outputs: what is to agree.
        tolerance: relative difference up to which two values agree.

    Returns:
        None if nothing differs, or no look inside is possible as an op has no kernel.
    """
    nodes = match_nodes(a, b)
    # Outputs are paired as the caller says; inner values as the structure has it.
    wanted = {v: w for v in _values(a) if (w := outputs.pairs.get(v) or nodes.value(v)) is not None}
    states = _compare_inside((a, b), feeds, outputs, wanted)
    blamed = _above_bad_outputs(states, list(outputs.pairs), tolerance)
    apart = [v for v, found in states.items() if v in blamed and found.relative > tolerance]
    if not apart:
        return None
    # In running order. What was lifted prepares constants in nodes of which the file knows nothing.
    known = set(apart) if a.source is None else _computed_from(feeds[0])
    first = next((v for v in apart if v in known), apart[0])
    return _divergence(first, wanted[first], states[first])


def _computed_from(values: Iterable[Value]) -> set[Value]:
    """The values and all that is computed from them. O(nodes + edges)."""
    found: set[Value] = set()
    pending = list(values)
    while pending:
        value = pending.pop()
        if value not in found:
            found.add(value)
            pending += [out for reader in value.readers for out in reader.outputs]
    return found


def _values(graph: Graph) -> list[Value]:
    return [v for node in graph for v in (node.outputs or (node.output(),))]


def _compare_inside(
    graphs: tuple[Graph, Graph],
    feeds: tuple[Feeds, Feeds],
    outputs: Match[Value],
    wanted: Mapping[Value, Value],
) -> dict[Value, Difference]:
    """The difference of every value of the first graph that has a twin and was computed, in running order."""
    seen: dict[Value, Array] = {}
    gaps: dict[Value, Difference] = {}
    # A value of the second graph may stand for several of the first: duplicates that were merged.
    ours: dict[Value, list[Value]] = {}
    for value, twin in wanted.items():
        ours.setdefault(twin, []).append(value)

    def remember(value: Value, array: Any) -> None:
        if value in wanted and isinstance(array, np.ndarray):
            # The second graph's values are compared as they come and not kept.
            seen[value] = array

    def check(twin: Value, array: Any) -> None:
        for value in ours.get(twin, ()):
            if value in seen and isinstance(array, np.ndarray):
                gaps[value] = difference(seen[value], array)

    _observe(graphs[0], feeds[0], list(outputs.pairs), remember)
    _observe(graphs[1], feeds[1], list(outputs.pairs.values()), check)
    return {value: gaps[value] for value in seen if value in gaps}


def _above_bad_outputs(
    states: Mapping[Value, Difference], outputs: Sequence[Value], tolerance: float
) -> set[Value]:
    """All that leads to a differing output without passing a value that agrees."""
    above: set[Value] = set()
    stack = [v for v in outputs if v in states and states[v].relative > tolerance]
    while stack:
        value = stack.pop()
        # A value without a twin says nothing and is passed through.
        if value in above or (value in states and states[value].relative <= tolerance):
            continue
        above.add(value)
        stack.extend(value.node.inputs)
    return above


def _divergence(value: Value, twin: Value, found: Difference) -> Divergence:
    ends = value.name, value.node.op, twin.name, twin.node.op
    return Divergence(*ends, found.index, found.before, found.after, found.relative)


def _observe(
    graph: Graph, feeds: Feeds, outputs: Sequence[Value], watch: Callable[[Value, Any], None]
) -> None:
    try:
        # Else two graphs with random numbers would differ for no other reason.
        with repeatable_randomness():
            Plan(graph, list(dict.fromkeys(outputs)), list(feeds)).run(feeds, watch)
    except (UnsupportedOp, FeedError):
        return  # the outputs were compared on another engine; without kernels there is no inside view
