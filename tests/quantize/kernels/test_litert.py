"""Every row of the kernel tables, run by LiteRT: the op computes in integers and its numbers are right."""

from __future__ import annotations

import numpy as np
import pytest

from tests.quantize.kernels.cases import CASES, HWC
from tests.quantize.programs import Builder, codes, quantize, run, samples, scale_of
from thinflow.quantize.kernels.litert import BY_SCHEME, INT8_KERNELS, INT16_KERNELS

ALONE = {
    "UNIDIRECTIONAL_SEQUENCE_LSTM",  # keeps state; tests/quantize/test_integer_lstm.py runs it
    "FAKE_QUANT",  # becomes a QUANTIZE; tests/quantize/test_trained.py
}


def test_every_kernel_has_a_case() -> None:
    assert set(CASES) == set(INT8_KERNELS.table) - ALONE


@pytest.mark.parametrize("plain", [False, True], ids=["xnnpack", "builtin"])
@pytest.mark.parametrize(
    ("scheme", "code"), [(s, c) for s in BY_SCHEME for c in BY_SCHEME[s].table if c not in ALONE]
)
def test_kernel(scheme: str, code: str, plain: bool) -> None:
    builder = Builder()
    made = CASES[code](builder)
    outputs = made if isinstance(made, list) else [made]
    program = builder.program(*outputs)
    feeds = samples(program)
    result = quantize(program, feeds, scheme=scheme, float_parts=())
    assert not result.float_operators
    assert [c for c in codes(result.program) if c not in {"QUANTIZE", "DEQUANTIZE"}] == [code]
    expected = run(program, *feeds[0].values(), plain=plain)
    found = run(result.program, *feeds[0].values(), plain=plain)
    operator = next(o for o in result.program.subgraphs[0].operators if o.code == code)
    for y, float_y, integer_y in zip(operator.outputs, expected, found, strict=True):
        assert float_y.shape == integer_y.shape
        if float_y.dtype == np.float32:
            assert y.dtype is BY_SCHEME[scheme].arithmetic.activation
            allowed = scale_of(y) * tolerance(code, operator)
            if scheme == "int16x8" and INT8_KERNELS.table[code].weighted:
                allowed = np.abs(float_y).max() / 100  # int8 weights, not activations, make the error
            assert np.abs(integer_y - float_y).max() <= allowed
        else:
            assert np.mean(integer_y == float_y) >= 0.9


@pytest.mark.parametrize("code", sorted(set(INT8_KERNELS.table) - set(INT16_KERNELS.table) - ALONE))
def test_no_int16_kernel(code: str) -> None:
    builder = Builder()
    made = CASES[code](builder)
    program = builder.program(*(made if isinstance(made, list) else [made]))
    ((operator, why),) = quantize(program, scheme="int16x8").float_operators
    assert (operator.code, why) == (code, INT16_KERNELS.why_not(code))
    assert "int16" in why


def tolerance(code: str, operator) -> float:
    """Codes of the output: one for its own rounding, the rest for that of the inputs."""
    if code in {"CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED", "BATCH_MATMUL"}:
        return 4
    return 4 if INT8_KERNELS.table[code].fixed or not INT8_KERNELS.table[code].same_scale else 1.01


def test_reasons() -> None:
    assert INT8_KERNELS.why_not("RSQRT") == "its results span more orders of magnitude than 8 bits hold"
    assert INT16_KERNELS.why_not("DIV") == "its results span more orders of magnitude than 16 bits hold"
    assert INT8_KERNELS.why_not("CONV_3D") == "LiteRT has no int8 kernel for CONV_3D"


def test_op_without_kernel_stays_float() -> None:
    builder = Builder()
    program = builder.program(builder.op("NEG", builder.input(*HWC)))
    assert (
        quantize(program).float_operators[0][1] == "LiteRT's int8 kernel for it ignores scale and zero point"
    )
