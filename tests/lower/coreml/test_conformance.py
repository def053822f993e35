"""TensorFlow's own answers beside those of Core ML packages, which our reader and our kernels compute."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.conformance.cases import find_cases, load_case
from tests.night import AT_NIGHT
from thinflow.errors import UnsupportedOp

pytestmark = pytest.mark.skipif(find_spec("coremltools") is None, reason="coremltools is not installed")

_STEP = 1 if AT_NIGHT else 10
_LEAST = 0.8
"""Of the cases have a form in Core ML: 87 % when this was written, all of which agree."""


def as_kept(array: np.ndarray) -> np.ndarray:
    """An answer as a package has it: a number alone is [1]."""
    return array.reshape(1) if array.ndim == 0 else array


@pytest.mark.slow
def test_what_is_written_agrees_with_tensorflow(shared: Path, tmp_path: Path) -> None:
    written, refused, wrong = 0, [], []
    for number, path in enumerate(find_cases(shared)[::_STEP]):
        case = load_case(path)
        target = tmp_path / f"{number}.mlpackage"
        try:
            case.graph.inputs, case.graph.outputs = list(case.feeds), list(case.expected)
            thinflow.save(case.graph, target)
        except UnsupportedOp:
            refused.append(case.name)
            continue
        written += 1
        back = thinflow.load(target)
        feeds = {}
        for end, value in zip(back.inputs, case.graph.inputs, strict=True):
            assert end.dtype is not None
            feeds[end.name] = as_kept(np.asarray(case.feeds[value])).astype(end.dtype.numpy())
        answers = thinflow.Session(back, engine="reference").run([v.name for v in back.outputs], feeds)
        for value, answer in zip(case.graph.outputs, answers, strict=True):
            wanted = as_kept(np.asarray(case.expected[value]))
            if wanted.dtype.kind == "c":
                # As in ONNX, pairs of numbers, one axis more.
                wanted = np.stack([wanted.real, wanted.imag], -1)
            wanted = wanted.astype(answer.dtype)
            if not np.allclose(answer, wanted, rtol=1e-4, atol=1e-5, equal_nan=True):
                wrong.append(case.name)
    assert not wrong
    assert written >= _LEAST * (written + len(refused)), refused
