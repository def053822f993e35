"""What changed from one graph to another."""

from __future__ import annotations

import json

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.compare.diff.changes import tensor_gap
from thinflow.ir.graph import Graph
from thinflow.ir.tensor import Tensor
from thinflow.zoo import build

TEXT = """
x = Placeholder() {dtype=float, shape=shape[1,4]}
w = Const() {dtype=float, value=float[4,2]{1,-1,3,-3,5,-5,7,-7}}
m = MatMul(x, w) {T=float, transpose_b=false}
y = Relu(m) {T=float}
inputs: x
outputs: y
"""


def verdict(before: str, after: str, **options: object) -> str:
    return thinflow.diff(parse_graph(before), parse_graph(after), **options).verdict  # type: ignore[arg-type]


def test_the_same_graph() -> None:
    found = thinflow.diff(parse_graph(TEXT), parse_graph(TEXT))
    assert found.is_equal
    assert found.is_same_network
    assert found.verdict == "the same graph"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("7,-7}", "7.01,-7.01}", "different networks; 1 weight differs, largest 0.01; outputs DIFFER by"),
        ("7,-7}", "7.00001,-7}", "same network; 1 weight differs, largest"),
        ("Relu(m)", "Relu6(m)", "different networks; 1 Relu became Relu6"),
        ("transpose_b=false", "transpose_a=false", "same network; 2 attributes differ; outputs agree to 0"),
        ("y = Relu(m)", "z = Neg(m) {T=float}\ny = Relu(z)",
         "different networks; 1 node only in the second (1 Neg)"),
        ("y = Relu(m)", "z = Identity(m) {T=float}\ny = Relu(z)",
         "different networks; 1 node only in the second"),
        ("shape[1,4]", "shape[3,4]", "same network; 1 attribute differ"),
    ],
)  # fmt: skip
def test_verdicts(old: str, new: str, expected: str) -> None:
    text = verdict(TEXT, TEXT.replace(old, new))
    if "shape" in old:
        assert "attribute differs" in text
        assert "shapes differ" in text
    else:
        assert text.startswith(expected), text


@pytest.mark.parametrize("rename", [False, True])
def test_folded_norms_are_accounted_for(rename: bool) -> None:
    before = build("mobilenet_v1")
    steps = "fold_old_batch_norms" + (" obfuscate_names" if rename else "")
    after = thinflow.transform(before, steps, verify=False)
    found = thinflow.diff(before, after, numerics=False)
    assert found.verdict.startswith("same network; 27 batch norms folded into 27 convolutions")
    assert ("renamed" in found.verdict) == rename
    assert found.only_in_a == found.only_in_b == found.rewired == []
    assert sum(w.folded for w in found.changes.weights) == 27


def test_a_weight_changed_besides_the_folds_is_told() -> None:
    before = build("mobilenet_v1")
    after = thinflow.transform(before, "fold_old_batch_norms", verify=False)
    node = after.node("MobilenetV1/Logits/Conv2d_1c_1x1/biases")
    assert node.tensor is not None
    node.attrs["value"] = Tensor.from_array(node.tensor.numpy() + np.float32(1e-6))
    said = thinflow.diff(before, after, numerics=False).verdict
    assert "27 batch norms folded into 27 convolutions" in said
    assert "1 weight differs, largest 1.91e-06" in said


def test_stored_weights_and_removed_nodes() -> None:
    before = build("digits")
    small = thinflow.diff(
        before, thinflow.transform(before, "quantize_weights(minimum_size=64)", verify=False)
    )
    assert "stored in fewer bits" in small.verdict
    twice = parse_graph(TEXT.replace("y = Relu(m)", "i = Identity(m) {T=float}\ny = Relu(i)"))
    found = thinflow.diff(twice, thinflow.transform(twice, "remove_nodes(op=Identity)"))
    assert found.verdict == "same network; 1 node that passes its input on removed; outputs agree to 0"


def test_rewired_inputs_are_no_trace_of_a_removal() -> None:
    text = TEXT.replace("y = Relu(m)", "a = Neg(m) {T=float}\nb = Abs(m) {T=float}\ny = Sub(a, b)")
    found = thinflow.diff(parse_graph(text), parse_graph(text.replace("Sub(a, b)", "Sub(b, a)")))
    assert not found.is_same_network
    assert "2 inputs rewired" in found.verdict
    swapped = text.replace("Sub", "Add")
    assert thinflow.diff(
        parse_graph(swapped), parse_graph(swapped.replace("(a, b)", "(b, a)"))
    ).is_same_network


def test_functions_are_compared() -> None:
    from thinflow.ir.function import Function

    def graph(op: str) -> Graph:
        made = parse_graph(TEXT)
        body = parse_graph(f"a = _Arg() {{T=float, index=0}}\nr = {op}(a) {{T=float}}")
        made.functions = {"f": Function("f", body, [body.value("a")], [body.value("r")])}
        return made

    assert thinflow.diff(graph("Neg"), graph("Neg")).is_equal
    found = thinflow.diff(graph("Neg"), graph("Abs"))
    assert found.changes.functions == ["function 'f' has another body"]
    assert not found.is_same_network


def test_text_and_data() -> None:
    found = thinflow.diff(parse_graph(TEXT), parse_graph(TEXT.replace("7,-7}", "7,-8}").replace("w", "v")))
    lines = str(found).splitlines()
    assert lines[0] == found.verdict
    assert "  w | v float[4,2]: largest 1, mean 0.125, relative 0.143" in lines
    data = json.loads(json.dumps(found.data()))
    assert data["weights"][0]["largest"] == 1
    assert data["nodes"] == [4, 4]
    assert data["outputs"][0]["name"] == "y"


def test_outputs_that_cannot_be_run_are_a_note() -> None:
    unknown = TEXT.replace("Relu(m)", "Mystery(m)")
    found = thinflow.diff(parse_graph(unknown), parse_graph(unknown.replace("7,-7}", "7,-8}")))
    assert found.numbers is None
    assert found.note.startswith("the outputs were not compared: ")
    assert str(found).splitlines()[-1] == found.note


def test_tensor_gap_knows_nan_and_infinity() -> None:
    nan, inf = float("nan"), float("inf")

    def gap(a: list[float], b: list[float]) -> tuple[float, float, float]:
        return tensor_gap(Tensor.from_array(np.float32(a)), Tensor.from_array(np.float32(b)))

    assert gap([nan, inf, 2], [nan, inf, 1]) == (1, 1 / 3, 0.5)
    assert gap([nan, 1], [1, 1])[0] == inf
    assert gap([], []) == (0, 0, 0)
