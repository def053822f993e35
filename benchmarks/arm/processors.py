"""Arm processors that QEMU plays, and how a program for them is started.

A program asks Linux what processor it is on, and LiteRT chooses kernels by the answer. QEMU answers for the
instructions alone; everything else would be read off this machine, whose caches LiteRT takes for those of an
Arm processor, and crashes. So each processor gets a file system of links, with its own `/sys` and `/proc`.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.arm.root import FOLDER, PLAYER, python, site, system

_CORES = 4


@dataclass(frozen=True)
class Processor:
    """What QEMU plays.

    Attributes:
        title: what it is found in.
        model: QEMU's name.
        part: Arm's number of it, as Linux tells it.
        features: what of its instructions Linux tells.
        mhz: of its fastest frequency.
        level2: size of its second cache.
    """

    title: str
    model: str
    part: str
    features: str
    mhz: int
    level2: str


PROCESSORS = {
    "cortex-a72": Processor(
        "Raspberry Pi 4", "cortex-a72", "0xd08", "fp asimd evtstrm crc32 cpuid", 1500, "1024K"
    ),
    "cortex-a76": Processor(
        "Raspberry Pi 5",
        "cortex-a76",
        "0xd0b",
        "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp",
        2400,
        "512K",
    ),
}


def interpreter(name: str, folder: Path = FOLDER) -> Path:
    """A program that is Python on a processor.

    Raises:
        NotMade: there is no Python for it, or nothing that plays it.
    """
    inside = python(folder)
    root = _file_system(PROCESSORS[name], folder)
    player = [PLAYER, "-cpu", PROCESSORS[name].model, "-L", str(root), "-E", f"PYTHONPATH={site(folder)}"]
    path = folder / f"python-{name}"
    aside = path.with_name(f"{path.name}.{os.getpid()}")
    aside.write_text(f'#!/bin/sh\nexec {shlex.join([*player, str(inside)])} "$@"\n', "utf-8")
    aside.chmod(0o755)
    aside.rename(path)
    return path


def _file_system(processor: Processor, folder: Path) -> Path:
    root = folder / processor.model
    # A new one each time costs nothing; aside, since another process may run in it.
    fresh = root.with_name(f"{root.name}.{os.getpid()}")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    for entry in system(folder).iterdir():
        (fresh / entry.name).symlink_to(os.path.relpath(entry, fresh))
    for path, text in _files(processor).items():
        (fresh / path).parent.mkdir(parents=True, exist_ok=True)
        (fresh / path).write_text(text, "utf-8")
    if root.exists():
        shutil.rmtree(fresh)
    else:
        fresh.rename(root)
    return root


def _files(p: Processor) -> Mapping[str, str]:
    """Paths and texts by which Linux tells what it runs on."""
    every = f"0-{_CORES - 1}\n"
    core = (
        f"Features\t: {p.features}\nCPU implementer\t: 0x41\nCPU architecture: 8\n"
        f"CPU variant\t: 0x0\nCPU part\t: {p.part}\nCPU revision\t: 3\n"
    )
    cpus = "sys/devices/system/cpu"
    found = {f"{cpus}/{name}": every for name in ("possible", "present", "online")}
    found[f"{cpus}/kernel_max"] = f"{_CORES - 1}\n"
    found["proc/cpuinfo"] = "\n".join(f"processor\t: {n}\n{core}" for n in range(_CORES))
    for n in range(_CORES):
        here = f"{cpus}/cpu{n}"
        found[f"{here}/topology/physical_package_id"] = "0\n"
        found[f"{here}/topology/core_id"] = f"{n}\n"
        found |= {f"{here}/topology/{name}_list": every for name in ("core_siblings", "cluster_cpus")}
        found[f"{here}/cpufreq/cpuinfo_max_freq"] = f"{p.mhz * 1000}\n"
        found[f"{here}/cpufreq/cpuinfo_min_freq"] = "600000\n"
        found |= {
            f"{here}/cache/index2/{name}": value + "\n"
            for name, value in (("level", "2"), ("size", p.level2), ("shared_cpu_list", every.strip()))
        }
    return found
