"""Common inputs and outputs of two models, of which one may hold only a part of the other.

A frozen backbone ends at a tensor that is an inner one of the whole network, and what a converter left out
may begin or end inside the model it was made from. The larger one is fed and read there. A file that an
engine runs whole is computed by the interpreter then, as engines do not give inner tensors.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from thinflow.compare.match_io import RAW, forms_fit, plain
from thinflow.engines._files import has_signature, is_file
from thinflow.engines.session import Session
from thinflow.errors import GraphError, ParameterError, ThinflowError, closest
from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Graph, Value
from thinflow.ir.interface import without_states
from thinflow.ir.order import ancestors
from thinflow.ir.types import TensorSpec

Model = Graph | str | os.PathLike[str]
Specs = Mapping[str, TensorSpec]
Codes = dict[str, tuple[float, int]]


@brief_repr
@dataclass
class NamedPairs:
    """A user's names for the inputs, or for the outputs, of two models.

    Attributes:
        first: names in the first model; None if nothing was said.
        pairs: name in the first -> name in the second, where both were given ("a=b").
    """

    first: list[str] | None = None
    pairs: dict[str, str] = field(default_factory=dict)

    @property
    def second(self) -> list[str] | None:
        """Names in the second model, if all are given."""
        if self.first is None or len(self.pairs) < len(self.first):
            return None
        return list(self.pairs.values())


def named_pairs(names: Sequence[str] | str | None, role: str) -> NamedPairs:
    """`["a", "b=c"]` taken apart: "a" of the first model, "b" of the first with "c" of the second.

    Raises:
        ParameterError: half of a pair is missing, or a name is given twice.
    """
    if names is None:
        return NamedPairs()
    found = NamedPairs([])
    for text in names.split(",") if isinstance(names, str) else names:
        name, equals, twin = (part.strip() for part in text.partition("="))
        if not name and not equals:
            continue
        if not name or (equals and not twin):
            raise ParameterError(
                f"--{role}s {text}: half of the pair is missing",
                hint=f"write --{role}s A=B, for A of the first model and B of the second",
            )
        assert found.first is not None
        if name in found.first or twin in found.pairs.values():
            raise ParameterError(f"--{role}s {text}: a name is given twice", hint="give each once")
        found.first.append(name)
        if equals:
            found.pairs[plain(name)] = twin
    return found


@brief_repr
@dataclass
class Ends:
    """Two models, fed and read alike as far as names tell how.

    Attributes:
        models: both, the larger one cut to what the other holds.
        whole: the first in full, if what it is fed has to be computed by it.
        codes: of each, if it was a file and is computed by the interpreter: name -> scale and zero point of
            the real numbers that its integers stand for.
        is_fed_inside: whether one of them is fed where the other begins.
        notes: what was cut, in words.
    """

    models: tuple[Model, Model]
    whole: Graph | None = None
    codes: tuple[Codes, Codes] = field(default_factory=lambda: ({}, {}))
    is_fed_inside: bool = False
    notes: list[str] = field(default_factory=list)


def common_ends(a: Model, b: Model, signature: str | None = None) -> Ends:
    """Both models, one fed and read where the other begins and ends, if that is inside of it."""
    models, found = [a, b], Ends((a, b))
    specs = [_declared(m, signature) for m in models]
    # The second is cut to what the first declares; the first is then held against what is left of it.
    for place in (1, 0):
        one, (inputs, outputs) = models[place], specs[1 - place]
        cut = _Cut.of(one, inputs, outputs, specs[place], signature)
        if cut is None:
            continue
        models[place] = cut.graph
        found.codes[place].update(cut.codes)
        specs[place] = _declared(cut.graph, None)
        found.notes += cut.notes(("first", "second")[place], is_file(one))
        found.is_fed_inside |= cut.is_fed_inside
        # Only of the first: feeds go by its names, and the second is fed what the first is.
        found.whole = cut.whole if place == 0 and cut.is_fed_inside else found.whole
    found.models = models[0], models[1]
    return found


def cut_to(
    model: Model, inputs: list[str] | None, outputs: list[str] | None, signature: str | None
) -> tuple[Model, Codes]:
    """A model with chosen inputs and outputs, inner ones too; a file as it is where it declares them all.

    Returns:
        The model, and the codes of a file that had to be cut; see `Ends`.

    Raises:
        GraphError: there is no such value.
    """
    if inputs is None and outputs is None:
        return model, {}
    if is_file(model):
        ends = _declared(model, signature)
        known = [{plain(n) for n in e} for e in ends]
        asked = [inputs or list(ends[0]), outputs or []]
        # A file whose own inputs and outputs were named is run by its engine, as
        # devices run it.
        if set(map(plain, asked[0])) == known[0] and set(map(plain, asked[1])) <= known[1]:
            return model, {}
    graph, codes = _graph_of(model, signature)
    for role, names in (("input", inputs), ("output", outputs)):
        if names is not None:
            setattr(graph, f"{role}s", [_required(graph, n, role) for n in names])
    return graph, codes


@dataclass
class _Cut:
    """A model fed and read inside."""

    graph: Graph
    whole: Graph
    codes: Codes
    fed: list[str]
    read: list[str]

    @classmethod
    def of(
        cls, model: Model, inputs: Specs, outputs: Specs, own: tuple[Specs, Specs], signature: str | None
    ) -> _Cut | None:
        """The part with those ends; None if all are its own, or not all are inside."""
        if _are_declared(inputs, own[0]) and _are_declared(outputs, own[1]):
            return None
        try:
            whole, codes = _graph_of(model, signature)
        except ThinflowError:  # a file that cannot be said in TensorFlow's ops
            return None
        fed = _values(whole, whole.inputs, inputs)
        read = _values(whole, whole.outputs, outputs)
        if fed is None and read is None:
            return None
        graph = whole.clone()
        ends = graph.outputs if read is None else [graph.value(v.name) for v in read]
        if fed is not None:
            chosen = [graph.value(v.name) for v in fed]
            # Inputs of its own that lead to the outputs beside the chosen places have to be fed as well.
            needed = ancestors([v.node for v in ends], stop=frozenset(v.node for v in chosen))
            graph.inputs = [*chosen, *(v for v in graph.inputs if v.node in needed and v not in chosen)]
        graph.outputs = ends
        names = [] if fed is None else list(inputs), [] if read is None else list(outputs)
        return cls(graph, whole, codes, *names)

    @property
    def is_fed_inside(self) -> bool:
        return bool(self.fed)

    def notes(self, which: str, was_file: bool) -> list[str]:
        """Sentences about the cut."""
        by = ", by the interpreter" if was_file else ""
        found = [f"the {which} is fed inside{by}, at {', '.join(self.fed)}"] if self.fed else []
        if self.read:
            found.append(f"the {which} is read inside{by}, where the other ends: {', '.join(self.read)}")
        return found


def _declared(model: Model, signature: str | None) -> tuple[Specs, Specs]:
    """The inputs and outputs that a model names itself."""
    if not is_file(model) and isinstance(model, Graph):
        ends = (without_states(model, side) for side in (model.inputs, model.outputs))
        inputs, outputs = ({v.name: v.spec for v in side} for side in ends)
        return inputs, outputs
    session = Session(model, "auto", signature=signature if has_signature(model, signature) else None)
    return session.inputs, session.outputs


def _are_declared(names: Iterable[str], known: Iterable[str]) -> bool:
    return {plain(n) for n in names} <= {plain(n) for n in known}


def _graph_of(model: Model, signature: str | None) -> tuple[Graph, Codes]:
    """A copy of a graph; a file in TensorFlow's ops, with what its codes stand for.

    Raises:
        UnsupportedOp: the file has an op that cannot be said so.
    """
    if isinstance(model, Graph) and not is_file(model):
        return model.clone(), {}
    session = Session(model, "reference", signature=signature if has_signature(model, signature) else None)
    assert session.graph is not None
    return session.graph, session.codes


def _values(graph: Graph, ends: Sequence[Value], wanted: Specs) -> list[Value] | None:
    """Values of those names in a graph; None if all are its ends, or some are not known or do not fit."""
    own = {plain(v.name): v for v in ends}
    others = {plain(o): own[plain(n)] for o, n in graph.aliases.items() if plain(n) in own}
    found: list[Value] = []
    for name, spec in wanted.items():
        value = others.get(plain(name)) or own.get(plain(name)) or _inside(graph, name)
        if value is None or (value not in ends and not forms_fit(value.spec, spec)):
            return None
        found.append(value)
    return None if set(found) <= set(ends) else found


def _inside(graph: Graph, name: str) -> Value | None:
    """A value that is computed in a graph, by its name or the one that a file gave it."""
    for spelled in (plain(name), f"{plain(name)}{RAW}"):
        try:
            value = graph.value(spelled)
        except ThinflowError:
            continue
        # A constant of that name is no place to feed or to read.
        return value if value.node.tensor is None else None
    return None


def _required(graph: Graph, name: str, role: str) -> Value:
    """The value of that name.

    Raises:
        GraphError: there is none.
    """
    found = _inside(graph, name)
    if found is None:
        near = closest(plain(name), [node.name for node in graph])
        raise GraphError(
            f"there is no {role} '{name}' in the model",
            graph.path,
            near or "`thinflow inspect MODEL` lists the names",
        )
    return found
