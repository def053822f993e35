"""Fold per-channel factors and addends into the weights of the convolution or matrix product they follow.

    mul(conv(x, w), s)               ->  conv(x, w * s)
    bias(mul(sub(conv(x, w), m), s)) ->  bias(conv(x, w * s), b - m * s)

A lone addition stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from thinflow.ir.graph import Graph
from thinflow.rewrite.colocation import drop_lost_classes
from thinflow.rewrite.rule import Transform, transform
from thinflow.rewrite.trace import Trace
from thinflow.transforms.flow.library import note_functions
from thinflow.transforms.fold.pieces import Mode
from thinflow.transforms.fold.shared_producers import fold_all


@transform("fold_batch_norms")
@dataclass(frozen=True)
class FoldBatchNorms(Transform):
    """Fold factors, and additions next to them, into weights and one BiasAdd. A lone addition stays as it is.

    Attributes:
        batch_norms: also fold batch-norm ops, as `fold_old_batch_norms` does.
        normalize_bias: turn a lone addition after a convolution into a BiasAdd.
        duplicate_shared: compute a convolution twice rather than leave a factor over a shared one.
    """

    tolerance = 1e-5

    batch_norms: bool = False
    normalize_bias: bool = False
    duplicate_shared: bool = False

    def apply(self, graph: Graph, trace: Trace) -> None:
        mode = Mode(self.name, norms=self.batch_norms, normalize_bias=self.normalize_bias)
        names = {n.name for n in graph}
        fold_all(graph, trace, mode, duplicate_shared=self.duplicate_shared)
        drop_lost_classes(graph, names)
        note_functions(graph, trace, "nothing inside it is folded")
