"""The engine that compiles."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.lower.c.c_networks import mixed
from tests.transforms.golden import parse_graph
from thinflow.engines import _c_library, c
from thinflow.errors import EngineUnavailable, FeedError
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.types import FLOAT

needs_compiler = pytest.mark.skipif(_c_library.compiler() is None, reason="there is no C compiler")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def graph() -> thinflow.Graph:
    made = thinflow.Graph()
    x = made.add("Placeholder", [], "x", attrs={"dtype": FLOAT, "shape": ShapeAttr((1, 3))}).output()
    w = made.constant(np.arange(6, dtype=np.float32).reshape(3, 2), "w")
    dense = made.add("MatMul", [x, w], "dense", attrs={"T": FLOAT}).output()
    made.outputs = [made.add("Relu", [dense], "y", attrs={"T": FLOAT}).output()]
    return made


@needs_compiler
def test_a_graph_runs_as_c() -> None:
    session = thinflow.Session(graph(), engine="c")
    (y,) = session.run(["y"], {"x": [[1, -2, 1]]})
    assert y.tolist() == [[0, 0]]
    assert set(session.placement.values()) == {"c"}


@needs_compiler
def test_what_c_does_not_have_runs_in_the_interpreter() -> None:
    made = graph()
    last = made.add("Betainc", [made.outputs[0]] * 3, "beta", attrs={"T": FLOAT}).output()
    made.outputs = [last]
    session = thinflow.Session(made, engine="c")
    session.run(None, {"x": [[1, 2, 1]]})
    assert session.placement["beta"] == "reference"


DROPOUT = """
x = Placeholder() {dtype=float, shape=shape[1,64]}
r = Relu(x) {T=float}
keep = Const() {value=float[]{KEEP}}
low = Const() {value=float[]{0}}
high = Const() {value=float[]{1}}
shape = Const() {value=int32[2]{1,64}}
u = RandomUniform(shape) {T=int32, dtype=float}
range = Sub(high, low) {T=float}
scaled = Mul(u, range) {T=float}
moved = Add(scaled, low) {T=float}
sum = Add(keep, moved) {T=float}
mask = Floor(sum) {T=float}
kept = RealDiv(r, keep) {T=float}
drop = Mul(kept, mask) {T=float}
y = Neg(drop) {T=float}
inputs: x
outputs: y
"""


@needs_compiler
@pytest.mark.parametrize(
    ("keep", "asked", "is_thrown"),
    [("1", "y", False), ("1", "drop", True), ("0.5", "y", True)],
    ids=["keeps all", "asked for", "drops"],
)
def test_dice_are_thrown_for_dropout_that_drops_alone(keep: str, asked: str, is_thrown: bool) -> None:
    session = thinflow.Session(parse_graph(DROPOUT.replace("KEEP", keep)), engine="c")
    x = np.linspace(-1, 1, 64, dtype=np.float32)[None]
    (y,) = session.run([asked], {"x": x})
    assert ("u" in session.placement) == is_thrown
    whole = np.maximum(x, 0) / float(keep) * (-1 if asked == "y" else 1)
    if keep == "1":
        np.testing.assert_array_equal(y, whole)
    else:
        assert (y == 0).sum() > 33
        assert set(y[y != 0]) < set(whole.ravel())


@needs_compiler
def test_dropout_that_is_fed_from_inside_stays() -> None:
    session = thinflow.Session(parse_graph(DROPOUT.replace("KEEP", "1")), engine="c")
    kept = np.full((1, 64), 3, np.float32)
    (y,) = session.run(["y"], {"kept": kept})
    np.testing.assert_array_equal(y, -kept)


@needs_compiler
def test_norms_whose_statistics_nobody_reads_run_as_c() -> None:
    made = parse_graph(NORM)
    session = thinflow.Session(made, engine="c")
    x = np.random.default_rng(0).uniform(-1, 1, (1, 4, 4, 8)).astype(np.float32)
    (got,) = session.run(["y"], {"x": x})
    (wanted,) = thinflow.Session(made, engine="reference").run(["y"], {"x": x})
    np.testing.assert_allclose(got, wanted, rtol=1e-5)
    assert set(session.placement.values()) == {"c"}


NORM = """
x = Placeholder() {dtype=float, shape=shape[1,4,4,8]}
w = Const() {dtype=float, value=float[3,3,8,8]{normal 1}}
conv = Conv2D(x, w) {T=float, strides=[1,1,1,1], padding="SAME"}
scale = Const() {dtype=float, value=float[8]{range}}
offset = Const() {dtype=float, value=float[8]{range}}
mean = Const() {dtype=float, value=float[8]{range}}
variance = Const() {dtype=float, value=float[8]{1,2,3,4,5,6,7,8}}
norm = FusedBatchNormV3(conv, scale, offset, mean, variance) {T=float, U=float, is_training=false}
y = Relu(norm) {T=float}
inputs: x
outputs: y
"""


@needs_compiler
def test_a_file_runs_with_its_own_operators(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(mixed("int8"))
    session = thinflow.Session(path, engine="c")
    x = np.random.default_rng(0).integers(-128, 128, (1, 9, 8, 3)).astype(np.int8)
    (got,) = session.run(None, {"input_0": x})
    (wanted,) = thinflow.Session(path, engine="litert").run(None, {"input_0": x})
    assert got.dtype == np.int8
    assert got.shape == wanted.shape
    # By another rounding than LiteRT's default here.
    assert np.abs(got.astype(int) - wanted).max() <= 2
    with pytest.raises(FeedError, match="has shape"):
        session.run(None, {"input_0": x[:, 1:]})


@needs_compiler
def test_states_last_from_run_to_run(shared: Path) -> None:
    path = shared / "zoo" / "tflite" / "mnist_lstm_int8.tflite"
    session = thinflow.Session(path, engine="c")
    assert session.keeps_state
    (name,) = session.inputs
    x = np.random.default_rng(0).integers(-128, 128, (1, 28, 28)).astype(np.int8)
    first, second = (session.run(None, {name: x})[0] for _ in range(2))
    assert (first != second).any()
    session.restart()
    assert (session.run(None, {name: x})[0] == first).all()


@needs_compiler
def test_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    thinflow.Session(graph(), engine="c").run(["y"], {"x": [[1, 2, 3]]})

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(_c_library.subprocess, "run", refuse)
    thinflow.Session(graph(), engine="c").run(["y"], {"x": [[1, 2, 3]]})


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(
        EngineUnavailable, match="the engine 'c' cannot be used: there is no C compiler"
    ) as told:
        thinflow.Session(graph(), engine="c")
    assert "engine='reference' always works" in told.value.hint


@needs_compiler
def test_a_compiler_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EngineUnavailable, match="refuses the C: "):
        _c_library.compiled({"net.c": "this is no C\n"})


def test_what_a_killed_compiler_leaves_goes_with_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "cc"
    tool.write_text('#!/bin/sh\necho "$TMPDIR in $PWD" >&2; exit 1\n')
    tool.chmod(0o755)
    monkeypatch.setenv("CC", str(tool))
    with pytest.raises(EngineUnavailable) as told:
        _c_library.compiled({"net.c": ""})
    where, _, folder = told.value.problem.partition("refuses the C: ")[2].partition(" in ")
    assert where == folder != ""


def test_sound_of_several_rates_is_refused_with_what_to_do() -> None:
    model = c._AtRates.__new__(c._AtRates)
    model.rates = [1, 3]
    sound = np.zeros(4, np.float32)
    with pytest.raises(FeedError, match=r"sound of several rates at once, \[8000, 16000\]") as told:
        model.run([sound, np.array(8000), sound, np.array([16000])])
    assert "resample all of it to one rate" in told.value.hint
