"""What else the machine did: counts of the system, and the words for a run that took long."""

from __future__ import annotations

from pathlib import Path

import pytest

from thinflow.bench.machine import Bystanders, Counts, Doing, Usage, cause_of, read_counts, usage

STAT = "cpu  1000 20 300 99999 50 4 6 700 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n"
SECOND = 10**9


def watched(*counts: Counts | None) -> Bystanders:
    left = iter(counts)
    found = Bystanders(lambda: next(left), cpus=4)
    for number in range(len(counts)):
        found.look(number * SECOND)
    return found


def test_the_first_line_of_the_systems_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thinflow.bench.machine.os.sysconf", lambda _: 100, raising=False)
    (tmp_path / "stat").write_text(STAT)
    found = read_counts(str(tmp_path / "stat"))
    assert found is not None
    assert (found.busy, found.stolen) == pytest.approx((13.3, 7.0))
    assert found.own > 0
    assert read_counts(str(tmp_path / "none")) is None
    (tmp_path / "stat").write_text("cpu 1 2\n")
    assert read_counts(str(tmp_path / "stat")) is None


def test_what_others_did_is_known_for_the_time_between_two_looks() -> None:
    found = watched(Counts(10, 0, 5), Counts(11, 0, 6), Counts(13.5, 1, 6.5))
    assert found.at(SECOND // 2) == Doing(0, 0, 4)
    assert found.at(3 * SECOND // 2) == Doing(2, 1, 4)
    assert found.at(9 * SECOND) == Doing(2, 1, 4)
    assert found.overall() == Doing(1, 0.5, 4)
    assert (
        str(found.overall()) == "other programs kept 1.0 of 4 CPUs busy and the host took 0.5 of 4 CPUs away"
    )


def test_looks_are_a_tenth_of_a_second_apart() -> None:
    found = watched(Counts(0, 0, 0))
    assert found.due_ns == SECOND // 10


def test_a_system_that_tells_nothing() -> None:
    found = watched(None, None)
    assert found.at(0) is None
    assert found.overall() is None


@pytest.mark.parametrize(
    ("doing", "preempted", "paged", "words"),
    [
        (None, 0, 0, ""),
        (Doing(0.1, 0, 2), 0, 0, "nothing else was seen to run"),
        (Doing(1.8, 0, 2), 1, 0, "other programs kept 1.8 of 2 CPUs busy, the system took the CPU away once"),
        (None, 3, 1, "1 page of memory came from the disk, the system took the CPU away 3 times"),
    ],
)
def test_why_a_run_took_long(doing: Doing | None, preempted: int, paged: int, words: str) -> None:
    assert cause_of(doing, preempted, paged) == words


def test_the_usage_of_this_process_grows() -> None:
    before = usage()
    assert sum(range(300_000)) > 0
    after = usage()
    assert after.cpu_seconds > before.cpu_seconds
    assert isinstance(after, Usage)
    assert after.preempted >= before.preempted
