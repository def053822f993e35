"""Weights for ONNX Runtime are such that sums of two products fit 16 bits, as processors without VNNI add."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.quantize.onnx_programs import Net
from thinflow.ir.types import INT8, UINT8, DType
from thinflow.onnx.program import Operator, Program, Tensor
from thinflow.quantize.narrow_sums import narrowed, overflow, pair_scales
from thinflow.quantize.recipe import QdqOptions
from thinflow.quantize.weights import quantize_weights

RNG = np.random.default_rng(0)
KINDS: dict[str, tuple[Operator, tuple[int, ...], int]] = {
    "conv": (Operator("Conv", [], [], {}), (8, 5, 3, 3), 0),
    "grouped": (Operator("Conv", [], [], {"group": 2}), (8, 1, 3, 3), 0),
    "sound": (Operator("Conv", [], [], {}), (8, 6, 4), 0),
    "matrix": (Operator("MatMul", [], [], {}), (31, 8), 1),
    "turned": (Operator("Gemm", [], [], {"transB": 1}), (8, 31), 0),
}


def sums(operator: Operator, codes: np.ndarray) -> np.ndarray:
    """The largest and least sum of each pair, by the order in which ONNX Runtime lays weights out."""
    if operator.code == "Conv":
        rows = np.stack([np.moveaxis(w, 0, -1).ravel() for w in codes])
    else:
        rows = codes if "transB" in operator.options else codes.T
    rows = np.pad(rows, ((0, 0), (0, rows.shape[1] % 2))).astype(int) * 255
    pairs = rows[:, ::2], rows[:, 1::2]
    up, down = (sum(limit(p, 0) for p in pairs) for limit in (np.maximum, np.minimum))
    return np.stack([up, -1 - down])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("per_channel", [True, False])
def test_sums_of_two_products_fit(kind: str, per_channel: bool) -> None:
    operator, shape, axis = KINDS[kind]
    w = RNG.normal(size=shape).astype(np.float32)
    along = axis if per_channel else None
    found = pair_scales(operator, w, along)
    assert found.shape == (8 if per_channel else 1,)
    codes = quantize_weights(w, found, along)
    assert sums(operator, codes).max() <= 32767
    # No coarser than that needs.
    assert sums(operator, codes).max() > 0.97 * 32767


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_rounded_otherwise_is_taken_nearer_to_zero(kind: str) -> None:
    operator, shape, _ = KINDS[kind]
    codes = RNG.integers(-127, 128, shape).astype(np.int8)
    found = narrowed(operator, codes)
    assert found.dtype == np.int8
    assert found.shape == shape
    assert sums(operator, codes).max() > 32767 >= sums(operator, found).max()
    assert overflow(operator, codes)
    assert not overflow(operator, found)
    assert (np.abs(found) <= np.abs(codes)).all()
    # Of each pair one stays as it is, and those that fit do.
    assert 0.5 <= (found == codes).mean() < 1
    assert narrowed(operator, found) is found


def test_depthwise_kernels_add_in_more_bits() -> None:
    operator = Operator("Conv", [], [], {"group": 8})
    w = np.ones((8, 1, 3, 3), np.float32)
    assert not pair_scales(operator, w, 0).any()
    assert narrowed(operator, codes := np.full(w.shape, 127, np.int8)) is codes
    assert not overflow(operator, codes)


def largest(options: QdqOptions) -> int:
    net = Net(1, 4, 8, 8)
    stored = weights_of(net.quantize(net.conv(net.x, 8), options=options).program)
    return int(sums(Operator("Conv", [], []), np.asarray(stored.array())).max())


def weights_of(program: Program) -> Tensor:
    found: list[Any] = [t for o in program.operators for t in o.reads() if t.is_constant and t.dtype is INT8]
    return max(found, key=lambda t: t.array().size)


def test_networks_fit_unless_somebody_asks_for_all_bits() -> None:
    assert largest(QdqOptions()) <= 32767
    assert largest(QdqOptions(reduce_range=True)) <= 32767
    assert largest(QdqOptions(reduce_range=False)) > 32767


@pytest.mark.parametrize(("second", "kind"), [(1, INT8), (3, UINT8)])
def test_codes_that_are_kept_are_unsigned_where_they_overflow(second: int, kind: DType) -> None:
    """With a zero point they are the same numbers."""
    net = Net(1, 4)
    codes = np.array([[127, second, -64, 31]] * 3).T
    w = (codes / 256).astype(np.float32)
    made = net.quantize(net.op("MatMul", net.x, w, shape=(1, 3)), keep_weights=True).program
    unpack = next(o for o in made.operators if o.code == "DequantizeLinear" and o.inputs[0].is_constant)
    stored, _, zero = (np.asarray(t.array()).astype(int) for t in unpack.inputs)
    assert unpack.inputs[0].dtype is unpack.inputs[2].dtype is kind
    assert (zero == (128 if kind is UINT8 else 0)).all()
    np.testing.assert_array_equal(stored - zero, codes)
