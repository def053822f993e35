"""Not offered: the Graph Transform Tool once prepared training graphs for quantization here."""

from __future__ import annotations

from dataclasses import dataclass

from thinflow.errors import ParameterError
from thinflow.ir.graph import Graph
from thinflow.rewrite.rule import Transform, transform
from thinflow.rewrite.trace import Trace


@transform("fake_quantize_training")
@dataclass(frozen=True)
class FakeQuantizeTraining(Transform):
    """Always an error: thinflow works on frozen graphs, and this is about graphs in training."""

    def __post_init__(self) -> None:
        raise ParameterError(
            "fake quantization has to be in the graph while it is trained, and thinflow gets it afterwards",
            hint="use quantization-aware training of the training framework, or quantize_weights here",
        )

    def apply(self, graph: Graph, trace: Trace) -> None:
        raise AssertionError("it cannot be made")
