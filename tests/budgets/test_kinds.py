"""Every kind of budgets: kept, not kept, and for models of another kind."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.budgets.item import BudgetItem, Status
from thinflow.zoo import digits


def asked(model: Any, **budget: Any) -> BudgetItem:
    report = thinflow.check(model, budget=budget)
    (item,) = report.models[0].items
    assert [item.budget] == list(budget)
    return item


def statuses(model: Any, budgets: Mapping[str, tuple[Any, Any]]) -> dict[str, tuple[Status, Status]]:
    """What comes of each budget with two limits."""
    found = [thinflow.check(model, budget={k: v[n] for k, v in budgets.items()}).models[0] for n in (0, 1)]
    pairs = {key: tuple(one.item(key) for one in found) for key in budgets}
    return {key: (a.status, b.status) for key, (a, b) in pairs.items() if a is not None and b is not None}


OPS = ["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "MAX_POOL_2D", "RESHAPE", "SOFTMAX"]


def test_a_tflite_file(made: Path) -> None:
    path = made / "digits.tflite"
    size = os.path.getsize(path)
    summary = thinflow.summarize(path)
    flops, parameters = summary.cost.total.flops, summary.parameters.count
    budgets: dict[str, tuple[Any, Any]] = {
        "size": (size, size - 1),
        "nodes": (9, 8),
        "parameters": (parameters, parameters - 1),
        "flops": (flops, flops - 1),
        "ops": (OPS, OPS[1:]),
        "forbidden_ops": (["custom.*", "ADD"], ["MAX_*"]),
        "op_versions": ({"CONV_2D": 1}, {"*": 1, "RESHAPE": 1}),
        "litert": ("1.5", "1.4"),
        "lint": (["error"], ["baked_in_softmax"]),
        "activations": ("20KB", "1KB"),
        "peak_memory": ("4GB", "1KB"),
        "c": (True, {"cpu": "cortex-m4", "flash": "64KB"}),
    }
    found = statuses(path, budgets)
    assert found.pop("op_versions") == (Status.WITHIN, Status.WITHIN)
    assert found == dict.fromkeys(found, (Status.WITHIN, Status.OVER))
    assert len(found) == len(budgets) - 1


def test_what_is_over_is_named(made: Path) -> None:
    path = made / "digits.tflite"
    item = asked(path, ops=OPS[1:])
    assert item.message == "3 x CONV_2D are not allowed"
    assert len(item.nodes) == 3
    assert item.mend == f"thinflow inspect {path}"
    item = asked(path, forbidden_ops=["SOFTMAX"])
    assert item.message == "1 x SOFTMAX is forbidden"
    item = asked(path, size="100KB")
    assert (item.value, item.limit, item.unit) == (os.path.getsize(path), 100_000, "bytes")
    assert item.message.endswith(" kB of 100.0 kB")
    item = asked(path, lint=["TF403"])
    assert item.message.startswith("TF403 (the output 'probabilities' is a SOFTMAX")
    assert (item.value, item.nodes) == (1, ("probabilities",))
    item = asked(path, c={"cpu": "cortex-m4", "flash": "64KB"})
    assert item.message.startswith("weights alone ")


def test_versions_of_eight_bit_operators(tmp_path: Path) -> None:
    path = tmp_path / "q.tflite"
    samples = {"image": np.random.default_rng(0).random((4, 8, 8, 1), np.float32)}
    thinflow.quantize(digits.build(0), calibration=samples, effort="none").save(path)
    item = asked(path, op_versions={"CONV_2D": 2})
    assert item.message == "CONV_2D has version 3, not up to 2"
    assert asked(path, op_versions={"CONV_2D": 3, "*": 1}).message.startswith(
        "DEPTHWISE_CONV_2D has version 3"
    )
    assert asked(path, op_versions={"ADD": 1}).message == "it has none of these operators"
    item = asked(path, litert="1.13")
    assert (item.status, "CONV_2D version 3 needs 1.14" in item.message) == (Status.OVER, True)
    assert asked(path, litert="1.14.0").status is Status.WITHIN


def test_versions_that_came_later(made: Path, tmp_path: Path) -> None:
    from thinflow.formats.files import map_file
    from thinflow.tflite.reader import read_program
    from thinflow.tflite.writer import to_bytes

    program = read_program(map_file(made / "digits.tflite"))
    next(o for o in program.subgraphs[0].operators if o.code == "CONV_2D").version = 8
    path = tmp_path / "new.tflite"
    path.write_bytes(to_bytes(program))
    assert asked(path, litert="2.11").message == "CONV_2D version 8 needs a later release than 2.11, not 2.11"
    item = asked(path, litert="2.16")
    assert (item.status, item.fails(), item.fails(strict=True)) == (Status.UNSURE, False, True)


def test_an_onnx_file(made: Path) -> None:
    path = made / "digits.onnx"
    found = statuses(path, {"opset": (17, 16), "ops": (["*"], ["Conv"]), "litert": ("1.5", "1.4")})
    assert found["opset"] == found["ops"] == (Status.WITHIN, Status.OVER)
    assert found["litert"] == (Status.NOT_MEANT, Status.NOT_MEANT)
    assert asked(path, op_versions={"Conv": 1}).status is Status.NOT_MEANT


def test_weights_in_a_second_file_count(tmp_path: Path) -> None:
    from onnx import TensorProto, helper, save

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy")
    w = helper.make_tensor("w", TensorProto.FLOAT, [4, 4], np.ones(16, np.float32).tobytes(), raw=True)
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y], [w])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    whole = os.path.getsize(tmp_path / "m.onnx") + os.path.getsize(tmp_path / "m.data")
    assert os.path.getsize(tmp_path / "m.data") >= 64
    assert asked(tmp_path / "m.onnx", size=whole).value == whole


def test_a_graph_in_memory() -> None:
    graph = digits.build(0)
    nodes = len(graph)
    found = statuses(graph, {"ops": (["*"], ["Conv2D"]), "opset": (1, 1), "size": (1, 1), "latency": (1, 1)})
    assert found["ops"] == (Status.WITHIN, Status.OVER)
    assert found["opset"] == found["size"] == (Status.NOT_MEANT, Status.NOT_MEANT)
    assert found["latency"] == (Status.NOT_COMPARED, Status.NOT_COMPARED)
    assert len(graph) == nodes


OPEN = """
x = Placeholder() {dtype=float, shape=shape[1,?,?,3]}
w = Const() {value=float[2,2,3,4]{0.5 x 48}}
c = Conv2D(x, w) {padding="SAME", strides=[1,1,1,1], T=float}
inputs: x
outputs: c
"""


def test_open_sizes_leave_it_unsure() -> None:
    graph = parse_graph(OPEN)
    item = asked(graph, flops="1GFLOP")
    assert (item.status, item.nodes) == (Status.UNSURE, ("c",))
    assert "at least 0 FLOP of 1 GFLOP; the work of 'c' is not known" in item.message
    assert asked(graph, activations=10).message == "not known: sizes are open"
    report = thinflow.check(graph, budget={"flops": "1MFLOP"}, shapes={"x": (1, 8, 8, 3)})
    assert report.models[0].items[0].status is Status.WITHIN


def test_functions_count() -> None:
    graph = parse_graph(
        "x = Placeholder() {dtype=float, shape=shape[1,4]}\ny = Relu(x) {T=float}\ninputs: x\noutputs: y\n"
    )
    assert asked(graph, nodes=1).message == "1 of 1"


def test_what_has_no_form_in_c() -> None:
    graph = parse_graph(
        "x = Placeholder() {dtype=string, shape=shape[1]}\ny = StringLower(x)\ninputs: x\noutputs: y\n"
    )
    item = asked(graph, c=True)
    assert item.status is Status.OVER
    assert item.message.startswith("it has no form in C: ")


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("samples") / "test.npz"
    np.savez(path, **{name: array[:60] for name, array in digits.test_images().items()})
    return str(path)


def test_accuracy(made: Path, samples: str, tmp_path: Path) -> None:
    path = made / "digits.tflite"
    right = thinflow.evaluate(path, samples).accuracy
    assert right is not None
    assert right > 90
    item = asked(path, accuracy={"data": samples, "min": right})
    assert (item.status, item.value, item.limit) == (Status.WITHIN, right, right)
    assert "on 60 samples (95 % interval " in item.message
    # 60 samples cannot tell the two apart, and a hundredth of all is far below.
    if right < 100:
        assert asked(path, accuracy={"data": samples, "min": right + 0.1}).status is Status.UNSURE
    same = {"data": samples, "max_drop": 0.5, "reference": str(made / "digits.pb")}
    item = asked(path, accuracy=same)
    assert (item.status, item.unit) == (Status.WITHIN, "points")
    worse = tmp_path / "worse.pb"
    thinflow.save(spoiled(), worse)
    assert asked(worse, accuracy={"data": samples, "min": right}).status is Status.OVER
    item = asked(worse, accuracy={**same, "min": 1})
    assert item.status is Status.OVER
    assert " points lost of at most 0.5" in item.message
    assert "; accuracy " in item.message


def spoiled() -> thinflow.Graph:
    """A model with the same ends that sees nothing."""
    return parse_graph(
        "image = Placeholder() {dtype=float, shape=shape[?,8,8,1]}\n"
        "f = Const() {value=int32[2]{-1,64}}\n"
        "r = Reshape(image, f) {T=float, Tshape=int32}\n"
        "w = Const() {value=float[64,10]{0.0 x 640}}\n"
        "probabilities = MatMul(r, w) {T=float}\ninputs: image\noutputs: probabilities\n"
    )


def test_paths_are_those_beside_the_file(models: Path, samples: str) -> None:
    os.replace(samples, models / "test.npz")
    text = "[budget]\naccuracy = { data = 'test.npz', min = 50, max_drop = 1, reference = 'digits.pb' }\n"
    (models / "thinflow.toml").write_text(text)
    report = thinflow.check(models / "digits.tflite")
    assert report.is_within, str(report)
    os.replace(models / "test.npz", samples)


def test_one_that_fails_leaves_the_others(made: Path) -> None:
    report = thinflow.check(
        made / "digits.tflite", budget={"accuracy": {"data": "none/", "min": 1}, "nodes": 99}
    )
    accuracy, nodes = report.models[0].item("accuracy"), report.models[0].item("nodes")
    assert accuracy is not None
    assert nodes is not None
    assert (accuracy.status, nodes.status) == (Status.FAILED, Status.WITHIN)
    assert not report.is_within


def test_a_judge_that_breaks_is_told(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from thinflow.budgets import kinds as all_kinds

    def broken(model: Any, limit: Any) -> BudgetItem:
        raise ZeroDivisionError("by nothing")

    known = all_kinds.kinds()["nodes"]
    monkeypatch.setitem(all_kinds._KINDS, "nodes", all_kinds.Kind("nodes", known.read, broken))
    item = asked(made / "digits.tflite", nodes=3)
    assert (item.status, item.message) == (Status.FAILED, "ZeroDivisionError: by nothing")


def test_what_is_no_model_is_one_item(tmp_path: Path) -> None:
    (tmp_path / "no.tflite").write_bytes(b"nothing of the kind")
    report = thinflow.check([tmp_path / "no.tflite", tmp_path / "none.pb"], budget={"size": 1, "nodes": 1})
    assert [[i.budget for i in m.items] for m in report.models] == [["model"], ["model"]]
    assert len(report.failures()) == 2
    assert report.verdict == "2 of 2 models not within their budgets"


def test_lint_goes_by_the_settings_of_the_project(models: Path) -> None:
    settings = models / "thinflow.toml"
    settings.write_text('[lint]\nignore = ["TF1", "TF2", "TF3"]\n[budget]\nlint = ["warning"]\n')
    assert thinflow.check(models / "digits.pb").is_within
    settings.write_text('[budget]\nlint = ["warning"]\n')
    (item,) = thinflow.check(models / "digits.pb").failures()
    assert "TF301" in item.message
    # What the budget names counts all the same.
    settings.write_text('[lint]\nignore = ["TF3"]\n[budget]\nlint = ["error", "TF301"]\n')
    (item,) = thinflow.check(models / "digits.pb").failures()
    assert item.message.startswith("TF301")
