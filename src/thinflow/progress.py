"""How far long work is, told to whoever watches the context that it runs in.

Functions that work for minutes take a `progress` and count their steps. What lies below them, such as
reading a graph, is used by everything, mostly quick, and slow for the largest models only: it counts here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from thinflow.typing import Progress

T = TypeVar("T")


class _Watch:
    def __init__(self, tell: Progress) -> None:
        self.tell = tell
        self.is_busy = False


# Of the context: what other threads do is not a part of this work.
_WATCH: ContextVar[_Watch | None] = ContextVar("watch", default=None)


@contextmanager
def watched(tell: Progress | None) -> Iterator[None]:
    """Have somebody told what is `counted` within; None for nobody."""
    token = _WATCH.set(None if tell is None else _Watch(tell))
    try:
        yield
    finally:
        _WATCH.reset(token)


def counted(items: Iterable[T], total: int, label: str) -> Iterable[T]:
    """The items; whoever watches is told how many are done. What is counted within a step is not told.

    Args:
        total: how many there are.
        label: what is done to them.
    """
    watch = _WATCH.get()
    return items if watch is None or watch.is_busy else _told(items, total, label, watch)


def _told(items: Iterable[T], total: int, label: str, watch: _Watch) -> Iterator[T]:
    watch.is_busy = True
    try:
        for done, item in enumerate(items):
            if done < total:
                watch.tell(done, total, label)
            yield item
    # Also if it fails or somebody has seen enough.
    finally:
        watch.is_busy = False
        watch.tell(total, total, label)
