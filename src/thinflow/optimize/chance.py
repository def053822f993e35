"""What chance does to shares of samples: intervals, and tests of a difference."""

from __future__ import annotations

import math

# The usual level of significance: one comparison in twenty of equally good models is called a difference.
CHANCE = 0.05
"""A difference that equally good models show more often than this is none."""


def split_chance(lost: int, gained: int) -> float:
    """The probability of so uneven a split where each side is as likely, from 0 to 1 (two-sided, exact)."""
    # In integers up to the division: 2**1024 is no float64
    # any more, and a quotient of integers is rounded once.
    count, fewer = lost + gained, min(lost, gained)
    # Twice one tail; for an even split both tails share the middle, which is why it may exceed 1.
    return float(min(1.0, 2 * sum(math.comb(count, i) for i in range(fewer + 1)) / 2**count))


# Of the normal distribution: 95 % lie within so many standard deviations.
_Z = 1.959964


def wilson(found: int, count: int) -> tuple[float, float]:
    """The 95 % interval of a share in percent, after so many of so many samples (Wilson's score interval)."""
    share, z2 = found / count, _Z * _Z
    middle = (share + z2 / (2 * count)) / (1 + z2 / count)
    half = _Z / (1 + z2 / count) * math.sqrt(share * (1 - share) / count + z2 / (4 * count * count))
    return 100 * max(0.0, middle - half), 100 * min(1.0, middle + half)


def difference_interval(lost: int, gained: int, count: int) -> tuple[float, float]:
    """The 95 % interval of the points of percent that are lost from one model to another on the same samples.

    Bonett and Price, "Adjusted Wald confidence interval for a difference of binomial proportions based on
    paired data", 2012: Wald's, with one more sample that only the first and one that only the second answers.

    Args:
        lost, gained: samples that only the first, and only the second, answers rightly.
        count: of all samples.
    """
    fewer, more = (gained + 1) / (count + 2), (lost + 1) / (count + 2)
    half = _Z * math.sqrt((fewer + more - (more - fewer) ** 2) / (count + 2))
    return 100 * max(-1.0, more - fewer - half), 100 * min(1.0, more - fewer + half)


def tail_chance(found: int, count: int, share: float) -> float:
    """The probability of finding as many or more in so many samples, if each is one with this probability."""
    if not found or share >= 1:
        return 1.0
    if share <= 0:
        return 0.0
    # Logarithms: binomial coefficients of thousands of samples overflow a float.
    # log1p, as 1 - share would lose the last digits of a small share.
    log_share, log_rest = math.log(share), math.log1p(-share)

    def log_ways(i: int) -> float:
        return math.lgamma(count + 1) - math.lgamma(i + 1) - math.lgamma(count - i + 1)

    fewer = (math.exp(log_ways(i) + i * log_share + (count - i) * log_rest) for i in range(found))
    # fsum, and a floor: 1 less a sum near 1 may come out a little below 0.
    return max(0.0, 1 - math.fsum(fewer))
