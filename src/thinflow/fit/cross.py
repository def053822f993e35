"""Flash and stack of a network's C, exactly: by the compiler of its processor, where it is installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_HARD = "-mfloat-abi=hard"
_ARM = "arm-none-eabi-gcc"
_RISCV = "riscv64-unknown-elf-gcc"
FLAGS: dict[str, tuple[str, ...]] = {
    "cortex-m0": (_ARM, "-mthumb", "-mcpu=cortex-m0plus"),
    "cortex-m3": (_ARM, "-mthumb", "-mcpu=cortex-m3"),
    "cortex-m4": (_ARM, "-mthumb", "-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", _HARD),
    "cortex-m7": (_ARM, "-mthumb", "-mcpu=cortex-m7", "-mfpu=fpv5-sp-d16", _HARD),
    "cortex-m33": (_ARM, "-mthumb", "-mcpu=cortex-m33", "-mfpu=fpv5-sp-d16", _HARD),
    "cortex-m55": (_ARM, "-mthumb", "-mcpu=cortex-m55", _HARD),
    "cortex-m85": (_ARM, "-mthumb", "-mcpu=cortex-m85", _HARD),
    "riscv32imc": (_RISCV, "-march=rv32imc", "-mabi=ilp32"),
}
"""The compiler of each processor, and what it is told."""
_LEVEL = "-O2"
# .ARM.exidx has tables for unwinding; in .s* is what RISC-V reaches by its global pointer.
_SECTIONS = (".text", ".rodata", ".data", ".ARM.exidx", ".srodata", ".sdata")
_TIMEOUT = 120
_NODE = re.compile(r'node: \{ title: "(?P<name>[^"]+)" label: "(?P<label>[^"]*)"')
_EDGE = re.compile(r'edge: \{ sourcename: "(?P<caller>[^"]+)" targetname: "(?P<callee>[^"]+)"')
_BYTES = re.compile(r"(?P<bytes>\d+) bytes \(")


@dataclass(frozen=True)
class Compiled:
    """What the compiler of a processor made of a network.

    Attributes:
        flash_bytes: code, constants and what it takes of the C library; no start-up, no caller.
        stack_bytes: the deepest chain of calls, without what the C library takes.
    """

    flash_bytes: int
    stack_bytes: int


def compiler_of(cpu: str) -> str | None:
    """The compiler for a processor, if it is here."""
    flags = FLAGS.get(cpu)
    return None if flags is None else shutil.which(flags[0])


def compiled(files: Mapping[str, str], name: str, cpu: str) -> Compiled | None:
    """A network's C through the compiler of a processor; None if that is not here, or refuses it.

    Args:
        files: the network, name -> text.
        name: of its functions.
        cpu: one of `PROCESSORS`.
    """
    if compiler_of(cpu) is None:
        return None
    with tempfile.TemporaryDirectory(prefix="thinflow-fit-") as folder:
        for file, text in files.items():
            Path(folder, file).write_text(text)
        sources = [file for file in files if file.endswith(".c")]
        # Linked as a firmware would, so that of the C library only what is called counts.
        made = [*FLAGS[cpu], _LEVEL, "-std=c99", "-ffunction-sections", "-fdata-sections", "-I."]
        # Start-up code is the firmware's; nosys stands in for an operating system's calls.
        made += ["-fcallgraph-info=su", "-nostartfiles", "--specs=nosys.specs", f"-Wl,-e,{name}_run"]
        made += ["-Wl,--gc-sections,--no-warn-mismatch", "-o", "network.elf", *sources, "-lm"]
        if not _ran(made, folder):
            return None
        size = subprocess.run(
            [FLAGS[cpu][0].replace("gcc", "size"), "-A", "network.elf"],
            cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT, check=False,
        )  # fmt: skip
        rows = [line.split() for line in size.stdout.splitlines()]
        sizes = {row[0]: int(row[1]) for row in rows if len(row) == 3 and row[0].startswith(".")}
        graphs = [path.read_text("utf-8", "replace") for path in Path(folder).glob("*.ci")]
        return Compiled(sum(sizes.get(s, 0) for s in _SECTIONS), _deepest(graphs, f"{name}_run"))


def _ran(command: Sequence[str], folder: str) -> bool:
    # What a compiler that is killed leaves behind goes with the folder.
    where = os.environ | {"TMPDIR": folder}
    try:
        done = subprocess.run(
            command, cwd=folder, env=where, capture_output=True, timeout=_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _deepest(graphs: Sequence[str], start: str) -> int:
    """Bytes of the deepest chain of calls from a function; there is no recursion in what is written."""
    sizes: dict[str, int] = {}
    calls: dict[str, set[str]] = {}
    for text in graphs:
        for match in _NODE.finditer(text):
            found = _BYTES.search(match["label"])
            sizes[match["name"]] = int(found["bytes"]) if found else 0
        for match in _EDGE.finditer(text):
            calls.setdefault(match["caller"], set()).add(match["callee"])
    deepest = 0
    pending = [(start, sizes.get(start, 0), 0)]
    while pending:
        function, used, depth = pending.pop()
        deepest = max(deepest, used)
        # A bound against a graph that is none of ours.
        if depth < len(sizes):
            pending += [(f, used + sizes.get(f, 0), depth + 1) for f in calls.get(function, ())]
    return deepest
