"""Runs .tflite models on a device, and answers one request after the other: all of it that goes there.

A program of one file for Python 3.9 and later that needs numpy and ai-edge-litert, and nothing else of this
project: it is sent as text, and run without ever being written to a disk. A request is a line of JSON on
stdin, and so is its answer on stdout; where `bytes` is in one, so many follow behind the line. Arrays travel
as these bytes, and `arrays` says of each which type and shape it has.

What touches a model runs in children, forked before anything is loaded: an engine that crashes costs one
answer. When stdin ends, whatever is going on ends, and what was made for the run is removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import random
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

PROTOCOL = 1
"""Of requests and answers; part of the name of the folder there."""
_Answer = tuple[dict[str, Any], list[bytes]]
_CHUNK = 1 << 20
_LONGEST_LINE = 1 << 24
_LONGEST_CPUINFO = 16_384
_MOST_ROUNDS = 10_000
_COLD_BELOW_NS = 20_000_000  # in longer runs, caches that others have filled are a small part
_MEMORY_RUNS = 3
_LOCK_EVERY = 0.25
_NO_SPACE = {28: "space", 27: "space", 122: "space"}  # ENOSPC, EFBIG and EDQUOT, as Linux numbers them


class Gone(Exception):
    """Whoever asks has left."""


class Refused(Exception):
    """What was asked for cannot be done; args: why, and in one word what is missing."""


# --- lines and bytes ----------------------------------------------------------------------------------------


class Channel:
    """Requests and answers on two file descriptors."""

    def __init__(self, source: int, sink: int) -> None:
        self.source, self.sink = source, sink
        self._buffer = bytearray()

    def fill(self) -> None:
        """Read what there is.

        Raises:
            Gone: there is nothing more to come.
        """
        found = os.read(self.source, _CHUNK)
        if not found:
            raise Gone
        self._buffer += found

    def request(self) -> dict[str, Any]:
        """The next line, as data."""
        while (end := self._buffer.find(b"\n")) < 0:
            # Whatever sends this is no request.
            if len(self._buffer) > _LONGEST_LINE:
                raise Gone
            self.fill()
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        found: dict[str, Any] = json.loads(line)
        return found

    def chunks(self, count: int) -> Iterator[bytes]:
        """So many bytes, as they come."""
        while count:
            if not self._buffer:
                self.fill()
            part = bytes(self._buffer[:count])
            del self._buffer[: len(part)]
            count -= len(part)
            yield part

    def payload(self, count: int) -> bytes:
        """So many bytes at once."""
        return b"".join(self.chunks(count))

    def send(self, answer: dict[str, Any], parts: Iterable[bytes] = ()) -> None:
        """An answer, with the bytes that belong to it."""
        listed = list(parts)
        size = sum(len(p) for p in listed)
        if size:
            answer = {**answer, "bytes": size}
        for part in (json.dumps(answer).encode() + b"\n", *listed):
            self._write(part)

    def _write(self, part: bytes) -> None:
        # A pipe takes what it has room for.
        view = memoryview(part)
        while view:
            view = view[os.write(self.sink, view[:_CHUNK]) :]


def packed(arrays: Sequence[Any]) -> tuple[dict[str, Any], list[bytes]]:
    """What says which arrays these are, and their bytes."""
    import numpy as np

    solid = [np.ascontiguousarray(a) for a in arrays]
    # A scalar becomes [1] there, so that the shape is taken from before.
    kinds = [[s.dtype.str, list(a.shape)] for s, a in zip(solid, arrays)]
    return {"arrays": kinds}, [s.tobytes() for s in solid]


def unpacked(kinds: Sequence[Any], payload: bytes) -> list[Any]:
    """The arrays of `packed`, which may be written to."""
    import numpy as np

    found: list[Any] = []
    place = 0
    for name, shape in kinds:
        kind = np.dtype(name)
        count = 1
        for size in shape:
            count *= size
        end = place + count * kind.itemsize
        if kind.hasobject or end > len(payload):
            raise Refused("the arrays are not as long as they are said to be", "request")
        found.append(np.frombuffer(payload, kind, count, place).reshape(shape).copy())
        place = end
    return found


# --- models, in a child -------------------------------------------------------------------------------------


class Model:
    """A .tflite file in LiteRT."""

    def __init__(self, path: str, threads: int) -> None:
        from ai_edge_litert.interpreter import Interpreter

        self._made: Callable[[], Any] = lambda: Interpreter(model_path=path, num_threads=threads)
        self.arrays: Sequence[Any] = ()
        self.samples: list[Sequence[Any]] = []
        self.turn = 0
        self._open()

    def _open(self) -> None:
        self.interpreter = self._made()
        self.inputs = self.interpreter.get_input_details()
        self.outputs = self.interpreter.get_output_details()
        self._shapes: list[tuple[int, ...]] | None = None
        self.invoke = self.interpreter.invoke

    def restart(self) -> None:
        """Forget what the last run left; what LiteRT's variables hold goes with the interpreter."""
        if any(o["op_name"] == "VAR_HANDLE" for o in self.interpreter._get_ops_details()):
            self._open()
        elif self._shapes is not None:
            self.interpreter.reset_all_variables()

    def feed(self, arrays: Sequence[Any]) -> None:
        """Copy arrays to the inputs, which take their sizes."""
        if len(arrays) != len(self.inputs):
            raise Refused(f"{len(arrays)} arrays are fed to {len(self.inputs)} inputs", "feed")
        shapes = [a.shape for a in arrays]
        if shapes != self._shapes:
            # Counted above: `strict` came to zip with Python 3.10.
            for detail, array in zip(self.inputs, arrays):
                if tuple(detail["shape"]) != array.shape or self._shapes is not None:
                    # What has the file's own size is left alone: kernels may have been packed for it.
                    self.interpreter.resize_tensor_input(detail["index"], array.shape)
            self.interpreter.allocate_tensors()
            self._shapes = shapes
        # Kept, as a run may write over the inputs.
        self.arrays = arrays
        self.again()

    def take_turns(self, samples: list[Sequence[Any]]) -> None:
        """Feed the first of some samples; timed runs go on with the others, one after the other."""
        self.samples, self.turn = samples, 0
        self.feed(samples[0])

    def next(self) -> None:
        """The next timed run gets the next sample."""
        self.turn += 1
        if len(self.samples) > 1:
            self.arrays = self.samples[self.turn % len(self.samples)]

    def again(self) -> None:
        """Copy the last arrays anew, as a run may have overwritten them."""
        for detail, array in zip(self.inputs, self.arrays):
            self.interpreter.set_tensor(detail["index"], array)

    def results(self) -> list[Any]:
        """The outputs of the last run, copied."""
        return [self.interpreter.get_tensor(d["index"]) for d in self.outputs]


def _dealt(arrays: list[Any], request: dict[str, Any]) -> list[Sequence[Any]]:
    """The arrays of each of the samples that a request has; one sample where a model takes none."""
    each = len(arrays) // request.get("samples", 1)
    return [arrays[start : start + each] for start in range(0, len(arrays), each)] if each else [arrays]


class Worker:
    """What a child does with models; each method is a request."""

    def __init__(self) -> None:
        self.models: dict[str, Model] = {}

    def open(self, request: dict[str, Any], arrays: list[Any]) -> _Answer:
        begin = time.perf_counter_ns()
        model = Model(request["path"], request["threads"])
        loaded = time.perf_counter_ns()
        model.take_turns(_dealt(arrays, request))
        model.invoke()
        ran = time.perf_counter_ns()
        self.models[request["id"]] = model
        return {"load_ns": loaded - begin, "first_ns": ran - loaded}, []

    def close(self, request: dict[str, Any], arrays: list[Any]) -> _Answer:
        self.models.pop(request["id"], None)
        return {}, []

    def restart(self, request: dict[str, Any], arrays: list[Any]) -> _Answer:
        self.models[request["id"]].restart()
        return {}, []

    def time(self, request: dict[str, Any], arrays: list[Any]) -> _Answer:
        """Rounds in which each model runs once, in an order that is shuffled anew."""
        models = {name: self.models[name] for name in request["ids"]}
        order = list(models.items())
        shuffle = random.Random(request["seed"]).shuffle
        # The first runs pay for memory that is touched for the first time.
        for _ in range(request["warmup"]):
            for _, model in order:
                model.again()
                model.invoke()
        found: dict[str, Any] = {name: {"times": [], "ends": [], "cpu": 0.0} for name in models}
        wanted = request["runs"] or _MOST_ROUNDS
        clock, used = time.perf_counter_ns, time.process_time
        limit = clock() + int(request["seconds"] * 1e9)
        for done in range(wanted):
            # One round in any case: an answer without times would tell nothing.
            if done and clock() >= limit:
                break
            if len(order) > 1:
                shuffle(order)
            for name, model in order:
                told = found[name]
                # Each would find the caches full of the other's data, which one model alone never does.
                if len(order) > 1 and (not done or told["times"][-1] < _COLD_BELOW_NS):
                    model.again()
                    model.invoke()
                invoke = model.invoke
                # Outside of what is timed, as is the copying of inputs.
                cpu = used()
                model.again()
                begin = clock()
                invoke()
                end = clock()
                told["cpu"] += used() - cpu
                model.next()
                told["times"].append(end - begin)
                told["ends"].append(end)
        return {"found": found}, []

    def answers(self, request: dict[str, Any], arrays: list[Any]) -> _Answer:
        model = self.models[request["id"]]
        count, results = len(model.inputs), []
        for start in range(0, len(arrays), count):
            model.feed(arrays[start : start + count])
            model.invoke()
            results += model.results()
        return packed(results)

    def memory(self, request: dict[str, Any], arrays: list[Any]) -> _Answer:
        from ai_edge_litert import interpreter  # noqa: F401 - what is there before the model

        before = _status_bytes("VmHWM")
        model = Model(request["path"], request["threads"])
        for _ in range(_MEMORY_RUNS):
            model.feed(arrays)
            model.invoke()
        return {"before": before, "peak": _status_bytes("VmHWM")}, []

    def profile(self, request: dict[str, Any], arrays: list[Any]) -> _Answer:
        """Events of the recorder that came with the request."""
        module: dict[str, Any] = {"__name__": "recorder"}
        exec(compile(request["recorder"], "recorder", "exec"), module)
        first, *others = _dealt(arrays, request)
        try:
            runs = module["events"](
                request["path"], request["threads"], first, request["runs"], request["warmup"], others
            )
        except module["RecorderError"] as error:
            raise Refused(str(error), "profile") from error
        return {"runs": runs}, []


def _status_bytes(key: str) -> int | None:
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith(f"{key}:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return None


class Child:
    """A forked process that answers requests; made when it is first asked."""

    def __init__(self, closing: Sequence[int] = ()) -> None:
        self._closing = closing
        self._pid = 0
        self._socket: socket.socket | None = None

    def ask(
        self, request: dict[str, Any], chunks: Iterable[bytes], asker: Runner
    ) -> tuple[dict[str, Any], bytes]:
        """The answer, as data and bytes.

        Args:
            request: data, which says how many bytes follow.
            chunks: those bytes.
            asker: whose leaving ends the child.

        Raises:
            Refused: it crashed.
            Gone: the asker left.
        """
        ours = self._started()
        channel = Channel(ours.fileno(), ours.fileno())
        try:
            channel.send(request)
            for part in chunks:
                ours.sendall(part)
            _await(ours, asker)
            answer = channel.request()
            return answer, channel.payload(answer.pop("bytes", 0))
        except (Gone, OSError):
            if asker.is_gone:
                raise Gone from None
            raise Refused(self._death(), "crash") from None

    def _started(self) -> socket.socket:
        if self._socket is not None:
            return self._socket
        # Forked and not started: the interpreter is there already, and nothing of LiteRT is.
        ours, theirs = socket.socketpair()
        # What is still unwritten would be written by both.
        sys.stderr.flush()
        pid = os.fork()
        if pid:
            theirs.close()
            self._pid, self._socket = pid, ours
            return ours
        status = 1
        try:
            ours.close()
            # Libraries print to stdout, which belongs to the answers.
            os.dup2(2, 1)
            # And what reads stdin would take requests, which are the parent's.
            null = os.open(os.devnull, os.O_RDONLY)
            os.dup2(null, 0)
            for number in self._closing:
                os.close(number)
            serve(Channel(theirs.fileno(), theirs.fileno()))
        except (Gone, OSError):
            status = 0
        finally:
            os._exit(status)

    def _death(self) -> str:
        _, status = os.waitpid(self._pid, 0)
        self._forget()
        if not os.WIFSIGNALED(status):
            return f"the engine ended there with exit code {os.WEXITSTATUS(status)}"
        number = os.WTERMSIG(status)
        with contextlib.suppress(ValueError):
            return f"the engine crashed there with signal {number}, {signal.Signals(number).name}"
        return f"the engine crashed there with signal {number}"

    def _forget(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._pid, self._socket = 0, None

    def end(self) -> None:
        """Stop it, whatever it does."""
        if self._pid:
            with contextlib.suppress(OSError):
                os.kill(self._pid, signal.SIGKILL)
                os.waitpid(self._pid, 0)
        self._forget()


def _await(ours: socket.socket, asker: Runner) -> None:
    """Wait for an answer, or for the asker to leave.

    Raises:
        Gone: the asker left.
    """
    # The asker sends nothing while it waits: what can be read of it is that it left.
    poll = select.poll()
    poll.register(ours, select.POLLIN)
    poll.register(asker.channel.source, select.POLLIN)
    while True:
        ready = {number for number, _ in poll.poll()}
        if asker.channel.source in ready:
            try:
                asker.channel.fill()
            except Gone:
                asker.is_gone = True
                raise
        if ours.fileno() in ready:
            return


def serve(channel: Channel) -> None:
    """Answer requests about models until nobody asks any more."""
    worker = Worker()
    parts: Sequence[bytes]
    while True:
        request = channel.request()
        payload = channel.payload(request.pop("bytes", 0))
        try:
            arrays = unpacked(request.pop("arrays", []), payload)
            answer, parts = getattr(worker, request["do"])(request, arrays)
        except Refused as error:
            answer, parts = {"error": error.args[0], "kind": error.args[1]}, []
        except MemoryError:
            answer, parts = {"error": "the device has too little memory for it", "kind": "memory"}, []
        except ImportError as error:
            answer, parts = {"error": str(error), "kind": "module"}, []
        except Exception as error:  # whatever LiteRT raises is what it says of the model
            traceback.print_exc()
            text = " ".join(str(error).split()) or type(error).__name__
            answer, parts = {"error": text, "kind": "engine"}, []
        channel.send(answer, parts)


# --- the device ---------------------------------------------------------------------------------------------


def facts() -> dict[str, Any]:
    """What the device is."""
    found: dict[str, Any] = {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "cpuinfo": _text("/proc/cpuinfo")[:_LONGEST_CPUINFO],
        "model": _text("/proc/device-tree/model").rstrip("\0\n"),
        "versions": {},
        "missing": [],
    }
    with contextlib.suppress(ValueError, OSError, AttributeError):
        found["memory"] = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    from importlib import metadata

    # Asked of their metadata: importing them is left to children, which are small until then.
    for package in ("ai-edge-litert", "numpy"):
        try:
            found["versions"][package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found["missing"].append(package)
    return found


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_LONGEST_CPUINFO * 16)
    except OSError:
        return ""


def _numbers(folder: str, name: str) -> list[tuple[str, int]]:
    """The whole numbers in files of that name, in folders of that folder, with their names."""
    found: list[tuple[str, int]] = []
    try:
        entries = sorted(os.listdir(folder))
    except OSError:
        return found
    for entry in entries:
        text = _text(os.path.join(folder, entry, name)).strip()
        if text.lstrip("-").isdigit():
            found.append((entry, int(text)))
    return found


_CPU = "/sys/devices/system/cpu"
_THERMAL = "/sys/class/thermal"
# Bits of `vcgencmd get_throttled`; 16 further up each says the same of all the time since the start.
_PI_FLAGS = {0: "under-voltage", 1: "frequency capped", 2: "throttled", 3: "soft temperature limit"}
_HOTTEST = 200_000


def state() -> dict[str, Any]:
    """What it is doing, as far as Linux and a Raspberry Pi tell."""
    found: dict[str, Any] = {"throttled": []}
    # Clusters of big and little cores have one each.
    governors = set()
    for cpu in range(os.cpu_count() or 1):
        governors.add(_text(f"{_CPU}/cpu{cpu}/cpufreq/scaling_governor").strip())
    found["governor"] = ", ".join(sorted(g for g in governors if g))
    speeds = [n for e, n in _numbers(_CPU, "cpufreq/scaling_cur_freq") if e.startswith("cpu")]
    found["mhz"] = max(speeds) / 1000 if speeds else None
    heats = [n for e, n in _numbers(_THERMAL, "temp") if e.startswith("thermal_zone") and 0 < n < _HOTTEST]
    found["celsius"] = max(heats) / 1000 if heats else None
    counts = [n for _, n in _numbers(_CPU, "thermal_throttle/core_throttle_count")]
    found["throttle_count"] = sum(counts) if counts else None
    for entry, step in _numbers(_THERMAL, "cur_state"):
        kind = _text(f"{_THERMAL}/{entry}/type").strip()
        if step > 0 and ("cpufreq" in kind or kind == "Processor"):
            found["throttled"].append(f"{kind} slows the CPU down by {step} steps")
    found["throttled"] += _pi_flags()
    return found


def _pi_flags() -> list[str]:
    # The firmware of a Raspberry Pi knows what Linux does not: that its supply is too weak.
    tool = shutil.which("vcgencmd")
    if tool is None:
        return []
    try:
        done = subprocess.run(
            [tool, "get_throttled"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=5
        )
        bits = int(done.stdout.strip().partition("=")[2], 0)
    except (OSError, ValueError, subprocess.SubprocessError):
        return []
    found = [f"{what} now" for bit, what in _PI_FLAGS.items() if bits >> bit & 1]
    return found + [
        f"{what} since it was started"
        for bit, what in _PI_FLAGS.items()
        if bits >> (bit + 16) & 1 and not bits >> bit & 1
    ]


# --- the folder there ---------------------------------------------------------------------------------------


class Folder:
    """Where models are kept, under what their bytes hash to: of this run alone, or for the next one, too.

    One run at a time has it, so that two do not slow each other down; what a run that was killed left is
    removed by the next one.
    """

    def __init__(self, home: str, keep: bool) -> None:
        self.home, self.keep = home, keep
        self.kept = os.path.join(home, "models")
        self.own = os.path.join(home, f"run-{os.getpid()}")
        self._lock = -1

    def enter(self, patience: float, tell: Callable[[dict[str, Any]], None]) -> None:
        """Wait for the folder to be free, and take away what is left over.

        Raises:
            Refused: it is not free in time.
        """
        os.makedirs(self.kept, mode=0o700, exist_ok=True)
        path = os.path.join(self.home, "lock")
        self._lock = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        until, told = time.monotonic() + patience, False
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() >= until:
                    raise Refused("another run is using it", "busy") from None
            if not told:
                told = True
                tell({"waiting": "another run is using it"})
            time.sleep(_LOCK_EVERY)
        # Whoever has the lock is alone: other folders are of runs that were killed.
        for name in os.listdir(self.home):
            if name.startswith("run-"):
                shutil.rmtree(os.path.join(self.home, name), ignore_errors=True)
        for name in os.listdir(self.kept):
            if name.endswith(".part"):
                os.unlink(os.path.join(self.kept, name))
        os.mkdir(self.own, 0o700)

    def find(self, digest: str) -> str | None:
        """The file with that content; None if it is not here."""
        for folder in (self.own, self.kept):
            path = os.path.join(folder, f"{digest}.tflite")
            if os.path.exists(path):
                return path
        return None

    def put(self, digest: str, chunks: Iterable[bytes]) -> str:
        """Write a file aside, and rename it when all of it is there and right.

        Raises:
            Refused: it is not, or there is no room.
        """
        path = os.path.join(self.kept if self.keep else self.own, f"{digest}.tflite")
        part = f"{path}.part"
        found = hashlib.sha256()
        failure = None
        try:
            # In turns with what arrives, so that a model of any size takes no memory here.
            with open(part, "wb") as file:
                for chunk in chunks:
                    found.update(chunk)
                    file.write(chunk)
                file.flush()
                # In front of the renaming: after a loss of power no name stands for a part of a file.
                os.fsync(file.fileno())
            # Written and read back by name later: what is there under a hash has that hash.
            if found.hexdigest() == digest:
                os.replace(part, path)
                return path
            failure = Refused("it arrived changed", "changed")
        except OSError as error:
            failure = Refused(error.strerror, _NO_SPACE.get(error.errno or 0, "disk"))
        finally:
            with contextlib.suppress(OSError):
                os.unlink(part)
        # What is still on its way would be taken for the next request.
        for _ in chunks:
            pass
        raise failure

    def leave(self) -> None:
        """Remove what was of this run alone."""
        shutil.rmtree(self.own, ignore_errors=True)


# --- requests -----------------------------------------------------------------------------------------------


class Runner:
    """Answers requests: about the device itself, about models by children."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.is_gone = False
        self._folder: Folder | None = None
        self._worker = Child((channel.sink,))

    def serve(self) -> None:
        """Answer until the one who asks leaves."""
        parts: Sequence[bytes]
        try:
            while True:
                request = self.channel.request()
                chunks = self.channel.chunks(request.get("bytes", 0))
                try:
                    answer, parts = self.answer(request, chunks)
                except Refused as error:
                    answer, parts = {"error": error.args[0], "kind": error.args[1]}, []
                for _ in chunks:
                    pass
                self.channel.send(answer, parts)
        except (Gone, OSError, ValueError):
            pass
        finally:
            self._worker.end()
            if self._folder is not None:
                self._folder.leave()

    def answer(
        self, request: dict[str, Any], chunks: Iterator[bytes]
    ) -> tuple[dict[str, Any], Sequence[bytes]]:
        """The answer to a request, and its bytes.

        Raises:
            Refused: it cannot be done.
        """
        what = request["do"]
        if what == "hello":
            return self._hello(request), ()
        if what == "state":
            return state(), ()
        if what == "find":
            return {"path": self._models().find(request["digest"])}, ()
        if what == "put":
            return {"path": self._models().put(request["digest"], chunks)}, ()
        if what in ("memory", "profile"):
            # In a process of its own, whose memory nothing else has grown.
            alone = Child((self.channel.sink,))
            try:
                answer, payload = alone.ask(request, chunks, self)
            finally:
                alone.end()
        else:
            answer, payload = self._worker.ask(request, chunks, self)
        return answer, (payload,) if payload else ()

    def _models(self) -> Folder:
        if self._folder is None:
            raise Refused("no folder was named for models", "request")
        return self._folder

    def _hello(self, request: dict[str, Any]) -> dict[str, Any]:
        if request.get("home"):
            folder = Folder(request["home"], request.get("keep", False))
            try:
                folder.enter(request["patience"], self.channel.send)
            except OSError as error:
                raise Refused(f"{error.strerror}: {request['home']}", "disk") from error
            self._folder = folder
        return {"protocol": PROTOCOL, **facts()}


def main() -> None:
    """Answer what is asked on stdin."""
    # A full disk is an error to tell of, and not the end.
    if hasattr(signal, "SIGXFSZ"):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    # Whoever is asked to end puts its things away first.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    os.umask(0o077)
    # Answers on a descriptor of their own: what prints to stdout by mistake goes to stderr.
    sink = os.dup(1)
    os.dup2(2, 1)
    Runner(Channel(0, sink)).serve()


def _leave(number: int, frame: object) -> None:
    raise Gone


if __name__ == "__main__":
    main()
