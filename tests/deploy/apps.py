"""Small models of pictures and sounds, pictures of many shapes, and what `evaluate` would feed of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import thinflow
from thinflow.datasets.shard import Record
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph
from thinflow.ir.types import FLOAT, INT32
from thinflow.optimize.evaluation.models import ModelSource, OpenModel
from thinflow.quantize.sample_files import Scaling

HEIGHT, WIDTH = 24, 32
SIDES = [(24, 32), (48, 64), (31, 77), (90, 41), (25, 33), (200, 111)]
"""Of pictures, height and width: as it is, halved, odd, upright, a little larger, a lot."""


def picture_model(path: Path, channels: int = 3) -> Path:
    """Scores of four classes from means of rows of a picture."""
    graph = Graph()
    shape = ShapeAttr((1, HEIGHT, WIDTH, channels))
    x = graph.add("Placeholder", name="picture", attrs={"dtype": FLOAT, "shape": shape}).output()
    axes = graph.constant(np.array([2], np.int32), "axes")
    rows = graph.add("Mean", [x, axes], "rows").output()
    flat = graph.add(
        "Reshape", [rows, graph.constant(np.array([1, HEIGHT * channels], np.int32), "flat/shape")], "flat"
    ).output()
    weights = np.random.default_rng(0).normal(0, 0.05, (HEIGHT * channels, 4)).astype(np.float32)
    logits = graph.add("MatMul", [flat, graph.constant(weights, "w")], "logits").output()
    graph.inputs, graph.outputs = [x], [graph.add("Softmax", [logits], "scores").output()]
    thinflow.save(graph, path)
    return path


def sound_model(path: Path, samples: int = 4000) -> Path:
    """Scores of three words from a spectrogram and the MFCCs of samples."""
    graph = Graph()
    x = graph.add(
        "Placeholder", name="samples", attrs={"dtype": FLOAT, "shape": ShapeAttr((samples, 1))}
    ).output()
    rate = graph.add("Placeholder", name="rate", attrs={"dtype": INT32, "shape": ShapeAttr(())}).output()
    spectrum = {"window_size": 640, "stride": 640, "magnitude_squared": True}
    seen = graph.add("AudioSpectrogram", [x], "spectrum", attrs=spectrum).output()
    mfcc = graph.add("Mfcc", [seen, rate], "mfcc", attrs={"dct_coefficient_count": 10}).output()
    count = 10 * (1 + (samples - 640) // 640)
    flat = graph.add(
        "Reshape", [mfcc, graph.constant(np.array([1, count], np.int32), "flat/shape")], "flat"
    ).output()
    weights = np.random.default_rng(0).normal(0, 0.05, (count, 3)).astype(np.float32)
    logits = graph.add("MatMul", [flat, graph.constant(weights, "w")], "logits").output()
    graph.inputs, graph.outputs = [x, rate], [graph.add("Softmax", [logits], "scores").output()]
    thinflow.save(graph, path)
    return path


def write_pictures(folder: Path, suffixes: tuple[str, ...] = ("png", "jpg", "ppm")) -> list[Path]:
    """Pictures of all sizes, in each format in turn."""
    from PIL import Image

    rng = np.random.default_rng(1)
    found = []
    for number, (height, width) in enumerate(SIDES):
        small = rng.integers(0, 256, (5, 7, 3)).astype(np.uint8)
        large = Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)
        noise = rng.integers(-20, 20, (height, width, 3))
        pixels = (np.asarray(large).astype(int) + noise).clip(0, 255).astype(np.uint8)
        found.append(folder / f"picture_{number}.{suffixes[number % len(suffixes)]}")
        Image.fromarray(pixels).save(found[-1])
    return found


def fed_by_evaluate(
    model: Path, pictures: list[Path], scaling: Scaling | None, mode: str = "RGB"
) -> Iterator[np.ndarray[Any, Any]]:
    """What `thinflow evaluate` feeds a model of each picture, by its own functions."""
    from PIL import Image

    opened = OpenModel(ModelSource(str(model)), None, scaling, {})
    for picture in pictures:
        # Its data sets know no PPM; the pixels are what counts.
        as_png = picture.parent / "as_png" / f"{picture.stem}.png"
        as_png.parent.mkdir(exist_ok=True)
        with Image.open(picture) as image:
            image.convert(mode).save(as_png)
        record = Record({"png": as_png.read_bytes()}, str(as_png))
        (fed,) = opened.feeding.feed(record).values()
        yield fed
