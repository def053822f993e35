"""Made-up inputs."""

from __future__ import annotations

import io
import wave

import numpy as np
import pytest

from tests.transforms.golden import parse_graph
from thinflow.errors import FeedError, ParameterError
from thinflow.ir.types import FLOAT, TensorSpec
from thinflow.synthetic import concrete_shape, override_shapes, synthetic_feeds, synthetic_png, synthetic_wav


def feed(line: str, seed: int = 0, more: str = "") -> np.ndarray:
    graph = parse_graph(f"x = Placeholder() {{{line}}}\n{more}\ninputs: x")
    (only,) = synthetic_feeds(graph.inputs, 1, seed)
    return only[graph.value("x")]


@pytest.mark.parametrize(
    ("line", "shape", "kind"),
    [
        ("dtype=float, shape=shape[?,?,?,3]", (1, 96, 96, 3), "float32"),
        ("dtype=float, shape=shape[?,?]", (1, 8), "float32"),
        ("dtype=uint8, shape=shape[2,2]", (2, 2), "uint8"),
        ("dtype=int64, shape=shape[3]", (3,), "int64"),
        ("dtype=complex64, shape=shape[3]", (3,), "complex64"),
        ("dtype=bool, shape=shape[3]", (3,), "bool"),
        ("dtype=half, shape=shape[0,3]", (0, 3), "float16"),
        ("dtype=float, shape=shape?", (), "float32"),
    ],
)
def test_shapes_and_types(line: str, shape: tuple[int, ...], kind: str) -> None:
    array = feed(line)
    assert array.shape == shape
    assert array.dtype == kind
    if kind == "float32":
        assert np.all(np.abs(array) <= 1)


def test_the_seed_decides() -> None:
    line = "dtype=float, shape=shape[100]"
    assert np.array_equal(feed(line, 1), feed(line, 1))
    assert not np.array_equal(feed(line, 1), feed(line, 2))


def test_sound_and_pictures_for_decoders() -> None:
    sound = feed("dtype=string, shape=shape[]", more="d = DecodeWav(x) {desired_samples=800}").item()
    with wave.open(io.BytesIO(sound)) as file:
        assert (file.getnframes(), file.getnchannels(), file.getsampwidth(), file.getframerate()) == (
            800,
            1,
            2,
            16000,
        )
    assert feed("dtype=string, shape=shape[]", more="d = DecodeJpeg(x)").item().startswith(b"\x89PNG")
    assert feed("dtype=string, shape=shape[2]").tolist() == [b"text", b"text"]


def test_files_are_seeded_too() -> None:
    for make in (synthetic_wav, synthetic_png):
        assert make(np.random.default_rng(1)) == make(np.random.default_rng(1))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("dtype=resource", "no input can be made up for 'x' of type resource\nhint: pass feeds of your own"),
        ("dtype=float, shape=shape[1099511627776]", r"too large to make up for 'x'\nhint: .*--shape x="),
        ("dtype=float, shape=shape[" + "1," * 99 + "1]", "too large to make up"),
    ],
)
def test_what_cannot_be_made_up(line: str, words: str) -> None:
    with pytest.raises(FeedError, match=words):
        feed(line)


def test_a_negative_seed() -> None:
    with pytest.raises(ParameterError, match="the seed is -1\nhint: give a whole number"):
        feed("dtype=float, shape=shape[1]", -1)


def test_concrete_shape() -> None:
    assert concrete_shape(TensorSpec(FLOAT, (None, 3, None))) == (1, 3, 8)
    assert concrete_shape(TensorSpec(FLOAT)) == ()


def test_override_shapes() -> None:
    graph = parse_graph("x = Placeholder() {dtype=float, shape=shape[?,4]}\ninputs: x")
    (spec,) = override_shapes(graph.inputs, {"x:0": [2, 4]}).values()
    assert spec == TensorSpec(FLOAT, (2, 4))
    with pytest.raises(FeedError, match="'q' is not an input\nhint: the inputs are x"):
        override_shapes(graph.inputs, {"q": [1]})
