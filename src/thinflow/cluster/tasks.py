"""Tasks on workers of Dask, which schedules them, moves them from lost workers, and shows them.

Workers keep results under their keys in the store, so that nothing is counted twice, whoever is killed: the
scheduler holds names, and the client one result at a time. Without a store results come back to the client.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from thinflow.cluster.connecting import dask, require_versions, versions_here
from thinflow.cluster.store import Store
from thinflow.errors import EngineUnavailable, WriteError
from thinflow.ir.brief import brief_repr

_POLL_SECONDS = 1.0
# Tasks that wait for each thread: enough to keep it busy, and few enough to keep the scheduler small.
_AHEAD = 3
# A task that takes so many times as long as others, and at least so long, is run a second time elsewhere.
_SLOW, _SLOW_SECONDS = 5.0, 20.0
# Without any worker for so long, nobody is taken to start one.
_ALONE_SECONDS = 300.0
_RESUME = "run it again with the same --store: what is done is not done again"
_ANEW = "run it again; with a --store, what is done is not done again"


class Job(Protocol):
    """What is done in each task; sent to workers once.

    Attributes:
        identity: a name that no other job has.
        name: of its tasks, on the dashboard.
    """

    @property
    def identity(self) -> str: ...
    @property
    def name(self) -> str: ...
    def run(self, argument: Any) -> bytes:
        """The result of a task, as it is stored."""

    def is_sound(self, content: bytes) -> bool:
        """Whether a stored result can be read."""

    def is_final(self, content: bytes) -> bool:
        """Whether one that can be read says something of the work itself: what failed for want of a disk, a
        server or time is tried again by the next run.
        """

    def lost(self, place: str, why: str) -> bytes:
        """The result of a task that ended several workers, or an error that says so."""


@brief_repr
@dataclass(frozen=True)
class Task:
    """A part of the work.

    Attributes:
        key: the name of its result; equal work has equal names.
        argument: what the job is given.
        place: what it is called in messages.
        is_lasting: whether the key tells all that the result depends on, so that one in the store is taken.
    """

    key: str
    argument: Any
    place: str
    is_lasting: bool = True


def run_task(job: Job, task: Task, store: Store | None, versions: Mapping[str, str]) -> bytes:
    """The result of a task on a worker; nothing of it if it is in the store now.

    Args:
        store: that the worker reaches, too; None: the result is sent back.
        versions: of who asks.

    Raises:
        EngineUnavailable: the worker has other versions.
    """
    require_versions(versions)
    # A twin, or the same task on a worker that was taken for lost, may have been faster.
    if store is not None and task.is_lasting:
        known = _stored(store, task.key, job)
        if known is not None and job.is_final(known):
            return b""
    # From here to the end a kill loses this task alone, and a result is whole or not there.
    content = job.run(task.argument)
    if store is None:
        return content
    store.put(task.key, content)
    return b""


def _stored(store: Store, key: str, job: Job) -> bytes | None:
    content = store.get(key)
    return content if content is not None and job.is_sound(content) else None


def _itself(item: Any) -> Any:
    return item


@dataclass
class _Handed:
    task: Task
    future: Any
    since: float
    twin: Any = None

    @property
    def futures(self) -> list[Any]:
        return [self.future] if self.twin is None else [self.future, self.twin]


@dataclass
class TaskRun:
    """Hands out tasks, few at a time, and takes results as they come.

    Attributes:
        client: of Dask.
        job: what is done.
        store: of results; one that is not lasting is of this process alone.
    """

    client: Any
    job: Job
    store: Store
    _seconds: list[float] = field(default_factory=list)
    _looked: float = 0.0
    _known_threads: int = 0

    def results(self, tasks: Iterable[Task]) -> Iterator[tuple[int, bytes]]:
        """Number and result of each of these tasks, in the order in which they are done.

        Raises:
            EngineUnavailable: the scheduler is lost, or all workers are.
            ThinflowError: as a worker raised it.
        """
        queue, handed = enumerate(tasks), dict[int, _Handed]()
        is_empty, seen = False, time.monotonic()
        resume = _RESUME if self.store.is_lasting else _ANEW
        try:
            shared = self._sent()
            while True:
                # Asked again each time: workers come and go.
                threads = self._threads()
                if threads:
                    seen = time.monotonic()
                elif time.monotonic() - seen > _ALONE_SECONDS:
                    raise EngineUnavailable("all workers are lost", hint=f"start others, and {resume}")
                room = _AHEAD * max(1, threads) - len(handed)
                while room > 0 and not is_empty:
                    number, task = next(queue, (None, None))
                    is_empty = number is None or task is None
                    if number is not None and task is not None:
                        handed[number] = _Handed(task, self._submit(task, shared), time.monotonic())
                        room -= 1
                if not handed:
                    return
                for number in self._done(handed):
                    yield number, self._result(handed.pop(number))
                if is_empty:
                    self._help(handed, shared)
        except (dask().CancelledError, OSError) as e:
            raise EngineUnavailable(f"the scheduler is lost: {e or type(e).__name__}", hint=resume) from e
        # Otherwise the workers would go on with tasks that nobody waits for.
        finally:
            self.client.cancel([future for one in handed.values() for future in one.futures])

    def _threads(self) -> int:
        """Of all workers, as they were less than a second ago: they come and go, and each look is a call."""
        now = time.monotonic()
        if now - self._looked >= _POLL_SECONDS or not self._known_threads:
            self._looked, self._known_threads = now, sum(self.client.nthreads().values())
        return self._known_threads

    def _sent(self) -> Any:
        """The job, as a task: a worker that takes over makes it anew."""
        with warnings.catch_warnings():
            # Models are large, and have to be sent.
            warnings.simplefilter("ignore", UserWarning)
            key = f"thinflow-{self.job.identity[:16]}-{time.time_ns()}"
            return self.client.submit(_itself, self.job, key=key)

    def _submit(self, task: Task, shared: Any, again: str = "") -> Any:
        # A folder of this process alone is none that a worker could write to.
        store = self.store if self.store.is_lasting else None
        with warnings.catch_warnings():
            # Samples from Python are in the task itself.
            warnings.simplefilter("ignore", UserWarning)
            key = f"{self.job.name}-{task.key}-{id(self)}{again}"
            return self.client.submit(run_task, shared, task, store, versions_here(), key=key)

    def _done(self, handed: Mapping[int, _Handed]) -> list[int]:
        """Tasks that have ended, after waiting for one."""
        distributed = dask()
        futures = [future for one in handed.values() for future in one.futures]
        try:
            # It asks for the current client, which this one is only here.
            with self.client.as_current():
                distributed.wait(futures, timeout=_POLL_SECONDS, return_when="FIRST_COMPLETED")
        except (TimeoutError, distributed.TimeoutError):
            if self.client.status in ("closed", "closing"):
                raise OSError("the connection is closed") from None
            return []
        return [n for n, one in handed.items() if any(f.done() for f in one.futures)]

    def _result(self, one: _Handed) -> bytes:
        future = next(f for f in one.futures if f.done())
        # From when it was handed out, its wait included; the tasks of a run wait alike.
        self._seconds.append(time.monotonic() - one.since)
        try:
            content: bytes = future.result()
        # Dask gives a task up after three workers died with it: whatever it is, it must not take the others.
        except dask().KilledWorker as e:
            content = self.job.lost(one.task.place, str(e))
            self.store.put(one.task.key, content)
        # Each call asks the scheduler, also for nothing, while its workers wait for this process.
        if others := [other for other in one.futures if other is not future]:
            self.client.cancel(others)
        if content:
            if not self.store.is_lasting:
                self.store.put(one.task.key, content)
            return content
        return self.kept(one.task.key)

    def kept(self, key: str) -> bytes:
        """A result that is in the store by now.

        Raises:
            WriteError: it is not.
        """
        content = _stored(self.store, key, self.job)
        if content is None:
            raise WriteError(
                "a result that a worker wrote is not there",
                self.store.path,
                hint="name a folder that all machines share, or a URL",
            )
        return content

    def _help(self, handed: Mapping[int, _Handed], shared: Any) -> None:
        """Run a second time what takes far longer than others, where a thread has nothing else to do."""
        idle = self._threads() - sum(len(one.futures) for one in handed.values())
        if idle < 1 or not self._seconds:
            return
        # By the median: one slow task must not raise the limit for itself.
        limit = max(_SLOW_SECONDS, _SLOW * statistics.median(self._seconds))
        slow = [o for o in handed.values() if o.twin is None and time.monotonic() - o.since > limit]
        for one in slow[:idle]:
            one.twin = self._submit(one.task, shared, "-again")
