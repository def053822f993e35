"""Other engines for TensorFlow models: where they are installed, and a process for each, run by turns."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bench import ROOT

PYTHON = "THINFLOW_PEERS_PYTHON"
FOLDER = ROOT / ".venv-peers"
PACKAGES = ("tensorflow-cpu", "tf2onnx", "onnxruntime", "openvino")
INSTALL_SECONDS = 900.0
_SCRIPTS = ROOT / "benchmarks" / "oracle"
_STRETCH_SECONDS = 0.08
_REST_SECONDS = 0.03
_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "TF_ENABLE_ONEDNN_OPTS": "1"}


class NoPeers(Exception):
    """The other engines cannot be installed here; the message says why."""


def peers_python() -> str:
    """A Python that has TensorFlow, tf2onnx, ONNX Runtime and OpenVINO; made the first time, some 3 GB.

    Raises:
        NoPeers: it cannot be made.
    """
    given = os.environ.get(PYTHON)
    python = Path(given) if given else FOLDER / "bin" / "python"
    made = FOLDER / ".made"
    if not given and not made.exists():
        _installed(python)
        made.touch()
    look = "import tensorflow, tf2onnx, onnxruntime, openvino"
    found = subprocess.run([str(python), "-c", look], capture_output=True, text=True, check=False, env=_env())
    if found.returncode:
        raise NoPeers(f"{python}: {_last(found.stderr)}")
    return os.path.abspath(python)


def _installed(python: Path) -> None:
    """Make the environment and fill it."""
    commands = [
        [sys.executable, "-m", "venv", str(FOLDER)],
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES],
    ]
    for command in commands:
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=INSTALL_SECONDS
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NoPeers(str(error)) from error
        if done.returncode:
            raise NoPeers(_last(done.stderr))


def _last(text: str) -> str:
    return (text.strip().splitlines() or ["no message"])[-1]


def _env() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | _QUIET


def prepare(python: str, *args: object) -> list[str]:
    """Convert a model for the peers; what could not be converted, a line each."""
    command = [python, str(_SCRIPTS / "prepare_peers.py"), *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, env=_env())
    if done.returncode:
        raise RuntimeError(f"preparing {args[-2]} failed: {_last(done.stderr)}")
    return [line for line in done.stdout.splitlines() if line.startswith("failed: ")]


@dataclass(frozen=True)
class Contestant:
    """A model on an engine.

    Attributes:
        name: in the table.
        engine: litert, onnxruntime, openvino, tensorflow, or of ours "measured" or "session".
        ours: whether thinflow made the model.
    """

    name: str
    engine: str
    model: Path
    ours: bool = False


class Served:
    """A contestant in a process of its own, which waits while others run. The pipe to it is not counted."""

    def __init__(self, python: str, contestant: Contestant, feeds: Path, names: Sequence[str], threads: int):
        args = [contestant.engine, contestant.model, feeds, *names, threads]
        self._process = subprocess.Popen(
            [python, str(_SCRIPTS / "serve_peer.py"), *map(str, args)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Ours is the Python that runs this, with whatever it imports thinflow from.
            env=_env() if python != sys.executable else {**os.environ, **_QUIET},
        )
        self.told: list[str] = []

    def wait(self) -> None:
        """Until it has loaded its model.

        Raises:
            RuntimeError: it cannot.
        """
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.strip() == "ready":
                return
            self.told.append(line.strip())
        raise RuntimeError(_last(self._process.communicate()[1]))

    def run(self, count: int) -> list[float]:
        """Milliseconds of so many runs."""
        return [int(n) / 1e6 for n in self._ask(str(count)).split()]

    def profile(self) -> dict[str, float]:
        """Milliseconds by kind of operator; empty where the engine does not tell."""
        found: dict[str, float] = json.loads(self._ask("profile"))
        return found

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(line, file=self._process.stdin, flush=True)
        return self._process.stdout.readline()

    def close(self) -> None:
        try:
            self._process.communicate(timeout=20)
        except (subprocess.TimeoutExpired, ValueError, BrokenPipeError):
            self._process.kill()


def by_turns(contestants: Mapping[str, Served], rounds: int, *, seed: int = 0) -> dict[str, list[float]]:
    """Milliseconds of each, one figure a round: the fastest of a short stretch, after a run that warms up.

    The fastest, since what else goes on in the machine can only add. Between two stretches lies a rest: the
    threads of the last one spin for a while.
    """
    counts = {name: _stretch(served) for name, served in contestants.items()}
    found: dict[str, list[float]] = {name: [] for name in contestants}
    shuffle = random.Random(seed)
    order = list(contestants)
    for _ in range(rounds):
        shuffle.shuffle(order)
        for name in order:
            time.sleep(_REST_SECONDS)
            found[name].append(min(contestants[name].run(1 + counts[name])[1:]))
    return found


def _stretch(served: Served) -> int:
    """Runs that fit into a stretch."""
    fastest = min(served.run(3)) / 1e3
    return max(1, min(50, round(_STRETCH_SECONDS / fastest)))
