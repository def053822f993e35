"""Hard suppression through LiteRT: whole numbers make equal scores, overlaps at the limit and flat boxes."""

from __future__ import annotations

import numpy as np
import pytest

import thinflow
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.types import FLOAT

OUTPUTS = {
    "NonMaxSuppressionV2": 1,
    "NonMaxSuppressionV3": 1,
    "NonMaxSuppressionV4": 2,
    "NonMaxSuppressionV5": 3,
}
LIMIT = 6


def graph_of(op: str, count: int | None, iou: float | None, *, pad: bool) -> thinflow.Graph:
    """boxes [count,4], scores [count] and, where it is not given, iou [] -> y."""
    graph = thinflow.Graph()

    def fed(name: str, shape: tuple[int | None, ...]):
        attrs = {"dtype": FLOAT, "shape": ShapeAttr(shape)}
        return graph.add("Placeholder", name=name, attrs=attrs).output()

    graph.inputs = [fed("boxes", (count, 4)), fed("scores", (count,))]
    size = graph.constant(np.int32(LIMIT), "size")
    if iou is None:
        graph.inputs += (limit := fed("iou", ()),)
    else:
        limit = graph.constant(np.float32(iou), "iou")
    operands, attrs = [*graph.inputs[:2], size, limit], {"T": FLOAT}
    if op[-1] > "2":
        operands.append(graph.constant(np.float32(0.1), "least"))
    if op[-1] > "3":
        attrs["pad_to_max_output_size"] = pad
    if op[-1] > "4":
        operands.append(graph.constant(np.float32(0), "sigma"))
    y = graph.add(op, operands, "y", attrs=attrs)
    graph.outputs = [y.output(n) for n in range(OUTPUTS[op])]
    return graph


def boxes_and_scores(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    corners, sides = random.integers(0, 4, (count, 2)), random.integers(0, 4, (count, 2))
    boxes = np.concatenate([corners, corners + sides], 1)[:, [0, 3, 2, 1] if seed % 2 else [0, 1, 2, 3]]
    return boxes.astype(np.float32), (random.integers(-1, 6, count) / 6).astype(np.float32)


@pytest.mark.parametrize("op", OUTPUTS)
@pytest.mark.parametrize("pad", [False, True])
@pytest.mark.parametrize("iou", [0.0, 0.25, 1 / 3, 0.5, 1.0, None])
@pytest.mark.parametrize("count", [20, 1, None])
def test_equal_scores_and_overlaps_at_the_limit(op, pad, iou, count):
    graph = graph_of(op, count, iou, pad=pad)
    session, wanted = (thinflow.Session(graph, engine=engine) for engine in ("litert", "reference"))
    assert set(session.placement.values()) == {"litert"}
    names = [v.name for v in graph.outputs]
    for seed in range(6):
        boxes, scores = boxes_and_scores(seed, (0, 3, 20)[seed % 3] if count is None else count)
        feeds = {"boxes": boxes, "scores": scores}
        if iou is None:
            feeds["iou"] = np.float32((0.0, 0.25, 1 / 3, 0.5, 1.0)[seed % 5])
        for found, expected in zip(session.run(names, feeds), wanted.run(names, feeds), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_no_boxes():
    graph = graph_of("NonMaxSuppressionV4", 0, 0.5, pad=True)
    places, count = thinflow.Session(graph, engine="litert").run(
        ["y:0", "y:1"], {"boxes": np.zeros((0, 4), np.float32), "scores": np.zeros(0, np.float32)}
    )
    assert places.tolist() == [0] * LIMIT
    assert count == 0
