"""What an Android device tells of itself: its parts, and what it is doing now."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from thinflow.bench.machine import parse_cpuinfo, relevant
from thinflow.device.android.cores import Cores, parse_frequencies
from thinflow.device.base import State
from thinflow.device.machines import arm_parts

_CPU = "/sys/devices/system/cpu"
# A word of ours before each part, since properties may be empty and files may be closed to a shell.
FACTS = f"""
for p in ro.product.manufacturer ro.product.model ro.soc.manufacturer ro.soc.model ro.board.platform \\
    ro.build.version.release ro.build.version.sdk ro.product.cpu.abilist ro.product.cpu.abi; do
    echo "@$p"; getprop $p
done
echo @machine; uname -m
echo @memory; grep MemTotal /proc/meminfo
echo @present; cat {_CPU}/present
echo @frequencies
for f in {_CPU}/cpu[0-9]*/cpufreq/cpuinfo_max_freq; do echo "$f $(cat $f)"; done
echo @cpuinfo; cat /proc/cpuinfo
true
"""
STATE = f"""
echo @governor; cat {_CPU}/cpu[0-9]*/cpufreq/scaling_governor
echo @khz; cat {_CPU}/cpu[0-9]*/cpufreq/scaling_cur_freq
echo @zones; for z in /sys/class/thermal/thermal_zone*; do echo "$(cat $z/temp) $(cat $z/type)"; done
echo @thermal; dumpsys thermalservice
echo @battery; dumpsys battery
true
"""
_SEVERITIES = ("none", "light", "moderate", "severe", "critical", "emergency", "shutdown")
_STATUS = re.compile(r"Thermal Status: (\d)")
# Types of Android's sensors: of the CPU, the GPU, the battery, the skin.
_SENSOR = re.compile(r"Temperature\{mValue=(-?[\d.]+), mType=(\d+), mName=([^,]*), mStatus=(\d)\}")
_CPU_SENSOR = "0"
# Of its scale, which is 100 on every phone that was seen, and is told all the same.
_LEVEL = re.compile(r"^\s*level: (\d+)", re.MULTILINE)
_SCALE = re.compile(r"^\s*scale: (\d+)", re.MULTILINE)
# Makers name zones as they like; these words are in most names of those on the chip.
_CPU_ZONE = re.compile(r"cpu|soc|tsens|big|little|mid|core", re.IGNORECASE)
# Sensors that are switched off say the lowest or the highest that they can.
_HOTTEST = 200.0
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


@dataclass(frozen=True)
class About:
    """What a device is.

    Attributes:
        model: what it is called: "Google Pixel 7".
        soc: of which maker and kind its chip is; "" if it does not tell.
        android: version, and number of the interface to apps: "14 (API 34)".
        abis: kinds of programs that it runs, the preferred first: "arm64-v8a".
        machine: of its kernel: "aarch64".
        cores: its CPUs.
        cpu: its kinds of cores in words; "" if it does not tell.
        flags: instruction sets, as `Machine` has them.
        memory_bytes: of the whole device; None if it does not tell.
    """

    model: str
    soc: str
    android: str
    abis: tuple[str, ...]
    machine: str
    cores: Cores
    cpu: str
    flags: tuple[str, ...] = field(default=())
    memory_bytes: int | None = None


def sections(text: str) -> dict[str, str]:
    """What stands behind each word with an @."""
    found: dict[str, str] = {}
    parts = re.split(r"^@([\w.]+)\n", text, flags=re.MULTILINE)
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        found[name] = body.strip()
    return found


def parse_facts(text: str) -> About:
    """What a device is, by what FACTS printed."""
    told = sections(text)
    maker, model = told.get("ro.product.manufacturer", ""), told.get("ro.product.model", "")
    release, sdk = told.get("ro.build.version.release", ""), told.get("ro.build.version.sdk", "")
    cpuinfo = told.get("cpuinfo", "")
    hardware, flags = parse_cpuinfo(cpuinfo)
    # Phones before Android 5 name one ABI only.
    abis = told.get("ro.product.cpu.abilist") or told.get("ro.product.cpu.abi", "")
    count = _count(told.get("present", ""))
    cores = parse_frequencies(told.get("frequencies", ""), count)
    kinds = ", ".join(f"{n}x {name}" if n > 1 else name for name, n in arm_parts(cpuinfo).items())
    memory = re.search(r"(\d+) kB", told.get("memory", ""))
    return About(
        model=model if model.lower().startswith(maker.lower()) else f"{maker} {model}".strip(),
        soc=_soc(told) or hardware,
        android=f"{release} (API {sdk})" if release and sdk else release,
        abis=tuple(a.strip() for a in abis.split(",") if a.strip()),
        machine=told.get("machine", ""),
        cores=cores,
        cpu=kinds or hardware,
        flags=relevant(flags),
        memory_bytes=int(memory[1]) * 1024 if memory else None,
    )


def _soc(told: Mapping[str, str]) -> str:
    maker, model = told.get("ro.soc.manufacturer", ""), told.get("ro.soc.model", "")
    return f"{maker} {model}".strip() or told.get("ro.board.platform", "")


def _count(present: str) -> int:
    """How many CPUs "0-7" or "0-3,6" are, up to the last."""
    numbers = [int(b or a) for a, b in _RANGE.findall(present.splitlines()[0] if present else "")]
    return max(numbers) + 1 if numbers else 1


def parse_state(text: str) -> State:
    """What a device is doing, by what STATE printed."""
    told = sections(text)
    governors = dict.fromkeys(w for w in told.get("governor", "").split("\n") if re.fullmatch(r"[\w-]+", w))
    speeds = [int(w) for w in told.get("khz", "").split() if w.isdigit()]
    level = _LEVEL.search(told.get("battery", ""))
    scale = _SCALE.search(told.get("battery", ""))
    return State(
        governor=", ".join(governors),
        mhz=max(speeds) / 1000 if speeds else None,
        celsius=_celsius(told),
        throttled=tuple(_throttled(told.get("thermal", ""))),
        battery=100 * int(level[1]) / max(1, int(scale[1]) if scale else 100) if level else None,
    )


def _celsius(told: Mapping[str, str]) -> float | None:
    """Of the hottest place of the CPUs; of any place where those are not told."""
    # The service tells what it remembers before what it reads now, in the same words.
    current = told.get("thermal", "").partition("Current temperatures from HAL")[2] or told.get("thermal", "")
    sensors = [(kind, float(value)) for value, kind, _, _ in _SENSOR.findall(current)]
    zones = []
    for line in told.get("zones", "").splitlines():
        value, _, name = line.partition(" ")
        if re.fullmatch(r"-?\d+", value):
            # Kernels count in thousandths of a degree, some old ones in degrees.
            degrees = int(value) / (1000 if abs(int(value)) >= 1000 else 1)
            zones.append((_CPU_SENSOR if _CPU_ZONE.search(name) else "", degrees))
    for found in (sensors, zones):
        known = [(kind, c) for kind, c in found if 0 < c < _HOTTEST]
        of_cpu = [c for kind, c in known if kind == _CPU_SENSOR]
        if known:
            return max(of_cpu or [c for _, c in known])
    return None


def _throttled(thermal: str) -> list[str]:
    matched = _STATUS.search(thermal)
    severity = int(matched[1]) if matched else 0
    if not severity:
        return []
    return [f"Android says the heat is {_SEVERITIES[min(severity, len(_SEVERITIES) - 1)]}"]
