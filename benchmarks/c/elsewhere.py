"""Networks in C on processors that QEMU plays, and under what watches memory: sums of all their values."""

from __future__ import annotations

import platform
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

from benchmarks.c.boards import BOARDS, ROOMIEST, roomy
from benchmarks.c.linux import MACHINES, DoesNotFit, Machine, build, kept_running, play
from thinflow.lower.c.convert import C_TYPES, Network
from thinflow.lower.c.flow import EFFECTS
from thinflow.lower.c.layer import Layer, State
from thinflow.lower.c.plan import plan
from thinflow.lower.c.write import Writer
from thinflow.tflite.model import Tensor
from thinflow.typing import Array

Feed: TypeAlias = "Sequence[Array]"
_TIMEOUT = 900
_GROWTH = 8
"""Times as many inputs at most as before: the fewer ran, the less they tell of others."""
_AT_ONCE = 300.0
"""Seconds of a processor that one run of QEMU takes at most, or the machine's other work may end it."""
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
        machine: what runs its program.
        larger: what runs a program that the machine has no memory for.
    """

    cpu: str
    machine: Machine
    larger: Machine | None = None

    def built(
        self, files: Mapping[str, str], name: str, input_bytes: int, output_bytes: int, to: Path
    ) -> Machine:
        """The machine that a program was compiled for; see `build`.

        Raises:
            DoesNotFit: none has the memory.
        """
        if self.larger is not None:
            with suppress(DoesNotFit):
                build(self.machine, files, name, input_bytes, output_bytes, to)
                return self.machine
        last = self.larger or self.machine
        build(last, files, name, input_bytes, output_bytes, to)
        return last


PLACES: dict[str, Place] = {
    name: Place(name, roomy(board), None if name == ROOMIEST else roomy(BOARDS[ROOMIEST], board))
    for name, board in BOARDS.items()
}
PLACES |= {
    "aarch64": Place("cortex-a53", MACHINES["cortex-a53"]),
    "armhf": Place("generic", Machine("arm-linux-gnueabihf-gcc", "qemu-arm", (), "max")),
}
if platform.machine() in ("x86_64", "AMD64"):
    # Kernels that any such processor runs; those of this one are compared layer by layer.
    PLACES["x86-64"] = Place("x86-64", Machine("gcc", "", (), ""))


def refusal(place: Place) -> str | None:
    """Why nothing runs there; None if it does."""
    return place.machine.missing()


def played(
    made: Network,
    place: Place,
    feeds: Sequence[Feed],
    tensors: Sequence[Tensor],
    whole: Sequence[Tensor],
    first: int,
    seconds: float,
) -> tuple[Array, list[Array]]:
    """Sums of values, uint32 [inputs, values], and outputs as they are, [inputs, *shape] each: of the first
    inputs, and of as many more as there is time for.

    Args:
        made: every operator by itself, none left out.
        place: where.
        feeds: inputs.
        tensors: the values that are summed.
        whole: outputs that are handed out as they are.
        first: how many run in any case.
        seconds: of a processor that all of it takes, or little more.

    Raises:
        RuntimeError: it does not fit there, or did not end.
    """
    size = 4 * len(tensors) + sum(t.size_bytes or 0 for t in whole)
    with tempfile.TemporaryDirectory(prefix="thinflow-c-") as name:
        folder, files = Path(name), probing(made, tensors, whole)
        machine = place.built(files, "probe", _packed(feeds[:1]).shape[1], size, folder)
        raw = _within(seconds, first, feeds, lambda part: play(machine, folder, _packed(part), size))
    ends = np.cumsum([4 * len(tensors), *(t.size_bytes or 0 for t in whole)])
    sums, *parts = (np.ascontiguousarray(part) for part in np.split(raw, ends[:-1], axis=1))
    outputs = [
        part.view(t.dtype.numpy()).reshape(len(raw), *(n or 0 for n in t.shape or ()))
        for part, t in zip(parts, whole, strict=True)
    ]
    return sums.view(np.uint32), outputs


class Played:
    """A network on a machine, which answers input by input, as a library does in this process.

    Args:
        network: to be compiled and run.
        place: where.
        stack: ends it.

    Raises:
        RuntimeError: it does not compile, or does not fit there.
    """

    def __init__(self, network: Network, place: Place, stack: ExitStack) -> None:
        self.network, self.outputs = network, list(dict.fromkeys(network.block.outputs))
        self.size = sum(t.size_bytes or 0 for t in self.outputs)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="thinflow-c-")))
        files = probing(network, [], self.outputs)
        sizes = [-(-(t.size_bytes or 0) // 8) * 8 for t in dict.fromkeys(network.block.inputs)]
        machine = place.built(files, "probe", sum(sizes), self.size, folder)
        self.ends = stack.enter_context(kept_running(machine, folder))

    def restart(self) -> None:
        """Nothing: the probe begins each run anew."""

    def run(self, feeds: Sequence[Array]) -> list[Array]:
        """What it answers."""
        to, back = self.ends
        to.write(_packed([feeds]).tobytes())
        to.flush()
        raw = np.frombuffer(back.read(self.size), np.uint8)
        if len(raw) < self.size:
            raise RuntimeError("a run did not end")
        at = np.cumsum([0, *(t.size_bytes or 0 for t in self.outputs)])
        found = {
            t: raw[a:b].view(t.dtype.numpy()).reshape([n or 0 for n in t.shape or ()])
            for t, a, b in zip(self.outputs, at, at[1:], strict=False)
        }
        return [found[t] for t in self.network.outputs]


def _within(
    seconds: float, first: int, feeds: Sequence[Feed], run: Callable[[Sequence[Feed]], Array]
) -> Array:
    """What comes of the first inputs, and of as many more as there is time for."""
    found: list[Array] = []
    done, size, took = 0, first, list[tuple[int, float]]()
    while done < len(feeds) and size > 0:
        size, began = min(size, len(feeds) - done), _spent()
        found.append(run(feeds[done : done + size]))
        done += size
        took.append((size, _spent() - began))
        left = min(seconds - sum(s for _, s in took), _AT_ONCE)
        size = min(_inputs_in(left, took), size * _GROWTH)
    return np.concatenate(found)


def _spent() -> float:
    """Seconds of a processor that programs took until now: other work on the machine counts for nothing."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _inputs_in(seconds: float, took: Sequence[tuple[int, float]]) -> int:
    """How many inputs run in so many seconds, by how long those took that ran, start included."""
    (few, first), (more, last) = took[0], took[-1]
    each = (last - first) / (more - few) if more > few and last > first else first / few
    return int((seconds - max(first - few * each, 0.0)) / each)


def watched(made: Network, feeds: Sequence[Feed], command: str) -> str:
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
                packed, size, to = _packed(feeds), 4 * len(outputs), Path(folder)
                build(machine, files, "probe", packed.shape[1], size, to, level="-O1", flags=flags)
                play(machine, to, packed, size)
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


class Probed(Writer):
    """Writes a network that sums values as soon as they are there: memory is planned as in any other.

    Args:
        network: what to write.
        name: the name of the files, without a suffix.
        watched: the values; each byte counts by a factor of its place.
    """

    def __init__(self, network: Network, name: str, watched: Sequence[Tensor]) -> None:
        super().__init__(network, name)
        self.numbers = {tensor: number for number, tensor in enumerate(watched)}

    def _layer(self, number: int, layer: Layer) -> Iterator[str]:
        yield from super()._layer(number, layer)
        operator = layer.operator
        # What opens and closes loops and branches copies to what it reads.
        written = [*operator.outputs, *(operator.reads() if operator.code in EFFECTS else ())]
        for tensor in dict.fromkeys(written):
            if tensor in self.numbers:
                yield f"    {self._summed(tensor)}"

    def _summed(self, tensor: Tensor) -> str:
        size = tensor.size_bytes or 0
        return f"probe_sums[{self.numbers[tensor]}] = probe_sum({self._place(tensor)}, {size});"


def probing(made: Network, tensors: Sequence[Tensor], whole: Sequence[Tensor] = ()) -> dict[str, str]:
    """The files of a network with those of its probe: name -> text."""
    # Memory as it is when nobody looks on.
    made = replace(made, plan=plan(made.block, made.layers))
    files = Probed(made, "net", tensors).files()
    declared = "extern uint32_t *probe_sums;\nuint32_t probe_sum(const void *from, size_t count);\n"
    first, included, rest = files["net.c"].partition("#include <string.h>\n")
    files["net.c"] = f"{first}{included}{declared}{rest}"
    files["probe.c"] = probe(made, tensors, whole)
    files["probe.h"] = "void probe_run(const void *in, void *out);\n"
    return files


def probe(made: Network, tensors: Sequence[Tensor], whole: Sequence[Tensor] = ()) -> str:
    """C that runs a network in memory of its own, and leaves sums of the bytes of values, and outputs.

    Behind the sums lie the outputs that are wanted whole.
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
        "uint32_t *probe_sums;",
        "uint32_t probe_sum(const void *from, size_t count);",
        "uint32_t probe_sum(const void *from, size_t count)",
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
        "    probe_sums = out;",
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
    # What is an input, or one in other sizes, is no layer's.
    for n, t in enumerate(tensors):
        owner = made.plan.buffers[t].owner
        if owner in inputs:
            lines.append(f"    probe_sums[{n}] = probe_sum({places[owner]}, {t.size_bytes or 0});")
    if whole:
        lines.append(f"    uint8_t *to = (uint8_t *)(probe_sums + {len(tensors)});")
    for t in whole:
        lines += [f"    memcpy(to, {places[t]}, sizeof {places[t]});", f"    to += sizeof {places[t]};"]
    return "\n".join([*lines, "}", ""])


def _count(tensor: Tensor) -> int:
    return (tensor.size_bytes or 0) // tensor.dtype.itemsize


def _padded(array: Array) -> bytes:
    raw = np.ascontiguousarray(array).tobytes()
    return raw + bytes(-len(raw) % 8)


def _packed(feeds: Sequence[Feed]) -> Array:
    """uint8 [inputs, bytes]."""
    return np.stack([np.frombuffer(b"".join(map(_padded, feed)), np.uint8) for feed in feeds])
