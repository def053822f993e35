"""The check of eight-bit graphs, op by op; converting them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.engines.eight_bit import RECIPE, frozen
from tests.lower.eight_bit import fed, narrowed, reals, stored, two
from tests.lower.tflite.harness import Net
from thinflow.analysis.shapes import infer_with_loops
from thinflow.api import load, transform
from thinflow.api.converting import convert_verified
from thinflow.errors import VerificationError
from thinflow.ir.graph import Graph
from thinflow.lower.quantized.accumulators import LayerPlan
from thinflow.optimize import eight_bit_check
from thinflow.optimize.eight_bit_check import check_codes, holds_codes
from thinflow.synthetic import synthetic_array
from thinflow.tflite.reader import read_program
from thinflow.zoo import build


@pytest.fixture(scope="module")
def digits() -> Graph:
    graph = build("digits")
    rng = np.random.default_rng(3)
    feeds = [{v: synthetic_array(v, rng) for v in graph.inputs} for _ in range(3)]
    return frozen(graph, feeds)


def check(graph: Graph) -> int:
    infer_with_loops(graph)
    arrays = [synthetic_array(v, np.random.default_rng(5)) for v in graph.inputs]
    return check_codes(graph, list(graph), graph.inputs, arrays, 60)


def test_every_op_is_within_a_code(digits: Graph):
    assert holds_codes(list(digits))
    assert check(digits) <= 3  # a bias joins the convolution in front, which has a wider grid


def test_a_wrong_bias_is_found(digits: Graph, monkeypatch: pytest.MonkeyPatch):
    right = LayerPlan.whole_bias
    monkeypatch.setattr(LayerPlan, "whole_bias", lambda plan, weights, to: right(plan, weights, to) + 20000)
    with pytest.raises(VerificationError, match=r"codes off the graph's, at most \d+ are expected"):
        check(digits)


def on_onnxruntime(graph: Graph) -> int:
    """The most codes an op is off there, numbers before and behind within 1e-3."""
    pytest.importorskip("onnxruntime")
    infer_with_loops(graph)
    arrays = [synthetic_array(v, np.random.default_rng(5)) for v in graph.inputs]
    ends = {"ends": graph.outputs, "tolerance": 1e-3}
    return check_codes(graph, list(graph), graph.inputs, arrays, 60, engine="onnxruntime", **ends)


@pytest.fixture(scope="module")
def measured() -> Graph:
    """Ranges are found in every run."""
    return transform(
        build("digits"), f"remove_nodes(op=Identity) fold_constants remove_dropout {RECIPE}", verify=False
    )


def test_every_op_in_onnxruntime_is_within_a_code(digits: Graph, measured: Graph):
    assert on_onnxruntime(digits) <= 3
    assert on_onnxruntime(measured) <= 1


@pytest.mark.parametrize(
    ("dtype", "added", "words"),
    [
        (np.uint8, 9, r"ONNX Runtime's '.+'\[.*\] is \d+ codes off the graph's, at most \d are expected"),
        (np.float32, 0.1, r"ONNX Runtime gives .+ for '.+'\[.*\], the graph "),
    ],
)
def test_a_wrong_answer_of_onnxruntime_is_found(
    dtype: type, added: float, words: str, measured: Graph, monkeypatch: pytest.MonkeyPatch
):
    right = eight_bit_check.run_file

    def wrong(*args, **options):
        (results,) = right(*args, **options)
        return [[r + dtype(added) if r.dtype == dtype else r for r in results]]

    monkeypatch.setattr(eight_bit_check, "run_file", wrong)
    with pytest.raises(VerificationError, match=words):
        on_onnxruntime(measured)


def test_an_eight_bit_graph_becomes_a_whole_onnx_file(measured: Graph, tmp_path: Path):
    """Its answers are some codes apart, which is no fault."""
    pytest.importorskip("onnxruntime")
    made = convert_verified(measured, str(tmp_path / "eight.onnx"))
    assert made.proof.startswith("each eight-bit op in ONNX Runtime agrees with the graph's, one rounding")
    assert not any("run in the app" in note for note in made.notes)


def test_stored_weights_alone_are_no_codes():
    net = Net()
    x = net.feed(np.ones((2, 3), np.float32))
    y = net.op("MatMul", x, reals(net, stored(net, (3, 4), -1, 1)))
    net.graph.inputs, net.graph.outputs = [x], [y]
    assert not holds_codes(list(net.graph))


def test_a_part_between_measured_ranges_becomes_a_file_that_says_what_to_do(tmp_path: Path):
    graph = transform(build("digits"), RECIPE, verify=False)
    target = tmp_path / "part.tflite"
    made = convert_verified(graph, str(target))
    notes = "\n".join(made.notes)
    assert made.is_part
    assert "are not in it, first node" in notes
    assert "freeze_requantization_ranges" in notes


def test_a_frozen_graph_becomes_a_file_of_integers(tmp_path: Path):
    net = Net()
    x, w = fed(net, (1, 8, 8, 4), -1, 2), stored(net, (3, 3, 4, 8), -1, 1)
    wide = two(net, "QuantizedConv2D", x, w, strides=(1, 1, 1, 1), padding="SAME")
    y = reals(net, narrowed(net, wide, -6, 7))
    net.graph.inputs, net.graph.outputs = [x[0]], [y]
    target = tmp_path / "frozen.tflite"
    made = convert_verified(net.graph, str(target))
    assert "each eight-bit op in LiteRT agrees with the graph's" in made.proof
    program = read_program(target.read_bytes())
    (conv,) = [o for o in program.subgraphs[0].operators if o.code == "CONV_2D"]
    assert [t.dtype.name for t in conv.inputs if t] == ["int8", "int8", "int32"]
    found = load(str(target))
    assert [v.dtype.name for v in (*found.inputs, *found.outputs)] == ["uint8", "float"]
