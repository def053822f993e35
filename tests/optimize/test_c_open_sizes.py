"""Sizes that a model leaves open are asked for with some that work, and those that are given hold in C."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.api import quantize_to_file
from thinflow.cli._options import shapes
from thinflow.errors import ThinflowError, UnsupportedOp
from thinflow.ir.types import FLOAT
from thinflow.lower.c.convert import network
from thinflow.lower.c.options import Options
from thinflow.lower.c.settle import OpenSizes
from thinflow.optimize.litert import LiteRTMaker
from thinflow.tflite.model import Operator, Program, Subgraph, Tensor

# The windows of the pool reach over 120 steps, so that few of them do not do.
FRAMES = """
x = Placeholder() {dtype=float, shape=shape[?,?,1,1]}
state = Placeholder() {dtype=float, shape=shape[?,2]}
y = MaxPool(x) {T=float, ksize=[1,120,1,1], strides=[1,60,1,1], padding="VALID"}
two = Const() {value=int32[2]{-1,2}}
pairs = Reshape(y, two) {T=float, Tshape=int32}
sum = AddV2(pairs, state) {T=float}
inputs: x, state
outputs: sum
"""


def graph_file(folder: Path) -> Path:
    path = folder / "frames.pb"
    thinflow.save(parse_graph(FRAMES), path)
    return path


def given(hint: str) -> list[str]:
    return re.findall(r"--shape (\S+)", hint)


def test_sizes_that_are_proposed_can_be_pasted(tmp_path: Path) -> None:
    path = graph_file(tmp_path)
    with pytest.raises(UnsupportedOp, match="of the input 'x' are open") as refused:
        thinflow.convert(path, tmp_path / "net.c", verify=False)
    flags = given(refused.value.hint)
    thinflow.convert(path, tmp_path / "net.c", shapes=shapes(flags), verify=False)
    size = shapes(flags)["x"][1]
    assert f"#define NET_INPUT_0_SIZE {size}" in (tmp_path / "net.h").read_text()


def test_sizes_that_were_given_when_it_was_opened_hold(tmp_path: Path) -> None:
    graph = thinflow.load(graph_file(tmp_path), shapes={"x": (1, 180, 1, 1)})
    for suffix in (".c", ".tflite"):
        thinflow.save(graph, tmp_path / f"net{suffix}")
    assert "#define NET_INPUT_0_SIZE 180" in (tmp_path / "net.h").read_text()
    assert thinflow.load(tmp_path / "net.tflite").inputs[0].shape == (1, 180, 1, 1)


def test_sizes_that_nobody_can_guess_are_words() -> None:
    x, y = (Tensor(name, (None, None, 3), FLOAT) for name in "xy")
    with pytest.raises(OpenSizes) as refused:
        network(Program([Subgraph([x], [y], [Operator("ABS", [x], [y])])]), Options())
    assert refused.value.hint == "give them: --shape x=1,SIZE,3"


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_an_input_may_hold_nothing(tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    graph = parse_graph("""
    past = Placeholder() {dtype=float, shape=shape[1,0,2]}
    x = Placeholder() {dtype=float, shape=shape[1,1,2]}
    axis = Const() {value=int32[]{1}}
    y = ConcatV2(past, x, axis) {T=float, Tidx=int32, N=2}
    inputs: past, x
    outputs: y
    """)
    made = thinflow.convert_verified(graph, tmp_path / "net.c")
    assert "every number is equal" in made.proof


@pytest.mark.parametrize("suffix", [".c", ".tflite"])
def test_of_a_shape_that_nothing_tells_no_rank_is_claimed(tmp_path: Path, suffix: str) -> None:
    graph = parse_graph("""
    x = Placeholder() {dtype=float, shape=shape?}
    y = Relu(x) {T=float}
    inputs: x
    outputs: y
    """)
    with pytest.raises(ThinflowError, match="the graph does not say what shape the input 'x' has") as refused:
        thinflow.convert(graph, tmp_path / f"net{suffix}")
    assert "--shape x=1,SIZE, or for pictures --shape x=1,224,224,3" in refused.value.hint


def test_what_is_quantized_for_c_is_told_of_open_sizes_before_it_is_calibrated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ai_edge_litert")
    graph = parse_graph("""
    x = Placeholder() {dtype=float, shape=shape[?,?,?,1]}
    w = Const() {value=float[1,1,1,2]{1,-2}}
    y = Conv2D(x, w) {T=float, strides=[1,1,1,1], padding="SAME"}
    inputs: x
    outputs: y
    """)

    def calibrated(*_: object, **__: object) -> None:
        raise AssertionError("it was calibrated")

    monkeypatch.setattr(LiteRTMaker, "quantize", calibrated)
    with pytest.raises(OpenSizes) as refused:
        quantize_to_file(graph, tmp_path / "net.c")
    (flag,) = given(refused.value.hint)
    ((_, sizes),) = shapes([flag]).items()
    assert sizes[0] == sizes[3] == 1
    assert sizes[1] > 1
