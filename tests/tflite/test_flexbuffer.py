"""Options of custom operators: maps as LiteRT reads them, and bytes that are none."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

from thinflow.errors import FormatError
from thinflow.tflite.flexbuffer import decode
from thinflow.tflite.options import encode_map


@pytest.mark.parametrize("wide", [1, 2**40])
def test_maps_come_back(wide: int) -> None:
    given = {"a": wide, "on": True, "ratio": 0.5, "z": -3}
    assert decode(encode_map(given)) == given


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"\x07\x04\x01", 7),
        (b"\x01\x68\x01", True),
        (b"\x00\x00\x01", None),
        # The root is a vector of three bytes: its size, its elements, their types, and how far back it is.
        (b"\x03\x01\x02\xff\x04\x04\x04\x06\x28\x01", [1, 2, -1]),
        # The same as a vector of one type, which needs no types behind it.
        (b"\x03\x01\x02\xff\x03\x2c\x01", [1, 2, -1]),
        # Two numbers without a count in front.
        (b"\x05\x06\x02\x40\x01", [5, 6]),
        (b"\x02hi\x00\x03\x14\x01", "hi"),
    ],
)
def test_values(data: bytes, value: object) -> None:
    assert decode(data) == value


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x01\x04", "2 bytes are no FlexBuffer"),
        (b"\x07\x06\x08", "leads out of its bytes"),
        (b"\x00\x00\x07\x04\x03", "a number of 3 bytes"),
        (b"\xc8\xc8\x14\x01", "leads out of its bytes"),
        (b"\x01\x00\x78\x02\x28\x01", "a value of type 30"),
        (b"\x02hi\x03\x10\x01", "leads out|has no end"),
    ],
)
def test_damage_is_named(data: bytes, said: str) -> None:
    with pytest.raises(FormatError, match=said):
        decode(data)


def test_flipped_bytes_end() -> None:
    rng = np.random.default_rng(0)
    good = np.frombuffer(encode_map({"first": 1, "second": 2.0, "third": True}), np.uint8)
    for _ in range(3000):
        bad = good.copy()
        bad[rng.integers(0, len(bad), 3)] = rng.integers(0, 256, 3)
        with suppress(FormatError):
            decode(bad.tobytes())


def test_circles_end() -> None:
    # A vector whose elements are the vector itself.
    with pytest.raises(FormatError, match="nested too deeply"):
        decode(b"\x02\x00\x01\x28\x28\x04\x28\x01")
