"""Matrix products, their fused forms, and index notation."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement, infer, run
from thinflow.errors import ShapeError, UnsupportedOp
from thinflow.ir.types import FLOAT, INT8, INT32, TensorSpec
from thinflow.ops import registry

_random = np.random.default_rng(7)
_BF16: Any = ml_dtypes.bfloat16


def _values(*shape: int, kind: Any = np.float32) -> np.ndarray:
    return _random.uniform(-3, 3, shape).astype(kind)


_KINDS: list[Any] = [np.float32, np.float64, np.float16, _BF16, np.int32, np.int64, np.complex64]

CASES: dict[str, list[Case]] = {
    "MatMul": [([_values(2, 3, kind=k), _values(3, 4, kind=k)], {}) for k in _KINDS]
    + [([_values(3, 2), _values(4, 3)], {"transpose_a": True, "transpose_b": True})]
    + [([_values(2, 0), _values(0, 4)], {})],
    "BatchMatMul": [([_values(2, 2, 3, kind=k), _values(2, 3, 4, kind=k)], {}) for k in _KINDS],
    "BatchMatMulV2": [([_values(2, 1, 2, 3, kind=k), _values(3, 3, 4, kind=k)], {}) for k in _KINDS]
    + [([_values(2, 3, 2, kind=np.complex64) * 1j, _values(2, 4, 3, kind=np.complex64)],
        {"adj_x": True, "adj_y": True})],
    "BatchMatMulV3": [
        ([np.full((1, 2), 100, np.int8), np.full((2, 1), 100, np.int8)], {"Tout": INT32}),
        ([_values(2, 3), _values(3, 2)], {"Tout": FLOAT}),
    ],
    "BiasAdd": [
        ([_values(2, 2, 3), _values(3)], {}),
        ([_values(2, 3, 2, 2), _values(3)], {"data_format": "NCHW"}),
    ],
    "BiasAddV1": [([_values(2, 3), _values(3)], {})],
    "SparseMatMul": [
        ([_values(2, 3, kind=_BF16), _values(3, 2, kind=_BF16)], {}),
        ([_values(3, 2), _values(3, 2)], {"transpose_a": True, "a_is_sparse": True}),
    ],
    "_FusedMatMul": [
        ([_values(2, 3), _values(3, 4), _values(4)], {"num_args": 1, "fused_ops": ("BiasAdd", name)})
        for name in ("Relu", "Relu6", "Elu", "LeakyRelu", "Tanh", "Sigmoid", "GeluExact", "GeluApproximate")
    ] + [([_values(2, 3), _values(3, 4), _values(4)], {"num_args": 1, "fused_ops": ("BiasAdd",)})],
    "Cross": [([_values(2, 3, kind=k), _values(2, 3, kind=k)], {}) for k in _KINDS[:5]],
    "Einsum": [
        ([_values(2, 3), _values(3, 4)], {"equation": "ij,jk->ik"}),
        ([_values(2, 3, kind=np.float16), _values(3, 4, kind=np.float16)], {"equation": "ij,jk->ik"}),
        ([_values(2, 3, 4), _values(4, 5)], {"equation": "...a,ab->...b"}),
        ([_values(2, 1, 3, 4), _values(5, 4, 6)], {"equation": "...ij,...jk->...ik"}),
        ([_values(2, 3, 4, 5), _values(2, 6, 4, 5)], {"equation": "bfnh,btnh->bnft"}),
        ([_values(3, 3)], {"equation": "ii->i"}),
        ([_values(3, 3)], {"equation": "ii->"}),
        ([_values(3)], {"equation": "i->ii"}),
        ([_values(2, 3)], {"equation": "a...->...a"}),
        ([_values(2, 3, kind=np.int32), _values(3, kind=np.int32)], {"equation": "ij,j->i"}),
        ([_values(2, kind=np.complex64), _values(3, kind=np.complex64)], {"equation": "i,j->ij"}),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(CASES))
def test_shape_rule_agrees_with_kernel(name: str) -> None:
    for case in CASES[name]:
        check_agreement(name, case)


def test_bytes_sum_up_in_the_output_type() -> None:
    x, y = np.full((1, 2), 100, np.int8), np.full((2, 1), 100, np.int8)
    assert run("BatchMatMulV3", x, y, Tout=INT32).tolist() == [[20000]]
    assert (
        infer("BatchMatMulV3", TensorSpec(INT8, (1, 2)), TensorSpec(INT8, (2, 1)), Tout=INT32).dtype is INT32
    )


def test_repeated_letters() -> None:
    x = np.arange(9, dtype=np.float32).reshape(3, 3)
    assert run("Einsum", x, equation="ii->i").tolist() == [0, 4, 8]
    assert run("Einsum", x[0], equation="i->ii").tolist() == np.diag(x[0]).tolist()
    batch = run("Einsum", x, equation="...i->i...i")
    assert batch.shape == (3, 3, 3)
    assert batch[1, 2, 1] == x[2, 1]
    assert batch[1, 2, 0] == 0


def test_einsum_shapes() -> None:
    x, y = TensorSpec(FLOAT, (None, 3, 4)), TensorSpec(FLOAT, (4, None))
    assert infer("Einsum", x, y, equation="...a,ab->...b").shape == (None, 3, None)
    assert infer("Einsum", TensorSpec(FLOAT), y, equation="...a,ab->...b").shape is None
    assert infer("Einsum", TensorSpec(FLOAT), y, equation="ca,ab->cb").shape == (None, None)
    for equation in ("ij,jk->iz", "i.j,jk->k", "ij,jk->ik,"):
        with pytest.raises(ShapeError):
            infer("Einsum", TensorSpec(FLOAT, (2, 3)), TensorSpec(FLOAT, (3, 4)), equation=equation)
    with pytest.raises(ShapeError, match="differ"):
        infer("Einsum", TensorSpec(FLOAT, (2, 3)), TensorSpec(FLOAT, (4, 4)), equation="ij,jk->ik")


def test_costs_count_multiply_adds() -> None:
    a, b, y = TensorSpec(FLOAT, (2, 3)), TensorSpec(FLOAT, (3, 4)), TensorSpec(FLOAT, (2, 4))
    for name, attrs in (("MatMul", {}), ("Einsum", {"equation": "ij,jk->ik"})):
        assert registry.call_cost(registry.get(name), [y], [a, b], attrs).macs == 24


@pytest.mark.parametrize("sizes", [(1, 3), (3, 1), (2, 3)])
def test_a_letter_has_one_size(sizes: tuple[int, int]) -> None:
    x, y = np.ones((2, sizes[0]), np.float32), np.ones((sizes[1], 4), np.float32)
    with pytest.raises(ShapeError, match="differ"):
        run("Einsum", x, y, equation="ij,jk->ik")


def test_fused_activation_must_be_known() -> None:
    with pytest.raises(UnsupportedOp, match="'Warp' in fused_ops"):
        run("_FusedMatMul", np.ones((1, 1), np.float32), np.ones((1, 1), np.float32), fused_ops=("Warp",))
