"""TFLite Micro's signal ops beside what its own interpreter answers over several calls."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.lift.tflite.programs import program
from tests.lift.tflite.signal_cases import CASES, INT16, T_FLOAT, T_INT16, Case, check_of, drawn
from thinflow.errors import UnsupportedOp
from thinflow.ir.types import FLOAT, INT32
from thinflow.tflite.options import encode_map
from thinflow.tflite.writer import to_bytes


def written(case: Case, path: Path) -> Path:
    options = encode_map(case.options)
    more = {"custom_code": case.code, "custom_options": options}
    path.write_bytes(to_bytes(program("CUSTOM", [*case.inputs, *case.constants], case.outputs, **more)))
    return path


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.code}-{case.inputs[0][0]}")
def test_as_tflite_micro(case: Case, tmp_path: Path) -> None:
    graph = thinflow.load(written(case, tmp_path / "m.tflite"), state="keep")
    session = thinflow.Session(graph, engine="reference")
    names = [v.name for v in graph.inputs[: len(case.inputs)]]
    outputs = [v.name for v in graph.outputs[: len(case.outputs)]]
    answers = [session.run(outputs, dict(zip(names, xs, strict=True))) for xs in drawn(case)]
    assert [(y.shape, y.dtype) for y in answers[0]] == [(s, k.numpy()) for s, k in case.outputs]
    assert check_of(answers) == case.check


def test_spectra_of_floats(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((2, 30)).astype(np.float32)
    case = Case("SignalRfft", [((2, 30), FLOAT)], [((2, 66), FLOAT)], {"fft_length": 64, "T": T_FLOAT})
    back = Case("SignalIrfft", [((2, 66), FLOAT)], [((2, 64), FLOAT)], {"fft_length": 64, "T": T_FLOAT})
    (spectrum,) = thinflow.Session(written(case, tmp_path / "m.tflite"), "reference").run(None, {"x0": x})
    (again,) = thinflow.Session(written(back, tmp_path / "n.tflite"), "reference").run(None, {"x0": spectrum})
    np.testing.assert_allclose(again, np.pad(x, [(0, 0), (0, 34)]), atol=1e-6)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"delay_length": 3, "speed": 2}, "its option 'speed' is not known here"),
        ({}, "its option 'delay_length' is missing"),
    ],
)
def test_other_options_are_refused(options: dict[str, int], why: str, tmp_path: Path) -> None:
    case = Case("SignalDelay", [((8,), INT16)], [((8,), INT16)], options)
    with pytest.raises(UnsupportedOp, match=why):
        thinflow.load(written(case, tmp_path / "m.tflite"))


def test_a_transform_of_another_length_is_refused(tmp_path: Path) -> None:
    case = Case("SignalRfft", [((40,), INT16)], [((50,), INT16)], {"fft_length": 48, "T": T_INT16})
    session = thinflow.Session(written(case, tmp_path / "m.tflite"), "reference")
    with pytest.raises(thinflow.ThinflowError, match="a transform of 48 is no power of two"):
        session.run(None, {"x0": np.zeros(40, np.int16)})


def test_quotients_of_whole_numbers_are_cut_off(tmp_path: Path) -> None:
    made = program("DIV", [((3,), INT32), np.array(4, np.int32)], [((3,), INT32)])
    (tmp_path / "m.tflite").write_bytes(to_bytes(made))
    graph = thinflow.load(tmp_path / "m.tflite")
    assert [n.op for n in graph if n.op.endswith("Div")] == ["TruncateDiv"]
    x = np.array([7, -7, 8], np.int32)
    (y,) = thinflow.Session(graph, engine="reference").run(None, {graph.inputs[0].name: x})
    assert y.tolist() == [1, -1, 2]
