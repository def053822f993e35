"""Batch norms: folded into the layers before them, and frozen at the statistics of samples."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from thinflow.analysis.training_mode import is_sample_norm
from thinflow.errors import ParameterError
from thinflow.ir.graph import Graph
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import FLOAT, DType
from thinflow.ops.traits import Trait
from thinflow.rewrite.driver import Rewrite
from thinflow.rewrite.edits import Site
from thinflow.rewrite.pattern import Match, constant_tensor, node
from thinflow.rewrite.rule import Refuse, Trace, Transform, transform
from thinflow.transforms.flow.library import note_functions
from thinflow.transforms.fold.chains import fold_all
from thinflow.transforms.fold.forward import fold_forward
from thinflow.transforms.fold.frozen_statistics import Statistics
from thinflow.transforms.fold.pieces import Mode
from thinflow.transforms.fold.producers import store
from thinflow.transforms.fold.steps import LowerNorms, is_training
from thinflow.transforms.shared.constants import side_outputs
from thinflow.typing import Array


@transform("fold_batch_norms")
@dataclass(frozen=True)
class FoldBatchNorms(Transform):
    """Fold per-channel factors and addends into the weights of the convolution or matrix product they follow.

    mul(conv(x, w), s)               ->  conv(x, w * s)
    bias(mul(sub(conv(x, w), m), s)) ->  bias(conv(x, w * s), b - m * s)

    A lone addition stays as it is.

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
        fold_all(graph, trace, mode, duplicate_shared=self.duplicate_shared)
        note_functions(graph, trace, "nothing inside it is folded")


@transform("fold_old_batch_norms")
@dataclass(frozen=True)
class FoldOldBatchNorms(Transform):
    """Fold batch-norm ops in inference mode into the convolution before them.

    norm(conv(x, w), gamma, beta, mean, variance)  ->  bias(conv(x, w * s), beta - mean * s)
    s = gamma / sqrt(variance + epsilon)

    Additions and factors around the norm go with it.

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
        fold_all(graph, trace, mode, duplicate_shared=self.duplicate_shared)
        if self.fold_forward:
            fold_forward(graph, trace, self.name)
        if self.lower_unfoldable:
            self._lower(graph, trace)
        note_functions(graph, trace, "nothing inside it is folded")

    def _lower(self, graph: Graph, trace: Trace) -> None:
        """Lower what was not folded, then of no interest why; of a norm that is neither it is told once."""
        unfolded = {entry.node for entry in trace.left}
        lowering = Trace()
        LowerNorms().apply(graph, lowering)
        lowered = {entry.node for entry in lowering.changes}
        trace.changes += lowering.changes
        trace.left = [entry for entry in trace.left if entry.node not in lowered]
        trace.left += [entry for entry in lowering.left if entry.node not in unfolded]


@transform("freeze_batch_norms")
@dataclass(frozen=True)
class FreezeBatchNorms(Rewrite):
    """Give batch norms in training mode fixed statistics, measured beforehand on typical inputs.

    norm(x, gamma, beta; is_training=true)  ->  norm(x, gamma, beta, mean, variance; is_training=false)

        statistics = measure_batch_norms(graph, [{x: batch1}, {x: batch2}])
        save_statistics("statistics.npz", statistics)

    The statistics are those whose norm keeps closest to what each batch's own give, behind the norms that are
    frozen before it. A frozen norm can be folded.

    Attributes:
        statistics: path of an .npz file with arrays NAME/mean and NAME/variance for every norm.
    """

    exact = False  # a batch is no longer normalised by itself
    in_file_order = True
    until_fixpoint = False
    outputs = 0
    pattern: ClassVar = node(Trait.FUSED_BATCH_NORM, name="norm")

    statistics: str

    def for_function(self) -> None:
        return None  # statistics are measured in the graph itself

    def prepare(self, graph: Graph, trace: Trace) -> Mapping[str, object]:
        return {"measured": load_statistics(self.statistics)}

    def check(self, m: Match) -> None:
        norm = m.norm
        if not is_training(norm):
            raise Refuse("it is in inference mode already")
        if is_sample_norm(norm):
            raise Refuse("it normalises each sample by itself: there are no statistics of the batch to store")
        if len(norm.inputs) != 5:
            raise Refuse(f"it has {len(norm.inputs)} inputs, not 5")
        for value in side_outputs(norm):
            who = f"used by '{value.uses[0].node.name}'" if value.uses else "asked for"
            raise Refuse(f"its output {value.port}, a statistic of the batch, is {who}")
        if norm.name not in m.measured:
            raise Refuse(f"the statistics have no '{norm.name}/mean'")
        mean, variance = m.measured[norm.name]
        gamma = constant_tensor(norm.inputs[1])
        if gamma is not None and gamma.shape != mean.shape:
            raise Refuse(f"the statistics are for {mean.size} channels, it has {gamma.size}")
        # From version 2 on statistics have a type of their own, U, which is float even for half data.
        element = norm.attrs.get("T" if norm.op == "FusedBatchNorm" else "U")
        like = Tensor.from_array(np.zeros(0, np.float32), element if isinstance(element, DType) else FLOAT)
        m.bind("mean", store(mean, like, norm))
        m.bind("variance", store(variance, like, norm))

    def describe(self, m: Match) -> str:
        return "uses fixed statistics now"

    def build(self, m: Match, site: Site) -> None:
        for index, what in ((3, "mean"), (4, "variance")):
            m.norm.set_input(index, site.constant(m.bound[what], f"{m.norm.name}/{what}"))
        m.norm.attrs["is_training"] = False


def save_statistics(path: str | os.PathLike[str], statistics: Statistics) -> None:
    """Write statistics as an .npz file that the transform reads."""
    arrays: dict[str, Array] = {}
    for name, (mean, variance) in statistics.items():
        arrays[f"{name}/mean"], arrays[f"{name}/variance"] = mean, variance
    with open(path, "wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def load_statistics(path: str | os.PathLike[str]) -> Statistics:
    """Read statistics from an .npz file.

    Raises:
        ParameterError: no such file, or not what it should hold.
    """
    where = os.fspath(path)
    hint = "write it with thinflow.transforms.fold.batch_norms.save_statistics"
    try:
        with open(where, "rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
    # Whatever a file that is no archive of arrays makes numpy raise.
    except (OSError, ValueError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        raise ParameterError(f"the statistics cannot be read: {error}", where, hint) from error
    statistics: Statistics = {}
    for key, mean in arrays.items():
        name, slash, what = key.rpartition("/")
        if not slash or what != "mean":
            continue
        variance = arrays.get(f"{name}/variance")
        if variance is None:
            raise ParameterError(f"'{name}/variance' is missing", where, hint)
        if mean.ndim != 1 or mean.shape != variance.shape or {mean.dtype.kind, variance.dtype.kind} != {"f"}:
            raise ParameterError(
                f"'{name}/mean' and '{name}/variance' are not two float vectors of one length", where, hint
            )
        # NaN fails this test as well, since it compares as false.
        if not (variance >= 0).all():
            raise ParameterError(
                f"'{name}/variance' has values that are negative or not numbers", where, hint
            )
        statistics[name] = (mean, variance)
    return statistics
