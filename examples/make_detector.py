"""Makes a detector to try things on: where are the bright squares? It ends in non-maximum suppression.

python examples/make_detector.py OUT_FOLDER

The backbone is random, the head that tells squares from discs is fitted to drawn scenes. Boxes are
[y1,x1,y2,x2] in shares of the picture, as TensorFlow's detectors give them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import thinflow
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Value
from thinflow.ir.types import FLOAT, INT32

Array = np.ndarray[Any, Any]
SIZE, STRIDE, SIDE = 48, 4, 12
CELLS = SIZE // STRIDE


def scene(rng: np.random.Generator) -> tuple[Array, Array]:
    """A picture [48,48,1] in 0..255 with squares and discs, and the cells [12,12] of squares' centres."""
    picture, centred = rng.normal(40, 12, (SIZE, SIZE)), np.zeros((CELLS, CELLS))
    y, x = np.mgrid[:SIZE, :SIZE]
    for number, quarter in enumerate(rng.permutation(4)[: rng.integers(1, 4)]):
        cell = np.array(divmod(int(quarter), 2)) * 6 + rng.integers(2, 4, 2)
        dy, dx = (np.abs(axis - (c + 0.5) * STRIDE) for axis, c in zip((y, x), cell, strict=True))
        is_square = number == 0 or rng.random() < 0.5
        inside = np.maximum(dy, dx) <= SIDE / 2 if is_square else dy**2 + dx**2 <= (SIDE / 2) ** 2
        picture[inside] += rng.uniform(90, 170)
        centred[tuple(cell)] = is_square
    return np.clip(picture, 0, 255)[..., None].astype(np.float32), centred


def scenes(count: int, seed: int) -> tuple[Array, Array]:
    """Pictures [count,48,48,1], and their squares' cells [count,12,12]."""
    rng = np.random.default_rng(seed)
    pictures, cells = zip(*(scene(rng) for _ in range(count)), strict=True)
    return np.stack(pictures), np.stack(cells)


def boxes() -> Array:
    """Of every cell the box around its centre, [144,4]."""
    centres = (np.mgrid[:CELLS, :CELLS].reshape(2, -1).T + 0.5) * STRIDE
    return (np.concatenate([centres - SIDE / 2, centres + SIDE / 2], 1) / SIZE).astype(np.float32)


def network(head: Array, bias: float) -> thinflow.Graph:
    """From a picture to boxes, scores and their number."""
    g = thinflow.Graph()
    f = {"T": FLOAT}
    rng = np.random.default_rng(0)

    def add(op: str, inputs: list[Value], name: str, **attrs: Any) -> Value:
        return g.add(op, inputs, name, attrs={**f, **attrs}).output()

    def conv(x: Value, weights: Array, name: str, stride: int) -> Value:
        kernel = g.constant(weights.astype(np.float32), f"{name}/weights")
        return add("Conv2D", [x, kernel], name, strides=(1, stride, stride, 1), padding="SAME")

    image = ShapeAttr((1, SIZE, SIZE, 1))
    x = g.add("Placeholder", name="image", attrs={"dtype": FLOAT, "shape": image}).output()
    y = add("Mul", [x, g.constant(np.float32(1 / 255), "scale")], "scaled")
    for number, (side, inputs, outputs, stride) in enumerate([(5, 1, 16, 2), (5, 16, 32, 2)], 1):
        weights = rng.normal(0, (2 / side / side / inputs) ** 0.5, (side, side, inputs, outputs))
        y = add("Relu", [conv(y, weights, f"conv{number}", stride)], f"relu{number}")
    y = add("BiasAdd", [conv(y, head, "head", 1), g.constant(np.array([bias], np.float32), "b")], "logits")
    flat = add("Reshape", [y, g.constant(np.array([-1], np.int32), "flat/shape")], "flat", Tshape=INT32)
    scores, candidates = add("Sigmoid", [flat], "all_scores"), g.constant(boxes(), "anchors")
    limits = [g.constant(np.float32(number), name) for number, name in ((0.3, "iou"), (0.5, "threshold"))]
    limit = g.constant(np.int32(8), "at_most")
    padded = {**f, "pad_to_max_output_size": True}
    kept = g.add("NonMaxSuppressionV4", [candidates, scores, limit, *limits], "nms", attrs=padded)
    axis = g.constant(np.int32(0), "axis")
    kinds = {"Tparams": FLOAT, "Tindices": INT32, "Taxis": INT32}
    found = [
        g.add("GatherV2", [all_, kept.output(0), axis], name, attrs=kinds).output()
        for all_, name in ((candidates, "detection_boxes"), (scores, "detection_scores"))
    ]
    number_found = g.add("Identity", [kept.output(1)], "num_detections", attrs={"T": INT32}).output()
    g.inputs, g.outputs = [x], [*found, number_found]
    return g


def fitted() -> thinflow.Graph:
    """The network with a head by logistic regression on what the backbone gives."""
    pictures, cells = scenes(80, seed=1)
    session = thinflow.Session(network(np.zeros((3, 3, 32, 1)), 0.0))
    seen = np.concatenate([session.run(["relu2"], {"image": p[None]})[0] for p in pictures])
    wide = np.pad(seen, ((0, 0), (1, 1), (1, 1), (0, 0)))
    patches = [wide[:, i : i + CELLS, j : j + CELLS] for i in range(3) for j in range(3)]
    x = np.concatenate([*patches, np.ones_like(seen[..., :1])], -1).reshape(-1, 9 * 32 + 1).astype(float)
    y = cells.reshape(-1)
    w = np.zeros(x.shape[1])
    for _ in range(6):  # Newton's steps
        p = 1 / (1 + np.exp(-x @ w))
        curvature = (x * (p * (1 - p))[:, None]).T @ x + 0.1 * np.eye(len(w))
        w += np.linalg.solve(curvature, x.T @ (y - p) - 0.1 * w)
    return network(w[:-1].reshape(3, 3, 32, 1), float(w[-1]))


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    thinflow.save(fitted(), folder / "detector.pb")
    for name, seed in (("scenes", 1), ("test_scenes", 2)):
        np.savez(folder / f"{name}.npz", image=scenes(100, seed)[0])
    print(f"wrote detector.pb, scenes.npz and test_scenes.npz to {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
