"""Opens LiteRT interpreters without the line that they print first; knows what their kernels find here."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import IO, Any

from thinflow.errors.plain_text import shown

_BANNER = b"INFO: Created TensorFlow Lite XNNPACK delegate"
_seen = False
_MOST_TOLD = 240
"""Characters of what LiteRT says."""
_NUMBERS = re.compile(r"\d+")
# A full stop or a word's end against the next sentence: `parameters.Tensor 36`, `tensorNode number 54`; not
# the name of a file, `util.cc`.
_SENTENCES = re.compile(r"\n|(?<=[\w)])\.(?=[A-Z]|[a-z]+_)|(?<=[a-z.])(?=Node number \d)")


def interpreter(*, allocated: bool = True, **options: Any) -> Any:
    """An `ai_edge_litert.interpreter.Interpreter`.

    Args:
        allocated: allocate its tensors, for the input sizes that the model states.
        options: of the Interpreter: model_path or model_content, num_threads, ...

    Raises:
        ValueError, RuntimeError: LiteRT refuses the model.
    """
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(**options)
    if allocated:
        allocate(interpreter)
    return interpreter


def source(content: bytes | str) -> dict[str, Any]:
    """The option of `interpreter` for a model: its bytes, or the path of a file, which it maps."""
    return {"model_path" if isinstance(content, str) else "model_content": content}


def allocate(made: Any) -> None:
    """Allocate the tensors of an interpreter.

    Raises:
        ValueError, RuntimeError: LiteRT refuses the model.
    """
    with quiet():
        made.allocate_tensors()


def told_apart(text: str) -> str:
    """What LiteRT says, sentence by sentence: it writes one behind the other without a space, and the same of
    every tensor, which is told once.
    """
    kinds: dict[str, list[str]] = {}
    for sentence in filter(None, (s.strip(" .") for s in _SENTENCES.split(text))):
        kinds.setdefault(_NUMBERS.sub("", sentence), []).append(sentence)
    told = [s[0] if len(s) == 1 else f"{s[0]} (and {len(s) - 1} more like it)" for s in kinds.values()]
    found = "; ".join(told)
    return found if len(found) <= _MOST_TOLD else found[:_MOST_TOLD].rstrip() + "..."


@cache
def multiplies_matrices() -> bool:
    """True if the int8 kernels find a unit here that multiplies matrices: AMX, which they use on Linux."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            return any(line.startswith("flags") and "amx_int8" in line.split() for line in file)
    except OSError:
        return False


@contextmanager
def quiet() -> Iterator[None]:
    """Around what may make the first delegate: without its banner, which comes once per process."""
    if _seen:
        yield
        return
    # Interpreters with reference kernels make no delegate: until the banner came, it may come.
    with _without_banner():
        yield


@contextmanager
def _without_banner() -> Iterator[None]:
    """Hold back what C++ code writes to stderr, and pass on all of it but the banner."""
    global _seen
    try:
        # What Python still holds must come before what the library writes.
        sys.stderr.flush()
        stderr = os.dup(2)
    except (OSError, ValueError, AttributeError):  # no stderr, or one without a descriptor
        yield
        return
    with _scratch() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            # In any case: a process without stderr would lose the message of the very error that led here.
            os.dup2(stderr, 2)
            os.close(stderr)
            held.seek(0)
            lines = list(held)
            told = [line for line in lines if not line.startswith(_BANNER)]
            _seen = _seen or len(told) < len(lines)
            rest = b"".join(told)
            if rest:  # names of a file may be in it
                os.write(2, shown(rest.decode("utf-8", "replace")).encode())


def _scratch() -> IO[bytes]:
    """A file without a name, where possible made without `tempfile`, whose import takes longest of all."""
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("stderr"), "w+b")
    import tempfile

    return tempfile.TemporaryFile()
