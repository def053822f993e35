"""Arm Cortex-M: firmware in C with CMake, GCC and nothing else, which QEMU runs as well."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from thinflow.deploy.c_target import CTarget, c_of, stack_of
from thinflow.deploy.contract import Contract
from thinflow.deploy.targets import target
from thinflow.deploy.tools import called, require_tool
from thinflow.errors import ParameterError
from thinflow.fit.cross import FLAGS
from thinflow.program.amounts import bytes_text

_STARTUP = 4096
"""Bytes of flash for what goes around a network."""


@dataclass(frozen=True)
class Board:
    """A machine of QEMU's, and where its memory is.

    Attributes:
        machine: QEMU's name of it.
        flash, flash_bytes, ram, ram_bytes: of code and of data.
        more, more_bytes: slower memory, where weights go that are too large for the rest.
    """

    machine: str
    flash: int = 0
    flash_bytes: int = 4 << 20
    ram: int = 0x20000000
    ram_bytes: int = 4 << 20
    more: int = 0x21000000
    more_bytes: int = 16 << 20


BOARDS = {
    # No board of QEMU's has a Cortex-M0 and memory enough; a Cortex-M3 runs its code as it is.
    "cortex-m0": Board("mps2-an385"),
    "cortex-m3": Board("mps2-an385"),
    "cortex-m4": Board("mps2-an386"),
    "cortex-m7": Board("mps2-an500", more=0x60000000),
    "cortex-m33": Board("mps2-an505", flash=0x10000000, ram=0x38000000, more=0x80000000),
    "cortex-m55": Board(
        *("mps3-an547", 0, 512 << 10, 0x20000000, 512 << 10), more=0x60000000, more_bytes=256 << 20
    ),
    # It has what a Cortex-M55 has, and more that the network's C does not use.
    "cortex-m85": Board(
        *("mps3-an547", 0, 512 << 10, 0x20000000, 512 << 10), more=0x60000000, more_bytes=256 << 20
    ),
}
_COMPILED_AS = {"cortex-m85": "cortex-m55"}
"""GCC 12, which Debian has, knows nothing newer; a Cortex-M85 runs code of a Cortex-M55."""
_TEST_HINT = (
    "install it (Debian: apt-get install cmake gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm)"
)


@target
class CortexM(CTarget):
    """Firmware in C for Arm Cortex-M, with CMake, a start-up and a linker script, which QEMU runs."""

    name = "cortex-m"
    templates: ClassVar[tuple[str, ...]] = ("c", "cortex-m")
    assets = "assets"
    built: ClassVar[tuple[str, ...]] = ("build",)
    layout = "cmsis-pack"
    network = "network"
    cpus = tuple(BOARDS)

    def check(self, contract: Contract) -> None:
        """Raises ParameterError where the board that QEMU plays is too small, too."""
        super().check(contract)
        c = c_of(contract)
        board, it = BOARDS[c.cpu], c.fit.footprint
        is_outside = _is_outside(contract, board)
        code = it.flash_bytes - (it.weights_bytes if is_outside else 0) + _STARTUP
        sample = 0 if contract.test.raw is None else contract.test.raw.nbytes
        fed = sum(array.nbytes for array in contract.test.inputs)
        # The sample that is asked about is in memory, too.
        ram = it.ram_bytes + stack_of(c) + fed
        for what, needed, there in (
            ("flash", code + sample + fed, board.flash_bytes),
            ("weights", it.weights_bytes if is_outside else 0, board.more_bytes),
            ("RAM", ram, board.ram_bytes),
        ):
            if needed > there:
                raise ParameterError(
                    f"it takes {bytes_text(needed)} of {what}, and {board.machine}, which QEMU plays, has"
                    f" {bytes_text(there)}",
                    contract.source,
                    "give it eight bits (thinflow quantize), less memory (--ram), or another --cpu",
                )

    def values(self, contract: Contract) -> Mapping[str, str]:
        c = c_of(contract)
        board = BOARDS[c.cpu]
        is_outside = _is_outside(contract, board)
        return {
            **super().values(contract),
            "flags": " ".join(FLAGS[_COMPILED_AS.get(c.cpu, c.cpu)][1:]),
            "machine": board.machine,
            "flash_origin": f"{board.flash:#010x}",
            "flash_bytes": f"{board.flash_bytes:#x}",
            "ram_origin": f"{board.ram:#010x}",
            "ram_bytes": f"{board.ram_bytes:#x}",
            "weights_origin": f"{board.more:#010x}",
            "weights_bytes": f"{board.more_bytes:#x}" if is_outside else "0",
            "weights_region": "WEIGHTS" if is_outside else "FLASH",
            "qemu": " ".join(_qemu(board)),
        }

    def test(self, folder: Path) -> str:
        """Build the firmware and run its self-test in QEMU, whose exit code is the answer."""
        cmake = require_tool("cmake", _TEST_HINT)
        require_tool("arm-none-eabi-gcc", _TEST_HINT)
        require_tool("qemu-system-arm", _TEST_HINT)
        told = json.loads((folder / "assets" / "model.json").read_text(encoding="utf-8"))
        called([cmake, "-S", ".", "-B", "build"], folder, "cmake -S . -B build")
        called([cmake, "--build", "build", "--parallel"], folder, "cmake --build build")
        program = Path("build", f"{told['name']}_selftest.elf")
        command = [*_qemu(BOARDS[told["c"]["cpu"]]), str(program)]
        return called(command, folder, " ".join(command), env={"QEMU_AUDIO_DRV": "none"})


def _is_outside(contract: Contract, board: Board) -> bool:
    """Whether weights go to the slower memory."""
    raw = contract.test.raw
    sample = (0 if raw is None else raw.nbytes) + sum(array.nbytes for array in contract.test.inputs)
    return c_of(contract).fit.flash_bytes + sample + _STARTUP > board.flash_bytes


def _qemu(board: Board) -> list[str]:
    return [
        *("qemu-system-arm", "-machine", board.machine, "-nographic", "-monitor", "none", "-serial", "none"),
        *("-semihosting-config", "enable=on,target=native", "-kernel"),
    ]
