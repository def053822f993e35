"""The inputs of benchmark_model: numbers that fit, files that are read whole, sizes that memory holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from thinflow.compat.benchmark_model.inputs import check_size, file_input, filled_input
from thinflow.errors import FeedError


def test_integers_keep_all_their_digits() -> None:
    large = 2**53 + 1
    assert filled_input("x", "int64", [2], [large]).tolist() == [large, 0]


def test_integers_lose_what_is_behind_the_point() -> None:
    assert filled_input("x", "int32", [3], [1.5, -1.5]).tolist() == [1, -1, 0]


@pytest.mark.parametrize(
    ("element", "number", "told"),
    [
        ("uint8", 300, "uint8 does not hold 300"),
        ("uint8", -4, "uint8 does not hold -4"),
        ("int32", 3e10, "int32 does not hold 30000000000.0"),
        ("int32", float("nan"), "int32 does not hold nan"),
        ("int8", float("inf"), "int8 does not hold inf"),
        ("quint8", 256, "quint8 does not hold 256"),
    ],
)
def test_numbers_that_an_integer_does_not_hold(element: str, number: float, told: str) -> None:
    with pytest.raises(FeedError, match=told) as caught:
        filled_input("x", element, [1], [number])
    assert caught.value.hint.startswith("it holds ")


@pytest.mark.parametrize(("element", "number"), [("float", float("inf")), ("bool", 3), ("half", 0.5)])
def test_other_types_take_any_number(element: str, number: float) -> None:
    assert filled_input("x", element, [1], [number])[0] == np.asarray(number).astype(
        filled_input("x", element, [1], []).dtype
    )


def test_one_string_is_the_whole_file(tmp_path: Path) -> None:
    sound = b"RIFF\0\0\0\0WAVE\0"
    (tmp_path / "a.wav").write_bytes(sound)
    assert file_input("x", "string", [], str(tmp_path / "a.wav")).item() == sound
    (tmp_path / "a.txt").write_bytes(b"word\0")
    assert file_input("x", "string", [1], str(tmp_path / "a.txt")).tolist() == [b"word"]
    with pytest.raises(FeedError, match="takes 2 strings, the file holds 5 strings"):
        file_input("x", "string", [2], str(tmp_path / "a.wav"))


@pytest.mark.parametrize("shape", [[10**20, 8], [50_000, 50_000], [1] * 40])
def test_inputs_that_no_memory_holds(shape: list[int]) -> None:
    with pytest.raises(FeedError, match="is too large") as caught:
        check_size("x", "float", shape)
    assert caught.value.hint == "it may have 32 sizes and 2 GiB at most; see --input_layer_shape"
