"""Half precision and bfloat16 that a runtime lacks: the way that works is named, and works."""

from __future__ import annotations

from pathlib import Path

import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.cli import main

TEXT = """
x = Placeholder() {{dtype=float, shape=shape[1,4]}}
h = Cast(x) {{SrcT=float, DstT={t}}}
w = Const() {{dtype={t}, value={t}[4,2]{{1,2,3,4,5,6,7,8}}}}
y = MatMul(h, w) {{T={t}}}
r = Relu(y) {{T={t}}}
o = Cast(r) {{SrcT={t}, DstT=float}}
inputs: x
outputs: o
"""
ADVICE = "compute in float instead: thinflow transform MODEL OUT.pb -t widen_floats, and convert that"


@pytest.mark.parametrize(
    ("element", "suffix", "code"), [("bfloat16", "onnx", 1), ("bfloat16", "tflite", 1), ("half", "tflite", 0)]
)
def test_the_way_is_named_and_works(
    element: str, suffix: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime" if suffix == "onnx" else "ai_edge_litert")
    model, wide, target = (str(tmp_path / n) for n in ("m.pb", "wide.pb", f"m.{suffix}"))
    thinflow.save(parse_graph(TEXT.format(t=element)), model)
    assert main(["convert", model, target]) == code
    told = capsys.readouterr()
    assert ADVICE in told.out + told.err
    assert main(["transform", model, wide, "-t", "widen_floats"]) == 0
    assert main(["convert", wide, target]) == 0
    assert "agrees with the graph" in capsys.readouterr().out
    assert thinflow.verify(model, target, tolerance=0.02).ok


def test_another_type_is_refused() -> None:
    with pytest.raises(
        thinflow.ThinflowError, match="'double' cannot be widened to float\\nhint: write half or"
    ):
        thinflow.transform(parse_graph(TEXT.format(t="half")), "widen_floats(from=double)")
