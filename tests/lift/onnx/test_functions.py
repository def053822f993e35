"""Functions of an ONNX model, and ops that the standard defines by simpler ones."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from tests.lift.onnx.models import agree, helper, lifted, node, onnx, reference, runtime, save
from thinflow.errors import UnsupportedOp

pytest.importorskip("onnxruntime")

X = np.random.default_rng(3).standard_normal((2, 3, 4)).astype(np.float32)
OPSETS = [helper.make_opsetid("", 20), helper.make_opsetid("mine", 1)]


def function(name: str, inputs: list, outputs: list, nodes: list, **more: object) -> object:
    made = helper.make_function("mine", name, inputs, outputs, nodes, OPSETS, more.pop("attributes", []))
    for key, value in more.items():
        made.attribute_proto.append(helper.make_attribute(key, value))
    return made


def refused(path: Path, feed: dict) -> str:
    with pytest.raises(UnsupportedOp) as caught:
        lifted(path, feed)
    return str(caught.value)


def ref(made: object, name: str, parameter: str, kind: int = 1) -> object:
    """Let an option of a node be a parameter of the function around it."""
    made.attribute.append(onnx.AttributeProto(name=name, ref_attr_name=parameter, type=kind))
    return made


def test_functions_in_functions_with_options_and_defaults(tmp_path: Path) -> None:
    inner = function(
        "Leak", ["x"], ["y"], [ref(node("LeakyRelu", ["x"], ["y"]), "alpha", "slope")], slope=0.25
    )
    outer = function(
        "Twice",
        ["x"],
        ["y", "z"],
        [
            ref(node("Leak", ["x"], ["h"], "mine"), "slope", "first"),
            node("Leak", ["h"], ["y"], "mine"),
            ref(helper.make_node("Constant", [], ["k"]), "value_float", "first"),
            node("Mul", ["x", "k"], ["z"]),
        ],
        attributes=["first"],
    )
    nodes = [
        node("Twice", ["x"], ["a", "b"], "mine", first=0.5),
        node("Twice", ["a"], ["c", ""], "mine", first=0.1),
    ]
    path = save(tmp_path / "m.onnx", nodes, {"x": X}, ["b", "c"], functions=[outer, inner], domains=["mine"])
    agree(runtime(path, {"x": X}), lifted(path, {"x": X}))


def test_an_operand_that_is_left_out_is_left_out_inside(tmp_path: Path) -> None:
    inner = function("Between", ["x", "low", "high"], ["y"], [node("Clip", ["x", "low", "high"], ["y"])])
    nodes = [node("Between", ["x", "", "h"], ["a"], "mine"), node("Between", ["x"], ["b"], "mine")]
    constants = {"h": np.array(0.5, np.float32)}
    path = save(
        tmp_path / "m.onnx", nodes, {"x": X}, ["a", "b"], constants, functions=[inner], domains=["mine"]
    )
    agree([np.minimum(X, np.float32(0.5)), X], lifted(path, {"x": X}))


def test_functions_of_one_name_differ_by_overload(tmp_path: Path) -> None:
    made = [function("F", ["x"], ["y"], [node(op, ["x"], ["y"])]) for op in ("Neg", "Abs")]
    calls = [node("F", ["x"], [o], "mine") for o in "ab"]
    for n, (one, call) in enumerate(zip(made, calls, strict=True)):
        one.overload = call.overload = f"v{n}"
    path = save(tmp_path / "m.onnx", calls, {"x": X}, ["a", "b"], functions=made, domains=["mine"])
    agree([-X, np.abs(X)], lifted(path, {"x": X}))


def test_the_model_s_own_function_goes_before_what_is_known_by_its_name(tmp_path: Path) -> None:
    own = function("Relu", ["x"], ["y"], [node("Neg", ["x"], ["y"])])
    own.domain = ""
    path = save(tmp_path / "m.onnx", [node("Relu", ["x"], ["y"])], {"x": X}, ["y"], functions=[own])
    agree([-X], lifted(path, {"x": X}))


def test_functions_that_call_each_other_endlessly_are_refused(tmp_path: Path) -> None:
    made = [
        function("A", ["x"], ["y"], [node("B", ["x"], ["y"], "mine")]),
        function("B", ["x"], ["y"], [node("A", ["x"], ["y"], "mine")]),
    ]
    path = save(tmp_path / "m.onnx", [node("A", ["x"], ["y"], "mine")], {"x": X}, ["y"], functions=made)
    assert "its functions call each other too deeply" in refused(path, {"x": X})


def test_functions_that_double_at_every_level_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("thinflow.lift.inline._MOST_NODES", 1000)
    made = [
        function(
            f"F{n}",
            ["x"],
            ["y"],
            [node(f"F{n + 1}", ["x"], ["h"], "mine"), node(f"F{n + 1}", ["h"], ["y"], "mine")],
        )
        for n in range(20)
    ]
    made.append(function("F20", ["x"], ["y"], [node("Neg", ["x"], ["y"])]))
    path = save(tmp_path / "m.onnx", [node("F0", ["x"], ["y"], "mine")], {"x": X}, ["y"], functions=made)
    assert "its functions become more than 1000 nodes" in refused(path, {"x": X})


def test_what_a_function_holds_that_is_not_known_is_named(tmp_path: Path) -> None:
    own = function("F", ["x"], ["y"], [node("Odd", ["x"], ["y"], "yours")])
    path = save(tmp_path / "m.onnx", [node("F", ["x"], ["y"], "mine")], {"x": X}, ["y"], functions=[own])
    assert "onnx.yours.Odd has no counterpart" in refused(path, {"x": X})


def test_ops_that_the_standard_defines(tmp_path: Path) -> None:
    path = save(
        tmp_path / "m.onnx", [node("MeanVarianceNormalization", ["x"], ["y"], axes=[0, 2])], {"x": X}, ["y"]
    )
    agree(reference(path, {"x": X}), lifted(path, {"x": X}))


def test_without_the_package_onnx_its_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path / "m.onnx", [node("MeanVarianceNormalization", ["x"], ["y"])], {"x": X}, ["y"])
    monkeypatch.setitem(sys.modules, "onnx", None)
    said = refused(path, {"x": X})
    assert "onnx.MeanVarianceNormalization may be defined by simpler ops" in said
    assert "pip install 'thinflow[onnx]'" in said


def test_an_op_set_that_is_too_new_is_named(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", [node("Relu", ["x"], ["y"])], {"x": X}, ["y"], opset=99)
    assert "the model asks for version 99 of ONNX's op set" in refused(path, {"x": X})


def test_the_op_set_is_found_behind_many_others(tmp_path: Path) -> None:
    domains = [f"d{n}" for n in range(8)]
    path = save(
        tmp_path / "m.onnx", [node("Softmax", ["x"], ["y"])], {"x": X}, ["y"], opset=9, domains=domains
    )
    model = onnx.load(path)
    model.opset_import.sort(key=lambda o: not o.domain)
    onnx.save(model, path)
    agree(runtime(path, {"x": X}), lifted(path, {"x": X}))


def test_a_call_with_more_operands_than_its_function(tmp_path: Path) -> None:
    own = function("F", ["x"], ["y"], [node("Neg", ["x"], ["y"])])
    path = save(tmp_path / "m.onnx", [node("F", ["x", "x"], ["y"], "mine")], {"x": X}, ["y"], functions=[own])
    assert "its definition takes 1 operands, it has 2" in refused(path, {"x": X})


def test_a_result_that_is_an_operand_left_out(tmp_path: Path) -> None:
    own = function("F", ["x", "b"], ["b"], [node("Neg", ["x"], ["y"])])
    path = save(tmp_path / "m.onnx", [node("F", ["x"], ["y"], "mine")], {"x": X}, ["y"], functions=[own])
    assert "'b' is absent" in refused(path, {"x": X})


def test_a_constant_that_is_no_tensor(tmp_path: Path) -> None:
    held = node("Constant", [], ["k"])
    held.attribute.append(onnx.AttributeProto(name="value", ref_attr_name="given", type=4))
    own = function("F", ["x"], ["y"], [held, node("Mul", ["x", "k"], ["y"])], attributes=["given"])
    call = node("F", ["x"], ["y"], "mine", given=1.0)
    path = save(tmp_path / "m.onnx", [call], {"x": X}, ["y"], functions=[own])
    assert "it holds something else than a tensor" in refused(path, {"x": X})


def test_an_option_that_has_no_place_in_a_definition(tmp_path: Path) -> None:
    odd = onnx.numpy_helper.from_array(np.zeros(2, np.float32))
    made = node("CausalConvWithState", ["x", "w"], ["y"], odd=odd)
    feed = {"x": X, "w": np.ones((3, 1, 2), np.float32)}
    path = save(tmp_path / "m.onnx", [made], feed, ["y"], opset=27)
    assert "its option 'odd' has no place in its definition" in refused(path, feed)
