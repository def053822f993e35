"""Damage to files: bytes changed, cut out and put in, by chance."""

from __future__ import annotations

import random

from tests.night import AT_NIGHT

FILES = 20_000 if AT_NIGHT else 2_000
"""Of each kind. They take long, so the night tries ten times as many (.ci/nightly)."""
MOST_SECONDS = 20.0  # for one file: far more than any takes, far less than a loop that does not end
WORDS = [b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\xff" * 4, b"\0" * 4, b"\xff" * 9 + b"\1"]


def damaged(raw: bytes, rng: random.Random) -> bytes:
    """The file with a few bits flipped, numbers made absurd, or pieces cut out, doubled or put in."""
    found = bytearray(raw)
    for _ in range(rng.choice((1, 1, 2, 4, 12))):
        at = rng.randrange(len(found))
        how = rng.randrange(7)
        if how < 2:
            found[at] ^= 1 << rng.randrange(8)
        elif how == 2:
            found[at] = rng.choice((0, 1, 127, 128, 255))
        elif how == 3:
            found[at : at + 4] = rng.choice(WORDS)
        elif how == 4:
            del found[at : at + rng.randrange(1, 64)]
        elif how == 5:
            found[at:at] = found[at : at + rng.randrange(1, 64)]
        else:
            found[at:at] = rng.randbytes(rng.randrange(1, 9))
        if len(found) < 16:
            break
    return bytes(found)
