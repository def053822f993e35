"""A graph with what to feed it, and the edits that make smaller ones of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from thinflow.analysis.shapes import infer_shapes
from thinflow.errors import FeedError, ThinflowError
from thinflow.interpreter import Plan
from thinflow.ir.attrs import Attr, ShapeAttr
from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import ancestors, runnable
from thinflow.ir.types import dtype
from thinflow.ops.random import repeatable_randomness
from thinflow.ops.traits import Trait, has
from thinflow.typing import Array

PLAIN = "fiubc"
"""Kinds of arrays that an .npz file holds as they are; others become constants of the graph."""


def is_source(node: Node) -> bool:
    """True if a node computes nothing: what it gives is fed, or stands in the file."""
    return node.op == "Const" or has(node.op, Trait.PLACEHOLDER)


@brief_repr
@dataclass(frozen=True)
class Candidate:
    """A graph with inputs and outputs declared, and an array for each input, by name."""

    graph: Graph
    feeds: dict[str, Array]

    @property
    def work(self) -> list[Node]:
        """The nodes that do something, in running order: all but inputs and constants."""
        return [n for n in runnable(self.graph) if not is_source(n)]

    def recorded(self) -> dict[str, Array]:
        """The value of everything the reference can compute, by name."""
        found: dict[str, Array] = {}

        def remember(value: Value, array: Any) -> None:
            if isinstance(array, np.ndarray):
                found[value.name] = array

        fed = {v: self.feeds[v.name] for v in self.graph.inputs if v.name in self.feeds}
        try:
            # Drawn numbers must be the same in each trial, or cutting at them would change what fails.
            with repeatable_randomness():
                Plan(self.graph, self.graph.outputs, list(fed)).run(fed, remember)
        except ThinflowError:
            pass  # what came before the failure is recorded
        return found


def cut(
    old: Candidate, outputs: Sequence[str] | None = None, inputs: Mapping[str, Array] | None = None
) -> Candidate | None:
    """A copy with other outputs, and with placeholders in the place of some values; the rest goes.

    Args:
        old: is not changed.
        outputs: names of values; default: as before.
        inputs: value name -> what to feed for it from now on.

    Returns:
        None if an output would be an input.
    """
    graph = old.graph.clone()
    feeds = dict(old.feeds)
    wanted = [graph.value(n) for n in outputs] if outputs is not None else graph.outputs
    placeholders: list[Value] = []
    for name, array in (inputs or {}).items():
        value = graph.value(name)
        # Fed and fetched at once, nothing would run in between.
        if value in wanted:
            return None
        new = _source(graph, value, array)
        # The producer stays until `pruned` finds that nobody needs it.
        value.replace_uses(new)
        if new.node.op == "Placeholder":
            placeholders.append(new)
            feeds[new.name] = array
    return pruned(graph, [*graph.inputs, *placeholders], wanted, feeds)


def pruned(
    graph: Graph, inputs: Iterable[Value], outputs: Sequence[Value], feeds: Mapping[str, Array]
) -> Candidate | None:
    """The graph reduced, in place, to what the outputs need; None if they need nothing that works."""
    needed = ancestors(v.node for v in outputs)
    # A graph that only hands on what it is fed can show no failure.
    if all(is_source(n) for n in needed) or any(is_source(v.node) for v in outputs):
        return None
    graph.inputs = [v for v in inputs if v.node in needed]
    graph.outputs = list(outputs)
    for node in needed:
        node.set_control_inputs([n for n in node.control_inputs if n in needed])
    graph.remove(*[n for n in graph if n not in needed])
    infer_shapes(graph)
    kept = {v.name for v in graph.inputs}
    return Candidate(graph, {name: array for name, array in feeds.items() if name in kept})


def _source(graph: Graph, value: Value, array: Array) -> Value:
    """A placeholder for a value, or a constant if a file of arrays cannot hold it."""
    element = value.spec.dtype or dtype(array.dtype)
    # The characters that TensorFlow allows in names of nodes; the ":1" of a port has one that it does not.
    name = re.sub(r"[^A-Za-z0-9_.\\/>-]", "_", value.name)
    if array.dtype.kind not in PLAIN:
        return graph.constant(array, f"{name}_value")
    attrs: dict[str, Attr] = {"dtype": element, "shape": ShapeAttr(tuple(array.shape))}
    new = graph.add("Placeholder", name=f"{name}_fed", attrs=attrs).output()
    # Recorded, so that shapes are known where inference alone would not find them.
    new.spec = type(new.spec)(element, tuple(array.shape))
    return new


def bypassed(old: Candidate, names: Iterable[str], values: Mapping[str, Array]) -> Candidate | None:
    """A copy without some nodes, whose readers read the first input of the same type and shape instead.

    None if one of them has no such input.
    """
    graph = old.graph.clone()
    outputs = graph.outputs
    for name in names:
        node = graph.find(name)
        source = None if node is None else passing_input(node, values)
        if node is None or source is None:
            return None
        value = node.output()
        value.replace_uses(source)
        outputs = [source if v is value else v for v in outputs]
    # Two outputs that have become one value would be fetched twice.
    if len(set(outputs)) < len(outputs):
        return None
    return pruned(graph, graph.inputs, outputs, old.feeds)


def passing_input(node: Node, values: Mapping[str, Array]) -> Value | None:
    """The input that may stand for a node's only output: of the same type and shape."""
    own = values.get(node.name)
    # With several outputs one input cannot stand for all of them.
    if own is None or any(v.port for v in node.outputs):
        return None
    for value in node.inputs:
        array = values.get(value.name)
        if array is not None and array.shape == own.shape and array.dtype == own.dtype:
            return value
    return None


def with_constant(old: Candidate, name: str, array: Array) -> Candidate:
    """A copy in which a constant holds something else."""
    from thinflow.ir.tensor import Tensor

    graph = old.graph.clone()
    node = graph.node(name)
    tensor = node.tensor
    assert tensor is not None
    node.attrs["value"] = Tensor.from_array(array, tensor.dtype)
    infer_shapes(graph)
    return Candidate(graph, old.feeds)


def without_trimmings(old: Candidate, what: str) -> Candidate:
    """A copy without all control edges, devices or annotations."""
    graph = old.graph.clone()
    for node in graph:
        if what == "control edges":
            node.set_control_inputs(())
        elif what == "devices":
            node.device = ""
        else:
            for key in [k for k in node.attrs if k.startswith("_")]:
                del node.attrs[key]
    made = pruned(graph, graph.inputs, graph.outputs, old.feeds)
    return old if made is None else made


def without_control_input(old: Candidate, reader: str, source: str) -> Candidate | None:
    """A copy in which one node does not wait for another; what nothing else needs goes with the edge."""
    graph = old.graph.clone()
    node = graph.node(reader)
    node.set_control_inputs([n for n in node.control_inputs if n.name != source])
    return pruned(graph, graph.inputs, graph.outputs, old.feeds)


def first(graph: Graph, feeds: Mapping[str, Array]) -> Candidate:
    """The candidate to start with: only what outputs need; strings to feed become constants of the graph.

    Raises:
        FeedError: there is nothing between inputs and outputs.
    """
    copy = graph.clone()
    # An .npz file holds text and TensorFlow's own floats only as pickles.
    odd = {n: a for n, a in feeds.items() if a.dtype.kind not in PLAIN}
    for name, array in odd.items():
        value = copy.value(name)
        new = copy.constant(array, f"{value.node.name}_value")
        value.replace_uses(new)
    inputs = [v for v in copy.inputs if v.name not in odd]
    made = pruned(copy, inputs, copy.outputs, {n: a for n, a in feeds.items() if n not in odd})
    if made is None:
        raise FeedError(
            "the graph computes nothing", graph.path, "name the outputs that are wrong: --outputs"
        )
    return made
