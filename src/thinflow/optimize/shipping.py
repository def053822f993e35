"""How a program runs the model that is shipped."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from thinflow.pages.report import Command

Ends = Sequence[tuple[str, str]]


def in_a_program(file: Path, inputs: Ends, outputs: Ends) -> Command:
    """Python that runs a LiteRT model with nothing of thinflow.

    Args:
        file: the model.
        inputs, outputs: names, and types with shapes in words.
    """
    text = f"""import numpy as np
from ai_edge_litert.interpreter import Interpreter

model = Interpreter({str(file)!r}, num_threads=1)
model.allocate_tensors()
for one in model.get_input_details():  # {_said(inputs)}
    model.set_tensor(one["index"], np.zeros(one["shape"], one["dtype"]))  # your data here
model.invoke()
answers = [model.get_tensor(one["index"]) for one in model.get_output_details()]  # {_said(outputs)}"""
    first, *rest = text.split("\n")
    return Command(first, "In a program, with pip install ai-edge-litert and nothing else:", rest)


def _said(ends: Ends) -> str:
    """On one line: names may hold anything."""
    return " ".join(", ".join(f"{name} {spec}" for name, spec in ends).split())
