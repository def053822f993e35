"""The file that a graph was made from, where that speaks of other ops than TensorFlow's."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class SourceFile:
    """A file behind a graph, which stays as it is whatever becomes of the graph.

    Its own runtime can run it beside what is made of the graph: a graph that was put wrongly into our words
    agrees with everything that is made of it.

    Attributes:
        path: of the file or folder.
        title: what it is and who made it: "ONNX opset 17 from pytorch 1.11".
        runtime: what people run such files with: "ONNX Runtime", "Keras".
        engine: our name of that runtime; "" if it is not run here.
        signature: the one that was opened, of a .tflite file with several.
        operators: how many ops the file has; 0 if nobody counted.
        nodes: how many of TensorFlow's ops they became.
        has_codes: whether integers stand for real numbers in it, which every op rounds.
        assumed: what was taken for granted to open it, in words: "batch assumed 1".
        orders: input or output of the graph -> the file's axes in the order in which the graph has them,
            where that is another one.
    """

    path: str
    title: str
    runtime: str
    engine: str = ""
    signature: str | None = None
    operators: int = 0
    nodes: int = 0
    has_codes: bool = False
    assumed: tuple[str, ...] = ()
    orders: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The file's name without its folder."""
        return os.path.basename(os.path.normpath(self.path)) or self.path

    @property
    def line(self) -> str:
        """Where the model came from and what was assumed, in one line."""
        from thinflow.errors.plain_text import one_line

        made = ""
        if self.operators:
            counts = _count(self.operators, "operator"), _count(self.nodes, "TensorFlow op")
            made = f", {counts[0]} lifted to {counts[1]}"
        return one_line("; ".join([f"{self.name} is {self.title}{made}", *self.assumed]))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
