"""Whether ONNX Runtime's fastest eight-bit products are right on this processor.

On x86 without VNNI they add pairs of unsigned times signed codes in 16 bits, which may be too few.
"""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

_X86 = frozenset({"x86_64", "amd64", "i386", "i686", "x86"})


@cache
def products_may_overflow() -> bool:
    """Whether this is an x86 processor that is not known to have VNNI."""
    return overflow_on(platform.machine(), Path("/proc/cpuinfo"))


def overflow_on(machine: str, description: Path) -> bool:
    """Whether sums may overflow, given the kind of machine and Linux's description of its processors."""
    if machine.lower() not in _X86:
        return False
    try:
        return "vnni" not in description.read_text("utf-8", "replace")
    except OSError:
        return True
