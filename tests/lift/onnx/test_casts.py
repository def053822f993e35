"""ONNX's casts, shifts of bits, remainders, powers and products beside the standard's own reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.lift.onnx.single import Single
from thinflow.errors import UnsupportedOp

pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")
TYPES = onnx.TensorProto

NUMBERS = np.array([0, 1, -1, 3.7, -3.7, 100, 460, -460, 1e5, -1e5, np.inf, -np.inf, np.nan], np.float32)
FLOAT8 = ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"]
SOURCES = [np.float32, np.float16, ml_dtypes.bfloat16, np.float64, np.int32, np.uint8, np.int8]


def bits(x: np.ndarray) -> list[int]:
    """What the elements are, bit by bit; not-a-number has one pattern, so that it equals itself."""
    patterns = np.asarray(x).view(np.uint8)
    found: list[int] = np.where(np.isnan(x.astype(np.float32)), 255, patterns).tolist()
    return found


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("kind", FLOAT8)
@pytest.mark.parametrize("source", SOURCES)
def test_casts_to_eight_bits(tmp_path: Path, source: Any, kind: str, saturate: int) -> None:
    is_whole = np.dtype(source).kind in "iu"
    x = np.arange(-100, 200, 7).astype(source) if is_whole else NUMBERS.astype(source)
    number = getattr(TYPES, kind.upper().replace("_", ""))
    case = Single("Cast", [x], (), {"to": number, "saturate": saturate}, opset=24)
    found = case.run(tmp_path)
    assert found.dtype == np.dtype(getattr(ml_dtypes, kind))
    assert bits(found) == bits(case.defined()[0])
    like = Single("CastLike", [x], [np.zeros(1, found.dtype)], {"saturate": saturate}, opset=24)
    assert bits(like.run(tmp_path)) == bits(found)


def test_whole_numbers_narrower_than_the_bounds_are_not_cut(tmp_path: Path) -> None:
    x = np.uint8([0, 200, 255])
    found = Single("Cast", [x], (), {"to": TYPES.FLOAT8E5M2}, opset=24).run(tmp_path)
    assert found.astype(np.float32).tolist() == [0, 192, 256]


def test_texts_and_numbers(tmp_path: Path) -> None:
    texts = np.array([b"1.5", b"-3", b"inf", b"1e-3"], object)
    assert Single("Cast", [texts], (), {"to": TYPES.FLOAT}).run(tmp_path).tolist()[:3] == [1.5, -3, np.inf]
    made = Single("Cast", [np.int64([7, -2])], (), {"to": TYPES.STRING}).run(tmp_path)
    assert made.tolist() == [b"7", b"-2"]


@pytest.mark.parametrize(
    ("op", "x", "options", "problem"),
    [
        ("Cast", np.float32([1]), {"to": TYPES.STRING}, "it casts float to string"),
        ("Cast", np.float32([1]), {"to": TYPES.COMPLEX64}, "it casts to a type that TensorFlow does not"),
        ("BitCast", np.float32([1]), {"to": TYPES.INT64}, "it reads the bits of float as int64"),
        ("BitCast", np.array([True]), {"to": TYPES.FLOAT8E5M2}, "it reads the bits of bool as float8_e5m2"),
        ("BitShift", np.uint8([1]), {"direction": "UP"}, "it shifts in the direction 'UP'"),
    ],
)
def test_casts_that_are_refused(tmp_path: Path, op: str, x: Any, options: Any, problem: str) -> None:
    fed = [x, x] if op == "BitShift" else [x]
    with pytest.raises(UnsupportedOp, match=problem):
        Single(op, fed, (), options, opset=26).lifted(tmp_path)


def test_bits_of_other_types(tmp_path: Path) -> None:
    x = np.float32([1, -2.5, np.nan])
    found = Single("BitCast", [x], (), {"to": TYPES.INT32}, opset=26).run(tmp_path)
    assert found.tolist() == x.view(np.int32).tolist()
    found = Single("BitCast", [np.array([True, False])], (), {"to": TYPES.INT8}, opset=26).run(tmp_path)
    assert (found.dtype, found.tolist()) == (np.int8, [1, 0])


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("width", [8, 16, 32, 64])
@pytest.mark.parametrize("sign", ["", "u"])
def test_shifts(tmp_path: Path, sign: str, width: int, direction: str) -> None:
    kind = np.dtype(f"{sign}int{width}")
    info = np.iinfo(kind)
    rng = np.random.default_rng(0)
    x = rng.integers(info.min, info.max, 40, kind, endpoint=True)
    y = rng.integers(0 if sign else -3, width + 4, 40).astype(kind)
    found = Single("BitShift", [x, y], (), {"direction": direction}, opset=28).run(tmp_path)
    for n, k, shifted in zip(x.tolist(), y.tolist(), found.tolist(), strict=True):
        # Python shifts numbers of any width, the sign included.
        up = n << k if 0 <= k < width else 0
        down = n >> (k if 0 <= k < width else width)
        assert shifted % 2**width == (up if direction == "LEFT" else down) % 2**width, (n, k)
    few = Single("BitShift", [x], [np.full(1, 3, kind)], {"direction": direction}, opset=28)
    ops = {n.op for n in few.lifted(tmp_path)}
    assert ops == {"Placeholder", "Const", f"{direction.title()}Shift"}


@pytest.mark.parametrize("kind", ["int64", "int32", "int8", "uint8", "float16", "float32"])
def test_remainders(tmp_path: Path, kind: str) -> None:
    rng = np.random.default_rng(1)
    x, y = (rng.integers(0 if kind == "uint8" else -60, 60, 50).astype(kind) for _ in range(2))
    y[y == 0] = 7
    if np.dtype(kind).kind == "f":
        x, y = (x / 3).astype(kind), (y / 7).astype(kind)
    else:
        found = Single("Mod", [x, y]).run(tmp_path)
        np.testing.assert_array_equal(found, np.mod(x, y))
    found = Single("Mod", [x, y], (), {"fmod": 1}).run(tmp_path)
    np.testing.assert_array_equal(found, np.fmod(x, y))


@pytest.mark.parametrize("exponent", [np.float32, np.int64, np.int32, np.float64])
@pytest.mark.parametrize("base", [np.float32, np.int64, np.int32, np.float64])
def test_powers_of_mixed_types(tmp_path: Path, base: Any, exponent: Any) -> None:
    x = np.array([1, 2, 9, 4], base)
    y = np.array([2, 3, 0.5, 1.5], exponent)
    Single("Pow", [x, y]).check(tmp_path)


EQUATIONS = ["ij, jk", "i,i", "...ii ->...i", "b...,b...", "ZA,AB", "ij->ji", " i j "]


@pytest.mark.parametrize("equation", EQUATIONS)
def test_einsum(tmp_path: Path, equation: str) -> None:
    rng = np.random.default_rng(2)
    sizes = {"i": 3, "j": 4, "k": 2, "b": 2, "Z": 2, "A": 3, "B": 4, ".": 5}
    plain = equation.replace(" ", "")
    terms = plain.split("->")[0].replace("...", ".").split(",")
    xs = [rng.standard_normal([sizes[i] for i in term]).astype(np.float32) for term in terms]
    found = Single("Einsum", xs, (), {"equation": equation}).run(tmp_path)
    np.testing.assert_allclose(found, np.einsum(plain, *xs), rtol=1e-4)


@pytest.mark.parametrize("shape", [(2, 2), (3, 4, 4)])
def test_determinants(tmp_path: Path, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    assert Single("Det", [x]).check(tmp_path) == {"MatrixDeterminant": 1}


def test_products_of_two_matrices_are_spelled_as_a_layer(tmp_path: Path) -> None:
    x, w, b = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32), np.arange(4, dtype=np.float32)
    assert Single("Gemm", [x], [w, b]).check(tmp_path, "litert") == {"MatMul": 1, "BiasAdd": 1}
    assert Single("Gemm", [x], [w, b], {"beta": 0.5}).check(tmp_path) == {"MatMul": 1, "BiasAdd": 1}
    assert Single("Gemm", [x], [w, b[:1]]).check(tmp_path) == {"MatMul": 1, "AddV2": 1}
    assert Single("MatMul", [x], [w]).check(tmp_path, "litert") == {"MatMul": 1}


def test_nothing_is_dropped_at_a_ratio_of_0(tmp_path: Path) -> None:
    x = np.ones((2, 3), np.float32)
    operands = [np.float32(0), np.array(True)]
    assert Single("Dropout", [x], operands).check(tmp_path) == {"Identity": 1}
    with pytest.raises(UnsupportedOp, match="it drops at random, as in training"):
        Single("Dropout", [x], [None, np.array(True)]).lifted(tmp_path)
