"""Inputs that label_image of 2015 took for granted if nobody names one: the bytes of a JPEG, or `Mul`."""

from __future__ import annotations

from dataclasses import replace

from thinflow.compat.label_image.pictures import Preparation
from thinflow.engines.session import Session
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ops.traits import Trait, has

_INPUT, _MEAN, _STD = "Mul", 128.0, 128.0
"""Of Inception v3 of 2015 and what was retrained from it: pixels from -1 to 1."""


def as_of_2015(
    session: Session, source: str, output: str, preparation: Preparation
) -> tuple[str, Preparation, str]:
    """A better guess of the input and its scale, and what to say about it; "" if the guess stays.

    A graph that decodes and scales pictures itself gets the file's bytes: it knows best. Where somebody said
    how to scale or resize, pixels are meant.

    Args:
        session: runs the model.
        source: the input that was guessed.
        output: the layer with the scores.
        preparation: as far as it was given.
    """
    # Whoever says how to scale knows the input.
    if preparation.is_scaled:
        return source, preparation, ""
    graph = session.graph
    found = None if graph is None or preparation.is_sized else _content(graph, output)
    if found is not None and found.name == source:
        return source, preparation, ""
    if found is not None:
        told = f"the model decodes pictures itself: the file goes into '{found.name}'"
        return found.name, preparation, told
    if source.partition(":")[0] != _INPUT:
        return source, preparation, ""
    told = f"'{_INPUT}' is scaled as Inception of 2015 has it: --input_mean=128 --input_std=128"
    return source, replace(preparation, mean=_MEAN, std=_STD), told


def _content(graph: Graph, output: str) -> Value | None:
    """The string that the only decoder of pictures behind an output takes."""
    end = graph.find(output.partition(":")[0])
    decoders = [] if end is None else [node for node in _behind(end) if has(node.op, Trait.DECODES_IMAGE)]
    return decoders[0].inputs[0] if len(decoders) == 1 and decoders[0].inputs else None


def _behind(node: Node) -> list[Node]:
    """A node and all it needs."""
    seen = {node: None}
    waiting = [node]
    while waiting:
        for value in waiting.pop().inputs:
            if value.node not in seen:
                seen[value.node] = None
                waiting.append(value.node)
    return list(seen)
