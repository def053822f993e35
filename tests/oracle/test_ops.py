"""Kernels against TensorFlow's own, on a sample of the cases of tests/ops."""

from __future__ import annotations

import random
import zlib

import numpy as np
import pytest
from tensorflow.python.framework import op_def_registry

from tests.ops._agreement import run
from tests.ops.cases import cases
from tests.oracle._ops import CASES_SKIPPED, COMPARED_OUTPUTS, SKIPPED, check, in_tensorflow

SAMPLE = 6
"""How many cases of each op, at most."""

_NAMED = "it must name a tensor of the graph"


CASES = cases()


@pytest.mark.parametrize("name", sorted(CASES))
def test_kernel_agrees(name: str) -> None:
    if name in SKIPPED:
        pytest.skip(SKIPPED[name])
    if op_def_registry.get(name) is None or name.startswith("_"):
        pytest.skip("graphs outside TensorFlow's own optimiser cannot have it")
    sample = CASES[name]
    if len(sample) > SAMPLE:
        sample = random.Random(zlib.crc32(name.encode())).sample(sample, SAMPLE)
    compared = 0
    for inputs, attrs in sample:
        arrays = [np.asarray(x) for x in inputs]
        if name in CASES_SKIPPED and CASES_SKIPPED[name](arrays):
            continue
        mine = run(name, *arrays, **attrs)
        mine = mine if isinstance(mine, tuple) else (mine,)
        results = in_tensorflow(name, arrays, attrs, np.asarray(mine[0]).dtype if mine else None)
        if results is not None:
            compared += 1
            count = COMPARED_OUTPUTS.get(name, max(len(mine), len(results)))
            check(mine[:count], results[:count], name, arrays, attrs)
    if not compared:
        pytest.skip("TensorFlow has no kernel for these types")
