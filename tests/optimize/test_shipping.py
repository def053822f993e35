"""The program that a report tells: it runs as it stands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import thinflow
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.types import FLOAT
from thinflow.optimize.shipping import in_a_program


def test_it_runs(tmp_path: Path) -> None:
    graph = thinflow.Graph()
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((1, 4))}).output()
    graph.inputs, graph.outputs = [x], [graph.add("Exp", [x], "y").output()]
    model = tmp_path / "a model's.tflite"
    thinflow.convert(graph, model)
    told = in_a_program(model, [("x", "float[1,4]")], [("y", "float[1,4]")])
    assert any("# x float[1,4]" in line for line in told.lines)
    names: dict[str, Any] = {}
    exec("\n".join([told.text, *told.lines]), names)
    assert names["answers"][0].tolist() == [[1.0] * 4]


def test_a_name_cannot_become_a_line_of_it() -> None:
    told = in_a_program(Path("m.tflite"), [("x\nimport os\u2028y\r", "float[1]")], [("y", "float[1]")])
    assert len("\n".join([told.text, *told.lines]).splitlines()) == 9
