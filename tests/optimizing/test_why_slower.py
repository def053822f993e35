"""Why a quantized model is slower, as the report says it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.quantize.programs import Builder
from thinflow.optimizing.verdict import SMALL_MS, why_slower


def report(size: int, median_ms: float | None) -> Any:
    """What `why_slower` reads: a program with a depthwise window of that size, and the float time."""
    b = Builder()
    x = b.input(1, 9, 9, 2)
    y = b.op(
        "DEPTHWISE_CONV_2D",
        x,
        b.normal(1, size, size, 2),
        b.normal(2),
        padding="SAME",
        stride_w=1,
        stride_h=1,
    )
    quantized = SimpleNamespace(program=b.program(y), float_operators=[])
    row = None if median_ms is None else SimpleNamespace(median_ms=median_ms)
    machine = SimpleNamespace(multiplies_eight_bit=True)
    return SimpleNamespace(
        int8=SimpleNamespace(quantized=quantized),
        recipe=SimpleNamespace(needs_samples=True),
        files={"fp32": "m_fp32.tflite"},
        latency=SimpleNamespace(machine=machine, timing=lambda name: row),
    )


@pytest.mark.parametrize(
    ("size", "median_ms", "reason"),
    [
        (7, 40.0, "1 depthwise windows are wider than 5x5, for which there is no fast eight-bit kernel"),
        (5, 40.0, "its eight-bit kernels take longer than the float ones on this CPU"),
        (5, SMALL_MS / 2, "the model is so small that quantizing input and output costs more than it saves"),
        (5, None, "the model is so small that quantizing input and output costs more than it saves"),
    ],
)
def test_the_likeliest_reason(size: int, median_ms: float | None, reason: str) -> None:
    assert why_slower(report(size, median_ms)) == reason
