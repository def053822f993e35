"""A folder of results has one writer: the lock ends with its process, also where children live on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from thinflow.errors import WriteError
from thinflow.optimize.job_inputs import sole_writer

pytest.importorskip("fcntl", reason="Windows has no lock of a folder")

# Its child lives on when it is killed, as those do that try a model; it tells who it is, when it has let go.
WRITER = """
import os, sys, time
from pathlib import Path
from thinflow.optimize.job_inputs import sole_writer

with sole_writer(Path(sys.argv[1])):
    if not os.fork():
        print(os.getpid(), flush=True)
    time.sleep(60)
"""


def test_a_killed_writer_leaves_the_folder_to_the_next(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    with writer.stdout as said:
        child = int(said.readline())
        try:
            with pytest.raises(WriteError, match="another run is writing"), sole_writer(folder):
                pass
            writer.kill()
            writer.wait()
            os.kill(child, 0)
            with sole_writer(folder):
                (folder / "report.md").write_text("whole")
        finally:
            os.kill(child, signal.SIGKILL)
            writer.kill()
            writer.wait()
    assert (folder / "report.md").read_text() == "whole"


def test_a_writer_that_fails_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), sole_writer(tmp_path / "a" / "b"):
        raise RuntimeError
    assert not (tmp_path / "a").exists()


def test_two_threads_are_two_writers(tmp_path: Path) -> None:
    refused: list[WriteError] = []

    def write() -> None:
        try:
            with sole_writer(tmp_path):
                pass
        except WriteError as error:
            refused.append(error)

    with sole_writer(tmp_path):
        second = threading.Thread(target=write)
        second.start()
        second.join()
    assert len(refused) == 1
