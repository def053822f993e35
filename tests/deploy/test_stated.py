"""What flags say of a model stands in the metadata of the file that ships, and is read back."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.deploy.app_models import detector, numbers, sound
from tests.deploy.apps import picture_model, sound_model
from tests.tflite import classifiers
from thinflow.ir.usage import VALUES
from thinflow.optimize.stated_usage import usage_of


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return picture_model(tmp_path_factory.mktemp("models") / "net.pb")


def shipped(made: thinflow.Deployment) -> Path:
    return Path(made.path, made.model)


def test_labels_and_scaling_are_read_back(model: Path, tmp_path: Path) -> None:
    scaling = thinflow.Scaling(mean=127.5, std=(58.0, 57.0, 59.0))
    made = thinflow.deploy(model, tmp_path / "app", "linux", labels=list("abcd"), scaling=scaling)
    usage = usage_of(shipped(made))
    (fed,), (scores,) = usage.inputs.values(), usage.outputs.values()
    # One number where all channels have the same, which is all that MediaPipe takes.
    assert (fed.kind, fed.colours, fed.mean, fed.std) == ("image", "RGB", (127.5,), (58.0, 57.0, 59.0))
    assert scores.labels is not None
    assert scores.labels.words == tuple("abcd")
    assert [note for note in made.notes if "metadata" in note]
    # Who deploys that file needs to say nothing any more.
    again = thinflow.deploy(shipped(made), tmp_path / "again", "linux")
    assert again.contract["labels"] == list("abcd")
    assert again.contract["inputs"][0]["picture"] == made.contract["inputs"][0]["picture"]  # type: ignore[index]
    assert shipped(again).read_bytes() == shipped(made).read_bytes()


def test_what_nobody_said_is_not_stated(model: Path, tmp_path: Path) -> None:
    made = thinflow.deploy(model, tmp_path / "app", "linux")
    assert not usage_of(shipped(made)).inputs
    blue_first = thinflow.Scaling(mean=127.5, std=58.0, bgr=True)
    made = thinflow.deploy(model, tmp_path / "blue", "linux", scaling=blue_first)
    assert not usage_of(shipped(made)).inputs
    held = tmp_path / "net.tflite"
    held.write_bytes(numbers())
    made = thinflow.deploy(held, tmp_path / "numbers", "linux", labels=["a", "b"])
    assert shipped(made).read_bytes() == held.read_bytes()


def test_a_file_with_metadata_keeps_the_rest_and_its_answers(tmp_path: Path) -> None:
    held = tmp_path / "net.tflite"
    entry = {
        **classifiers.USUAL_OUTPUT,
        6: [classifiers.listed("labels.txt"), classifiers.listed("notes.txt", 1)],
    }
    content = classifiers.metadata([classifiers.USUAL_INPUT], [entry], slot0="Colours")
    held.write_bytes(
        classifiers.tflite(content, {**classifiers.USUAL_FILES, "notes.txt": b"mine"})  # type: ignore[arg-type]
    )
    made = thinflow.deploy(held, tmp_path / "app", "linux", labels=["rot", "gr\u00fcn", "blau"])
    usage = usage_of(shipped(made))
    (fed,), (scores,) = usage.inputs.values(), usage.outputs.values()
    assert (fed.mean, fed.std, fed.description) == ((127.5,), (127.5,), "A picture")
    assert scores.labels is not None
    assert scores.labels.words == ("rot", "gr\u00fcn", "blau")
    with zipfile.ZipFile(io.BytesIO(shipped(made).read_bytes())) as archive:
        assert archive.read("notes.txt") == b"mine"
    x = np.random.default_rng(0).normal(size=(1, 4, 4, 3)).astype(np.float32)
    answers = [thinflow.Session(file).run(None, {"picture": x})[0] for file in (held, shipped(made))]
    np.testing.assert_array_equal(*answers)


def test_boxes_and_sounds(tmp_path: Path) -> None:
    held = tmp_path / "net.tflite"
    held.write_bytes(detector())
    made = thinflow.deploy(held, tmp_path / "boxes", "linux", labels=["fox", "hare"])
    labels = [one.labels for one in usage_of(shipped(made)).outputs.values() if one.labels is not None]
    assert [(one.words, one.of) for one in labels] == [(("fox", "hare"), VALUES)]
    source = sound_model(tmp_path / "net.pb", 1600)
    made = thinflow.deploy(source, tmp_path / "sound", "linux", labels=list("xyz"), sample_rate=8000)
    usage = usage_of(shipped(made))
    assert [one.sample_rate for one in usage.inputs.values() if one.kind == "audio"] == [8000]
    held.write_bytes(sound())
    made = thinflow.deploy(held, tmp_path / "stated", "linux", labels=["even", "odd"])
    assert shipped(made).read_bytes() == held.read_bytes()
