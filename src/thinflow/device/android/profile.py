"""Times of operators, from the tables that benchmark_model prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from thinflow.bench.litert_recorder import DELEGATED_OPERATOR, OPERATOR, Event
from thinflow.bench.profile_litert import of_events
from thinflow.bench.profile_model import Profile, Step, collect
from thinflow.device.android.output import Output, Row
from thinflow.errors import EngineUnavailable
from thinflow.tflite.model import Program

_METHOD = "benchmark_model's own profiler, averages of {} runs"
_WITHIN = "; kernels within the delegate are matched to operators by order and name"
_AS_ONE = "; the delegate tells no kernels, and its part is one row"


def profile_of(program: Program, told: Output, engine: str, threads: int) -> Profile:
    """The operators of a model.

    Args:
        told: a run with its profiler on.
        engine: what ran it.

    Raises:
        EngineUnavailable: there are no tables.
    """
    if not told.rows:
        raise EngineUnavailable(
            "this benchmark_model prints no table of operators", hint="take a newer one of LiteRT"
        )
    runs = told.inference.count if told.inference else 1
    outer, inner = [r for r in told.rows if not r.inside], [r for r in told.rows if r.inside]
    taken = [r for r in outer if _is_delegate(program, r)]
    groups = _groups(inner)
    # Only where each part has its own kernels is it clear which operators they belong to.
    if taken and len(groups) == len(taken):
        made = of_events(program, [list(_events(program, outer, groups))], {}, threads)
        made.engine, made.method = engine, _METHOD.format(runs) + _WITHIN
    else:
        steps = list(_steps(program, outer))
        made = Profile(collect([steps]), engine, threads, _METHOD.format(runs) + (_AS_ONE if taken else ""))
    made.whole_micros = [round(told.inference.average)] if told.inference else []
    return made


def _is_delegate(program: Program, row: Row) -> bool:
    """Whether a row is of what a delegate took: a number behind those of the model's operators."""
    return row.subgraph < len(program.subgraphs) and row.number >= len(
        program.subgraphs[row.subgraph].operators
    )


def _groups(inner: Sequence[Row]) -> list[list[Row]]:
    """Kernels by the part that they are in: they are numbered from 0 in each."""
    if not inner:
        return []
    cuts = [n + 1 for n, (a, b) in enumerate(pairwise(inner)) if b.number <= a.number]
    # Kernels of two parts that have the same name and number share a row, and cannot be told apart.
    if any(row.calls > 1 for row in inner):
        return []
    return [list(inner[a:b]) for a, b in pairwise([0, *cuts, len(inner)])]


def _events(program: Program, outer: Sequence[Row], groups: Sequence[Sequence[Row]]) -> Iterator[Event]:
    """The rows as what LiteRT's profiler records, one after the other."""
    # Tables have no moments any more; what counts is that kernels lie within their delegate.
    now = 0
    left = iter(groups)
    for row in outer:
        micros = round(row.micros)
        yield Event(row.kind, OPERATOR, now, micros, row.number, row.subgraph)
        if _is_delegate(program, row):
            for kernel in next(left):
                yield Event(
                    kernel.name, DELEGATED_OPERATOR, now, round(kernel.micros), kernel.number, row.subgraph
                )
        now += max(1, micros)


def _steps(program: Program, outer: Sequence[Row]) -> Iterator[Step]:
    for row in outer:
        name = row.name.strip("[]")
        if row.subgraph < len(program.subgraphs) and not _is_delegate(program, row):
            operator = program.subgraphs[row.subgraph].operators[row.number]
            name = operator.outputs[0].name if operator.outputs else operator.code
            yield name, operator.code, round(row.micros), 0
        else:
            yield name or row.kind, row.kind, round(row.micros), 0
