"""ONNX Runtime's own quantized ops against ONNX Runtime; codes may be one apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.lift.onnx.contrib import Case, f, file, i8, s, u8
from tests.lift.onnx.models import lifted, runtime
from thinflow.errors import UnsupportedOp

pytest.importorskip("onnxruntime")
X = u8(1, 4, 6, 5)
GRID = [s(0.02), s(120, np.uint8)]
OUT = [s(0.03), s(100, np.uint8)]
CASES: dict[str, Case] = {
    "QLinearLeakyRelu": ("QLinearLeakyRelu", [X], [*GRID, *OUT], {"alpha": 0.2}, 1),
    "QLinearAveragePool": ("QLinearAveragePool", [X], [*GRID, *OUT], {"kernel_shape": [2, 3]}, 1),
    "QLinearAveragePool padded": ("QLinearAveragePool", [X], [*GRID, *OUT],
                                  {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]}, 1),
    "QLinearSoftmax": ("QLinearSoftmax", [u8(3, 6)], [*GRID, s(1 / 256), s(0, np.uint8)],
                       {"axis": -1, "opset": 13}, 1),
    "QLinearSoftmax of old": ("QLinearSoftmax", [u8(2, 3, 4)], [*GRID, s(1 / 256), s(0, np.uint8)],
                              {"axis": 1, "opset": 12}, 1),
    "QLinearWhere": ("QLinearWhere", [np.array([[True], [False]]), u8(2, 3)],
                     [*GRID, u8(2, 3), s(0.01), s(7, np.uint8), *OUT], {}, 1),
    "QGemm": ("QGemm", [u8(3, 4)], [*GRID, i8(4, 5), s(0.01), s(0, np.int8),
              np.arange(5, dtype=np.int32) * 100, s(0.05), s(128, np.uint8)], {}, 1),
    "QGemm turned": ("QGemm", [u8(3, 4)], [*GRID, i8(5, 4), s(0.01), s(3, np.int8)], {"transB": 1}, 1),
    "MatMulIntegerToFloat": ("MatMulIntegerToFloat", [u8(2, 3, 4)],
                             [i8(4, 5), s(0.02), np.abs(f(5)), s(9, np.uint8), i8(5), f(5)], {}, 1),
    "DynamicQuantizeMatMul": ("DynamicQuantizeMatMul", [f(3, 4)],
                              [u8(4, 5), s(0.02), s(9, np.uint8), f(5)], {}, 1),
    "MatMulNBits": ("MatMulNBits", [f(2, 3, 40)], [u8(5, 3, 8), np.abs(f(15))],
                    {"K": 40, "N": 5, "block_size": 16, "bits": 4}, 1),
    "MatMulNBits zeros": ("MatMulNBits", [f(3, 40)], [u8(5, 3, 8), np.abs(f(15)), u8(10), None, f(5)],
                          {"K": 40, "N": 5, "block_size": 16, "bits": 4}, 1),
    "MatMulNBits eight": ("MatMulNBits", [f(3, 32)], [u8(5, 2, 16), np.abs(f(10)), u8(10)],
                          {"K": 32, "N": 5, "block_size": 16, "bits": 8}, 1),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_they_give_what_onnxruntime_gives(case: str, tmp_path: Path) -> None:
    path, feed = file(tmp_path / "m.onnx", CASES[case])
    for expected, found in zip(runtime(path, feed), lifted(path, feed), strict=True):
        assert found.dtype == expected.dtype
        if expected.dtype.kind in "iu":
            assert np.abs(found.astype(int) - expected).max() <= 1
        else:
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_a_mean_of_codes(tmp_path: Path) -> None:
    case: Case = ("QLinearReduceMean", [u8(2, 3, 4)], [*GRID, *OUT], {"axes": [1], "keepdims": 0}, 1)
    path, feed = file(tmp_path / "m.onnx", case)
    numbers = (feed["x0"].astype(np.float32) - 120) * 0.02
    expected = np.clip(np.round(numbers.mean(1) / 0.03) + 100, 0, 255)
    (found,) = lifted(path, feed)
    assert np.abs(found.astype(int) - expected).max() <= 1


@pytest.mark.parametrize(
    ("case", "said"),
    [
        (("QLinearAveragePool", [X], [*GRID, *OUT], {"kernel_shape": [2, 2], "channels_last": 1}, 1),
         "channels come last"),
        (("MatMulNBits", [f(3, 40)], [u8(5, 3, 8), f(15)], {"K": 40, "N": 5, "block_size": 16, "bits": 3}, 1),
         "its weights have 3 bits in blocks of 16"),
        (("MatMulNBits", [f(3, 40)], [u8(5, 3, 8), f(15), None, np.zeros(40, np.int32)],
          {"K": 40, "N": 5, "block_size": 16, "bits": 4}, 1), "its columns are in groups of their own"),
    ],
)  # fmt: skip
def test_what_is_refused(case: Case, said: str, tmp_path: Path) -> None:
    path, feed = file(tmp_path / "m.onnx", case)
    with pytest.raises(UnsupportedOp, match=said):
        lifted(path, feed)
