"""Sessions: names, checks of what is fed, placement, fallback."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from tests.transforms.golden import parse_graph
from thinflow import engines
from thinflow.engines import litert
from thinflow.engines.session import Session
from thinflow.errors import EngineUnavailable, FeedError, GraphError, UnsupportedOp
from thinflow.formats import graphdef

TEXT = """
x = Placeholder() {dtype=float, shape=shape[?,4]}
w = Const() {dtype=float, value=float[4,2]{1,2,3,4,5,6,7,8}}
y = MatMul(x, w) {T=float}
z = Relu(y) {T=float}
inputs: x
outputs: z
"""
MIXED = """
x = Placeholder() {dtype=float, shape=shape[1,4]}
a = Relu(x) {T=float}
s = AsString(a) {T=float}
n = StringToNumber(s) {out_type=float}
y = Neg(n) {T=float}
inputs: x
outputs: y
"""
ONES = np.ones((1, 4), np.float32)
ENGINES = ["auto", "litert", "reference"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("colon", ["", ":0"])
def test_names_with_and_without_port(engine: str, colon: str) -> None:
    session = Session(parse_graph(TEXT), engine)
    (z,) = session.run([f"z{colon}"], {f"x{colon}": ONES})
    assert z.tolist() == [[16, 20]]
    assert z.dtype == np.float32


WAITING = """
x = Placeholder() {dtype=float, shape=shape[2,50000]}
words = Placeholder() {dtype=string, shape=shape[?]}
parts = StringSplitV2(words, space)
space = Const() {dtype=string, value=string[]{_}}
i = Cast(parts) {SrcT=int64, DstT=float}
m = MatMul(i, x) {T=float}
y = Relu(m) {T=float}
fine = Less(zero, y) {T=float}
zero = Const() {dtype=float, value=float[]{-1}}
all = All(fine, axes)
axes = Const() {dtype=int32, value=int32[2]{0,1}}
check = Assert(all, all) {T=[bool]}
second = Cast(all) {SrcT=bool, DstT=int32}
first = Const() {dtype=int32, value=int32[]{0}}
most = Max(y, axes) {T=float}
z = AsString(most, ^check) {T=float}
s = GatherV2(parts:1, second, first) {Tparams=string, Tindices=int32, Taxis=int32}
inputs: x, words
outputs: z, s, most
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_regions_take_what_others_have_computed(engine: str) -> None:
    """Parts of one node's values, and waiting for a check in another region."""
    feeds = {
        "x": np.arange(100000, dtype=np.float32).reshape(2, -1),
        "words": np.array([b"a_b", b"c"], object),
    }
    expected = Session(parse_graph(WAITING), "reference").run(None, feeds)
    found = Session(parse_graph(WAITING), engine).run(None, feeds)
    assert [np.asarray(f).tolist() for f in found] == [np.asarray(e).tolist() for e in expected]
    assert found[1].item() == b"b"


@pytest.mark.parametrize("engine", ENGINES)
def test_an_open_batch_takes_any_size(engine: str) -> None:
    session = Session(parse_graph(TEXT), engine)
    for batch in (1, 3, 2):
        assert session.run("z", {"x": np.ones((batch, 4))})[0].shape == (batch, 2)


def test_values_lists_and_defaults() -> None:
    graph = parse_graph(TEXT)
    session = Session(graph, "reference")
    assert session.run(None, {graph.value("x"): [[1, 1, 1, 1]]})[0].tolist() == [[16, 20]]
    y, w = session.run([graph.value("y"), "w"], {"x": ONES})
    assert (y.tolist(), w.shape) == ([[16, 20]], (4, 2))


@pytest.mark.parametrize("engine", ["litert", "reference"])
def test_an_inner_value_can_be_fed(engine: str) -> None:
    session = Session(parse_graph(TEXT), engine)
    assert session.run(["z"], {"y": np.array([[-1, 5]], np.float32)})[0].tolist() == [[0, 5]]


@pytest.mark.parametrize("engine", ["litert", "reference"])
def test_a_fed_value_and_a_constant_can_be_fetched(engine: str) -> None:
    x, w = Session(parse_graph(TEXT), engine).run(["x", "w"], {"x": ONES})
    assert x.tolist() == ONES.tolist()
    assert w.shape == (4, 2)


@pytest.mark.usefixtures("every_region_pays")
def test_placement_names_the_engine_of_every_node() -> None:
    graph = parse_graph(MIXED)
    session = Session(graph, "litert")
    assert session.run(["y"], {"x": ONES})[0].tolist() == [[-1, -1, -1, -1]]
    assert session.placement["s"] == session.placement["n"] == "reference"
    assert session.placement["a"] == session.placement["y"] == "litert"
    assert "AsString" in session.reasons["s"]
    assert set(Session(graph, "reference").placement.values()) == {"reference"}
    assert Session(graph, "reference").reasons == {}


@pytest.mark.parametrize("error", [UnsupportedOp("not today"), EngineUnavailable("no such kernel")])
def test_a_region_that_cannot_be_prepared_falls_back(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(litert, "_lowered", refuse)
    session = Session(parse_graph(TEXT), "litert")
    assert session.run(["z"], {"x": ONES})[0].tolist() == [[16, 20]]
    assert session.placement["y"] == "reference"
    assert str(error).split("\n")[0] in session.reasons["y"]


def test_a_region_that_fails_in_a_run_falls_back_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def fail(self: object, arrays: object) -> None:
        calls.append(1)
        raise EngineUnavailable("LiteRT failed: out of luck")

    monkeypatch.setattr(litert.Model, "run", fail)
    session = Session(parse_graph(TEXT), "litert")
    for _ in range(2):
        assert session.run(["z"], {"x": ONES})[0].tolist() == [[16, 20]]
    assert len(calls) == 1
    assert session.reasons["z"] == "LiteRT failed: out of luck"


@pytest.mark.parametrize(
    ("feed", "words"),
    [
        ({"x": np.ones((1, 5), np.float32)}, r"'x' has shape \[\?,4\], the array fed has \[1,5\]"),
        ({"x": np.ones(4, np.float32)}, r"the array fed has \[4\]"),
        ({"x": np.ones((1, 4), np.complex64)}, "'x' takes float, not complex64\nhint: convert it: x.astype"),
        ({"x": np.array([["a", "b", "c", "d"]])}, "'x' takes float, not <U1"),
        ({}, "x"),
    ],
)
def test_feeds_that_do_not_fit(feed: dict[str, np.ndarray], words: str) -> None:
    with pytest.raises(FeedError, match=words):
        Session(parse_graph(TEXT), "reference").run(["z"], feed)


@pytest.mark.parametrize(
    ("fetch", "feed", "words"),
    [
        ("zz", "x", "cannot fetch 'zz': there is no node named 'zz'\nhint: did you mean 'z'"),
        ("z", "xx", "cannot feed 'xx': there is no node named 'xx'\nhint: did you mean 'x'"),
        ("q", "x", "cannot fetch 'q'.*\nhint: the graph's fetchs are z|the graph's"),
    ],
)
def test_unknown_names(fetch: str, feed: str, words: str) -> None:
    with pytest.raises(GraphError, match=words):
        Session(parse_graph(TEXT), "reference").run([fetch], {feed: ONES})


def test_nothing_to_fetch() -> None:
    graph = parse_graph(TEXT)
    graph.outputs = []
    with pytest.raises(GraphError, match="the graph has no outputs\nhint: name what to fetch"):
        Session(graph).run(None, {"x": ONES})


def test_engines_and_threads() -> None:
    assert {"litert", "reference"} <= set(engines.names())
    with pytest.raises(EngineUnavailable, match="there is no engine 'litrt'\nhint: did you mean 'litert'"):
        Session(parse_graph(TEXT), "litrt")
    with pytest.raises(FeedError, match="0 threads"):
        Session(parse_graph(TEXT), threads=0)


def test_an_engine_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(litert.ENGINE.__class__, "available", lambda self: "the package is missing")
    with pytest.raises(
        EngineUnavailable, match="cannot be used: the package is missing\nhint: engine='reference'"
    ):
        Session(parse_graph(TEXT), "litert")
    assert Session(parse_graph(TEXT), "auto").engine == "reference"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('node { name: "y" op: "Relu" input: "x" } ', "another node has the same name"),
        ('node { name: "z" op: "Relu" input: "x:7" }', "reads port 7 of node 'x'"),
    ],
)
def test_ambiguous_graphs_are_refused(text: str, words: str) -> None:
    graph = graphdef.from_text(
        'node { name: "x" op: "Placeholder" } node { name: "y" op: "Relu" input: "x" } ' + text
    )
    with pytest.raises(GraphError, match=words):
        Session(graph)


def test_a_damaged_model_file(tmp_path: object) -> None:
    from pathlib import Path

    path = Path(str(tmp_path)) / "m.tflite"
    path.write_bytes(b"\x1c\0\0\0TFL3" + bytes(100))
    with pytest.raises(EngineUnavailable, match="LiteRT refuses the model"):
        litert.Model(str(path))


@pytest.mark.parametrize("engine", ["litert", "reference"])
def test_what_was_right_once_is_still_checked(engine: str) -> None:
    session = Session(parse_graph(TEXT), engine)
    session.run(["z"], {"x": ONES})
    assert session.run(["z"], {"x": np.ones((2, 4))})[0].shape == (2, 2)
    for wrong in (np.ones((1, 5), np.float32), ONES.astype(np.complex64), "text"):
        with pytest.raises(FeedError):
            session.run(["z"], {"x": wrong})
    assert session.run(["z"], {"x": ONES.tolist()})[0].tolist() == [[16, 20]]


def test_one_input_is_fed_once() -> None:
    with pytest.raises(FeedError, match="'x' is fed twice\nhint: give each input once"):
        Session(parse_graph(TEXT)).run(["z"], {"x": ONES, "x:0": ONES})


@pytest.mark.parametrize("engine", ["litert", "reference"])
def test_large_arrays_in_any_order(engine: str) -> None:
    rows = 1 << 17
    images = np.asfortranarray(np.random.default_rng(0).standard_normal((rows, 4)).astype(np.float32))
    (z,) = Session(parse_graph(TEXT), engine).run(["z"], {"x": images})
    w = np.arange(1, 9, dtype=np.float32).reshape(4, 2)
    np.testing.assert_allclose(z, np.maximum(np.einsum("ij,jk->ik", images, w), 0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("engine", ["litert", "reference"])
@pytest.mark.parametrize("text", [b"one", b"a\0b\0\0", b"\0", b""])
def test_scalar_strings(engine: str, text: bytes) -> None:
    """LiteRT's set_tensor takes an array [] of objects for the text itself, and numpy cuts trailing zeros."""
    graph = parse_graph(
        "s = Placeholder() {dtype=string, shape=shape[]}\nt = Identity(s) {T=string}\ninputs: s\noutputs: t"
    )
    assert Session(graph, engine).run(["t"], {"s": text})[0].tolist() == text


@pytest.mark.parametrize("engine", ["litert", "reference"])
def test_large_feeds_are_not_copied(engine: str) -> None:
    """Beyond what LiteRT copies itself, which is not traced."""
    rows = 1 << 17
    session = Session(parse_graph(TEXT), engine)
    images = np.ones((rows, 4), np.float32)
    session.run(["z"], {"x": images})
    tracemalloc.start()
    try:
        session.run(["x"], {"x": images})
        if engine == "litert":
            session.run(["z"], {"x": images})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < images.nbytes / 4


def test_lists_of_different_lengths() -> None:
    with pytest.raises(FeedError, match="'x' cannot be made an array"):
        Session(parse_graph(TEXT)).run(["z"], {"x": [[1, 2], [3]]})
