"""The function library of a GraphDef: names of ports, lazy decoding, damaged functions."""

from __future__ import annotations

import pytest

from tests.library import constant, function, graph_of, node
from thinflow.errors import FormatError, GraphError
from thinflow.formats import graphdef
from thinflow.ir.attrs import FunctionAttr, PlaceholderAttr
from thinflow.ir.function import ARGUMENT, Function, Selection, reachable
from thinflow.ir.ports import OutputArg, flat_port, output_args
from thinflow.ir.types import DOUBLE, FLOAT, INT32
from thinflow.wire import protos

TOP = function(
    "top",
    {"x": FLOAT, "k": INT32},
    [
        node("best", "TopKV2", "x", "k", T=FLOAT),
        node("parts", "Split", "axis:output:0", "x", "^best", num_split=3, T=FLOAT),
        constant("axis", 0),
        node("sum", "AddV2", "parts:output:2", "best:values:0", T=FLOAT),
    ],
    {"y": "sum:z:0", "where": "best:indices:0", "same": "x"},
    "control_ret { key: 'c' value: 'parts' } attr { key: '_noinline' value { b: true } }",
)


def load(*functions: str) -> dict[str, Function]:
    graph = graph_of([node("a", "NoOp")], functions)
    return {name: graph.functions[name] for name in graph.functions}


def test_inputs_name_output_arguments() -> None:
    top = load(TOP)["top"]
    assert [v.name for v in top.inputs] == ["x", "k"]
    assert [v.node.op for v in top.inputs] == [ARGUMENT] * 2
    assert [v.name for v in top.outputs] == ["sum", "best:1", "x"]
    assert [v.name for v in top.graph.node("sum").inputs] == ["parts:2", "best"]
    assert [n.name for n in top.graph.node("parts").control_inputs] == ["best"]
    assert [n.name for n in top.control_outputs] == ["parts"]
    assert list(top.input_types) == [FLOAT, INT32]
    assert top.attrs["_noinline"] is True


def test_calls_by_name_have_the_results_of_the_function() -> None:
    body = [node("call", "top", "x", "n:output:0"), constant("n", 1)]
    outer = function("outer", {"x": FLOAT}, body, {"r": "call:same:0", "s": "call:where:0"})
    assert [v.name for v in load(TOP, outer)["outer"].outputs] == ["call:2", "call:1"]


def test_lists_take_their_length_from_attributes() -> None:
    args = (OutputArg("a", "n"), OutputArg("b", "types"), OutputArg("c"))
    attrs = {"n": 2, "types": (FLOAT, INT32, INT32)}
    assert flat_port(args, attrs, "a", 1) == 1
    assert flat_port(args, attrs, "b", 1) == 3
    assert flat_port(args, attrs, "c", 0) == 5
    # Files leave out what is as by default: an op of which one may ask for no context at all.
    parsed = output_args("ParseSequenceExampleV2")
    assert (
        flat_port(
            parsed,
            {"Nfeature_list_dense": 1, "feature_list_dense_types": (FLOAT,)},
            "feature_list_dense_lengths",
            0,
        )
        == 1
    )
    with pytest.raises(GraphError, match="no output 'd', only a, b, c"):
        flat_port(args, attrs, "d", 0)
    with pytest.raises(GraphError, match="'types' is missing"):
        flat_port(args, {"n": 2}, "c", 0)


def test_the_table_of_outputs() -> None:
    assert [a.name for a in output_args("FusedBatchNormV3")][:3] == ["y", "batch_mean", "batch_variance"]
    assert [a.name for a in output_args("NonMaxSuppressionV5")] == [
        "selected_indices", "selected_scores", "valid_outputs",
    ]  # fmt: skip
    assert output_args("SparseSplit")[1] == OutputArg("output_values", "num_split")
    assert output_args("Relu") == ()
    assert flat_port((), {}, "anything", 3) == 3


def test_functions_are_decoded_when_asked_for() -> None:
    broken = function("broken", {"x": FLOAT}, [node("y", "Relu", "nothing:y:0")], {"y": "y:activations:0"})
    graph = graph_of([node("a", "NoOp")], [TOP, broken])
    assert sorted(graph.functions) == ["broken", "top"]
    assert "top" in graph.functions
    assert graph.functions["top"] is graph.functions["top"]
    assert graph.functions["top"].graph.functions is graph.functions
    assert graph.clone().functions is graph.functions
    with pytest.raises(
        GraphError, match="function 'broken': 'nothing:y:0' refers to a node that does not exist"
    ):
        graph.functions["broken"]
    with pytest.raises(KeyError):
        graph.functions["absent"]


def test_damaged_functions_are_refused() -> None:
    with pytest.raises(FormatError, match="its result 'r' is not computed"):
        load(function("f", {"x": FLOAT}, [], {"r": "x"}).replace("key: 'r'", "key: 'q'"))
    with pytest.raises(FormatError, match="'x:y:z' is not an input"):
        load(function("f", {}, [constant("x", 1)], {"r": "x:y:z"}))
    body = [node("b", "AddV2", "xs:0", "xs:7", T=FLOAT)]
    text = function("f", {"xs": FLOAT}, body, {"r": "b:z:0"})
    listed = load(text.replace("type: 1 }", "number_attr: 'N' type: 1 }", 1))["f"]
    with pytest.raises(FormatError, match="'xs:7' is not in a list of 2"):
        listed.instantiated({"N": 2})
    misspelt = [node("b", "TopKV2", "x", "x"), node("y", "Relu", "b:vaules:0")]
    with pytest.raises(GraphError, match=r"node 'b' \(TopKV2\): it has no output 'vaules'"):
        load(function("f", {"x": FLOAT}, misspelt, {"y": "y:activations:0"}))


def test_saving_keeps_the_library_as_it_was() -> None:
    graph = graph_of([node("a", "NoOp")], [TOP])
    raw = graphdef.to_bytes(graph)
    assert graph.functions["top"].outputs
    graph.add("NoOp", name="b")
    graph.remove(graph.node("b"))
    assert graphdef.to_bytes(graph) == raw


def test_placeholders_are_filled_in_by_the_caller() -> None:
    body = [
        node("ca", "Cast", "x", SrcT="$S", DstT="$D"),
        node(
            "call",
            "PartitionedCall",
            "ca:y:0",
            f="func { name: 'g' attr { key: 'T' value { placeholder: 'D' } } }",
        ),
    ]
    default = "attr { name: 'D' type: 'type' default_value { type: DT_DOUBLE } }"
    text = function("f", {"x": "S"}, body, {"y": "call:output:0"})
    general = load(text.replace("} node_def", f"{default} }} node_def", 1))["f"]
    assert general.graph.node("ca").attrs["SrcT"] == PlaceholderAttr("S")
    assert list(general.input_types) == [None]
    special = general.instantiated({"S": INT32})
    assert special.graph.node("ca").attrs == {"SrcT": INT32, "DstT": DOUBLE}
    called = special.graph.node("call").attrs["f"]
    assert isinstance(called, FunctionAttr)
    assert called.attrs == {"T": DOUBLE}
    assert [v.node.graph for v in (*special.inputs, *special.outputs)] == [special.graph] * 2
    assert special.instantiated({}) is special
    assert general.graph.node("ca").attrs["SrcT"] == PlaceholderAttr("S")
    with pytest.raises(GraphError, match="the caller of the function does not set 'S'"):
        general.instantiated({})


def test_a_selection_is_written() -> None:
    plain = function("plain", {"x": FLOAT}, [node("y", "Neg", "x", T=FLOAT)], {"y": "y:y:0"})
    gradient = "gradient { function_name: 'top' gradient_func: 'plain' }"
    for chosen, gradients in (({"top", "plain"}, 1), ({"plain"}, 0), (set(), 0)):
        graph = graph_of([node("a", "NoOp")], [TOP, plain, gradient])
        graph.functions = Selection(graph.functions, chosen)
        assert ("top" in graph.functions) == ("top" in chosen)
        written = graphdef.to_bytes(graph)
        assert set(graphdef.from_bytes(written).functions) == chosen
        assert len(protos.parse("GraphDef", written).library.gradient) == gradients
    with pytest.raises(KeyError):
        graph.functions["top"]


def test_what_a_graph_can_reach() -> None:
    deep = function("deep", {"x": FLOAT}, [node("c", "top", "x", "x")], {"y": "c:y:0"})
    uses = node("a", "While", body="func { name: 'deep' attr { key: 'g' value { func { name: 'other' } } } }")
    other = function("other", {"x": FLOAT}, [], {"y": "x"})
    spare = function("spare", {"x": FLOAT}, [], {"y": "x"})
    assert reachable(graph_of([uses], [TOP, deep, other, spare])) == {"deep", "top", "other"}


def test_arguments_may_be_lists() -> None:
    body = [
        node("all", "AddN", "xs", N=2, T=FLOAT),
        node("y", "Mul", "all:sum:0", "xs:1", T=FLOAT),
    ]
    text = function("f", {"xs": FLOAT}, body, {"y": "y:z:0"})
    found = load(text.replace("type: 1 }", "number_attr: 'N' type: 1 }", 1))["f"]
    assert [v.name for v in found.inputs] == ["xs_0", "xs_1"]
    three = found.instantiated({"N": 3})
    assert [v.name for v in three.inputs] == ["xs_0", "xs_1", "xs_2"]
    assert [v.name for v in three.graph.node("all").inputs] == ["xs_0", "xs_1", "xs_2"]
    assert [v.name for v in three.graph.node("y").inputs] == ["all", "xs_1"]
    assert [v.node.attrs["index"] for v in three.inputs] == [0, 1, 2]
    with pytest.raises(FormatError, match="the caller does not say how long 'xs' is"):
        found.instantiated({})
