"""Fingerprints: equal for equal content however it lies in memory, and read in few, bounded pieces."""

from __future__ import annotations

import numpy as np
import pytest

from thinflow.ir import tensor as module
from thinflow.ir.tensor import Tensor

RNG = np.random.default_rng(4)
X = RNG.standard_normal((6, 5, 4, 3)).astype(np.float32)
VIEWS = {
    "transposed": X.transpose(2, 3, 1, 0),
    "every other": X[:, ::2],
    "backwards": X[::-1, :, ::-1],
    "one row": X.T[:1],
    "a column": X[:, 0, 0, 0],
    "repeated rows": np.broadcast_to(X[0, 0, 0], (7, 3)),
    "one number": np.broadcast_to(np.float32(2), (9, 4)),
    "nothing": X.T[:, :0],
    "halves": X.astype(np.float16).T,
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("block", [16, 100, 1 << 22])
def test_it_goes_by_content(view: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BLOCK_BYTES", block)
    array = VIEWS[view]
    assert b"".join(bytes(c) for c in module._byte_chunks(array)) == array.tobytes()
    plain = Tensor.from_array(np.ascontiguousarray(array).copy())
    assert Tensor.from_array(array).fingerprint() == plain.fingerprint()


def test_pieces_are_few_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BLOCK_BYTES", 1 << 12)
    kernel = RNG.standard_normal((256, 16, 3, 3)).astype(np.float32).transpose(2, 3, 1, 0)
    sizes = [len(c) for c in module._byte_chunks(kernel)]
    assert sum(sizes) == kernel.nbytes
    assert max(sizes) <= 1 << 12
    assert len(sizes) <= 2 * kernel.nbytes / (1 << 12)
