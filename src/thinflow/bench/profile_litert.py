"""Times of the operators of a .tflite file in LiteRT."""

from __future__ import annotations

import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from thinflow.bench import litert_events
from thinflow.bench.litert_recorder import Event
from thinflow.bench.profile_mapping import Alignments, Timed, assign, output_bytes
from thinflow.bench.profile_model import Profile, Step, collect, require_fixed
from thinflow.engines.litert import Model
from thinflow.errors import EngineUnavailable, FormatError
from thinflow.formats.files import map_file
from thinflow.tflite.model import Operator, Program, Subgraph, Tensor
from thinflow.tflite.reader import read_program
from thinflow.tflite.runtime import allocate, interpreter, source
from thinflow.tflite.writer import to_bytes
from thinflow.typing import Array

RECORDED = (
    "LiteRT's own profiler; kernels within the XNNPACK delegate are matched to operators by order and name"
)
ALONE = (
    "every operator as a model of its own, one after the other, on what the first sample makes of it: this "
    "LiteRT has no profiler that answers"
)


def profile_file(
    content: bytes | str,
    samples: Sequence[Sequence[Array]],
    origin: Mapping[str, str],
    threads: int,
    runs: int,
    warmup: int,
) -> Profile:
    """The operators of a .tflite file.

    Args:
        content: its bytes, or its path.
        samples: the inputs by position, of samples that runs take in turns.
        origin: tensor name -> name of the value or node it comes from; others keep theirs.

    Raises:
        FormatError: it is no .tflite file.
        EngineUnavailable: LiteRT refuses the model, or an input holds strings.
    """
    require_fixed([array for arrays in samples for array in arrays])
    try:
        program = read_program(content if isinstance(content, bytes) else map_file(content, unpack=False))
    except FormatError as error:
        raise error.at(content if isinstance(content, str) else "") from error
    try:
        recorded = _recorded(content, samples, threads, runs, warmup)
    except EngineUnavailable:
        return _one_by_one(program, content, samples[0], origin, threads, runs, warmup)
    return of_events(program, recorded, origin, threads)


def of_events(
    program: Program, recorded: Sequence[Sequence[Event]], origin: Mapping[str, str], threads: int
) -> Profile:
    """The operators of a program by what LiteRT's profiler recorded of each run, wherever that was."""
    known: Alignments = {}
    runs_found = [assign(program, events, known) for events in recorded]
    steps, kernels = _steps(runs_found, origin)
    whole = [_whole(events) for events in recorded]
    return Profile(collect(steps), "litert", threads, RECORDED, kernels, whole)


def _steps(
    found: Sequence[Sequence[Timed]], origin: Mapping[str, str]
) -> tuple[list[list[Step]], dict[str, str]]:
    """Runs in the graph's names, and the kernels of each name.

    A node that became several operators has one row, under the op that takes longest.
    """
    operators = list(dict.fromkeys(o for run in found for o, _, _ in run))
    sizes, names = output_bytes(operators), {o: _name(o, origin) for o in operators}
    longest: dict[str, tuple[int, str]] = {}
    kernels: dict[str, dict[str, None]] = defaultdict(dict)
    for operator, micros, kernel in found[0] if found else ():
        name = names[operator]
        if kernel:
            kernels[name][kernel] = None
        if name not in longest or micros > longest[name][0]:
            longest[name] = (micros, operator.code)
    steps = [
        [(names[o], longest.get(names[o], (0, o.code))[1], m, sizes[o]) for o, m, _ in run] for run in found
    ]
    return steps, {name: " + ".join(kinds) for name, kinds in kernels.items()}


def _recorded(
    content: bytes | str, samples: Sequence[Sequence[Array]], threads: int, runs: int, warmup: int
) -> list[list[Event]]:
    with tempfile.TemporaryDirectory(prefix="thinflow-") as folder:
        feeds = str(Path(folder) / "feeds.npz")
        named = {f"{n}_{i}": a for n, arrays in enumerate(samples) for i, a in enumerate(arrays)}
        np.savez(feeds, **named)  # type: ignore[arg-type]
        return litert_events.record(content, feeds, threads=threads, runs=runs, warmup=warmup)


def _whole(events: Sequence[Event]) -> int:
    """Microseconds of a run."""
    # The event around all others also has what lies between them.
    return next((e.micros for e in events if e.tag == "Invoke"), sum(e.micros for e in events))


def _name(operator: Operator, origin: Mapping[str, str]) -> str:
    """The graph's name for what an operator computes; a tensor's number of 0 is left out."""
    if not operator.outputs:
        return operator.origin or operator.code
    name = operator.outputs[0].name
    return origin.get(name, name).removesuffix(":0")


# --- without a profiler -------------------------------------------------------------------------------------


def _one_by_one(
    program: Program,
    content: bytes | str,
    arrays: Sequence[Array],
    origin: Mapping[str, str],
    threads: int,
    runs: int,
    warmup: int,
) -> Profile:
    """Time each operator of the main subgraph by itself, on what really reaches it."""
    # Operators of other subgraphs run as often as a loop turns, which single models do not show.
    if len(program.subgraphs) != 1:
        raise EngineUnavailable(
            "a model with loops or functions cannot be cut into operators",
            hint="use engine='reference'",
        )
    (subgraph,) = program.subgraphs
    values = _values(subgraph, content, arrays)
    sizes = output_bytes(subgraph.operators)
    times: dict[Operator, list[int]] = defaultdict(list)
    for operator in subgraph.operators:
        times[operator] = list(_alone(operator, values, threads, runs, warmup))
    found = [
        [(_name(o, origin), o.code, times[o][run], sizes[o]) for o in subgraph.operators]
        for run in range(runs)
    ]
    whole = Model(content, threads=threads)
    clock = [_clocked(lambda: whole.run(arrays)) for _ in range(warmup + runs)][warmup:]
    return Profile(collect(found), "litert", threads, ALONE, {}, clock)


def _values(subgraph: Subgraph, content: bytes | str, arrays: Sequence[Array]) -> dict[Tensor, Array]:
    """The tensors of a run by LiteRT's own kernels; without those whose name another tensor has too."""
    from ai_edge_litert.interpreter import OpResolverType

    made = interpreter(
        **source(content),
        allocated=False,
        experimental_preserve_all_tensors=True,
        # A delegate keeps the tensors between its operators to itself.
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )
    places = [d["index"] for d in made.get_input_details()]
    for place, array in zip(places, arrays, strict=True):
        made.resize_tensor_input(place, array.shape)
    allocate(made)
    for place, array in zip(places, arrays, strict=True):
        made.set_tensor(place, array)
    made.invoke()
    details = made.get_tensor_details()
    # A Program keeps no numbers of tensors, so names are all that ties LiteRT's to ours; a name given twice
    # ties nothing.
    often = Counter(d["name"] for d in details)
    named = {d["name"]: d["index"] for d in details if often[d["name"]] == 1}
    found = dict(zip(subgraph.inputs, arrays, strict=True))
    for tensor in (t for o in subgraph.operators for t in o.outputs):
        if tensor.name in named:
            found[tensor] = made.get_tensor(named[tensor.name])
    return found


def _alone(
    operator: Operator, values: Mapping[Tensor, Array], threads: int, runs: int, warmup: int
) -> Iterator[int]:
    """Microseconds of an operator's runs; 0 for one that LiteRT does not run apart from the others."""
    inputs = list(dict.fromkeys(t for t in operator.inputs if t is not None and not t.is_constant))
    if not inputs or any(t not in values for t in inputs):
        yield from [0] * runs
        return
    try:
        subgraph = Subgraph(inputs, operator.outputs, [operator])
        model = Model(to_bytes(Program([subgraph])), threads=threads, settled=None)
        model.run([values[t] for t in inputs])
        # Without feeding: in the whole model the inputs would be there.
        times = [_clocked(model.interpreter.invoke) for _ in range(warmup + runs)][warmup:]
    except EngineUnavailable:
        times = [0] * runs
    yield from times


def _clocked(run: Any) -> int:
    begin = time.perf_counter_ns()
    run()
    return (time.perf_counter_ns() - begin) // 1000
