"""Networks in C on processors that QEMU plays, and under what watches memory: sums of all their values."""

from __future__ import annotations

import platform
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.c.boards import BOARDS, Board, missing, run_on
from benchmarks.c.linux import MACHINES, Machine, run_on_linux
from thinflow.lower.c.convert import C_TYPES, Network
from thinflow.lower.c.layer import State
from thinflow.lower.c.write import Writer
from thinflow.tflite.model import Tensor
from thinflow.typing import Array

_TIMEOUT = 900
_CODE_BYTES = 192 << 10
"""Kept for code where inputs lie in the same flash."""
_GROWTH = 8
"""Times as many inputs at most as before: the fewer ran, the less they tell of others."""
_SANITIZERS = (
    (("-fsanitize=address,undefined", "-fno-sanitize-recover=all"), "clean"),
    # Traps need no library.
    (
        ("-fsanitize=undefined", "-fsanitize-trap=undefined"),
        "clean (undefined only: its library for addresses is missing)",
    ),
)


@dataclass(frozen=True)
class Place:
    """Where a network runs.

    Attributes:
        cpu: that its kernels are for.
        board: a machine of QEMU; None for programs of Linux.
        machine: that runs these.
    """

    cpu: str
    board: Board | None = None
    machine: Machine | None = None


PLACES: dict[str, Place] = {name: Place(name, board) for name, board in BOARDS.items()}
PLACES |= {
    "aarch64": Place("cortex-a53", None, MACHINES["cortex-a53"]),
    "armhf": Place("generic", None, Machine("arm-linux-gnueabihf-gcc", "qemu-arm", (), "max")),
}
if platform.machine() in ("x86_64", "AMD64"):
    # Kernels that any such processor runs; those of this one are compared layer by layer.
    PLACES["x86-64"] = Place("x86-64", None, Machine("gcc", "", (), ""))


def refusal(place: Place) -> str | None:
    """Why nothing runs there; None if it does."""
    return missing() if place.machine is None else place.machine.missing()


def left_by(
    made: Network,
    place: Place,
    feeds: Sequence[Sequence[Array]],
    tensors: Sequence[Tensor],
    whole: Sequence[Tensor] = (),
) -> Array:
    """uint8 [inputs, bytes]: what runs leave, see `probe`.

    Args:
        made: of which everything is kept.
        place: where.
        feeds: inputs.
        tensors: the values that are summed.
        whole: outputs that are handed out as they are.

    Raises:
        RuntimeError: it does not fit there, or did not end.
    """
    files, packed = probing(made, tensors, whole), _packed(feeds)
    size = 4 * len(tensors) + sum(t.size_bytes or 0 for t in whole)
    with tempfile.TemporaryDirectory(prefix="thinflow-c-") as folder:
        if place.board is not None:
            return run_on(place.board, files, "probe", packed, size, Path(folder)).answers
        assert place.machine is not None
        return _on_linux(place.machine, files, packed, size, folder)


def played(
    made: Network,
    place: Place,
    feeds: Sequence[Sequence[Array]],
    tensors: Sequence[Tensor],
    whole: Sequence[Tensor],
    first: int,
    seconds: float,
) -> tuple[Array, list[Array]]:
    """Sums of values, uint32 [inputs, values], and outputs as they are, [inputs, *shape] each: of the first
    inputs, and of as many more as there is time for.

    Args:
        made, place, feeds, tensors, whole: see `left_by`.
        first: how many run in any case.
        seconds: of a processor that all of it takes, or little more.

    Raises:
        RuntimeError: it does not fit there, or did not end.
    """
    found: list[Array] = []
    done, size, took = 0, first, list[tuple[int, float]]()
    most = _inputs_at_once(made, place, feeds[0])
    while done < len(feeds) and size > 0:
        size, began = min(size, most, len(feeds) - done), _spent()
        found.append(left_by(made, place, feeds[done : done + size], tensors, whole))
        done += size
        took.append((size, _spent() - began))
        size = min(_inputs_in(seconds - sum(s for _, s in took), took), size * _GROWTH)
    raw = np.concatenate(found)
    ends = np.cumsum([4 * len(tensors), *(t.size_bytes or 0 for t in whole)])
    sums, *parts = (np.ascontiguousarray(part) for part in np.split(raw, ends[:-1], axis=1))
    outputs = [
        part.view(t.dtype.numpy()).reshape(len(raw), *(n or 0 for n in t.shape or ()))
        for part, t in zip(parts, whole, strict=True)
    ]
    return sums.view(np.uint32), outputs


def _spent() -> float:
    """Seconds of a processor that programs took until now: other work on the machine counts for nothing."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _inputs_in(seconds: float, took: Sequence[tuple[int, float]]) -> int:
    """How many inputs run in so many seconds, by how long the first so many took, compilation included."""
    (few, first), (more, last) = took[0], took[-1]
    each = (last - first) / (more - few) if more > few and last > first else first / few
    return int((seconds - max(first - few * each, 0.0)) / each)


def _inputs_at_once(made: Network, place: Place, feed: Sequence[Array]) -> int:
    """Inputs that lie in the flash of a board beside the network; any number elsewhere."""
    if place.board is None:
        return 1 << 30
    left = place.board.flash_bytes - made.weights_bytes - _CODE_BYTES
    # What does not fit by itself is told when it is made.
    return max(left // max(sum(map(len, map(_padded, feed))), 1), 1)


def watched(made: Network, feeds: Sequence[Sequence[Array]], command: str) -> str:
    """What a compiler's sanitizers say of runs: "clean", or their first line.

    Args:
        made: a network.
        feeds: inputs.
        command: of the compiler.
    """
    if shutil.which(command) is None:
        return f"{command} not found"
    outputs = [t for t in dict.fromkeys(made.block.outputs) if t not in made.block.inputs]
    files = probing(made, outputs)
    # Nothing is allocated, and what looks for leaks does not run everywhere.
    options = "const char *__asan_default_options(void)"
    files["probe.c"] += f'{options};\n{options}\n{{\n    return "detect_leaks=0";\n}}\n'
    machine = Machine(command, "", ("-g",), "")
    for flags, told in _SANITIZERS:
        with tempfile.TemporaryDirectory(prefix="thinflow-c-") as folder:
            try:
                choices = {"level": "-O1", "flags": flags}
                _on_linux(machine, files, _packed(feeds), 4 * len(outputs), folder, **choices)
            except RuntimeError as error:
                if "cannot find" in str(error):
                    continue
                return f"runtime error: {error}"[:200]
        return told
    return f"{command} has no sanitizers"


def compile_seconds(made: Network) -> float:
    """Seconds of a processor that GCC takes at -O2 for all files of a network."""
    with tempfile.TemporaryDirectory(prefix="thinflow-c-") as folder:
        files = Writer(made, "net").files()
        for name, text in files.items():
            (Path(folder) / name).write_text(text)
        before = _spent()
        for name in files:
            if name.endswith(".c"):
                subprocess.run(
                    ["gcc", "-std=c99", "-O2", "-c", name], cwd=folder, check=True, timeout=_TIMEOUT
                )
        return _spent() - before


def probing(made: Network, tensors: Sequence[Tensor], whole: Sequence[Tensor] = ()) -> dict[str, str]:
    """The files of a network with those of its probe: name -> text."""
    files = Writer(made, "net").files()
    files["probe.c"] = probe(made, tensors, whole)
    files["probe.h"] = "void probe_run(const void *in, void *out);\n"
    return files


def probe(made: Network, tensors: Sequence[Tensor], whole: Sequence[Tensor] = ()) -> str:
    """C that runs a network in memory of its own, and leaves sums of the bytes of values, and outputs.

    Each byte counts by a factor of its place. Behind the sums lie the outputs that are wanted whole.
    """
    block = made.block
    inputs = list(dict.fromkeys(block.inputs))
    outputs = [t for t in dict.fromkeys(block.outputs) if t not in inputs]
    states = [a for layer in made.layers for a in layer.arguments() if isinstance(a, State)]
    lines = ["#include <stddef.h>", "#include <string.h>", '#include "net.h"', '#include "probe.h"']
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
        "void probe_run(const void *in, void *out)",
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
    if whole:
        lines.append(f"    uint8_t *to = (uint8_t *)(sums + {len(tensors)});")
    for t in whole:
        lines += [f"    memcpy(to, {places[t]}, sizeof {places[t]});", f"    to += sizeof {places[t]};"]
    return "\n".join([*lines, "}", ""])


def _count(tensor: Tensor) -> int:
    return (tensor.size_bytes or 0) // tensor.dtype.itemsize


def _padded(array: Array) -> bytes:
    raw = np.ascontiguousarray(array).tobytes()
    return raw + bytes(-len(raw) % 8)


def _packed(feeds: Sequence[Sequence[Array]]) -> Array:
    """uint8 [inputs, bytes]."""
    return np.stack([np.frombuffer(b"".join(map(_padded, feed)), np.uint8) for feed in feeds])


def _on_linux(
    machine: Machine, files: Mapping[str, str], packed: Array, size: int, folder: str, **choices: Any
) -> Array:
    """What a probe leaves of each input."""
    return run_on_linux(
        machine, files, "probe", packed, size, Path(folder), is_counted=False, **choices
    ).answers
