"""tf.image.non_max_suppression_padded: what the files keep is what TensorFlow keeps, box by box."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import thinflow

ROUNDS = 40
CASES: dict[str, dict[str, Any]] = {
    "least": {"score_threshold": 0.2},
    "all": {"iou_threshold": 0.3},
    "pixels": {"scale": 100.0, "score_threshold": 0.0, "iou_threshold": 1 / 3},
    "more places than boxes": {"count": 7, "size": 12, "score_threshold": 0.1},
    "sorted": {"sorted_input": True, "canonicalized_coordinates": True, "score_threshold": 0.3},
    "tiles": {"count": 40, "size": 30, "tile_size": 16, "iou_threshold": 0.6},
    "one image": {"batch": (1,), "score_threshold": 0.1},
    "cut": {"pad": False, "score_threshold": 0.2},
}


class Suppression(tf.Module):
    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__()
        settings = {"iou_threshold": 0.5, **options}
        count, batch = settings.pop("count", 20), settings.pop("batch", ())
        size, pad = settings.pop("size", 8), settings.pop("pad", True)
        settings.pop("scale", None)

        def call(boxes: Any, scores: Any) -> Any:
            kept, number = tf.image.non_max_suppression_padded(
                boxes, scores, size, pad_to_max_output_size=pad, **settings
            )
            return {"kept": kept, "number": number}

        shapes = {"boxes": (*batch, count, 4), "scores": (*batch, count)}
        self.call = tf.function(
            call, input_signature=[tf.TensorSpec(s, tf.float32, name=n) for n, s in shapes.items()]
        )


def feeds_of(options: dict[str, Any]) -> Iterator[dict[str, np.ndarray]]:
    """Boxes anywhere, on a grid, flat, turned over, below zero, tiny; scores that are equal or low."""
    count, batch, scale = options.get("count", 20), options.get("batch", ()), options.get("scale", 1.0)
    for seed in range(ROUNDS):
        random = np.random.default_rng(seed)
        kind = ("anywhere", "grid", "flat", "turned", "negative", "tiny")[seed % 6]
        low, sides = random.random((count, 2)), random.random((count, 2)) * 0.5
        if kind in ("grid", "flat"):
            low, sides = (
                random.integers(0, 4, (count, 2)) / 4,
                random.integers(kind == "grid", 4, (count, 2)) / 4,
            )
        if kind == "negative":
            low = low - 0.8
        if kind == "tiny":
            low, sides = random.integers(0, 4, (count, 2)) / 1e4, random.integers(1, 4, (count, 2)) / 1e4
        boxes = np.concatenate([low, low + sides], 1)
        if kind == "turned" and not options.get("canonicalized_coordinates"):
            boxes = boxes[:, [2, 1, 0, 3]]
        scores = random.random(count) if seed % 2 else random.integers(0, 6, count) / 6
        scores = np.sort(scores)[::-1] if options.get("sorted_input") else scores
        if seed % 10 == 9:
            scores = scores * 0.01
        yield {
            "boxes": (boxes * scale).astype(np.float32).reshape(*batch, count, 4),
            "scores": scores.astype(np.float32).reshape(*batch, count),
        }


@pytest.mark.parametrize("name", CASES)
def test_the_files_keep_the_same_boxes(name: str, tmp_path: Path) -> None:
    options = CASES[name]
    module = Suppression(options)
    tf.saved_model.save(module, str(tmp_path / "model"), signatures=module.call)
    feeds = list(feeds_of(options))
    wanted = [{k: v.numpy() for k, v in module.call(**feed).items()} for feed in feeds]
    for suffix in ("tflite", "onnx", "pb"):
        path = tmp_path / f"model.{suffix}"
        if suffix == "pb":
            thinflow.save(thinflow.load(tmp_path / "model"), path)
        else:
            thinflow.convert(tmp_path / "model", path)
        engine = {"tflite": "litert", "onnx": "onnxruntime", "pb": "reference"}[suffix]
        session = thinflow.Session(path, engine=engine)
        for number, (feed, expected) in enumerate(zip(feeds, wanted, strict=True)):
            for key, found in zip(expected, session.run(list(expected), feed), strict=True):
                np.testing.assert_array_equal(found, expected[key], err_msg=f"{suffix}, {number}: {key}")


def test_a_frozen_graph_keeps_the_function_and_runs_in_tensorflow(tmp_path: Path) -> None:
    module = Suppression({"score_threshold": 0.2})
    tf.saved_model.save(module, str(tmp_path / "model"), signatures=module.call)
    graph = thinflow.load(tmp_path / "model")
    (call,) = [node for node in graph if node.op == "PartitionedCall"]
    assert graph.functions[call.attrs["f"].name].implements == "non_max_suppression_padded_v2"
    thinflow.save(graph, tmp_path / "model.pb")
    feeds = list(feeds_of({}))[:6]
    wanted = [module.call(**feed) for feed in feeds]
    definition = tf.compat.v1.GraphDef.FromString((tmp_path / "model.pb").read_bytes())
    with tf.Graph().as_default() as frozen:
        tf.import_graph_def(definition, name="")
        with tf.compat.v1.Session(graph=frozen) as session:
            for feed, expected in zip(feeds, wanted, strict=True):
                found = session.run(
                    [f"{v.name}:0" for v in graph.outputs], {f"{k}:0": v for k, v in feed.items()}
                )
                for value, y in zip(graph.outputs, found, strict=True):
                    np.testing.assert_array_equal(y, expected[value.name].numpy())
