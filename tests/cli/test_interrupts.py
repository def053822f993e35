"""Ctrl-C ends a command, also where Python forgets exceptions."""

from __future__ import annotations

import signal
import threading
import time
import weakref
from collections.abc import Callable

import pytest

from thinflow.cli._interrupts import heard


class Watched:
    """Ctrl-C comes when it goes."""


class Closing:
    """Ctrl-C comes while it is finalized."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


def _in_a_finalizer() -> None:
    Closing()


def _in_a_callback() -> None:
    watched = Watched()
    weakref.finalize(watched, signal.raise_signal, signal.SIGINT)
    del watched


def _in_the_midst() -> None:
    signal.raise_signal(signal.SIGINT)


def _then_work(interrupt: Callable[[], None]) -> None:
    interrupt()
    for _ in range(500):
        time.sleep(0.01)


@pytest.mark.parametrize("interrupt", [_in_a_finalizer, _in_a_callback, _in_the_midst])
def test_it_is_heard(interrupt: Callable[[], None]) -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), heard():
        _then_work(interrupt)
    assert signal.getsignal(signal.SIGINT) is before


def test_threads_and_other_handlers_are_let_alone() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with heard():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    seen = []

    def inside() -> None:
        with heard():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert seen == [before]
