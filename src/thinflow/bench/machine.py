"""The machine that the numbers were measured on."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# What decides how fast float and eight-bit kernels are, as Linux spells it -> as people do.
_RELEVANT = {
    "avx": "avx",
    "avx2": "avx2",
    "fma": "fma",
    "f16c": "f16c",
    "avx512f": "avx512",
    "avx_vnni": "vnni",
    "avx512_vnni": "vnni",
    "amx_int8": "amx-int8",
    "neon": "neon",
    "asimd": "neon",
    "asimddp": "dotprod",
    "asimdhp": "fp16",
    "i8mm": "i8mm",
    "sve": "sve",
}
_DOT_PRODUCTS = {"vnni", "amx-int8", "dotprod", "i8mm"}


@dataclass(frozen=True)
class Machine:
    """A computer, as far as latency depends on it.

    Attributes:
        cores: how many this process may use.
        flags: instruction sets that matter to kernels, such as avx2, vnni, neon, dotprod; empty if unknown.
    """

    cpu: str
    cores: int
    flags: tuple[str, ...]
    system: str
    python: str

    @property
    def multiplies_eight_bit(self) -> bool | None:
        """True if it has instructions for eight-bit dot products; None if that is not known."""
        return bool(_DOT_PRODUCTS.intersection(self.flags)) if self.flags else None

    def __str__(self) -> str:
        flags = f", {' '.join(self.flags)}" if self.flags else ""
        return f"{self.cpu}, {self.cores} core{'s' if self.cores != 1 else ''}{flags}, {self.system}"

    def data(self) -> dict[str, Any]:
        """For JSON."""
        return {**vars(self), "flags": list(self.flags)}


def this_machine() -> Machine:
    """The computer this runs on."""
    model, flags = _from_proc(Path("/proc/cpuinfo"))
    if platform.system() == "Darwin":
        model, flags = _from_sysctl()
    return Machine(
        cpu=model or platform.processor() or platform.machine() or "unknown CPU",
        cores=usable_cores(),
        flags=relevant(flags),
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
    )


def usable_cores() -> int:
    """CPUs this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def relevant(flags: set[str]) -> tuple[str, ...]:
    """The flags that matter, renamed, in a fixed order."""
    return tuple(dict.fromkeys(name for flag, name in _RELEVANT.items() if flag in flags))


def parse_cpuinfo(text: str) -> tuple[str, set[str]]:
    """Model name and flags from Linux's /proc/cpuinfo; x86 and Arm spell the keys differently."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            # The first processor stands for all of them.
            fields.setdefault(key.strip().lower(), value.strip())
    # On Arm, Linux often names no model but the board.
    model = fields.get("model name") or fields.get("hardware") or fields.get("model") or ""
    return model, set((fields.get("flags") or fields.get("features") or "").split())


def _from_proc(path: Path) -> tuple[str, set[str]]:
    try:
        return parse_cpuinfo(path.read_text("utf-8", "replace"))
    except OSError:
        return "", set()


def _from_sysctl() -> tuple[str, set[str]]:
    """macOS: Intel lists features as words, Apple's own CPUs as one variable each."""
    import subprocess

    def ask(*names: str) -> str:
        done = subprocess.run(
            ["sysctl", "-n", *names], capture_output=True, text=True, check=False, timeout=10
        )
        return done.stdout.strip()

    flags = set(ask("machdep.cpu.features", "machdep.cpu.leaf7_features").lower().split())
    if platform.machine() == "arm64":
        flags.add("asimd")
        flags.update(
            flag
            for flag, name in (("asimddp", "FEAT_DotProd"), ("i8mm", "FEAT_I8MM"), ("asimdhp", "FEAT_FP16"))
            if ask(f"hw.optional.arm.{name}") == "1"
        )
    return ask("machdep.cpu.brand_string"), flags
