"""Decisions of opening a model that its user must know."""

from __future__ import annotations

from thinflow.ir.graph import Graph

SIGNATURE, STATE = "signature taken", "state"
"""Topics of a graph's facts."""


def tell_unkept(graph: Graph, why: str) -> None:
    """Note why state that the model keeps between runs is frozen in a graph."""
    if STATE in graph.facts:
        graph.facts[STATE] += f" (it cannot be kept: {why})"


def opening_notes(graph: Graph) -> list[str]:
    """Notes on the signature that was taken of several, and on state that the model kept between runs."""
    return [graph.facts[topic] for topic in (SIGNATURE, STATE) if topic in graph.facts]
