"""Converted models in mapped temporary files, so that their weights are in memory once.

A model handed over as bytes stays there beside the weights that the engine packs for itself, and beside the
pages of the file it was converted from. A mapped file costs what is read of it, and the system may drop that.
"""

from __future__ import annotations

import atexit
import logging
import mmap
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from thinflow.errors import EngineUnavailable, WriteError
from thinflow.formats.sealing import may_write_copies
from thinflow.ir.graph import Graph
from thinflow.ir.tensor import RawStorage
from thinflow.onnx.program import Program
from thinflow.onnx.writer import to_bytes, write_program

logger = logging.getLogger(__name__)

_MODEL = "model.onnx"
SMALL_BYTES = 4 << 20
"""Up to this size a file is more trouble than it saves."""


@contextmanager
def mapped(write: Callable[[], tuple[int, Iterable[Any]]], suffix: str) -> Iterator[bytes | str]:
    """A model's bytes if it is small or secret, else the path of a temporary file that holds it.

    The file's name is gone afterwards; whoever has mapped it keeps its content.

    Args:
        write: gives the size and the chunks; called again if the disk turns out to be full.
        suffix: of the file.
    """
    size, chunks = write()
    # Once something was decrypted in this process, no copy may reach a disk.
    if size <= SMALL_BYTES or not may_write_copies():
        yield b"".join(chunks)
        return
    path = ""
    try:
        try:
            descriptor, path = tempfile.mkstemp(suffix, "thinflow-")
            with open(descriptor, "wb") as file:
                for chunk in chunks:
                    file.write(chunk)
        except OSError as error:
            logger.info("the model is kept in memory, there is no room for a temporary file: %s", error)
            content = bytearray()
            # From the start again: chunks are made once, and some have gone to the disk that was too small.
            for chunk in write()[1]:
                content += chunk
            del write, chunks
            yield bytes(content)
        else:
            del write, chunks  # they hold the arrays that are in the file now
            # Engines map the file while they open it, and keep the map when its name is gone.
            yield path
    finally:
        if path:
            _remove(path)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:  # Windows keeps a file that is mapped
        atexit.register(_remove_late, path)


def _remove_late(path: str) -> None:
    try:
        os.unlink(path)
    except OSError as error:
        logger.info("a temporary file stays behind: %s", error)


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
    # Weights decide about the size; the rest of a model is small beside them.
    if sum(t.array().nbytes for t in program.homes()) <= SMALL_BYTES:
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
        _remove_folder(folder)


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


def _remove_folder(folder: str) -> None:
    if folder:
        shutil.rmtree(folder, ignore_errors=True)
        if os.path.exists(folder):  # Windows keeps files that are mapped
            atexit.register(shutil.rmtree, folder, ignore_errors=True)


def release_pages(graph: Graph) -> None:
    """Give back the memory that reading a graph's mapped weights has taken; they can be read again. O(nodes).

    Only for maps of files, which hold nothing that the file does not.
    """
    # Not on Windows, where the system decides alone.
    if not hasattr(mmap.mmap, "madvise") or not hasattr(mmap, "MADV_DONTNEED"):
        return
    maps: dict[int, mmap.mmap] = {}
    for node in graph:
        tensor = node.tensor
        if tensor is not None and isinstance(tensor.storage, RawStorage):
            owner = tensor.storage.buffer.obj
            if isinstance(owner, mmap.mmap):
                maps[id(owner)] = owner
    for owner in maps.values():
        owner.madvise(mmap.MADV_DONTNEED)
