"""The backend cases of the `onnx` package give the answers that they state, or are refused: never others."""

from __future__ import annotations

import warnings

import pytest

pytest.importorskip("onnx")
from benchmarks import onnx_suite
from tests.night import AT_NIGHT

ROUNDED = {"test_dft_inverse", "test_dft_inverse_opset19", "test_light_squeezenet"}
"""A Fourier transform by a product of matrices: off by 4e-6 of 54 where the case asks for zeros to 1e-7.

The network has equal weights all over, so that its 1,000 scores are one number, 9.475685e9. ONNX Runtime's
ReduceMean gives 250 of them a unit in the last place (1024) less, its GlobalAveragePool does not; the
true mean lies 59 above the others. A Softmax takes the 250 for impossible, and gives 1/750 for 1/1000."""
EVERY = 1 if AT_NIGHT else 3
"""Of so many cases one is judged: all of them take minutes."""
FLOORS = {"reference": (1968, 655), "tflite": (1623, 537), "onnx": (1700, 563)}
"""Cases that must be right, with small fed operands as constants: of all, and of those judged by day.

Those that rounding decides do not count: they go by the processor."""


def verdicts(road: str) -> list[onnx_suite.Verdict]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [onnx_suite.judge(onnx_suite.baked(case), road) for case in [*onnx_suite.cases()][::EVERY]]


@pytest.mark.slow
@pytest.mark.parametrize("road", FLOORS)
def test_right_or_refused(road: str) -> None:
    pytest.importorskip({"tflite": "ai_edge_litert", "onnx": "onnxruntime"}.get(road, "onnx"))
    found = verdicts(road)
    wrong = {v.name: v.why for v in found if v.state in ("wrong", "crash") and v.name not in ROUNDED}
    assert not wrong
    assert sum(v.state == "right" and v.name not in ROUNDED for v in found) >= FLOORS[road][not AT_NIGHT]
