"""Quantized tensors of a file that was written from a graph, beside those of the file behind the graph.

Writers name a tensor after the node that computes it, which stands before the FakeQuant that has the name of
the source's tensor; and they mark what stands on the way to codes.
"""

from __future__ import annotations

from collections.abc import Iterator

from thinflow.compare.differences import computed_by
from thinflow.compare.inner_values import match_tensors
from thinflow.compare.match_io import RAW
from thinflow.ir.graph import Graph, Value
from thinflow.lift.grids import grid_of
from thinflow.ops.traits import Trait, has
from thinflow.transforms.quantized.grids import is_map

_ON_THE_WAY = (
    *(RAW, "/codes", "/exact", "/rounded", "/int8", "/int16", "/uint8"),
    # What a node computes with its channels first, where they stay so.
    *("/averagepool", "/maxpool", "/conv", "/convtranspose", "/resize"),
)
_MOST_MAPS = 16
"""Between codes and real numbers; lifting writes six ops."""
_WITHIN = Trait.ELEMENTWISE | Trait.BIAS_ADD | Trait.PASSES_THROUGH | Trait.RESHAPE | Trait.REARRANGES
_MOST_STEPS = 8
"""Between what a node computes and its FakeQuant: a bias, an activation, another shape."""


def made_layers(own: Graph, graph: Graph, made: Graph) -> dict[Value, Value]:
    """Quantized tensors of a source file -> the values of what was made that have their grids.

    Args:
        own: the source, in its own ops.
        graph: as it was opened, in TensorFlow's.
        made: a file made of it, read again, in TensorFlow's.
    """
    sources = {b: a for a, b in match_tensors(own, graph).pairs.items()}
    nearest: dict[Value, tuple[int, Value]] = {}
    for node in made:
        if grid_of(node) is None:
            continue
        behind = next((b for name in _stems(node.output()) if (b := _behind(graph, name)) is not None), None)
        if behind is None or behind[0] not in sources:
            continue
        source, steps = sources[behind[0]], behind[1]
        # Of two the one that is made last: a layer may pad what it reads, on the grid of that.
        if source not in nearest or steps < nearest[source][0]:
            nearest[source] = steps, node.output()
    found = {source: value for source, (_, value) in nearest.items()}
    # Outputs are codes, where the source's are.
    ends = {b: a for a, b in match_tensors(own, made).pairs.items() if b in made.outputs}
    found |= {a: b for b, a in ends.items() if a in own.outputs and a.dtype is b.dtype}
    return found


def stated_at_input(value: Value) -> Value | None:
    """The FakeQuant that states what the codes of an input stand for."""
    for _ in range(_MOST_MAPS):
        readers = list(value.readers)
        if len(readers) != 1:
            return None
        if grid_of(readers[0]) is not None:
            return readers[0].output()
        if not is_map(readers[0], value):
            return None
        value = readers[0].output()
    return None


def stated_at_output(value: Value) -> Value | None:
    """The FakeQuant that states what the codes of an output stand for."""
    for _ in range(_MOST_MAPS):
        stated = next((n for n in (value.node, *value.readers) if grid_of(n) is not None), None)
        if stated is not None:
            return stated.output()
        computed = [v for v in value.node.inputs if v.node.tensor is None]
        if len(computed) != 1 or not is_map(value.node, computed[0]):
            return None
        value = computed[0]
    return None


def _stems(value: Value) -> Iterator[str]:
    """The names that the node may have had of which a tensor was made: its own, and what it rounds."""
    for name in (value.name, value.node.inputs[0].name):
        stem = name.removesuffix(":0")
        yield stem
        while (end := next((e for e in _ON_THE_WAY if stem.endswith(e)), None)) is not None:
            stem = stem.removesuffix(end)
            yield stem


def _behind(graph: Graph, name: str) -> tuple[Value, int] | None:
    """The FakeQuant that gives what a node computes its grid, and how many steps away it is."""
    if name not in graph:
        return None
    value = graph.node(name).output()
    # An output has another name than what rounds it.
    while has(value.node.op, Trait.IDENTITY) and value.node.inputs:
        value = value.node.inputs[0]
    # What only moves numbers that are on a grid stands before the layer that has its name.
    if grid_of(value.node) is None and grid_of(computed_by(value)) is not None:
        return None
    for steps in range(_MOST_STEPS):
        if grid_of(value.node) is not None:
            return value, steps
        if len(value.readers) != 1 or (steps and not has(value.node.op, _WITHIN)):
            return None
        value = next(iter(value.readers)).output()
    return None
