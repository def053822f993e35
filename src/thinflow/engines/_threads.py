"""Thread counts of libraries that take none when a model is made ready.

Intra-op threads share the work of one node; `threads=` of an engine means those. Inter-op threads run nodes
side by side that do not need one another, which only ONNX Runtime can.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from thinflow.errors import ParameterError

_inter_op: ContextVar[int] = ContextVar("thinflow_inter_op_threads", default=1)


MOST = 1024
"""More threads than that have crashed LiteRT, and no machine runs them at once."""


def checked_threads(count: int) -> int:
    """A number of threads that engines can start.

    Raises:
        ParameterError: they are too many.
    """
    if count > MOST:
        raise ParameterError(f"{count} threads are too many", hint=f"give {MOST} or fewer")
    return count


def inter_op_threads() -> int:
    """Number of nodes that an engine made ready now may run side by side; see `side_by_side`."""
    return _inter_op.get()


@contextmanager
def side_by_side(threads: int) -> Iterator[None]:
    """Engines made ready inside may run so many nodes at once."""
    token = _inter_op.set(threads)
    try:
        yield
    finally:
        _inter_op.reset(token)


class _Blas:
    """The matrix libraries of this process, whose number of threads is one for all.

    Sessions in several threads may ask for different numbers: of those inside, the one that entered last
    wins, and what there was before is put back when the last one leaves.
    """

    def __init__(self) -> None:
        from threadpoolctl import ThreadpoolController

        self._libraries: list[Any] = ThreadpoolController().select(user_api="blas").lib_controllers
        self._lock = threading.Lock()
        self._wishes: dict[object, int] = {}
        self._before: list[int] = []

    @property
    def is_controllable(self) -> bool:
        """True if there is one that heeds a number of threads. Apple's Accelerate does not."""
        return bool(self._libraries)

    @contextmanager
    def limited(self, threads: int) -> Iterator[None]:
        """Matrix products inside use so many threads."""
        # A key of its own: the same number may be wanted by several at once.
        user = object()
        with self._lock:
            # The first one in alone sees the numbers that were there before all of them.
            if not self._wishes:
                self._before = [library.get_num_threads() for library in self._libraries]
            # A dict keeps the order of entering, so the last one is who entered last.
            self._wishes[user] = threads
            self._set([threads] * len(self._libraries))
        try:
            yield
        finally:
            with self._lock:
                del self._wishes[user]
                latest = next(reversed(self._wishes.values()), None)
                self._set(self._before if latest is None else [latest] * len(self._libraries))

    def _set(self, numbers: list[int]) -> None:
        for library, number in zip(self._libraries, numbers, strict=True):
            # Told a number behind a fork, OpenBLAS starts its threads anew, and they spin for a while.
            if library.get_num_threads() != number:
                library.set_num_threads(number)


@functools.lru_cache(maxsize=1)
def blas() -> _Blas:
    """numpy's matrix library; looked for once, which takes a millisecond."""
    import numpy as np  # noqa: F401 - only what is loaded is found

    return _Blas()
