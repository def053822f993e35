"""A device on which the runner answers: what is asked of it as requests, and its answers."""

from __future__ import annotations

import json
import select
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from hashlib import sha256
from importlib import resources
from itertools import count
from pathlib import Path
from typing import IO, Any

import numpy as np

from thinflow.bench.profile_litert import of_events
from thinflow.bench.profile_model import Profile, require_fixed
from thinflow.device.base import WAIT_LONGER, DeviceLost, Facts, Job, State, Timing
from thinflow.device.machines import machine_of
from thinflow.errors import EngineUnavailable
from thinflow.formats.files import map_file
from thinflow.tflite.reader import read_program
from thinflow.typing import Array, Progress

PROTOCOL = 1
"""The runner's, which is sent from here."""
_CHUNK = 1 << 20
_BATCH_BYTES = 4 << 20
"""Of feeds in one request: enough to be worth the way there and back, and little in memory."""
_BATCH = 64
_LONGEST_LINE = 1 << 26
_SLACK_SECONDS = 60.0
"""What an answer may take besides the time that was asked for."""


def source(name: str = "thinflow.device", file: str = "runner.py") -> bytes:
    """The text of a program that is sent to devices."""
    return resources.files(name).joinpath(file).read_bytes()


class Talk:
    """Requests to the runner in another process, and its answers.

    Args:
        process: with pipes at both ends.
        name: of the device, for messages.
        patience: seconds that an answer may take.
    """

    def __init__(self, process: subprocess.Popen[bytes], name: str, patience: float) -> None:
        self.process, self.name, self.patience = process, name, patience
        self._buffer = bytearray()
        assert process.stdin is not None
        assert process.stdout is not None
        self._to: IO[bytes] = process.stdin
        self._from: IO[bytes] = process.stdout

    def write(self, data: bytes | memoryview) -> None:
        """Send bytes as they are.

        Raises:
            DeviceLost: nobody takes them.
        """
        try:
            self._to.write(data)
            self._to.flush()
        except OSError as error:
            raise self._lost() from error

    def line(self, seconds: float | None = None) -> bytes:
        """The next line.

        Raises:
            DeviceLost: there is none, or not in time.
        """
        until = time.monotonic() + (self.patience if seconds is None else seconds)
        while (end := self._buffer.find(b"\n")) < 0:
            self._fill(until)
            if len(self._buffer) > _LONGEST_LINE:
                raise DeviceLost("what it answers is no answer", self.name, hint="check what runs there")
        found = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return found

    def _fill(self, until: float) -> None:
        # Not a read that waits for ever: a device may be switched off.
        ready, _, _ = select.select([self._from], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            raise DeviceLost(
                "it did not answer in time",
                self.name,
                hint=f"see what keeps it busy, or wait longer: {WAIT_LONGER}",
            )
        # read1 leaves nothing in a buffer of Python's, which select would not see.
        found = self._from.read1(_CHUNK)  # type: ignore[attr-defined]
        if not found:
            raise self._lost()
        self._buffer += found

    def _payload(self, count: int, seconds: float) -> bytes:
        until = time.monotonic() + seconds
        while len(self._buffer) < count:
            self._fill(until)
        found = bytes(self._buffer[:count])
        del self._buffer[:count]
        return found

    def ask(
        self,
        request: Mapping[str, Any],
        arrays: Sequence[Array] = (),
        *,
        content: memoryview | bytes | None = None,
        seconds: float = 0.0,
        progress: Progress | None = None,
    ) -> tuple[dict[str, Any], bytes]:
        """An answer and its bytes.

        Args:
            request: what is asked.
            arrays: that belong to it, or
            content: bytes that do.
            seconds: that it is known to take, besides what an answer takes.
            progress: told while the device is waited for.

        Raises:
            EngineUnavailable: it could not be done; DeviceLost: there is no answer.
        """
        # A number alone becomes [1] there, so that shapes are those from before.
        solid = [np.ascontiguousarray(a) for a in arrays]
        header = dict(request)
        if solid:
            header["arrays"] = [[s.dtype.str, list(a.shape)] for s, a in zip(solid, arrays, strict=True)]
        parts = [s.tobytes() for s in solid] if content is None else [content]
        if size := sum(len(p) for p in parts):
            header["bytes"] = size
        self.write(json.dumps(header).encode() + b"\n")
        for part in parts:
            view = memoryview(part)
            for start in range(0, len(view), _CHUNK):
                self.write(view[start : start + _CHUNK])
        limit = seconds + max(self.patience, _SLACK_SECONDS)
        while "waiting" in (answer := self._answer(limit)):
            if progress is not None:
                progress(0, 1, f"{self.name}: {answer['waiting']}, waiting")
        payload = self._payload(answer.get("bytes", 0), limit)
        if "error" in answer:
            raise refusal(answer, self.name)
        return answer, payload

    def _answer(self, seconds: float) -> dict[str, Any]:
        try:
            # Whatever answers there is not trusted: a login script may print, too.
            found = json.loads(self.line(seconds))
        except ValueError as error:
            raise DeviceLost(
                "what it answers is no answer", self.name, hint="check what runs there"
            ) from error
        if not isinstance(found, dict):
            raise DeviceLost("what it answers is no answer", self.name, hint="check what runs there")
        return found

    def _lost(self) -> DeviceLost:
        return DeviceLost(
            "the connection to it ended", self.name, hint="look after the device, and run it again"
        )

    def close(self) -> None:
        """Hang up: what runs there ends by itself, and puts its things away."""
        # The end of its input is what the runner waits for.
        for end in (self._to, self._from):
            # What was still to be sent has nobody to go to.
            with suppress(OSError):
                end.close()
        try:
            self.process.wait(_HANG_UP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


_HANG_UP_SECONDS = 10.0

_HINTS = {
    "space": "make room there, or name another folder for it: folder = ... in thinflow.toml",
    "disk": "name another folder for it: folder = ... in thinflow.toml",
    "changed": "run it again; if it stays, the connection damages what goes over it",
    "busy": f"wait for that run, or longer: {WAIT_LONGER}",
    "memory": "take a smaller model, or fewer of them",
    "module": "install it there: pip install ai-edge-litert numpy",
    "crash": "the model may ask too much of the device: give it fewer threads, or take a smaller one",
}
_WORDS = {"space": "there is no space left on the device", "disk": "a file cannot be written there"}


def refusal(answer: Mapping[str, Any], name: str) -> EngineUnavailable:
    """The error that an answer tells of."""
    kind, text = str(answer.get("kind", "")), str(answer["error"])
    problem = f"{_WORDS[kind]}: {text}" if kind in _WORDS else text
    kind_of_error = EngineCrashedThere if kind == "crash" else EngineUnavailable
    return kind_of_error(problem, name, hint=_HINTS.get(kind, ""))


class EngineCrashedThere(EngineUnavailable):
    """The process that had models open there is gone, and what it had open with it."""


class NoRuntime(EngineUnavailable):
    """The Python there has no LiteRT."""


class RunnerConnection:
    """A device with the runner on it; see `Connection`.

    Args:
        talk: with the runner.
        home: the folder there for files; "" where the runner reads those of this machine.
        keep: leave models in that folder.
        patience: seconds to wait for another run to leave it.
        progress: told while it is waited for.
    """

    keeps_state = True
    takes_turns = True

    def __init__(
        self, talk: Talk, home: str = "", *, keep: bool = False, patience: float, progress: Progress | None
    ) -> None:
        self._talk, self._home = talk, home
        self._progress = progress
        self._paths: dict[str, str] = {}
        self._ids: dict[Job, str] = {}
        self._numbers = count()
        hello = {"do": "hello", "home": home, "keep": keep, "patience": patience}
        self._hello, _ = talk.ask(hello, seconds=patience, progress=progress)
        # Now, as each request about a model would fail by it.
        missing = self._hello.get("missing", [])
        if missing:
            raise NoRuntime(f"its Python has no {' and no '.join(missing)}", talk.name, hint=_HINTS["module"])

    @cached_property
    def facts(self) -> Facts:
        """What the device is."""
        told = self._hello
        versions = told.get("versions", {})
        return Facts(
            machine_of(told.get("cpuinfo", ""), told["cores"], told["system"], told["python"]),
            f"LiteRT {versions.get('ai-edge-litert', '')}".rstrip(),
            told.get("memory"),
            told.get("model", ""),
        )

    def state(self) -> State:
        """What it is doing now."""
        told, _ = self._talk.ask({"do": "state"})
        return State(
            told.get("governor", ""),
            told.get("mhz"),
            told.get("celsius"),
            tuple(told.get("throttled", ())),
            throttle_count=told.get("throttle_count"),
        )

    def open(self, job: Job) -> None:
        """Send a model, if it is not there, and run it once."""
        samples, arrays = _samples(job)
        require_fixed(arrays)
        if job in self._ids:
            return
        request = {"do": "open", "id": str(next(self._numbers)), **self._model(job), "samples": samples}
        self._asked(request, arrays)
        self._ids[job] = request["id"]

    def _asked(
        self, request: Mapping[str, Any], arrays: Sequence[Array] = (), seconds: float = 0.0
    ) -> tuple[dict[str, Any], bytes]:
        """The answer of the process that has the models open."""
        try:
            return self._talk.ask(request, arrays, seconds=seconds)
        except EngineCrashedThere:
            # One model took all of them along: the others are opened anew when they are wanted.
            self._ids.clear()
            raise

    def _model(self, job: Job) -> dict[str, Any]:
        return {"path": self._sent(job.path), "threads": job.threads}

    def _sent(self, path: str) -> str:
        """Where a file of this machine is there."""
        if not self._home:
            return str(Path(path).absolute())
        if path not in self._paths:
            # Under what it hashes to: what is there already is not sent again, whatever it is called here.
            content = map_file(path, unpack=False)
            digest = sha256(content).hexdigest()
            answer, _ = self._talk.ask({"do": "find", "digest": digest})
            if answer["path"] is None:
                if self._progress is not None:
                    self._progress(0, 1, f"{self._talk.name}: sending {Path(path).name}")
                answer, _ = self._talk.ask({"do": "put", "digest": digest}, content=memoryview(content))
            self._paths[path] = answer["path"]
        return self._paths[path]

    def time(
        self, jobs: Sequence[Job], *, runs: int | None, seconds: float, warmup: int, seed: int = 0
    ) -> dict[Job, Timing]:
        """Run jobs in turns."""
        for job in jobs:
            self.open(job)
        names = {self._ids[job]: job for job in jobs}
        request = {"do": "time", "ids": list(names), "runs": runs, "seconds": seconds, "warmup": warmup}
        answer, _ = self._asked({**request, "seed": seed}, seconds=seconds)
        return {
            names[name]: Timing(told["times"], [end / 1e9 for end in told["ends"]], told["cpu"])
            for name, told in answer["found"].items()
        }

    def memory(self, job: Job) -> int | None:
        """Peak memory of a process of its own."""
        answer, _ = self._talk.ask({"do": "memory", **self._model(job)}, job.feeds)
        peak: int | None = answer["peak"]
        return peak

    def profile(self, job: Job, *, runs: int, warmup: int) -> Profile:
        """By LiteRT's own profiler there."""
        from thinflow.bench.litert_recorder import Event

        recorder = source("thinflow.bench", "litert_recorder.py").decode()
        request = {"do": "profile", **self._model(job), "runs": runs, "warmup": warmup, "recorder": recorder}
        samples, arrays = _samples(job)
        answer, _ = self._talk.ask({**request, "samples": samples}, arrays)
        recorded = [[Event(*event) for event in run] for run in answer["runs"]]
        # Events know places in the file, which is read here, where its operators have names.
        program = read_program(map_file(job.path, unpack=False))
        return of_events(program, recorded, {}, job.threads)

    def restart(self, job: Job) -> None:
        """As at the first run."""
        self.open(job)
        self._asked({"do": "restart", "id": self._ids[job]})

    def answers(self, job: Job, feeds: Iterable[Sequence[Array]]) -> Iterator[list[Array]]:
        """Answers to feeds, some in each request."""
        self.open(job)
        # A request for each sample would spend its time on the way.
        batch: list[Array] = []
        count = size = 0
        for feed in feeds:
            batch += feed
            count += 1
            size += sum(a.nbytes for a in feed)
            if count == _BATCH or size >= _BATCH_BYTES:
                yield from self._answered(job, batch, count)
                batch, count, size = [], 0, 0
        if count:
            yield from self._answered(job, batch, count)

    def _answered(self, job: Job, batch: Sequence[Array], count: int) -> Iterator[list[Array]]:
        require_fixed(batch)
        answer, payload = self._asked({"do": "answers", "id": self._ids[job]}, batch)
        arrays = list(unpacked(answer["arrays"], payload))
        each = len(arrays) // count
        for start in range(0, len(arrays), each):
            yield arrays[start : start + each]


def _samples(job: Job) -> tuple[int, list[Array]]:
    """How many samples a job has, and the arrays of all, one after the other."""
    every = (job.feeds, *job.others)
    return len(every), [array for feeds in every for array in feeds]


def unpacked(kinds: Sequence[Any], payload: bytes) -> Iterator[Array]:
    """The arrays that an answer holds.

    Raises:
        DeviceLost: it does not hold what it says.
    """
    # Bounds first: what comes from a device is not trusted to be whole.
    place = 0
    for name, shape in kinds:
        kind = np.dtype(name)
        count = int(np.prod(shape, dtype=np.int64))
        if kind.hasobject or count < 0 or place + count * kind.itemsize > len(payload):
            raise DeviceLost("its answer holds less than it says", hint="check what runs there")
        # A copy: views of bytes cannot be written, and may begin at any of them.
        yield np.frombuffer(payload, kind, count, place).reshape(shape).copy()
        place += count * kind.itemsize
