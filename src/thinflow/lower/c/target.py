"""Plain C as a target."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from thinflow.errors import UnsupportedOp, WriteError
from thinflow.ir.graph import Graph
from thinflow.ir.vocabulary import LITERT
from thinflow.lower.targets import Target
from thinflow.typing import FilePath

if TYPE_CHECKING:
    from thinflow.tflite.model import Program


def program_of(graph: Graph, sample_rate: int | None = None) -> Program:
    """The LiteRT program that becomes C: a .tflite file's own, or what a graph is lowered to.

    Args:
        graph: not changed.
        sample_rate: hertz, of sound whose rate is an input beside the samples; default `SAMPLE_RATE`.

    Raises:
        UnsupportedOp: a node has no form in LiteRT's ops.
    """
    from thinflow.lower.c.sound import know_rate

    # Imported only when a file is written: targets are listed without loading their rules.
    if graph.vocabulary == LITERT.name:
        from thinflow.formats.packed_bytes import bytes_of
        from thinflow.lower.c.litert import take_sizes
        from thinflow.tflite.reader import read_program

        content, number = bytes_of(graph.path), int(graph.facts.get("subgraph", 0))
        program = read_program(content, losses=[])
        if not number:
            take_sizes(program.subgraphs[0], bytes(content))
        begin_with(program, number)
    else:
        from thinflow.ir.interface import states_of
        from thinflow.lower.tflite.convert import lower_graph
        from thinflow.lower.tflite.variables import with_variables

        try:
            # Variables of a program are members of the struct that C keeps from run to run.
            program = with_variables(
                lower_graph(graph, graph.inputs, graph.outputs).program, states_of(graph)
            )
        except UnsupportedOp as error:
            from thinflow.lower.c.convert import refused_graph

            raise refused_graph(graph, error) from error
    know_rate(program, sample_rate)
    return program


def begin_with(program: Program, number: int) -> None:
    """Make a subgraph the first, which is the one that runs; it and the first change places."""
    from thinflow.tflite.schema import SUBGRAPH_LISTS, SUBGRAPH_OPTIONS

    if not number:
        return
    blocks = program.subgraphs
    blocks[0], blocks[number] = blocks[number], blocks[0]
    # Who calls either of the two means the same one as before.
    moved = {0: number, number: 0}
    for operator in (o for block in blocks for o in block.operators):
        for name in SUBGRAPH_OPTIONS & operator.options.keys():
            operator.options[name] = moved.get(operator.options[name], operator.options[name])
        for name in SUBGRAPH_LISTS & operator.options.keys():
            operator.options[name] = [moved.get(n, n) for n in operator.options[name]]


def write(graph: Graph, path: FilePath) -> int:
    """A graph as C: NAME.c, NAME.h and NAME_weights.c; the bytes written."""
    from thinflow.lower.c.convert import network
    from thinflow.lower.c.options import Options
    from thinflow.lower.c.write import Writer, stem

    return write_files(Writer(network(program_of(graph), Options()), stem(path)).files(), path)


def write_files(files: Mapping[str, str], path: FilePath) -> int:
    """Write the files of a network, where their layout has them; the bytes written. All of them, or none.

    Args:
        files: path from the folder of `path` on -> text.
        path: where to.

    Raises:
        WriteError: they cannot be written.
    """
    target = Path(os.fspath(path))
    # The one that was asked for comes last: where it is, the others are.
    order: Sequence[str] = sorted(files, key=lambda name: name == target.name)
    return sum(_write_one(target.parent, name, files[name]) for name in order)


def _write_one(parent: Path, name: str, text: str) -> int:
    from thinflow.formats.files import write_file

    path = parent / name
    # The folder that was named has to be there; those of the layout are made.
    if parent.is_dir() and path.parent != parent:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise WriteError(f"its folder cannot be made: {error.strerror}", str(path.parent)) from error
    return write_file(path, [text.encode()])


TARGET = Target("c", (".c",), write, takes=(LITERT.name,))
