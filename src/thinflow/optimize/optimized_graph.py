"""The optimized graph of the main job, and the check that pictures go into it as in training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from thinflow.analysis.summary import Summary
from thinflow.analysis.training_mode import switch_notes
from thinflow.errors import ThinflowError, UnsupportedOp
from thinflow.interpreter import Plan
from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import execution_order
from thinflow.ir.tensor import Tensor
from thinflow.load.frozen import opening_notes
from thinflow.ops.traits import Trait, has
from thinflow.optimize.float_graph import float_graph, is_ready_for_litert, restore_control_flow, type_notes
from thinflow.optimize.job_inputs import JobInputs
from thinflow.optimize.samples import Samples, doubts_of, rebind
from thinflow.optimize.trial_runs import unknown_op, unproven
from thinflow.rewrite.runner import Result


@brief_repr
@dataclass(frozen=True)
class OptimizedGraph:
    """A graph after the float pipeline.

    Attributes:
        job: what it was made for.
        graph: what models are made from.
        restored: the same in the words it came in, for the .pb file, and what each transform did.
        summary: what the graph was; of its batch norms in training mode those that are left.
        calibration, evaluation: the job's samples, for `graph`.
        unknown: the error of the first node of an op that nothing here knows; None without.
        types: what was turned into float for the models, in sentences.
    """

    job: JobInputs
    graph: Graph
    restored: Result
    summary: Summary
    calibration: Samples
    evaluation: Samples
    unknown: UnsupportedOp | None
    types: Sequence[str] = ()

    @property
    def notes(self) -> list[str]:
        """Notes on the graph, whatever becomes of it."""
        job = self.job
        notes = [*opening_notes(job.graph), *switch_notes(job.settings)]
        notes += [*doubts_of(job.data, job.tested), *picture_warnings(job.graph, job.data)]
        notes += [*self.types, *kept_notes(job.graph)]
        return notes if self.unknown is None else [*notes, unproven(self.unknown)]


def kept_notes(graph: Graph) -> list[str]:
    """Notes on where the state of a graph is, in the files that are made from it."""
    if not graph.states:
        return []
    pairs = ", ".join(f"{s.input} and gives {s.output}" for s in graph.states[:2])
    more = ", ..." if len(graph.states) > 2 else ""
    return [
        "the .tflite files keep the state from call to call; their signature 'reset_state' begins anew. A"
        f" .pb or .onnx file keeps nothing: it takes {pairs}{more}, for the next call"
    ]


def optimized_graph(job: JobInputs) -> OptimizedGraph:
    """The job's graph after the float pipeline, each step verified if that was chosen."""
    options = job.options
    result = float_graph(job.graph, samples=job.data, verify=options.verify, progress=options.progress)
    made = result
    if not is_ready_for_litert(result.graph):
        # The .pb file keeps types and layout: those are only what the models' runtimes want.
        made = float_graph(result.graph, samples=job.data, verify=options.verify, runtime="litert")
    graph, summary = made.graph, job.summary
    calibration = rebind(job.data, job.graph, graph)
    evaluation = calibration if job.tested is job.data else rebind(job.tested, job.graph, graph)
    return OptimizedGraph(
        job=job,
        graph=graph,
        restored=restore_control_flow(result, calibration, verify=options.verify),
        # By name: the float pipeline may have removed some of the norms.
        summary=replace(summary, training_norms=[n for n in summary.training_norms if n in graph]),
        calibration=calibration,
        evaluation=evaluation,
        unknown=unknown_op(graph),
        types=() if made is result else type_notes(made),
    )


# Range of pixels: the check that pictures go into a model as those that it was trained on.
#
# The first batch norm remembers how its input was spread in training. Pixels of 0 to 255 in place of -1
# to 1 make that spread 128 times as large, whatever the pictures show.


_LOOKED_AT = 8
"""Samples: the pictures of one scene differ in light, not in their range."""
# Pixels of 0..255 in place of -1..1 are spread 127.5 times as wide, in place of 0..1 255 times. On a scale
# of factors 8 lies between those and 1, where a set of other pictures should be.
_FAR = 8.0
"""Times as large or small as in training: what other pictures do not do, and a wrong range does."""
_SCALES = Trait.ADD | Trait.BIAS_ADD | Trait.DIVIDE
_MOVES = Trait.PASSES_THROUGH | Trait.RESHAPE | Trait.PAD


def picture_warnings(graph: Graph, samples: Samples) -> list[str]:
    """Warnings about the range of pixels: that it is not the one of training, or that nobody chose it.

    Args:
        graph: as it was opened, its batch norms not folded yet.
        samples: for it.
    """
    if samples.scaling is None:
        return []
    shown = samples.scaling.range_text()
    times = times_as_in_training(graph, samples)
    if times is not None and is_far(times):
        how = f"{times:.0f} times as large" if times > 1 else f"{1 / times:.0f} times as small"
        return [
            f"pictures go in as {shown}, and the first batch norm sees numbers {how} as in training: the "
            "model seems to expect another range; --mean 127.5 --std 127.5 gives -1..1, --std 255 gives 0..1"
        ]
    if samples.unscaled and times is None and not _scales_by_itself(graph):
        return [
            f"pictures go in as {shown}, since no scaling was given; if the model expects another range, "
            "--mean 127.5 --std 127.5 gives -1..1, --std 255 gives 0..1"
        ]
    return []


def is_far(times: float | None) -> bool:
    """True if numbers are so much larger or smaller than in training that it is no chance."""
    return times is not None and not 1 / _FAR < times < _FAR


def times_as_in_training(graph: Graph, samples: Samples) -> float | None:
    """Spread of the first batch norm's input over that in training; None if there is none to be told."""
    norm = _first_norm(graph)
    if norm is None:
        return None
    # Input 4 of (x, scale, offset, mean, variance), or input 2 of (x, mean, variance, beta, gamma).
    variance = _constant(norm.inputs[4 if has(norm.op, Trait.FUSED_BATCH_NORM) else 2])
    if variance is None:
        return None
    x = norm.inputs[0]
    try:
        plan = Plan(graph, [x], graph.inputs)
        rows = [plan.run(dict(feed))[0] for feed in islice(samples, _LOOKED_AT)]
    except ThinflowError:
        return None
    # The graph came as it is: attributes read from a file are bytes, those set here text.
    channel_axis = 1 if norm.get("data_format") in (b"NCHW", "NCHW") else -1
    columns = [np.moveaxis(row, channel_axis, -1).reshape(-1, variance.size or 1) for row in rows]
    seen = np.concatenate(columns).astype(np.float64).var(axis=0)
    trained = variance.numpy().astype(np.float64).reshape(-1)
    # Dead channels have a variance of 0, and say nothing.
    known = (trained > 0) & (seen > 0)
    # The median: a few channels may well see what training did not show them.
    return float(np.sqrt(np.median(seen[known] / trained[known]))) if known.any() else None


def _constant(value: Value) -> Tensor | None:
    """The constant behind a value, which frozen graphs read through an Identity; None if it is computed."""
    node = value.node
    while node.op == "Identity" and node.inputs:
        node = node.inputs[0].node
    return node.tensor


def _first_norm(graph: Graph) -> Node | None:
    """The batch norm in inference mode that comes first in the graph's order and reads an input with no other
    in between.
    """
    behind: set[Node] = {v.node for v in graph.inputs}
    for node in execution_order(graph):
        if not has(node.op, Trait.BATCH_NORM):
            behind.update({node} if any(v.node in behind for v in node.inputs) else ())
        elif node.inputs[0].node in behind:
            # A norm in training mode has no statistics; FusedBatchNorm trains unless it says otherwise.
            return None if node.get("is_training", has(node.op, Trait.FUSED_BATCH_NORM)) else node
    return None


def _scales_by_itself(graph: Graph) -> bool:
    """True if the graph begins by scaling what comes in with constants."""
    pending = list(graph.inputs)
    while pending:
        for use in pending.pop().uses:
            others = [v for i, v in enumerate(use.node.inputs) if i != use.index]
            scales = has(use.node.op, _SCALES) or use.node.op in ("Sub", "Mul")
            if scales and all(_constant(v) is not None for v in others):
                return True
            moves = has(use.node.op, _MOVES) or use.node.op in ("Cast", "Transpose")
            if use.index == 0 and moves:
                pending.extend(use.node.outputs)
    return False
