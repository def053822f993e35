"""Models run side by side, graphs as well as the files that an engine runs as they are (.tflite, .onnx)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from thinflow.compare.boundaries import Codes, Ends, NamedPairs, common_ends, cut_to
from thinflow.compare.differences import difference
from thinflow.compare.inner_values import first_divergence, inner_differences, real_numbers
from thinflow.compare.match_io import PortPairs, Ports, order_between, pair_ports, plain, shapes_fit
from thinflow.compare.own_runtime import compared_with_own_runtime
from thinflow.compare.verify import OutputReport, Verification, calls_to_make, state_notes
from thinflow.engines._files import has_signature, is_file
from thinflow.engines.session import Session
from thinflow.errors import FeedError, ParameterError, ThinflowError
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph, Value
from thinflow.ir.states import without_states
from thinflow.ir.types import Shape, TensorSpec
from thinflow.synthetic import naming_open_sizes, open_sizes, synthetic_feeds
from thinflow.typing import Array

_MUCH_LESS = 0.2
"""Part of a difference that rounding in other places may make up, without being the cause."""
Model = Graph | str | os.PathLike[str]


def verify_runs(
    a: Model,
    b: Model,
    feeds: Iterable[Mapping[str, Any]] | Mapping[str, Any] | None = None,
    *,
    engine: str = "reference",
    tolerance: float = 1e-4,
    runs: int = 2,
    seed: int | Sequence[int] = 0,
    signature: str | None = None,
    layers: bool = False,
    second_opinion: bool = True,
    inputs: NamedPairs | None = None,
    outputs: NamedPairs | None = None,
    shapes: Mapping[str, Sequence[int | None]] | None = None,
) -> Verification:
    """Run both on the same inputs and compare the outputs.

    Inputs and outputs are paired by name, also by those that a signature gives them, then by type and shape,
    then by position. Where one model holds a part of the other, that is fed and read where the part begins
    and ends. Where one model is eight-bit at its ends, it is fed the nearest codes, and what its
    codes stand for is compared.

    Args:
        a, b: a graph with inputs and outputs set, or the path of a file that an engine runs.
        feeds: one feed (name in `a` -> array) or several; made up from `seed` if None.
        engine: what runs graphs.
        tolerance: relative difference up to which they agree.
        runs: how many made-up feeds per seed.
        seed: for made-up feeds, or several.
        signature: of the .tflite files, those that have it.
        layers: compare the inner tensors even if the outputs agree.
        second_opinion: if they differ, let the interpreter compute the files as well, to tell whether a model
            or an engine is to blame.
        inputs, outputs: which those are, and which is which; found out if None.
        shapes: input name in `a` -> shape of what is made up, where a file leaves it open.

    Raises:
        GraphError: they share no output, or not all inputs.
        VerificationError: what lies inside of a file would have to be compared, and the interpreter, which
            computes that, does not compute the file as its own runtime does.
    """
    if not tolerance >= 0:
        raise ParameterError(f"the tolerance is {tolerance}", hint="give 0 or more, for example 1e-4")
    named = inputs or NamedPairs(), outputs or NamedPairs()
    given = a, b
    ends = _ends(given, named, signature)
    (a, b), notes = ends.models, ends.notes
    first = _session(a, engine, signature, ends.codes[0])
    second = _session(b, engine, signature, ends.codes[1])
    sessions = first, second
    notes += _own_runtimes(given, sessions, signature, feeds, tolerance)
    read = _paired(sessions, "output", named[1])
    fed = _paired(sessions, "input", named[0])
    chosen = None
    if ends.whole is not None:
        chosen = _computed_feeds(ends.whole, first, engine, feeds, runs, seed)
    if chosen is None:
        chosen = _chosen(first, feeds, calls_to_make(sessions, runs), seed, shapes)
    made_up = feeds is None and ends.whole is None
    with naming_open_sizes(open_sizes(_as_values(first, shapes)) if made_up else {}):
        reports = _compared(sessions, chosen, fed, read)
    notes += state_notes(sessions, len(chosen))
    found = Verification(reports, tolerance, "", len(chosen), [*notes, *read.notes, *fed.notes])
    found.notes += [] if found.ok else _doubts(fed, "input")
    if chosen and (layers or not found.ok):
        twin_feed = _feed_for(chosen[0], sessions, fed.names)
        found.layers = inner_differences(a, b, chosen[0], twin_feed, signature, ends.codes)
        found.divergence = first_divergence(found.layers, tolerance) if not found.ok else None
        found.first_divergence = found.divergence.name if found.divergence is not None else ""
        if second_opinion and not found.ok:
            feeds_of = (chosen[0], twin_feed)
            found.notes += _opinions((a, b), sessions, feeds_of, signature, found.worst)
    return found


def _own_runtimes(
    given: tuple[Model, Model],
    sessions: tuple[Session, Session],
    signature: str | None,
    feeds: Iterable[Mapping[str, Any]] | Mapping[str, Any] | None,
    tolerance: float,
) -> list[str]:
    """For each file that the interpreter computes here, how its answers compare with the file's own runtime.

    Raises:
        VerificationError: they differ.
    """
    known = [feeds] if isinstance(feeds, Mapping) else feeds if isinstance(feeds, Sequence) else None
    return [
        compared_with_own_runtime(
            model, signature if has_signature(model, signature) else None, known, tolerance
        )
        for model, session in zip(given, sessions, strict=True)
        if is_file(model) and session.graph is not None
    ]


def _ends(models: tuple[Model, Model], named: tuple[NamedPairs, NamedPairs], signature: str | None) -> Ends:
    """Both models fed and read where the user says, or else where their names meet."""
    fed, read = named
    a, first_codes = cut_to(models[0], fed.first, read.first, signature)
    b, second_codes = cut_to(models[1], fed.second, read.second, signature)
    found = Ends((a, b)) if read.second is not None else common_ends(a, b, signature)
    found.codes[0].update(first_codes)
    found.codes[1].update(second_codes)
    return found


def _paired(sessions: tuple[Session, Session], role: str, named: NamedPairs) -> PortPairs:
    """The inputs or outputs of both in pairs, as told or as found."""
    ends = [Ports(getattr(s, f"{role}s"), s.aliases) for s in sessions]
    if named.first is not None and role == "output":
        asked = {plain(n) for n in named.first}
        kept = {n: s for n, s in ends[0].specs.items() if asked & set(ends[0].spellings(n))}
        ends[0] = Ports(kept, ends[0].others)
    return pair_ports(ends[0], ends[1], role, named.pairs)


def _doubts(pairs: PortPairs, role: str) -> list[str]:
    """What to try where a difference may come of a wrong guess."""
    if not pairs.guessed:
        return []
    listed = ",".join(f"{n}={pairs.names[n]}" for n in pairs.guessed)
    return [f"only their order says which {role} is which; if that is wrong, say so: --{role}s {listed}"]


def _compared(
    sessions: tuple[Session, Session], feeds: Sequence[Mapping[str, Any]], fed: PortPairs, read: PortPairs
) -> list[OutputReport]:
    """The differences of the outputs, over all feeds. Outputs of one form are paired by their numbers.

    Where both keep state, the feeds are calls one after the other; else each is a first call.
    """
    first, second = sessions
    reports: dict[str, OutputReport] = {}
    in_a_row = first.keeps_state and second.keeps_state
    for number, feed in enumerate(feeds):
        if not (number and in_a_row):
            first.restart()
            second.restart()
        before = dict(zip(read.names, first.run(list(read.names), feed), strict=True))
        ends = list(read.names.values())
        after = dict(zip(ends, second.run(ends, _feed_for(feed, sessions, fed.names)), strict=True))
        ours = {n: real_numbers(x, _grid(first, n)) for n, x in before.items()}
        theirs = {n: real_numbers(y, _grid(second, n)) for n, y in after.items()}
        if not reports:
            _pair_by_numbers(read, ours, theirs)
        for name, twin in read.names.items():
            report = reports.setdefault(name, OutputReport(name, step=_step(sessions, name, twin)))
            report.add(difference(ours[name], _aligned(ours[name], theirs[twin])))
    return list(reports.values())


def _pair_by_numbers(read: PortPairs, ours: Mapping[str, Array], theirs: Mapping[str, Array]) -> None:
    """Pair anew what only the order has paired: the closest two first."""
    twins = [read.names[n] for n in read.guessed]
    gaps = sorted(
        (difference(ours[x], _aligned(ours[x], theirs[y])).relative, abs(i - j), x, y)
        for i, x in enumerate(read.guessed)
        for j, y in enumerate(twins)
    )
    found: dict[str, str] = {}
    for *_, x, y in gaps:
        if x not in found and y not in found.values():
            found[x] = y
    if any(read.names[x] != y for x, y in found.items()):
        read.names.update(found)
        pairs = ", ".join(f"{x} with {y}" for x, y in found.items())
        read.notes = [f"outputs are paired by their numbers, as no names are shared: {pairs}"]


def _opinions(
    models: tuple[Model, Model],
    sessions: tuple[Session, Session],
    feeds: tuple[Mapping[str, Any], Mapping[str, Any]],
    signature: str | None,
    gap: float,
) -> list[str]:
    """For each file, whether the interpreter computes what its engine does, in a sentence."""
    notes = []
    for model, session, feed in zip(models, sessions, feeds, strict=True):
        if not is_file(model):
            continue
        try:
            key = signature if has_signature(model, signature) else None
            other = Session(model, "reference", signature=key)
            ours = dict(zip(session.outputs, other.run(list(session.outputs), feed), strict=True))
        except ThinflowError:  # not every file can be said in TensorFlow's ops
            continue
        session.restart()
        theirs = dict(zip(session.outputs, session.run(None, feed), strict=True))
        found = max((_apart(session, n, theirs[n], ours[n]) for n in theirs), default=0.0)
        notes.append(_opinion(model, session.engine, found, gap))
    return notes


def _apart(session: Session, name: str, theirs: Array, ours: Array) -> float:
    """The relative difference of two results of one output."""
    real = [real_numbers(x, _grid(session, name)) for x in (theirs, ours)]
    return difference(real[0], real[1]).relative


def _opinion(model: Model, engine: str, found: float, gap: float) -> str:
    name = os.path.basename(model.path if isinstance(model, Graph) else os.fspath(model)) or "the graph"
    if found <= _MUCH_LESS * gap:
        return (
            f"the interpreter computes {name} as {engine} does (to {found:.2g}): "
            "what differs is the model, not the engine"
        )
    return f"the interpreter and {engine} differ on {name} itself, by {found:.2g}: the engine may be to blame"


def _session(model: Model, engine: str, signature: str | None, codes: Codes) -> Session:
    if not is_file(model):
        session = Session(model, engine)
        session.codes = codes
        return session
    return Session(model, "auto", signature=signature if has_signature(model, signature) else None)


def _chosen(
    session: Session,
    feeds: Iterable[Mapping[str, Any]] | Mapping[str, Any] | None,
    runs: int,
    seed: int | Sequence[int],
    shapes: Mapping[str, Sequence[int | None]] | None = None,
) -> list[dict[str, Any]]:
    """The feeds to compare on: those given, or made-up ones."""
    if feeds is not None:
        return [dict(feeds)] if isinstance(feeds, Mapping) else [dict(f) for f in feeds]
    if runs < 1:
        raise ParameterError(f"{runs} runs compare nothing", hint="give 1 or more")
    values = _as_values(session, shapes)
    seeds = [seed] if isinstance(seed, int) else list(seed)
    made = (feed for one in seeds for feed in synthetic_feeds(values, runs, one))
    names = list(session.inputs)
    return [_coded(dict(zip(names, feed.values(), strict=True)), session) for feed in made]


def _as_values(session: Session, shapes: Mapping[str, Sequence[int | None]] | None) -> list[Value]:
    """What a session takes, as values; of a file with the shapes that a user gave."""
    if session.graph is not None:
        return without_states(session.graph, session.graph.inputs)
    return _placeholders(_shaped(session.inputs, shapes or {})).inputs


def _shaped(
    specs: Mapping[str, TensorSpec], shapes: Mapping[str, Sequence[int | None]]
) -> dict[str, TensorSpec]:
    """What a file takes, with the shapes that a user gave.

    Raises:
        FeedError: a shape for something that is not an input.
    """
    given = {plain(n): tuple(s) for n, s in shapes.items()}
    strange = next((n for n in given if n not in map(plain, specs)), None)
    if strange is not None:
        raise FeedError(f"'{strange}' is not an input", hint=f"the inputs are {', '.join(specs)}")
    return {n: TensorSpec(s.dtype, given.get(plain(n), s.shape)) for n, s in specs.items()}


def _computed_feeds(
    whole: Graph,
    session: Session,
    engine: str,
    feeds: Iterable[Mapping[str, Any]] | Mapping[str, Any] | None,
    runs: int,
    seed: int | Sequence[int],
) -> list[dict[str, Any]] | None:
    """What the whole graph computes at the places where a part of it is fed, from the feeds or made-up ones.

    Indices and sizes fit each other then, which made-up ones would not. None if the graph cannot run, or is
    fed at those places.
    """
    runner, names = Session(whole, engine), list(session.inputs)
    chosen = None if feeds is None else _chosen(runner, feeds, runs, seed)
    if chosen and {plain(n) for n in chosen[0]} >= {plain(n) for n in names}:
        return chosen
    try:
        chosen = _chosen(runner, None, runs, seed) if chosen is None else chosen
        return [dict(zip(names, runner.run(names, feed), strict=True)) for feed in chosen]
    except ThinflowError:
        if feeds is not None:
            raise
        return None


def _coded(feed: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """A made-up feed that uses the whole range of eight-bit inputs, where small integers would say little."""
    made = dict(feed)
    for name, x in feed.items():
        grid = _grid(session, name)
        if grid is not None and x.dtype.kind in "iu":
            limits = np.iinfo(x.dtype)
            rng = np.random.default_rng(int(x.astype(np.int64).sum()) % 2**32)
            made[name] = rng.integers(limits.min, limits.max, x.shape, x.dtype, endpoint=True)
    return made


def _step(sessions: tuple[Session, Session], name: str, twin: str) -> float:
    """How far apart neighbouring codes of an output are, in the coarser model; 0 if neither has codes."""
    grids = _grid(sessions[0], name), _grid(sessions[1], twin)
    return max((g[0] for g in grids if g is not None), default=0.0)


def session_inputs(session: Session) -> list[Value]:
    """What a session takes, as values."""
    return _as_values(session, None)


def _placeholders(specs: Mapping[str, TensorSpec]) -> Graph:
    graph = Graph()
    for name, spec in specs.items():
        attrs = {"shape": ShapeAttr(spec.shape)} | ({"dtype": spec.dtype} if spec.dtype is not None else {})
        node = graph.add("Placeholder", name=graph.unique_name(name.partition(":")[0] or "x"), attrs=attrs)
        node.output().spec = spec
        graph.inputs = [*graph.inputs, node.output()]
    return graph


def _feed_for(
    feed: Mapping[str, Any], sessions: tuple[Session, Session], pairs: Mapping[str, str]
) -> dict[str, Any]:
    """A feed of the first model as the second takes it: its names, its grids, its place of the channels."""
    found = {}
    for name, array in feed.items():
        twin = pairs.get(plain(name))
        if twin is None:
            continue
        real = real_numbers(np.asarray(array), _grid(sessions[0], name))
        grid = _grid(sessions[1], twin)
        found[twin] = on_grid(_placed(real, sessions[1].inputs[twin].shape), grid, sessions[1].inputs[twin])
    return found


def _grid(session: Session, name: str) -> tuple[float, int] | None:
    return next((g for n, g in session.grids.items() if plain(n) == plain(name)), None)


def _placed(array: Array, wanted: Shape) -> Array:
    """The array with its channels where the other model has them."""
    if wanted is None or shapes_fit(array.shape, wanted) or len(wanted) != array.ndim or array.ndim < 3:
        return array
    last = array.ndim - 1
    for order in ((0, last, *range(1, last)), (0, *range(2, array.ndim), 1)):
        if shapes_fit(tuple(array.shape[i] for i in order), wanted):
            return array.transpose(order)
    return array


def on_grid(array: Array, grid: tuple[float, int] | None, spec: TensorSpec) -> Array:
    """Real numbers as the nearest integers that a quantized input takes; anything else as it is."""
    if grid is None or spec.dtype is None or array.dtype.kind != "f":
        return array
    kind = spec.dtype.numpy()
    limits = np.iinfo(kind)
    steps = np.rint(array.astype(np.float64) / grid[0]) + grid[1]
    return np.clip(steps, limits.min, limits.max).astype(kind)


def _aligned(x: Array, y: Array) -> Array:
    """`y` in the shape of `x`, where it holds as many numbers in another layout."""
    if x.shape == y.shape or x.size != y.size:
        return y
    order = order_between(x.shape, y.shape)
    return y.reshape(x.shape) if order is None else y.transpose(order)
