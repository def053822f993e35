"""The machine that the numbers were measured on, and its load by others meanwhile, as far as it tells."""

from __future__ import annotations

import os
import platform
import time
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

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
        # Every arm64 processor has it.
        flags.add("asimd")
        flags.update(
            flag
            for flag, name in (("asimddp", "FEAT_DotProd"), ("i8mm", "FEAT_I8MM"), ("asimdhp", "FEAT_FP16"))
            if ask(f"hw.optional.arm.{name}") == "1"
        )
    return ask("machdep.cpu.brand_string"), flags


# --- load by others meanwhile -------------------------------------------------------------------------------

_STAT = "/proc/stat"
_EVERY_NS = 100_000_000  # the kernel counts in hundredths of a second
# Of one CPU.
_WORTH_TELLING = 0.2


class Usage(NamedTuple):
    """Usage of this process so far.

    Attributes:
        cpu_seconds: of all its threads.
        preempted: how often the system took the CPU away from one of them.
        paged: how many pages of memory had to be read from a disk.
    """

    cpu_seconds: float
    preempted: int
    paged: int


def _by_clock() -> Usage:
    """The usage where the system tells no more than the time."""
    return Usage(time.process_time(), 0, 0)


try:
    import resource
except ImportError:  # Windows
    usage: Callable[[], Usage] = _by_clock
else:
    _ask, _who = resource.getrusage, resource.RUSAGE_SELF

    def usage() -> Usage:
        """The usage of this process so far; takes half a microsecond."""
        found = _ask(_who)
        # Involuntary switches of context: those that a thread asks for by waiting are no disturbance. Major
        # faults: the minor ones read nothing from a disk.
        return Usage(found.ru_utime + found.ru_stime, found.ru_nivcsw, found.ru_majflt)


@dataclass(frozen=True)
class Counts:
    """CPU seconds since the machine was started.

    Attributes:
        busy: of all programs.
        stolen: that the host of a virtual machine gave to others.
        own: of this process.
    """

    busy: float
    stolen: float
    own: float


@dataclass(frozen=True)
class Doing:
    """CPUs in use, on average over some time.

    Attributes:
        others: by other programs.
        stolen: by the host of this virtual machine.
        cpus: how many there are.
    """

    others: float
    stolen: float
    cpus: int

    def __str__(self) -> str:
        """The load that is worth telling, in words; empty if none is."""
        found = []
        if self.others >= _WORTH_TELLING:
            found.append(f"other programs kept {self.others:.1f} of {self.cpus} CPUs busy")
        if self.stolen >= _WORTH_TELLING:
            found.append(f"the host took {self.stolen:.1f} of {self.cpus} CPUs away")
        return " and ".join(found)


class Bystanders:
    """Looks now and then how busy the CPUs are.

    Attributes:
        due_ns: from when on the next look is due, by the clock of who measures.

    Args:
        read: counts of now; None where the system does not tell.
        cpus: how many there are.
    """

    def __init__(self, read: Callable[[], Counts | None] | None = None, cpus: int | None = None) -> None:
        self._read = read or read_counts
        self._cpus = cpus or os.cpu_count() or 1
        self._times: list[int] = []
        self._counts: list[Counts] = []
        self.due_ns = 0

    def look(self, now_ns: int) -> None:
        """Write down the counts of now."""
        self.due_ns = now_ns + _EVERY_NS
        counts = self._read()
        if counts is not None:
            self._times.append(now_ns)
            self._counts.append(counts)

    def at(self, time_ns: int) -> Doing | None:
        """The load about a time; None if it is not known."""
        after = bisect_left(self._times, time_ns)
        # The two looks around the time; at the ends the nearest two.
        last = min(max(after, 1), len(self._times) - 1)
        return self._between(last - 1, last) if len(self._times) > 1 else None

    def overall(self) -> Doing | None:
        """The load from the first look to the last; None if it is not known."""
        return self._between(0, len(self._times) - 1) if len(self._times) > 1 else None

    def _between(self, first: int, last: int) -> Doing | None:
        seconds = (self._times[last] - self._times[first]) / 1e9
        if seconds <= 0:
            return None
        a, b = self._counts[first], self._counts[last]
        # The two counters tick in different steps, so over a short time their difference may be negative.
        others = (b.busy - a.busy) - (b.own - a.own)
        return Doing(max(0.0, others) / seconds, max(0.0, b.stolen - a.stolen) / seconds, self._cpus)


def read_counts(path: str = _STAT) -> Counts | None:
    """The counts of now, from Linux; None elsewhere."""
    try:
        with open(path, "rb") as file:
            line = file.readline().split()
        ticks = os.sysconf("SC_CLK_TCK")
        # Left out are idle and iowait: a CPU that waits for a disk is free for others.
        user, nice, system, _, _, irq, softirq, stolen = (int(n) / ticks for n in line[1:9])
    except (OSError, ValueError, AttributeError):
        return None
    return Counts(user + nice + system + irq + softirq, stolen, time.process_time())


def cause_of(doing: Doing | None, preempted: int, paged: int) -> str:
    """The cause of a run that took longer than others, in words; empty if nothing is known.

    Args:
        doing: what went on at that time.
        preempted, paged: of the run; see `Usage`.
    """
    found = [str(doing)] if doing is not None and str(doing) else []
    if paged:
        found.append(f"{paged} page{'s' if paged != 1 else ''} of memory came from the disk")
    if preempted:
        found.append(f"the system took the CPU away {_times(preempted)}")
    if found or doing is None:
        return ", ".join(found)
    return "nothing else was seen to run"


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
