"""Ops as simpler ones give what TensorFlow gives, signs and NaN included."""

from __future__ import annotations

import numpy as np
import pytest

from tests.decompose.harness import Constant, network
from tests.decompose.matrices import CASES as MATRICES
from tests.decompose.special import FORMULAS
from tests.decompose.windows import BOXES, IMAGES, POOLS
from tests.decompose.windows import floats as picture
from tests.lower.tflite.harness import Net
from thinflow.decompose import rules
from thinflow.interpreter import Plan
from thinflow.ir.types import TensorSpec, dtype

tf = pytest.importorskip("tensorflow")
POINTS = np.linspace(-6.3, 12.1, 400, dtype=np.float32)
ONE = [
    *(("Lgamma", [POINTS], {}, 1), ("Digamma", [POINTS], {}, 1)),
    ("Erfinv", [np.linspace(-1, 1, 201, dtype=np.float32)], {}, 1),
    ("Cumprod", [POINTS[:7], Constant(0, np.int32)], {"exclusive": True, "reverse": True}, 1),
    ("CumulativeLogsumexp", [POINTS, Constant(0, np.int32)], {}, 1),
    *(("MaxPoolWithArgmax", [picture(2, 7, 5, 3)], attrs, 2) for attrs in POOLS[:3]),
    ("CropAndResize", [picture(2, 6, 5, 2), BOXES, IMAGES, Constant([4, 3], np.int32)], {}, 1),
]


@pytest.mark.parametrize(("op", "operands", "attrs", "ports"), [*MATRICES, *FORMULAS, *ONE])
def test_parts(op, operands, attrs, ports):
    _, node = network(Net, op, operands, attrs)
    arrays = [o.array if isinstance(o, Constant) else o for o in operands]
    names = [a.name for a in tf.raw_ops.__dict__[op].__signature__.parameters.values()]
    given = dict(zip(names, map(tf.constant, arrays), strict=False))
    made = tf.raw_ops.__dict__[op](**given, **attrs)
    wanted = list(made) if isinstance(made, tuple) else [made]
    known = {n: o.array for n, o in enumerate(operands) if isinstance(o, Constant)}
    parts, _ = rules.decomposition_of(node, [TensorSpec(dtype(a.dtype), a.shape) for a in arrays], known)
    feeds = dict(zip(parts.inputs, arrays, strict=True))
    found = Plan(parts.graph, list(parts.outputs[:ports]), list(feeds)).run(feeds)
    for a, b in zip(found, wanted[:ports], strict=True):
        np.testing.assert_allclose(a, b.numpy(), rtol=3e-4, atol=3e-5)
