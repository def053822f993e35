"""Verification: do two models compute the same, graphs as well as files that an engine runs as they are?"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from thinflow.compare.boundaries import Codes, Ends, NamedPairs, common_ends, cut_to
from thinflow.compare.differences import difference
from thinflow.compare.inner_values import first_divergence, inner_differences, real_numbers
from thinflow.compare.match_io import Match, Ports, match_ends, match_ports, plain, shapes_fit
from thinflow.compare.match_nodes import match_nodes
from thinflow.compare.side_by_side import (
    Feeds,
    Shapes,
    SideBySide,
    calls_to_make,
    choose_feeds,
    compared_with_own_runtime,
    computed_feeds,
    session_inputs,
    state_notes,
)
from thinflow.compare.verification import Divergence, Verification, find_divergence
from thinflow.engines._files import has_signature, is_file
from thinflow.engines.session import Session
from thinflow.errors import GraphError, ParameterError, ThinflowError
from thinflow.ir.graph import Graph, Value
from thinflow.ir.interface import without_states
from thinflow.synthetic import naming_open_sizes, open_sizes
from thinflow.typing import Progress

_MUCH_LESS = 0.2
"""Part of a difference that rounding in other places may make up, without being the cause."""
Model = Graph | str | os.PathLike[str]
Pair = tuple[Model, Model]


def verify(
    a: Model,
    b: Model,
    feeds: Feeds = None,
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
    shapes: Shapes | None = None,
    elsewhere: str = "",
    only_roundings: Callable[[], str] | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Run both on the same inputs and compare the outputs.

    Inputs and outputs of two graphs are paired by name; where no name is shared, by what they compute, or by
    position if types and shapes fit. Those of a file are paired by name, also by the names that a signature
    gives them, then by type and shape, then by position. Where one model holds a part of the other, that is
    fed and read where the part begins and ends. Where one model is eight-bit at its ends, it is fed the
    nearest codes, and what its codes stand for is compared.

    Args:
        a, b: a graph with inputs and outputs set, or the path of a file that an engine runs.
        feeds: one feed (name in `a` -> array) or several; made up from `seed` if None.
        engine: what runs graphs.
        tolerance: relative difference up to which they agree.
        runs: how many made-up feeds per seed.
        seed: for made-up feeds, or several.
        signature: of the .tflite files, those that have it.
        layers: of files, compare the inner tensors even if the outputs agree.
        second_opinion: if they differ, let the interpreter compute the files as well, to tell whether a model
            or an engine is to blame.
        inputs, outputs: which those are, and which is which; found out if None.
        shapes: input name in `a` -> shape of what is made up, where a file leaves it open.
        elsewhere: the engine that runs `b`, such as a device; "" for what runs `a`, or a file's own.
        only_roundings: asked where files differ: what says that roundings alone make them do so, or "".
        progress: called with (done, total, label).

    Raises:
        GraphError: they share no output, or not all inputs; or what lies inside of a file is to be run
            elsewhere.
        VerificationError: what lies inside of a file would have to be compared, and the interpreter, which
            computes that, does not compute the file as its own runtime does.
    """
    require_tolerance(tolerance)
    named = inputs or NamedPairs(), outputs or NamedPairs()
    are_graphs = _are_whole_graphs(a, b, named[0].pairs or named[1].pairs)
    ends = Ends((a, b)) if are_graphs else _ends((a, b), named, signature)
    if elsewhere and is_file(b) and not is_file(ends.models[1]):
        raise GraphError(
            "a file runs there as it is, and not from within",
            hint="name inputs and outputs of the file itself",
        )
    first = _session(ends.models[0], engine, "auto", signature, ends.codes[0])
    second = _session(ends.models[1], elsewhere or engine, elsewhere or "auto", signature, ends.codes[1])
    notes = ends.notes + _own_runtimes((a, b), (first, second), signature, feeds, tolerance)
    fed, read = _match_graphs(first, second) if are_graphs else _match_files(first, second, named)
    both = SideBySide((first, second), fed, read, are_graphs)
    chosen = None
    if ends.whole is not None:
        chosen = computed_feeds(ends.whole, first, engine, feeds, runs, seed)
    if chosen is None:
        shapes = shapes or _sizes_of_second(first, second, fed)
        chosen = choose_feeds(first, feeds, calls_to_make(both.sessions, runs), seed, shapes)
    made_up = feeds is None and ends.whole is None
    # Where a made-up input does not fit, the message names the sizes that were made up.
    with naming_open_sizes(open_sizes(session_inputs(first, shapes)) if made_up else {}):
        reports = both.compare(chosen, tolerance, progress)
    notes += [*state_notes(both.sessions, len(chosen)), *read.notes, *fed.notes]
    found = Verification(reports, tolerance, "", len(chosen), notes)
    if not found.ok and only_roundings is not None:
        found.roundings = only_roundings()
    if are_graphs:
        found.divergence = _divergence_of_graphs(both, tolerance)
    elif chosen and (layers or not found.ok):
        # One feed is enough to see where the numbers part.
        feeds_of = chosen[0], both.feed_of_second(chosen[0])
        found.notes += [] if found.ok else _doubts(fed, "input")
        found.layers = inner_differences(*ends.models, *feeds_of, signature, ends.codes, tolerance=tolerance)
        found.divergence = None if found.ok else first_divergence(found.layers, tolerance)
        if second_opinion and not found.ok:
            found.notes += _opinions(ends.models, both.sessions, feeds_of, signature, found.worst)
    found.first_divergence = found.divergence.name if found.divergence is not None else ""
    return found


def _sizes_of_second(first: Session, second: Session, fed: Match[str]) -> dict[str, Sequence[int | None]]:
    """Shapes of inputs that the first model leaves open and the second states."""
    found: dict[str, Sequence[int | None]] = {}
    # A graph that is open in more than the batch takes what its inputs are declared to be.
    for name, spec in first.inputs.items() if first.graph is None else ():
        twin = second.inputs.get(fed.pairs.get(plain(name), ""))
        if twin is not None and twin.is_static and not spec.is_static and shapes_fit(twin.shape, spec.shape):
            found[name] = twin.shape or ()
    return found


def require_tolerance(tolerance: float) -> None:
    """Raises ParameterError for one that is negative or no number."""
    # Written so that NaN is refused, too.
    if not tolerance >= 0:
        raise ParameterError(f"the tolerance is {tolerance}", hint="give 0 or more, for example 1e-4")


def _ends(models: Pair, named: tuple[NamedPairs, NamedPairs], signature: str | None) -> Ends:
    """Both models fed and read where the user says, or else where their names meet."""
    fed, read = named
    a, first_codes = cut_to(models[0], fed.first, read.first, signature)
    b, second_codes = cut_to(models[1], fed.second, read.second, signature)
    found = Ends((a, b)) if read.second is not None else common_ends(a, b, signature)
    found.codes[0].update(first_codes)
    found.codes[1].update(second_codes)
    return found


def _are_whole_graphs(a: Model, b: Model, pairs: Mapping[str, str]) -> bool:
    """True if both are TensorFlow graphs to compare from end to end; not where the user pairs names."""
    if is_file(a) or is_file(b) or pairs or not isinstance(a, Graph) or not isinstance(b, Graph):
        return False
    ends = common_ends(a, b)
    # Where one could be read inside, but has an output of a name that the other
    # knows, that output is compared.
    return not ends.is_fed_inside and (not ends.notes or any(v.node.name in b for v in a.outputs))


def _match_graphs(first: Session, second: Session) -> tuple[Match[str], Match[str]]:
    """The inputs and the outputs of two graphs, by name or else by structure.

    Raises:
        GraphError: they share none.
    """
    a, b = _graph_of(first), _graph_of(second)
    # Reads all weights, and is needed only where no names are shared.
    nodes = cache(lambda: match_nodes(a, b))
    inputs = without_states(a, a.inputs)
    fed = match_ends(inputs, without_states(b, b.inputs), nodes, b)
    read = match_ends(without_states(a, a.outputs), without_states(b, b.outputs), nodes, b)
    # Outputs that were paired by a guess are not trusted if not all inputs could be paired.
    if not read.pairs or (read.notes and len(fed.pairs) < len(inputs)):
        raise GraphError(
            "the graphs have no output in common", hint="name the outputs: outputs=[...] when loading"
        )
    return fed, read


def _graph_of(session: Session) -> Graph:
    assert session.graph is not None, "files have no graph"
    return session.graph


def _divergence_of_graphs(both: SideBySide, tolerance: float) -> Divergence | None:
    """The first value that differs, on the first feed for which one can be found."""
    a, b = (_graph_of(s) for s in both.sessions)
    outputs = Match[Value]()
    for name, other in both.read.pairs.items():
        outputs.add(a.value(name), b.value(other))
    for feed, (states, other_states) in both.failures:
        fed = {a.value(n): np.asarray(x) for n, x in feed.items()} | states
        also_fed = {b.value(n): x for n, x in both.feed_of_second(feed).items()} | other_states
        found = find_divergence(a, b, (fed, also_fed), outputs, tolerance)
        if found is not None:
            return found
    return None


def _match_files(
    first: Session, second: Session, named: tuple[NamedPairs, NamedPairs]
) -> tuple[Match[str], Match[str]]:
    """The inputs and the outputs of two models, as the user says or by name, type and shape, or position."""
    read = Ports(first.outputs, first.aliases)
    if named[1].first is not None:
        asked = {plain(n) for n in named[1].first}
        read.specs = {n: s for n, s in read.specs.items() if asked & set(read.spellings(n))}
    outputs = match_ports(read, Ports(second.outputs, second.aliases), "output", named[1].pairs)
    fed = Ports(first.inputs, first.aliases)
    return match_ports(fed, Ports(second.inputs, second.aliases), "input", named[0].pairs), outputs


def _own_runtimes(
    given: Pair,
    sessions: tuple[Session, Session],
    signature: str | None,
    feeds: Feeds,
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


def _doubts(match: Match[str], role: str) -> list[str]:
    """Advice where a difference may come of a wrong guess."""
    if not match.guessed:
        return []
    listed = ",".join(f"{n}={match.pairs[n]}" for n in match.guessed)
    return [f"only their order says which {role} is which; if that is wrong, say so: --{role}s {listed}"]


def _opinions(
    models: Pair,
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
        # It has run already, and a state would be that of a later call.
        session.restart()
        theirs = dict(zip(session.outputs, session.run(None, feed), strict=True))
        codes = session.grids
        gaps = (difference(*(real_numbers(x[n], codes.get(n)) for x in (theirs, ours))) for n in theirs)
        found = max((g.relative for g in gaps), default=0.0)
        notes.append(_opinion(model, session.engine, found, gap))
    return notes


def _opinion(model: Model, engine: str, found: float, gap: float) -> str:
    name = os.path.basename(model.path if isinstance(model, Graph) else os.fspath(model)) or "the graph"
    if found <= _MUCH_LESS * gap:
        return (
            f"the interpreter computes {name} as {engine} does (to {found:.2g}): "
            "what differs is the model, not the engine"
        )
    return f"the interpreter and {engine} differ on {name} itself, by {found:.2g}: the engine may be to blame"


def _session(model: Model, engine: str, own: str, signature: str | None, codes: Codes) -> Session:
    """A model on an engine for graphs, or on one for files that run as they are."""
    if not is_file(model):
        session = Session(model, engine)
        session.codes = codes
        return session
    return Session(model, own, signature=signature if has_signature(model, signature) else None)
