"""Values in the place of handles, wherever these went: functions, branches, loops of both kinds."""

from __future__ import annotations

import numpy as np
import pytest

from tests.library import constant, function, node, stored_name
from tests.load.builders import W, answer, frozen, placeholder, read, reference, variable
from thinflow.errors import GraphError, UnsupportedOp
from thinflow.ir.types import BOOL, FLOAT, INT32, RESOURCE

X = np.array([[1, -1]], np.float32)


BODY = function("use", {"x": FLOAT, "w": RESOURCE}, [
    read("r", "w"), node("m", "MatMul", "x", "r:value:0", T=FLOAT),
], {"out": "m:product:0"})  # fmt: skip


def test_a_call() -> None:
    nodes = [
        placeholder("x", 1, 2),
        variable("w", 2, 3),
        node("y", "PartitionedCall", "x", "w", Tin=(FLOAT, RESOURCE), Tout=(FLOAT,), f="@use"),
    ]
    graph = frozen(nodes, [BODY])
    np.testing.assert_allclose(answer(graph, x=X), X @ W)
    assert graph.node("y").attrs["Tin"] == (FLOAT, FLOAT)
    assert graph.functions[stored_name(graph, "use_frozen_0")].input_types == [FLOAT, FLOAT]


def test_a_call_in_a_call_that_hands_the_handle_back() -> None:
    outer = function("outer", {"x": FLOAT, "w": RESOURCE}, [
        node("c", "PartitionedCall", "w", Tin=(RESOURCE,), Tout=(RESOURCE,), f="@same"),
        read("r", "c:output:0"),
        node("m", "MatMul", "x", "r:value:0", T=FLOAT),
    ], {"out": "m:product:0"})  # fmt: skip
    same = function("same", {"w": RESOURCE}, [node("i", "Identity", "w", T=RESOURCE)], {"out": "i:output:0"})
    same = same.replace("name: 'out' type: 1 ", f"name: 'out' type: {RESOURCE.number} ")
    nodes = [
        placeholder("x", 1, 2),
        variable("w", 2, 3),
        node("y", "StatefulPartitionedCall", "x", "w", Tin=(FLOAT, RESOURCE), Tout=(FLOAT,), f="@outer"),
    ]
    np.testing.assert_allclose(answer(frozen(nodes, [outer, same]), x=X), X @ W)


@pytest.mark.parametrize("taken", [True, False])
def test_branches(taken: bool) -> None:
    other = function("other", {"x": FLOAT, "w": RESOURCE}, [
        read("r", "w"), node("m", "MatMul", "x", "r:value:0", T=FLOAT),
        node("n", "Neg", "m:product:0", T=FLOAT),
    ], {"out": "n:y:0"})  # fmt: skip
    nodes = [
        placeholder("x", 1, 2),
        placeholder("p", dtype=BOOL),
        variable("w", 2, 3),
        node("y", "If", "p", "x", "w", Tcond=BOOL, Tin=(FLOAT, RESOURCE), Tout=(FLOAT,),
             then_branch="@use", else_branch="@other"),
    ]  # fmt: skip
    found = answer(frozen(nodes, [BODY, other]), x=X, p=np.array(taken))
    np.testing.assert_allclose(found, X @ W if taken else -(X @ W))


def test_cases_share_one_copy_of_a_function() -> None:
    nodes = [
        placeholder("x", 1, 2),
        placeholder("i", dtype=INT32),
        variable("w", 2, 3),
        node("y", "Case", "i", "x", "w", Tin=(FLOAT, RESOURCE), Tout=(FLOAT,), branches=("@use", "@use")),
    ]
    graph = frozen(nodes, [BODY])
    np.testing.assert_allclose(answer(graph, x=X, i=np.array(1, np.int32)), X @ W)
    assert sorted(n.partition("__edited_")[0] for n in graph.functions) == ["use", "use_frozen_0"]


def test_a_loop_of_functions() -> None:
    cond = function("cond", {"i": INT32, "x": FLOAT, "w": RESOURCE}, [
        constant("n", 2), node("l", "Less", "i", "n:output:0", T=INT32),
    ], {"out": "l:z:0"}).replace("name: 'out' type: 1 ", "name: 'out' type: 10 ")  # fmt: skip
    body = function("body", {"i": INT32, "x": FLOAT, "w": RESOURCE}, [
        constant("one", 1), node("j", "AddV2", "i", "one:output:0", T=INT32),
        read("r", "w"), node("a", "AddV2", "x", "r:value:0", T=FLOAT),
    ], {"a": "j:z:0", "b": "a:z:0", "c": "w"})  # fmt: skip
    body = body.replace("name: 'a' type: 1 ", "name: 'a' type: 3 ").replace(
        "name: 'c' type: 1 ", "name: 'c' type: 20 "
    )
    nodes = [
        placeholder("x", 2, 3),
        constant("zero", 0),
        variable("w", 2, 3),
        node("loop", "While", "zero", "x", "w", T=(INT32, FLOAT, RESOURCE), cond="@cond", body="@body",
             output_shapes="list { shape {} shape { unknown_rank: true } shape {} }",
             _output_shapes="list { shape {} shape { unknown_rank: true } shape {} }"),
        node("y", "Identity", "loop:1", T=FLOAT),
    ]  # fmt: skip
    graph = frozen(nodes, [cond, body])
    np.testing.assert_allclose(answer(graph, x=W), 3 * W)
    loop = graph.node("loop")
    assert loop.attrs["T"] == (INT32, FLOAT, FLOAT)
    assert str(loop.attrs["output_shapes"][2]) != str(loop.attrs["output_shapes"][0])
    assert "_output_shapes" not in loop.attrs


@pytest.mark.parametrize("kind", ["resource", "reference"])
def test_a_loop_of_frames(kind: str) -> None:
    """A handle enters the frame and is read inside; a variable of old is read outside."""
    if kind == "resource":
        made = variable("w", 2, 3)
        enter = [node("we", "Enter", "w", T=RESOURCE, frame_name="s: 'f'", is_constant="b: true")]
        inside = [read("r", "we")]
    else:
        made = reference("w", 2, 3)
        enter = [node("wr", "Identity", "w", T=FLOAT)]
        inside = [node("r", "Enter", "wr", T=FLOAT, frame_name="s: 'f'", is_constant="b: true")]
    frame = {"frame_name": "s: 'f'"}
    nodes = [
        placeholder("x", 2, 3), constant("zero", 0), made, *enter,
        node("ie", "Enter", "zero", T=INT32, **frame), node("xe", "Enter", "x", T=FLOAT, **frame),
        node("im", "Merge", "ie", "in", T=INT32, N=2), node("xm", "Merge", "xe", "xn", T=FLOAT, N=2),
        constant("n", 2, "^im"), node("l", "Less", "im", "n", T=INT32), node("c", "LoopCond", "l"),
        node("is", "Switch", "im", "c", T=INT32), node("xs", "Switch", "xm", "c", T=FLOAT),
        constant("one", 1, "^ii"), node("ii", "Identity", "is:1", T=INT32),
        node("ia", "AddV2", "ii", "one", T=INT32), *inside,
        node("xa", "AddV2", "xs:1", "r", T=FLOAT),
        node("in", "NextIteration", "ia", T=INT32), node("xn", "NextIteration", "xa", T=FLOAT),
        node("y", "Exit", "xs", T=FLOAT),
    ]  # fmt: skip
    graph = frozen(nodes)
    np.testing.assert_allclose(answer(graph, x=W), 3 * W)
    if kind == "resource":
        assert graph.node("we").attrs["T"] == FLOAT


def test_a_condition_of_switches_on_references() -> None:
    nodes = [
        placeholder("p", dtype=BOOL), reference("w", 2, 3),
        node("s", "RefSwitch", "w", "p", T=FLOAT),
        node("a", "Identity", "s:1", T=FLOAT), node("b", "Neg", "s", T=FLOAT),
        node("y", "Merge", "b", "a", T=FLOAT, N=2),
    ]  # fmt: skip
    graph = frozen(nodes)
    assert graph.node("s").op == "Switch"
    for taken in (True, False):
        np.testing.assert_allclose(answer(graph, p=np.array(taken)), W if taken else -W)


def test_handles_in_an_identity_of_many() -> None:
    nodes = [
        placeholder("x", 1, 2), variable("w", 2, 3),
        node("i", "IdentityN", "x", "w", T=(FLOAT, RESOURCE)), read("r", "i:1"),
        node("y", "MatMul", "i", "r", T=FLOAT),
    ]  # fmt: skip
    graph = frozen(nodes)
    np.testing.assert_allclose(answer(graph, x=X), X @ W)
    assert graph.node("i").attrs["T"] == (FLOAT, FLOAT)


@pytest.mark.parametrize("op", ["Snapshot", "StopGradient", "PreventGradient", "DeepCopy", "GuaranteeConst"])
def test_handles_behind_ops_that_give_what_they_take(op: str) -> None:
    nodes = [
        placeholder("x", 1, 2),
        variable("w", 2, 3),
        node("i", op, "w", T=RESOURCE),
        read("r", "i"),
        node("y", "MatMul", "x", "r", T=FLOAT),
    ]
    np.testing.assert_allclose(answer(frozen(nodes), x=X), X @ W)


def test_what_a_constant_does_not_allow() -> None:
    nodes = [variable("w", 2, 3), node("odd", "ConsumeHandle", "w")]
    with pytest.raises(UnsupportedOp, match=r"node 'odd'.*uses the variable 'w' in a way") as error:
        frozen(nodes)
    assert "choose outputs" in error.value.hint


def test_a_function_that_is_not_there() -> None:
    call = node("y", "PartitionedCall", "w", Tin=(RESOURCE,), Tout=(FLOAT,), f="@gone")
    with pytest.raises(GraphError, match="there is no function 'gone'"):
        frozen([variable("w", 2, 3), call])


def test_functions_that_never_end() -> None:
    """Each copy asks for another one, since it takes one handle more."""
    call = node("c", "PartitionedCall", "w", Tin=(RESOURCE,), Tout=(RESOURCE,), f="@f")
    looping = function("f", {"w": RESOURCE}, [call], {"out": "c:output:0"})
    nodes = [
        variable("w", 2, 3),
        node("y", "PartitionedCall", "w", Tin=(RESOURCE,), Tout=(RESOURCE,), f="@f"),
    ]
    graph = frozen(nodes, [looping])
    assert stored_name(graph, "f_frozen_0")
