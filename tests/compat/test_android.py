"""The on-device inference interface: feed, run, fetch and their rules."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow import InferenceInterface
from thinflow.errors import FeedError, FormatError, GraphError, ParameterError
from thinflow.formats import graphdef

TEXT = """
x = Placeholder() {dtype=float, shape=shape[?,2]}
k = Placeholder() {dtype=uint8, shape=shape[?]}
s = Placeholder() {dtype=string}
y = Relu(x) {T=float}
parts = Unpack(x) {T=float, axis=1, num=2}
wide = Cast(k) {SrcT=uint8, DstT=int32}
flag = Greater(x, c) {T=float}
c = Const() {dtype=float, value=float[]{0}}
t = Identity(s) {T=string}
d = Placeholder() {dtype=double, shape=shape[]}
e = Neg(d) {T=double}
inputs: x
outputs: y
"""
X = np.array([[-1, 2]], np.float32)


@pytest.fixture
def inference() -> InferenceInterface:
    return InferenceInterface(parse_graph(TEXT))


def ran(inference: InferenceInterface, *outputs: str) -> InferenceInterface:
    inference.feed("x", X)
    inference.run(list(outputs or ("y",)))
    return inference


@pytest.mark.parametrize("engine", ["auto", "litert", "reference"])
def test_feed_run_fetch(engine: str) -> None:
    inference = InferenceInterface(parse_graph(TEXT), engine=engine)
    inference.feed("x", np.float32([-1, 2, 3, -4]), 2, 2)
    inference.run(["y"])
    out = np.full(6, 9, np.float32)
    assert inference.fetch("y", out) is out
    assert out.tolist() == [0, 2, 3, 0, 9, 9]  # the rest is left alone
    assert inference.fetch("y").tolist() == [[0, 2], [3, 0]]


@pytest.mark.parametrize("asked", ["y", "y:0"])
@pytest.mark.parametrize("fetched", ["y", "y:0"])
def test_names_with_and_without_the_index(inference: InferenceInterface, asked: str, fetched: str) -> None:
    inference.feed("x:0", X)
    inference.run([asked])
    assert inference.fetch(fetched).tolist() == [[0, 2]]


def test_other_outputs_of_a_node(inference: InferenceInterface) -> None:
    ran(inference, "parts:1", "parts")
    assert (inference.fetch("parts:1").tolist(), inference.fetch("parts").tolist()) == ([2], [-1])


def test_what_is_fed_is_copied(inference: InferenceInterface) -> None:
    array = X.copy()
    inference.feed("x", array)
    array[:] = 7
    inference.run(["y"])
    first = inference.fetch("y")
    first[:] = 5
    assert inference.fetch("y").tolist() == [[0, 2]]


@pytest.mark.parametrize(
    "values", [bytes([1, 255]), bytearray([1, 255]), np.uint8([1, 255]), np.int8([1, -1]), [1, 255]]
)
def test_bytes_are_uint8(inference: InferenceInterface, values: Any) -> None:
    inference.feed("k", values, 2)
    inference.run(["wide"])
    assert inference.fetch("wide").tolist() == [1, 255]


def test_a_number_takes_the_declared_type(inference: InferenceInterface) -> None:
    inference.feed("d", 3)
    inference.run(["e"])
    assert inference.fetch("e") == -3.0


@pytest.mark.parametrize(
    ("values", "expected"),
    [(b"one", b"one"), ("one", b"one"), ([b"a", "b"], [b"a", b"b"])],
)
def test_strings(inference: InferenceInterface, values: Any, expected: Any) -> None:
    inference.feed_string("s", values)
    inference.run(["t"])
    assert inference.fetch("t").tolist() == expected


@pytest.mark.parametrize(
    ("values", "dims", "words"),
    [
        (
            np.zeros(3, np.float32),
            (2, 2),
            r"'x' was given 3 values for the shape \[2,2\]\nhint: that shape takes 4",
        ),
        (np.zeros(5, np.float32), (2, 2), "was given 5 values"),  # the rest is not cut off
        (np.zeros(4, np.float32), (-2, -2), "hint: sizes are not negative"),
        (
            np.zeros(2, np.float16),
            (1, 2),
            "'x' cannot be fed with float16\nhint: convert it to one of float, int32",
        ),
        (np.zeros(2, np.complex64), (1, 2), "cannot be fed with complex64"),
        (["a", "b"], (2,), "'q' cannot be fed with <U1\nhint: use feed_string"),
        (np.array([b"a"], object), (1,), "hint: use feed_string"),
    ],
)
def test_values_that_cannot_be_fed(
    inference: InferenceInterface, values: Any, dims: tuple[int, ...], words: str
) -> None:
    with pytest.raises(FeedError, match=words):
        inference.feed("q" if isinstance(values, list) else "x", values, *dims)


@pytest.mark.parametrize("dims", [((1, 2),), ([1, 2],), (1, 2), (np.int64(1), np.int32(2))])
def test_sizes_one_by_one_or_together(inference: InferenceInterface, dims: Any) -> None:
    inference.feed("x", [-1, 2], *dims)
    inference.run(["y"])
    assert inference.fetch("y").tolist() == [[0, 2]]


@pytest.mark.parametrize("values", [[[1, 2], [3]], ["a", "b"]])
def test_lists_that_are_no_arrays(inference: InferenceInterface, values: Any) -> None:
    with pytest.raises(FeedError, match=r"'x' cannot be fed: .*\nhint: feed a numpy array"):
        inference.feed("x", values, 2)


def test_without_sizes_an_array_keeps_its_own(inference: InferenceInterface) -> None:
    inference.feed("d", [1.0, 2.0])
    with pytest.raises(FeedError, match=r"'d' has shape \[\], the array fed has \[2\]"):
        inference.run(["e"])


def test_strings_that_are_none(inference: InferenceInterface) -> None:
    with pytest.raises(FeedError, match="'s': a string tensor cannot hold int"):
        inference.feed_string("s", [1])  # type: ignore[list-item]


@pytest.mark.parametrize("engine", ["litert", "reference"])
@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.zeros((1, 2), np.int32), "'x' takes float, it was fed int32"),
        (np.zeros((1, 2)), "'x' takes float, it was fed double"),
        (np.zeros((1, 3), np.float32), r"'x' has shape \[\?,2\], the array fed has \[1,3\]"),
    ],
)
def test_feeds_that_do_not_fit_fail_in_run_and_are_forgotten(engine: str, values: Any, words: str) -> None:
    inference = InferenceInterface(parse_graph(TEXT), engine=engine)
    inference.feed("x", values)
    with pytest.raises(FeedError, match=words):
        inference.run(["y"])
    assert ran(inference).fetch("y").tolist() == [[0, 2]]


def test_feeds_are_used_up(inference: InferenceInterface) -> None:
    ran(inference)
    with pytest.raises(FeedError, match="x"):
        inference.run(["y"])
    with pytest.raises(GraphError, match="'y' was not computed by the last run"):
        inference.fetch("y")


@pytest.mark.parametrize("again", ["x", "x:0"])
def test_an_input_fed_twice_is_refused_by_run(inference: InferenceInterface, again: str) -> None:
    inference.feed("x", X)
    inference.feed(again, X)
    with pytest.raises(FeedError, match="'x' was fed twice"):
        inference.run(["y"])
    assert ran(inference).fetch("y").tolist() == [[0, 2]]


@pytest.mark.parametrize(
    ("fed", "outputs", "words"),
    [
        ("xx", ["y"], "cannot find 'xx': there is no node named 'xx'"),
        ("x", ["yy"], "cannot find 'yy'"),
        ("x", ["y:z"], "cannot find 'y:z': there is no node named 'y:z'"),  # no number, so part of the name
        ("x", ["y:-1"], "cannot find 'y:-1': there is no output -1"),
        ("x", [], "there is nothing to compute"),
    ],
)
def test_unknown_names_show_in_run(
    inference: InferenceInterface, fed: str, outputs: list[str], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    inference.feed(fed, X)
    with pytest.raises(GraphError, match=words):
        inference.run(outputs)
    assert f"failed to run the model with inputs ['{fed}'] and outputs {outputs}" in caplog.text


def test_fetch_what_was_not_run(inference: InferenceInterface) -> None:
    with pytest.raises(GraphError, match=r"'y' was not computed by the last run\nhint: name it in run"):
        inference.fetch("y")
    with pytest.raises(GraphError, match="hint: it computed parts:1"):
        ran(inference, "parts:1").fetch("parts")


@pytest.mark.parametrize(
    ("out", "words"),
    [
        (np.zeros(1, np.float32), "'y' has 2 elements, the array to fetch into 1\nhint: make it np.zeros"),
        (np.zeros(2, np.float64), "'y' is float32, the array to fetch into is float64"),
        (np.zeros(2, np.int32), "the array to fetch into is int32"),
        (np.zeros(4, np.float32)[::2], "is not writable, or has gaps"),
        (bytes(8), "is not writable"),
        (bytearray(7), "'y' has 8 elements, the array to fetch into 7"),
        ([0.0, 0.0], "cannot fetch into a list"),
    ],
)
def test_arrays_that_cannot_be_fetched_into(inference: InferenceInterface, out: Any, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        ran(inference).fetch("y", out)


def test_single_bytes_get_the_bytes_of_any_type(inference: InferenceInterface) -> None:
    raw = np.float32([0, 2]).tobytes()
    assert bytes(ran(inference).fetch("y", bytearray(8))) == raw
    assert inference.fetch("y", np.zeros((3, 3), np.uint8)).tobytes() == raw + b"\0"
    ran(inference, "flag")
    assert inference.fetch("flag", np.ones(3, bool)).tolist() == [False, True, True]


def test_targets_run_as_well(inference: InferenceInterface) -> None:
    inference.feed("x", X)
    inference.run(["y"], False, ["flag"])
    assert inference.fetch("y").tolist() == [[0, 2]]
    inference.feed("x", X)
    inference.run([], targets=["flag"])
    with pytest.raises(GraphError, match="there is no operation 'flagg'\nhint: did you mean 'flag'"):
        inference.run([], targets=["flagg"])


def test_operations(inference: InferenceInterface) -> None:
    assert inference.graph().node("y").op == "Relu"
    assert inference.graph_operation("x").output(0).shape == (None, 2)
    with pytest.raises(GraphError, match="the model: there is no operation 'relu'"):
        inference.graphOperation("relu")


def test_statistics(inference: InferenceInterface) -> None:
    assert inference.get_stat_string() == ""
    ran(inference)
    assert inference.get_stat_string() == ""
    for _ in range(2):
        inference.feed("x", X)
        inference.run(["y", "parts", "parts:1"], True)
        assert inference.fetch("y").tolist() == [[0, 2]]
    text = inference.getStatString()
    assert text.startswith(f"{'=' * 30} Top 10 CPU {'=' * 30}\n\t{'[node type]':>40}\t  [first]\t [avg ms]")
    assert f"\t{'Relu':>40}\t" in text
    assert "\nNumber of nodes executed: 2\n" in text
    assert "\nTimings (microseconds): count=2 " in text
    assert "\nMemory (bytes): count=2 curr=16(all same)\n2 nodes observed\n" in text
    assert inference.get_stats() == text


def test_closed(inference: InferenceInterface) -> None:
    with inference:
        ran(inference)
    inference.close()
    for call in (
        lambda: inference.feed("x", X),
        lambda: inference.feed_string("s", "a"),
        lambda: inference.run(["y"]),
        lambda: inference.fetch("y"),
        inference.graph,
        inference.get_stat_string,
        lambda: inference.graph_operation("y"),
    ):
        with pytest.raises(GraphError, match="the interface to the model is closed"):
            call()


def test_where_models_come_from(tmp_path: Path) -> None:
    assets = tmp_path / "assets"
    assets.mkdir()
    thinflow.save(parse_graph(TEXT), assets / "m.pb")
    thinflow.save(parse_graph(TEXT.replace("Relu", "Neg")), tmp_path / "m.pb")
    content = graphdef.to_bytes(parse_graph(TEXT))
    stream = io.BytesIO(content)
    for inference in (
        InferenceInterface("file:///android_asset/m.pb", assets=assets),
        InferenceInterface("m.pb", assets=assets),
        InferenceInterface(stream),
        InferenceInterface(content),
    ):
        assert ran(inference).fetch("y").tolist() == [[0, 2]]
    assert not stream.closed
    other = InferenceInterface(str(tmp_path / "m.pb"), assets=assets)
    assert ran(other).fetch("y").tolist() == [[1, -2]]
    with pytest.raises(FormatError, match="there is no such file"):
        InferenceInterface("file:///android_asset/n.pb", assets=assets)
    with pytest.raises(ParameterError, match="is an asset, and there is no folder of assets"):
        InferenceInterface("file:///android_asset/m.pb")
    with pytest.raises(FormatError):
        InferenceInterface(b"\x0a\xff\xff\xff")


# --- the calls before TensorFlow 1.1 ------------------------------------------------------------------------

DOUBLES = """
    x = Placeholder() {dtype=TYPE, shape=shape[2]}
    y = Add(x, x) {T=TYPE}
    inputs: x
    outputs: y
"""


@pytest.mark.parametrize(
    ("call", "kind", "element"),
    [
        ("Float", "float", "float32"),
        ("Int", "int32", "int32"),
        ("Double", "double", "float64"),
        ("Byte", "uint8", "uint8"),
    ],
)
def test_status_codes(call: str, kind: str, element: str, tmp_path: Path) -> None:
    thinflow.save(parse_graph(DOUBLES.replace("TYPE", kind)), tmp_path / "m.pb")
    old = InferenceInterface()
    assert old.initializeTensorFlow(tmp_path, "file:///android_asset/m.pb") == 0
    assert getattr(old, f"fillNode{call}")("x", [2], np.array([3, 4], element)) == 0
    assert old.runInference(["y"]) == 0
    out = np.zeros(3, element)
    assert getattr(old, f"readNode{call}")("y", out) == 0
    assert out.tolist() == [6, 8, 0]
    assert old.get_stat_string() == ""
    old.enableStatLogging(True)
    assert getattr(old, f"fillNode{call}")("x", [2], [1, 2]) == 0
    assert old.runInference(["y"]) == 0
    assert "Top 10 CPU" in old.get_stat_string()


def test_failures_are_logged_and_told_by_the_status(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    thinflow.save(parse_graph(DOUBLES.replace("TYPE", "float")), tmp_path / "m.pb")
    old = InferenceInterface()
    with pytest.raises(GraphError, match="has no model yet"):
        old.graph()
    assert old.initializeTensorFlow(None, str(tmp_path / "none.pb")) == 1
    assert "there is no such file" in caplog.text
    assert old.runInference(["y"]) == -1
    assert old.initializeTensorFlow(None, str(tmp_path / "m.pb")) == 0
    assert old.fillNodeFloat("x", [3], [1, 2]) == -1
    assert old.fillNodeFloat("x", [2], ["a", "b"]) == -1
    assert "failed to fill 'x'" in caplog.text
    assert old.runInference(["y"]) == -1
    assert old.fillNodeFloat("x", [2], [1, 2]) == 0
    assert old.runInference(["y"]) == 0
    assert old.readNodeFloat("z", np.zeros(2, np.float32)) == -1
    assert old.readNodeInt("y", np.zeros(2, np.int32)) == -1
    assert "failed to read 'y'" in caplog.text


def test_closing_allows_another_model(tmp_path: Path) -> None:
    thinflow.save(parse_graph(DOUBLES.replace("TYPE", "float")), tmp_path / "m.pb")
    old = InferenceInterface()
    for _ in range(2):
        assert old.initializeTensorFlow(tmp_path, "m.pb") == 0
        assert old.fillNodeFloat("x", [2], [1, 2]) == 0
        old.close()
        assert old.runInference(["y"]) == -1
