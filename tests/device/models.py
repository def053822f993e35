"""Small models for devices, written as .tflite files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import thinflow
from thinflow.device.base import Job
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph
from thinflow.ir.types import FLOAT


def dense(sizes: int = 16, seed: int = 0) -> Graph:
    """y = relu(x @ w)   x [1, sizes] -> y [1, sizes]."""
    rng = np.random.default_rng(seed)
    graph = Graph()
    shape = ShapeAttr((1, sizes))
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": shape}).output()
    w = graph.constant(rng.standard_normal((sizes, sizes)).astype(np.float32), "w")
    product = graph.add("MatMul", [x, w], "product", attrs={"T": FLOAT}).output()
    graph.inputs, graph.outputs = [x], [graph.add("Relu", [product], "y", attrs={"T": FLOAT}).output()]
    return graph


def dense_file(folder: Path, name: str = "dense.tflite", sizes: int = 16, seed: int = 0) -> Path:
    path = folder / name
    thinflow.save(dense(sizes, seed), path)
    return path


def job(path: Path, sizes: int = 16, threads: int = 1) -> Job:
    feed = np.linspace(-1, 1, sizes, dtype=np.float32).reshape(1, sizes)
    return Job(path.name, str(path), threads, (feed,))
