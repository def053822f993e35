"""Blocks of operators: order, dead code, lifetimes, names."""

from __future__ import annotations

import numpy as np
import pytest

from thinflow.errors import GraphError
from thinflow.ir.types import FLOAT, INT8, STRING
from thinflow.program.model import Block, Operator, Span, Tensor, in_running_order, name_uniquely


def tensor(name: str) -> Tensor:
    return Tensor(name, (2,), FLOAT)


X, A, B, Y = (tensor(n) for n in "xaby")
FIRST: Operator[Tensor] = Operator("first", [X], [A])
SECOND: Operator[Tensor] = Operator("second", [A, None], [B])
LAST: Operator[Tensor] = Operator("last", [A, B], [Y], {"size": 3}, "node")


def block(*operators: Operator[Tensor]) -> Block[Tensor, Operator[Tensor]]:
    return Block([X], [Y], list(operators))


def test_edges() -> None:
    whole = block(FIRST, SECOND, LAST)
    assert whole.tensors() == [X, A, B, Y]
    assert whole.producers() == {A: FIRST, B: SECOND, Y: LAST}
    assert whole.consumers() == {X: [(FIRST, 0)], A: [(SECOND, 0), (LAST, 0)], B: [(LAST, 1)]}
    assert whole.counts() == {"first": 1, "second": 1, "last": 1}
    assert repr(SECOND) == "Operator(second: a, - -> b)"


def test_lifetimes_end_at_the_last_reader() -> None:
    assert block(FIRST, SECOND, LAST).lifetimes() == {
        X: Span(-1, 0), A: Span(0, 2), B: Span(1, 2), Y: Span(2, 3)
    }  # fmt: skip


def test_lifetime_of_what_nobody_reads_is_one_operator() -> None:
    assert block(FIRST, SECOND).lifetimes()[B] == Span(1, 1)


def test_constants_have_no_lifetime() -> None:
    c = Tensor("c", (2,), FLOAT, np.zeros(2, np.float32))
    whole = block(Operator("last", [X, c], [Y]))
    assert whole.constants() == [c]
    assert c not in whole.lifetimes()


def test_dead_operators_go() -> None:
    whole = block(FIRST, Operator("unread", [A], [B]), Operator("last", [A], [Y]))
    whole.remove_dead()
    assert [o.code for o in whole.operators] == ["first", "last"]


@pytest.mark.parametrize(
    ("operators", "problem"),
    [
        ([LAST], r"Operator\(last: a, b -> y\) reads 'a' before anything writes it"),
        ([FIRST, FIRST], "writes 'a', which already has a value"),
        ([FIRST], "nothing writes the output 'y'"),
    ],
)
def test_order_is_checked(operators: list[Operator[Tensor]], problem: str) -> None:
    with pytest.raises(GraphError, match=problem):
        block(*operators).check_order()


def test_variables_may_be_written_again() -> None:
    block(Operator("assign", [X], [A]), Operator("last", [A], [Y])).check_order(ready=[A])


def test_running_order_keeps_what_stands_well() -> None:
    assert in_running_order([LAST, SECOND, FIRST]) == [FIRST, SECOND, LAST]
    assert in_running_order([FIRST, SECOND, LAST]) == [FIRST, SECOND, LAST]


@pytest.mark.parametrize(
    "circle",
    [
        [Operator("one", [A], [A])],
        [Operator("one", [B], [A]), Operator("two", [A, X], [B])],
        [LAST, Operator("one", [X, Y], [A]), SECOND],
    ],
)
def test_circles_have_no_running_order(circle: list[Operator[Tensor]]) -> None:
    with pytest.raises(GraphError, match=r"Operator\(\w+: .*\) reads what is computed from its own result"):
        in_running_order(circle)


def test_running_order_of_operators_that_several_wait_for() -> None:
    """Those that stand on the stack more than once are no circle."""
    tensors = [tensor(f"t{n}") for n in range(12)]
    chain = [Operator(f"o{n}", tensors[:n], [t]) for n, t in enumerate(tensors)]
    assert in_running_order(chain[::-1]) == chain
    assert in_running_order([*chain[6:], *chain[:6]]) == chain


def test_names_become_unique() -> None:
    tensors = [tensor("x"), tensor("x"), tensor(""), tensor("out")]
    out = tensor("out")
    name_uniquely([*tensors, out], fixed=[out])
    assert [t.name for t in (*tensors, out)] == ["x", "x_1", "tensor_1", "out_1", "out"]


def test_sizes_in_memory() -> None:
    assert Tensor("x", (2, 3), INT8).size_bytes == 6
    assert Tensor("x", (), FLOAT).size_bytes == 4
    assert Tensor("x", (None, 3), INT8).size_bytes is None
    assert Tensor("x", None, INT8).size_bytes is None
    assert Tensor("x", (2,), STRING).size_bytes is None
