"""Programs that read inputs and write answers, on processors that QEMU plays: those with Linux in its user
mode, and boards of much memory.

Instructions are counted by a plugin of QEMU, see firmware/counting.c: those of a program that runs the
network twice, less those of one that runs it once. They are the same on every machine and under every load.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from thinflow.typing import Array

FIRMWARE = Path(__file__).parent / "firmware"
_TIMEOUT = 3600
_FULL = "more memory than the board has"
"""What room.ld says."""
_BOARD = (
    "-nographic",
    "-monitor",
    "none",
    "-serial",
    "none",
    "-semihosting-config",
    "enable=on,target=native",
)
_FILES = ("-semihosting-config", "enable=on,target=native", "-kernel", "program")
_QUIET = {"QEMU_AUDIO_DRV": "none"}
_COUNT = re.compile(r"^instructions (?P<count>\d+)$", re.MULTILINE)


class DoesNotFit(RuntimeError):
    """A program needs more memory than a board has."""


@dataclass(frozen=True)
class Machine:
    """A processor, and what compiles and runs programs for it.

    Attributes:
        compiler, player: their commands; no player for programs of this machine.
        flags: what the compiler is told.
        model: QEMU's name of the processor.
        start: what the compiler is given to begin with, where it has no C library of Linux.
        board: QEMU's name of a board that has no Linux: its program reads one file and writes another.
    """

    compiler: str
    player: str
    flags: tuple[str, ...]
    model: str
    start: tuple[str, ...] = ()
    board: str = ""

    def missing(self) -> str | None:
        """Why nothing can run here; None if it can."""
        absent = [tool for tool in (self.compiler, self.player) if tool and shutil.which(tool) is None]
        return f"{' and '.join(absent)} not found" if absent else None


_ARM64 = "aarch64-linux-gnu-gcc", "qemu-aarch64"
_ARM32 = "arm-linux-gnueabihf-gcc", "qemu-arm"
MACHINES = {
    "cortex-a53": Machine(*_ARM64, ("-mcpu=cortex-a53",), "cortex-a53"),
    "cortex-a72": Machine(*_ARM64, ("-mcpu=cortex-a72",), "cortex-a72"),
    # QEMU 7.2 has no Cortex-A55; what it is compiled for, the A76 has as well.
    "cortex-a55": Machine(*_ARM64, ("-mcpu=cortex-a55",), "cortex-a76"),
    "cortex-a76": Machine(*_ARM64, ("-mcpu=cortex-a76",), "cortex-a76"),
    "cortex-a53 in 32 bits": Machine(*_ARM32, ("-mcpu=cortex-a53", "-mfpu=neon-fp-armv8"), "max"),
    "cortex-a76 in 32 bits": Machine(*_ARM32, ("-march=armv8.2-a+dotprod", "-mfpu=neon-fp-armv8"), "max"),
    "riscv32imc": Machine(
        "riscv64-unknown-elf-gcc",
        "qemu-riscv32",
        ("-march=rv32imc", "-mabi=ilp32", "--specs=picolibc.specs"),
        "rv32",
        (
            str(FIRMWARE / "riscv.c"),
            "-nostartfiles",
            "-Wl,--defsym=__flash=0x10000,--defsym=__flash_size=8M,--defsym=__ram=0x1000000,--defsym=__ram_size=8M",
        ),
    ),
}


@dataclass(frozen=True)
class LinuxRun:
    """What a network did on a machine.

    Attributes:
        instructions: of a run of the first input; 0 where they were not counted.
        answers: uint8 [samples, bytes] what the network answered.
    """

    instructions: int
    answers: Array


_MAIN = """#include "{name}.h"

long read(int file, void *bytes, unsigned long count);
long write(int file, const void *bytes, unsigned long count);

static union {{ unsigned char bytes[{input_bytes}]; double aligned; }} in;
static union {{ unsigned char bytes[{output_bytes}]; double aligned; }} out;

int main(int count, char **arguments)
{{
    const int times = count > 1 ? arguments[1][0] - '0' : 1;
    for (;;) {{
        for (unsigned long got = 0; got < {input_bytes};) {{
            const long more = read(0, in.bytes + got, {input_bytes} - got);
            if (more <= 0) {{
                return 0;
            }}
            got += (unsigned long)more;
        }}
        for (int i = 0; i < times; i++) {{
            {name}_run((void *)in.bytes, (void *)out.bytes);
        }}
        if (write(1, out.bytes, {output_bytes}) < 0) {{
            return 1;
        }}
    }}
}}
"""


def run_on_linux(
    machine: Machine,
    files: Mapping[str, str],
    name: str,
    inputs: Array,
    output_bytes: int,
    folder: Path,
    *,
    level: str = "-O2",
    flags: tuple[str, ...] = (),
    is_counted: bool = True,
) -> LinuxRun:
    """Compile a network for a machine and run it there.

    Args:
        machine: one of `MACHINES`.
        files: the network, name -> text; `name`.h among them.
        name: of the network.
        inputs: uint8 [samples, bytes] as they lie in memory.
        output_bytes: of an answer.
        folder: to work in.
        level: of optimisation.
        flags: more for the compiler.
        is_counted: whether instructions are counted, which takes two more runs.
    """
    build(machine, files, name, inputs.shape[1], output_bytes, folder, level=level, flags=flags)
    answers = play(machine, folder, inputs, output_bytes)
    spent = 0
    if is_counted:
        counting, feed = plugin(folder), inputs[0].tobytes()
        once, twice = (
            _counted([*_player(machine), "-plugin", str(counting), "./program", times], folder, feed)
            for times in ("1", "2")
        )
        spent = twice - once
    return LinuxRun(spent, answers)


def build(
    machine: Machine,
    files: Mapping[str, str],
    name: str,
    input_bytes: int,
    output_bytes: int,
    folder: Path,
    *,
    level: str = "-O2",
    flags: tuple[str, ...] = (),
) -> None:
    """Compile a program that runs a network on each input it reads; see `run_on_linux`.

    Raises:
        DoesNotFit: the board has less memory.
        RuntimeError: it does not compile.
    """
    for file, text in files.items():
        (folder / file).write_text(text)
    main = _MAIN.format(name=name, input_bytes=input_bytes, output_bytes=output_bytes)
    (folder / "main.c").write_text(main)
    sources = ["main.c", *(file for file in files if file.endswith(".c"))]
    built = [machine.compiler, "-std=c99", level, "-ffp-contract=off", *machine.flags, *flags]
    static = ["-static"] if machine.player else []
    try:
        _done([*built, *static, *machine.start, *sources, "-lm", "-o", "program"], folder)
    except RuntimeError as error:
        if _FULL in str(error):
            raise DoesNotFit(f"{machine.board}: {_FULL}") from error
        raise


def play(machine: Machine, folder: Path, inputs: Array, output_bytes: int) -> Array:
    """uint8 [samples, bytes]: what a program that was built in a folder answers.

    Raises:
        RuntimeError: it did not end well.
    """
    if machine.board:
        (folder / "in.bin").write_bytes(inputs.tobytes())
        (folder / "out.bin").unlink(missing_ok=True)
        _done(
            [machine.player, "-machine", machine.board, *_BOARD, "-kernel", "program"],
            folder,
            environment=_QUIET,
        )
        raw = (folder / "out.bin").read_bytes()
    else:
        raw = _done([*_player(machine), "./program"], folder, inputs.tobytes()).stdout
    if len(raw) != len(inputs) * output_bytes:
        raise RuntimeError(f"{len(raw) // output_bytes} of {len(inputs)} runs ended")
    return np.frombuffer(raw, np.uint8).reshape(len(inputs), output_bytes)


@contextmanager
def kept_running(machine: Machine, folder: Path) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """A program that was built in a folder: where its inputs are written to, and its answers read from."""
    if not machine.board:
        command = [*_player(machine), "./program"]
        with subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            yield process.stdin, process.stdout
            process.stdin.close()
        return
    for name in ("in.bin", "out.bin"):
        os.mkfifo(folder / name)
    silent = {"stdin": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    command, environment = _on_board(machine), {**os.environ, **_QUIET}
    with subprocess.Popen(command, cwd=folder, env=environment, **silent) as process:
        try:
            # In the order in which the program opens them: each waits for the other end.
            with (folder / "in.bin").open("wb") as to, (folder / "out.bin").open("rb") as back:
                yield to, back
        finally:
            process.terminate()


def _on_board(machine: Machine) -> list[str]:
    return [machine.player, "-machine", machine.board, *_BOARD, *_FILES]


def _player(machine: Machine) -> list[str]:
    """What begins a command; nothing for what runs here."""
    return [machine.player, "-cpu", machine.model] if machine.player else []


def plugin(folder: Path) -> Path:
    """The plugin that counts, compiled for this machine."""
    made = folder / "counting.so"
    if not made.exists():
        _done(["gcc", "-shared", "-fPIC", "-O2", str(FIRMWARE / "counting.c"), "-o", str(made)], folder)
    return made


def _counted(command: list[str], folder: Path, feed: bytes) -> int:
    found = _COUNT.search(_done(command, folder, feed).stderr.decode())
    if found is None:
        raise RuntimeError(f"{command[0]} told no instructions")
    return int(found["count"])


def _done(
    command: list[str], folder: Path, feed: bytes = b"", environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run(
        command,
        cwd=folder,
        input=feed,
        capture_output=True,
        timeout=_TIMEOUT,
        env={**os.environ, **(environment or {})},
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]}: {done.stderr.decode(errors='replace')[-2000:]}")
    return done
