"""How inputs are used where no file says so, but the first steps of a graph tell."""

from __future__ import annotations

from pathlib import Path

import pytest

import thinflow
from tests.tflite import classifiers
from tests.transforms.golden import parse_graph
from thinflow.ir.graph import Graph
from thinflow.ir.types import dtype
from thinflow.ir.usage import IMAGE, InputUsage, Usage
from thinflow.load.usage import completed

HEAD = "x = Placeholder() {{dtype={type}, shape=shape[?,32,32,3]}}\n"
TAIL = """
    axes = Const() {{value=int32[2]{{1,2}}}}
    y = Mean({last}, axes) {{T=float, Tidx=int32}}
    inputs: x
    outputs: y
"""


def graph(steps: str, last: str, element: str = "float") -> Graph:
    return thinflow.load(parse_graph(HEAD.format(type=element) + steps + TAIL.format(last=last)))


def number(name: str, value: float) -> str:
    return f"{name} = Const() {{value=float[]{{{value}}}}}\n"


def rescaling(factor: float, offset: float) -> str:
    steps = number("f", factor) + "m = Mul(x, f) {T=float}\n" + number("o", offset)
    return steps + "a = AddV2(m, o) {T=float}\n"


@pytest.mark.parametrize(
    ("factor", "offset", "own", "formula"),
    [
        (1 / 127.5, -1, "(x - 127.5) / 127.5", "x"),
        (1 / 255, 0, "x / 255", "x"),
        (2, -1, "(x - 0.5) / 0.5", "x / 255"),
        (1, -117, "x - 117", "x"),
        (3.2, 0.8, "(x + 0.25) / 0.3125", "x / 255"),
        (9000, 0, "x / 0.000111111", ""),
    ],
)
def test_a_graph_that_scales_its_input(factor: float, offset: float, own: str, formula: str) -> None:
    found = graph(rescaling(factor, offset), "a").usage.input("x")
    assert found is not None
    assert (found.kind, found.own, found.formula) == (IMAGE, own, formula)
    assert bool(found.assumed) == bool(formula)


def test_numbers_of_each_channel_and_channels_in_reverse() -> None:
    steps = """
        axis = Const() {value=int32[1]{3}}
        r = ReverseV2(x, axis) {T=float, Tidx=int32}
        means = Const() {value=float[3]{104,117,124}}
        s = Sub(r, means) {T=float}
    """
    found = graph(steps, "s").usage.input("x")
    assert found is not None
    # In the order in which they are fed.
    assert found.own == "x - [124, 117, 104], its channels in reverse"
    assert (found.colours, found.formula) == ("RGB", "x")


def test_whole_numbers_are_pixels() -> None:
    steps = "c = Cast(x) {SrcT=uint8, DstT=float}\n" + rescaling(1 / 127.5, -1).replace("(x,", "(c,")
    found = graph(steps, "a", "uint8").usage.input("x")
    assert found is not None
    assert (found.formula, found.assumed, found.own) == ("x", "", "(x - 127.5) / 127.5")


@pytest.mark.parametrize(
    ("steps", "last"),
    [
        ("a = Identity(x) {T=float}\n", "a"),
        ("a = Relu(x) {T=float}\n", "a"),
        ("a = Sigmoid(x) {T=float}\n", "a"),
        ("a = Square(x) {T=float}\n", "a"),
        (number("f", 0) + "a = Mul(x, f) {T=float}\n", "a"),
    ],
)
def test_steps_that_scale_nothing(steps: str, last: str) -> None:
    assert not graph(steps, last).usage


def test_a_clip_ends_the_scaling() -> None:
    found = graph(
        rescaling(1 / 255, 0) + "b = Relu6(a) {T=float}\nq = Sigmoid(b) {T=float}\n", "q"
    ).usage.input("x")
    assert found is not None
    assert found.own == "x / 255"


def test_what_the_file_says_stays() -> None:
    made = graph(rescaling(1 / 255, 0), "a")
    stated = InputUsage(IMAGE, mean=(1.0,), std=(2.0,), said="a file")
    made.usage = Usage({"x": stated})
    assert completed(made).inputs == {"x": stated}
    made.usage = Usage({"x": InputUsage("features")})
    assert completed(made) == made.usage


@pytest.mark.parametrize(
    ("element", "grid", "formula", "how"),
    [
        ("uint8", (1 / 128, 128), "(x - 128) / 128", "its codes are pixels as they are"),
        ("int8", (1 / 255, -128), "x / 255", "its codes are pixels less 128"),
    ],
)
def test_codes_are_pixels_as_they_are(
    element: str, grid: tuple[float, int], formula: str, how: str, tmp_path: Path
) -> None:
    made = classifiers.program(dtype(element), grid)
    made.subgraphs[0].inputs[0].shape = (1, 32, 32, 3)
    path = classifiers.write(tmp_path / "m.tflite", classifiers.to_bytes(made))
    for lift in (True, False):
        found = thinflow.load(path, lift=lift).usage.input("picture")
        assert found is not None
        assert (found.formula, found.assumed) == (formula, how)


def test_spectra_are_no_pictures(tmp_path: Path) -> None:
    made = classifiers.program(dtype("int8"), (1 / 255, -128), 1)
    for shape in ((1, 49, 10, 1), (1, 30, 40, 1), (1, 4, 4, 1)):
        made.subgraphs[0].inputs[0].shape = shape
        path = classifiers.write(tmp_path / "m.tflite", classifiers.to_bytes(made))
        assert not thinflow.load(path).usage
