"""The optimized graph of the main job, and the check that pictures go into it as in training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

from thinflow.analysis.summary import Summary
from thinflow.analysis.training_mode import switch_notes
from thinflow.errors import UnsupportedOp
from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Graph
from thinflow.load.frozen import opening_notes
from thinflow.ops.traits import Trait, has
from thinflow.optimize.first_norm import constant, first_norm
from thinflow.optimize.float_graph import float_graph, is_ready_for_litert, restore_control_flow, type_notes
from thinflow.optimize.job_inputs import JobInputs
from thinflow.optimize.samples import Samples, doubts_of, rebind
from thinflow.optimize.trial_runs import unknown_op, unproven
from thinflow.rewrite.rule import Trace
from thinflow.rewrite.runner import Result
from thinflow.transforms.recurrence.reroll_recurrence import RerollRecurrence


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

    @cached_property
    def unrolled_layers(self) -> int:
        """How many recurrent layers could be loops again. It is tried; the graph stays as it is."""
        trace = Trace()
        RerollRecurrence().apply(self.job.graph.clone(), trace)
        return len(trace.changes)

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


LOOKED_AT = 8
"""Samples: the pictures of one scene differ in light, not in their range."""
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
    norm = first_norm(graph)
    gap = None if norm is None else norm.gap(islice(samples, LOOKED_AT))
    if gap is not None and gap.is_far:
        how = f"{gap.times:.0f} times as large" if gap.times > 1 else f"{1 / gap.times:.0f} times as small"
        return [
            f"pictures go in as {shown}, and the first batch norm sees numbers {how} as in training: the "
            "model seems to expect another range; --mean 127.5 --std 127.5 gives -1..1, --std 255 gives 0..1"
        ]
    if samples.unscaled and gap is None and not _scales_by_itself(graph):
        return [
            f"pictures go in as {shown}, since no scaling was given; if the model expects another range, "
            "--mean 127.5 --std 127.5 gives -1..1, --std 255 gives 0..1"
        ]
    return []


def _scales_by_itself(graph: Graph) -> bool:
    """True if the graph begins by scaling what comes in with constants."""
    pending = list(graph.inputs)
    while pending:
        for use in pending.pop().uses:
            others = [v for i, v in enumerate(use.node.inputs) if i != use.index]
            scales = has(use.node.op, _SCALES) or use.node.op in ("Sub", "Mul")
            if scales and all(constant(v) is not None for v in others):
                return True
            moves = has(use.node.op, _MOVES) or use.node.op in ("Cast", "Transpose")
            if use.index == 0 and moves:
                pending.extend(use.node.outputs)
    return False
