"""Graphs and .onnx files in OpenVINO, with the interpreter for the rest."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.lower.builders import conv_attrs, floats
from tests.lower.control_flow import counted_loop
from tests.lower.onnx.harness import Net
from thinflow import engines
from thinflow.engines.session import Session
from thinflow.errors import EngineUnavailable, NodeError, ThinflowError
from thinflow.lower.openvino.limits import judge
from thinflow.lower.openvino.runtime import missing
from thinflow.onnx.writer import to_bytes

# Not imported here: that would report to its makers, by a thread that keeps later tests from forks.
if why := missing():
    pytest.skip(why, allow_module_level=True)

from thinflow.engines import openvino

pytestmark = pytest.mark.usefixtures("every_region_pays")


def network(net: Any) -> Any:
    x = net.feed(floats(1, 6, 6, 3), shape=(None, 6, 6, 3))
    y = net.op("Conv2D", x, floats(3, 3, 3, 4), name="conv", **conv_attrs())
    return x, net.op("Relu", y, name="relu")


def onnx_file(path: Path, *nodes: Any, feeds: dict[str, Any], kind: str = "FLOAT") -> str:
    """A file of some nodes whose last output is y.

    Args:
        feeds: input name -> shape, or type and shape.
    """
    onnx = pytest.importorskip("onnx")
    number = getattr(onnx.TensorProto, kind)
    inputs = [
        onnx.helper.make_tensor_value_info(n, *(s if isinstance(s, tuple) else (number, s)))
        for n, s in feeds.items()
    ]
    y = onnx.helper.make_tensor_value_info("y", number, None)
    graph = onnx.helper.make_graph(list(nodes), "g", inputs, [y])
    domains = [onnx.helper.make_opsetid("", 20), onnx.helper.make_opsetid("com.acme", 1)]
    model = onnx.helper.make_model(graph, opset_imports=domains, ir_version=9)
    path.write_bytes(model.SerializeToString())
    return str(path)


def step(op: str, *inputs: str, **options: Any) -> Any:
    return pytest.importorskip("onnx").helper.make_node(op, list(inputs), ["y"], **options)


def test_a_graph_runs_there_with_any_batch() -> None:
    net = Net()
    x, y = network(net)
    session = Session(net.graph, "openvino", threads=2)
    # More sizes than it makes models for.
    for batch in range(1, openvino.MOST_SIZES + 3):
        feed = floats(batch, 6, 6, 3)
        (found,) = session.run([y], {x: feed})
        np.testing.assert_allclose(found, net.reference(y, feeds={x: feed})[0], rtol=1e-5, atol=1e-6)
    assert set(session.placement.values()) == {"openvino"}
    assert session.reasons == {}


def test_results_belong_to_the_caller() -> None:
    net = Net()
    x, y = network(net)
    session = Session(net.graph, "openvino")
    given = floats(1, 6, 6, 3)
    (first,) = session.run([y], {x: given})
    kept = first.copy()
    session.run([y], {x: np.zeros((1, 6, 6, 3), np.float32)})
    np.testing.assert_array_equal(first, kept)
    frozen = np.repeat(given, 2, axis=3)[..., ::2]
    frozen.flags.writeable = False
    np.testing.assert_array_equal(session.run([y], {x: frozen})[0], kept)


def test_what_it_cannot_run_goes_to_the_interpreter() -> None:
    net = Net()
    x, y = network(net)
    z = net.op("Softplus", net.op("Igamma", net.op("Abs", y, name="abs"), y, name="odd"), name="end")
    session = Session(net.graph, "openvino")
    (found,) = session.run([z], {x: net.feeds[x]})
    np.testing.assert_allclose(found, net.reference(z)[0], rtol=1e-4, atol=1e-5)
    assert session.placement["odd"] == "reference"
    assert session.placement["conv"] == session.placement["end"] == "openvino"


def test_a_refused_region_is_cut_anew_around_what_it_was_refused_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph has an op that OpenVINO says it has no form of; all the others stay there."""
    real = openvino.read

    def read(content: Any) -> Any:
        if b"Erf" in content:
            raise EngineUnavailable("OpenVINO refuses the model: no Erf today")
        return real(content)

    monkeypatch.setattr(openvino, "read", read)
    net = Net()
    x, y = network(net)
    z = net.op("Tanh", net.op("Erf", y, name="erf"), name="end")
    session = Session(net.graph, "openvino")
    np.testing.assert_allclose(session.run([z], {x: net.feeds[x]})[0], net.reference(z)[0], rtol=1e-5)
    assert session.placement["erf"] == "reference"
    assert session.reasons["erf"] == "OpenVINO refuses the model: no Erf today"
    assert session.placement["conv"] == session.placement["end"] == "openvino"


def test_a_loop_runs_there() -> None:
    net = Net()
    x = net.feed(floats(3, 3), "x")
    y = counted_loop(net, "loop", x, lambda v, i: net.op("Tanh", v))
    session = Session(net.graph, "openvino")
    np.testing.assert_allclose(session.run([y], net.feeds)[0], net.reference(y)[0], rtol=1e-5)
    assert session.placement[y.node.name] == "openvino"


DOUBLES = np.array([1 / 3, 1e-9, 7e5], np.float64)
LONGS = np.array([2**40 + 1, -(2**33), 5], np.int64)
INTS = np.array([1073741823, -7, 5], np.int32)
BYTES = np.array([100, -100, 5], np.int8)


@pytest.mark.parametrize(
    ("op", "operands"),
    [
        ("AddV2", (DOUBLES, DOUBLES)),
        ("Mul", (LONGS, LONGS)),
        ("Maximum", (LONGS, -LONGS)),
        ("FloorDiv", (INTS, np.array([3, 2, 1], np.int32))),
        ("AddV2", (BYTES, BYTES)),
        ("Sum", (INTS, np.int32(0))),
        ("Neg", (LONGS,)),
        ("Identity", (LONGS,)),
        ("Less", (LONGS, LONGS[::-1].copy())),
    ],
    ids=lambda v: v if isinstance(v, str) else str(v[0].dtype),
)
def test_numbers_that_it_would_get_wrong_are_computed_elsewhere(op: str, operands: tuple[Any, ...]) -> None:
    """To the last bit: by the interpreter, or by OpenVINO where that is right."""
    net = Net()
    fed = [net.feed(x, f"x{n}") for n, x in enumerate(operands[:2]) if x.ndim]
    y = net.op(op, *fed, *(x for x in operands if not x.ndim), name="y")
    with np.errstate(over="ignore"):
        (found,) = Session(net.graph, "openvino").run([y], net.feeds)
        np.testing.assert_array_equal(found, net.reference(y)[0], strict=True)


def test_sizes_are_computed_there_whatever_their_type() -> None:
    """Halves of sizes are no data: they are small, and a float holds them."""
    net = Net()
    x = net.feed(floats(4, 6), shape=(None, 6))
    half = net.op("FloorDiv", net.op("Shape", x, name="shape"), np.int32(2), name="half")
    y = net.op("Slice", x, np.int32([0, 0]), half, name="y")
    session = Session(net.graph, "openvino")
    np.testing.assert_array_equal(session.run([y], net.feeds)[0], net.feeds[x][:2, :3])
    assert {session.placement[n] for n in ("half", "y")} == {"openvino"}


def test_a_place_out_of_range_is_an_error_as_in_tensorflow() -> None:
    net = Net()
    x, at = net.feed(floats(4), "x"), net.feed(np.array([9, 0], np.int32), "at")
    y = net.op("GatherV2", x, at, np.int32(0), name="gather")
    session = Session(net.graph, "openvino")
    with pytest.raises(NodeError, match=r"gather"):
        session.run([y], net.feeds)
    assert session.reasons["gather"] == "OpenVINO does not check what is fed to operand 1 of Gather"


def test_a_fed_shape_is_checked() -> None:
    """OpenVINO writes beyond its memory for one that is too large."""
    net = Net()
    x, shape = net.feed(floats(6), "x"), net.feed(np.array([4, 4], np.int32), "shape")
    y = net.op("Reshape", x, shape, name="y")
    with pytest.raises(ThinflowError, match="'y'"):
        Session(net.graph, "openvino").run([y], net.feeds)


def test_what_speaks_against_operators_is_said_of_loops_too() -> None:
    net = Net()
    x = net.feed(np.float64([1, 2]), "x")
    y = counted_loop(net, "loop", x, lambda v, i: net.op("Tanh", v))
    operators = net.lower(y).program.operators
    assert judge(net.graph, [x])(operators) == "OpenVINO computes double in another type"


# --- files --------------------------------------------------------------------------------------------------


def test_onnx_files_run_as_they_are(tmp_path: Path) -> None:
    net = Net()
    x, y = network(net)
    path = tmp_path / "m.onnx"
    path.write_bytes(to_bytes(net.lower(y).program))
    session = Session(str(path), "openvino", threads=2)
    assert (session.path, session.engine) == (str(path), "openvino")
    (name,) = session.inputs
    feed = floats(2, 6, 6, 3)
    np.testing.assert_allclose(
        session.run(None, {name: feed})[0], net.reference(y, feeds={x: feed})[0], rtol=1e-5, atol=1e-6
    )
    assert str(session.inputs[name]) == "float[?,6,6,3]"
    assert session.placement == {"relu": "openvino"}


def test_eight_bit_files_run_in_eight_bits(digits_int8: Path, digits_test: dict[str, Any]) -> None:
    session = Session(str(digits_int8), "openvino")
    labels = digits_test["labels"]
    (scores,) = session.run(None, {"image": digits_test["image"]})
    assert np.mean(scores.argmax(1) == labels) > 0.95


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    from thinflow.cli import main

    folder = tmp_path_factory.mktemp("digits")
    found = {n: folder / n for n in ("digits.pb", "calibration.npz", "test.npz")}
    options = ["--calibration", str(found["calibration.npz"]), "--test", str(found["test.npz"])]
    assert main(["sample", "digits", str(found["digits.pb"]), *options]) == 0
    return found


@pytest.fixture(scope="module")
def digits_test(digits: dict[str, Path]) -> dict[str, Any]:
    with np.load(digits["test.npz"]) as stored:
        return dict(stored)


@pytest.fixture(scope="module")
def digits_int8(digits: dict[str, Path]) -> Path:
    with np.load(digits["calibration.npz"]) as stored:
        samples = [{"image": x[None]} for x in stored["image"][:50]]
    path = digits["digits.pb"].with_name("digits_int8.onnx")
    thinflow.quantize(digits["digits.pb"], samples, format="onnx", effort="none").save(path)
    return path


@pytest.mark.parametrize(
    ("node", "feeds", "kind", "words"),
    [
        (("Foo", "x", {"domain": "com.acme"}), {"x": [2]}, "FLOAT", "No conversion rule .* com.acme.Foo"),
        (("Add", "x", "x"), {"x": [2]}, "DOUBLE", "computes f64 in another type"),
        (("Reshape", "x", "s"), {"x": [6], "s": (7, [2])}, "FLOAT", "does not check the shape that is fed"),
    ],
)
def test_files_it_refuses_are_said_so(
    tmp_path: Path, node: tuple[Any, ...], feeds: dict[str, Any], kind: str, words: str
) -> None:
    names = [n for n in node[1:] if isinstance(n, str)]
    options = next((n for n in node if isinstance(n, dict)), {})
    path = onnx_file(tmp_path / "m.onnx", step(node[0], *names, **options), feeds=feeds, kind=kind)
    with pytest.raises(EngineUnavailable, match=words) as caught:
        Session(path, "openvino")
    assert ".cpp" not in str(caught.value)
    assert "Exception" not in str(caught.value)


def test_a_damaged_file_is_said_so_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"\x08\x07\x12\x02xxnonsense")
    code = f"import thinflow; thinflow.Session({str(path)!r}, 'openvino')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (
        done.stderr.rstrip()
        .splitlines()[-2]
        .startswith(f"thinflow.errors.EngineUnavailable: {path}: OpenVINO refuses the model: ")
    )
    assert "absl" not in done.stderr
    assert done.stdout == ""


def test_numbers_of_64_bits_that_do_not_fit_are_said_so(tmp_path: Path) -> None:
    path = onnx_file(tmp_path / "m.onnx", step("Identity", "x"), feeds={"x": [2]}, kind="INT64")
    session = Session(path, "openvino")
    assert session.run(None, {"x": np.int64([-5, 2**31 - 1])})[0].tolist() == [-5, 2**31 - 1]
    with pytest.raises(EngineUnavailable, match="computes int64 in 32 bits, and a number fed is larger"):
        session.run(None, {"x": np.int64([2**31, 0])})


def test_sizes_that_do_not_go_together(tmp_path: Path) -> None:
    path = onnx_file(tmp_path / "m.onnx", step("Add", "x", "z"), feeds={"x": ["a"], "z": ["b"]})
    session = Session(path, "openvino")
    with pytest.raises(EngineUnavailable, match=r"refuses the sizes: .*inconsistent"):
        session.run(None, {"x": floats(6), "z": floats(5)})
    assert session.run(None, {"x": floats(2), "z": floats(2)})[0].shape == (2,)


# --- the package --------------------------------------------------------------------------------------------


def test_it_computes_float32_on_the_threads_it_is_given() -> None:
    net = Net()
    _, y = network(net)
    net.graph.outputs = [y]
    model = openvino.Model(to_bytes(net.lower(y).program), threads=2)
    model.run([floats(1, 6, 6, 3)])
    (request,) = model._requests.values()
    told = {
        name: str(request.compiled.get_property(name)) for name in openvino.settings(2) if name != "CACHE_DIR"
    }
    assert "float" in told.pop("INFERENCE_PRECISION_HINT")
    told.pop("ENABLE_CPU_PINNING")
    assert told == {"DYNAMIC_QUANTIZATION_GROUP_SIZE": "0", "NUM_STREAMS": "1", "INFERENCE_NUM_THREADS": "2"}


def test_it_reports_to_nobody() -> None:
    """Imported as it is, the package starts a thread that sends statistics."""
    code = (
        "import sys, threading; from thinflow.engines.openvino import library; library().Core();"
        "print(threading.active_count(), 'openvino_telemetry' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "False"]


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "openvino" else real(name))
    with pytest.raises(EngineUnavailable, match=r"pip install 'thinflow\[openvino\]'"):
        engines.find("openvino")


def test_several_threads_may_run_sessions() -> None:
    found: list[Any] = []

    def work() -> None:
        net = Net()
        x, y = network(net)
        found.append(Session(net.graph, "openvino").run([y], {x: net.feeds[x]})[0])

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 3
    for array in found[1:]:
        np.testing.assert_array_equal(array, found[0])


def test_large_inputs_are_handed_over_as_they_are() -> None:
    """In whatever order they lie in memory, and though nobody may write to them."""
    net = Net()
    x = net.feed(floats(200, 300), "x")
    y = net.op("Neg", x, name="y")
    session = Session(net.graph, "openvino")
    for given in (floats(200, 300), floats(300, 200).T, np.broadcast_to(np.float32(2), (200, 300))):
        np.testing.assert_array_equal(session.run([y], {x: given})[0], -given)
