"""Whether what was made runs at all, before it is measured and written."""

from __future__ import annotations

from itertools import islice

from thinflow.engines._child import run_file
from thinflow.errors import EngineUnavailable, ThinflowError, UnsupportedOp
from thinflow.interpreter import Plan
from thinflow.ir.graph import Graph
from thinflow.optimizing.steps import FloatModel, Samples

_LOOPS = frozenset({"While", "StatelessWhile", "LoopCond"})


def require_running(model: FloatModel, samples: Samples) -> None:
    """Refuse a model with a loop in it that LiteRT opens, and then gives up on.

    Raises:
        UnsupportedOp: it does not run on the first sample.
    """
    loop = next((n for n in model.core.nodes if n.op in _LOOPS), None)
    if loop is None:
        return
    try:
        feeds = [model.core.before(feed) for feed in islice(samples, 1)]
        run_file(model.content, "litert", feeds, name="the .tflite model")
    except EngineUnavailable as error:
        raise UnsupportedOp(
            f"LiteRT does not run the loop: {error.problem.removeprefix('LiteRT failed: ')}",
            loop.where,
            hint="`thinflow run` handles it; variables whose sizes grow from nothing are a common reason",
        ) from error


def runs(graph: Graph, samples: Samples) -> bool:
    """Whether the interpreter can run a graph at all; numbers and text that are made up may not fit."""
    try:
        for feed in islice(samples, 1):
            Plan(graph, graph.outputs, graph.inputs).run(dict(feed))
    except UnsupportedOp:
        return False
    except ThinflowError:
        return samples.synthetic
    return True
