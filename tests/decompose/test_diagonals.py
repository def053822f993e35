"""Limits of the tables of diagonals: up to them a model is made, beyond it is refused."""

from __future__ import annotations

import numpy as np
import pytest

from thinflow.decompose import diagonals
from thinflow.errors import UnsupportedOp


def test_tables_go_up_to_their_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert diagonals.MOST == 1 << 22
    monkeypatch.setattr(diagonals, "MOST", 12)
    assert diagonals.numbered((3, 4), "the matrix").shape == (3, 4)
    with pytest.raises(UnsupportedOp, match="the matrix is too large"):
        diagonals.numbered((13, 1), "the matrix")
    with pytest.raises(UnsupportedOp, match="the size of the matrix is not known"):
        diagonals.numbered((3, None), "the matrix")
    assert diagonals.table("MatrixDiag", [np.arange(3)]).shape == (3, 3)
    with pytest.raises(UnsupportedOp, match="the matrix is too large"):
        diagonals.table("MatrixDiag", [np.arange(4)])
