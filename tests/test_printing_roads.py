"""What models print while they run, what runtimes log of them, what event files keep: no terminal obeys it.

The other roads have their tests where they are: terminal, shell words, file names, spreadsheets, JSON, C in
`cli/test_hostile_names.py`; HTML, SVG and DOT in
`api/pictures/test_drawing.py`; Markdown in `errors/test_plain_text.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import thinflow
from thinflow.bench.profile import profile
from thinflow.cli import main
from thinflow.compat.graph_scripts import write_events
from thinflow.errors import NodeError, ThinflowError
from thinflow.formats import events
from thinflow.ir.types import FLOAT
from thinflow.ops import registry
from thinflow.tflite.model import Operator, Program, Subgraph, Tensor
from thinflow.tflite.writer import to_bytes
from thinflow.wire import protos

EVIL = "evil\x1b[2J\x1b]0;owned\x07\u202e"
X = np.ones(4, np.float32)


def is_clean(text: str) -> bool:
    return not any(mark in text for mark in ("\x1b", "\x07", "\u202e", "\x9b"))


@pytest.fixture(autouse=True)
def nothing_reaches_the_terminal(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Neither by Python nor by what C++ code writes."""
    yield
    captured = capfd.readouterr()
    assert is_clean(captured.out + captured.err)


@pytest.mark.parametrize(
    ("op", "inputs", "attrs"),
    [
        ("Print", (X, np.array([EVIL.encode()], object)), {"message": EVIL}),
        ("PrintV2", (np.array(EVIL.encode(), object),), {"end": EVIL}),
        ("PrintV2", (np.array(EVIL.encode(), object),), {"output_stream": "stdout"}),
    ],
)
def test_printing_ops(op: str, inputs: tuple[np.ndarray, ...], attrs: dict[str, str]) -> None:
    registry.call_kernel(registry.get(op), inputs, attrs)


def test_failing_ops() -> None:
    for op, inputs, attrs in (
        ("Assert", (np.array(False), np.array([EVIL.encode()], object)), {}),
        ("CheckNumerics", (np.array([np.nan], np.float32),), {"message": EVIL}),
    ):
        with pytest.raises(NodeError) as caught:
            registry.call_kernel(registry.get(op), inputs, attrs)
        assert is_clean(str(caught.value))


def test_litert_logs(tmp_path: Path) -> None:
    x, y = (Tensor(f"{EVIL}{name}", (4,), FLOAT) for name in "xy")
    step = Operator("CUSTOM", [x], [y], custom_code=EVIL)
    path = tmp_path / "m.tflite"
    path.write_bytes(to_bytes(Program([Subgraph([x], [y], [step])])))
    with pytest.raises(ThinflowError) as caught:
        thinflow.run(path, {x.name: X}, engine="litert")
    assert is_clean(str(caught.value))


@pytest.mark.parametrize("profiled", [False, True])
def test_onnxruntime_logs(profiled: bool, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from onnx import TensorProto, helper

    sizes = helper.make_tensor("sizes", TensorProto.INT64, [1], [5])
    step = helper.make_node("Reshape", ["x", "sizes"], ["y"], name=EVIL)
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [f"n{n}"]) for n in "xy"]
    body = helper.make_graph([step], "g", ends[:1], ends[1:], [sizes])
    opset = [helper.make_opsetid("", 13)]
    onnx.save(helper.make_model(body, opset_imports=opset, ir_version=8), tmp_path / "m.onnx")

    def run() -> None:
        if profiled:
            profile(tmp_path / "m.onnx", engine="onnxruntime", feeds={"x": X}, runs=1, warmup=0)
        else:
            thinflow.run(tmp_path / "m.onnx", {"x": X}, engine="onnxruntime")

    with pytest.raises(ThinflowError) as caught:
        run()
    assert is_clean(str(caught.value))


def test_event_files_keep_names_as_they_are_and_are_called_like_none(tmp_path: Path) -> None:
    message = protos.message("GraphDef")()
    message.node.add(name="a\x1b[2J", op="Placeholder").attr["dtype"].type = FLOAT.number
    message.node.add(name="b\x07", op="NoOp", device=EVIL)
    (tmp_path / "m.pb").write_bytes(protos.serialize(message))
    write_events(tmp_path / "m.pb", tmp_path / "log")
    (file,) = (tmp_path / "log").iterdir()
    assert is_clean(file.name)
    again = events.load(file)
    assert [n.name for n in again] == ["a\x1b[2J", "b\x07"]
    assert main(["inspect", str(file)]) in (0, 1)
