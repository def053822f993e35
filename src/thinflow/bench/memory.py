"""Peak memory of a model, measured in a fresh process, so that neither what ran before nor a crash matters.

The child is this module as a program: it reads one request as JSON from stdin and prints one answer.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from thinflow.engines._child import python_environment
from thinflow.formats.packed_bytes import child_environment
from thinflow.formats.sealing import may_write_copies
from thinflow.typing import Array

if TYPE_CHECKING:
    from thinflow.bench.targets import GraphSubject

TIMEOUT_SECONDS = 120.0
RUNS = 3


@dataclass(frozen=True)
class Memory:
    """Peak memory of loading a model and running it three times.

    Attributes:
        peak_bytes: largest resident size of the process; None if it was not measured.
        before_bytes: what Python and the libraries had taken before the model was opened.
        error: why it was not measured; empty if it was.
        crashed: the process did not live to tell, or was too slow.
        device: where it was measured; "" for this machine.
    """

    subject: str
    engine: str
    peak_bytes: int | None = None
    before_bytes: int | None = None
    error: str = ""
    crashed: bool = False
    device: str = ""

    def data(self) -> dict[str, Any]:
        """For JSON."""
        return dict(vars(self))


def measure_memory(
    subject: Any, engine: str, threads: int, *, timeout_seconds: float = TIMEOUT_SECONDS
) -> Memory:
    """Peak memory of a subject on an engine. Takes as long as Python's start, loading and three runs."""
    from thinflow.bench.inputs import each_feed
    from thinflow.bench.targets import GraphSubject

    name = subject.name
    with tempfile.TemporaryDirectory(prefix="thinflow-") as folder:
        request: dict[str, Any] = {"engine": engine, "threads": threads}
        if isinstance(subject, GraphSubject):
            path = _path_of(subject, folder)
            if not path:
                return Memory(
                    name, engine, error="a decrypted graph is not written to a file; name its package"
                )
            request |= {
                "path": path,
                "inputs": [v.name for v in subject.graph.inputs],
                "outputs": [v.name for v in subject.graph.outputs],
                "shapes": {
                    v.name: list(a.shape) for v, a in zip(subject.graph.inputs, subject.arrays(), strict=True)
                },
            }
        else:
            request |= {"path": subject.path, "shapes": {k: list(v) for k, v in subject.shapes.items()}}
            request["made"] = parcel(subject.made)
            request["signature"] = getattr(subject, "signature", None)
        # As many as there are runs: what a sample holds may say how much memory a loop or a detector takes.
        request["feeds"] = [parcel(feeds) for feeds in each_feed(subject.feeds)[:RUNS]]
        try:
            answer = _ask(request, timeout_seconds, child_environment(subject.path))
        except subprocess.TimeoutExpired:
            return Memory(name, engine, error=f"it took longer than {timeout_seconds:g} s", crashed=True)
        except (OSError, ValueError) as error:
            return Memory(name, engine, error=str(error))
    return Memory(
        name,
        engine,
        answer.get("peak"),
        answer.get("before"),
        answer.get("error", ""),
        answer.get("crashed", False),
    )


def _path_of(subject: GraphSubject, folder: str) -> str:
    """A file with the subject's graph; once something was decrypted only the one it came from, or none."""
    from thinflow.formats import save

    # A decrypted graph is read by the child from its package again, with the same key.
    if not may_write_copies():
        return subject.path
    path = str(Path(folder) / "model.pb")
    save(subject.graph, path)
    return path


def _ask(request: dict[str, Any], timeout_seconds: float, environment: dict[str, str]) -> dict[str, Any]:
    """The child's answer; a crash is an answer too."""
    done = subprocess.run(
        [sys.executable, "-m", "thinflow.bench.memory"],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_seconds,
        env=python_environment() | environment,
    )
    # Engines may print to stdout, too; the answer comes last.
    lines = done.stdout.strip().splitlines()
    if done.returncode == 0 and lines:
        answer: dict[str, Any] = json.loads(lines[-1])
        return answer
    # How subprocess tells of a signal; the system's killer of what takes too much memory is one.
    if done.returncode < 0:
        return {"error": f"the process was killed by signal {-done.returncode}", "crashed": True}
    last = (done.stderr.strip().splitlines() or ["no message"])[-1]
    return {"error": f"the process ended with code {done.returncode}: {last}"}


def peak_resident_bytes() -> int | None:
    """Largest resident size of this process so far; None where it cannot be known.

    Linux's getrusage starts a process off with the peak of the one that started it, so the high-water mark of
    its own memory is asked first.
    """
    try:
        status = Path("/proc/self/status").read_text("ascii", "replace")
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:"))
    except (OSError, StopIteration, ValueError):
        pass
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak) if sys.platform == "darwin" else int(peak) * 1024


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Open, run three times, and tell the peak; what the child does."""
    from thinflow.bench.inputs import FeedSeries
    from thinflow.bench.open_targets import open_subjects
    from thinflow.errors import ThinflowError

    if request["engine"] == "litert":
        # Loaded first, so that `before` holds the library and the difference to the peak is the model's own.
        import ai_edge_litert.interpreter  # noqa: F401 - part of what there is before the model

    if request["engine"] == "onnxruntime":
        import onnxruntime  # noqa: F401 - likewise

    if request["engine"] == "openvino":
        import openvino  # noqa: F401 - likewise

    before = peak_resident_bytes()
    if before is None:
        return {"error": "this system does not tell a process its peak memory"}
    try:
        given = [feeds for feeds in map(unpacked, request.get("feeds", ())) if feeds is not None]
        (subject,) = open_subjects(
            request["path"],
            feeds=FeedSeries(tuple(given)) if given else None,
            shapes=None if given else request.get("shapes"),
            inputs=request.get("inputs"),
            outputs=request.get("outputs"),
            made=unpacked(request.get("made")),
            **({"signature": request["signature"]} if request.get("signature") else {}),
        )
        runner = subject.prepare(request["engine"], request["threads"])
        for turn in range(RUNS):
            runner.feed(turn)
            runner.invoke()
    except ThinflowError as error:
        return {"error": error.message}
    return {"before": before, "peak": peak_resident_bytes()}


# --- arrays on their way to the child -----------------------------------------------------------------------

# numpy's kinds of numbers whose `dtype.str` names them; bfloat16 is an unnamed block of two bytes there.
_PLAIN = "biufc"


def parcel(value: Any) -> Any:
    """Arrays, None, and mappings and sequences of them, as JSON; see `unpacked`."""
    if value is None:
        return None
    if isinstance(value, Mapping):
        return {"named": [[str(name), parcel(item)] for name, item in value.items()]}
    if isinstance(value, list | tuple):
        return {"listed": [parcel(item) for item in value]}
    return _array_parcel(np.asarray(value))


def _array_parcel(array: Array) -> dict[str, Any]:
    shape = list(array.shape)
    if array.dtype.kind in _PLAIN:
        return {"type": array.dtype.str, "shape": shape, "bytes": _text(array.tobytes())}
    if array.dtype.kind in "OSU":
        # Not as text: strings of TensorFlow are bytes, and need not be UTF-8.
        items = [x.encode() if isinstance(x, str) else bytes(x) for x in array.reshape(-1).tolist()]
        return {"strings": [_text(item) for item in items], "shape": shape}
    return {"floats": array.astype(np.float32).tolist()}  # bfloat16 and the like, cast again when it is fed


def unpacked(made: Any) -> Any:
    """The value that `parcel` was given."""
    if made is None:
        return None
    if "named" in made:
        return {name: unpacked(item) for name, item in made["named"]}
    if "listed" in made:
        return [unpacked(item) for item in made["listed"]]
    if "floats" in made:
        return np.asarray(made["floats"], np.float32)
    if "strings" in made:
        strings = np.empty(len(made["strings"]), object)
        strings[:] = [base64.b64decode(text) for text in made["strings"]]
        return strings.reshape(made["shape"])
    # A copy, since what frombuffer gives cannot be written to, as engines may want.
    return np.frombuffer(base64.b64decode(made["bytes"]), made["type"]).reshape(made["shape"]).copy()


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


if __name__ == "__main__":
    print(json.dumps(answer(json.load(sys.stdin))))
