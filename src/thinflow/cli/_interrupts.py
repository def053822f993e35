"""Ctrl-C that is heard wherever it comes."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_LATER_SECONDS = 0.01
"""Finalizers close files, which takes microseconds."""


@contextmanager
def heard() -> Iterator[None]:
    """Let Ctrl-C end the block, whatever Python does at that moment.

    An exception in a finalizer is printed and forgotten, KeyboardInterrupt with the others; and `zipfile`,
    which reads samples, has one. There it is raised a moment later instead.
    """
    before = signal.getsignal(signal.SIGINT)
    # Who handles it in another way, as a notebook does, goes on doing so; other threads may set no handler.
    if before is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupt(number: int, frame: FrameType | None) -> None:
    if not _is_finalizing(frame):
        raise KeyboardInterrupt
    again = threading.Timer(_LATER_SECONDS, signal.raise_signal, (number,))
    again.daemon = True
    again.start()


def _is_finalizing(frame: FrameType | None) -> bool:
    """True if an exception would be forgotten: in `__del__`, or in a callback of a weak reference."""
    while frame is not None:
        if frame.f_code.co_name == "__del__" or frame.f_globals.get("__name__") == "weakref":
            return True
        frame = frame.f_back
    return False
