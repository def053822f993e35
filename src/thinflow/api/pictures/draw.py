"""Pictures of graphs."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from thinflow.api.files import stored_graph
from thinflow.errors import ParameterError, closest
from thinflow.ir.brief import brief_repr
from thinflow.load.graphs import Source

PICTURES = ("svg", "png", "dot", "html")


@brief_repr
@dataclass(frozen=True)
class Drawn:
    """What `draw` wrote.

    Attributes:
        path: the file.
        size_bytes: of the file.
        boxes, arrows: how many are in the main picture.
        by: "graphviz" or "thinflow", who placed them.
        notes: what is not shown.
    """

    path: str
    size_bytes: int
    boxes: int
    arrows: int
    by: str
    notes: list[str] = field(default_factory=list)


def draw(
    source: Source,
    path: str | os.PathLike[str],
    *,
    constants: bool = False,
    depth: int | None = None,
    functions: bool = True,
    tags: str | None = None,
    engine: str | None = None,
) -> Drawn:
    """Draw a graph as it stands in its file: SVG, PNG, DOT or an HTML page, by the suffix.

    Args:
        source: path of a model of any kind, or a Graph.
        path: where to.
        constants: draw constants as boxes of their own.
        depth: how many scopes to look into; default: as many as can be read.
        functions: draw the functions of the library, too.
        tags: which graph of a SavedModel.
        engine: "graphviz" or "thinflow"; default: Graphviz where it is installed.

    Raises:
        ParameterError: another suffix, or PNG without Graphviz.
        WriteError: the file cannot be written.
    """
    from thinflow.api.pictures.picture import picture
    from thinflow.formats.files import write_file
    from thinflow.load.graphs import declare_interface

    kind = _kind(path)
    # A copy: guessing the ends writes them into the graph.
    graph = stored_graph(source, tags).clone()
    declare_interface(graph)
    title = Path(graph.path).name or "graph"
    drawn = picture(graph, title, constants=constants, depth=depth, functions=functions)
    data, by = _written(drawn, kind, engine)
    size = write_file(path, [data])
    return Drawn(os.fspath(path), size, len(drawn.boxes), len(drawn.arrows), by, drawn.notes)


def _kind(path: str | os.PathLike[str]) -> str:
    suffix = Path(path).suffix.lower().lstrip(".")
    if suffix == "htm":
        return "html"
    if suffix not in PICTURES:
        hint = closest(suffix, PICTURES) or f"end the name in {', '.join('.' + p for p in PICTURES)}"
        raise ParameterError(f"{os.fspath(path)}: this suffix names no kind of picture", hint=hint)
    return suffix


def _written(drawn: object, kind: str, engine: str | None) -> tuple[bytes, str]:
    """The file, and who laid it out."""
    from thinflow.api.pictures import render
    from thinflow.api.pictures.dot import dot
    from thinflow.api.pictures.picture import Picture
    from thinflow.api.pictures.svg import page, svg

    assert isinstance(drawn, Picture)
    if kind == "dot":
        return dot(drawn).encode(), "thinflow"
    # HTML is a page of thinflow's own.
    wants_graphviz = engine == "graphviz" or (engine is None and kind != "html" and render.available())
    if wants_graphviz or kind == "png":
        # Graphviz may be there and fail; svg is then drawn here, unless it was asked for by name.
        made = render.render(dot(drawn), kind) if kind in ("svg", "png") else None
        if made is not None:
            return made, "graphviz"
        if engine == "graphviz" or kind == "png":
            has_it = render.available()
            problem = "Graphviz cannot draw this" if has_it else "Graphviz is not installed"
            raise ParameterError(
                f"{problem}, which {'a PNG' if kind == 'png' else 'engine=graphviz'} needs",
                hint="write .svg or .html, which thinflow draws itself",
            )
    return (page(drawn) if kind == "html" else svg(drawn)).encode(), "thinflow"


def write_dot(source: Source, path: str | os.PathLike[str]) -> int:
    """Write DOT text as TensorFlow's graph_to_dot laid it out; the bytes written.

    Raises:
        FormatError: the source cannot be read.
        WriteError: the file cannot be written.
    """
    from thinflow.api.pictures.dot import plain_dot
    from thinflow.formats.files import write_file

    return write_file(path, [plain_dot(stored_graph(source)).encode()])
