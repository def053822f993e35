"""LiteRT's own profiler, by the C functions of its shared library.

The Python classes of ai-edge-litert have no profiler. The library `libLiteRt` beside them exports one, which
also sees the kernels inside the XNNPACK delegate. A wrong guess about a C structure would take the process
with it, so this is for a process of its own.

It knows nothing else of this project, and runs with Python 3.9 and later: devices are sent its text.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

LIBRARIES = ("libLiteRt.so", "libLiteRt.dylib", "libLiteRt.dll")
OPERATOR, DELEGATE_KERNEL, DELEGATED_OPERATOR = 2, 4, 8
"""Types of events: an operator that LiteRT runs itself; kernels within a delegate."""

# LiteRT's bit of the CPU among its accelerators, and its mode of locking a buffer to write to it.
_CPU = 1
_WRITE = 1
_ROOM = 256
"""Bytes kept for one event. Its size differs between versions, 80 to 96 so far, and is found by looking."""
_UNTOUCHED = 0xA5


class RecorderError(Exception):
    """This LiteRT has no such profiler, or does not run the model through it."""


class Event(NamedTuple):
    """Something that took time.

    Attributes:
        tag: name of the operator or kernel.
        kind: OPERATOR, DELEGATE_KERNEL, DELEGATED_OPERATOR or another bit of LiteRT's.
        start: microseconds since some moment.
        micros: how long, with what happens inside.
        node: number of the operator in its subgraph; within a delegate, number of the kernel.
        subgraph: number of the subgraph.
    """

    tag: str
    kind: int
    start: int
    micros: int
    node: int
    subgraph: int


class _Library:
    """The C functions; each answers 0 when all went well."""

    def __init__(self) -> None:
        from importlib.util import find_spec

        spec = find_spec("ai_edge_litert")
        folders = [Path(p) for p in (spec.submodule_search_locations or ())] if spec else []
        files = [f / name for f in folders for name in LIBRARIES if (f / name).exists()]
        if not files:
            raise RecorderError("this ai-edge-litert comes without libLiteRt")
        self._library = ctypes.CDLL(str(files[0]))
        self._kept: list[Any] = []

    def call(self, function: str, *args: Any) -> None:
        found = getattr(self._library, function, None)
        if found is None:
            raise RecorderError(f"this libLiteRt has no {function}")
        if status := found(*args):
            raise RecorderError(f"{function} failed with status {status}")

    def made(self, function: str, *args: Any) -> ctypes.c_void_p:
        """The handle that a function leaves in its last argument."""
        handle = ctypes.c_void_p()
        self.call(function, *args, ctypes.byref(handle))
        return handle

    def options(self, threads: int) -> ctypes.c_void_p:
        """Profiling on, so many threads; as TOML, which is how the library passes them around."""
        options = self.made("LiteRtCreateOptions")
        self.call("LiteRtSetOptionsHardwareAccelerators", options, _CPU)
        destructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: None)
        texts = {
            "runtime_options_string": "enable_profiling = true\n",
            "xnnpack": f"num_threads = {threads}\n",
        }
        for name, text in texts.items():
            content = ctypes.create_string_buffer(text.encode())
            # ctypes frees what nobody holds, and the library still has their addresses.
            self._kept += [content, destructor]
            opaque = self.made(
                "LiteRtCreateOpaqueOptions",
                name.encode(),
                ctypes.cast(content, ctypes.c_void_p),
                destructor,
            )
            self.call("LiteRtAddOpaqueOptions", options, opaque)
        return options


class _Session:
    """A compiled model with its buffers and its profiler. Never freed: the process ends after it."""

    def __init__(self, content: bytes | str, threads: int, arrays: Sequence[Any]) -> None:
        self._library = library = _Library()
        self._environment = library.made("LiteRtCreateEnvironment", 0, None)
        self._model = self._opened(content)
        options = library.options(threads)
        self._compiled = library.made("LiteRtCreateCompiledModel", self._environment, self._model, options)
        self._signature = library.made("LiteRtGetModelSignature", self._model, ctypes.c_size_t(0))
        self._inputs = self._buffers("Input", [a.nbytes for a in arrays])
        self._outputs = self._buffers("Output", None)
        self.feed(arrays)
        self._profiler = library.made("LiteRtCompiledModelGetProfiler", self._compiled)

    def _opened(self, content: bytes | str) -> ctypes.c_void_p:
        """The model in a file, or in memory that stays where it is as long as the session."""
        made, environment = self._library.made, self._environment
        if isinstance(content, str):
            return made("LiteRtCreateModelFromFile", environment, os.fsencode(content))
        self._content = content
        return made(
            "LiteRtCreateModelFromBuffer",
            environment,
            ctypes.c_char_p(content),
            ctypes.c_size_t(len(content)),
        )

    def _buffers(self, side: str, sizes: Sequence[int] | None) -> Any:
        """Memory for each input or output of the first signature."""
        library, count = self._library, ctypes.c_size_t()
        library.call(f"LiteRtGetNumSignature{side}s", self._signature, ctypes.byref(count))
        if sizes is not None and len(sizes) != count.value:
            raise RecorderError(f"the signature has {count.value} inputs, not {len(sizes)}")
        buffers = (ctypes.c_void_p * count.value)()
        for number in range(count.value):
            place = ctypes.c_size_t(number)
            tensor = library.made(f"LiteRtGetSignature{side}TensorByIndex", self._signature, place)
            # A structure whose size this does not know: it goes from one function to the next as it is.
            kind = ctypes.create_string_buffer(_ROOM)
            library.call("LiteRtGetRankedTensorType", tensor, kind)
            needs = library.made(
                f"LiteRtGetCompiledModel{side}BufferRequirements", self._compiled, ctypes.c_size_t(0), place
            )
            size = ctypes.c_size_t()
            library.call("LiteRtGetTensorBufferRequirementsBufferSize", needs, ctypes.byref(size))
            if sizes is not None and sizes[number] > size.value:
                raise RecorderError("the profiler runs a model with the input sizes that it states only")
            buffers[number] = library.made(
                "LiteRtCreateManagedTensorBufferFromRequirements", self._environment, kind, needs
            ).value
        return buffers

    def feed(self, arrays: Sequence[Any]) -> None:
        """Copy arrays of the sizes that it was made with to the inputs."""
        call = self._library.call
        # No `strict`, which Python 3.9 lacks; their number was looked at.
        for buffer, array in zip(self._inputs, arrays):  # noqa: B905
            address = ctypes.c_void_p()
            call("LiteRtLockTensorBuffer", ctypes.c_void_p(buffer), ctypes.byref(address), _WRITE)
            ctypes.memmove(address, array.ctypes.data, array.nbytes)
            call("LiteRtUnlockTensorBuffer", ctypes.c_void_p(buffer))

    def run(self) -> None:
        self._library.call(
            "LiteRtRunCompiledModel",
            self._compiled,
            ctypes.c_size_t(0),
            ctypes.c_size_t(len(self._inputs)),
            self._inputs,
            ctypes.c_size_t(len(self._outputs)),
            self._outputs,
        )

    def events(self) -> list[Event]:
        """The events of one run."""
        library, profiler = self._library, self._profiler
        library.call("LiteRtResetProfiler", profiler)
        library.call("LiteRtStartProfiler", profiler)
        self.run()
        library.call("LiteRtStopProfiler", profiler)
        count = ctypes.c_int()
        library.call("LiteRtGetNumProfilerEvents", profiler, ctypes.byref(count))
        # A pattern that no number of an event is likely to end with marks what was not written.
        raw = bytearray([_UNTOUCHED]) * (_ROOM * max(count.value, 1))
        memory = (ctypes.c_char * len(raw)).from_buffer(raw)
        library.call("LiteRtGetProfilerEvents", profiler, count, memory)
        return decode(bytes(raw), count.value)


def decode(raw: bytes, count: int) -> list[Event]:
    """Events from the memory they were written to, whose rest still holds _UNTOUCHED.

    An event begins with the address of its tag, its type and two times, and ends with two numbers and where
    it comes from; between those stand two readings of memory, of 16 to 32 bytes each.
    """
    if not count:
        return []
    written = len(raw.rstrip(bytes([_UNTOUCHED])))
    # Rounded up, as the last event's own end may look untouched, and to 8, at which structures with addresses
    # are aligned.
    size = -(-written // count)
    size += -size % 8
    found: list[Event] = []
    for start in range(0, count * size, size):
        address, kind, begin, micros = _numbers(raw, start, 4)
        # From the end, since the readings of memory in the middle are what differs in size between versions.
        node, subgraph, _ = _numbers(raw, start + size - 24, 3)
        tag = ctypes.string_at(address).decode("utf-8", "replace") if address else ""
        # The type is an int of C; the other half of its eight bytes is padding, which may hold anything.
        found.append(Event(tag, kind & 0xFFFFFFFF, begin, micros, node, subgraph))
    return found


def _numbers(raw: bytes, start: int, count: int) -> list[int]:
    return [int.from_bytes(raw[i : i + 8], sys.byteorder) for i in range(start, start + 8 * count, 8)]


def events(
    content: bytes | str,
    threads: int,
    arrays: Sequence[Any],
    runs: int,
    warmup: int,
    others: Sequence[Sequence[Any]] = (),
) -> list[list[Event]]:
    """The events of each run of a .tflite file.

    Args:
        content: the file's bytes, or its path.
        threads: that it may use.
        arrays: for each input one, which lies in a row in memory.
        runs, warmup: runs that count, and runs before them.
        others: samples of the same sizes, which runs take in turns with the first.

    Raises:
        RecorderError: this LiteRT has no such profiler, or does not run the model through it.
    """
    session = _Session(content, threads, arrays)
    for _ in range(warmup):
        session.run()
    samples, found = [arrays, *others], []
    for turn in range(runs):
        if others:
            session.feed(samples[turn % len(samples)])
        found.append(session.events())
    return found
