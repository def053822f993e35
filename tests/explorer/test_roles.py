"""What the inputs of ops are for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.explorer.shown import Shown
from thinflow import zoo
from thinflow.analysis.foreign import is_known
from thinflow.api.exploring.job import stored
from thinflow.explorer.roles import input_roles, spread, tables
from thinflow.ir.graph import Graph
from thinflow.ops import _operand_types


def test_a_convolution_says_which_input_is_its_filter() -> None:
    graph = zoo.build("digits")
    conv = next(node for node in graph if node.op == "Conv2D")
    assert input_roles(conv) == ("input", "filter")
    assert input_roles(next(node for node in graph if node.op == "Relu")) == ()


def test_what_stands_for_several_is_numbered() -> None:
    assert spread(("values*", "axis"), range(4)) == ("values 0", "values 1", "values 2", "axis")
    assert spread(("cond", "input*"), range(1)) == ("cond",)


def test_inputs_that_are_left_out_keep_their_places() -> None:
    assert spread(("X", "roi", "scales", "sizes"), (0, None, None, 1)) == ("X", "sizes")
    # Past the end of what the definition names.
    assert spread(("x",), range(2)) == ("x", "")


def test_a_file_of_another_vocabulary_has_its_own_names(tmp_path: Path) -> None:
    thinflow.convert(zoo.build("digits"), tmp_path / "d.tflite")
    found = {node.op: input_roles(node) for node in stored(tmp_path / "d.tflite", None)}
    assert found["tfl.CONV_2D"] == ("input", "filter", "bias")
    assert found["tfl.FULLY_CONNECTED"] == ("input", "weights", "bias")


def test_a_node_with_fewer_inputs_than_others_of_its_op_has_roles_of_its_own() -> None:
    graph = Graph()
    parts = [graph.constant(np.zeros((2, 2), np.float32), f"c{i}") for i in range(3)]
    axis = graph.constant(np.int32(0), "axis")
    graph.add("ConcatV2", [*parts[:2], axis], "two")
    graph.outputs = [graph.add("ConcatV2", [*parts, axis], "three").output(), graph.node("two").output()]
    shown = Shown(graph)
    for name, wanted in (
        ("two", ["values 0", "values 1", "axis"]),
        ("three", ["values 0", "values 1", "values 2", "axis"]),
    ):
        at = shown.built.places[name]
        assert [shown.strings[role] for role in shown.view.nodes.roles_at(at)] == wanted


@pytest.mark.parametrize(("prefix", "vocabulary"), [("tfl.", "tflite"), ("onnx.", "onnx")])
def test_all_ops_of_the_tables_exist(prefix: str, vocabulary: str) -> None:
    # An op that a runtime was given by hand, and one that ONNX replaced.
    unknown = [op for op in tables()[vocabulary] if not is_known(prefix + op)]
    assert unknown in ([], ["TFLite_Detection_PostProcess"], ["Upsample"])


def test_roles_are_as_many_as_inputs() -> None:
    # The types of the inputs come from TensorFlow's registry.
    for op, roles in tables()["tensorflow"].items():
        known = _operand_types._table().get(op)
        assert known is not None, op
        assert sum("*" in part for part in known) == sum("*" in role for role in roles), op
        assert len(known) == len(roles), op
