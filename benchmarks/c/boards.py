"""Boards that QEMU plays, and runs of a network's C on them.

Instructions are counted by the board's own timer: with `-icount shift=0` an instruction takes a nanosecond,
and SysTick counts the cycles of the board's clock in that time. They are the same on every machine and under
every load.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.c.linux import FIRMWARE, Machine
from thinflow.typing import Array

_TIMEOUT = 300
_STACK = 0x8000
"""Bytes that `link.ld` keeps for it."""


@dataclass(frozen=True)
class Board:
    """A machine of qemu-system-arm.

    Attributes:
        machine: QEMU's name of it.
        flags: what the compiler is told.
        flash, ram: where they begin.
        flash_bytes, ram_bytes: how large QEMU makes them.
        tick: instructions between two counts of SysTick, nanoseconds of its clock.
        room: where there is more memory, behind a bus that a processor would wait for, and QEMU does not.
        room_bytes: how much of it.
    """

    machine: str
    flags: tuple[str, ...]
    flash: int = 0
    ram: int = 0x20000000
    tick: float = 40.0
    flash_bytes: int = 4 << 20
    ram_bytes: int = 4 << 20
    room: int = 0x21000000
    room_bytes: int = 16 << 20


_HARD = ("-mfloat-abi=hard",)
BOARDS = {
    # Code of a Cortex-M0 runs as it is on a Cortex-M3; no board of QEMU with the former has the memory.
    "cortex-m0": Board("mps2-an385", ("-mcpu=cortex-m0",)),
    "cortex-m3": Board("mps2-an385", ("-mcpu=cortex-m3",)),
    "cortex-m4": Board("mps2-an386", ("-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", *_HARD)),
    "cortex-m7": Board("mps2-an500", ("-mcpu=cortex-m7", "-mfpu=fpv5-sp-d16", *_HARD), room=0x60000000),
    "cortex-m33": Board(
        "mps2-an505",
        ("-mcpu=cortex-m33", "-mfpu=fpv5-sp-d16", *_HARD),
        0x10000000,
        0x38000000,
        50.0,
        room=0x80000000,
    ),
    "cortex-m55": Board(
        "mps3-an547",
        ("-mcpu=cortex-m55", *_HARD),
        tick=31.25,
        flash_bytes=512 << 10,
        ram_bytes=512 << 10,
        room=0x60000000,
        room_bytes=256 << 20,
    ),
}


ROOMIEST = "cortex-m55"
"""The board of most memory: its processor runs what is compiled for any of the others."""


def roomy(board: Board, code_of: Board | None = None) -> Machine:
    """A board as a machine for programs that read and write files, all in its larger memory.

    Args:
        board: what plays them.
        code_of: whose processor they are compiled for; the board's own if not given.
    """
    places = {"VECTORS_AT": board.flash, "ROOM_AT": board.room, "ROOM_BYTES": board.room_bytes}
    start = [
        str(FIRMWARE / "files.c"),
        "-nostartfiles",
        "--specs=nosys.specs",
        f"-Wl,-T,{FIRMWARE / 'room.ld'}",
    ]
    start += [f"-Wl,--defsym={name}={value}" for name, value in places.items()]
    flags = (*(code_of or board).flags, "-mthumb", "-ffunction-sections", "-Wl,--gc-sections")
    return Machine("arm-none-eabi-gcc", "qemu-system-arm", flags, "", tuple(start), board.machine)


@dataclass(frozen=True)
class Run:
    """What a network did on a board.

    Attributes:
        instructions: of the longest run, to within a tick or two.
        flash_bytes: code and constants, start-up and what it takes of the C library included, inputs not.
        ram_bytes: static memory, the arena among it.
        stack_bytes: the deepest the stack was.
        answers: uint8 [samples, bytes] what the network answered.
        layers: instructions of each layer of the last run, where the network's C tells when they end.
    """

    instructions: int
    flash_bytes: int
    ram_bytes: int
    stack_bytes: int
    answers: Array
    layers: list[int] = field(default_factory=list)


def missing() -> str | None:
    """Why nothing can run here; None if it can."""
    absent = [t for t in ("arm-none-eabi-gcc", "qemu-system-arm") if shutil.which(t) is None]
    return f"{' and '.join(absent)} not found" if absent else None


def run_on(
    board: Board,
    files: Mapping[str, str],
    name: str,
    inputs: Array,
    output_bytes: int,
    folder: Path,
    *,
    level: str = "-O2",
    run: str = "{name}_run((const void *)(in), (void *)(out))",
) -> Run:
    """Compile a network for a board and run it there.

    Args:
        board: one of `BOARDS`.
        files: the network, name -> text; `name`.h among them.
        name: of the network.
        inputs: uint8 [samples, bytes] as they lie in memory.
        output_bytes: of an answer.
        folder: to work in.
        level: of optimisation.
        run: the call in C.

    Raises:
        RuntimeError: it does not fit the board, or a run did not end.
    """
    for file, text in files.items():
        (folder / file).write_text(text)
    (folder / "samples.bin").write_bytes(np.ascontiguousarray(inputs).tobytes())
    (folder / "samples.S").write_text(
        '.section .samples,"a"\n.balign 8\n.global samples\nsamples:\n.incbin "samples.bin"\n'
    )
    sources = [file for file in files if file.endswith(".c")]
    settings = {
        "NETWORK_HEADER": f'"{name}.h"',
        "RUN(in,out)": run.format(name=name),
        "SAMPLES": len(inputs),
        "INPUT_BYTES": inputs.shape[1],
        "OUTPUT_BYTES": output_bytes,
    }
    _compile(
        [
            *board.flags,
            "-mthumb",
            level,
            "-std=c99",
            "-ffunction-sections",
            "-fdata-sections",
            *(f"-D{key}={value}" for key, value in settings.items()),
            "-I.",
            str(FIRMWARE / "start.c"),
            *sources,
            "samples.S",
            "-nostartfiles",
            "--specs=nosys.specs",
            "-Wl,--gc-sections",
            f"-Wl,-T,{FIRMWARE / 'link.ld'}",
            f"-Wl,--defsym=FLASH_AT={board.flash},--defsym=RAM_AT={board.ram}",
            "-o",
            "firmware.elf",
            "-lm",
        ],
        folder,
    )
    flash, ram = _sizes(folder / "firmware.elf")
    _require_room(board, flash + inputs.size, ram + _STACK + inputs.shape[1] + output_bytes)
    lines = _qemu(board, folder / "firmware.elf")
    answers = [bytes.fromhex(line[7:]) for line in lines if line.startswith("answer ")]
    if len(answers) != len(inputs):
        raise RuntimeError(f"{len(answers)} of {len(inputs)} runs on {board.machine} ended")
    numbers = dict(line.split() for line in lines if line.split()[0] in ("ticks", "stack"))
    return Run(
        instructions=round(int(numbers["ticks"]) * board.tick),
        flash_bytes=flash,
        ram_bytes=ram,
        stack_bytes=int(numbers["stack"]),
        answers=np.array([np.frombuffer(a, np.uint8) for a in answers]),
        layers=[round(int(line[6:]) * board.tick) for line in lines if line.startswith("layer ")],
    )


def _require_room(board: Board, flash: int, ram: int) -> None:
    """Refuse what would fault where the board has no memory, or run over what lies there.

    Raises:
        RuntimeError: it is too large.
    """
    for what, needed, there in (
        ("code and inputs", flash, board.flash_bytes),
        ("memory", ram, board.ram_bytes),
    ):
        if needed > there:
            raise RuntimeError(f"{needed:,} bytes of {what} are more than the {there:,} of {board.machine}")


def _compile(arguments: Sequence[str], folder: Path) -> None:
    done = subprocess.run(
        ["arm-none-eabi-gcc", *arguments], cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT
    )
    if done.returncode:
        raise RuntimeError(f"arm-none-eabi-gcc: {done.stderr[-2000:]}")


def _sizes(elf: Path) -> tuple[int, int]:
    """Bytes of flash and of static memory, without what is there for the measurement."""
    done = subprocess.run(["arm-none-eabi-size", "-A", str(elf)], capture_output=True, text=True, check=True)
    rows = [line.split() for line in done.stdout.splitlines()]
    sizes = {row[0]: int(row[1]) for row in rows if len(row) == 3 and row[0].startswith(".")}
    flash = sum(sizes.get(s, 0) for s in (".vectors", ".text", ".rodata", ".ARM.exidx", ".data"))
    return flash, sizes.get(".data", 0) + sizes.get(".bss", 0)


def _qemu(board: Board, elf: Path) -> list[str]:
    command = ["qemu-system-arm", "-machine", board.machine, "-icount", "shift=0"]
    command += ["-nographic", "-monitor", "none", "-serial", "none"]
    command += ["-semihosting-config", "enable=on,target=native", "-kernel", str(elf)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT,
        env={**os.environ, "QEMU_AUDIO_DRV": "none"},
    )
    # QEMU's console for semihosting is the standard error of some versions.
    return [line for line in (done.stdout + done.stderr).splitlines() if line.split(" ")[0] in _WORDS]


_WORDS = ("answer", "ticks", "stack", "layer")
