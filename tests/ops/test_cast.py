"""Element types: truncation, wrap-around, bits, complex parts."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement
from thinflow.errors import ShapeError
from thinflow.ir.types import (
    BFLOAT16,
    BOOL,
    FLOAT,
    HALF,
    INT8,
    INT32,
    INT64,
    QUINT8,
    UINT8,
    TensorSpec,
    dtype,
)
from thinflow.ops import registry

_NAMES = ("float", "double", "half", "bfloat16", "int8", "uint8", "int16", "uint16", "int32", "uint32",
          "int64", "uint64", "bool", "complex64", "complex128")  # fmt: skip
_F = np.array([0, 1.5, -2.9, 100.4, 0.49], np.float32)
_C = np.array([1 + 2j, -3.5j, 0], np.complex64)

CASES: dict[str, list[Case]] = {
    "Cast": [([_F.astype(dtype(a).numpy()) if dtype(a).kind != "u" else np.abs(_F).astype(dtype(a).numpy())],
              {"DstT": dtype(b)}) for a in _NAMES if a[0] != "c" for b in _NAMES]
    + [([_C], {"DstT": dtype(b)}) for b in _NAMES]
    + [([np.array([300, -129, 5], np.int64)], {"DstT": dtype(b)})
       for b in ("int8", "uint8", "uint64", "float")]
    + [([np.array([np.nan, np.inf, -np.inf, 300, -1, 3e9, 1e20, -2.9], np.float32)], {"DstT": dtype(b)})
       for b in ("int8", "uint8", "int16", "int32", "int64", "half", "bool")]
    + [([np.array([1.9999, -1.9999, np.nan, 1e-8, 3e38, 70000, 1 / 3], np.float32)],
        {"DstT": dtype(b), "Truncate": True}) for b in ("half", "bfloat16")],
    "Bitcast": [
        ([_F], {"type": INT32}),
        ([_F], {"type": UINT8}),
        ([np.arange(8, dtype=np.uint8).reshape(2, 4)], {"type": FLOAT}),
        ([np.array([1, 255], np.uint8)], {"type": INT8}),
    ],
    "Real": [([_C], {}), ([_C.astype(np.complex128)], {"Tout": dtype("double")})],
    "Imag": [([_C], {}), ([_C.astype(np.complex128)], {"Tout": dtype("double")})],
    "ComplexAbs": [([_C], {}), ([_C.astype(np.complex128)], {"Tout": dtype("double")})],
    "Angle": [([_C], {}), ([_C.astype(np.complex128)], {"Tout": dtype("double")})],
    "Conj": [([_C], {})],
    "Complex": [
        ([_F, np.array(2, np.float32)], {}),
        ([_F.astype(np.float64), _F.astype(np.float64)], {"Tout": dtype("complex128")}),
    ],
}  # fmt: skip


def cast(x: Any, to: str, **attrs: Any) -> Any:
    return registry.call_kernel(registry.get("Cast"), [np.asarray(x)], {"DstT": dtype(to), **attrs})[0]


def infer(name: str, spec: TensorSpec, **attrs: Any) -> TensorSpec:
    return registry.call_infer(registry.get(name), [spec], attrs)[0]


@pytest.mark.parametrize("name", sorted(CASES))
def test_shape_rule_agrees_with_kernel(name: str) -> None:
    for case in CASES[name]:
        check_agreement(name, case)


def test_floats_are_cut_towards_zero_then_wrapped() -> None:
    assert cast(np.float32([2.9, -2.9, 300, -1]), "int8").tolist() == [2, -2, 44, -1]
    assert cast(np.float32([2.9, 300, -1]), "uint8").tolist() == [2, 44, 255]
    assert cast(np.int64([300, -129]), "int8").tolist() == [44, 127]


def test_what_no_integer_holds() -> None:
    bad = np.float32([np.nan, np.inf, -np.inf, 1e20])
    assert cast(bad, "int32").tolist() == [-(2**31)] * 4
    assert cast(bad, "int64").tolist() == [-(2**63)] * 4
    assert cast(bad, "int8").tolist() == [0] * 4
    assert cast(np.float64([2**63, 2**64 - 2048]), "uint64").tolist() == [2**63, 2**64 - 2048]


def test_truth_and_complex() -> None:
    assert cast(np.float32([0, -0.0, 0.1, np.nan]), "bool").tolist() == [False, False, True, True]
    assert cast(np.complex64([1.7 + 2j]), "int32").tolist() == [1]
    assert cast(np.complex64([1.7 + 2j, 2j]), "bool").tolist() == [True, False]
    assert cast(np.array([True, False]), "float").tolist() == [1, 0]


def test_truncate_rounds_towards_zero() -> None:
    x = np.float32([1.9999, -1.9999, 1 / 3, 1e-8])
    assert cast(x, "half", Truncate=True).tolist() == [1.9990234375, -1.9990234375, 0.333251953125, 0]
    y = cast(np.float32([1.9999, 70000]), "bfloat16", Truncate=True)
    assert y.astype(np.float32).tolist() == [1.9921875, 69632]
    assert cast(np.float32([1.9999]), "bfloat16").astype(np.float32).tolist() == [2]


def test_quantized_types_are_plain_integers() -> None:
    assert cast(np.int32([300, -1]), "quint8").tolist() == [44, 255]


def test_bitcast_changes_the_last_dimension() -> None:
    assert infer("Bitcast", TensorSpec(FLOAT, (None, 2)), type=UINT8).shape == (None, 2, 4)
    assert infer("Bitcast", TensorSpec(UINT8, (3, 4)), type=INT32).shape == (3,)
    assert infer("Bitcast", TensorSpec(UINT8, (3,), (1, 2, 3)), type=QUINT8).dtype is QUINT8
    with pytest.raises(ShapeError, match="must be 4"):
        infer("Bitcast", TensorSpec(UINT8, (3, 5)), type=INT32)


def test_elements_follow_integer_casts_only() -> None:
    spec = TensorSpec(INT64, (3,), (None, 300, 2))
    assert infer("Cast", spec, DstT=UINT8).elements == (None, 44, 2)
    assert infer("Cast", spec, DstT=BOOL).elements == (None, 1, 1)
    assert infer("Cast", spec, DstT=FLOAT).elements is None


def test_complex_keeps_an_infinite_part_apart() -> None:
    kernel = registry.get("Complex").kernel
    assert kernel is not None
    z = kernel(np.float32([np.inf]), np.float32([1]))
    assert (z.real[0], z.imag[0]) == (np.inf, 1)


def test_narrow_floats_round_trip() -> None:
    x = np.array([1.5, -2, np.inf], ml_dtypes.bfloat16)
    for target in (HALF, FLOAT, BFLOAT16):
        kernel = registry.get("Cast").kernel
        assert kernel is not None
        assert kernel(kernel(x, DstT=target), DstT=BFLOAT16).tolist() == x.tolist()
