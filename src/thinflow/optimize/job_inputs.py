"""Inputs of the main job: an open model, samples for it, options, and the folder for its files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from thinflow.analysis.summary import Summary, summarize
from thinflow.errors import GraphError, ParameterError, WriteError
from thinflow.formats import graphdef
from thinflow.formats.files import write_file
from thinflow.formats.openvino import weights_beside
from thinflow.interpreter.turns import turns_of
from thinflow.ir.brief import brief_repr
from thinflow.ir.check import require_valid
from thinflow.ir.graph import Graph
from thinflow.ir.types import shape_text
from thinflow.load.frozen import AUTO, require_frozen, tell_unkept
from thinflow.load.graphs import load_for_inference
from thinflow.optimize.engine_names import ONNX, raced_engines
from thinflow.optimize.ladder.budget import Budget, budget_of, drop_of
from thinflow.optimize.ladder.held_out import held_out
from thinflow.optimize.on_device import ReachedDevice
from thinflow.optimize.recipe_options import OpenedRecipe, opened_recipe
from thinflow.optimize.samples import SampleOptions, Samples, both_samples
from thinflow.optimize.source_proof import note_proof, prove_and_free
from thinflow.pages.shell import why_no_pages
from thinflow.program.amounts import Amount
from thinflow.quantize.recipe import Recipe, chosen_recipe
from thinflow.typing import FilePath, Progress

UNFINISHED_PAGE = "report_interrupted.html"
"""The page of a run that was interrupted. `report.html` stays that of the last one that was finished, whose
models are still there."""
AUTO_SCHEME = "auto"
"""Of all schemes, the one that a budget chooses."""


@brief_repr
@dataclass(frozen=True, kw_only=True)
class JobOptions(SampleOptions):
    """Options of the main job: the arguments of `thinflow.optimize`, which explains them.

    Attributes:
        opening: options of `load`, besides the inputs, outputs and shapes.
        budget: what the smaller model has to keep, which is looked for then; None if nobody asked for that.
        allowed_drop: points that it may lose before float is advised.
        devices: where models are timed, the first of which decides; none for this machine.
    """

    inputs: Sequence[str] | None = None
    outputs: Sequence[str] | None = None
    shapes: Mapping[str, Sequence[int | None]] | None = None
    threads: Sequence[int] = (1, 2)
    max_drop: Amount | None = None
    max_size: Amount | None = None
    max_latency: Amount | None = None
    max_ram: Amount | None = None
    target: str | None = None
    measure: bool = True
    seconds: float = 4.0
    verify: bool = True
    scheme: str | None = None
    recipe: Recipe | FilePath | None = None
    effort: str | None = None
    onnx: bool = False
    engines: Sequence[str] | str | None = None
    strict: bool = False
    state: str = AUTO
    progress: Progress | None = None
    devices: Sequence[ReachedDevice] = ()
    opening: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse options that nothing can be measured or judged with.

        Raises:
            ParameterError: no list of thread counts, a negative drop, or no such scheme or effort.
        """
        if not self.threads or any(t < 1 for t in self.threads):
            shown = ",".join(map(str, self.threads))
            raise ParameterError(f"'{shown}' is no list of thread counts", hint="give counts like 1,2")
        if self.raced and self.device is not None:
            raise ParameterError(
                "engines are compared on this machine, and a device runs LiteRT",
                hint="leave out one of them",
            )
        if self.device is not None:
            self._check_device()
        if self.budget is not None:
            self._check_budget()
        if self.raced and not (self.measure and self.seconds > 0):
            raise ParameterError(
                "engines are compared by measuring, which is switched off",
                hint="leave out one of them",
            )
        # Whatever is wrong with the scheme, the recipe or the effort is said before any work.
        chosen_recipe(self._named_scheme, self.opened.recipe)

    def _check_device(self) -> None:
        """Refuse what a device is not asked for.

        Raises:
            ParameterError: nothing is measured, or a bound for what it does not run.
        """
        if not (self.measure and self.seconds > 0):
            raise ParameterError(
                "a device is for measuring, which is switched off", hint="leave out one of them"
            )
        if self.onnx and self.max_latency is not None:
            raise ParameterError(
                "devices run LiteRT, and the bound on latency is for the .onnx files, too",
                hint="leave out --onnx, or the device",
            )

    def _check_budget(self) -> None:
        """Refuse a budget that contradicts other options, or that nothing can be judged by.

        Raises:
            ParameterError: with what to do about it.
        """
        if self.recipe is not None:
            raise ParameterError(
                "a recipe says how the model is made, and a budget looks for a recipe",
                hint="leave out one of them",
            )
        if self.calibration is None:
            raise ParameterError(
                "a budget needs samples: what fewer bits cost cannot be told from inputs that are made up",
                hint="give some: calibration=SAMPLES",
            )
        if self.max_latency is not None and not (self.measure and self.seconds > 0):
            raise ParameterError(
                "a bound on latency needs measuring, which is switched off",
                hint="leave out one of them",
            )

    @property
    def device(self) -> ReachedDevice | None:
        """The device that what is decided by time is decided on; None for this machine."""
        return self.devices[0] if self.devices else None

    @cached_property
    def raced(self) -> tuple[str, ...]:
        """Engines that are compared, whose models are made for that."""
        return raced_engines(self.engines)

    @property
    def makes_onnx(self) -> bool:
        """True if models for ONNX Runtime are made."""
        return self.onnx or ONNX in self.raced

    @cached_property
    def budget(self) -> Budget | None:
        bounds = (self.max_size, self.max_latency, self.max_ram)
        found = budget_of(self.max_drop, *bounds, self.target)
        # A recipe leaves nothing to look for: a drop alone is what the verdict goes by.
        wants_drop = self.max_drop is not None and self.recipe is None
        is_wanted = (
            wants_drop or self.scheme == AUTO_SCHEME or any(b is not None for b in (*bounds, self.target))
        )
        if self.device is not None:
            found = replace(found, device=self.device.name)
        return found if is_wanted else None

    @property
    def allowed_drop(self) -> float:
        return drop_of(self.max_drop)

    @property
    def chosen_recipe(self) -> Recipe:
        """The recipe, or the plain one of the scheme."""
        return chosen_recipe(self._named_scheme, self.opened.recipe)

    @property
    def _named_scheme(self) -> str | None:
        return None if self.scheme == AUTO_SCHEME else self.scheme

    def schemes(self, known: Sequence[str]) -> Sequence[str]:
        """Those that a budget chooses from: all that a runtime knows, or the one that was named."""
        return known if self._named_scheme is None else (self._named_scheme,)

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
        source: path of the model; "" if it came from memory.
        state, unkept: as for `open_inputs`.
    """

    graph: Graph
    settings: list[str]
    summary: Summary
    data: Samples
    tested: Samples
    folder: Path
    options: JobOptions
    opened_with: Mapping[str, Any]
    source: str = ""
    state: str = AUTO
    unkept: str = ""

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
    require_frozen(graph)
    if not graph.outputs:
        raise GraphError(
            "no output was found",
            graph.path,
            hint="name it with --outputs; `thinflow inspect MODEL` lists nodes",
        )
    if unkept:
        tell_unkept(graph, unkept)
    # Of a copy: inference for the summary writes shapes into the graph.
    summary = summarize(graph.clone(), options.shapes, turns_of)
    may_differ = isinstance(source, Graph)
    is_proven = prove_and_free(graph, verify=options.verify, may_differ=may_differ)
    data, tested = both_samples(graph, options)
    if options.verify and not is_proven:
        note_proof(graph, data, may_differ=may_differ)
    named = {role: k if isinstance(k, str) else ",".join(k) for role, k in ends.items() if k}
    if options.budget is not None and tested is data:
        # A choice among many that is judged on what they were made with would choose what fits it by heart.
        data, tested = held_out(data)
    # Commands of other kinds take no layouts.
    opened = {key: value for key, value in options.opening.items() if not key.endswith("_layout")}
    path = "" if isinstance(source, Graph) else os.fspath(source)
    return JobInputs(
        graph, settings, summary, data, tested, folder, options, {**named, **opened}, path, state, unkept
    )


class Report(Protocol):
    """A report of the job, and its files by role."""

    files: dict[str, Path]

    def json_text(self) -> str: ...

    def markdown(self) -> str: ...

    def save_html(self, path: FilePath) -> int: ...


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


_HELD: set[int] = set()


@contextmanager
def sole_writer(folder: Path) -> Iterator[None]:
    """Keep other runs out of a folder of results: files of two of them would belong to neither.

    Raises:
        WriteError: another one writes there, or the folder cannot be made.
    """
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    make_folder(folder)
    try:
        with _locked(folder):
            yield
    finally:
        # A job that fails leaves nothing.
        with suppress(OSError):
            for path in made:
                path.rmdir()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """A lock that ends with the process, on a folder itself; none on Windows and disks that know none."""
    try:
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        yield
        return
    _HELD.add(handle)
    try:
        with suppress(OSError):
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise WriteError(
                    "another run is writing its results there",
                    str(folder),
                    hint="wait until it is done, or name another folder",
                ) from error
        yield
    finally:
        _HELD.discard(handle)
        os.close(handle)


def _let_go() -> None:
    while _HELD:
        os.close(_HELD.pop())


if hasattr(os, "register_at_fork"):
    # A lock is held by all who have it open: a child that outlives its parent would keep it.
    os.register_at_fork(after_in_child=_let_go)


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


_PAGES = (".svg", ".toml")


def page_files(folder: Path, *, with_recipe: bool = True) -> dict[str, Path]:
    """The files of a report, by role: the page where it can be written, the recipe of a smaller model."""
    pages = {"json": folder / "report.json", "markdown": folder / "report.md"}
    pages |= {} if why_no_pages() else {"html": folder / "report.html"}
    return pages | {"recipe": folder / "recipe.toml"} if with_recipe else pages


def write_pages(report: Report) -> None:
    """Write what a report says for machines and for people, as text and as a page to look at.

    The page of a run that was interrupted before goes: what it told is outdated.

    Raises:
        WriteError: it cannot be written.
    """
    write_file(report.files["json"], [report.json_text().encode()])
    write_file(report.files["markdown"], [report.markdown().encode()])
    if "html" in report.files:
        report.save_html(report.files["html"])
    (report.files["json"].parent / UNFINISHED_PAGE).unlink(missing_ok=True)


def model_files(files: Mapping[str, Path]) -> dict[str, Path]:
    """The files by role without a report's own."""
    pages = page_files(Path())
    return {role: path for role, path in files.items() if role not in pages and path.suffix not in _PAGES}


def sizes_of(files: Mapping[str, Path]) -> dict[str, int]:
    """Bytes of each model's file, and of its weights if they are in another, by role."""
    return {
        role: sum(file.stat().st_size for file in (path, *weights_beside(path)))
        for role, path in model_files(files).items()
    }


def stem_of(graph: Graph) -> str:
    """The stem of the files' names: that of the model's file."""
    # Up to the first dot, as `Coverage.path` has it.
    name = Path(graph.path).name.split(".")[0] if graph.path else ""
    return name or "model"


def described(values: Sequence[Any]) -> list[tuple[str, str]]:
    """Name, and type with shape, of each value."""
    return [(v.name, f"{v.spec.dtype or '?'}{shape_text(v.spec.shape)}") for v in values]
