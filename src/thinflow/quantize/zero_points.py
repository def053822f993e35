"""Where zero lies among the steps of a range."""

from __future__ import annotations

import math

# Float kernels of two runtimes, or weights that were folded in another order, leave ranges that differ in the
# seventh digit.
_TIE = 1e-4
"""Of a step, by which a number may fall short of the middle between two and still be rounded up."""


def steps_below_zero(low: float, scale: float) -> int:
    """How many steps lie between the low end of a range and zero.

    A range as long on both sides has zero in the middle of two steps: it is rounded up, whatever the last
    digits of its ends.
    """
    return math.floor(-low / scale + 0.5 + _TIE)
