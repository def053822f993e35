"""Fold batch-norm ops in inference mode into the convolution before them.

    norm(conv(x, w), gamma, beta, mean, variance)  ->  bias(conv(x, w * s), beta - mean * s)
    s = gamma / sqrt(variance + epsilon)

Additions and factors around the norm go with it.
"""

from __future__ import annotations

from dataclasses import dataclass

from thinflow.ir.graph import Graph
from thinflow.rewrite.colocation import drop_lost_classes
from thinflow.rewrite.rule import Transform, transform
from thinflow.rewrite.trace import Trace
from thinflow.transforms.flow.library import note_functions
from thinflow.transforms.fold.forward import fold_forward
from thinflow.transforms.fold.norms import LowerNorms
from thinflow.transforms.fold.pieces import Mode
from thinflow.transforms.fold.shared_producers import fold_all


@transform("fold_old_batch_norms")
@dataclass(frozen=True)
class FoldOldBatchNorms(Transform):
    """Fold FusedBatchNorm (V1 to V3) and BatchNormWithGlobalNormalization.

    Attributes:
        lower_unfoldable: turn the norms that remain into one Mul and one AddV2.
        fold_forward: fold a norm right before a convolution without padding into that convolution.
        duplicate_shared: compute a convolution twice rather than leave a norm over a shared one.
    """

    tolerance = 1e-4

    lower_unfoldable: bool = False
    fold_forward: bool = False
    duplicate_shared: bool = False

    def apply(self, graph: Graph, trace: Trace) -> None:
        mode = Mode(self.name, norms=True, only_norms=True)
        names = {n.name for n in graph}
        fold_all(graph, trace, mode, duplicate_shared=self.duplicate_shared)
        if self.fold_forward:
            fold_forward(graph, trace, self.name)
        if self.lower_unfoldable:
            self._lower(graph, trace)
        drop_lost_classes(graph, names)
        note_functions(graph, trace, "nothing inside it is folded")

    def _lower(self, graph: Graph, trace: Trace) -> None:
        """Why a norm was not folded is of no interest once it is lowered; why it was neither is told once."""
        told = {entry.node for entry in trace.left}
        lowering = Trace()
        LowerNorms().apply(graph, lowering)
        lowered = {entry.node for entry in lowering.changes}
        trace.changes += lowering.changes
        trace.left = [entry for entry in trace.left if entry.node not in lowered]
        trace.left += [entry for entry in lowering.left if entry.node not in told]
