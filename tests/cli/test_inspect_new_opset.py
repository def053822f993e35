"""`inspect` of an ONNX model of a version that is not known says so, before anything is tried."""

from __future__ import annotations

from pathlib import Path

import pytest

from thinflow.cli import main

onnx = pytest.importorskip("onnx")
helper = onnx.helper


@pytest.mark.parametrize(("opset", "is_known"), [(28, True), (29, False)])
def test_a_version_that_is_not_known(
    opset: int, is_known: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x, y = (helper.make_tensor_value_info(name, 1, [1, 3]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "net", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    assert main(["inspect", str(tmp_path / "m.onnx")]) == 0
    told = capsys.readouterr().out
    note = (
        f"note: the model asks for version {opset} of ONNX's op set; versions up to 28 are known: nothing can"
        " be made of it here; export it for version 28 or older"
    )
    assert (note in told) is not is_known
