"""What queues and datasets hand to a model, and what ops that nobody knows do: types and shapes."""

from __future__ import annotations

import pytest

import thinflow
from tests.library import constant, graph_of, node
from tests.load.builders import shape
from thinflow.analysis.interface import guess_interface
from thinflow.analysis.shapes import infer_shapes
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Graph
from thinflow.ir.types import FLOAT, INT64

TYPES = "list { type: 1 type: 9 }"
SHAPES = "list { shape { dim { size: 3 } dim { size: -1 } } shape { } }"


def inferred(nodes: list[str]) -> Graph:
    graph = graph_of(nodes)
    infer_shapes(graph)
    return graph


@pytest.mark.parametrize(
    ("op", "leading"),
    [
        ("QueueDequeueV2", ()),
        ("QueueDequeue", ()),
        ("QueueDequeueManyV2", (4,)),
        ("QueueDequeueUpToV2", (None,)),
    ],
)
def test_a_queue_declares_the_shapes(op: str, leading: tuple[int | None, ...]) -> None:
    extra = ["n"] if leading else []
    graph = inferred([
        node("q", "RandomShuffleQueueV2", component_types=TYPES, shapes=SHAPES), constant("n", 4),
        node("d", op, "q", *extra, component_types=TYPES), node("y", "Neg", "d", T=FLOAT),
        node("z", "Neg", "d:1", T=INT64),
    ])  # fmt: skip
    first, second = graph.node("y").output().spec, graph.node("z").output().spec
    assert (first.dtype, first.shape) == (FLOAT, (*leading, 3, None))
    assert (second.dtype, second.shape) == (INT64, leading)


def test_a_queue_of_anything() -> None:
    nodes = [
        node("q", "FIFOQueueV2", component_types=TYPES),
        node("d", "QueueDequeueV2", "q", component_types=TYPES),
    ]
    assert inferred([*nodes, node("y", "Neg", "d", T=FLOAT)]).node("y").output().shape is None


def iterator() -> list[str]:
    return [
        node("it", "IteratorV2", output_types=TYPES, output_shapes=SHAPES),
        node("next", "IteratorGetNext", "it", output_types=TYPES, output_shapes=SHAPES),
        node("data", "BatchDatasetV2", "next:1", output_types=TYPES, output_shapes=SHAPES),
        constant("w", [[1.0, 2.0]] * 2), node("y", "MatMul", "next", "w", T=FLOAT),
    ]  # fmt: skip


def test_a_dataset_declares_types_and_shapes_and_is_no_output() -> None:
    graph = inferred(iterator())
    assert graph.node("next").output().shape == (3, None)
    assert graph.node("next").output(1).dtype is INT64
    guess = guess_interface(graph)
    assert [v.name for v in guess.chosen_inputs] == ["next"]
    assert [v.name for v in guess.chosen_outputs] == ["y"]


def test_running_an_iterator_says_to_feed_it() -> None:
    graph = inferred(iterator())
    graph.inputs, graph.outputs = [], [graph.node("y").output()]
    with pytest.raises(UnsupportedOp) as caught:
        thinflow.Session(graph, engine="reference").run(["y"], {})
    assert caught.value.hint is not None
    assert "feed what comes out of that" in caught.value.hint


def test_an_unknown_op_has_the_type_that_its_readers_ask_for() -> None:
    graph = inferred([
        node("x", "Placeholder", dtype=FLOAT, shape=shape(2, 2)), constant("w", [[1.0, 2.0]] * 2),
        node("h", "MatMul", "x", "w", T=FLOAT), node("odd", "MyContribOp", "h", alpha="f: 0.5"),
        node("y", "MatMul", "odd", "w", T=FLOAT), node("s", "Softmax", "y", T=FLOAT),
    ])  # fmt: skip
    assert graph.node("odd").output().dtype is FLOAT
    assert graph.node("odd").output().shape is None
    assert graph.node("s").output().dtype is FLOAT
    with pytest.raises(UnsupportedOp) as caught:
        thinflow.Session(graph, engine="reference").run(["s"], {"x": [[1.0, 2.0], [3.0, 4.0]]})
    assert caught.value.hint is not None
    assert "--outputs h" in caught.value.hint
    assert "--inputs odd" in caught.value.hint


def test_readers_that_disagree_say_nothing() -> None:
    nodes = [node("odd", "MyContribOp"), node("a", "Neg", "odd", T=FLOAT), node("b", "Neg", "odd", T=INT64)]
    assert inferred(nodes).node("odd").output().dtype is None
