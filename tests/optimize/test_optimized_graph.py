"""Pictures go in as 0 to 255 unless somebody says otherwise, and that is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.optimize.optimized_graph import picture_warnings
from thinflow.optimize.samples import samples_for
from thinflow.quantize.sample_files import Scaling

UNSCALED = "pictures go in as 0..255, since no scaling was given"
NORM = """
    x = Placeholder() {dtype=float, shape=shape[1,8,8,3]}
    ones = Const() {value=float[3]{1,1,1}}
    mean = Const() {value=float[3]{0,0,0}}
    stored = Const() {value=float[3]{VAR,VAR,VAR}}
    variance = Identity(stored) {T=float}
    y = FusedBatchNormV3(x, ones, mean, mean, variance) {T=float, U=float, is_training=false, epsilon=0.001}
    inputs: x
    outputs: y
"""
PLAIN = "x = Placeholder() {dtype=float, shape=shape[1,8,8,3]}\ny = Relu(x) {T=float}\ninputs: x\noutputs: y"
SCALES = """
    x = Placeholder() {dtype=float, shape=shape[1,8,8,3]}
    by = Const() {value=float[]{255}}
    half = RealDiv(x, by) {T=float}
    y = Relu(half) {T=float}
    inputs: x
    outputs: y
"""


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    (tmp_path / "pictures").mkdir()
    for number in range(3):
        pixels = rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)
        image.fromarray(pixels).save(tmp_path / "pictures" / f"{number}.png")
    return tmp_path / "pictures"


@pytest.mark.parametrize(
    ("text", "scaling", "told"),
    [
        (PLAIN, None, UNSCALED),
        (PLAIN, Scaling(), ""),
        (PLAIN, Scaling(127.5, 127.5), ""),
        (SCALES, None, ""),
        (NORM.replace("VAR", "0.3"), None, "times as large as in training"),
        (NORM.replace("VAR", "0.3"), Scaling(127.5, 127.5), ""),
        (NORM.replace("VAR", "5000"), None, ""),
        (NORM.replace("VAR", "5000"), Scaling(127.5, 127.5), "times as small as in training"),
    ],
)
def test_what_is_said_of_pixels(pictures: Path, text: str, scaling: Scaling | None, told: str) -> None:
    graph = parse_graph(text)
    found = picture_warnings(graph, samples_for(graph, pictures, scaling=scaling))
    assert len(found) == bool(told)
    assert all(told in warning and "--std 255" in warning for warning in found)


def test_the_range_of_pixels_is_told(pictures: Path, tmp_path: Path) -> None:
    report = thinflow.optimize(parse_graph(PLAIN), tmp_path / "out", calibration=pictures, measure=False)
    assert report.samples == f"3 samples from {pictures}, pixels as 0..255"
    assert any(UNSCALED in warning for warning in report.warnings)
    scaled = samples_for(parse_graph(PLAIN), pictures, scaling=Scaling((0, 10, 20), 2.0), limit=2)
    assert scaled.note == f"2 of 3 samples from {pictures}, spread over all of them, pixels as -10..127.5"


def test_arrays_and_bytes_are_left_alone(pictures: Path) -> None:
    graph = parse_graph(PLAIN)
    assert not picture_warnings(graph, samples_for(graph, np.zeros((2, 8, 8, 3), np.float32)))
    assert not picture_warnings(graph, samples_for(graph, None))
    decodes = parse_graph(
        "x = Placeholder() {dtype=string, shape=shape[]}\ny = DecodePng(x) {channels=3}\n"
        "inputs: x\noutputs: y"
    )
    assert samples_for(decodes, pictures).note == f"3 samples from {pictures}"
