"""Work for native engines in a child process, so that a crash or a hang there takes nothing with it.

Engines are large native programs, and a model is their input: one that is damaged, hostile or merely unlucky
can end the process (a segmentation fault is no exception) or keep it busy for ever. What has to survive that
lets a child try first.

A child is a fork where that is safe, which costs some milliseconds and inherits all that is loaded: on Linux,
in a process without Python threads. Elsewhere it is `python -m thinflow.engines._child`, a new process that
gets a model and arrays, and about half a second to start.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import io
import logging
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from thinflow.errors import EngineCrashed, ParameterError

if TYPE_CHECKING:
    from thinflow.typing import Array

T = TypeVar("T")
logger = logging.getLogger(__name__)

TIMEOUT_SECONDS = 300.0
"""A child that takes longer is taken to hang."""
_CHUNK_BYTES = 1 << 20
_LIBRARIES = {"litert": "ai_edge_litert.interpreter"}
"""Engine -> what it imports, which forks inherit; of engines that start no thread when they are imported."""


def run_file(
    content: bytes | str,
    engine: str,
    feeds: Sequence[Sequence[Array]],
    *,
    threads: int = 1,
    timeout_seconds: float = TIMEOUT_SECONDS,
    name: str = "",
    careful: bool = True,
) -> list[list[Array]]:
    """All outputs of a .tflite or .onnx model for some inputs, computed by its engine in a child.

    Args:
        content: the file's bytes, or its path.
        engine: that runs such files.
        feeds: the inputs by position, for each run.
        threads: that the engine may use.
        timeout_seconds: for opening and all the runs.
        name: what to call the model in messages; default: the path.
        careful: whether ONNX Runtime is asked for kernels that cannot overflow; False: as applications open
            a file.

    Raises:
        EngineCrashed: the engine crashed or hung.
        EngineUnavailable, FeedError: it refused the model or the inputs.
    """
    name = name or (content if isinstance(content, str) else "the converted model")
    doing = f"running {name}"
    if can_fork() and survives_fork(engine):
        _load_library(engine)
        return in_child(
            lambda: _runs(content, engine, feeds, threads, careful),
            engine,
            doing,
            timeout_seconds=timeout_seconds,
        )
    # Functions are pickled by name: the child, where this module is `__main__`, imports it by its own once
    # more.
    request = pickle.dumps((_runs, (content, engine, [list(arrays) for arrays in feeds], threads, careful)))
    answer = _spawned(request, engine, doing, timeout_seconds)
    result: list[list[Array]] = _opened(answer)
    return result


def _load_library(engine: str) -> None:
    """Import what forks would each import for themselves; one that is missing they tell of."""
    if engine in _LIBRARIES:
        with suppress(ImportError):
            importlib.import_module(_LIBRARIES[engine])


def require_opening(path: str, engine: str) -> None:
    """Open a .tflite or .onnx file in a child, where inputs to run it with are not at hand.

    Raises:
        EngineCrashed, EngineUnavailable: the engine did not survive it, or refused it.
    """
    run_file(path, engine, [])


def call(
    function: Callable[..., T],
    arguments: Sequence[Any],
    engine: str,
    doing: str,
    *,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> T:
    """Result of a function called in a child: a fork where that is possible, else a new process.

    Args:
        function: of a module, so that it can be pickled, as can its arguments, result and errors.
        arguments: what it gets.
        engine, doing, timeout_seconds: as for `in_child`.

    Raises:
        EngineCrashed: the child ended without an answer, or was not done in time.
        Exception: what the function raised.
    """
    if can_fork() and survives_fork(engine):
        return in_child(lambda: function(*arguments), engine, doing, timeout_seconds=timeout_seconds)
    request = pickle.dumps((function, tuple(arguments)))
    result: T = _opened(_spawned(request, engine, doing, timeout_seconds))
    return result


def checked_timeout(seconds: float | None) -> float:
    """The seconds given, or the default for None.

    Raises:
        ParameterError: they are not positive.
    """
    if seconds is None:
        return TIMEOUT_SECONDS
    if not seconds > 0:
        raise ParameterError(f"a timeout of {seconds} seconds is not possible", hint="give more than 0")
    return seconds


def can_fork() -> bool:
    """True if a fork of this process can work: others may hold locks that nobody would release in it."""
    # Only Python's own threads can be counted. Those of engines are idle between runs, and the child does not
    # use what they work for. On macOS, system libraries may not be used behind a fork.
    return sys.platform == "linux" and hasattr(os, "fork") and threading.active_count() == 1


def survives_fork(engine: str) -> bool:
    """False if an engine that this process has used would wait in a fork for threads that are not there."""
    if engine != "openvino":
        return True
    opened = sys.modules.get("thinflow.lower.openvino.runtime")
    return opened is None or not opened.core.cache_info().currsize


def python_environment() -> dict[str, str]:
    """That of this process, in which another Python imports this very package, wherever it came from."""
    source = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path}


def in_child(
    work: Callable[[], T], engine: str, doing: str, *, timeout_seconds: float = TIMEOUT_SECONDS
) -> T:
    """Result of `work`, from a fork of this process; only where `can_fork`.

    Args:
        work: what it returns or raises must be possible to pickle.
        engine: the engine it uses, for messages.
        doing: what it does, for messages.
        timeout_seconds: how long it may take.

    Raises:
        EngineCrashed: the child ended without an answer, or was not done in time.
        Exception: what `work` raised.
    """
    reading, writing = os.pipe()
    with warnings.catch_warnings(), _interrupts_later():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads in the process; see `can_fork`
        child = os.fork()
    if child == 0:
        _work_and_exit(work, reading, writing)
    # The pipe ends for the reader only when nobody has it open for writing, this process included.
    os.close(writing)
    in_time = False
    try:
        answer, in_time = _read_all(reading, timeout_seconds)
    finally:
        os.close(reading)
        code = _ended(child, kill=not in_time)
    if not in_time:
        raise _hung(engine, doing, timeout_seconds)
    if code != 0:
        raise _crashed(engine, doing, code)
    result: T = _opened(answer)
    return result


@contextmanager
def _interrupts_later() -> Iterator[None]:
    """Ctrl-C waits until the block is over: in what Python calls around a fork it would be lost."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work_and_exit(work: Callable[[], Any], reading: int, writing: int) -> None:
    """Body of the child; it never returns, and runs nobody's clean-up."""
    # Until all is written: whatever goes wrong on the way, the parent must not take a part for the whole.
    code = 1
    try:
        faulthandler.disable()  # the parent tells
        gc.disable()  # what the parent's engines hold belongs to threads that are not here
        os.close(reading)
        with open(writing, "wb") as pipe:
            pipe.write(_closed(work))
        code = 0
    finally:
        os._exit(code)


def _closed(work: Callable[[], Any]) -> bytes:
    """The result of some work, or the error that ended it."""
    try:
        answer = (True, work())
    except Exception as error:
        answer = (False, error)
    try:
        return pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # nobody can pickle everything that a library raises
        return pickle.dumps((False, RuntimeError(f"{answer[1]!r} ({error})")))


def _opened(answer: bytes) -> Any:
    is_result, content = pickle.loads(answer)  # written by this very program
    if not is_result:
        raise content
    return content


def _read_all(pipe: int, timeout_seconds: float) -> tuple[bytes, bool]:
    """Everything read until the other side closes the pipe, and whether it did so in time."""
    content = io.BytesIO()
    end = time.monotonic() + timeout_seconds
    while (left := end - time.monotonic()) > 0:
        # A model may give more than a pipe holds, so that reading must go on while the child writes.
        if not select.select([pipe], [], [], left)[0]:
            break
        chunk = os.read(pipe, _CHUNK_BYTES)
        if not chunk:
            return content.getvalue(), True
        content.write(chunk)
    return b"", False


def _ended(child: int, *, kill: bool) -> int:
    """The exit code of a child; a negative one is a signal. One that has closed its pipe is about to end."""
    if kill:
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _crashed(engine: str, doing: str, code: int) -> EngineCrashed:
    how = f"signal {-code}, {_signal_name(-code)}" if code < 0 else f"exit code {code}"
    # Not sent by us: a child that was too slow is told of before.
    if -code == getattr(signal, "SIGKILL", None):
        return EngineCrashed(
            f"the engine '{engine}' was killed ({how}) while {doing}",
            hint="the system kills what takes too much memory; try a smaller input, or another machine",
            how=how,
        )
    return EngineCrashed(
        f"the engine '{engine}' crashed ({how}) while {doing}",
        hint="the model makes it fail, nothing else is lost; engine='reference' runs the graph without it",
        how=how,
    )


def _hung(engine: str, doing: str, timeout_seconds: float) -> EngineCrashed:
    return EngineCrashed(
        f"the engine '{engine}' gave no answer in {timeout_seconds:g} s while {doing}",
        hint="does the model have a loop that never ends? If it is just slow, give it more time: --timeout S",
        is_slow=True,
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


# --- where nothing can be forked --------------------------------------------------------------------------


def _spawned(request: bytes, engine: str, doing: str, timeout_seconds: float) -> bytes:
    """The answer of a new process."""
    try:
        # Request and answer go through pipes: nothing of a model or its inputs is left on a disk.
        done = subprocess.run(
            [sys.executable, "-m", "thinflow.engines._child"],
            input=request,
            capture_output=True,
            check=False,
            timeout=timeout_seconds,
            env=python_environment(),
        )
    except subprocess.TimeoutExpired as error:
        raise _hung(engine, doing, timeout_seconds) from error
    if done.returncode:
        logger.info("the child said: %s", done.stderr.decode("utf-8", "replace")[-2000:])
        raise _crashed(engine, doing, done.returncode)
    return done.stdout


def _runs(
    content: bytes | str, engine: str, feeds: Sequence[Sequence[Array]], threads: int, careful: bool
) -> list[list[Array]]:
    """Open a file and run it; what the child does."""
    from thinflow.engines._files import open_content

    model = open_content(content, engine, threads, careful=careful)
    return [model.run(arrays) for arrays in feeds]


@contextmanager
def _stdout_for_answers() -> Iterator[io.BufferedWriter]:
    """A stream for the answer; what an engine prints goes to stderr."""
    with open(os.dup(1), "wb") as answers:
        # Native code prints to file descriptor 1 whatever Python makes of sys.stdout.
        os.dup2(2, 1)
        yield answers


if __name__ == "__main__":
    with _stdout_for_answers() as pipe:
        wanted, given = pickle.load(sys.stdin.buffer)
        pipe.write(_closed(lambda: wanted(*given)))
