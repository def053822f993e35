"""Models run side by side, graphs as well as the files that an engine runs as they are (.tflite, .onnx)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from thinflow.differences import difference
from thinflow.engines._files import has_signature, is_file
from thinflow.engines.session import Session
from thinflow.errors import ParameterError, ThinflowError
from thinflow.inner_values import first_divergence, inner_differences
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph, Value
from thinflow.ir.order import ancestors
from thinflow.ir.types import Shape, TensorSpec
from thinflow.port_pairs import Ports, order_between, pair_ports, plain, shapes_fit
from thinflow.synthetic import synthetic_feeds
from thinflow.verify import OutputReport, Verification

Array = np.ndarray[Any, Any]
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
) -> Verification:
    """Run both on the same inputs and compare the outputs.

    Inputs and outputs are paired by name, also by those that a signature gives them, then by type and shape,
    then by position. Where one model is eight-bit at its ends, it is fed the nearest codes, and what its
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

    Raises:
        GraphError: they share no output, or not all inputs.
    """
    if not tolerance >= 0:
        raise ParameterError(f"the tolerance is {tolerance}", hint="give 0 or more, for example 1e-4")
    whole = a
    a, b, notes = _fed_alike(a, b, signature)
    sessions = _session(a, engine, signature), _session(b, engine, signature)
    first, second = sessions
    outputs = pair_ports(Ports(first.outputs, first.aliases), Ports(second.outputs, second.aliases), "output")
    inputs = pair_ports(Ports(first.inputs, first.aliases), Ports(second.inputs, second.aliases), "input")
    chosen = None
    if feeds is None and isinstance(whole, Graph) and whole is not a:
        chosen = _computed_feeds(whole, first, engine, runs, seed)
    if chosen is None:
        chosen = _chosen(first, feeds, runs, seed)
    reports = {
        name: OutputReport(name, step=_step(sessions, name, twin)) for name, twin in outputs.names.items()
    }
    for feed in chosen:
        before = first.run(list(outputs.names), feed)
        after = second.run(list(outputs.names.values()), _feed_for(feed, sessions, inputs.names))
        ends = zip(outputs.names.items(), before, after, strict=True)
        for report, ((name, twin), x, y) in zip(reports.values(), ends, strict=True):
            real = real_numbers(x, _grid(first, name))
            report.add(difference(real, _aligned(real, real_numbers(y, _grid(second, twin)))))
    notes += [*outputs.notes, *inputs.notes]
    found = Verification(list(reports.values()), tolerance, "", len(chosen), notes)
    if chosen and (layers or not found.ok):
        twin_feed = _feed_for(chosen[0], sessions, inputs.names)
        found.layers = inner_differences(a, b, chosen[0], twin_feed, signature)
        found.divergence = first_divergence(found.layers, tolerance) if not found.ok else None
        found.first_divergence = found.divergence.name if found.divergence is not None else ""
        if second_opinion and not found.ok:
            feeds_of = (chosen[0], twin_feed)
            found.notes += _opinions((a, b), sessions, feeds_of, signature, found.worst)
    return found


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


def _fed_alike(a: Model, b: Model, signature: str | None) -> tuple[Model, Model, list[str]]:
    """Both models, a graph fed and read where the file begins and ends, if that is inside the graph.

    Conversion leaves out what an engine cannot run, such as what decodes files: the input is what came out of
    it then, and the output what goes on from there.
    """
    models, notes = [a, b], []
    for place, (one, other) in enumerate(((a, b), (b, a))):
        if not isinstance(one, Graph) or is_file(one) or not is_file(other):
            continue
        file, which = _session(other, "auto", signature), ("first", "second")[place]
        inputs = _values(one, one.inputs, file.inputs)
        outputs = _values(one, one.outputs, file.outputs)
        cut = one.clone()
        if inputs is not None:
            chosen = [cut.value(v.name) for v in inputs]
            read = cut.outputs if outputs is None else [cut.value(v.name) for v in outputs]
            needed = ancestors([v.node for v in read], stop=frozenset(v.node for v in chosen))
            cut.inputs = [*chosen, *(v for v in cut.inputs if v.node in needed and v not in chosen)]
            notes.append(f"the {which} is fed inside, at {', '.join(file.inputs)}")
        if outputs is not None:
            cut.outputs = [cut.value(v.name) for v in outputs]
            notes.append(f"the {which} is read inside, where the other ends: {', '.join(file.outputs)}")
        if inputs is not None or outputs is not None:
            models[place] = cut
    return models[0], models[1], notes


def _values(graph: Graph, ends: Sequence[Value], names: Iterable[str]) -> list[Value] | None:
    """What the names stand for in a graph; None if all are its ends, or some are not known."""
    own = {plain(v.name): v for v in ends}
    others = {plain(o): own[plain(n)] for o, n in graph.aliases.items() if plain(n) in own}
    found: list[Value] = []
    for name in names:
        value = others.get(plain(name)) or own.get(plain(name)) or _inside(graph, name)
        if value is None:
            return None
        found.append(value)
    return None if set(found) <= set(ends) else found


def _inside(graph: Graph, name: str) -> Value | None:
    """A value that is computed in a graph, by its name."""
    try:
        value = graph.value(plain(name))
    except ThinflowError:
        return None
    return value if value.node.tensor is None else None


def _session(model: Model, engine: str, signature: str | None) -> Session:
    if not is_file(model):
        return Session(model, engine)
    return Session(model, "auto", signature=signature if has_signature(model, signature) else None)


def _chosen(
    session: Session,
    feeds: Iterable[Mapping[str, Any]] | Mapping[str, Any] | None,
    runs: int,
    seed: int | Sequence[int],
) -> list[dict[str, Any]]:
    """The feeds to compare on: those given, or made-up ones."""
    if feeds is not None:
        return [dict(feeds)] if isinstance(feeds, Mapping) else [dict(f) for f in feeds]
    source = session.inputs if session.graph is None else session.graph
    seeds = [seed] if isinstance(seed, int) else list(seed)
    return [_coded(feed, session) for one in seeds for feed in made_up_feeds(source, runs, one)]


def _computed_feeds(
    whole: Graph, session: Session, engine: str, runs: int, seed: int | Sequence[int]
) -> list[dict[str, Any]] | None:
    """What the whole graph computes, from made-up inputs, at the places where a part of it is fed.

    Indices and sizes fit each other then, which made-up ones would not. None if the graph cannot run.
    """
    runner, names = Session(whole, engine), list(session.inputs)
    try:
        chosen = _chosen(runner, None, runs, seed)
        return [dict(zip(names, runner.run(names, feed), strict=True)) for feed in chosen]
    except ThinflowError:
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


def made_up_feeds(
    source: Graph | Mapping[str, TensorSpec], count: int, seed: int = 0
) -> Iterator[dict[str, Array]]:
    """Feeds by name for a graph's inputs, or for what a session says its inputs are.

    Raises:
        FeedError: an input of a type that cannot be made up.
    """
    graph = source if isinstance(source, Graph) else _placeholders(source)
    names = [v.name for v in graph.inputs] if isinstance(source, Graph) else list(source)
    for feed in synthetic_feeds(graph.inputs, count, seed):
        yield dict(zip(names, feed.values(), strict=True))


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


def real_numbers(array: Array, grid: tuple[float, int] | None) -> Array:
    """What the integers of a quantized tensor stand for; any other array as it is."""
    if grid is None or array.dtype.kind not in "iu":
        return array
    return np.asarray((array.astype(np.float64) - grid[1]) * grid[0], np.float32)


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
