"""ONNX programs as temporary files, whose weights ONNX Runtime maps instead of copying them."""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from thinflow.engines import _mapped
from thinflow.errors import EngineUnavailable, WriteError
from thinflow.formats._secrecy import may_write_copies
from thinflow.onnx.program import Program
from thinflow.onnx.writer import to_bytes, write_program

logger = logging.getLogger(__name__)

_MODEL = "model.onnx"


@contextmanager
def stored(programs: list[Program]) -> Iterator[bytes | str]:
    """A program's bytes if it is small or secret, else the path of a file, with the weights in one beside it.

    The files are gone afterwards; whoever has mapped them keeps their content.

    Args:
        programs: one, which is taken out of the list: it holds the arrays that are in the files then.

    Raises:
        EngineUnavailable: there is no room for it, on the disk or in one protobuf file.
    """
    program = programs.pop()
    if not may_write_copies():
        yield _in_memory(program)
        return
    if sum(t.array().nbytes for t in program.homes()) <= _mapped.SMALL_BYTES:
        yield to_bytes(program)
        return
    folder = ""
    try:
        try:
            folder = tempfile.mkdtemp(prefix="thinflow-")
            content: bytes | str = _written(program, folder)
        except OSError as error:
            logger.info("the model is kept in memory, there is no room for temporary files: %s", error)
            content = _in_memory(program)
        del program
        yield content
    finally:
        _remove(folder)


def _written(program: Program, folder: str) -> str:
    """Write both files, chunk by chunk."""
    path = os.path.join(folder, _MODEL)
    file = write_program(program, beside=f"{_MODEL}.data")
    _write(path, file.chunks)
    _write(f"{path}.data", file.data_chunks)
    return path


def _write(path: str, chunks: Iterable[Any]) -> None:
    with Path(path).open("wb") as file:
        for chunk in chunks:
            file.write(chunk)


def _in_memory(program: Program) -> bytes:
    try:
        return to_bytes(program)
    except WriteError as error:
        raise EngineUnavailable(
            error.problem, hint="make room for temporary files (TMPDIR), or use engine='reference'"
        ) from error


def _remove(folder: str) -> None:
    if folder:
        shutil.rmtree(folder, ignore_errors=True)
        if os.path.exists(folder):  # Windows keeps files that are mapped
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
