"""Trained models on every engine, beside the answers that TensorFlow gave for the same inputs."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from thinflow.engines import find
from thinflow.engines.session import Session
from thinflow.formats import graphdef
from thinflow.ir.graph import Graph
from thinflow.optimize.float_graph import float_graph

Array = np.ndarray[Any, Any]

ENGINES = [
    "reference",
    "litert",
    pytest.param(
        "onnxruntime",
        marks=pytest.mark.skipif(find_spec("onnxruntime") is None, reason="onnxruntime is not installed"),
    ),
]
KEYWORD_MODELS = ["kws_CNN_S", "kws_DNN_S", "kws_DS_CNN_S", "kws_Basic_LSTM_S"]
SOFTMAX_TOLERANCE = 1e-4
EVERY = 10
"""Of the clips, in quick tests."""


@pytest.fixture(scope="module")
def clips(shared: Path) -> list[Path]:
    return sorted((shared / "data" / "kws").glob("*.wav"))


@pytest.fixture(scope="module")
def answers(shared: Path) -> dict[str, Array]:
    with np.load(shared / "models" / "reference.npz") as stored:
        return {name: stored[name] for name in stored.files}


def load(shared: Path, name: str) -> Graph:
    assert find("litert").available() is None
    return graphdef.load(shared / "models" / f"{name}.pb")


def softmax(session: Session, clips: list[Path]) -> Array:
    """What the session says about each clip."""
    outputs = [session.run(["labels_softmax"], {"wav_data": clip.read_bytes()})[0][0] for clip in clips]
    return np.stack(outputs)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", KEYWORD_MODELS)
def test_keywords(name: str, engine: str, shared: Path, clips: list[Path], answers: dict[str, Array]) -> None:
    found = softmax(Session(load(shared, name), engine), clips[::EVERY])
    np.testing.assert_allclose(found, answers[f"{name}/softmax"][::EVERY], atol=SOFTMAX_TOLERANCE)
    assert found.argmax(1).tolist() == answers[f"{name}/predictions"][::EVERY].tolist()


@pytest.mark.slow
@pytest.mark.parametrize("name", KEYWORD_MODELS)
def test_all_clips_after_the_float_pipeline(
    name: str, shared: Path, clips: list[Path], answers: dict[str, Array]
) -> None:
    """Optimised, on LiteRT: the very predictions of the original model, so the very accuracy."""
    graph = load(shared, name)
    graph.inputs, graph.outputs = [graph.value("wav_data")], [graph.value("labels_softmax")]
    optimised = float_graph(graph, verify=False).graph
    found = softmax(Session(optimised, "litert"), clips)
    same = found.argmax(1) == answers[f"{name}/predictions"]
    error = np.abs(found - answers[f"{name}/softmax"]).max()
    print(f"\n{name}: {same.sum()} of {len(same)} predictions equal, largest error {error:.2g}")
    assert same.all()
    assert error <= SOFTMAX_TOLERANCE


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("name", "given", "output", "tolerance"),
    [
        ("autoencoder", {"X": "X"}, "output", 1e-5),
        ("unrolled_gru", {"X": "X", "keep_prob": 1.0}, "output", 1e-5),
        pytest.param(
            # 39 norms over the numbers of the batch, whose small variances enlarge any difference of rounding
            "pose_v2s",
            {"image": "input"},
            "Openpose/concat_stage7",
            1e-3,
            marks=pytest.mark.slow,
        ),
    ],
)
def test_other_models(
    name: str,
    given: dict[str, Any],
    output: str,
    tolerance: float,
    engine: str,
    shared: Path,
    answers: dict[str, Array],
) -> None:
    feeds = {k: answers[f"{name}/{v}"] if isinstance(v, str) else np.float32(v) for k, v in given.items()}
    session = Session(load(shared, name), engine)
    (found,) = session.run([output], feeds)
    expected = answers[f"{name}/output"]
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    print(f"\n{name} on {engine}: largest error {np.abs(found - expected).max():.2g}")
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
    if engine != "reference":
        assert set(session.placement.values()) == {engine}
