"""Small models that keep state, as TensorFlow saves them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.library import node
from tests.load.builders import V, meta_text, placeholder, variable, write_model
from thinflow.ir.types import FLOAT

CALLS = [np.float32([1, -1, 2]), np.float32([0.5, 3, -2]), np.float32([-4, 1, 0]), np.float32([2, 2, 2])]
ENDS = ({"x": "x:0"}, {"y": "y:0"})


def read(name: str, *waits: str) -> str:
    return node(name, "ReadVariableOp", "v", *waits, dtype=FLOAT)


def assign(name: str, value: str, *waits: str) -> str:
    return node(name, "AssignVariableOp", "v", value, *waits, dtype=FLOAT)


def summing() -> list[str]:
    """v = v + x; y = -v."""
    return [
        placeholder("x", 3), variable("v", 3), read("old"), node("sum", "AddV2", "old", "x", T=FLOAT),
        assign("set", "sum", "^old"), read("new", "^set"), node("y", "Neg", "new", T=FLOAT),
    ]  # fmt: skip


def stateful(folder: Path, nodes: list[str] | None = None) -> Path:
    """A SavedModel, by default of `summing`, with the start V."""
    text = meta_text(nodes or summing(), signatures={"serving_default": ENDS})
    return write_model(folder, text, values={"v": V, "w": V})


def sums(calls: list[np.ndarray] | None = None) -> list[np.ndarray]:
    """What `summing` answers in each call."""
    held, answers = V, []
    for x in calls or CALLS:
        held = held + x
        answers.append(-held)
    return answers
