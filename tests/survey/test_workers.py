"""Tasks that crash, hang, take all memory, or fail: each is told, and the others get done."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from thinflow.errors import EngineUnavailable
from thinflow.survey import workers
from thinflow.survey.workers import Failure, TaskLimits, Workers

LIMITS = TaskLimits(seconds=1.0, memory_bytes=1 << 29)
pytestmark = pytest.mark.slow


def double(number: int) -> int:
    return 2 * number


def crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def hang() -> None:
    time.sleep(1000)


def grow() -> int:
    return len(bytearray(1 << 30))


def nest(depth: int = 0) -> int:
    return nest(depth + 1)


def fail() -> None:
    raise KeyError("nobody thought of this")


def noise() -> str:
    os.write(1, b"native code prints")
    print("so does Python")
    return "heard"


def test_each_task_has_its_answer() -> None:
    tasks = [(double, (number,)) for number in range(20)]
    with Workers(2, LIMITS) as workers:
        assert dict(workers.results(tasks)) == {number: 2 * number for number in range(20)}


def write_late(path: str, seconds: float) -> None:
    time.sleep(seconds)
    Path(path).write_text("still there")


def sleep_first() -> None:
    time.sleep(3.0)


def test_a_task_that_outlives_its_worker_is_killed_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker's own watch is taken away; a fork that is left over would hold the pipe that is read."""
    late = tmp_path / "late"
    with Workers(1, LIMITS) as crew:
        with monkeypatch.context() as patched:
            patched.setattr(workers, "_GRACE_SECONDS", -0.7)
            found = dict(crew.results([(write_late, (str(late), 30.0))]))
        assert found == {0: Failure("time", "not done in 1 s")}
        assert dict(crew.results([(double, (2,))])) == {0: 4}
    # A fork that nobody killed would have been waited for until it wrote.
    assert not late.exists()


def test_getting_ready_is_not_the_first_tasks_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_GRACE_SECONDS", 1.0)
    with Workers(1, LIMITS, prepare=sleep_first) as crew:
        assert dict(crew.results([(double, (2,))])) == {0: 4}


def import_what_is_missing() -> None:
    import nobody_has_this  # type: ignore[import-not-found]  # noqa: F401


def test_processes_that_cannot_start_are_told_once_and_why() -> None:
    with (
        Workers(2, LIMITS, prepare=import_what_is_missing) as crew,
        pytest.raises(EngineUnavailable, match=r"start: ModuleNotFoundError: .*nobody_has_this") as caught,
    ):
        list(crew.results([(double, (number,)) for number in range(5)]))
    assert "pip install" in caught.value.hint


def test_a_process_that_is_killed_while_it_starts_ends_no_other_task() -> None:
    with Workers(1, LIMITS, prepare=crash) as crew:
        found = dict(crew.results([(double, (1,)), (double, (2,))]))
    assert set(found.values()) == {Failure("crash", "the process that looked at it ended")}


def known(number: int) -> int | None:
    """Some answers, none for 3, and an error for 4."""
    return None if number == 3 else {1: 10, 2: 20}[number]


def test_what_is_known_in_the_worker_itself_is_no_task() -> None:
    tasks = [(double, (number,)) for number in (1, 2, 3, 4)]
    with Workers(1, LIMITS, first=known) as crew:
        assert dict(crew.results(tasks)) == {0: 10, 1: 20, 2: 6, 3: 8}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of a forked child")
def test_failures_are_told_one_by_one() -> None:
    with Workers(2, LIMITS) as workers:
        tasks = [(crash, ()), (hang, ()), (grow, ()), (nest, ()), (fail, ()), (noise, ()), (double, (4,))]
        found = dict(workers.results(tasks))
    assert found[0] == Failure("crash", "native code crashed on it (signal 11, SIGSEGV)")
    assert found[1] == Failure("time", "not done in 1 s")
    assert found[2] == Failure("memory", "it needs more than 0.5 GiB")
    assert found[3] == Failure("crash", "it is nested too deeply")
    assert found[4].reason == "an error of the program itself: KeyError: 'nobody thought of this'"
    assert (found[5], found[6]) == ("heard", 8)


def test_a_lost_process_is_replaced() -> None:
    with Workers(1, LIMITS) as workers:
        assert dict(workers.results([(double, (1,))])) == {0: 2}
        process = workers._all[0]._process
        assert process is not None
        process.kill()
        process.wait()
        assert dict(workers.results([(double, (2,))])) == {0: 4}
    assert workers._all[0]._process is None
