"""The explorer's page of a model, or of several side by side."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from thinflow.errors import ParameterError
from thinflow.ir.brief import brief_repr
from thinflow.load.graphs import Source

if TYPE_CHECKING:
    from thinflow.transforms import Pipeline
    from thinflow.typing import FilePath, Progress, Samples

_FRAME = (
    '<iframe srcdoc="{page}" style="width: 100%; height: 600px; border: 1px solid #8884" '
    'sandbox="allow-scripts" title="{title}"></iframe>'
)
_MOST_SHOWN = 8_000_000
"""Bytes of a page that a notebook shows: it keeps all it shows in its file."""


@brief_repr
@dataclass(frozen=True)
class View:
    """Result of `view`: a page that needs no server and no network.

    Attributes:
        path: of the file; "" if none was asked for.
        size_bytes: of the page.
        nodes: shown, graph by graph.
        notes: what is not shown, and why.
        title: of its window.
        page: the HTML.
    """

    path: str
    size_bytes: int
    nodes: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    title: str = ""
    page: bytes = field(default=b"", repr=False)

    def _repr_html_(self) -> str:
        import html

        text = html.escape(self.page.decode("utf-8", "replace"))
        if len(text) > _MOST_SHOWN:
            return (
                f"<p>{html.escape(self.path or self.title)}: {self.size_bytes} bytes, too many for here</p>"
            )
        return _FRAME.format(page=text, title=html.escape(self.title))


def view(
    model: Source,
    other: Source | None = None,
    output: FilePath | None = None,
    *,
    tabs: Sequence[Source] = (),
    lifted: bool = False,
    weights: bool = True,
    values: bool = False,
    profile: str | None = None,
    placement: str | None = None,
    error: Source | bool | None = None,
    ranges: Samples | None = None,
    transforms: Pipeline | None = None,
    calibration: Samples | None = None,
    threads: int = 1,
    tags: str | None = None,
    progress: Progress | None = None,
) -> View:
    """A page to explore a model in: its scopes, nodes, weights and costs, and what is asked for besides.

    A file of another vocabulary is shown in its own operators, with its own names, as its runtime sees it;
    `lifted` shows what thinflow makes of it, on which transforms and schemes work. Nothing is run but for
    `profile`, `error` and `ranges`.

    Args:
        model: path of a model of any kind, or a Graph.
        other: a second one, to compare with.
        output: where to write the page; by default it is only returned.
        tabs: further forms of the model, as tabs of the same page.
        lifted: show TensorFlow's ops, as `load` gives them.
        weights: look into constants: statistics, histograms, pictures of filters.
        values: hold all numbers of the constants, not of small ones alone: a page as large as the model.
        profile: an engine by whose profiler nodes are timed; "auto" for the usual one.
        placement: an engine, or "auto", to tell which nodes it runs and why not the others.
        error: a model to measure the noise of each tensor against; True for `other`.
        ranges: samples over which the ranges of activations are measured.
        transforms: what to show the model before and after, with what each transform changed and left.
        calibration: samples, up to eight: runs of `profile` take them in turns, and `error` is that over all;
            made up by default.
        threads: for `profile`.
        tags: which graph of a SavedModel.
        progress: told how far it is: done, of how many, what.

    Raises:
        FormatError: no such file, or not a model.
        ParameterError: these do not go together.
        PagesUnavailable: thinflow was installed without the scripts of its pages.
        WriteError: the file cannot be written.
    """
    from thinflow.api.exploring.job import Job, Opening, Overlays
    from thinflow.formats.files import write_file
    from thinflow.pages.shell import page

    reference = _reference(error, other)
    overlays = Overlays(profile, placement, reference, ranges, transforms, calibration, threads)
    document = Job(Opening(lifted, weights, tags, values), overlays, progress).make(model, other, tabs)
    data = page("explorer", f"{document.title} - thinflow", document.data())
    path = "" if output is None else os.fspath(output)
    if output is not None:
        write_file(output, [data])
    counts = [len(g.nodes.name) for g in document.graphs]
    return View(path, len(data), counts, document.notes, document.title, data)


def write_model_explorer(model: Source, output: FilePath, *, tags: str | None = None) -> list[str]:
    """Write a graph for Google's Model Explorer, and its node data in files beside it.

    Args:
        model: path of a model of any kind, or a Graph.
        output: where the graph goes; data of nodes goes to `NAME.flops.json` and so on.
        tags: which graph of a SavedModel.

    Returns:
        The files, that of the graph first.
    """
    from thinflow.api.exploring.job import Job, Opening
    from thinflow.api.files import write_json
    from thinflow.api.model_explorer.graphs import collection, node_data

    document = Job(Opening(tags=tags)).make(model, None, ())
    path = os.fspath(output)
    write_json(path, collection(document))
    written = [path]
    for name, data in node_data(document):
        written.append(f"{path.removesuffix('.json')}.{name}.json")
        write_json(written[-1], data)
    return written


def _reference(error: Source | bool | None, other: Source | None) -> Source | None:
    if not isinstance(error, bool):
        return error
    if error and other is None:
        raise ParameterError(
            "the noise is measured against a second model", hint="give one: other=..., or error=PATH"
        )
    return other if error else None


def default_output(model: str) -> str:
    """The page that `view` writes if nobody says where: beside the caller, named after the model."""
    return f"{Path(model).resolve().name.split('.')[0]}.html"
