"""Graphs in ONNX Runtime, with the interpreter for the rest."""

from __future__ import annotations

import tempfile
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.loops import entered
from tests.lower.builders import conv_attrs, floats
from tests.lower.control_flow import counted_loop
from tests.lower.onnx.harness import Net
from thinflow import engines
from thinflow.engines import _narrow_sums, _regions, _temporary_files, onnxruntime
from thinflow.engines.session import Session
from thinflow.errors import EngineUnavailable, UnsupportedOp, WriteError

pytest.importorskip("onnxruntime")


def network(net):
    x = net.feed(floats(1, 6, 6, 3), shape=(None, 6, 6, 3))
    y = net.op("Conv2D", x, floats(3, 3, 3, 4), name="conv", **conv_attrs())
    return x, net.op("Relu", y, name="relu")


def test_it_is_one_of_the_engines():
    assert "onnxruntime" in engines.names()
    assert not any(name.startswith("_") for name in engines.names())
    assert engines.find("onnxruntime").name == "onnxruntime"


def test_everything_runs_there():
    net = Net()
    x, y = network(net)
    session = Session(net.graph, "onnxruntime", threads=2)
    for batch in (1, 3):
        feed = floats(batch, 6, 6, 3)
        (found,) = session.run([y], {x: feed})
        np.testing.assert_allclose(found, net.reference(y, feeds={x: feed})[0], rtol=1e-4, atol=1e-5)
    assert set(session.placement.values()) == {"onnxruntime"}
    assert session.reasons == {}


@pytest.mark.usefixtures("every_region_pays")
def test_what_it_cannot_run_goes_to_the_interpreter():
    net = Net()
    x, y = network(net)
    z = net.op("Softplus", net.op("Igamma", net.op("Abs", y, name="abs"), y, name="odd"), name="end")
    session = Session(net.graph, "onnxruntime")
    (found,) = session.run([z], {x: net.feeds[x]})
    np.testing.assert_allclose(found, net.reference(z)[0], rtol=1e-4, atol=1e-5)
    assert session.placement["odd"] == "reference"
    assert session.placement["conv"] == session.placement["end"] == "onnxruntime"
    assert session.reasons["odd"] == "ONNX has no form of Igamma"


def test_a_region_that_fails_while_running_falls_back():
    """Indices out of range are an error in both; the interpreter says it in its own words."""
    net = Net()
    x, at = net.feed(floats(4), "x"), net.feed(np.array([1, 2], np.int32), "at")
    y = net.op("GatherV2", x, at, np.int32(0), name="gather")
    session = Session(net.graph, "onnxruntime")
    session.run([y], net.feeds)
    assert session.placement["gather"] == "onnxruntime"
    with pytest.raises(Exception, match=r"(?i)gather|index|indices"):
        session.run([y], {x: floats(4), at: np.array([9, 0], np.int32)})
    assert session.placement["gather"] == "reference"
    assert "ONNX Runtime failed" in session.reasons["gather"]


def test_branches_run_there():
    net = Net()
    x, p = net.feed(floats(2), "x"), net.feed(np.array(True), "p")
    switch = net.op("Switch", x, p, name="switch").node
    merge = net.op("Merge", net.op("Neg", switch.output(0)), switch.output(1), name="merge", N=2)
    session = Session(net.graph, "onnxruntime")
    for decision in (True, False):
        (found,) = session.run([merge], net.feeds | {p: np.array(decision)})
        np.testing.assert_array_equal(found, floats(2) if decision else -floats(2))
    assert session.placement["merge"] == "onnxruntime"


@pytest.mark.parametrize("op", ["Tanh", "NextAfter"])
def test_a_loop_runs_there_or_stays_whole_in_the_interpreter(op):
    net = Net()
    x = net.feed(floats(3, 3), "x")
    more = [x] if op == "NextAfter" else []
    fixed = [entered(net.graph, "loop", v) for v in more]
    y = counted_loop(net, "loop", x, lambda v, i: net.op(op, v, *fixed))
    session = Session(net.graph, "onnxruntime")
    np.testing.assert_allclose(session.run([y], net.feeds)[0], net.reference(y)[0], rtol=1e-5)
    inside = [n.name for n in net.graph if n.op in ("Exit", "Merge", op)]
    places = {session.placement[name] for name in inside if name in session.placement}
    assert places == {"reference" if more else "onnxruntime"}
    if more:
        assert "no form of NextAfter" in session.reasons[y.node.name]


def test_a_keyword_model_runs_whole_but_for_its_decoder(shared):
    """The real LSTM, a loop of 49 turns, on real clips; and it gives what TensorFlow gave."""
    from thinflow.api import load

    clips = sorted((shared / "data" / "kws").glob("*.wav"))
    if not clips:
        pytest.skip("no clips")
    graph = load(shared / "models" / "kws_Basic_LSTM_S.pb")
    session = Session(graph, "onnxruntime")
    with np.load(shared / "models" / "reference.npz") as stored:
        expected = stored["kws_Basic_LSTM_S/softmax"]
    for i in range(0, len(clips), 10):
        feed = {graph.value("wav_data"): np.array(clips[i].read_bytes(), object)}
        (scores,) = session.run(graph.outputs, feed)
        np.testing.assert_allclose(scores.ravel(), expected[i].ravel(), atol=1e-5)
    assert [n for n, place in session.placement.items() if place == "reference"] == ["decoded_sample_data"]


def test_constants_can_be_fetched():
    net = Net()
    x, y = network(net)
    c = net.const(floats(3), "weights")
    found = Session(net.graph, "onnxruntime").run([c, y], {x: net.feeds[x]})
    np.testing.assert_array_equal(found[0], floats(3))


def test_weights_of_large_models_are_in_a_file_of_their_own(monkeypatch, tmp_path):
    """So that ONNX Runtime maps them. The files are gone once it has."""
    monkeypatch.setattr(_temporary_files, "SMALL_BYTES", 10)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    seen = []
    real = onnxruntime.Model

    def model(content, **more):
        folder = Path(content).parent
        seen.append({p.name: p.stat().st_size for p in folder.iterdir()})
        return real(content, **more)

    monkeypatch.setattr(onnxruntime, "Model", model)
    net = Net()
    x = net.feed(floats(1, 20, 20, 3), shape=(None, 20, 20, 3))
    y = net.op("Conv2D", x, floats(3, 3, 3, 40), name="conv", **conv_attrs())
    session = Session(net.graph, "onnxruntime")
    np.testing.assert_allclose(
        session.run([y], {x: net.feeds[x]})[0], net.reference(y)[0], rtol=1e-4, atol=1e-4
    )
    assert seen[0]["model.onnx.data"] == 3 * 3 * 3 * 40 * 4
    assert seen[0]["model.onnx"] < 2000
    assert set(session.placement.values()) == {"onnxruntime"}
    assert list(tmp_path.iterdir()) == []


def test_the_program_is_free_when_the_engine_opens_its_file(monkeypatch, tmp_path):
    """Its arrays and what the engine packs of them would be in memory side by side."""
    monkeypatch.setattr(_temporary_files, "SMALL_BYTES", 10)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    programs, alive = [], []
    real, stored = onnxruntime.Model, _temporary_files.stored

    def keep(given):
        programs.append(weakref.ref(given[0]))
        return stored(given)

    def model(content, **more):
        alive.append(programs[-1]() is not None)
        return real(content, **more)

    monkeypatch.setattr(_temporary_files, "stored", keep)
    monkeypatch.setattr(onnxruntime, "Model", model)
    net = Net()
    x = net.feed(floats(1, 8), shape=(None, 8))
    y = net.op("MatMul", x, floats(8, 40))
    Session(net.graph, "onnxruntime").run([y], {x: net.feeds[x]})
    assert alive == [False]


def test_a_full_disk_keeps_the_model_in_memory(monkeypatch):
    def full(**options):
        raise OSError("no space left on device")

    monkeypatch.setattr(_temporary_files, "SMALL_BYTES", 10)
    monkeypatch.setattr(tempfile, "mkdtemp", full)
    net = Net()
    x, y = network(net)
    session = Session(net.graph, "onnxruntime")
    session.run([y], {x: net.feeds[x]})
    assert set(session.placement.values()) == {"onnxruntime"}

    def too_large(program):
        raise WriteError("3000 MiB of weights do not fit a protobuf file")

    monkeypatch.setattr(_temporary_files, "to_bytes", too_large)
    session = Session(net.graph, "onnxruntime")
    session.run([y], {x: net.feeds[x]})
    assert "do not fit a protobuf file" in session.reasons["conv"]


def test_files_with_weights_beside_them(monkeypatch, tmp_path):
    """What does not fit one protobuf file is two files, which a Session opens by the first one."""
    from thinflow.lower.onnx.target import write_onnx
    from thinflow.onnx import writer

    monkeypatch.setattr(writer, "INLINE_LIMIT", 1000)
    net = Net()
    x = net.feed(floats(1, 20, 20, 3), "x")
    y = net.op("Conv2D", x, floats(3, 3, 3, 40), name="conv", **conv_attrs())
    size = write_onnx(net.lower(y).program, tmp_path / "m.onnx")
    beside = tmp_path / "m.onnx.data"
    assert size == beside.stat().st_size + (tmp_path / "m.onnx").stat().st_size
    assert beside.stat().st_size == 3 * 3 * 3 * 40 * 4
    (found,) = Session(str(tmp_path / "m.onnx")).run(["conv"], {"x": floats(1, 20, 20, 3)})
    np.testing.assert_allclose(found, net.reference(y)[0], rtol=1e-4, atol=1e-4)
    beside.unlink()
    with pytest.raises(EngineUnavailable, match="ONNX Runtime refuses the model"):
        Session(str(tmp_path / "m.onnx")).run(["conv"], {"x": floats(1, 20, 20, 3)})


def test_models_it_refuses_are_said_so(tmp_path: Path):
    from thinflow.engines.onnxruntime import Model

    path = tmp_path / "broken.onnx"
    path.write_bytes(b"\x08\x07nonsense")
    for content in (b"\x08\x07nonsense", str(path)):
        with pytest.raises(EngineUnavailable, match="ONNX Runtime refuses the model"):
            Model(content)


def test_without_the_package(monkeypatch):
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "onnxruntime" else real(name)
    )
    with pytest.raises(EngineUnavailable, match=r"pip install 'thinflow\[onnx\]'"):
        engines.find("onnxruntime")


def test_a_backend_that_refuses_to_lower():
    """The shared part: refusals at compile time put the region into the interpreter, with the reason."""

    def refuse(graph, region, threads):
        raise UnsupportedOp("not today")

    net = Net()
    x, y = network(net)
    backend = _regions.Backend("stub", lambda graph, nodes: {}, refuse)
    compiled = _regions.compile_regions(backend, net.graph, [x], [y], 1)
    (found,) = compiled.run([net.feeds[x]])
    np.testing.assert_allclose(found, net.reference(y)[0])
    assert set(compiled.placement.values()) == {"reference"}
    assert set(compiled.reasons.values()) == {"not today"}


def test_models_with_a_shared_zero_point_open_where_products_may_overflow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The option for careful kernels makes ONNX Runtime fail on them; without it they run."""
    runtime = pytest.importorskip("onnxruntime")
    asked = []

    def session(content: object, options: Any, **more: object) -> object:
        try:
            asked.append(options.get_session_config_entry("session.x64quantprecision"))
        except RuntimeError:  # not set
            asked.append("")
        if asked[-1]:
            raise RuntimeError("FAIL : AddInitializedOrtValue Attempt to replace the existing tensor")
        return "a session"

    monkeypatch.setattr(runtime, "InferenceSession", session)
    monkeypatch.setattr(onnxruntime, "products_may_overflow", lambda: True)
    monkeypatch.setattr(_narrow_sums, "sums_may_overflow", lambda content: True)
    opened = onnxruntime.open_session(b"", lambda careful: onnxruntime.session_options(careful=careful))
    assert opened == "a session"
    assert asked == ["1", ""]


def _quantized(weight: np.ndarray[Any, Any], *, transposed: bool = False, signed: bool = True) -> bytes:
    """A product of uint8 numbers and weights, each with their scale, as bytes of an .onnx file."""
    onnx = pytest.importorskip("onnx")
    helper, numpy = onnx.helper, onnx.numpy_helper
    codes = weight.astype(np.int8) if signed else (weight + 128).astype(np.uint8)
    constants = {
        "w8": codes,
        "s": np.float32(0.1),
        "z": np.uint8(3),
        "wz": np.int8(0) if signed else np.uint8(128),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["x8"]),
        helper.make_node("DequantizeLinear", ["x8", "s", "z"], ["xr"]),
        helper.make_node("DequantizeLinear", ["w8", "s", "wz"], ["w"]),
        helper.make_node("Gemm", ["xr", "w"], ["y"], transB=int(transposed)),
    ]
    ends = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in ("x", "y")]
    initializers = [numpy.from_array(np.asarray(a), n) for n, a in constants.items()]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], initializers)
    return bytes(helper.make_model(graph).SerializeToString())


@pytest.mark.parametrize("transposed", [False, True])
def test_pairs_of_weights_decide_whether_sums_may_overflow(transposed: bool, tmp_path: Path) -> None:
    """Rows 0 and 1 are added first: 100 + 20 fits beside 255, 100 + 100 does not, 100 - 100 does."""
    columns = np.array([[100, 20, 0, 0], [100, -100, 127, 0]]).T
    large = np.array([[100, 100, 0, 0], [100, -100, 127, 0]]).T

    def told(weight: np.ndarray[Any, Any], **more: bool) -> bool:
        content = _quantized(weight.T if transposed else weight, transposed=transposed, **more)
        (tmp_path / "m.onnx").write_bytes(content)
        found = _narrow_sums.sums_may_overflow(content)
        assert _narrow_sums.sums_may_overflow(str(tmp_path / "m.onnx")) is found
        return found

    assert not told(columns)
    assert told(large)
    assert not told(large, signed=False)


def test_floats_never_overflow_and_what_cannot_be_read_may(tmp_path: Path) -> None:
    net = Net()
    x, y = network(net)
    net.graph.inputs, net.graph.outputs = [x], [y]
    path = tmp_path / "floats.onnx"
    thinflow.save(net.graph, path)
    assert not _narrow_sums.sums_may_overflow(str(path))
    assert _narrow_sums.sums_may_overflow(str(tmp_path / "none.onnx"))
    assert _narrow_sums.sums_may_overflow(b"QLinear and no model")
