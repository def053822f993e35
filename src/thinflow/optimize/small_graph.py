"""The first half of the main job: the graph that both models are made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from thinflow.analysis.opened import opening_notes
from thinflow.analysis.summary import Summary
from thinflow.analysis.switches import switch_notes
from thinflow.errors import UnsupportedOp
from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Graph
from thinflow.optimize.float_model import float_graph, is_ready_for_litert, type_notes
from thinflow.optimize.picture_ranges import picture_warnings
from thinflow.optimize.samples import Samples, rebind
from thinflow.optimize.task import Task
from thinflow.optimize.trying import unknown_op, unproven
from thinflow.optimize.written import as_it_came
from thinflow.rewrite.runner import Result


@brief_repr
@dataclass(frozen=True)
class SmallGraph:
    """A graph after the float pipeline.

    Attributes:
        task: what it was made for.
        graph: what models are made from.
        restored: the same in the words it came in, for the .pb file, and what each transform did.
        summary: what the graph was; of its batch norms in training mode those that are left.
        calibration, judges: the task's samples, for `graph`.
        unknown: the error of the first node of an op that nothing here knows; None without.
        types: what was turned into float for the models, in sentences.
    """

    task: Task
    graph: Graph
    restored: Result
    summary: Summary
    calibration: Samples
    judges: Samples
    unknown: UnsupportedOp | None
    types: Sequence[str] = ()

    @property
    def notes(self) -> list[str]:
        """What the reader must know of the graph, whatever becomes of it."""
        task = self.task
        notes = [*opening_notes(task.graph), *switch_notes(task.settings)]
        notes += picture_warnings(task.graph, task.data)
        notes += [*self.types, *kept_notes(task.graph)]
        return notes if self.unknown is None else [*notes, unproven(self.unknown)]


def kept_notes(graph: Graph) -> list[str]:
    """Where the state of a graph is, in the files that are made from it."""
    if not graph.states:
        return []
    pairs = ", ".join(f"{s.input} and gives {s.output}" for s in graph.states[:2])
    more = ", ..." if len(graph.states) > 2 else ""
    return [
        "the .tflite files keep the state from call to call; their signature 'reset_state' begins anew. A"
        f" .pb or .onnx file keeps nothing: it takes {pairs}{more}, for the next call"
    ]


def small_graph(task: Task) -> SmallGraph:
    """The task's graph after the float pipeline, each step verified if that was chosen."""
    chosen = task.choices
    result = float_graph(task.graph, samples=task.data, verify=chosen.verify, progress=chosen.progress)
    made = result
    if not is_ready_for_litert(result.graph):
        # The .pb file keeps types and layout: those are only what the models' runtimes want.
        made = float_graph(result.graph, samples=task.data, verify=chosen.verify, runtime="litert")
    graph, summary = made.graph, task.summary
    calibration = rebind(task.data, task.graph, graph)
    judges = calibration if task.tested is task.data else rebind(task.tested, task.graph, graph)
    return SmallGraph(
        task=task,
        graph=graph,
        restored=as_it_came(result, calibration, verify=chosen.verify),
        summary=replace(summary, training_norms=[n for n in summary.training_norms if n in graph]),
        calibration=calibration,
        judges=judges,
        unknown=unknown_op(graph),
        types=() if made is result else type_notes(made),
    )
