"""Big and little cores of a phone: which there are, and the mask that `taskset` takes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from thinflow.errors import ParameterError

_FREQUENCY = re.compile(r"/cpu(\d+)/cpufreq/cpuinfo_max_freq\s+(\d+)")
_MOST = 1024
_WORDS = ("big", "little", "fastest")


@dataclass(frozen=True)
class Cores:
    """The CPUs of a device.

    Attributes:
        khz: number of a CPU -> its highest frequency; empty if the device does not tell.
        count: how many there are.
    """

    khz: Mapping[int, int]
    count: int

    def groups(self) -> list[tuple[int, list[int]]]:
        """Frequencies and the CPUs that reach them, the slowest first."""
        found: dict[int, list[int]] = {}
        for cpu, khz in sorted(self.khz.items()):
            found.setdefault(khz, []).append(cpu)
        return sorted(found.items())

    def __str__(self) -> str:
        """The groups in words; "" where all are alike."""
        groups = self.groups()
        if len(groups) < 2:
            return ""
        return " + ".join(f"{len(cpus)} at {khz / 1e6:.1f} GHz" for khz, cpus in groups)


def parse_frequencies(text: str, count: int) -> Cores:
    """The CPUs by lines of a path and what is in it."""
    return Cores({int(cpu): int(khz) for cpu, khz in _FREQUENCY.findall(text)}, count)


def check(cpus: str) -> None:
    """Refuse what names no CPUs on any device.

    Raises:
        ParameterError: it is no word, list or mask.
    """
    if cpus not in ("", *_WORDS):
        _numbers(cpus)


def chosen(cpus: str, cores: Cores) -> list[int]:
    """The CPUs that are meant, in order; empty: all.

    Args:
        cpus: "big", "little" or "fastest"; a list such as "4-7,0"; or a mask in hexadecimal, 0xf0.

    Raises:
        ParameterError: there are none such.
    """
    if not cpus:
        return []
    if cpus in _WORDS:
        return _by_word(cpus, cores)
    found = _numbers(cpus)
    if missing := [n for n in found if n >= cores.count]:
        raise ParameterError(
            f"cpus '{cpus}': the device has no CPU {missing[0]}", hint=f"its CPUs are 0-{cores.count - 1}"
        )
    return found


def _by_word(word: str, cores: Cores) -> list[int]:
    groups = cores.groups()
    if len(groups) < 2:
        why = "does not tell how fast its CPUs are" if not groups else "has CPUs of one speed alone"
        raise ParameterError(f"cpus '{word}': the device {why}", hint="name CPUs by number: cpus 0-3")
    if word == "little":
        return groups[0][1]
    # Between the two are cores of a third kind on newer phones; to an app they are big ones.
    if word == "fastest":
        return groups[-1][1]
    return sorted(cpu for _, cpus in groups[1:] for cpu in cpus)


def _numbers(cpus: str) -> list[int]:
    # "10" is the CPU of that number, as people count; a mask of digits alone needs its 0x.
    if re.fullmatch(r"0[xX][0-9a-fA-F]{1,256}|[0-9a-fA-F]*[a-fA-F][0-9a-fA-F]*", cpus) and len(cpus) < 258:
        mask = int(cpus, 16)
        found = [n for n in range(mask.bit_length()) if mask >> n & 1]
    elif re.fullmatch(r"\d{1,4}(-\d{1,4})?(,\d{1,4}(-\d{1,4})?)*", cpus):
        parts = [part.partition("-") for part in cpus.split(",")]
        found = sorted({n for a, _, b in parts for n in range(int(a), int(b or a) + 1)})
    else:
        found = []
    if not found or found[-1] >= _MOST:
        raise ParameterError(
            f"cpus '{cpus}' names no CPUs",
            hint="write big, little, a list such as 4-7, or a mask: 0xf0",
        )
    return found


def mask(cpus: list[int]) -> str:
    """The CPUs as `taskset` takes them: in hexadecimal."""
    # Neither "0x" nor a list of numbers, which the taskset of Android does not read.
    return f"{sum(1 << n for n in cpus):x}"
