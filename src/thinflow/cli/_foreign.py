"""Text for `inspect` on .tflite and .onnx files."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from thinflow.cli._console import human_bytes, human_count

if TYPE_CHECKING:
    from thinflow.analysis.summary import Summary
    from thinflow.ir.graph import Graph

_FLEX = "tfl.custom.Flex"


def verdict(summary: Summary, cost: str) -> str:
    """One line: what it is, in which numbers, how large, what a run costs."""
    from pathlib import Path

    from thinflow.api import part_note

    graph, facts = summary.graph, summary.graph.facts
    is_tflite = graph.vocabulary == "tflite"
    about = [summary.precision]
    if "runtime" in facts:
        about.append(f"for runtimes from {facts['runtime']}")
    if "signatures" in facts:
        about.append(f"{'signatures' if ',' in facts['signatures'] else 'signature'} {facts['signatures']}")
    if "opset" in facts:
        about.append(f"opset {facts['opset']}")
    if "producer" in facts:
        about.append(f"made by {facts['producer']}")
    count = sum(n for op, n in summary.ops.items() if op not in ("Const", "Placeholder"))
    size = f", {human_bytes(summary.file_bytes)}" if summary.file_bytes else ""
    name = Path(graph.path).name or "the graph"
    kind = "a LiteRT model" if is_tflite else "an ONNX model"
    constants = human_count(summary.parameters.count)
    operators = "1 operator" if count == 1 else f"{count} operators"
    mark = "PARTIAL: " if part_note(graph) else ""
    return f"{mark}{name} is {kind} ({'; '.join(about)}): {operators}, {constants} constants{size}{cost}"


def findings(summary: Summary) -> Iterator[str]:
    """Ops that a plain runtime does not have, and what of the file is not shown."""
    flex = [op.removeprefix(_FLEX) for op in summary.unknown_ops if op.startswith(_FLEX)]
    # Of ONNX the whole name with its domain, of LiteRT what the file calls the op.
    custom = [op.partition(".")[2].removeprefix("custom.") for op in summary.unknown_ops if _FLEX not in op]
    if flex:
        yield f"TensorFlow ops inside: {', '.join(flex)}; they need the Flex delegate"
    if custom:
        yield f"custom ops: {', '.join(custom)}; the app's runtime must have them registered"
    facts = summary.graph.facts
    topics = [t for t in facts if t.startswith("signature ")]
    # A single signature that only repeats inputs and outputs says nothing new.
    if len(topics) > 1 or any(facts[t] != _ends_text(summary.graph) for t in topics):
        yield from (f"{topic}: {facts[topic]}" for topic in topics)
    if summary.graph.functions:
        yield f"functions: {len(summary.graph.functions)}, bodies of control flow or other signatures"
    for topic in ("description", "metadata", "left out"):
        if topic in facts:
            yield f"{topic}: {facts[topic]}"


def _ends_text(graph: Graph) -> str:
    """Inputs and outputs as a signature that adds no names would tell them."""
    sides = (", ".join(f"{v.name} {v.spec}" for v in side) for side in (graph.inputs, graph.outputs))
    return " -> ".join(sides)


def next_command(summary: Summary, model: str) -> str:
    """What to type now: measure what runs here, look closer at what needs more than the plain runtime."""
    facts = summary.graph.facts
    engine = "litert" if summary.graph.vocabulary == "tflite" else "onnxruntime"
    path = shlex.quote(model)
    keys = [t.removeprefix("signature ") for t in facts if t.startswith("signature ")]
    chosen = facts.get("signature") or (keys[0] if len(keys) > 1 else "")
    flag = f" --signature {shlex.quote(chosen)}" if chosen else ""
    if any("custom" in op for op in summary.unknown_ops):
        # It cannot be run without its own ops.
        return f"thinflow ops {path} {'--micro' if engine == 'litert' else '--ort'}"
    return f"thinflow benchmark {path} --engines {engine}{flag}"
