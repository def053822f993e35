"""Networks in C on processors that QEMU plays, and under what watches memory: sums of all their values."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.c.boards import BOARDS, FIRMWARE, Board, run_on
from thinflow.lower.c.convert import C_TYPES, Network
from thinflow.lower.c.layer import State
from thinflow.lower.c.write import Writer
from thinflow.tflite.model import Tensor
from thinflow.typing import Array

_TIMEOUT = 900
_WATCHED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
_TRAPPED = ("-fsanitize=undefined", "-fsanitize-trap=undefined")


@dataclass(frozen=True)
class Place:
    """Where a network runs.

    Attributes:
        cpu: that its kernels are for.
        board: a machine of QEMU; None for programs of a system.
        compiler, runner: of such programs.
    """

    cpu: str
    board: Board | None = None
    compiler: tuple[str, ...] = ()
    runner: tuple[str, ...] = ()


PLACES: dict[str, Place] = {name: Place(name, board) for name, board in BOARDS.items()}
PLACES |= {
    "aarch64": Place(
        "cortex-a53", None, ("aarch64-linux-gnu-gcc", "-static"), ("qemu-aarch64", "-cpu", "cortex-a53")
    ),
    "armhf": Place("generic", None, ("arm-linux-gnueabihf-gcc", "-static"), ("qemu-arm",)),
}


def refusal(place: Place) -> str | None:
    """Why nothing runs there; None if it does."""
    tools = (
        [place.compiler[0], place.runner[0]]
        if place.board is None
        else ["arm-none-eabi-gcc", "qemu-system-arm"]
    )
    absent = [t for t in tools if shutil.which(t) is None]
    return f"{' and '.join(absent)} not found" if absent else None


def hashes(made: Network, place: Place, feeds: Sequence[Sequence[Array]], tensors: Sequence[Tensor]) -> Array:
    """uint32 [inputs, values]: a sum of the bytes of each value after a run, each by a factor of its place.

    Args:
        made: of which everything is kept.
        place: where.
        feeds: inputs.
        tensors: which values.

    Raises:
        RuntimeError: it does not fit there, or did not end.
    """
    files = Writer(made, "net").files()
    files["probe.c"] = probe(made, tensors)
    files["net.h"] += "void probe(const void *in, void *out);\n"
    packed = np.stack([np.frombuffer(b"".join(map(_padded, feed)), np.uint8) for feed in feeds])
    with tempfile.TemporaryDirectory(prefix="thinflow-c-") as folder:
        if place.board is not None:
            run = run_on(
                place.board, files, "net", packed, 4 * len(tensors), Path(folder), run="probe((in), (out))"
            )
            return run.answers.view(np.uint32)
        flags = ["-std=c99", "-O2", "-ffp-contract=off"]
        program = _program([*place.compiler, *flags], files, packed, 4 * len(tensors), Path(folder))
        found = _answers([*place.runner, program], packed)
    return np.frombuffer(found, np.uint32).reshape(len(feeds), len(tensors))


def watched(made: Network, feeds: Sequence[Sequence[Array]], command: str) -> str:
    """What a compiler's sanitizers say of runs: "clean", or their first line.

    Args:
        made: a network.
        feeds: inputs.
        command: of the compiler.
    """
    if shutil.which(command) is None:
        return f"{command} not found"
    files = Writer(made, "net").files()
    outputs = [t for t in dict.fromkeys(made.block.outputs) if t not in made.block.inputs]
    files["probe.c"] = probe(made, outputs)
    files["net.h"] += "void probe(const void *in, void *out);\n"
    packed = np.stack([np.frombuffer(b"".join(map(_padded, feed)), np.uint8) for feed in feeds])
    flags = ["-std=c99", "-O1", "-g"]
    told = "clean"
    with tempfile.TemporaryDirectory(prefix="thinflow-c-") as folder:
        make = (files, packed, 4 * len(outputs), Path(folder))
        try:
            program = _program([command, *flags, *_WATCHED], *make)
        except RuntimeError as error:
            if "cannot find" not in str(error):
                raise
            # Traps need no library.
            program = _program([command, *flags, *_TRAPPED], *make)
            told = "clean (undefined only: its library for addresses is missing)"
        try:
            _answers([program], packed)
        except RuntimeError as error:
            return f"runtime error: {error}"[:200]
    return told


def compile_seconds(made: Network) -> float:
    """Seconds of a processor that GCC takes at -O2 for all files of a network."""
    with tempfile.TemporaryDirectory(prefix="thinflow-c-") as folder:
        files = Writer(made, "net").files()
        for name, text in files.items():
            (Path(folder) / name).write_text(text)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        for name in files:
            if name.endswith(".c"):
                subprocess.run(
                    ["gcc", "-std=c99", "-O2", "-c", name], cwd=folder, check=True, timeout=_TIMEOUT
                )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def probe(made: Network, tensors: Sequence[Tensor]) -> str:
    """C that runs a network in memory of its own, and leaves a sum of the bytes of each value."""
    block = made.block
    inputs = list(dict.fromkeys(block.inputs))
    outputs = [t for t in dict.fromkeys(block.outputs) if t not in inputs]
    states = [a for layer in made.layers for a in layer.arguments() if isinstance(a, State)]
    lines = ["#include <stddef.h>", '#include "net.h"', "void probe(const void *in, void *out);"]
    lines.append(
        f"static union {{ uint8_t bytes[{max(made.plan.arena_bytes, 8)}]; int64_t aligned; }} memory;"
    )
    for n, t in enumerate(outputs):
        lines.append(f"static {C_TYPES[t.dtype.name]} y{n}[{max(_count(t), 1)}];")
    if states:
        lines.append("static net_state state;")
    lines += [
        "static uint32_t sum_of(const void *from, size_t count)",
        "{",
        "    const uint8_t *bytes = from;",
        "    uint32_t sum = 0;",
        "    for (size_t i = 0; i < count; i++) {",
        "        sum += (bytes[i] + 1u) * ((uint32_t)i * 2654435761u + 1u);",
        "    }",
        "    return sum;",
        "}",
        "void probe(const void *in, void *out)",
        "{",
        "    const uint8_t *x = in;",
        "    uint32_t *sums = out;",
    ]
    at, arguments = 0, ["memory.bytes", *(["&state"] if states else [])]
    places = {}
    for t in inputs:
        places[t] = f"x + {at}"
        arguments.append(f"(const {C_TYPES[t.dtype.name]} *)(const void *)(x + {at})")
        at += -(-(t.size_bytes or 0) // 8) * 8
    arguments += [f"y{n}" for n in range(len(outputs))]
    places |= {t: f"y{n}" for n, t in enumerate(outputs)}
    if states:
        lines.append("    net_reset(&state);")
    lines.append(f"    net_run_in({', '.join(arguments)});")
    for n, t in enumerate(tensors):
        buffer = made.plan.buffers[t]
        # What is an input in other sizes lies where that does.
        owner = places.get(t) or (None if buffer.owner is None else places[buffer.owner])
        place = owner or f"memory.bytes + {buffer.offset}"
        lines.append(f"    sums[{n}] = sum_of({place}, {t.size_bytes or 0});")
    return "\n".join([*lines, "}", ""])


def _count(tensor: Tensor) -> int:
    return (tensor.size_bytes or 0) // tensor.dtype.itemsize


def _padded(array: Array) -> bytes:
    raw = np.ascontiguousarray(array).tobytes()
    return raw + bytes(-len(raw) % 8)


def _program(
    command: Sequence[str], files: Mapping[str, str], packed: Array, output_bytes: int, folder: Path
) -> str:
    """A program that reads inputs and writes what becomes of them."""
    for name, text in files.items():
        (folder / name).write_text(text)
    sizes = [f"-DINPUT_BYTES={packed.shape[1]}", f"-DOUTPUT_BYTES={output_bytes}"]
    sources = [name for name in files if name.endswith(".c")]
    run = [*command, *sizes, "-I.", str(FIRMWARE / "hosted.c"), *sources, "-o", "program", "-lm"]
    done = subprocess.run(run, cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT)
    if done.returncode:
        raise RuntimeError(f"{command[0]}: {done.stderr[-500:]}")
    return str(folder / "program")


def _answers(command: Sequence[str], packed: Array) -> bytes:
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
    done = subprocess.run(
        command, input=packed.tobytes(), capture_output=True, timeout=_TIMEOUT, env=environment
    )
    if done.returncode:
        told = [line for line in done.stderr.decode(errors="replace").splitlines() if "error" in line.lower()]
        raise RuntimeError(f"exit code {done.returncode}: {next(iter(told), '')}")
    return done.stdout
