"""The optimized graph of the main job, which its models are made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from thinflow.analysis.summary import Summary
from thinflow.analysis.training_mode import switch_notes
from thinflow.errors import UnsupportedOp
from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Graph
from thinflow.load.frozen import opening_notes
from thinflow.optimize.float_graph import (
    float_graph,
    is_ready_for_litert,
    restore_control_flow,
    type_notes,
)
from thinflow.optimize.job_inputs import JobInputs
from thinflow.optimize.picture_ranges import picture_warnings
from thinflow.optimize.samples import Samples, rebind
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
        notes += picture_warnings(job.graph, job.data)
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
