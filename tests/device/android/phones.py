"""A phone that is a folder, behind an `adb` that checks every call of it.

`PhoneFolder` makes both. What the phone does on a shell really happens, by `sh`, with the few commands that
Android has and paths moved into the folder; its benchmark_model is `phone_tool.py`, which checks flags and
files, prints what a real one does, and has LiteRT compute answers where it is asked to write some.
"""

from __future__ import annotations

import os
import shutil
import sys
from ast import literal_eval
from pathlib import Path
from typing import Any

OUTPUTS = Path(__file__).parent / "outputs"
SERIAL = "R5CW30ABCDE"
FOUR_AND_FOUR = dict.fromkeys(range(4), 1_803_000) | dict.fromkeys(range(4, 6), 2_348_000)
FOUR_AND_FOUR |= dict.fromkeys(range(6, 8), 2_850_000)
PROPERTIES = {
    "ro.product.manufacturer": "Google",
    "ro.product.model": "Pixel 7",
    "ro.soc.manufacturer": "Google",
    "ro.soc.model": "GS201",
    "ro.board.platform": "gs201",
    "ro.build.version.release": "14",
    "ro.build.version.sdk": "34",
    "ro.product.cpu.abilist": "arm64-v8a,armeabi-v7a,armeabi",
    "ro.product.cpu.abi": "arm64-v8a",
}
BATTERY = """Current Battery Service state:
  AC powered: false
  USB powered: true
  status: 2
  health: 2
  present: true
  level: 83
  scale: 100
  voltage: 4211
  temperature: 287
  technology: Li-ion
"""
THERMAL = """IsStatusOverride: false
ThermalEventListeners:
	callbacks: 2
Thermal Status: {status}
Cached temperatures:
	Temperature{{mValue=31.9, mType=3, mName=VIRTUAL-SKIN, mStatus=0}}
	Temperature{{mValue=39.0, mType=0, mName=BIG, mStatus=0}}
HAL Ready: true
HAL connection:
	ThermalHAL AIDL 1  connected: yes
Current temperatures from HAL:
	Temperature{{mValue=32.4, mType=3, mName=VIRTUAL-SKIN, mStatus=0}}
	Temperature{{mValue=47.5, mType=0, mName=BIG, mStatus=0}}
	Temperature{{mValue=44.1, mType=0, mName=LITTLE, mStatus=0}}
	Temperature{{mValue=28.7, mType=2, mName=battery, mStatus=0}}
Current cooling devices from HAL:
	CoolingDevice{{mValue=0, mType=2, mName=thermal-cpufreq-0}}
"""
CORES = {range(4): "0xd05", range(4, 6): "0xd41", range(6, 8): "0xd44"}
_COMMANDS = ("cat", "chmod", "cp", "echo", "grep", "ls", "mkdir", "mv", "rm", "sh", "true", "uname")


def elf(machine: int = 183) -> bytes:
    """A program of a processor, as far as its header goes."""
    return b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00" + machine.to_bytes(2, "little") + b"tool" * 20


def started(name: str) -> str:
    """The command of a module beside this one: as a module, Python keeps it compiled."""
    code = f'import sys; sys.path.insert(0, "{Path(__file__).parent}"); import {name}; {name}.run()'
    return f"{sys.executable} -I -S -c '{code}'"


class PhoneFolder:
    """A phone and its adb.

    Args:
        folder: an empty one.
        reply: what its benchmark_model prints, a file of OUTPUTS; others for some flags in `replies`.
        trouble: what goes wrong, as adb_double.py and phone_tool.py know it.
    """

    def __init__(
        self,
        folder: Path,
        *,
        reply: str = "xnnpack",
        replies: dict[str, str] | None = None,
        devices: list[str] | None = None,
        knows_outputs: bool = True,
        **trouble: Any,
    ) -> None:
        self.folder, self.root = folder, folder / "root"
        self.calls = folder / "calls.txt"
        listed = [f"{SERIAL}\tdevice usb:1-2 product:panther model:Pixel_7 device:panther transport_id:3"]
        told = {
            "serial": SERIAL,
            "devices": listed if devices is None else devices,
            "reply": reply,
            "replies": {"enable_op_profiling": "profile", **(replies or {})},
            "knows_outputs": knows_outputs,
            "outputs": str(OUTPUTS),
            "tool": started("phone_tool"),
            **trouble,
        }
        (folder / "bin").mkdir(parents=True)
        self.told = told
        self.tell()
        self._files()
        self._commands()

    def tell(self, **trouble: Any) -> None:
        """Change what goes wrong from now on."""
        self.told |= trouble
        (self.folder / "phone.txt").write_text(repr(self.told), "utf-8")

    @property
    def path(self) -> str:
        """What PATH is to begin with, for the adb."""
        return str(self.folder / "bin")

    def made(self) -> list[str]:
        """What lies on the phone where files of users may."""
        place = self.root / "data/local/tmp"
        return sorted(str(p.relative_to(place)) for p in place.rglob("*"))

    def shells(self) -> list[str]:
        """The scripts that its shell ran."""
        calls = [literal_eval(line) for line in self.calls.read_text("utf-8").splitlines()]
        return [argv[3] for argv in calls if argv[2:3] == ["shell"]]

    def tools(self) -> list[list[str]]:
        """The command lines of benchmark_model."""
        path = self.folder / "tools.txt"
        return [literal_eval(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []

    def surprises(self) -> str:
        """What adb and the phone's programs did not expect; empty if all was in order."""
        path = self.folder / "surprises.txt"
        return path.read_text("utf-8") if path.exists() else ""

    def _files(self) -> None:
        cpus = self.root / "sys/devices/system/cpu"
        self._write("sys/devices/system/cpu/present", "0-7")
        for cpu, khz in FOUR_AND_FOUR.items():
            self._write(f"{cpus}/cpu{cpu}/cpufreq/cpuinfo_max_freq", str(khz))
            self._write(f"{cpus}/cpu{cpu}/cpufreq/scaling_cur_freq", str(khz // 2))
            self._write(f"{cpus}/cpu{cpu}/cpufreq/scaling_governor", "sched_pixel")
        features = (
            "fp asimd aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp"
        )
        parts = [part for numbers, part in CORES.items() for _ in numbers]
        self._write(
            "proc/cpuinfo",
            "\n".join(
                f"processor\t: {n}\nFeatures\t: {features}\nCPU implementer\t: 0x41\nCPU part\t: {part}\n"
                for n, part in enumerate(parts)
            ),
        )
        self._write("proc/meminfo", "MemTotal:        7718032 kB\nMemFree:          210332 kB")
        self._write("proc/uptime", "86400.25 300000.00")
        (self.root / "data/local/tmp").mkdir(parents=True)

    def _write(self, path: str, text: str) -> None:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text + "\n", "utf-8")

    def _commands(self) -> None:
        there = self.folder / "there"
        there.mkdir()
        for name in _COMMANDS:
            found = shutil.which(name)
            if found and name != "uname":
                (there / name).symlink_to(os.path.realpath(found))
        self._script(there / "uname", 'echo "aarch64"')
        cases = "\n".join(f'{k}) echo "{v}";;' for k, v in PROPERTIES.items())
        self._script(there / "getprop", f'case "$1" in\n{cases}\n*) echo;;\nesac')
        thermal = THERMAL.format(status=self.told.get("heat", 0))
        (self.folder / "thermal.txt").write_text(thermal, "utf-8")
        (self.folder / "battery.txt").write_text(BATTERY, "utf-8")
        texts = f"thermalservice) cat {self.folder}/thermal.txt;;\nbattery) cat {self.folder}/battery.txt;;"
        self._script(there / "dumpsys", f'case "$1" in\n{texts}\n*) exit 1;;\nesac')
        here = f"THINFLOW_TEST_PHONE={self.folder} exec {started('adb_double')}"
        for name in ("taskset", "pkill"):
            self._script(there / name, f'{here} {name} "$@"')
        self._script(self.folder / "bin" / "adb", f'{here} adb "$@"')

    def _script(self, path: Path, text: str) -> None:
        path.write_text(f"#!/bin/sh\n{text}\n", "utf-8")
        path.chmod(0o755)
