"""Sizes and times in words."""

from __future__ import annotations


def bytes_text(count: float) -> str:
    """`54.0 kB`, with three digits and more."""
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= factor:
            return f"{count / factor:,.{1 if count >= 10 * factor else 2}f} {unit}"
    return f"{count:g} bytes"


def ms_text(ms: float) -> str:
    """`12.3 ms`; in microseconds below one millisecond, in seconds from ten on."""
    if ms >= 10_000:
        return f"{ms / 1000:.3g} s"
    if ms >= 1000:
        return f"{ms:,.0f} ms"
    return f"{1000 * ms:.3g} us" if ms < 1 else f"{ms:.3g} ms"
