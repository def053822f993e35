"""A scheduler and workers of Dask in processes of their own, as on other machines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import thinflow

SOURCE = str(Path(thinflow.__file__).parents[1])


@dataclass
class Machines:
    """They run until the end of the `with`.

    Attributes:
        address: of the scheduler.
        scheduler, workers: their processes.
    """

    address: str
    scheduler: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]]

    def pause_scheduler(self, seconds: float) -> None:
        """Stop it for a while, as a busy machine does."""
        self.scheduler.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.scheduler.send_signal(signal.SIGCONT)


def process(*words: str, **options: object) -> subprocess.Popen[bytes]:
    """A module of Python run with this very package."""
    path = os.pathsep.join(filter(None, [SOURCE, os.environ.get("PYTHONPATH")]))
    env = os.environ | {"PYTHONPATH": path, "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "60s"}
    return subprocess.Popen([sys.executable, "-m", *words], env=env, **options)  # type: ignore[call-overload,no-any-return]


@contextmanager
def machines(folder: Path, count: int = 2, preloads: Mapping[int, str] = {}) -> Iterator[Machines]:
    """A scheduler and so many workers of one thread each.

    Args:
        preloads: number of a worker -> Python that it runs before anything else.
    """
    told, log = folder / "scheduler.json", (folder / "dask.log").open("wb")
    quiet = {"stdout": log, "stderr": subprocess.STDOUT}
    common = ("--no-dashboard", "--scheduler-file", str(told))
    scheduler = process(
        "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", *common, **quiet
    )
    found = Machines("", scheduler, [])
    try:
        wait_for(told.exists)
        wait_for(lambda: bool(told.read_text().strip().endswith("}")))
        found.address = json.loads(told.read_text())["address"]
        for number in range(count):
            place = folder / f"worker-{number}"
            first = folder / f"first-{number}.py"
            first.write_text(preloads.get(number, ""))
            found.workers.append(
                process(
                    *("distributed.cli.dask_worker", found.address, "--nthreads", "1", "--no-nanny"),
                    *("--no-dashboard", "--local-directory", str(place), "--preload", str(first)),
                    **quiet,
                )
            )
        yield found
    finally:
        for one in (*found.workers, scheduler):
            one.kill()
            one.wait()
        log.close()


def wait_for(is_true: Callable[[], bool], seconds: float = 180.0) -> None:
    """Until something is true, but not for ever."""
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)
