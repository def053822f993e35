"""What the main job is given: an open model, samples for it, and what was chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thinflow.analysis.summary import Summary
from thinflow.errors import GraphError, ParameterError
from thinflow.ir.brief import brief_repr
from thinflow.ir.check import require_valid
from thinflow.ir.graph import Graph
from thinflow.ops.traits import Trait, has
from thinflow.optimize.finishing import stem_of
from thinflow.optimize.samples import Samples
from thinflow.quantize.recipe import Recipe
from thinflow.typing import Progress

DEFAULT_MAX_DROP = 1.5
"""Points of accuracy (or of equal answers) that fewer bits may cost before float is recommended."""


@brief_repr
@dataclass(frozen=True)
class Choices:
    """How the job is to be done.

    Attributes:
        recipe: how to quantize.
        onnx: whether to make models for ONNX Runtime too.
        verify: whether to run the graph before and after every transform.
        measure: whether to time the models.
        threads: thread counts to time with.
        seconds: time for each pair of measurements.
        max_drop: points of accuracy that fewer bits may cost.
        progress: called with (done, total, label).
        strict: whether to refuse a model that a runtime can hold only a part of.
    """

    recipe: Recipe
    onnx: bool
    verify: bool
    measure: bool
    threads: tuple[int, ...]
    seconds: float
    max_drop: float
    progress: Progress | None
    strict: bool = False


@brief_repr
@dataclass(frozen=True)
class Task:
    """An open model, and what is to be made of it.

    Attributes:
        graph: as it was opened, ready for inference; what everything made is judged by.
        settings: what was set in it for inference.
        summary: what it is.
        data, tested: samples for it, to calibrate with and to judge on; one object if they are the same.
        folder: for the results; made when there are some.
        choices: how to do it.
        opened_with: options of `load`, for commands to try next; names as text.
    """

    graph: Graph
    settings: list[str]
    summary: Summary
    data: Samples
    tested: Samples
    folder: Path
    choices: Choices
    opened_with: Mapping[str, Any]

    @property
    def stem(self) -> str:
        """What the files are called after."""
        return stem_of(self.graph)


def require_sensible(threads: Sequence[int], max_drop: float) -> None:
    """Refuse choices that nothing can be measured or judged with.

    Raises:
        ParameterError: no list of thread counts, or a negative drop.
    """
    if not threads or any(t < 1 for t in threads):
        shown = ",".join(map(str, threads))
        raise ParameterError(f"'{shown}' is no list of thread counts", hint="give counts like 1,2")
    if not max_drop >= 0:
        raise ParameterError(f"a drop of at most {max_drop:g} points makes no sense", hint="give 0 or more")


def open_model(source: Any, names: Mapping[str, Any]) -> tuple[Graph, list[str]]:
    """The graph, sound, frozen, with outputs and ready for inference; and what was set for that.

    Args:
        source: path or Graph.
        names: options of `load`.

    Raises:
        ThinflowError: it cannot be read, or nothing can be made of it.
    """
    from thinflow.load.graphs import load_for_inference, require_tensorflow

    graph, settings = load_for_inference(source, **names)
    require_tensorflow(graph, "optimized")
    require_valid(graph)
    _require_frozen(graph)
    if not graph.outputs:
        raise GraphError(
            "no output was found",
            graph.path,
            hint="name it with --outputs; `thinflow inspect MODEL` lists nodes",
        )
    return graph, settings


def _require_frozen(graph: Graph) -> None:
    """Refuse variables, whose values are in a checkpoint.

    Raises:
        GraphError: names the first.
    """
    variable = next((n for n in graph if has(n.op, Trait.VARIABLE)), None)
    if variable is not None:
        raise GraphError(
            f"the graph is not frozen: '{variable.name}' is a variable, its values are in a checkpoint",
            graph.path,
            hint="give the checkpoint's prefix: --checkpoint PREFIX",
        )


def named_ends(inputs: Sequence[str] | str | None, outputs: Sequence[str] | str | None) -> dict[str, str]:
    """The inputs and outputs that somebody named, as a command has them."""
    given = {"inputs": inputs, "outputs": outputs}
    return {
        role: names if isinstance(names, str) else ",".join(names) for role, names in given.items() if names
    }
