"""Work in processes that may crash, hang or take all memory without harm to the others.

Each worker is a process of its own, which has imported what is needed once and, where that is possible, forks
for each task: a task starts in milliseconds and leaves nothing behind. What it may take there is limited, in
time and in memory. Where processes cannot fork (outside of Linux), a worker does its tasks itself and is
replaced when it dies; only the time is limited then.
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from queue import SimpleQueue
from types import TracebackType
from typing import IO, Any, BinaryIO

from thinflow.engines._child import can_fork, in_child, python_environment
from thinflow.errors import EngineCrashed, EngineUnavailable

_LENGTH = struct.Struct("<Q")
_GRACE_SECONDS = 10.0
"""Given to a worker beyond a task's own limit, which it watches itself, before it is taken to hang."""


@dataclass(frozen=True)
class TaskLimits:
    """What one task may take.

    Attributes:
        seconds: from its start to its answer.
        memory_bytes: that it may have allocated at once; files that are mapped do not count.
    """

    seconds: float = 60.0
    memory_bytes: int = 4 << 30


@dataclass(frozen=True)
class Failure:
    """A task that gave no answer.

    Attributes:
        kind: "crash", "time" or "memory".
        reason: one sentence.
    """

    kind: str
    reason: str


Task = tuple[Callable[..., Any], tuple[Any, ...]]


class Workers:
    """Processes that do tasks; to be used in a `with`.

    Args:
        count: of processes; default: one for each processor.
        limits: of each task.
        prepare: called once in each process, to import what tasks need: forks then have it already.
        first: called with a task's arguments in the process itself, and what it gives is the result unless
            that is None. For what is done sooner than forked, and harmless: only time is limited there.
    """

    def __init__(
        self,
        count: int | None = None,
        limits: TaskLimits = TaskLimits(),
        prepare: Callable[[], object] = int,
        first: Callable[..., Any] | None = None,
    ):
        self.count = count or os.cpu_count() or 1
        self.limits = limits
        self._idle: SimpleQueue[_Worker] = SimpleQueue()
        self._all = [_Worker((prepare, first)) for _ in range(self.count)]
        for worker in self._all:
            self._idle.put(worker)
        self._threads = ThreadPoolExecutor(self.count)

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the processes."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in self._all:
            worker.stop()

    def results(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Any]]:
        """Number of a task, and its result or `Failure`, as they are done.

        Args:
            tasks: functions of modules, and arguments that can be pickled, as can their results.

        What a function raises is a failure of its task, too.

        Raises:
            EngineUnavailable: `prepare` fails, by which no task could be done.
        """
        running: dict[Future[Any], int] = {
            self._threads.submit(self._do, task): number for number, task in enumerate(tasks)
        }
        while running:
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield running.pop(future), future.result()

    def _do(self, task: Task) -> Any:
        worker = self._idle.get()
        try:
            return worker.do(task, self.limits)
        finally:
            self._idle.put(worker)


class _Worker:
    """The process of one worker, started when it is needed."""

    def __init__(self, begin: tuple[Callable[[], object], Callable[..., Any] | None]) -> None:
        self._begin = begin
        self._process: subprocess.Popen[bytes] | None = None

    def do(self, task: Task, limits: TaskLimits) -> Any:
        """The result of a task, or its failure."""
        watch = _Watch(limits.seconds + _GRACE_SECONDS)
        try:
            # A process is started for it, perhaps; what that takes is not the task's.
            process = self._started()
            with watch.over(process):
                _send(process.stdin, pickle.dumps((task, limits)))
                answer = _received(process.stdout)
        except (OSError, EOFError):
            self.stop()
            return (
                _slow(limits) if watch.has_killed else Failure("crash", "the process that looked at it ended")
            )
        return pickle.loads(answer)  # written by this very program

    def _started(self) -> subprocess.Popen[bytes]:
        """The process, ready for a task.

        Raises:
            EngineUnavailable: it ended with an error of Python before it was.
            OSError, EOFError: it was killed before it was.
        """
        if self._process is not None and self._process.poll() is not None:
            self.stop()
        if self._process is None:
            with tempfile.TemporaryFile() as told:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", "from thinflow.survey.workers import serve; serve()"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=told,
                    env=python_environment(),
                    # Ctrl-C is for the one who asked: who ends it all in order. And what it forks ends with
                    # it.
                    start_new_session=True,
                )
                self._begun(self._process, told)
        return self._process

    def _begun(self, process: subprocess.Popen[bytes], told: IO[bytes]) -> None:
        """Wait until a process is ready.

        Args:
            told: what it has to say until then.
        """
        try:
            _send(process.stdin, pickle.dumps(self._begin))
            _received(process.stdout)  # nothing but the word that it is ready
        except (OSError, EOFError):
            # Killed, it may be luckier with the next task; an error of Python is one for all of them.
            if process.wait() < 0:
                raise
            told.seek(0)
            lines = told.read().decode("utf-8", "replace").strip().splitlines()
            self.stop()
            raise EngineUnavailable(
                f"the processes that look at files cannot start: {lines[-1] if lines else 'no message'}",
                hint="is the installation whole? pip install --force-reinstall thinflow",
            ) from None

    def stop(self) -> None:
        """End the process, and what it has forked."""
        process, self._process = self._process, None
        if process is None:
            return
        _kill(process)
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()


class _Watch:
    """Kills a process, and all that it has forked, after some time.

    Attributes:
        has_killed: whether it did.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.has_killed = False

    @contextmanager
    def over(self, process: subprocess.Popen[bytes]) -> Iterator[None]:
        """Watch it in a `with`."""

        def kill() -> None:
            self.has_killed = True
            _kill(process)

        timer = threading.Timer(self._seconds, kill)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a process, and what it has forked, which would hold its pipes open and be waited for for ever."""
    with suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _send(stream: Any, content: bytes) -> None:
    stream.write(_LENGTH.pack(len(content)) + content)
    stream.flush()


def _received(stream: Any) -> bytes:
    """The next message.

    Raises:
        EOFError: the other side has ended.
    """
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    content: bytes = stream.read(_LENGTH.unpack(head)[0])
    return content


# --- inside of a worker -------------------------------------------------------------------------------------


def serve() -> None:
    """Body of a worker: answers go to what was stdout."""
    # What libraries print is no answer, whether from Python or from native code.
    with open(os.dup(1), "wb") as answers:
        os.dup2(2, 1)
        _serve(sys.stdin.buffer, answers)


def _serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Do tasks until nobody asks any more."""
    prepare, first = pickle.loads(_received(requests))
    prepare()
    # What native code prints of a thousand models is for nobody.
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    _send(answers, b"")
    while True:
        try:
            task, limits = pickle.loads(_received(requests))
        except EOFError:
            return
        found = None
        if first is not None:
            # What goes wrong goes wrong again in the task itself, which tells.
            with suppress(Exception):
                found = first(*task[1])
        _send(answers, pickle.dumps(_limited(task, limits) if found is None else found))


def _limited(task: Task, limits: TaskLimits) -> Any:
    function, arguments = task
    if not can_fork():
        return _done(function, arguments, limits)
    try:
        return in_child(
            lambda: _done(function, arguments, limits), "", "working", timeout_seconds=limits.seconds
        )
    except EngineCrashed as error:
        if error.is_slow:
            return _slow(limits)
        return Failure("crash", f"native code crashed on it ({error.how})")


def _done(function: Callable[..., Any], arguments: tuple[Any, ...], limits: TaskLimits) -> Any:
    try:
        if can_fork():
            import resource

            # Not the address space: a mapped file of 10 GB takes no memory until it is read.
            resource.setrlimit(resource.RLIMIT_DATA, (limits.memory_bytes, limits.memory_bytes))
        return function(*arguments)
    except MemoryError:
        return Failure("memory", f"it needs more than {limits.memory_bytes / (1 << 30):.3g} GiB")
    except RecursionError:
        return Failure("crash", "it is nested too deeply")
    # One file that nobody thought of shall not end the work on a thousand others.
    except Exception as error:
        return Failure("crash", f"an error of the program itself: {type(error).__name__}: {error}")


def _slow(limits: TaskLimits) -> Failure:
    return Failure("time", f"not done in {limits.seconds:g} s")
