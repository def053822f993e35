"""Operators of a .tflite file to which the events of LiteRT's profiler belong.

LiteRT tells the number of each operator that it runs itself. Of those that a delegate took it tells the
kernels only, in running order: what became a part of another kernel (padding) has none, and one operator may
need two (a sum, then its activation). So the operators that the delegate must have been given are worked out
as LiteRT does it, and their kernels dealt out in order, by the alignment in which the fewest names disagree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle

from thinflow.bench.litert_recorder import DELEGATE_KERNEL, DELEGATED_OPERATOR, OPERATOR, Event
from thinflow.tflite.model import Operator, Program, Subgraph, Tensor

Timed = tuple[Operator, int, str]
"""An operator, its own microseconds, and the names of its kernels."""

_INSIDE = (DELEGATE_KERNEL, DELEGATED_OPERATOR)
_OTHER_NAMES = {
    "CONCATENATION": "copy concatenate",
    "CONV_2D": "convolution fully",
    "DEPTHWISE_CONV_2D": "convolution dwconv",
    "TRANSPOSE_CONV": "deconvolution",
    "DIV": "divide",
    "LOGISTIC": "sigmoid",
    "HARD_SWISH": "hardswish",
    "RELU": "clamp",
    "RELU6": "clamp",
    "RELU_N1_TO_1": "clamp",
    "QUANTIZE": "convert",
    "DEQUANTIZE": "convert",
    "MUL": "multiply square",  # of a value by itself
    "NEG": "negate",
    "PAD": "pad",
    "PADV2": "pad",
    "PRELU": "prelu",
    "RESHAPE": "reshape copy",
    "RSQRT": "reciprocal",
    "SQRT": "square",
    "EXPAND_DIMS": "reshape copy",
    "SPLIT": "copy split",
    "SQUEEZE": "reshape copy",
    "STRIDED_SLICE": "slice",
    "SUB": "subtract",
    "SUM": "sum reduce",
    "MEAN": "mean",
}
_ELEMENTWISE_CODES = """
    ABS CEIL COS ELU EXP FLOOR GELU HARD_SWISH LEAKY_RELU LOG LOGISTIC NEG ROUND RSQRT SIGN SIN SQRT SQUARE
    TANH
"""
_ELEMENTWISE = frozenset(_ELEMENTWISE_CODES.split())
_BY_TABLE = "unary"
"""Of a kernel that looks eight-bit results up, whatever the function; x * sigmoid(x) is one such as well."""
_HELPERS = ("clamp", "convert", "copy", "pad", "transpose", "reshape")
"""Kernels that may come before or after the one that does an operator's work."""
_OFTEN_WITHOUT = frozenset(("PAD", "PADV2", "RESHAPE", "EXPAND_DIMS", "SQUEEZE", "DEQUANTIZE", "QUANTIZE"))
# Costs of an alignment; only how they compare matters. A kernel by a wrong name is worst, then an operator
# without any, then a helper; what some operators usually do (no kernel, several of the same) costs little.
_WRONG, _HELPER, _EARLY, _AGAIN, _NO_KERNEL, _NO_KERNEL_AS_USUAL = 1.0, 0.3, 0.05, 0.1, 0.6, 0.1
# Bounds the search to so many spans from each start.
_MOST_KERNELS = 8


Alignments = dict[tuple[tuple[Operator, ...], tuple[str, ...]], list[tuple[int, int]]]
"""Operators and names of kernels -> the kernels of each operator."""


def assign(program: Program, events: Sequence[Event], known: Alignments | None = None) -> list[Timed]:
    """The time of each operator in one run, in running order; one in a loop comes once per turn.

    Args:
        known: what was aligned before, which is added to: all runs of a model have the same kernels, and a
            model of hundreds of operators takes a second to align.
    """
    known = {} if known is None else known
    found: list[Timed] = []
    subgraphs = program.subgraphs
    own = _own_times(events)
    outside = [
        {e.node for e in events if e.kind == OPERATOR and e.subgraph == number}
        for number in range(len(subgraphs))
    ]
    # In a loop the same parts are entered again in every turn.
    parts = [cycle(_delegated(s, o)) for s, o in zip(subgraphs, outside, strict=True)]
    pending: list[int] = []

    def flush() -> None:
        if pending:
            operators = next(parts[events[pending[0]].subgraph], [])
            tags = [events[i].tag for i in pending]
            key = tuple(operators), tuple(tags)
            if key not in known:
                known[key] = _aligned(*key)
            found.extend(_dealt(operators, known[key], tags, [own[i] for i in pending]))
            pending.clear()

    for index, event in enumerate(events):
        if event.kind in _INSIDE and event.subgraph < len(subgraphs):
            # Kernels are numbered from 0 each time the delegate is entered, so a number that does not grow
            # begins a new entry.
            if pending and event.node <= events[pending[-1]].node:
                flush()
            pending.append(index)
        elif event.kind == OPERATOR and event.subgraph < len(subgraphs):
            flush()
            operators = subgraphs[event.subgraph].operators
            if event.node < len(operators):
                found.append((operators[event.node], own[index], ""))
    flush()
    return found


def _own_times(events: Sequence[Event]) -> list[int]:
    """Microseconds of each event without the operators that ran inside it, as in a WHILE."""
    own = [e.micros for e in events]
    open_: list[int] = []
    for index, event in enumerate(events):
        if event.kind != OPERATOR and event.kind not in _INSIDE:
            continue
        # Taken to last a microsecond at least: what begins in the same one may be inside.
        while open_ and event.start >= events[open_[-1]].start + max(events[open_[-1]].micros, 1):
            open_.pop()
        if open_:
            own[open_[-1]] -= event.micros
        if event.kind == OPERATOR:
            open_.append(index)
    return [max(micros, 0) for micros in own]


def _delegated(subgraph: Subgraph, outside: set[int]) -> Iterator[list[Operator]]:
    """Operators that run in a delegate, one list for each time it is entered.

    As LiteRT cuts a graph: a part takes whatever is ready and of its kind, again and again, before the other
    kind gets its turn.
    """
    left = dict(enumerate(subgraph.operators))
    waiting = {t for o in subgraph.operators for t in o.outputs}
    while left:
        part: list[Operator] = []
        kind: bool | None = None
        while ready := [n for n in _ready(left, waiting, kind, outside)]:
            kind = ready[0] in outside
            part += [left.pop(number) for number in ready]
        if not part:  # a cycle, which no valid model has
            return
        if not kind:
            yield part


def _ready(
    left: dict[int, Operator], waiting: set[Tensor], kind: bool | None, outside: set[int]
) -> Iterator[int]:
    """Operators of one kind, the first ready one's if None, whose inputs exist; then their outputs do too."""
    for number, operator in left.items():
        fits = kind is None or (number in outside) == kind
        # What an operator writes is there for those behind it in the same walk, as in LiteRT's own partition.
        if fits and not any(t in waiting for t in operator.inputs if t is not None):
            kind = number in outside
            waiting.difference_update(operator.outputs)
            yield number


def _dealt(
    operators: Sequence[Operator],
    spans: Sequence[tuple[int, int]],
    tags: Sequence[str],
    micros: Sequence[int],
) -> Iterator[Timed]:
    for operator, (first, last) in zip(operators, spans, strict=True):
        yield operator, sum(micros[first:last]), " + ".join(tags[first:last])


def _aligned(operators: Sequence[Operator], tags: Sequence[str]) -> list[tuple[int, int]]:
    """The kernels of each operator, as first and last + 1, none left over. O(operators * kernels)."""
    width = len(tags) + 1
    infinite = float("inf")
    best = [0.0] + [infinite] * len(tags)  # cheapest way to deal out the first j kernels
    taken: list[list[int]] = []
    words = [tag.lower() for tag in tags]
    for operator in operators:
        following, back = [infinite] * width, [0] * width
        for start in range(width):
            for end, cost in _spans(operator, words, start) if best[start] < infinite else ():
                if best[start] + cost < following[end]:
                    following[end], back[end] = best[start] + cost, start
        best = following
        taken.append(back)
    return _traced(taken, best, len(tags))


def _spans(operator: Operator, words: Sequence[str], start: int) -> Iterator[tuple[int, float]]:
    """Costs of dealing no, one, two ... kernels from `start` on to an operator, as (last + 1, cost)."""
    names = _names(operator)
    cost, worked = 0.0, False
    yield start, _NO_KERNEL_AS_USUAL if operator.code in _OFTEN_WITHOUT else _NO_KERNEL
    for end in range(start + 1, min(start + _MOST_KERNELS, len(words)) + 1):
        if any(name in words[end - 1] for name in names):
            cost += _AGAIN if worked else 0.0
            worked = True
        else:
            cost += _of_helper(words[end - 1], before=not worked)
        yield end, cost if worked else cost + _NO_KERNEL


def _traced(taken: Sequence[Sequence[int]], best: Sequence[float], end: int) -> list[tuple[int, int]]:
    """The way back from the last kernel; where there are too many, the last operator gets the rest."""
    reached = end
    while best and best[reached] == float("inf"):
        # More kernels than operators may have at most: the alignment ends earlier, and the rest goes to the
        # last one.
        reached -= 1
    spans: list[tuple[int, int]] = []
    for back in reversed(taken):
        spans.append((back[reached], reached))
        reached = back[reached]
    spans.reverse()
    if spans and spans[-1][1] < end:
        spans[-1] = (spans[-1][0], end)
    return spans


def _of_helper(word: str, *, before: bool) -> float:
    """The cost of a kernel beside the one that does the work; most come after it, as activations do."""
    return (_HELPER if any(h in word for h in _HELPERS) else _WRONG) + (_EARLY if before else 0)


def _names(operator: Operator) -> tuple[str, ...]:
    """Words of which one is in the name of the kernel that does an operator's work."""
    names = _OTHER_NAMES.get(operator.code, operator.code.lower().replace("_", " ")).split()
    return (*names, _BY_TABLE) if operator.code in _ELEMENTWISE else tuple(names)


def output_bytes(operators: Iterable[Operator]) -> dict[Operator, int]:
    """Bytes each operator writes; unknown sizes count as 1."""
    sizes: dict[Operator, int] = {}
    for operator in operators:
        total = 0
        for tensor in operator.outputs:
            count = 1
            for n in tensor.shape or ():
                count *= n or 1
            total += count * max(tensor.dtype.itemsize, 1)
        sizes[operator] = total
    return sizes
