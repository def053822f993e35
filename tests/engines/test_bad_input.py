"""What a user may get wrong when running a model: on every engine an error that names it, and what to do."""

from __future__ import annotations

import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.loops import while_loop
from tests.transforms.golden import parse_graph
from thinflow.cli import main
from thinflow.compare.differences import difference
from thinflow.engines import names
from thinflow.engines._child import can_fork, run_file
from thinflow.engines.session import Session
from thinflow.errors import (
    EngineCrashed,
    EngineUnavailable,
    FeedError,
    GraphError,
    NodeError,
    ParameterError,
    ThinflowError,
    UnsupportedOp,
)
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph
from thinflow.ir.types import FLOAT

TEXT = """
image = Placeholder() {dtype=float, shape=shape[?,4]}
count = Placeholder() {dtype=int32, shape=shape[]}
y = Relu(image) {T=float}
scaled = Cast(count) {SrcT=int32, DstT=float}
z = Mul(y, scaled) {T=float}
inputs: image, count
outputs: z
"""
IMAGE = np.float32([[1, -2, 3, 4]])
GOOD = {"image": IMAGE, "count": np.int32(2)}
PACKAGES = {"litert": "ai_edge_litert", "onnxruntime": "onnxruntime", "openvino": "openvino"}


@pytest.fixture(params=names())
def engine(request: pytest.FixtureRequest) -> str:
    package = PACKAGES.get(request.param)
    if package is not None and find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    return str(request.param)


@pytest.fixture
def session(engine: str) -> Session:
    return Session(parse_graph(TEXT), engine)


def test_good_input(session: Session) -> None:
    assert session.run(None, GOOD)[0].tolist() == [[2, 0, 6, 8]]


BAD: dict[str, tuple[Any, Any, type[ThinflowError], str]] = {
    "wrong name": (
        None,
        {"imge": IMAGE, "count": 2},
        GraphError,
        r"cannot feed 'imge': .*\nhint: did you mean 'image'",
    ),
    "another name": (
        None,
        {"wav": IMAGE, "count": 2},
        GraphError,
        r"cannot feed 'wav': .*\nhint: the graph's feeds are image, count$",
    ),
    "a port that is not there": (None, {"image:1": IMAGE, "count": 2}, ThinflowError, "image:1|'image'"),
    "twice": (None, {"image": IMAGE, "image:0": IMAGE, "count": 2}, FeedError, "'image' is fed twice"),
    "missing": (None, {"image": IMAGE}, FeedError, r"'count'.*nothing was fed.*\nhint: .*'count'"),
    "nothing": (None, {}, FeedError, "nothing was fed"),
    "type": (
        None,
        {"image": IMAGE.astype(complex), "count": 2},
        FeedError,
        r"'image' takes float, not complex128\nhint: convert it: x.astype\('float32'\)",
    ),
    "text": (None, {"image": np.array([["a"] * 4]), "count": 2}, FeedError, "'image' takes float, not <U1"),
    "float for int": (None, {"image": IMAGE, "count": 2.5}, FeedError, r"'count' takes int32, not float64"),
    "NaN for int": (None, {"image": IMAGE, "count": np.nan}, FeedError, r"'count' takes int32, not float64"),
    "rank": (
        None,
        {"image": IMAGE[0], "count": 2},
        FeedError,
        r"'image' has shape \[\?,4\], the array fed has \[4\]\nhint: reshape",
    ),
    "size": (
        None,
        {"image": IMAGE[:, :3], "count": 2},
        FeedError,
        r"'image' has shape \[\?,4\], the array fed has \[1,3\]",
    ),
    "ragged": (None, {"image": [[1, 2], [3]], "count": 2}, FeedError, "'image' cannot be made an array"),
    "object": (None, {"image": object(), "count": 2}, FeedError, "'image' takes float, not object"),
    "None": (None, {"image": None, "count": 2}, FeedError, "'image' takes float, not object"),
    "fetch": (["zz"], GOOD, GraphError, r"cannot fetch 'zz': .*\nhint: .*z"),
    "fetch of a port": (["z:3"], GOOD, ThinflowError, "z:3|'z'"),
    "no fetch of ours": ([""], GOOD, GraphError, "cannot fetch ''"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_feeds_and_fetches(case: str, session: Session) -> None:
    fetches, feeds, error, words = BAD[case]
    with pytest.raises(error, match=words) as caught:
        session.run(fetches, feeds)
    assert caught.value.hint, "no next step"
    assert session.run(None, GOOD)[0].tolist() == [[2, 0, 6, 8]], "the session is still good"


def test_bad_feeds_after_good_ones(session: Session) -> None:
    """What was checked once is recognised by type and shape; another shape is checked again."""
    for _ in range(2):
        session.run(None, GOOD)
        with pytest.raises(FeedError, match=r"the array fed has \[1,5\]"):
            session.run(None, {"image": np.zeros((1, 5), np.float32), "count": np.int32(1)})


def test_nan_goes_through(session: Session) -> None:
    """NaN is a value like others: nobody hides it, and it is no agreement with a number."""
    (found,) = session.run(None, {"image": np.float32([[np.nan, 1, np.inf, -np.inf]]), "count": 1})
    assert found[0, 1:].tolist() == [1, np.inf, 0]
    if session.engine == "openvino":
        pytest.skip("its Relu takes the larger of NaN and 0 to be 0; docs/engines.md says so")
    assert np.isnan(found[0, 0])
    assert difference(found, np.zeros_like(found)).relative > 1


def mystery() -> Graph:
    graph = parse_graph(TEXT)
    odd = graph.add("AcmeWarp", [graph.value("z")], "warp", attrs={"T": FLOAT})
    graph.outputs = [graph.add("Relu", [odd], "end", attrs={"T": FLOAT}).output()]
    return graph


def test_an_op_that_nobody_runs(engine: str) -> None:
    session = Session(mystery(), engine)
    with pytest.raises(
        UnsupportedOp, match=r"node 'warp' \(AcmeWarp\): .*no kernel.*\nhint: .*src/thinflow/ops/\w+\.py"
    ):
        session.run(None, GOOD)
    assert session.run(["z"], GOOD)[0].tolist() == [[2, 0, 6, 8]], "what stands before it runs"
    assert session.placement_reasons is not None


def test_the_command_names_the_op(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    thinflow.save(mystery(), tmp_path / "m.pb")
    assert main(["run", str(tmp_path / "m.pb"), "--outputs", "end"]) == 1
    error, hint = capsys.readouterr().err.splitlines()
    assert "node 'warp' (AcmeWarp)" in error
    assert "src/thinflow/ops/" in hint


@pytest.mark.parametrize(
    ("name", "package", "install"),
    [
        ("litert", "ai_edge_litert", "pip install ai-edge-litert"),
        ("onnxruntime", "onnxruntime", r"pip install 'thinflow\[onnx\]'"),
    ],
)
def test_an_engine_that_is_missing(
    name: str, package: str, install: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says what to install; other engines, and `auto`, do without."""
    import importlib.util

    graph = parse_graph(TEXT)
    model = tmp_path / {"litert": "m.tflite", "onnxruntime": "m.onnx"}[name]
    if find_spec(package) is not None:
        thinflow.save(graph, model)
    monkeypatch.setattr(importlib.util, "find_spec", lambda n, *_: None if n == package else find_spec(n))
    with pytest.raises(EngineUnavailable, match=f"'{name}' cannot be used: .*{install}"):
        Session(graph, name)
    if model.exists():
        with pytest.raises(
            EngineUnavailable, match=f"{model.name}: .*{install}.*\nhint: install it; .* --engine reference"
        ):
            Session(model)
    assert Session(graph, "reference").run(None, GOOD)
    if name == "litert":
        assert Session(graph).engine == "reference"


def test_an_engine_that_does_not_exist() -> None:
    with pytest.raises(EngineUnavailable, match=r"no engine 'onnx'\nhint: did you mean 'onnxruntime'"):
        Session(parse_graph(TEXT), "onnx")


def endless() -> Graph:
    """x for ever."""
    graph = Graph()
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((1, 4))}).output()
    true = graph.constant(np.array(True), "true")
    (y,) = while_loop(
        graph,
        "loop",
        [x],
        lambda m: graph.add("LogicalOr", [graph.add("IsNan", [first(graph, m[0])]), true]).output(),
        lambda v: [graph.add("Tanh", [v[0]], attrs={"T": FLOAT}).output()],
    )
    graph.inputs, graph.outputs = [x], [y]
    return graph


def first(graph: Graph, x: Any) -> Any:
    axes = graph.constant(np.int32([0, 1]), "axes")
    return graph.add("Sum", [x, axes], attrs={"T": FLOAT, "keep_dims": False}).output()


def test_a_loop_that_never_ends() -> None:
    session = Session(endless(), "reference", max_iterations=50)
    with pytest.raises(
        NodeError, match=r"node 'loop/LoopCond' .*: .* did not end after 50 iterations\nhint: "
    ):
        session.run(None, {"x": IMAGE})
    with pytest.raises(ParameterError, match="a loop cannot have 0 iterations"):
        Session(endless(), max_iterations=0)


def test_the_command_limits_loops(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    thinflow.save(endless(), tmp_path / "m.pb")
    command = ["run", str(tmp_path / "m.pb"), "--engine", "reference", "--max-iterations", "20"]
    assert main([*command, "--outputs", "loop/Exit"]) == 1
    assert "did not end after 20 iterations" in capsys.readouterr().err


@pytest.mark.skipif(not can_fork(), reason="no fork here")
def test_a_loop_that_never_ends_in_an_engine(tmp_path: Path) -> None:
    """The engine counts no turns: where it matters it runs in a child, with a timeout."""
    pytest.importorskip("ai_edge_litert")
    thinflow.save(endless(), tmp_path / "m.tflite")
    begin = time.monotonic()
    with pytest.raises(EngineCrashed, match=r"no answer in 0.5 s while running .*m.tflite\nhint: .*loop"):
        run_file(str(tmp_path / "m.tflite"), "litert", [[IMAGE]], timeout_seconds=0.5)
    assert time.monotonic() - begin < 60


def test_a_child_has_no_shell(tmp_path: Path) -> None:
    """The worker answers only what it can read, and says so by its exit code."""
    done = subprocess.run(
        [sys.executable, "-m", "thinflow.engines._child"], input=b"", capture_output=True, check=False
    )
    assert done.returncode != 0
    assert done.stdout == b""
