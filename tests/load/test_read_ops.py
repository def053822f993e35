"""Each op that reads a variable, beside numpy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.library import constant, node
from tests.load.builders import W, answer, frozen, placeholder, reference, variable
from thinflow.ir.types import FLOAT, INT32, INT64, RESOURCE

ROWS = np.array([1, 0, 1], np.int32)


def test_a_gather() -> None:
    nodes = [
        placeholder("i", 3, dtype=INT32), variable("w", 2, 3),
        node("y", "ResourceGather", "w", "i", dtype=FLOAT, Tindices=INT32, validate_indices="b: true"),
    ]  # fmt: skip
    graph = frozen(nodes)
    assert list(n.name for n in graph)[-2:] == ["y/axis", "y"]  # in running order
    np.testing.assert_array_equal(answer(graph, i=ROWS), W[ROWS])


def test_a_gather_with_batch_dimensions() -> None:
    nodes = [
        placeholder("i", 2, 2, dtype=INT64), variable("w", 2, 3),
        node("y", "ResourceGather", "w", "i", dtype=FLOAT, Tindices=INT64, batch_dims=1),
    ]  # fmt: skip
    where = np.array([[0, 2], [1, 1]], np.int64)
    found = answer(frozen(nodes), i=where)
    np.testing.assert_array_equal(found, np.take_along_axis(W, where, 1))


def test_a_gather_of_elements() -> None:
    nodes = [
        placeholder("i", 1, 2, dtype=INT32), variable("w", 2, 3),
        node("y", "ResourceGatherNd", "w", "i", dtype=FLOAT, Tindices=INT32),
    ]  # fmt: skip
    assert answer(frozen(nodes), i=np.array([[1, 2]], np.int32)).tolist() == [6]


@pytest.mark.parametrize(("out_type", "number"), [(INT32, np.int32), (INT64, np.int64)])
def test_the_shape(out_type: object, number: type) -> None:
    nodes = [variable("w", 2, 3), node("y", "VariableShape", "w", out_type=out_type)]
    found = answer(frozen(nodes))
    assert found.tolist() == [2, 3]
    assert found.dtype == number


def test_questions_whether_it_is_set() -> None:
    assert answer(frozen([variable("w", 2, 3), node("y", "VarIsInitializedOp", "w")])).item() is True
    old = [reference("w", 2, 3), node("y", "IsVariableInitialized", "w", dtype=FLOAT)]
    assert answer(frozen(old)).item() is True


def test_several_at_once() -> None:
    nodes = [
        variable("v", 2, 3), variable("w", 2, 3),
        node("r", "ReadVariablesOp", "v", "w", dtypes=(FLOAT, FLOAT), N=2),
        node("y", "AddV2", "r", "r:1", T=FLOAT),
    ]  # fmt: skip
    np.testing.assert_array_equal(answer(frozen(nodes)), 2 * W)


def test_hints_to_the_runtime_go() -> None:
    nodes = [
        variable("w", 2, 3), node("hint", "DisableCopyOnRead", "w"),
        node("y", "ReadVariableOp", "w", "^hint", dtype=FLOAT),
    ]  # fmt: skip
    graph = frozen(nodes)
    assert graph.node("hint").op == "NoOp"
    np.testing.assert_array_equal(answer(graph), W)


def test_a_read_waits_for_what_it_waited_for() -> None:
    nodes = [
        variable("w", 2, 3), constant("first", 1.0),
        node("y", "ReadVariableOp", "w", "^first", dtype=FLOAT, _class="list { s: 'loc:@w' }"),
    ]  # fmt: skip
    graph = frozen(nodes)
    assert [n.name for n in graph.node("y").control_inputs] == ["first"]
    assert graph.node("y").attrs["_class"] == (b"loc:@w",)


@pytest.mark.parametrize("op", ["RefIdentity", "RefEnter", "RefExit", "RefNextIteration"])
def test_references_become_values(op: str) -> None:
    attrs = {"frame_name": "s: 'f'"} if op == "RefEnter" else {}
    graph = frozen([reference("w", 2, 3), node("y", op, "w", T=FLOAT, **attrs)])
    assert graph.node("y").op == op.removeprefix("Ref")


def test_handles_pass_a_gradient_stop() -> None:
    nodes = [
        variable("w", 2, 3), node("s", "StopGradient", "w", T=RESOURCE),
        node("y", "ReadVariableOp", "s", dtype=FLOAT),
    ]  # fmt: skip
    np.testing.assert_array_equal(answer(frozen(nodes)), W)
