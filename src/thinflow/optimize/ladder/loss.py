"""The loss of a smaller model: whether it is more than is allowed."""

from __future__ import annotations

from thinflow.optimize.quality import Quality, decibels

# An SQNR of 20 dB is a noise power of 1 % of the signal's, which is an amplitude of a tenth of it: eight
# rounded bits alone leave about 50 dB (6.02 dB a bit), so something besides rounding is wrong below this.
POOR_SQNR_DB = 20.0


def too_much_lost(name: str, quality: Quality, max_drop: float) -> str:
    """The loss of a smaller model where it is more than allowed, or may be; empty if it is not.

    Args:
        name: what to call it.
        max_drop: points that it may lose.
    """
    if quality.not_finite:
        return f"{name} gives NaN or infinity where the model gives numbers"
    if quality.drop is None:
        poor = quality.sqnr_db < POOR_SQNR_DB
        return f"the {name} output is poor (SQNR {decibels(quality.sqnr_db)})" if poor else ""
    if quality.drop <= max_drop:
        return ""
    what = "accuracy" if quality.accuracy is not None else "answers"
    if not quality.surely_drops(max_drop):
        points = f"{max_drop:g} points of {what}"
        return f"whether {name} loses more than {points} takes more samples to tell"
    return f"{name} loses {quality.drop:.1f} points of {what}, more than {max_drop:g}"
