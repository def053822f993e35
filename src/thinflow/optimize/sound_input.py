"""Models of sound for devices: they begin with samples, not with the bytes of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from thinflow.errors import ThinflowError
from thinflow.ir.graph import Graph
from thinflow.load.graphs import Source, load_for_inference
from thinflow.lower.c.sound import SAMPLE_RATE
from thinflow.ops.registry import find
from thinflow.typing import Shapes

if TYPE_CHECKING:
    from thinflow.tflite.model import Program

NOTE = "samples come in, {rate:,} a second; the model's own decoder of WAV files stays outside"
RATE_NOTE = "its filters are made for {rate:,} samples a second, which it took as an input"


def loaded_for_device(
    source: Source, shapes: Shapes | None, names: dict[str, Any], sample_rate: int | None = None
) -> tuple[Graph, list[str], list[str]]:
    """A model for inference, cut behind the decoder of a WAV file; what was set in it, and what to tell.

    Args:
        source: path or Graph.
        shapes, names: how to open it; inputs that are named stay as they are.
        sample_rate: hertz, for what is told.
    """
    graph, settings = load_for_inference(source, shapes=shapes, **names)
    decoders = [node for node in graph if _decodes_sound(node.op)]
    # Who names inputs knows where to cut.
    if names.get("inputs") or len(decoders) != 1:
        return graph, settings, []
    cut = {**names, "inputs": [f"{decoders[0].name}:0", f"{decoders[0].name}:1"]}
    try:
        graph, settings = load_for_inference(source, shapes=shapes, **cut)
    # Nothing reads the rate in some: then the samples are all.
    except ThinflowError:
        graph, settings = load_for_inference(source, shapes=shapes, **{**cut, "inputs": cut["inputs"][:1]})
    return graph, settings, [NOTE.format(rate=sample_rate or SAMPLE_RATE)]


def rate_notes(graph: Graph, program: Program, sample_rate: int | None = None) -> list[str]:
    """What to tell of a program whose rate is fixed, other than in the graph that it was made of."""
    is_fixed = len(program.subgraphs[0].inputs) < len(graph.inputs)
    return [RATE_NOTE.format(rate=sample_rate or SAMPLE_RATE)] if is_fixed else []


def _decodes_sound(op: str) -> bool:
    found = find(op)
    return getattr(found, "decodes", "") == "a WAV"
