"""The result files of TensorFlow's benchmarks: one BenchmarkEntries message each.

Source: TensorFlow's `core/util/test_log.proto`, of which these fields are written.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thinflow.errors import WriteError
from thinflow.formats.files import check_folder, write_file
from thinflow.wire import protos
from thinflow.wire.message_table import message_class

_TABLE = """
BenchmarkEntries: entry:BenchmarkEntry*=1
BenchmarkEntry: name:string=1 iters:int64=2 cpu_time:double=3 wall_time:double=4 throughput:double=5
    extras:{string,EntryValue}=6
EntryValue: kind( double_value:double=1 string_value:string=2 )
"""


@dataclass(frozen=True)
class Entry:
    """One result.

    Attributes:
        name: of the benchmark.
        runs: how many.
        seconds: wall time of all of them.
        throughput: MiB of input a second; 0 if unknown.
    """

    name: str
    runs: int
    seconds: float
    throughput: float = 0.0


def _message() -> Any:
    return message_class("tensorflow", "BenchmarkEntries", _TABLE)


def to_bytes(entry: Entry) -> bytes:
    """The serialized BenchmarkEntries with one entry; its wall time is per run."""
    message = _message()()
    runs = max(entry.runs, 1)
    message.entry.add(
        name=entry.name,
        iters=entry.runs,
        # -1 says that nobody measured it; TensorFlow's reporter divides both times by the number of runs.
        cpu_time=-1.0 / runs,
        wall_time=entry.seconds / runs,
        throughput=entry.throughput,
    )
    return bytes(message.SerializeToString(deterministic=True))


def from_bytes(data: bytes) -> list[Entry]:
    """The entries of a result file."""
    message = protos.parse(_message(), data)
    return [Entry(e.name, e.iters, e.wall_time * max(e.iters, 1), e.throughput) for e in message.entry]


def check_free(prefix: str, name: str) -> Path:
    """The file for the result of a name: PREFIX and the name, in which `/` becomes `__`.

    Raises:
        WriteError: the file exists, or its folder does not.
    """
    path = Path(prefix + name.replace("/", "__"))
    if path.exists():
        raise WriteError(
            "this result file exists already", os.fspath(path), "remove it, or give another prefix"
        )
    check_folder(path)
    return path


def write(prefix: str, entry: Entry) -> Path:
    """Write an entry; the file written.

    Raises:
        WriteError: the file exists, or cannot be written.
    """
    path = check_free(prefix, entry.name)
    write_file(path, [to_bytes(entry)])
    return path
