"""What LiteRT's own profiler records of a file's runs; as a program, the child that asks it.

That reads one request as a line of JSON from stdin, behind it the model if that is in no file, and prints one
answer. See `litert_recorder`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from thinflow.bench.litert_recorder import Event, RecorderError, events
from thinflow.engines._child import python_environment
from thinflow.errors import EngineUnavailable

TIMEOUT_SECONDS = 300.0


def record(
    content: bytes | str,
    feeds: str,
    *,
    threads: int,
    runs: int,
    warmup: int,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> list[list[Event]]:
    """The events of each run of a .tflite file, in a new process.

    Args:
        content: the file's bytes, or its path.
        feeds: an .npz with the inputs of each sample by position: "0_0", "0_1", ... "1_0", ...
        runs, warmup: runs that count, and runs before them.

    Raises:
        EngineUnavailable: this LiteRT has no such profiler, or does not run the model through it.
    """
    request: dict[str, Any] = {"feeds": feeds, "threads": threads, "runs": runs, "warmup": warmup}
    request["path"] = content if isinstance(content, str) else ""
    # Behind the line of JSON, as its bytes are: in JSON they would have to be encoded, and copied.
    given = b"" if isinstance(content, str) else content
    try:
        done = subprocess.run(
            [sys.executable, "-m", "thinflow.bench.litert_events"],
            input=json.dumps(request).encode() + b"\n" + given,
            capture_output=True,
            check=False,
            timeout=timeout_seconds,
            env=python_environment(),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineUnavailable(f"LiteRT's profiler did not answer: {error}") from error
    # The library may print to stdout before; the answer is the last line.
    lines = done.stdout.decode("utf-8", "replace").strip().splitlines()
    if done.returncode or not lines:
        raise EngineUnavailable(f"LiteRT's profiler ended with code {done.returncode}")
    answer = json.loads(lines[-1])
    if "error" in answer:
        raise EngineUnavailable(answer["error"])
    return [[Event(*event) for event in run] for run in answer["runs"]]


def _answer(request: dict[str, Any], content: bytes) -> dict[str, Any]:
    import numpy as np

    with np.load(request["feeds"]) as found:
        places = [tuple(map(int, name.split("_"))) for name in found.files]
        samples: list[list[Any]] = [[] for _ in range(1 + max((sample for sample, _ in places), default=0))]
        for sample, number in sorted(places):
            samples[sample].append(np.ascontiguousarray(found[f"{sample}_{number}"]))
    first, *others = samples
    try:
        found = events(
            request["path"] or content,
            request["threads"],
            first,
            request["runs"],
            request["warmup"],
            others,
        )
        return {"runs": found}
    except RecorderError as error:
        return {"error": str(error)}


def _main() -> None:
    request = json.loads(sys.stdin.buffer.readline())
    print(json.dumps(_answer(request, sys.stdin.buffer.read())), flush=True)
    os._exit(0)  # the library's own threads may still hold what a tidy end would free


if __name__ == "__main__":
    _main()
