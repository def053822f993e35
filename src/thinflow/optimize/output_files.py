"""Files of the main job: where they go and what they are called."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from thinflow.errors import WriteError
from thinflow.formats import graphdef
from thinflow.formats._files import write_file
from thinflow.ir.graph import Graph
from thinflow.ir.types import shape_text


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


def page_files(folder: Path) -> dict[str, Path]:
    """The files of a report, by role."""
    return {"json": folder / "report.json", "markdown": folder / "report.md"}


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
