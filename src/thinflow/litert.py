"""Opens LiteRT interpreters without the line that LiteRT prints when it makes its first delegate."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_BANNER = b"INFO: Created TensorFlow Lite XNNPACK delegate"
_seen = False


def interpreter(**options: Any) -> Any:
    """An `ai_edge_litert.interpreter.Interpreter`, tensors allocated.

    Args:
        options: of the Interpreter: model_path or model_content, num_threads, ...

    Raises:
        ValueError, RuntimeError: LiteRT refuses the model.
    """
    global _seen
    from ai_edge_litert.interpreter import Interpreter

    if _seen:
        made = Interpreter(**options)
        made.allocate_tensors()
        return made
    _seen = True  # the banner comes once per process
    with _without_banner():
        made = Interpreter(**options)
        made.allocate_tensors()
    return made


@contextmanager
def _without_banner() -> Iterator[None]:
    """Hold back what C++ code writes to stderr, and pass on all of it but the banner."""
    try:
        sys.stderr.flush()
        kept = os.dup(2)
    except (OSError, ValueError, AttributeError):  # no stderr, or one without a descriptor
        yield
        return
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            held.seek(0)
            rest = b"".join(line for line in held if not line.startswith(_BANNER))
            if rest:
                os.write(2, rest)
