"""Changed functions on their way back into a GraphDef."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.library import constant, function, graph_of, node, stored_name
from thinflow.errors import GraphError
from thinflow.formats import graphdef
from thinflow.formats._function_writer import library_bytes
from thinflow.formats._functions import Library
from thinflow.ir.function import ARGUMENT, Edited, Function, Selection, changes
from thinflow.ir.graph import Graph
from thinflow.ir.ports import OutputArg, place_of
from thinflow.ir.types import FLOAT, INT32
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
    "control_ret { key: 'c' value: 'parts' } attr { key: '_noinline' value { b: true } }"
    " signature { control_output: 'c' }",
)
OUTER = function(
    "outer",
    {"x": FLOAT},
    [node("call", "top", "x", "n:output:0"), constant("n", 1)],
    {"r": "call:same:0", "s": "call:where:0"},
)


def graph() -> Graph:
    return graph_of([node("a", "NoOp")], [TOP, OUTER])


def saved(source: Graph) -> Graph:
    return graphdef.from_bytes(graphdef.to_bytes(source))


def rewritten(raw: bytes) -> bytes:
    """A library whose every function was copied, as if edited, and written anew."""
    library = Library(raw)
    return library_bytes(raw, Edited(library, {name: library[name].copied() for name in library}))[0]


def test_a_function_that_was_copied_is_written_as_it_was() -> None:
    raw = b"".join(data for number, data in graph().passenger.fields if number == 2)
    before, after = protos.parse("GraphDef", raw), protos.parse("GraphDef", rewritten(raw))
    assert list(before.library.function) == list(after.library.function)


@pytest.mark.parametrize("pattern", ["conformance/*_v2*.pb", "conformance/Part*.pb", "formats/*/graph.pb"])
def test_functions_of_tensorflow(shared: Path, pattern: str) -> None:
    count = 0
    for path in sorted(shared.glob(pattern)):
        raw = b"".join(data for number, data in graphdef.load(path).passenger.fields if number == 2)
        if raw:
            before, after = protos.parse("GraphDef", raw), protos.parse("GraphDef", rewritten(raw))
            assert list(before.library.function) == list(after.library.function), path.name
            count += len(before.library.function)
    assert count or "formats" in pattern


def test_an_edited_body() -> None:
    source = graph()
    top = source.functions["top"].copied()
    body = top.graph
    half = body.constant(np.float32(0.5), "half")
    scaled = body.add("Mul", [body.value("x"), half], "scaled", attrs={"T": FLOAT})
    relu = body.add("Relu", [scaled], "relu", attrs={"T": FLOAT})
    body.node("sum").set_input(0, relu)
    body.outputs = [relu.output(), *body.outputs[1:]]
    source.functions = Edited(source.functions, {"top": top.settled()})
    message = protos.parse("GraphDef", graphdef.to_bytes(source)).library.function[0]
    inputs = {n.name: list(n.input) for n in message.node_def}
    assert inputs["scaled"] == ["x", "half:output:0"]
    assert inputs["relu"] == ["scaled:z:0"]
    assert inputs["sum"] == ["relu:activations:0", "best:values:0"]
    assert dict(message.ret) == {"y": "relu:activations:0", "where": "best:indices:0", "same": "x"}
    assert dict(message.control_ret) == {"c": "parts"}
    assert message.attr["_noinline"].b is True
    written = saved(source)
    again = written.functions[stored_name(written, "top")]
    assert [v.name for v in again.outputs] == ["relu", "best:1", "x"]


def test_an_argument_that_changes_its_type() -> None:
    source = graph()
    top = source.functions["top"].copied()
    top.inputs[0].node.attrs["T"] = INT32
    source.functions = Edited(source.functions, {"top": replace(top, output_types=[INT32, INT32, INT32])})
    signature = protos.parse("GraphDef", graphdef.to_bytes(source)).library.function[0].signature
    assert [a.type for a in signature.input_arg] == [3, 3]
    assert [a.type for a in signature.output_arg] == [3, 3, 3]


def new_function() -> Function:
    body = Graph()
    x = body.add(ARGUMENT, name="x", attrs={"T": FLOAT, "index": 0})
    y = body.add("Neg", [x], "y", attrs={"T": FLOAT})
    return Function("negated", body, [x.output()], [y.output()], [y], [FLOAT], [FLOAT], {"_noinline": True})


def test_a_new_function() -> None:
    source = graph()
    source.functions = Edited(source.functions, {"negated": new_function()})
    assert len(source.functions) == 3
    assert list(source.functions) == ["top", "outer", "negated"]
    written = saved(source)
    again = written.functions[stored_name(written, "negated")]
    assert [n.op for n in again.graph] == [ARGUMENT, "Neg"]
    assert [v.name for v in again.outputs] == ["y"]
    assert [n.name for n in again.control_outputs] == ["y"]
    assert list(again.output_types) == [FLOAT]
    assert again.attrs["_noinline"] is True


def test_a_graph_made_by_hand_brings_its_functions() -> None:
    source = Graph()
    source.add("NoOp", name="a")
    source.functions = {"negated": new_function()}
    assert stored_name(saved(source), "negated")


def test_calls_of_changed_functions_by_name() -> None:
    source = graph()
    outer = source.functions["outer"].copied()
    source.functions = Edited(source.functions, {"outer": outer, "negated": new_function()})
    message = protos.parse("GraphDef", graphdef.to_bytes(source)).library.function[1]
    assert dict(message.ret) == {"r": "call:same:0", "s": "call:where:0"}


def test_a_selection_of_changed_functions() -> None:
    source = graph()
    edited = Edited(source.functions, {"negated": new_function()})
    source.functions = Selection(edited, {"negated", "top"})
    assert set(changes(source.functions)) == {"negated"}
    assert [n.partition("__")[0] for n in saved(source).functions] == ["top", "negated"]


def test_places_of_ports() -> None:
    args = (OutputArg("a", "n"), OutputArg("b", "types"), OutputArg("c"))
    attrs = {"n": 2, "types": (FLOAT, INT32, INT32)}
    assert [place_of(args, attrs, "X", p) for p in range(6)] == [
        *[("a", 0), ("a", 1)],
        *[("b", 0), ("b", 1), ("b", 2)],
        ("c", 0),
    ]
    with pytest.raises(GraphError, match="it has 6 outputs, no output 6"):
        place_of(args, attrs, "X", 6)
    assert place_of((), {}, "Relu", 0) == ("activations", 0)
    assert place_of((), {}, "Split", 2) == ("output", 2)
    assert place_of((), {}, "SomeCustomOp", 0) == ("output", 0)


def test_a_port_that_the_op_does_not_have_names_the_node() -> None:
    source = graph()
    top = source.functions["top"].copied()
    top.graph.outputs = [top.graph.node("best").output(7), *top.graph.outputs[1:]]
    source.functions = Edited(source.functions, {"top": top.settled()})
    with pytest.raises(GraphError, match=r"node 'best' \(TopKV2\): it has 2 outputs, no output 7"):
        graphdef.to_bytes(source)
