"""Inner tensors of two models, of which one is a .tflite or .onnx file: their pairs and their differences.

Converters name a tensor after the node it came from, or after all nodes that were fused into the operator
(`a;b;c`); they may put a scope in front, and thinflow's own marks one whose channels moved by `/raw`.
Eight-bit tensors count as the real numbers that they stand for.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from thinflow import formats
from thinflow.analysis.foreign_quant_params import params_of, step_of
from thinflow.compare.differences import Layer, first_beyond, is_beyond, layer_of, sorted_layer
from thinflow.compare.match_io import RAW, Match, Ports, match_ports, order_between, plain
from thinflow.compare.verification import Divergence
from thinflow.engines._files import has_signature, is_file, path_of
from thinflow.engines._inner_tensors import litert_tensors, onnxruntime_tensors
from thinflow.engines.session import Session
from thinflow.errors import GraphError, ThinflowError
from thinflow.formats.foreign import file_name
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import ancestors, execution_order
from thinflow.ir.vocabulary import LITERT
from thinflow.typing import Array

# A bound on the ends of one name, so that the index stays linear in the nodes.
_MOST_SCOPES = 12


def match_tensors(first: Graph, second: Graph) -> Match[Value]:
    """Inner tensors and outputs that both have, in the running order of the first. O(nodes * scopes)."""
    order = {v: n for n, v in enumerate(_inner(first))}
    there = _Index(list(order))
    claimed = Match[Value]()
    others = list(_inner(second))
    # All exact names first: a name's end must not take what another tensor has by its whole name.
    for exact in (True, False):
        for value in others:
            twin = _twin(value, there, exact)
            if twin is not None and twin not in claimed.pairs and _may_be_alike(twin, value):
                claimed.add(twin, value)
    for twin, value in _outputs(first, second):
        if twin in order and claimed.is_open(twin, value) and _may_be_alike(twin, value):
            claimed.add(twin, value)
    # In running order, so that the first difference is the first to look at.
    claimed.pairs = {a: claimed.pairs[a] for a in sorted(claimed.pairs, key=order.__getitem__)}
    return claimed


def is_source(node: Node) -> bool:
    """True if a node is an input or a constant."""
    return node.tensor is not None or node.op.startswith("Placeholder")


def names_of(value: Value) -> list[str]:
    """The names that a file gives to a value, those of what was fused into it included; without ":0"."""
    own = [value.name.removesuffix(":0")]
    spelled = file_name(value)
    own += [name.strip().removesuffix(":0") for name in spelled.split(";")]
    plain = [n[: -len(RAW)] for n in own if n.endswith(RAW)]
    return list(dict.fromkeys(n for n in (*own, *plain) if n))


def _outputs(first: Graph, second: Graph) -> Iterator[tuple[Value, Value]]:
    """The declared outputs in pairs, as they are paired for running."""
    ends = [{v.name: v for v in g.outputs} for g in (first, second)]
    ports = [
        Ports({n: v.spec for n, v in known.items()}, g.aliases)
        for known, g in zip(ends, (first, second), strict=True)
    ]
    try:
        pairs = match_ports(ports[0], ports[1], "output").pairs
    except GraphError:
        return
    for name, twin in pairs.items():
        value = next((v for n, v in ends[0].items() if plain(n) == name), None)
        if value is not None:
            yield value, ends[1][twin]


class _Index:
    """Values of the first model by their names, and by the ends of those."""

    def __init__(self, values: Sequence[Value]) -> None:
        self.whole: dict[str, Value] = {}
        self.ends: dict[str, Value | None] = {}
        for value in values:
            for name in names_of(value):
                self.whole.setdefault(name, value)
                for end in _ends(name):
                    known = self.ends.setdefault(end, value)
                    if known is not value:
                        # Two values end alike: the end tells nothing, but must be remembered as such.
                        self.ends[end] = None

    def find(self, name: str, exact: bool) -> Value | None:
        """The value of that name; if not `exact`, the only one that ends alike."""
        if exact:
            return self.whole.get(name)
        return next((v for end in _ends(name) if (v := self.ends.get(end)) is not None), None)


def _ends(name: str) -> Iterator[str]:
    """A name, and what is left of it without its outer scopes, as long as that has a scope."""
    parts = name.split("/")
    for start in range(min(len(parts) - 1, _MOST_SCOPES)):
        yield "/".join(parts[start:])


def _twin(value: Value, there: _Index, exact: bool) -> Value | None:
    """The value of the first model that one of the second computes: the last of those fused into it."""
    named = [v for n in names_of(value) if (v := there.find(n, exact)) is not None]
    if not named:
        return None
    found = named[0]
    while True:
        # Of `conv;bias;relu` the operator computes the one that is computed from the others.
        # By the graph and not by the order of the names, which differs between converters.
        later = [r.output() for r in found.readers if r.output() in named] if named[1:] else []
        if len(later) != 1 or later[0] is found:
            return found
        found = later[0]


def _inner(graph: Graph) -> Iterator[Value]:
    """Values that reach an output, but for inputs and constants, in running order."""
    needed = ancestors([v.node for v in graph.outputs])
    for node in execution_order(graph):
        if node in needed and not is_source(node):
            yield from node.outputs or (node.output(),)


def _may_be_alike(a: Value, b: Value) -> bool:
    """True if they hold as many numbers, as far as known: layouts may differ."""
    return None in (a.spec.size, b.spec.size) or a.spec.size == b.spec.size


Model = Graph | str | os.PathLike[str]
Codes = Mapping[str, tuple[float, int]]

_MAX_BYTES = 1 << 28
"""Of all compared tensors together; more is not worth holding twice."""


def inner_differences(
    a: Model,
    b: Model,
    feed: Mapping[str, Any],
    twin_feed: Mapping[str, Any],
    signature: str | None = None,
    codes: tuple[Codes, Codes] = ({}, {}),
    *,
    tolerance: float,
) -> list[Layer]:
    """Differences of the tensors that both models have, in the order in which `a` runs.

    Args:
        a, b: a graph with inputs and outputs set, or a file that an engine runs.
        feed: name in `a` -> array.
        twin_feed: the same by the names in `b`.
        signature: of the .tflite files, those that have it.
        codes: of graphs made from files: name -> scale and zero point that their integers go by.
        tolerance: relative difference up to which two tensors are alike.

    Returns:
        One layer per tensor; nothing if no inner value of one of them can be had. Tensors whose elements were
        put in another order on purpose are marked as such.
    """
    try:
        first, second = _graph_of(a, signature), _graph_of(b, signature)
        pairs = _affordable(match_tensors(first, second))
        pairs = {_as_rounded(x, y): y for x, y in pairs.items()}
        before = _values(a, first, list(pairs), feed, codes[0])
        after = _values(b, second, list(pairs.values()), twin_feed, codes[1])
    except ThinflowError:  # a model of which no inner value can be had
        return []
    found: dict[Value, Layer] = {}
    for x, y in pairs.items():
        one, other = before.get(x), after.get(y)
        if one is not None and other is not None and one.size == other.size and one.size:
            ends = x.name, x.node.op, y.name, y.node.op
            steps = (c[v.name][0] if v.name in c else step_of(v) for c, v in zip(codes, (x, y), strict=True))
            step = max(steps)
            found[x] = layer_of(ends, one, _in_layout(one, other, y), step)
    for x, layer in [(x, layer) for x, layer in found.items() if is_beyond(layer, tolerance)]:
        # Text has no order to speak of.
        if {before[x].dtype.kind, after[pairs[x]].dtype.kind} - set("fiub"):
            continue
        moved = sorted_layer(layer, before[x], after[pairs[x]])
        if _is_reordered(x, layer, moved, found, tolerance):
            found[x] = moved
    return list(found.values())


def _as_rounded(x: Value, y: Value) -> Value:
    """What a QDQ file rounds a tensor to, where that is the twin of another file's codes.

    Quantizers leave out a Relu, say, in front of a QuantizeLinear that cuts off as much.
    """
    readers = list(x.readers)
    if len(readers) != 1 or readers[0].op != "onnx.QuantizeLinear" or step_of(x) or not step_of(y):
        return x
    return readers[0].output()


def _is_reordered(
    value: Value, layer: Layer, moved: Layer, layers: Mapping[Value, Layer], tolerance: float
) -> bool:
    """True if two tensors hold the same elements in two orders, by which what is computed from them goes.

    A conversion that moves channels has the elements of a flattened picture in another order, and the rows of
    the weights behind it. Had it forgotten the rows, nothing that follows would be alike.
    """
    alike = [v for v, other in layers.items() if not is_beyond(other, tolerance)]
    if not is_beyond(moved, tolerance) and _leads_to(value, alike):
        return True
    # Coarse numbers are never within the tolerance. A tensor that is one of noise as it stands, and none
    # sorted, is told from coarse ones nevertheless.
    most = layer.noise * _NOISE_LEFT
    coarse = [v for v, other in layers.items() if other.noise <= most]
    return layer.noise > _SCRAMBLED and moved.noise <= most and _leads_to(value, coarse)


def _leads_to(value: Value, values: Sequence[Value]) -> bool:
    """True if one of the values is computed from the first."""
    return value.node in ancestors([v.node for later in values for v in later.node.inputs])


# Two orders of the same independent values are 1.4 apart, of picture-like ones less; eight bits make 0.05.
_SCRAMBLED = 0.5
"""Noise above which a tensor may hold its elements in another order."""
_NOISE_LEFT = 0.1
"""The part of it that is left, if so, once the order is settled."""


def first_divergence(layers: Sequence[Layer], tolerance: float) -> Divergence | None:
    """The first tensor that differs by more than the tolerance; None if none does."""
    found = first_beyond(layers, tolerance)
    if found is None:
        return None
    gap = found.difference
    places = gap.index, gap.before, gap.after, gap.relative, found.step
    return Divergence(found.name, found.op, found.twin, found.twin_op, *places)


def _in_layout(one: Array, other: Array, value: Value) -> Array:
    """The second array with its channels where the first has them."""
    moved = np.moveaxis(other, 1, -1) if other.ndim >= 3 else other
    # thinflow's own mark of a tensor that was moved to NCHW; with equal sizes the shape would not tell.
    if names_of(value)[0].endswith(RAW) and moved.shape == one.shape:
        return moved
    order = order_between(one.shape, other.shape)
    result: Array = other.reshape(one.shape) if order is None else other.transpose(order)
    return result


def _affordable(tensors: Match[Value]) -> dict[Value, Value]:
    """The first of them, as far as they can be held; one that is too large hides none behind it."""
    free, pairs = _MAX_BYTES, {}
    for x, y in tensors.pairs.items():
        size = x.spec.size_bytes or 0
        if size <= free:
            free -= size
            pairs[x] = y
    return pairs


def inner_values(graph: Graph, feed: Mapping[str, Any]) -> dict[Value, Array]:
    """What a model computes on the way to its outputs, as real numbers; as much as can be held.

    Args:
        graph: with inputs and outputs set, or as it was read from a file that an engine runs.
        feed: name of an input -> array.
    """
    free, wanted = _MAX_BYTES, list[Value]()
    for value in _inner(graph):
        size = value.spec.size_bytes or 0
        if size <= free:
            free -= size
            wanted.append(value)
    return _values(graph, graph, wanted, feed, {})


def _graph_of(model: Model, signature: str | None) -> Graph:
    if isinstance(model, Graph):
        return model
    chosen = {"signature": signature} if has_signature(model, signature) else {}
    return formats.load(model, **chosen)


def _values(
    model: Model, graph: Graph, wanted: Sequence[Value], feed: Mapping[str, Any], codes: Codes
) -> dict[Value, Array]:
    if not is_file(model):
        arrays = Session(graph, "reference").run(list(wanted), feed)
        return {v: real_numbers(x, codes.get(v.name)) for v, x in zip(wanted, arrays, strict=True)}
    named = {file_name(v): v for v in wanted}
    if not named:
        return {}
    if graph.vocabulary == LITERT.name:
        found = litert_tensors(graph, list(named), feed)
    else:
        found = onnxruntime_tensors(path_of(model), list(named), feed)
    return {named[n]: _real(x, named[n]) for n, x in found.items()}


def real_numbers(array: Array, grid: tuple[float, int] | None) -> Array:
    """The real numbers of a quantized tensor's integers; any other array as it is."""
    if grid is None or array.dtype.kind not in "iu":
        return array
    # In float64: the difference of 32-bit integers does not fit into float32.
    return np.asarray((array.astype(np.float64) - grid[1]) * grid[0], np.float32)


def _real(array: Array, value: Value) -> Array:
    """The real numbers that a quantized tensor's elements stand for."""
    grid = params_of(value)
    return array if grid is None or array.dtype.kind not in "iu" else grid.real(array)
