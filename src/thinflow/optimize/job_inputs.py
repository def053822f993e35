"""Inputs of the main job: an open model, samples for it, and options."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from thinflow.analysis.opened import tell_unkept
from thinflow.analysis.summary import Summary, summarize
from thinflow.errors import GraphError, ParameterError
from thinflow.ir.brief import brief_repr
from thinflow.ir.check import require_valid
from thinflow.ir.graph import Graph
from thinflow.load.graphs import load_for_inference, require_tensorflow
from thinflow.load.keeping import AUTO
from thinflow.ops.traits import Trait, has
from thinflow.optimize.output_files import stem_of
from thinflow.optimize.samples import SampleOptions, Samples, both_samples
from thinflow.quantize.recipe import Recipe, chosen_recipe
from thinflow.typing import Progress

DEFAULT_MAX_DROP = 1.5
"""Points of accuracy (or of equal answers) that fewer bits may cost before float is recommended."""


@brief_repr
@dataclass(frozen=True, kw_only=True)
class JobOptions(SampleOptions):
    """Options of the main job: the arguments of `thinflow.optimize`, which explains them.

    Attributes:
        opening: options of `load`, besides the inputs, outputs and shapes.
    """

    inputs: Sequence[str] | None = None
    outputs: Sequence[str] | None = None
    shapes: Mapping[str, Sequence[int | None]] | None = None
    threads: Sequence[int] = (1, 2)
    max_drop: float = DEFAULT_MAX_DROP
    measure: bool = True
    seconds: float = 4.0
    verify: bool = True
    scheme: str | None = None
    recipe: Recipe | None = None
    onnx: bool = False
    strict: bool = False
    state: str = AUTO
    progress: Progress | None = None
    opening: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse options that nothing can be measured or judged with.

        Raises:
            ParameterError: no list of thread counts, a negative drop, or no such scheme.
        """
        if not self.threads or any(t < 1 for t in self.threads):
            shown = ",".join(map(str, self.threads))
            raise ParameterError(f"'{shown}' is no list of thread counts", hint="give counts like 1,2")
        # Written so that NaN is refused, too.
        if not self.max_drop >= 0:
            drop = f"{self.max_drop:g}"
            raise ParameterError(f"a drop of at most {drop} points makes no sense", hint="give 0 or more")
        chosen_recipe(self.scheme, self.recipe)

    @property
    def chosen_recipe(self) -> Recipe:
        """The recipe, or the plain one of the scheme."""
        return chosen_recipe(self.scheme, self.recipe)


@brief_repr
@dataclass(frozen=True)
class JobInputs:
    """An open model, and what is to be made of it.

    Attributes:
        graph: as it was opened, ready for inference; what everything made is judged by.
        settings: what was set in it for inference.
        summary: what it is.
        data, tested: samples for it, to calibrate with and to judge on; one object if they are the same.
        folder: for the results; made when there are some.
        options: how to do it.
        opened_with: options of `load`, for commands to try next; names as text.
    """

    graph: Graph
    settings: list[str]
    summary: Summary
    data: Samples
    tested: Samples
    folder: Path
    options: JobOptions
    opened_with: Mapping[str, Any]

    @property
    def stem(self) -> str:
        """The stem of the files' names."""
        return stem_of(self.graph)


def open_inputs(
    source: str | os.PathLike[str] | Graph, folder: Path, options: JobOptions, state: str, unkept: str = ""
) -> JobInputs:
    """The inputs of a job, opened: the graph is sound, frozen, with outputs and ready for inference.

    Args:
        state: what becomes of variables that runs change.
        unkept: why they cannot be kept, if that was tried.

    Raises:
        ThinflowError: the model cannot be read, or nothing can be made of it.
    """
    ends = {"inputs": options.inputs, "outputs": options.outputs}
    names = {**ends, "shapes": options.shapes, "state": state, **options.opening}
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
    if unkept:
        tell_unkept(graph, unkept)
    # Of a copy: inference for the summary writes shapes into the graph.
    summary = summarize(graph.clone(), options.shapes)
    data, tested = both_samples(graph, options)
    named = {role: k if isinstance(k, str) else ",".join(k) for role, k in ends.items() if k}
    return JobInputs(graph, settings, summary, data, tested, folder, options, {**named, **options.opening})


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
