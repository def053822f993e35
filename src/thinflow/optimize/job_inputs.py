"""Inputs of the main job: an open model, samples for it, options, and the folder for its files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from thinflow.analysis.summary import Summary, summarize
from thinflow.errors import GraphError, ParameterError, WriteError
from thinflow.formats import graphdef
from thinflow.formats.files import write_file
from thinflow.ir.brief import brief_repr
from thinflow.ir.check import require_valid
from thinflow.ir.graph import Graph
from thinflow.ir.types import shape_text
from thinflow.load.frozen import AUTO, tell_unkept
from thinflow.load.graphs import load_for_inference
from thinflow.ops.traits import Trait, has
from thinflow.optimize.quantized_sources import prove_and_free
from thinflow.optimize.recipe_options import OpenedRecipe, opened_recipe
from thinflow.optimize.samples import SampleOptions, Samples, both_samples
from thinflow.optimize.source_proof import note_proof
from thinflow.quantize.recipe import Recipe, chosen_recipe
from thinflow.typing import FilePath, Progress

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
    recipe: Recipe | FilePath | None = None
    effort: str | None = None
    onnx: bool = False
    strict: bool = False
    state: str = AUTO
    progress: Progress | None = None
    opening: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse options that nothing can be measured or judged with.

        Raises:
            ParameterError: no list of thread counts, a negative drop, or no such scheme or effort.
        """
        if not self.threads or any(t < 1 for t in self.threads):
            shown = ",".join(map(str, self.threads))
            raise ParameterError(f"'{shown}' is no list of thread counts", hint="give counts like 1,2")
        # Written so that NaN is refused, too.
        if not self.max_drop >= 0:
            drop = f"{self.max_drop:g}"
            raise ParameterError(f"a drop of at most {drop} points makes no sense", hint="give 0 or more")
        chosen_recipe(self.scheme, self.opened.recipe)

    @property
    def chosen_recipe(self) -> Recipe:
        """The recipe, or the plain one of the scheme."""
        return chosen_recipe(self.scheme, self.opened.recipe)

    @cached_property
    def opened(self) -> OpenedRecipe:
        """The recipe, read if it is a file, and how much is tried beyond it."""
        return opened_recipe(self.recipe, self.effort)


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
    may_differ = isinstance(source, Graph)
    is_proven = prove_and_free(graph, verify=options.verify, may_differ=may_differ)
    data, tested = both_samples(graph, options)
    if options.verify and not is_proven:
        note_proof(graph, data, may_differ=may_differ)
    named = {role: k if isinstance(k, str) else ",".join(k) for role, k in ends.items() if k}
    # Commands of other kinds take no layouts.
    opened = {key: value for key, value in options.opening.items() if not key.endswith("_layout")}
    return JobInputs(graph, settings, summary, data, tested, folder, options, {**named, **opened})


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


class Report(Protocol):
    """A report of the job, and its files by role."""

    files: dict[str, Path]

    def json_text(self) -> str: ...

    def markdown(self) -> str: ...


def checked_folder(out_dir: str | os.PathLike[str]) -> Path:
    """The folder, not made yet: a job that fails leaves nothing, one that cannot write fails at once."""
    folder = Path(out_dir)
    # The nearest folder that is there already is where the others would be made.
    existing = next((p for p in (folder, *folder.absolute().parents) if p.exists()), Path("/"))
    if not existing.is_dir():
        raise WriteError("there is a file of this name", str(existing), hint="name a folder")
    if not os.access(existing, os.W_OK):
        raise WriteError("no permission to write here", str(existing), hint="choose another folder")
    return folder


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WriteError(
            f"the folder cannot be made: {error.strerror}", str(folder), hint="choose another place"
        ) from error


def write_graph(graph: Graph, folder: Path, stem: str) -> dict[str, Path]:
    """Write the graph as a .pb file and read it back; the file by its role.

    Raises:
        WriteError: it cannot be written.
    """
    files = {"fp32_pb": folder / f"{stem}_fp32.pb"}
    graphdef.save(graph, files["fp32_pb"])
    # Read back at once: a .pb that does not load is found here and not by the user.
    graphdef.load(files["fp32_pb"])
    return files


def page_files(folder: Path, *, with_recipe: bool = True) -> dict[str, Path]:
    """The files of a report, by role; with the recipe of a smaller model, where there is one."""
    pages = {"json": folder / "report.json", "markdown": folder / "report.md"}
    return pages | {"recipe": folder / "recipe.toml"} if with_recipe else pages


def write_pages(report: Report) -> None:
    """Write what a report says for machines and for people.

    Raises:
        WriteError: it cannot be written.
    """
    write_file(report.files["json"], [report.json_text().encode()])
    write_file(report.files["markdown"], [report.markdown().encode()])


def model_files(files: Mapping[str, Path]) -> dict[str, Path]:
    """The files by role without a report's own."""
    return {role: path for role, path in files.items() if role not in page_files(path.parent)}


def sizes_of(files: Mapping[str, Path]) -> dict[str, int]:
    """Bytes of each model's file, by role."""
    return {role: path.stat().st_size for role, path in model_files(files).items()}


def stem_of(graph: Graph) -> str:
    """The stem of the files' names: that of the model's file."""
    # Up to the first dot, as `Coverage.path` has it.
    name = Path(graph.path).name.split(".")[0] if graph.path else ""
    return name or "model"


def described(values: Sequence[Any]) -> list[tuple[str, str]]:
    """Name, and type with shape, of each value."""
    return [(v.name, f"{v.spec.dtype or '?'}{shape_text(v.spec.shape)}") for v in values]
