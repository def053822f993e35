"""What the golden cases of fold_constants cannot show: sizes, large graphs, equal bytes, and pipelines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.transforms.golden import parse_graph
from tests.transforms.support import apply, assert_same_numbers, reasons, step, to_bytes
from thinflow.errors import ParameterError
from thinflow.formats import graphdef
from thinflow.ir.graph import Graph
from thinflow.ir.text import node_text
from thinflow.ir.types import FLOAT
from thinflow.transforms import resolve

T = {"T": FLOAT}


def with_input() -> Graph:
    graph = Graph()
    graph.inputs = [graph.add("Placeholder", name="x", attrs={"dtype": FLOAT}).output()]
    return graph


def keras_style(layers: int, size: int) -> Graph:
    """Dense layers as TF2 freezes them: weights behind Identities, all tied to the output by a NoOp."""
    graph = with_input()
    value = graph.inputs[0]
    reads = []
    for i in range(layers):
        weights = np.random.default_rng(i).standard_normal((size, size)).astype(np.float32)
        read = graph.add("Identity", [graph.constant(weights, f"w{i}")], f"w{i}/read", attrs=T)
        reads.append(read)
        value = graph.add("MatMul", [value, read.output()], f"dense{i}", attrs=T).output()
    gather = graph.add("NoOp", name="NoOp", control_inputs=reads)
    graph.outputs = [graph.add("Identity", [value], "Identity", attrs=T, control_inputs=[gather]).output()]
    return graph


def test_one_part_is_read_and_the_other_computed_with() -> None:
    """What attention does with its weights in one piece: the parts become constants in one round."""
    graph = with_input()
    weights = [graph.constant(np.int32(0), "axis"), graph.constant(np.float32([1, 2, 3, 4]), "w")]
    parts = graph.add("Split", weights, "parts", attrs=T | {"num_split": 2})
    turned = graph.add("Neg", [parts.output(1)], "turned", attrs=T).output()
    y = graph.add("Mul", [graph.inputs[0], parts.output(0)], "first", attrs=T).output()
    graph.outputs = [graph.add("Mul", [y, turned], "second", attrs=T).output()]
    after, _ = step(graph, "fold_constants")
    assert sorted(n.op for n in after) == ["Const", "Const", "Mul", "Mul", "Placeholder"]
    assert after.node("turned").tensor.numpy().tolist() == [-3, -4]


def test_keras_weights_are_stored_once() -> None:
    graph = keras_style(3, 32)
    after, _ = step(graph, "fold_constants")
    assert len(to_bytes(after)) <= len(to_bytes(graph))
    assert [n.op for n in after] == [
        "Placeholder",
        "Const",
        "MatMul",
        "Const",
        "MatMul",
        "Const",
        "MatMul",
        "Identity",
    ]
    assert all(after.node(f"w{i}").tensor is graph.node(f"w{i}").tensor for i in range(3)), (
        "weights were copied"
    )


def test_large_alias_is_bypassed_whatever_its_size() -> None:
    after, report = step(keras_style(1, 32), "fold_constants(max_constant_size_in_bytes=10)")
    assert after.node("dense0").inputs[1].node.op == "Const"
    assert not report.trace.left


def test_quantized_weights_survive_folding() -> None:
    after = apply(keras_style(2, 40), "quantize_weights fold_constants").graph
    assert sum(n.op == "Dequantize" for n in after) == 2
    assert all(n.tensor is None or n.tensor.dtype.name != "float" or n.tensor.size == 1 for n in after)


def test_two_runs_give_the_same_bytes() -> None:
    graph = keras_style(3, 8)
    once, twice = (to_bytes(apply(graph, "fold_constants").graph) for _ in range(2))
    assert once == twice


def test_untouched_nodes_keep_their_bytes(tmp_path: Path) -> None:
    path = tmp_path / "model.pb"
    graphdef.save(keras_style(1, 4), path)
    graph = graphdef.load(path)
    graph.inputs, graph.outputs = [graph.value("x")], [graph.value("Identity")]
    after, _ = step(graph, "fold_constants")
    assert after.node("w0").attrs_untouched
    assert node_text(after.node("x")) == node_text(graph.node("x"))


def chain(length: int, *, all_read: bool) -> Graph:
    graph = with_input()
    one = graph.constant(np.ones(4, np.float32), "one")
    value, read = one, []
    for i in range(length):
        value = graph.add("Add", [value, one], f"a{i}", attrs=T).output()
        if all_read:
            read.append(graph.add("Mul", [value, graph.inputs[0]], f"m{i}", attrs=T).output())
    last = graph.add("Mul", [value, graph.inputs[0]], "y", attrs=T).output()
    graph.outputs = [last, *read]
    return graph


@pytest.mark.parametrize("all_read", [False, True])
def test_long_chain_is_folded_without_recursion(all_read: bool) -> None:
    after, report = step(chain(3000, all_read=all_read), "fold_constants")
    tensor = after.node("a2999").tensor
    assert tensor is not None
    np.testing.assert_array_equal(tensor.numpy(), np.full(4, 3001, np.float32))
    assert not report.trace.left


def test_failed_kernel_folds_what_it_reads_instead() -> None:
    graph = with_input()
    a = graph.constant(np.ones(3, np.float32), "a")
    b = graph.constant(np.ones(2, np.float32), "b")
    double = graph.add("Add", [a, a], "double", attrs=T).output()
    bad = graph.add("Add", [double, b], "bad", attrs=T).output()
    graph.outputs = [graph.add("Mul", [bad, graph.inputs[0]], "y", attrs=T).output()]
    after, report = step(graph, "fold_constants")
    assert after.node("double").op == "Const"
    assert after.node("bad").op == "Add"
    assert "cannot be computed" in reasons(report)["bad"]


def test_huge_intermediate_is_not_computed() -> None:
    graph = with_input()
    dims = graph.constant(np.array([1 << 20, 1 << 12], np.int32), "dims")
    zero = graph.constant(np.float32(0), "zero")
    axes = graph.constant(np.array([0, 1], np.int32), "axes")
    filled = graph.add("Fill", [dims, zero], "filled", attrs={"T": FLOAT}).output()
    total = graph.add("Sum", [filled, axes], "total", attrs={"T": FLOAT}).output()
    graph.outputs = [graph.add("Mul", [total, graph.inputs[0]], "y", attrs=T).output()]
    after, report = step(graph, "fold_constants")
    assert after.node("total").op == "Sum"
    assert "17,179,869,184 bytes" in reasons(report)["filled"]


def test_shared_intermediate_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from thinflow.transforms.shared import constant_part as _evaluate

    runs: list[str] = []
    run_node = _evaluate.run_node
    monkeypatch.setattr(
        _evaluate, "run_node", lambda node, inputs: (runs.append(node.name), run_node(node, inputs))[1]
    )
    graph = with_input()
    root = graph.add("Neg", [graph.constant(np.ones(2, np.float32))], "root", attrs=T).output()
    read = []
    for i in range(20):
        leaf = graph.add("Abs", [root], f"leaf{i}", attrs=T).output()
        read.append(graph.add("Mul", [leaf, graph.inputs[0]], f"y{i}", attrs=T).output())
    graph.outputs = read
    step(graph, "fold_constants")
    assert runs.count("root") == 1


def test_negative_limit_is_an_error() -> None:
    with pytest.raises(ParameterError, match="max_growth_bytes is -1"):
        resolve("fold_constants(max_growth_bytes=-1)")


@pytest.mark.parametrize("name", ["kws_CNN_S", "kws_DS_CNN_S", "autoencoder"])
def test_real_models_shrink_and_stay_the_same(shared: Path, name: str) -> None:
    path = shared / "models" / f"{name}.pb"
    graph = graphdef.load(path)
    graph.inputs = [n.output() for n in graph if n.op == "Placeholder"]
    graph.outputs = [graph.value("output" if name == "autoencoder" else "labels_softmax")]
    result = apply(graph, "fold_constants fold_batch_norms fold_old_batch_norms")
    assert len(to_bytes(result.graph)) < path.stat().st_size
    assert not any("Norm" in n.op for n in result.graph)
    assert apply(result.graph, "fold_constants fold_batch_norms fold_old_batch_norms").changes == 0
    if name == "autoencoder":
        assert_same_numbers(graph, result.graph, 1e-5)


def test_a_list_that_two_read_is_no_constant() -> None:
    """Lists have no size in bytes, and cannot be stored: what is read from them can."""
    graph = parse_graph("""
    shape = Const() {dtype=int32, value=int32[1]{2}}
    size = Const() {dtype=int32, value=int32[]{3}}
    item = Const() {dtype=float, value=float[2]{4,5}}
    zero = Const() {dtype=int32, value=int32[]{0}}
    list = TensorListReserve(shape, size) {element_dtype=float, shape_type=int32}
    full = TensorListSetItem(list, zero, item) {element_dtype=float}
    n = TensorListLength(full)
    got = TensorListGetItem(full, zero, shape) {element_dtype=float}
    x = Placeholder() {dtype=float, shape=shape[2]}
    y = Add(x, got) {T=float}
    z = Cast(n) {SrcT=int32, DstT=float}
    outputs: y, z
    """)
    folded = apply(graph, "fold_constants").graph
    assert folded.node("got").tensor is not None
    assert folded.node("z").tensor is not None
