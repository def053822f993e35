"""The function of tf.image.non_max_suppression_padded by the runtimes' own op, and where it runs itself.

The function here gives -1 for all places, so that an answer tells which of the two it comes from.
"""

from __future__ import annotations

import numpy as np
import pytest

import thinflow
from thinflow.ir.attrs import FunctionAttr, ShapeAttr
from thinflow.ir.function import ARGUMENT, NMS_PADDED, Function
from thinflow.ir.graph import Graph
from thinflow.ir.types import BOOL, FLOAT, INT32

COUNT, SIZE = 12, 5
KINDS = (FLOAT, FLOAT, INT32, FLOAT, FLOAT, BOOL, BOOL, INT32)


def function_of(batch: tuple[int, ...]) -> Function:
    body = Graph()
    arguments = [body.add(ARGUMENT, name=f"a{n}", attrs={"T": k}).output() for n, k in enumerate(KINDS)]
    largest = body.add(
        "Max", [arguments[1], body.constant(np.arange(len(batch) + 1, dtype=np.int32), "axes")]
    )
    zero = body.add("Cast", [largest.output()], attrs={"SrcT": FLOAT, "DstT": INT32}).output()
    zero = body.add("Mul", [zero, body.constant(np.int32(0), "zero")], attrs={"T": INT32}).output()
    results = [
        body.add(
            "AddV2", [zero, body.constant(np.full(s, -1, np.int32), "none")], attrs={"T": INT32}
        ).output()
        for s in ((1, SIZE), batch)
    ]
    attrs = {"_implements": NMS_PADDED.encode()}
    return Function(
        "padded", body, arguments, results, input_types=KINDS, output_types=(INT32,) * 2, attrs=attrs
    )


def graph_of(
    *, iou: float = 0.5, least: float = 0.1, is_sorted: bool = False, batch: tuple[int, ...] = (), count=COUNT
) -> thinflow.Graph:
    graph = thinflow.Graph()
    shapes = {"boxes": (*batch, count, 4), "scores": (*batch, count)}
    graph.inputs = [
        graph.add("Placeholder", name=k, attrs={"dtype": FLOAT, "shape": ShapeAttr(s)}).output()
        for k, s in shapes.items()
    ]
    fixed = (
        np.int32(SIZE),
        np.float32(iou),
        np.float32(least),
        np.bool_(is_sorted),
        np.bool_(0),
        np.int32(8),
    )
    constants = [graph.constant(np.asarray(v), f"fixed{n}") for n, v in enumerate(fixed)]
    graph.functions = {"padded": function_of(batch)}
    attrs = {"f": FunctionAttr("padded", {}), "Tin": KINDS, "Tout": (INT32, INT32)}
    y = graph.add("PartitionedCall", [*graph.inputs, *constants], "y", attrs=attrs)
    graph.outputs = [y.output(0), y.output(1)]
    return graph


def wanted(boxes: np.ndarray, scores: np.ndarray, iou: float, least: float) -> tuple[list[int], int]:
    """The greedy choice, in float32."""
    kept: list[int] = []
    one = np.float32(1)
    for j in np.argsort(-scores, kind="stable"):
        ends, begins = np.minimum(boxes[j, 2:], boxes[kept, 2:]), np.maximum(boxes[j, :2], boxes[kept, :2])
        size = np.maximum(ends - begins, 0).reshape(-1, 2).T
        shared = size[0] * size[1]
        area = [np.prod(b[..., 2:] - b[..., :2], axis=-1) for b in (boxes[kept], boxes[j])]
        overlaps = shared / (area[0] + area[1] - shared + one * np.float32(1e-8))
        if scores[j] > np.float32(least) and len(kept) < SIZE and not (overlaps >= np.float32(iou)).any():
            kept.append(int(j))
    return [*kept, *[0] * (SIZE - len(kept))], len(kept)


def boxes_and_scores(seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    low = random.random((COUNT, 2))
    boxes = np.concatenate([low, low + random.uniform(0.1, 0.6, (COUNT, 2))], 1).astype(np.float32)
    return boxes, (random.integers(0, 5, COUNT) / 5).astype(np.float32)


@pytest.mark.parametrize("engine", ["litert", "onnxruntime"])
@pytest.mark.parametrize("batch", [(), (1,)])
@pytest.mark.parametrize(("iou", "least"), [(0.5, 0.1), (0.2, -np.inf), (0.9, 0.7), (0.5, 2.0)])
def test_the_op_chooses_what_the_function_would(engine, batch, iou, least):
    if engine == "onnxruntime":
        pytest.importorskip("onnxruntime")
    session = thinflow.Session(graph_of(iou=iou, least=least, batch=batch), engine=engine)
    for seed in range(8):
        boxes, scores = boxes_and_scores(seed)
        feeds = {"boxes": boxes.reshape(*batch, COUNT, 4), "scores": scores.reshape(*batch, COUNT)}
        places, count = session.run(["y:0", "y:1"], feeds)
        kept, number = wanted(boxes, scores, iou, least)
        assert places.tolist() == [kept]
        assert count.shape == batch
        assert count.ravel().tolist() == [number]


def test_boxes_that_are_sorted_keep_their_order():
    session = thinflow.Session(graph_of(is_sorted=True, least=-np.inf), engine="litert")
    boxes, scores = boxes_and_scores(0)
    scores = np.sort(scores)[::-1].copy()
    places, _ = session.run(["y:0", "y:1"], {"boxes": boxes, "scores": scores})
    assert places.tolist() == [wanted(boxes, scores, 0.5, -np.inf)[0]]


ODD = {
    "at the limit": [[0, 0, 1, 1], [0, 0, 1, 0.5]],
    "turned over": [[0, 0, 1, 1], [1, 1, 0.5, 0.5]],
    "nothing above zero": [[0, 0, 1, 1], [-2, -2, -1, -1]],
    "small ones at the limit": [[0, 0, 1e-4, 1e-4], [0, 0, 1e-4, 0.501e-4]],
}


@pytest.mark.parametrize("engine", ["litert", "onnxruntime"])
@pytest.mark.parametrize("odd", ODD)
def test_the_function_runs_itself_where_the_two_could_part(engine, odd):
    if engine == "onnxruntime":
        pytest.importorskip("onnxruntime")
    session = thinflow.Session(graph_of(), engine=engine)
    boxes = np.float32([*ODD[odd], *([9 + n, 9, 9.5 + n, 10] for n in range(COUNT - 2))])
    feeds = {"boxes": boxes, "scores": np.linspace(1, 0.5, COUNT, dtype=np.float32)}
    places, count = session.run(["y:0", "y:1"], feeds)
    assert places.tolist() == [[-1] * SIZE]
    assert count == -1


@pytest.mark.parametrize("options", [{"iou": 0.0}, {"batch": (2,)}, {"count": None}])
def test_what_the_op_cannot_say_is_left_to_the_function(options):
    graph = graph_of(**options)
    batch = options.get("batch", ())
    session = thinflow.Session(graph, engine="litert")
    boxes, scores = (np.stack([a] * 2) if batch else a for a in boxes_and_scores(0))
    places, _ = session.run(["y:0", "y:1"], {"boxes": boxes, "scores": scores})
    assert places.tolist() == [[-1] * SIZE]


def test_calls_that_say_so_stay_calls():
    graph = thinflow.transform(graph_of(), "inline_partitionedcall", verify=False)
    assert [node.op for node in graph if node.op != "Const"][-1] == "PartitionedCall"
