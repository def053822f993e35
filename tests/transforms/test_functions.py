"""Transforms inside library functions: what they change there, and that the rest of the file stays."""

from __future__ import annotations

import numpy as np
import pytest

from tests.library import constant, function, graph_of, node, stored_name
from tests.transforms.golden import parse_graph
from tests.transforms.support import apply, assert_same_numbers, step, to_bytes
from thinflow.errors import ParameterError
from thinflow.formats import graphdef
from thinflow.ir.graph import Graph
from thinflow.ir.types import BOOL, FLOAT, INT32
from thinflow.rewrite.rule import registered
from thinflow.transforms import names, resolve
from thinflow.wire import protos

CONDITION = function(
    "condition",
    {"i": INT32, "x": FLOAT},
    [constant("limit", 3), node("less", "Less", "i", "limit:output:0", T=INT32)],
    {"r": "less:z:0"},
)
BODY = function(
    "body",
    {"i": INT32, "x": FLOAT},
    [
        constant("one", 1),
        constant("again", 1),
        node("next", "AddV2", "i", "again:output:0", T=INT32),
        constant("two", 2.0),
        constant("three", 3.0),
        node("six", "Mul", "two:output:0", "three:output:0", T=FLOAT),
        node("same", "Identity", "x", T=FLOAT),
        node("grown", "AddV2", "same:output:0", "six:z:0", T=FLOAT) + " device: '/gpu:0'",
        node("say", "Print", "x", "x", T=FLOAT, U=(FLOAT,)),
    ],
    {"j": "next:z:0", "y": "grown:z:0"},
    "control_ret { key: 'said' value: 'say' } signature { control_output: 'said' }",
)
LONELY = function("lonely", {"x": FLOAT}, [node("neg", "Neg", "x", T=FLOAT)], {"y": "neg:y:0"})


def model() -> Graph:
    """A While of three rounds over a float[2]."""
    shape = "shape { dim { size: 2 } }"
    graph = graph_of(
        [
            constant("start", 0),
            node("x", "Placeholder", dtype=FLOAT, shape=shape),
            node(
                "loop",
                "StatelessWhile",
                "start",
                "x",
                T=(INT32, FLOAT),
                cond="@condition",
                body="@body",
            ),
            node("y", "Neg", "loop:1", T=FLOAT),
        ],
        [CONDITION, BODY, LONELY],
    )
    graph.inputs, graph.outputs = [graph.value("x")], [graph.value("y")]
    return graph


def saved(graph: Graph) -> Graph:
    after = graphdef.from_bytes(to_bytes(graph))
    after.inputs = [after.value(v.name) for v in graph.inputs]
    after.outputs = [after.value(v.name) for v in graph.outputs]
    return after


def ops(graph: Graph, name: str) -> list[str]:
    return [n.op for n in graph.functions[stored_name(graph, name)].graph if n.op not in {"_Arg", "Const"}]


def test_folding_in_a_loop() -> None:
    before = model()
    after, report = step(before, "fold_constants(functions=true)")
    assert ops(after, "body") == ["AddV2", "Identity", "AddV2", "Print"]
    six = after.functions["body"].graph.node("six").tensor
    assert six is not None
    assert six.numpy() == np.float32(6)
    assert "body/six" in [e.node for e in report.trace.changes]
    assert report.trace.notes == []
    assert report.transform == "fold_constants(functions=true)"
    assert_same_numbers(before, saved(after))


def test_without_the_option_the_library_stays_byte_for_byte() -> None:
    after, report = step(model(), "fold_constants")
    library = protos.parse("GraphDef", to_bytes(after)).library
    assert library == protos.parse("GraphDef", to_bytes(model())).library
    assert report.trace.notes == [
        "the model has a function library (3 in it); nothing inside it is folded; "
        "functions=true reaches into it"
    ]


def test_only_what_changed_is_written_anew() -> None:
    after = apply(model(), "remove_device(functions=true)").graph
    old = protos.parse("GraphDef", to_bytes(model())).library.function
    new = protos.parse("GraphDef", to_bytes(after)).library.function
    assert [a == b for a, b in zip(old, new, strict=True)] == [True, False, True]
    assert not any(n.device for n in new[1].node_def)
    new[1].signature.name = old[1].signature.name
    assert new[1].signature == old[1].signature
    assert new[1].control_ret == old[1].control_ret


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("remove_nodes(op=Identity, functions=true)", ["AddV2", "Mul", "AddV2", "Print"]),
        ("merge_duplicate_nodes(functions=true)", ["AddV2", "Mul", "Identity", "AddV2", "Print"]),
        ("strip_unused_nodes(functions=true)", ["AddV2", "Mul", "Identity", "AddV2", "Print"]),
        (
            "rename_op(old_op_name=AddV2, new_op_name=Add, functions=true)",
            ["Add", "Mul", "Identity", "Add", "Print"],
        ),
        ("obfuscate_names(functions=true)", ["AddV2", "Mul", "Identity", "AddV2", "Print"]),
        ("sort_by_execution_order(functions=true)", None),
        ('set_device(device="/cpu:0", functions=true)', None),
        ("remove_attribute(attribute_name=_none, functions=true)", None),
        ("rename_node(old_node_name=six, new_node_name=half_a_dozen, missing_ok=true, functions=true)", None),
        ("fold_batch_norms(functions=true) fold_old_batch_norms(functions=true)", None),
        ("add_default_attributes(functions=true)", None),
    ],
)  # fmt: skip
def test_transforms_in_a_loop(call: str, expected: list[str] | None) -> None:
    before = model()
    result = apply(before, call)
    after = saved(result.graph)
    assert_same_numbers(before, after)
    if expected is not None:
        assert ops(after, "body") == expected
    if all(s.transform.repeatable for s in resolve(call)):
        again = apply(after, call)
        assert again.changes == 0, [str(e) for s in again.steps for e in s.trace.changes]
        assert to_bytes(again.graph) == to_bytes(after)


def test_arguments_are_no_nodes_to_place() -> None:
    _, report = step(model(), 'set_device(device="/cpu:0", functions=true)')
    assert [e.node for e in report.trace.changes if e.op == "_Arg"] == []


def test_stripping_prunes_the_library() -> None:
    after, report = step(model(), "strip_unused_nodes")
    assert list(after.functions) == ["condition", "body"]
    assert report.trace.changes[-1].text == "1 functions that nothing calls were dropped"
    assert list(saved(after).functions) == ["condition", "body"]


def test_what_runs_for_its_effect_stays() -> None:
    after = apply(model(), "fold_constants(functions=true) strip_unused_nodes(functions=true)").graph
    body = after.functions["body"]
    assert [n.name for n in body.control_outputs] == ["say"]
    assert "say" in body.graph


def test_a_damaged_function_is_left_with_a_warning() -> None:
    broken = function("broken", {"x": FLOAT}, [node("neg", "Neg", "gone:y:0", T=FLOAT)], {"y": "neg:y:0"})
    graph = graph_of(
        [node("x", "Placeholder", dtype=FLOAT), node("y", "Neg", "x", T=FLOAT)], [broken, LONELY]
    )
    graph.inputs, graph.outputs = [graph.value("x")], [graph.value("y")]
    _, report = step(graph, 'set_device(device="/cpu:0", functions=true)')
    assert "lonely/neg" in [e.node for e in report.trace.changes]
    assert len(report.trace.warnings) == 1
    assert report.trace.warnings[0].startswith("function 'broken' stays as it is: ")


def test_a_generic_function() -> None:
    generic = function("generic", {"x": "T"}, [node("n", "Neg", "x", T="$T")], {"y": "n:y:0"},
                       "signature { attr { name: 'T' type: 'type' } }")  # fmt: skip
    graph = graph_of([node("x", "Placeholder", dtype=FLOAT), node("y", "generic", "x", T=FLOAT)], [generic])
    graph.inputs, graph.outputs = [graph.value("x")], [graph.value("y")]
    after = apply(graph, "rename_op(old_op_name=Neg, new_op_name=Square, functions=true)").graph
    message = protos.parse("GraphDef", to_bytes(after)).library.function[0]
    assert message.signature.input_arg[0].type_attr == "T"
    assert message.node_def[0].op == "Square"
    assert message.node_def[0].attr["T"].placeholder == "T"


def test_transforms_that_need_the_whole_graph_say_so() -> None:
    with pytest.raises(ParameterError, match="'sparsify_gather' does not act inside functions") as caught:
        resolve("sparsify_gather(functions=true)")
    assert "inline_partitionedcall" in (caught.value.hint or "")


def test_a_value_that_is_none() -> None:
    with pytest.raises(ParameterError, match="Couldn't interpret the functions argument as a boolean:maybe"):
        resolve("remove_device(functions=maybe)")


def test_the_written_form_reads_back() -> None:
    (first,) = resolve("rename_op(functions=true, old_op_name=A, new_op_name=B)")
    (second,) = resolve(str(first.transform))
    assert str(second.transform) == str(first.transform)


def test_a_branch_that_is_a_constant_predicate_keeps_its_types() -> None:
    graph = parse_graph(
        "x = Placeholder() {dtype=bool, shape=shape[]}\ny = LogicalNot(x)\ninputs: x\noutputs: y"
    )
    assert apply(graph, "remove_device(functions=true)").changes == 0
    assert graph.value("x").node.attrs["dtype"] is BOOL


def test_every_transform_says_whether_it_acts_in_functions() -> None:
    for name in names():
        try:
            (found,) = resolve(name)
        except ParameterError:
            continue  # it needs options
        assert registered(name) is type(found.transform)
        body = found.transform.for_function()
        assert body is None or body.name == name
