"""Sizes, times and counts: in words, and read from words."""

from __future__ import annotations

import re
from collections.abc import Mapping

from thinflow.errors import ParameterError

Amount = float | str
"""A number, or one with its unit: "100KB"."""

# Decimal, as everywhere here: who means 1024 and says kB gets a file that fits all the same.
BYTES = {"": 1, "b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
MILLISECONDS = {"": 1.0, "ms": 1.0, "us": 1e-3, "µs": 1e-3, "μs": 1e-3, "s": 1e3}
POINTS = {"": 1.0, "%": 1.0}
COUNTS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}
_AMOUNT = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)\s*([^\W\d]*|%)\s*", re.IGNORECASE)


def amount_of(given: Amount, units: Mapping[str, float], kind: str, hint: str) -> float:
    """A number in the first of some units.

    Args:
        given: a number, or a text with a unit.
        units: unit in small letters -> its factor.
        kind: of amount, for the error.

    Raises:
        ParameterError: it is none, or its unit is another.
    """
    if isinstance(given, str):
        match = _AMOUNT.fullmatch(given)
        # By lower case: kB and KB are both common, and there are no megaseconds here.
        unit = units.get(match[2].lower()) if match else None
        if match is None or unit is None:
            raise ParameterError(f"'{given}' is no {kind}", hint=hint)
        return float(match[1]) * unit
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise ParameterError(f"{given!r} is no {kind}", hint=hint)
    return float(given)


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
    # To three digits first: 0.9999 ms are 1 ms, and not 1e+03 µs.
    rounded = float(f"{ms:.3g}")
    if rounded >= 1000:
        return f"{ms:,.0f} ms"
    return f"{1000 * rounded:.3g} µs" if rounded < 1 else f"{rounded:.3g} ms"
