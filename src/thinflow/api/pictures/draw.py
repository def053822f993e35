"""Pictures of graphs."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from thinflow.api.files import stored_graph
from thinflow.errors import ParameterError, closest
from thinflow.ir.brief import brief_repr
from thinflow.load.graphs import Source

PICTURES = ("svg", "png", "dot")


@brief_repr
@dataclass(frozen=True)
class Drawn:
    """Result of `draw`: the file that it wrote.

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
    """Draw a graph as it stands in its file: SVG, PNG or DOT, by the suffix; `view` writes pages.

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
    if suffix not in PICTURES:
        hint = (
            closest(suffix, PICTURES) or f"end the name in {', '.join('.' + p for p in (*PICTURES, 'html'))}"
        )
        raise ParameterError(f"{os.fspath(path)}: this suffix names no kind of picture", hint=hint)
    return suffix


def _written(drawn: object, kind: str, engine: str | None) -> tuple[bytes, str]:
    """The file, and who laid it out."""
    from thinflow.api.pictures.dot import dot
    from thinflow.api.pictures.picture import Picture
    from thinflow.api.pictures.svg import svg

    assert isinstance(drawn, Picture)
    if kind == "dot":
        return dot(drawn).encode(), "thinflow"
    wants_graphviz = engine == "graphviz" or (engine is None and available())
    if wants_graphviz or kind == "png":
        # Graphviz may be there and fail; svg is then drawn here, unless it was asked for by name.
        made = render(dot(drawn), kind) if kind in ("svg", "png") else None
        if made is not None:
            return made, "graphviz"
        if engine == "graphviz" or kind == "png":
            has_it = available()
            problem = "Graphviz cannot draw this" if has_it else "Graphviz is not installed"
            raise ParameterError(
                f"{problem}, which {'a PNG' if kind == 'png' else 'engine=graphviz'} needs",
                hint="write .svg, which thinflow draws itself, or .html: its page saves the drawing as PNG",
            )
    return svg(drawn).encode(), "thinflow"


def write_dot(source: Source, path: str | os.PathLike[str]) -> int:
    """Write DOT text as TensorFlow's graph_to_dot laid it out; the bytes written.

    Raises:
        FormatError: the source cannot be read.
        WriteError: the file cannot be written.
    """
    from thinflow.api.pictures.dot import plain_dot
    from thinflow.formats.files import write_file

    return write_file(path, [plain_dot(stored_graph(source)).encode()])


# ---- Letting Graphviz draw, where it is installed: as a program, or inside the package pygraphviz.


_PROGRAM = "dot"
_PACKAGE = "pygraphviz"
_TIMEOUT_SECONDS = 120

# In a process of its own: it can be stopped, and takes nobody with it.
_DRAW = """
import sys, pygraphviz
graph = pygraphviz.AGraph(string=sys.stdin.buffer.read().decode())
sys.stdout.buffer.write(graph.draw(format=sys.argv[1], prog="dot"))
"""


def available() -> bool:
    """True if Graphviz's `dot` is on the path, or the package is there."""
    return _command("svg") is not None


def render(text: str, kind: str) -> bytes | None:
    """Graphviz's picture of DOT text; None if it fails or takes too long.

    Args:
        text: the picture.
        kind: "svg" or "png".
    """
    command = _command(kind)
    if command is None:
        return None
    try:
        done = subprocess.run(
            command,
            input=text.encode(),
            capture_output=True,
            timeout=_TIMEOUT_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout or None


def _command(kind: str) -> list[str] | None:
    """Command that reads DOT text and writes a picture; None if nothing does."""
    program = shutil.which(_PROGRAM)
    if program is not None:
        return [program, f"-T{kind}"]
    if importlib.util.find_spec(_PACKAGE) is not None:
        return [sys.executable, "-c", _DRAW, kind]
    return None
