"""The answers of a graph that was trained, among its loss, its gradients and its savers."""

from __future__ import annotations

import pytest

from tests.library import constant, graph_of, node
from tests.load.builders import placeholder, product, read, reference, saver, variable
from thinflow.analysis.interface import guess_interface
from thinflow.analysis.shapes import infer_shapes
from thinflow.ir.types import BOOL, FLOAT


def guessed(nodes: list[str]) -> list[str]:
    graph = graph_of(nodes)
    infer_shapes(graph)
    return [v.name for v in guess_interface(graph).chosen_outputs]


def loss(of: str) -> list[str]:
    return [constant("axes", [0, 1]), node("total", "Mean", of, "axes", T=FLOAT, Tidx="type: 3")]


GRADIENTS = [
    node("gradients/ones", "OnesLike", "total", T=FLOAT),
    node("gradients/y_grad/mul", "Mul", "gradients/ones", "y", T=FLOAT),
    node("update", "ResourceApplyGradientDescent", "w", "gradients/ones", "gradients/y_grad/mul", T=FLOAT),
]


def test_what_the_loss_is_computed_from() -> None:
    nodes = [*product(out="logits"), node("y", "Softmax", "logits", T=FLOAT), *loss("y"), *GRADIENTS]
    assert guessed([*nodes, *saver(("w", "w", ""))]) == ["y"]


def test_a_loss_of_several_steps() -> None:
    nodes = [
        *product(out="product"), variable("b", 3), read("rb", "b"),
        node("y", "AddV2", "product", "rb", T=FLOAT), placeholder("labels", -1, 3),
        node("difference", "Sub", "y", "labels", T=FLOAT), node("square", "Square", "difference", T=FLOAT),
        *loss("square"), *GRADIENTS,
    ]  # fmt: skip
    assert guessed(nodes) == ["y"]


def test_an_answer_that_nothing_reads_is_better() -> None:
    nodes = [*product(), node("scores", "Softmax", "y", T=FLOAT), *loss("y"), *GRADIENTS]
    assert guessed(nodes) == ["scores"]


def test_by_products_of_conditions_and_savers() -> None:
    nodes = [
        *product(), placeholder("p", dtype=BOOL), node("switch", "Switch", "p", "p", T=BOOL),
        node("switch_t", "Identity", "switch:1", T=BOOL), node("set", "VarIsInitializedOp", "w"),
        *saver(("w", "w", "")),
    ]  # fmt: skip
    assert guessed(nodes) == ["y"]


def test_a_loss_and_nothing_else() -> None:
    nodes = [
        placeholder("x", -1, 3), variable("w", 3), read("r", "w"),
        node("m", "Sub", "x", "x", T=FLOAT), *loss("r"),
    ]  # fmt: skip
    assert guessed(nodes) != []


def test_it_says_why() -> None:
    graph = graph_of([*product(), *loss("y"), *GRADIENTS])
    infer_shapes(graph)
    best = guess_interface(graph).outputs[0]
    assert "'total' is computed from it" in str(best)
    assert all(c.score <= 0 for c in guess_interface(graph).outputs[1:])


@pytest.mark.parametrize("frozen", [True, False])
def test_graphs_without_variables_are_guessed_as_ever(frozen: bool) -> None:
    nodes = [placeholder("x", 2), node("y", "Neg", "x", T=FLOAT)]
    assert guessed(nodes if frozen else [*nodes, variable("w", 2)]) in (["y"], ["y", "w"])


def test_the_next_values_of_moving_averages_are_no_answers() -> None:
    nodes = [
        *product(), node("p", "Softmax", "y", T=FLOAT), reference("mean", 3), constant("rate", 0.1),
        constant("rows", [0]), node("now", "Mean", "y", "rows", T=FLOAT, Tidx="type: 3"),
        node("step", "Mul", "now", "rate", T=FLOAT), node("update", "AssignSub", "mean", "step", T=FLOAT),
    ]  # fmt: skip
    assert guessed(nodes) == ["p"]


def test_what_is_read_back_after_a_write_is_no_answer() -> None:
    nodes = [
        *product(), node("p", "Neg", "y", T=FLOAT), constant("at", [0]),
        node("mean", "VarHandleOp", dtype=FLOAT, shape="shape { dim { size: 3 } }"),
        node("phase", "Placeholder", dtype="type: 10"),
        node("handle", "Switch", "mean", "phase", T="type: 20"),
        node("now", "Mean", "y", "at", T=FLOAT, Tidx="type: 3"),
        node("update", "AssignSubVariableOp", "handle:1", "now", dtype=FLOAT),
        node("back", "ReadVariableOp", "handle:1", "^update", dtype=FLOAT),
    ]  # fmt: skip
    assert guessed(nodes) == ["p"]


def test_what_is_left_over_beside_the_answer_behind_the_loss() -> None:
    """The outputs of all steps of a loop, where only the last state is used."""
    nodes = [
        *product(), node("steps", "Tanh", "y", T=FLOAT), node("probs", "Softmax", "y", T=FLOAT),
        placeholder("labels", -1, 3), node("difference", "Sub", "probs", "labels", T=FLOAT),
        *loss("difference"),
    ]  # fmt: skip
    assert guessed(nodes) == ["probs", "steps"]


def test_sizes_that_a_loss_checks_are_no_answers() -> None:
    nodes = [
        *product(), node("p", "Softmax", "y", T=FLOAT),
        node("check/values/shape", "Shape", "y", T=FLOAT),
        node("softmax_cross_entropy_loss/value", "Neg", "p", T=FLOAT),
        node("q", "Sigmoid", "y", T=FLOAT),
    ]  # fmt: skip
    assert guessed(nodes) == ["q"]
