"""Which of the processors that C is written for this machine is."""

from __future__ import annotations

import platform
import re
from functools import cache
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
_NEEDED = {
    "x86-64-v4": "avx2 fma avx512f avx512bw avx512dq avx512vl avx512_vnni",
    "x86-64-v3": "avx2 fma",
    "cortex-a76": "asimd asimddp",
    "cortex-a53": "asimd",
}
"""What Linux calls the features that kernels are compiled for; the best processor first."""


@cache
def processors_here() -> tuple[str, ...]:
    """Those whose kernels run here, the best first; portable C runs everywhere."""
    # Where there is no such file, what the machine has is not known.
    try:
        text = _CPUINFO.read_text()
    except OSError:
        text = ""
    listed = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    has = set(listed[1].split()) if listed else set()
    # Arm of 64 bits has vectors, always.
    if platform.machine() in ("aarch64", "arm64"):
        has.add("asimd")
    else:
        has.discard("asimd")
    return (*(name for name, needed in _NEEDED.items() if has.issuperset(needed.split())), "generic")
