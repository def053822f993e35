"""The benchmark of codes of weights in ONNX files: the files hold what their columns say."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from benchmarks.ptq.judging import opened
from benchmarks.ptq.stored_codes import FORMS, main, product, ratios, stored
from thinflow.onnx.writer import to_bytes

STEPS_DB = {8: 35, 4: 10}


@pytest.mark.parametrize("name", FORMS)
def test_products_of_codes_come_near_those_of_floats(name: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    bits, keeps_codes = FORMS[name]
    program = product(2, 64)
    made = stored(program, bits, keeps_codes)
    unpacked = Counter(o.code for o in made.operators)
    assert unpacked == Counter(["MatMul", "DequantizeLinear"] if keeps_codes else ["MatMul", "Cast", "Mul"])
    x = np.random.default_rng(0).standard_normal((2, 64)).astype(np.float32)
    answers = []
    for number, one in enumerate((program, made)):
        path = tmp_path / f"{number}.onnx"
        path.write_bytes(to_bytes(one))
        answers.append(opened(path)(x))
    wanted, found = answers
    assert 10 * np.log10((wanted**2).sum() / ((wanted - found) ** 2).sum()) > STEPS_DB[bits]
    codes = next(
        t for o in made.operators for t in o.inputs if t is not None and t.dtype.name == f"int{bits}"
    )
    assert codes.shape == (64, 64)


def test_there_is_a_time_for_each_form() -> None:
    pytest.importorskip("onnxruntime")
    found = ratios(product(1, 64), np.ones((1, 64), np.float32))
    assert len(found) == len(FORMS)
    assert min(found) > 0


def test_a_network_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["resnet"])
    assert "there is no network 'resnet'" in capsys.readouterr().err
