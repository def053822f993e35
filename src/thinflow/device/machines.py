"""Machines by what their /proc/cpuinfo says."""

from __future__ import annotations

import re

from thinflow.bench.machine import Machine, parse_cpuinfo, relevant

# Designer and part of Arm's processors, as the register that Linux shows has them.
_PARTS = {
    (0x41, 0xD03): "Cortex-A53",
    (0x41, 0xD04): "Cortex-A35",
    (0x41, 0xD05): "Cortex-A55",
    (0x41, 0xD07): "Cortex-A57",
    (0x41, 0xD08): "Cortex-A72",
    (0x41, 0xD09): "Cortex-A73",
    (0x41, 0xD0A): "Cortex-A75",
    (0x41, 0xD0B): "Cortex-A76",
    (0x41, 0xD0C): "Neoverse N1",
    (0x41, 0xD0D): "Cortex-A77",
    (0x41, 0xD40): "Neoverse V1",
    (0x41, 0xD41): "Cortex-A78",
    (0x41, 0xD44): "Cortex-X1",
    (0x41, 0xD46): "Cortex-A510",
    (0x41, 0xD47): "Cortex-A710",
    (0x41, 0xD48): "Cortex-X2",
    (0x41, 0xD49): "Neoverse N2",
    (0x41, 0xD4D): "Cortex-A715",
    (0x41, 0xD4E): "Cortex-X3",
    (0x41, 0xD4F): "Neoverse V2",
    (0x41, 0xD80): "Cortex-A520",
    (0x41, 0xD81): "Cortex-A720",
    (0x41, 0xD82): "Cortex-X4",
}
_LINE = re.compile(r"^CPU (implementer|part)\s*:\s*(0x[0-9a-fA-F]+)", re.MULTILINE)


def machine_of(cpuinfo: str, cores: int, system: str, python: str) -> Machine:
    """The machine that a text of /proc/cpuinfo is about.

    Args:
        cores: how many may be used.
        system: such as "Linux aarch64".
        python: version; "" where there is none.
    """
    model, flags = parse_cpuinfo(cpuinfo)
    parts = arm_parts(cpuinfo)
    cpu = ", ".join(f"{count}x {name}" if count > 1 else name for name, count in parts.items()) or model
    return Machine(cpu or system.rpartition(" ")[2] or "unknown CPU", cores, relevant(flags), system, python)


def arm_parts(cpuinfo: str) -> dict[str, int]:
    """Name of an Arm core -> how many of them; empty for other processors."""
    found: dict[str, int] = {}
    designer = 0
    for key, number in _LINE.findall(cpuinfo):
        if key == "implementer":
            designer = int(number, 16)
            continue
        name = _PARTS.get((designer, int(number, 16)), f"Arm core {designer:#x}/{number}")
        found[name] = found.get(name, 0) + 1
    return found
