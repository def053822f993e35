"""Matrix diagonals in all packings."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement, infer, run, spec_of
from thinflow.errors import ShapeError
from thinflow.ir.types import FLOAT, TensorSpec


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


M = np.arange(1, 25, dtype=np.float32).reshape(2, 3, 4)
ANY = np.int32(-1)
ALIGNS = ["RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT"]
PACKED = np.arange(1, 19, dtype=np.int32).reshape(2, 3, 3)

CASES: dict[str, list[Case]] = {
    "Diag": [([np.array([[1, 2], [3, 4]], np.int32)], {}), ([np.zeros(0, np.float32)], {})],
    "DiagPart": [([np.arange(16, dtype=np.float32).reshape(2, 2, 2, 2)], {})],
    "MatrixDiag": [([M[0]], {}), ([np.array([True, False])], {})],
    "MatrixDiagV2": [
        ([PACKED, ints(-1, 1), ANY, ANY, np.int32(9)], {}),
        ([M[0], np.int32(1), ANY, ANY, np.float32(0)], {}),
    ],
    "MatrixDiagV3": [
        *[([PACKED, ints(-1, 1), ANY, ANY, np.int32(9)], {"align": a}) for a in ALIGNS],
        ([PACKED[:, :2], ints(-1, 0), np.int32(4), np.int32(3), np.int32(0)], {}),
        ([M[0], np.int32(-2), ANY, np.int32(7), np.float32(5)], {"align": "RIGHT_LEFT"}),
        ([M[0], ints(1), np.int32(4), ANY, np.float32(5)], {}),
    ],
    "MatrixDiagPart": [([M], {}), ([M.transpose(0, 2, 1)], {})],
    "MatrixDiagPartV2": [([M, ints(-1, 2), np.float32(7)], {}), ([M, np.int32(3), np.float32(7)], {})],
    "MatrixDiagPartV3": [
        *[([M, ints(-2, 2), np.float32(7)], {"align": a}) for a in ALIGNS],
        ([M, np.int32(-1), np.float32(7)], {}),
    ],
    "MatrixSetDiag": [([M, -np.ones((2, 3), np.float32)], {})],
    "MatrixSetDiagV2": [([M, -np.ones((2, 2, 3), np.float32), ints(0, 1)], {})],
    "MatrixSetDiagV3": [
        *[
            ([M, -np.arange(24, dtype=np.float32).reshape(2, 4, 3), ints(-1, 2)], {"align": a})
            for a in ALIGNS
        ],
        ([M, -np.ones((2, 2), np.float32), np.int32(-1)], {}),
    ],
    "MatrixBandPart": [
        ([M, np.int64(1), np.int64(0)], {}),
        ([M, np.int32(-1), np.int32(1)], {}),
        ([M.astype(np.int32), np.int32(0), np.int32(-1)], {}),
    ],
}

CASES |= {f"Batch{n}": CASES[n] for n in ("MatrixDiag", "MatrixDiagPart", "MatrixSetDiag", "MatrixBandPart")}


@pytest.mark.parametrize(("name", "case"), [(n, c) for n, cases in CASES.items() for c in cases])
def test_agreement(name: str, case: Case) -> None:
    check_agreement(name, case)


def test_short_diagonals_sit_where_align_says() -> None:
    x = np.arange(1, 10, dtype=np.int32).reshape(3, 3)
    band, pad = ints(-1, 1), np.int32(0)
    assert run("MatrixDiagPartV3", x, band, pad).tolist() == [[0, 2, 6], [1, 5, 9], [4, 8, 0]]
    assert run("MatrixDiagPartV2", x, band, pad).tolist() == [[2, 6, 0], [1, 5, 9], [4, 8, 0]]
    assert run("MatrixDiagPartV3", x, band, pad, align="LEFT_RIGHT").tolist() == [
        [2, 6, 0],
        [1, 5, 9],
        [0, 4, 8],
    ]


@pytest.mark.parametrize("align", ALIGNS)
def test_building_undoes_reading(align: str) -> None:
    x = M[0]
    packed = run("MatrixDiagPartV3", x, ints(-2, 3), np.float32(0), align=align)
    built = run("MatrixDiagV3", packed, ints(-2, 3), np.int32(3), np.int32(4), np.float32(0), align=align)
    np.testing.assert_array_equal(built, x)


def test_refusals() -> None:
    with pytest.raises(ShapeError, match="no diagonal"):
        run("MatrixDiagPartV3", M, np.int32(4), np.float32(0))
    with pytest.raises(ShapeError, match="do not fit"):
        run("MatrixDiagV3", M[0], np.int32(0), np.int32(3), ANY, np.float32(0))
    with pytest.raises(ShapeError, match="above"):
        run("MatrixDiagPartV3", M, ints(1, 0), np.float32(0))


def test_unknown_sizes() -> None:
    x = TensorSpec(FLOAT, (None, 3, None))
    k = spec_of(ints(-1, 1))
    assert infer("MatrixDiagPartV3", x, k, TensorSpec(FLOAT, ())).shape == (None, 3, None)
    assert infer("MatrixDiag", TensorSpec(FLOAT, (2, None))).shape == (2, None, None)
