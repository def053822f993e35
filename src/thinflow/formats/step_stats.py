"""Time and memory of the nodes of one run, as TensorFlow's StepStats message.

Source: TensorFlow's `core/framework/step_stats.proto`, of which these fields are written, and
`core/util/stat_summarizer.cc`, which reads them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from thinflow.errors import WriteError
from thinflow.formats.files import check_folder, write_file
from thinflow.wire import protos
from thinflow.wire.message_table import message_class

Step = tuple[str, str, int, int]
"""Node name, op, microseconds, bytes of its outputs."""
_DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"
_UNKNOWN = "<>"
_TABLE = """
StepStats: dev_stats:DeviceStepStats*=1
DeviceStepStats: device:string=1 node_stats:NodeExecStats*=2
NodeExecStats: node_name:string=1 all_start_micros:int64=2 op_start_rel_micros:int64=3
    op_end_rel_micros:int64=4 all_end_rel_micros:int64=5 memory:AllocatorMemoryUsed*=6 timeline_label:string=8
AllocatorMemoryUsed: allocator_name:string=1 total_bytes:int64=2
"""


def _message() -> Any:
    return message_class("tensorflow", "StepStats", _TABLE)


def to_bytes(steps: Iterable[Step]) -> bytes:
    """The serialized message: one device, whose nodes ran one after the other from time 0 on."""
    message = _message()()
    device = message.dev_stats.add(device=_DEVICE)
    elapsed = 0
    for name, op, micros, size in steps:
        node = device.node_stats.add(
            node_name=name,
            all_start_micros=elapsed,
            # Kernel and node are one here: nothing is known of the time that a
            # scheduler would spend around it.
            op_end_rel_micros=micros,
            all_end_rel_micros=micros,
            timeline_label=f"{name} = {op}()",
        )
        node.memory.add(allocator_name="cpu", total_bytes=size)
        elapsed += micros
    return bytes(message.SerializeToString(deterministic=True))


def from_bytes(data: bytes) -> list[Step]:
    """The nodes of one run as TensorFlow's StatSummarizer reads them.

    Devices that repeat what others tell are left out. Kernels and copies of a GPU are steps of their own:
    `name [Kernel]`, `name [MemCpy]`. An op that the message does not tell is `<>`.

    Raises:
        FormatError: the bytes are no such message.
    """
    message = protos.parse(_message(), data)
    return [
        (*_identity(device.device, n), n.all_end_rel_micros, sum(m.total_bytes for m in n.memory))
        for device in message.dev_stats
        if not _repeats(device.device)
        for n in device.node_stats
    ]


def _repeats(device: str) -> bool:
    """True if others tell the same: of a stream all streams together, of the host the CPU."""
    return ("/stream" in device and "/stream:all" not in device) or "/host:CPU" in device


def _identity(device: str, node: Any) -> tuple[str, str]:
    """Name and op of a step."""
    # On a GPU the name of a step is `node:op`; that of a copy may have a part between the two.
    first, *rest = node.node_name.split(":")
    if "/stream" in device:
        return (f"{first} [Kernel]", f"gpu:{rest[0]}") if len(rest) == 1 else (node.node_name, _UNKNOWN)
    if "/memcpy" in device:
        return (f"{first} [MemCpy]", f"gpu:{rest[-1]}") if len(rest) in (1, 2) else (node.node_name, _UNKNOWN)
    return node.node_name, _op_of(node.timeline_label)


def _op_of(label: str) -> str:
    """The op in a label, between ` = ` and `(`."""
    op, bracket, _ = label.partition(" = ")[2].partition("(")
    return op if bracket else _UNKNOWN


def check_free(path: str | os.PathLike[str]) -> Path:
    """The path of a file that can be new.

    Raises:
        WriteError: it exists, or its folder does not.
    """
    target = Path(path)
    if target.exists():
        raise WriteError("this file exists already", os.fspath(path), "remove it, or give another name")
    check_folder(target)
    return target


def write(path: str | os.PathLike[str], steps: Iterable[Step]) -> Path:
    """Write a new file; its path.

    Raises:
        WriteError: the file exists, or cannot be written.
    """
    target = check_free(path)
    write_file(target, [to_bytes(steps)])
    return target
