"""What TensorFlow's kernels add for eight-bit codes, beside the kernels themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinflow.analysis.quant_params import QuantParams, params_of_range
from thinflow.ir.types import QINT8, QUINT8, DType
from thinflow.lower.quantized.addends import _steps_of, addends
from thinflow.ops import registry
from thinflow.ops._quantized import codes_of

_RANGE = st.tuples(st.floats(-9, 0, width=32), st.floats(0.0078125, 9, width=32))
_TYPES = st.sampled_from([QUINT8, QINT8])
OPS = pytest.mark.parametrize("op", ["QuantizedAdd", "QuantizedBiasAdd"])


def _grids(first: Any, second: Any, T: DType) -> tuple[QuantParams, QuantParams]:
    found = [params_of_range(*ends, T) for ends in (first, second)]
    assert found[0] is not None
    assert found[1] is not None
    return found[0], found[1]


@OPS
@settings(max_examples=50, deadline=None)
@given(first=_RANGE, second=_RANGE, T=_TYPES, code=st.integers(0, 255))
def test_sums_of_all_codes_with_another(op: str, first: Any, second: Any, T: DType, code: int) -> None:
    T = QUINT8 if op == "QuantizedAdd" else T
    grids = _grids(first, second, T)
    low = codes_of(T.numpy()).low
    codes = np.arange(low, low + 256).astype(T.numpy()).reshape(16, 16)
    others = np.full(16 if op == "QuantizedBiasAdd" else (16, 16), code + low, T.numpy())
    ends = [np.asarray(end, np.float32) for g in grids for end in (g.low, g.high)]
    sums = registry.call_kernel(registry.get(op), [codes, others, *ends], {})[0]
    x, y = addends(op, grids, (False, False))
    np.testing.assert_array_equal((x.reals + y.reals[code]) / x.step, sums.reshape(-1).astype(np.float64))


@settings(max_examples=50, deadline=None)
@given(first=_RANGE, second=_RANGE, T=_TYPES)
def test__steps_of_a_bias_are_those_of_the_table(first: Any, second: Any, T: DType) -> None:
    for addend in addends("QuantizedBiasAdd", _grids(first, second, T), (False, False)):
        steps = _steps_of(addend)
        if steps is None:
            continue
        low, narrow = codes_of(T.numpy()).low, np.float32
        codes = np.arange(low, low + 256).astype(narrow)
        made = np.rint((codes * narrow(steps.width) + narrow(steps.base)) * narrow(steps.per))
        np.testing.assert_allclose(
            made * addend.step + steps.more, addend.reals, rtol=0, atol=addend.step / 2
        )


def test_a_sum_is_a_straight_line_of_its_codes() -> None:
    for addend in addends("QuantizedAdd", _grids((-5.0, 1.0), (0.0, 0.01), QUINT8), (False, False)):
        slope, intercept, rest = addend.line()
        assert rest < 1e-9
        np.testing.assert_allclose(addend.exact * slope + intercept, addend.reals, atol=1e-9)


def test_a_narrow_range_beside_a_wide_one_is_coarse() -> None:
    """Its codes are a few steps of the 32-bit grid each: rounding that makes all of them wrong alike."""
    _, narrow = addends("QuantizedAdd", _grids((-5.0, 1.0), (0.0, 0.01), QUINT8), (False, False))
    assert 0.02 < abs(narrow.line()[0] - 1) < 1
