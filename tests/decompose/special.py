"""Special functions, with where they are defined."""

from __future__ import annotations

import numpy as np

from tests.decompose.harness import Constant


def f(*shape, low=-2.0, high=2.0, seed=0):
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


COUNTED = np.array([[1, 4, 4, 0], [7, 2, 2, 2]], np.int32)
NOTHING = Constant(np.zeros(0))
FORMULAS = [
    ("Xlog1py", [np.array([0, 0, 2, -1], np.float32), np.array([-1, 3, 0.5, 2], np.float32)], {}, 1),
    ("Cross", [f(4, 3), f(4, 3, seed=1)], {}, 1),
    ("SoftmaxCrossEntropyWithLogits", [f(3, 5), np.eye(5, dtype=np.float32)[:3]], {}, 2),
    ("NthElement", [f(3, 6), Constant(2, np.int32)], {}, 1),
    ("NthElement", [f(3, 6), Constant(0, np.int32)], {"reverse": True}, 1),
    ("DenseBincount", [COUNTED, Constant(6, np.int32), NOTHING], {}, 1),
    ("DenseBincount", [COUNTED, Constant(6, np.int32), NOTHING], {"binary_output": True}, 1),
    ("DenseBincount", [COUNTED, Constant(6, np.int32), f(2, 4)], {}, 1),
    ("DenseBincount", [COUNTED, np.array(6, np.int32), NOTHING], {}, 1),
    ("DenseBincount", [COUNTED, Constant(0, np.int32), NOTHING], {}, 1),
    ("Bincount", [COUNTED, Constant(6, np.int32), NOTHING], {}, 1),
]
