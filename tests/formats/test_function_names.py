"""Functions that were edited have other names in the file, so that both files fit into one process."""

from __future__ import annotations

import numpy as np

import thinflow
from tests.library import constant, function, graph_of, node
from thinflow.formats import graphdef
from thinflow.ir.function import reachable
from thinflow.ir.graph import Graph
from thinflow.ir.types import FLOAT
from thinflow.wire import protos

X = np.array([1, -2, 3], np.float32)


def graph() -> Graph:
    """y = outer(x) = 2 twice(x): a constant sum inside of the inner one can be folded. `alone` cannot."""
    twice = function(
        "twice",
        {"a": FLOAT},
        [
            constant("one", [1.0]),
            node("two", "Add", "one:output:0", "one:output:0", T=FLOAT),
            node("y", "Mul", "a", "two:z:0", T=FLOAT),
        ],
        {"r": "y:z:0"},
        "attr { key: 'backward_function_name' value { s: 'twice_grad' } }",
    )
    gradient = function("twice_grad", {"a": FLOAT}, [node("y", "Neg", "a", T=FLOAT)], {"r": "y:y:0"})
    outer = function(
        "outer",
        {"a": FLOAT},
        [node("y", "PartitionedCall", "a", f="@twice", Tin=(FLOAT,), Tout=(FLOAT,))],
        {"r": "y:output:0"},
    )
    alone = function("alone", {"a": FLOAT}, [node("y", "Abs", "a", T=FLOAT)], {"r": "y:y:0"})
    nodes = [
        node("x", "Placeholder", dtype=FLOAT, shape="shape { dim { size: 3 } }"),
        node("o", "PartitionedCall", "x", f="@outer", Tin=(FLOAT,), Tout=(FLOAT,)),
        node("t", "twice", "o"),
        node("y", "PartitionedCall", "t", f="@alone", Tin=(FLOAT,), Tout=(FLOAT,)),
    ]
    made = graph_of(nodes, [twice, gradient, outer, alone])
    message = protos.parse("GraphDef", graphdef.to_bytes(made))
    message.library.gradient.add(function_name="twice", gradient_func="twice_grad")
    made = graphdef.from_bytes(protos.serialize(message))
    made.inputs, made.outputs = [made.node("x").output()], [made.node("y").output()]
    return made


def folded() -> Graph:
    return thinflow.transform(graph(), "fold_constants(functions=true)")


def stored(changed: Graph) -> Graph:
    return graphdef.from_bytes(graphdef.to_bytes(changed))


def test_an_edited_function_and_its_callers_have_new_names() -> None:
    names = list(stored(folded()).functions)
    assert {name.partition("__edited_")[0] for name in names} == {"twice", "twice_grad", "outer", "alone"}
    assert {n for n in names if "__edited_" not in n} == {"alone", "twice_grad"}
    assert len({name.partition("__edited_")[2] for name in names if "__edited_" in name}) == 1


def test_every_mention_follows() -> None:
    after = stored(folded())
    assert reachable(after) == set(after.functions) - {"twice_grad"}
    message = protos.parse("GraphDef", graphdef.to_bytes(after))
    (pair,) = message.library.gradient
    assert (pair.function_name, pair.gradient_func) == (after.node("t").op, "twice_grad")
    before, now = (thinflow.run(g, {"x": X}, ["y"], engine="reference")["y"] for g in (graph(), after))
    np.testing.assert_array_equal(before, now)


def test_names_depend_on_the_content_only() -> None:
    assert graphdef.to_bytes(folded()) == graphdef.to_bytes(folded())
    other = thinflow.transform(graph(), "remove_nodes(op=PartitionedCall, functions=true)", verify=False)
    assert set(stored(other).functions) != set(stored(folded()).functions)


def test_what_was_not_edited_keeps_its_name() -> None:
    assert graphdef.to_bytes(stored(graph())) == graphdef.to_bytes(graph())
    same = thinflow.transform(graph(), "remove_device(functions=true)", verify=False)
    assert set(stored(same).functions) == set(graph().functions)


def test_names_do_not_grow() -> None:
    again = thinflow.transform(
        stored(folded()), "remove_attribute(attribute_name=T, op_name=Abs, functions=true)", verify=False
    )
    names = [n for n in stored(again).functions if n.startswith(("twice__", "alone__"))]
    assert len(names) == 2
    assert all(name.count("__edited_") == 1 for name in names)


def test_differences_are_told_of_a_function_by_its_old_name() -> None:
    told = str(thinflow.diff(graph(), stored(folded())))
    assert "function 'twice' has another body" in told
    assert "only in the" not in told
