"""State that a model keeps from run to run, in the struct of its C."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import thinflow
from tests.lower.variables import summing
from thinflow.api.converting import convert_verified
from thinflow.engines._c_library import compiler

KEPT = "c_state *state, const float *input, float *output"


def parameters(folder: Path) -> str:
    (found,) = re.findall(r"void c_run\((.*)\);", (folder / "c.h").read_text())
    return str(found)


@pytest.mark.parametrize(
    ("state", "wanted"),
    [
        (None, KEPT),
        ("freeze", "const float *input, float *output"),
        ("inputs", "const float *input_0, const float *input_1, float *output_0, float *output_1"),
    ],
)
def test_state_of_a_file_is_kept_or_what_was_asked_for(
    state: str | None, wanted: str, tmp_path: Path
) -> None:
    thinflow.save(summing(), tmp_path / "m.tflite")
    convert_verified(tmp_path / "m.tflite", tmp_path / "c.c", state=state, verify=False)
    assert parameters(tmp_path) == wanted


def test_state_of_a_graph_is_kept_run_by_run(tmp_path: Path) -> None:
    made = convert_verified(summing(), tmp_path / "c.c", state="keep")
    assert parameters(tmp_path) == KEPT
    if compiler() is not None:
        assert made.proof == "compiled and run beside LiteRT on 3 made-up inputs: every number is equal"
