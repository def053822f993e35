"""What a candidate needs: a file and an arena, or as C on a processor flash and all memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from thinflow.fit.judge import fitted
from thinflow.lower.c.convert import Network, network
from thinflow.lower.c.options import Options
from thinflow.lower.c.sound import know_rate
from thinflow.onnx import program as onnx
from thinflow.program.arena import arena_bytes
from thinflow.tflite import model as tflite
from thinflow.tflite.reader import read_program


class Needs(NamedTuple):
    """Bytes of the file or of flash, and of memory."""

    size_bytes: int
    ram_bytes: int


def needs_of(
    content: bytes, program: tflite.Program | onnx.Program, target: str, ram: float | None = None
) -> Needs:
    """What a model needs.

    Args:
        content: of its file.
        program: that it is.
        target: a processor it is to be C for; "" for none.
        ram: bytes that C may take: layers run a few rows at a time where it fits only so.

    Raises:
        UnsupportedOp: C has no form of it.
    """
    if not target or isinstance(program, onnx.Program):
        return Needs(len(content), arena_bytes(_blocks(program)))

    # Read anew: what becomes C is changed on the way.
    def make(options: Options) -> Network:
        read = read_program(content)
        know_rate(read)
        return network(read, options)

    it = fitted(make, target, ram).footprint
    return Needs(it.flash_bytes, it.ram_bytes + it.stack_bytes)


def _blocks(program: tflite.Program | onnx.Program) -> Iterable[Any]:
    return program.programs() if isinstance(program, onnx.Program) else program.subgraphs
