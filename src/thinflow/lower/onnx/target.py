"""ONNX's files as a target."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from thinflow.formats.files import write_file
from thinflow.ir.graph import Graph
from thinflow.lower.targets import Target
from thinflow.onnx.program import Program
from thinflow.typing import FilePath


def write_onnx(
    program: Program,
    path: str | os.PathLike[str],
    *,
    external_data: bool | None = None,
    check: Callable[[str], object] | None = None,
) -> int:
    """Write an .onnx file; the bytes written, those of a second file included.

    Args:
        program: what to write.
        path: where to.
        external_data: whether weights go to a second file PATH.data, which has to stay beside the first;
            default: only if they do not fit into one.
        check: called with the path of the finished file before it takes its name.

    Raises:
        WriteError: a file cannot be written.
    """
    from thinflow.onnx.writer import INLINE_LIMIT, write_program

    target = Path(path)
    if external_data is None:
        # A protobuf message holds less than 2 GiB.
        external_data = sum(t.array().nbytes for t in program.tensors() if t.is_constant) > INLINE_LIMIT
    beside = f"{target.name}.data" if external_data else ""
    file = write_program(program, beside=beside)
    size = 0

    def finish(part: str) -> None:
        nonlocal size
        if file.data_size:
            # The data first: the model, which names it, must not be there without it.
            size = write_file(target.with_name(beside), file.data_chunks)
        if check is not None:
            check(part)

    own = write_file(target, file.chunks, check=finish)
    return own + size


def write(graph: Graph, path: FilePath) -> int:
    """A graph as an .onnx file."""
    from thinflow.lower.onnx.convert import lower_graph
    from thinflow.onnx.metadata import described

    program = lower_graph(graph, graph.inputs, graph.outputs).program
    return write_onnx(described(program, graph.usage), path)


TARGET = Target("onnx", (".onnx",), write, has_runtime=True)
