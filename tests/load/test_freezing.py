"""From a model with variables to a graph without: where values come from, and what is said if not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.library import constant, function, graph_of, node
from tests.load.builders import (
    SIGNATURE,
    VALUES,
    V,
    W,
    meta_text,
    placeholder,
    product,
    read,
    reference,
    saver,
    variable,
    write_model,
    write_values,
)
from thinflow.api import freeze_with_report
from thinflow.errors import FormatError, GraphError, ParameterError
from thinflow.ir.types import FLOAT, RESOURCE
from thinflow.load.checkpoint_keys import parse_part

X = np.array([[1, -1]], np.float32)


def run(graph: thinflow.Graph, name: str = "y") -> np.ndarray:
    return thinflow.run(graph, {graph.inputs[0].name: X}, [name], engine="reference")[name]


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    return write_values(tmp_path / "model-1", {**VALUES, "w/Momentum": W, "global_step": np.int64(3)})


def test_a_graph_and_its_checkpoint(prefix: Path) -> None:
    frozen = freeze_with_report(graph_of(product()), ["y"], checkpoint=prefix)
    np.testing.assert_allclose(run(frozen.graph), X @ W)
    assert frozen.unused == ["global_step", "v", "w/Momentum"]
    assert {name: (key.name, key.told_by) for name, key in frozen.variables.items()} == {
        "w": ("w", "its name")
    }
    assert [v.name for v in frozen.graph.inputs] == ["x"]
    assert frozen.graph.node("w").origin == "freeze"


def test_the_source_is_left_alone(prefix: Path) -> None:
    graph = graph_of(product())
    thinflow.freeze(graph, ["y"], checkpoint=prefix)
    assert graph.node("w").op == "VarHandleOp"


def test_what_a_saver_says_counts_more_than_names(tmp_path: Path) -> None:
    nodes = [*product(), variable("other", 2, 3), *saver(("w", "renamed", ""), ("other", "w", ""))]
    prefix = write_values(tmp_path / "m", {"w": -W, "renamed": W})
    frozen = freeze_with_report(graph_of(nodes), ["y"], checkpoint=prefix)
    np.testing.assert_allclose(run(frozen.graph), X @ W)
    assert frozen.variables["w"].told_by == "the restore operations"


def test_of_two_savers_the_one_the_model_names(tmp_path: Path) -> None:
    savers = [*saver(("w", "a", "")), *saver(("w", "b", ""), scope="save_1")]
    prefix = write_values(tmp_path / "model", {"a": W, "b": 2 * W})
    for name, factor in (("save", 1), ("save_1", 2)):
        more = f"saver_def {{ restore_op_name: '{name}/restore_all' }}"
        (tmp_path / "model.meta").write_text(meta_text([*product(), *savers], more=more))
        graph = thinflow.freeze(tmp_path / "model.meta", ["y"], inputs=["x"])
        np.testing.assert_allclose(run(graph), factor * X @ W)
        (tmp_path / "saver.pbtxt").write_text(f"restore_op_name: '{name}/restore_all' version: V2")
        found = freeze_with_report(
            graph_of([*product(), *savers]), ["y"], checkpoint=prefix, saver=tmp_path / "saver.pbtxt"
        )
        np.testing.assert_allclose(run(found.graph), factor * X @ W)


def test_parts_of_a_variable(tmp_path: Path) -> None:
    nodes = [
        placeholder("x", -1, 2),
        reference("w/part_0", 1, 3),
        reference("w/part_1", 1, 3),
        constant("axis", 0),
        node("w", "ConcatV2", "w/part_0", "w/part_1", "axis", T=FLOAT, N=2),
        node("y", "MatMul", "x", "w", T=FLOAT),
    ]
    prefix = write_values(tmp_path / "model", {"w": W})
    parts = saver(("w/part_0", "w", "2 3 0,1:-"), ("w/part_1", "w", "2 3 1,1:0,3"), op="Assign")
    np.testing.assert_allclose(
        run(thinflow.freeze(graph_of([*nodes, *parts]), ["y"], checkpoint=prefix)), X @ W
    )
    # The collection of variables says the same.
    from thinflow.wire import protos

    entries = []
    for i in range(2):
        info = protos.message("VariableDef")()
        info.variable_name = f"w/part_{i}:0"
        info.save_slice_info_def.full_name = "w"
        info.save_slice_info_def.full_shape.extend([2, 3])
        info.save_slice_info_def.var_offset.extend([i, 0])
        info.save_slice_info_def.var_shape.extend([1, 3])
        entries.append(info.SerializeToString())
    meta = protos.from_text("MetaGraphDef", meta_text(nodes).encode())
    meta.collection_def["variables"].bytes_list.value.extend(entries)
    (tmp_path / "model.meta").write_bytes(protos.serialize(meta))
    frozen = freeze_with_report(tmp_path / "model.meta", ["y"])
    np.testing.assert_allclose(run(frozen.graph), X @ W)
    assert frozen.variables["w/part_1"].told_by == "the variables collection"


@pytest.mark.parametrize(
    ("text", "extents"),
    [("", None), ("5 2 0,3:-", ((0, 3), (0, -1))), ("7 2,5", ((2, 5),)), (" 4 - ", ((0, -1),))],
)
def test_descriptions_of_parts(text: str, extents: object) -> None:
    part = parse_part(text)
    assert (part.extents if part is not None else None) == extents


@pytest.mark.parametrize("text", ["5 2 0,3", "x", "5 a,b", "5 0", "5 -1,2", "5 1,2:3,4"])
def test_descriptions_that_are_none(text: str) -> None:
    with pytest.raises(FormatError, match="does not describe a part of a variable"):
        parse_part(text)


def test_averages(tmp_path: Path) -> None:
    prefix = write_values(tmp_path / "m", {"w": W, "w/ExponentialMovingAverage": 3 * W})
    plain = thinflow.freeze(graph_of(product()), ["y"], checkpoint=prefix)
    shadow = freeze_with_report(graph_of(product()), ["y"], checkpoint=prefix, averages=True)
    np.testing.assert_allclose(run(shadow.graph), 3 * run(plain))
    assert shadow.variables["w"].told_by == "a moving average"


def test_renames_and_what_suggests_them(tmp_path: Path) -> None:
    nodes = product(weights="tower/layer/w")
    prefix = write_values(tmp_path / "m", {"layer/w": W, "layer/b": V})
    with pytest.raises(FormatError, match=r"no value for 1 variable: 'tower/layer/w'") as error:
        thinflow.freeze(graph_of(nodes), ["y"], checkpoint=prefix)
    assert error.value.hint == "the names begin differently? try --rename 'tower/='"
    frozen = freeze_with_report(graph_of(nodes), ["y"], checkpoint=prefix, renames={"tower/": ""})
    np.testing.assert_allclose(run(frozen.graph), X @ W)
    assert frozen.variables["tower/layer/w"].told_by == "--rename"


def test_a_variable_without_a_value(tmp_path: Path) -> None:
    prefix = write_values(tmp_path / "m", {"ww": W})
    with pytest.raises(FormatError, match="no value for 1 variable: 'w'") as error:
        thinflow.freeze(graph_of(product()), ["y"], checkpoint=prefix)
    assert "ww" in error.value.hint
    assert error.value.where == str(prefix)
    frozen = freeze_with_report(graph_of(product()), ["y"], checkpoint=prefix, allow_missing=True)
    assert frozen.missing == ["w"]
    assert frozen.graph.node("w").op == "VarHandleOp"


def test_some_variables_only(prefix: Path) -> None:
    nodes = [
        *product(out="p"), variable("v", 3), read("rv", "v"), node("y", "AddV2", "p", "rv", T=FLOAT)
    ]  # fmt: skip
    for options in ({"only": ["w"]}, {"exclude": ["v*"]}, {"only": ["w:0", "v"], "exclude": ["v"]}):
        graph = freeze_with_report(graph_of(nodes), ["y"], checkpoint=prefix, **options).graph
        assert (graph.node("w").op, graph.node("v").op) == ("Const", "VarHandleOp")
    graph = thinflow.freeze(graph_of(nodes), ["y"], checkpoint=prefix)
    np.testing.assert_allclose(run(graph), X @ W + V)


def test_no_checkpoint_at_all() -> None:
    with pytest.raises(FormatError, match="has 1 variable, first 'w', and no checkpoint was given") as error:
        thinflow.freeze(graph_of(product()), ["y"])
    assert "--checkpoint PREFIX" in error.value.hint


def test_changes_beside_the_answer_are_left_out(prefix: Path) -> None:
    nodes = [
        placeholder("x", -1, 2), variable("w", 2, 3), variable("v", 3), constant("one", [1.0, 1.0, 1.0]),
        node("count", "AssignAddVariableOp", "v", "one", dtype=FLOAT),
        node("read", "ReadVariableOp", "w", "^count", dtype=FLOAT),
        node("y", "MatMul", "x", "read", T=FLOAT),
    ]  # fmt: skip
    frozen = freeze_with_report(graph_of(nodes), ["y"], checkpoint=prefix)
    np.testing.assert_allclose(run(frozen.graph), X @ W)
    assert "1 changes of variables that ran beside the outputs are left out" in frozen.notes
    assert "v" not in frozen.graph


def test_unreadable_functions_that_nothing_calls(prefix: Path) -> None:
    broken = function("broken", {"a": FLOAT}, [node("n", "AddV2", "nobody", "a", T=FLOAT)], {"r": "n:z:0"})
    frozen = thinflow.freeze(graph_of(product(), [broken]), ["y"], checkpoint=prefix)
    np.testing.assert_allclose(run(frozen), X @ W)
    assert not frozen.functions


def test_devices(prefix: Path) -> None:
    graph = graph_of(product())
    graph.node("y").device = "/gpu:0"
    assert thinflow.freeze(graph, ["y"], checkpoint=prefix).node("y").device == "/gpu:0"
    assert thinflow.freeze(graph, ["y"], checkpoint=prefix, clear_devices=True).node("y").device == ""


def test_outputs_that_are_not_there(prefix: Path) -> None:
    with pytest.raises(GraphError, match="no node named 'yy'"):
        thinflow.freeze(graph_of(product()), ["yy"], checkpoint=prefix)
    with pytest.raises(GraphError, match="no output can be guessed") as error:
        thinflow.freeze(graph_of([variable("w", 2, 3)]), checkpoint=prefix)
    assert "--outputs" in error.value.hint


@pytest.mark.parametrize("option", [{"tags": "serve"}, {"signature": "a"}])
def test_options_that_do_not_apply(option: dict[str, str], tmp_path: Path, prefix: Path) -> None:
    thinflow.save(graph_of(product()), tmp_path / "g.pb")
    with pytest.raises(ParameterError, match="goes with a SavedModel"):
        thinflow.freeze(tmp_path / "g.pb", ["y"], checkpoint=prefix, **option)


def test_tags_of_a_metagraph(tmp_path: Path) -> None:
    (tmp_path / "m.meta").write_text(meta_text(product()))
    with pytest.raises(ParameterError, match="tags= goes with a SavedModel only"):
        thinflow.freeze(tmp_path / "m.meta", ["y"], tags="serve")


# --- SavedModels --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [False, True])
def test_a_saved_model(text: bool, tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", meta_text(product(), signatures=SIGNATURE), values=VALUES, text=text)
    graph = thinflow.load(folder)
    assert [v.name for v in graph.inputs] == ["image"]
    assert [v.name for v in graph.outputs] == ["scores"]
    np.testing.assert_allclose(run(graph, "scores"), X @ W)
    for old in ("y", "y:0"):  # the names in the file go on working
        np.testing.assert_allclose(thinflow.run(graph, {"x:0": X}, [old])[old], X @ W)


def test_objects_and_not_names_say_what_a_variable_is(tmp_path: Path) -> None:
    """Two variables of one name; the captures are bound through the objects."""
    wrapper = function("wrapper", {"x": FLOAT, "a": RESOURCE, "b": RESOURCE}, [
        read("ra", "a"), read("rb", "b"),
        node("m", "MatMul", "x", "ra:value:0", T=FLOAT),
        node("s", "AddV2", "m:product:0", "rb:value:0", T=FLOAT),
    ], {"out": "s:z:0"})  # fmt: skip
    nodes = [
        placeholder("x", -1, 2), variable("v", 3), variable("v_1", 2, 3),
        node("y", "StatefulPartitionedCall", "x", "v_1", "v", Tin=(FLOAT, RESOURCE, RESOURCE),
             Tout=(FLOAT,), f="@wrapper"),
    ]  # fmt: skip
    objects = """object_graph_def { nodes {} nodes { variable {} } nodes { variable {} }
        concrete_functions { key: 'wrapper' value { bound_inputs: 1 bound_inputs: 2 } } }"""
    from thinflow.wire import protos

    stored = protos.message("TrackableObjectGraph")()
    for key in (None, "first/.ATTRIBUTES/VARIABLE_VALUE", "second/.ATTRIBUTES/VARIABLE_VALUE"):
        entry = stored.nodes.add()
        if key:
            entry.attributes.add(name="VARIABLE_VALUE", full_name="v", checkpoint_key=key)
    values = {
        "first/.ATTRIBUTES/VARIABLE_VALUE": W,
        "second/.ATTRIBUTES/VARIABLE_VALUE": V,
        "_CHECKPOINTABLE_OBJECT_GRAPH": np.array(stored.SerializeToString(), object),
    }
    meta = meta_text(nodes, [wrapper], signatures=SIGNATURE, more=objects)
    frozen = freeze_with_report(write_model(tmp_path / "m", meta, values=values))
    np.testing.assert_allclose(run(frozen.graph, "scores"), X @ W + V)
    assert {key.told_by for key in frozen.variables.values()} == {"the model's objects"}
    assert "1 calls of functions replaced by their bodies" in frozen.notes


def test_names_that_clash(tmp_path: Path) -> None:
    """An output called as an input, one that is the input, one of no legal name, and one twice."""
    outputs = {"image": "y:0", "same": "x:0", "a b": "y:0", "again": "y:0"}
    meta = meta_text(product(), signatures={"serving_default": ({"image": "x:0"}, outputs)})
    graph = thinflow.load(write_model(tmp_path / "m", meta, values=VALUES))
    assert [v.name for v in graph.inputs] == ["image"]
    assert [v.name for v in graph.outputs] == ["y", "again", "image_output", "same"]
    found = thinflow.run(graph, {"image": X}, ["image_output", "same", "again", "a b"], engine="reference")
    np.testing.assert_allclose(found["same"], X)
    for name in ("image_output", "again", "a b"):
        np.testing.assert_allclose(found[name], X @ W)


def test_every_output_of_a_call_is_still_seen_in_the_frozen_file(tmp_path: Path) -> None:
    """A body whose results wait for its reads: frozen, nothing is left to wait for."""
    body = function("body", {"x": FLOAT, "a": RESOURCE}, [
        read("r", "a"), node("all", "NoOp", "^r"),
        node("m", "MatMul", "x", "r:value:0", T=FLOAT), node("n", "Neg", "m:product:0", T=FLOAT),
        node("one", "Identity", "m:product:0", "^all", T=FLOAT),
        node("two", "Identity", "n:y:0", "^all", T=FLOAT),
    ], {"one": "one:output:0", "two": "two:output:0"})  # fmt: skip
    nodes = [
        placeholder("x", -1, 2), variable("w", 2, 3),
        node("y", "StatefulPartitionedCall", "x", "w", Tin=(FLOAT, RESOURCE), Tout=(FLOAT, FLOAT), f="@body"),
    ]  # fmt: skip
    signatures = {"serving_default": ({"x": "x:0"}, {"first": "y:0", "second": "y:1"})}
    folder = write_model(tmp_path / "m", meta_text(nodes, [body], signatures=signatures), values=VALUES)
    frozen = thinflow.freeze(folder)
    assert not any(n.control_inputs for n in frozen)
    assert {n.op for n in frozen} == {"Placeholder", "Const", "Identity", "MatMul", "Neg"}
    thinflow.save(frozen, tmp_path / "frozen.pb")
    assert {v.name for v in thinflow.load(tmp_path / "frozen.pb").outputs} == {"first", "second"}


def test_two_outputs_of_one_node(tmp_path: Path) -> None:
    nodes = [placeholder("x", -1, 2), node("y", "Unpack", "x", T=FLOAT, num=2, axis=1)]
    signatures = {"serving_default": ({"x": "x:0"}, {"left": "y:0", "right": "y:1"})}
    graph = thinflow.freeze(write_model(tmp_path / "m", meta_text(nodes, signatures=signatures)))
    assert [(v.name, v.node.op) for v in graph.outputs] == [("left", "Identity"), ("right", "Identity")]
    assert run(graph, "right").tolist() == [-1]


def test_a_name_that_another_node_has(tmp_path: Path) -> None:
    nodes = [*product(out="p"), node("scores", "Neg", "p", T=FLOAT), node("y", "Neg", "scores", T=FLOAT)]
    graph = thinflow.load(write_model(tmp_path / "m", meta_text(nodes, signatures=SIGNATURE), values=VALUES))
    np.testing.assert_allclose(run(graph, "scores"), X @ W)
    assert graph.node("scores_inner").op == "Neg"


def test_colocation_follows_ends_that_are_renamed(tmp_path: Path) -> None:
    """Functions ask to stay with their arguments; TensorFlow refuses a graph that has no such node."""
    beside = "list { s: 'loc:@serving_default_x' s: 'loc:@x' s: 'loc:@y' }"
    nodes = [
        placeholder("serving_default_x", -1, 2), node("x", "Neg", "serving_default_x", T=FLOAT),
        node("y", "Neg", "x", T=FLOAT, _class=beside), node("more", "Neg", "y", T=FLOAT),
    ]  # fmt: skip
    signatures = {"serving_default": ({"x": "serving_default_x:0"}, {"a": "y:0", "b": "more:0"})}
    graph = thinflow.freeze(write_model(tmp_path / "m", meta_text(nodes, signatures=signatures)))
    beside_now = graph.node("a").inputs[0].node.attrs["_class"]
    assert beside_now == (b"loc:@x", b"loc:@x_inner", b"loc:@y")


def test_choosing_a_graph_and_a_signature(tmp_path: Path) -> None:
    two = {"a": ({"x": "x:0"}, {"y": "y:0"}), "b": ({"x": "x:0"}, {"z": "read:0"})}
    metas = [meta_text(product(), tags=tags, signatures=two) for tags in (["serve"], ["serve", "gpu"])]
    folder = write_model(tmp_path / "m", *metas, values=VALUES)
    assert [v.name for v in thinflow.load(folder, tags="gpu, serve", signature="b").outputs] == ["z"]
    with pytest.raises(FormatError, match="the model has 2 signatures") as error:
        thinflow.load(folder)
    assert error.value.hint == "choose one with --signature: a, b"
    with pytest.raises(FormatError, match="there is no signature 'c'\nhint: there is a, b"):
        thinflow.load(folder, signature="c")
    with pytest.raises(FormatError, match=r"there is no graph tagged \{train\}") as error:
        thinflow.load(folder, tags="train")
    assert error.value.hint == "there is {serve} and {gpu, serve}; give --tags"


def test_outputs_instead_of_a_signature(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", meta_text(product(), signatures=SIGNATURE), values=VALUES)
    graph = thinflow.freeze(folder, "read")
    assert [v.name for v in graph.outputs] == ["read"]
    assert "x" not in graph
