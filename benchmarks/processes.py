"""Whole processes: how long they take and how much memory they reach."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

TIMEOUT_SECONDS = 900.0

# Linux starts a process off with the peak memory of the one that started it. So commands are started by this
# small program instead of by whatever grew here; its own time is not counted.
_LAUNCHER = """
import json, os, sys, time
output, *command = sys.argv[1:]
actions = [
    (os.POSIX_SPAWN_OPEN, 1, output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
    (os.POSIX_SPAWN_DUP2, 1, 2),
]
begin = time.perf_counter()
child = os.posix_spawn(command[0], command, os.environ, file_actions=actions)
_, status, usage = os.wait4(child, 0)
seconds = time.perf_counter() - begin
unit = 1 if sys.platform == "darwin" else 1024
code = os.waitstatus_to_exitcode(status)
print(json.dumps([seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * unit, code]))
"""


@dataclass(frozen=True)
class Finished:
    """A process that ended well."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    output: str


class ProcessFailed(Exception):
    """A command that was to be measured did not work."""


def run(command: Sequence[str], env: Mapping[str, str] | None = None) -> Finished:
    """Run a command; its path must be absolute. stdout and stderr come back together.

    Raises:
        ProcessFailed: it ended with an error.
    """
    with tempfile.TemporaryDirectory(prefix="thinflow-") as folder:
        output = Path(folder) / "output"
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(output), *command],
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_SECONDS,
            env={**os.environ, **(env or {})},
        )
        if done.returncode:
            raise ProcessFailed(f"{command[0]}: {done.stderr.strip().splitlines()[-1]}")
        seconds, cpu_seconds, peak_bytes, code = json.loads(done.stdout)
        text = output.read_text("utf-8", "replace")
    if code:
        lines = text.strip().splitlines() or ["no message"]
        last = next((line for line in reversed(lines) if "rror" in line), lines[-1]).strip()
        raise ProcessFailed(
            f"'{' '.join(map(os.path.basename, command[:4]))} …' ended with code {code}: {last}"
        )
    return Finished(seconds, cpu_seconds, peak_bytes, text)


def in_turns(
    commands: Mapping[str, Sequence[str]], repeats: int, *, warmup: int = 1
) -> dict[str, list[Finished]]:
    """Run commands by turns, reversing the order each time; `warmup` rounds first fill the disk cache."""
    found: dict[str, list[Finished]] = {name: [] for name in commands}
    for turn in range(warmup + repeats):
        names = list(commands)[:: 1 if turn % 2 else -1]
        for name in names:
            done = run(commands[name])
            if turn >= warmup:
                found[name].append(done)
    return found
