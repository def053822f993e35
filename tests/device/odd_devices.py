"""This machine as a device that misbehaves, or that is watched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from thinflow.device.base import Connection, DeviceLost, Job, Settings
from thinflow.device.finding import find_device
from thinflow.typing import Array, Progress


class OddConnection:
    """The connection of another device, but for its answers.

    Args:
        alter: what becomes of each answer.
        lost_after: so many answers; None for never.
    """

    def __init__(
        self, inner: Connection, alter: Callable[[Array], Array], lost_after: int | None, keeps_state: bool
    ) -> None:
        self._inner, self._alter, self._lost_after = inner, alter, lost_after
        self.keeps_state = keeps_state

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def answers(self, job: Job, feeds: Iterable[Sequence[Array]]) -> Iterator[list[Array]]:
        for answer in self._inner.answers(job, feeds):
            if self._lost_after is not None:
                self._lost_after -= 1
                if self._lost_after < 0:
                    raise DeviceLost("the connection to it ended", "board", "look after the device")
            yield [self._alter(array) for array in answer]


class OddDevice:
    """This machine under another name; see `OddConnection`."""

    def __init__(
        self,
        alter: Callable[[Array], Array] = lambda array: array,
        lost_after: int | None = None,
        keeps_state: bool = True,
    ) -> None:
        self.name, self.settings = "board", Settings()
        self._with = alter, lost_after, keeps_state

    @contextmanager
    def connect(self, progress: Progress | None = None) -> Iterator[Any]:
        with find_device("local").connect(progress) as inner:
            yield OddConnection(inner, *self._with)
