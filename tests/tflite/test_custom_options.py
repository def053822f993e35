"""Maps of numbers as FlexBuffers: what the reader of the format makes of them."""

from __future__ import annotations

import pytest

from thinflow.tflite.options import encode_map

flexbuffers = pytest.importorskip("flatbuffers.flexbuffers")

MAPS = [
    {},
    {"window_size": 480, "stride": 160, "magnitude_squared": True},
    {"b": False, "a": 0.5, "c": -3, "ab": 2**31 - 1, "": -(2**31)},
    {"wide": 2**40, "narrow": 1, "real": 0.1, "flag": True},
    {f"key{n}": n for n in range(300)},
]


@pytest.mark.parametrize("values", MAPS)
def test_the_reader_of_the_format_agrees(values: dict[str, float]) -> None:
    back = flexbuffers.Loads(encode_map(values))
    assert back == pytest.approx(values)
    assert {k: type(v) for k, v in back.items()} == {k: type(v) for k, v in values.items()}
