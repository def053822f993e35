"""What the panel tells."""

from __future__ import annotations

import numpy as np
import pytest

from tests.explorer.shown import Shown
from thinflow import zoo
from thinflow.analysis.cost import graph_cost
from thinflow.explorer.costs import cost_overlays
from thinflow.explorer.facts import attribute_texts, documentation, spec_texts
from thinflow.ir.attrs import FunctionAttr
from thinflow.ir.graph import Graph
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import FLOAT, TensorSpec


@pytest.mark.parametrize(
    ("op", "address"),
    [
        ("Conv2D", "https://www.tensorflow.org/api_docs/python/tf/raw_ops/Conv2D"),
        ("onnx.Conv", "https://onnx.ai/onnx/operators/onnx__Conv.html"),
        ("onnx.ai.onnx.ml.Scaler", "https://onnx.ai/onnx/operators/onnx_aionnxml_Scaler.html"),
        (
            "onnx.com.microsoft.Gelu",
            "https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.Gelu",
        ),
        ("tfl.CONV_2D", "https://www.tensorflow.org/mlir/tfl_ops#:~:text=tfl.conv_2d"),
        ("aten.relu.default", "https://docs.pytorch.org/docs/stable/torch.compiler_ir.html"),
        ("OpOfNobody", ""),
        ("onnx.com.acme.Gelu", ""),
        ("tfl.custom.Acme", ""),
    ],
)
def test_documentation(op: str, address: str) -> None:
    assert documentation(op) == address


@pytest.mark.parametrize(
    ("spec", "texts"),
    [
        (TensorSpec(FLOAT, (1, None, 3)), ("float", "1,?,3")),
        (TensorSpec(FLOAT, ()), ("float", "")),
        (TensorSpec(None, None), ("", "*")),
    ],
)
def test_specs(spec: TensorSpec, texts: tuple[str, str]) -> None:
    assert spec_texts(spec) == texts


def test_attributes_are_short() -> None:
    graph = Graph()
    attrs = {
        "text": b"a" * 1000,
        "f": FunctionAttr("body", {"T": FLOAT}),
        "table": Tensor.from_array(np.zeros(100, np.float32)),
        "_output_shapes": (),
    }
    node = graph.add("Op", name="n", attrs=attrs)
    node.device = "/gpu:0"
    texts = dict(attribute_texts(node))
    assert texts.pop("text").endswith("aaa…")
    assert texts == {"f": "@body", "table": "Tensor(float[100])", "device": "/gpu:0"}


def test_costs_add_up() -> None:
    shown = Shown(zoo.build("digits"))
    flops, activations, weights = cost_overlays(shown.built)
    assert sum(v or 0 for v in flops.values) == graph_cost(shown.built.main).total.flops
    read = [c for c in shown.view.constants if shown.built.boxes[c.node].node.output().is_used]
    assert sum(v or 0 for v in weights.values) == sum(c.size_bytes for c in read)
    assert sum(v or 0 for v in activations.values) > 0
    assert all(o.adds and len(o.values) == len(shown.built.boxes) for o in (flops, activations, weights))
