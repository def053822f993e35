"""Python packages: what they feed is what `evaluate` feeds, and they install and answer by themselves."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.deploy.apps import fed_by_evaluate, picture_model, sound_model, write_pictures

SCALINGS = {
    "pressed": thinflow.Scaling(mean=127.5, std=127.5),
    "shorter_side": thinflow.Scaling(mean=(1.5, 2.0, 3.0), std=(58.4, 57.1, 57.4), resize=40, crop="center"),
    "both_sides": thinflow.Scaling(bgr=True, resize=(30, 35), crop="center"),
    "largest_part": thinflow.Scaling(std=255.0, crop="center"),
}


@pytest.mark.parametrize("name", SCALINGS)
@pytest.mark.parametrize("channels", [3, 1])
def test_it_feeds_what_evaluate_feeds(
    name: str, channels: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if channels == 1 and name == "shorter_side":
        pytest.skip("three means are of colours")
    scaling, package = SCALINGS[name], f"made_{name}_{channels}"
    source = picture_model(tmp_path / "net.pb", channels)
    made = thinflow.deploy(source, tmp_path / "app", "python", scaling=scaling, name=package)
    monkeypatch.syspath_prepend(tmp_path / "app" / "src")
    app = importlib.import_module(package)
    model = tmp_path / "app" / made.model
    pictures = write_pictures(tmp_path)
    session = thinflow.Session(model)
    for picture, wanted in zip(pictures, fed_by_evaluate(model, pictures, scaling), strict=True):
        (fed,) = app.preprocess(picture)
        assert fed.dtype == wanted.dtype
        np.testing.assert_array_equal(fed, wanted)
        (scores,) = session.run(None, {"picture": wanted})
        best, score = app.predict(picture)[0]
        assert (best, score) == (str(scores.argmax()), float(scores.max()))


def test_sounds_are_cut_and_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = thinflow.deploy(sound_model(tmp_path / "net.pb"), tmp_path / "app", "python", name="made_sound")
    assert [one["kind"] for one in made.contract["inputs"]] == ["sound", "rate"]  # type: ignore[index, attr-defined]
    monkeypatch.syspath_prepend(tmp_path / "app" / "src")
    app = importlib.import_module("made_sound")
    for count in (100, 4000, 5000):
        samples = np.random.default_rng(0).integers(-32768, 32767, count).astype(np.int16)
        fed, rate = app.preprocess(samples)
        wanted = np.zeros(4000, np.float32)
        wanted[: min(count, 4000)] = samples[:4000].astype(np.float32) / 32768
        np.testing.assert_array_equal(fed, wanted.reshape(4000, 1))
        assert (rate.shape, int(rate)) == ((), 16000)
    assert "self-test passed" in made.test()


def test_a_file_that_is_no_sample_is_told_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    thinflow.deploy(sound_model(tmp_path / "net.pb"), tmp_path / "app", "python", name="made_lines")
    monkeypatch.syspath_prepend(tmp_path / "app" / "src")
    (tmp_path / "text.wav").write_text("no sound")
    command = importlib.import_module("made_lines.__main__")
    sample = next((tmp_path / "app").rglob("sample.wav"))
    files = [tmp_path / "gone.wav", tmp_path / "text.wav", sample]
    monkeypatch.setattr(sys, "argv", ["made_lines", *map(str, files)])
    assert command.main() == 1
    told = capsys.readouterr()
    assert told.err.splitlines() == [
        f"{files[0]}: error: No such file or directory",
        f"{files[1]}: error: file does not start with RIFF id",
    ]
    assert told.out.startswith(f"{sample}: ")


def test_eight_bit_pictures_are_put_on_the_grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = picture_model(tmp_path / "net.pb")
    samples = [
        {"picture": np.random.default_rng(n).uniform(-1, 1, (1, 24, 32, 3)).astype(np.float32)}
        for n in range(8)
    ]
    thinflow.quantize(source, calibration=samples, recipe=thinflow.Recipe(input_type="int8")).save(
        tmp_path / "net.tflite"
    )
    scaling = thinflow.Scaling(mean=127.5, std=127.5)
    made = thinflow.deploy(
        tmp_path / "net.tflite", tmp_path / "app", "python", scaling=scaling, name="made_int8"
    )
    (one,) = made.contract["inputs"]  # type: ignore[misc, attr-defined]
    assert (one["dtype"], one["picture"]["store"]) == ("int8", "quantized")
    monkeypatch.syspath_prepend(tmp_path / "app" / "src")
    app = importlib.import_module("made_int8")
    pixels = np.arange(256 * 9, dtype=np.uint8).reshape(24, 32, 3)
    (fed,) = app.preprocess(pixels)
    reals = (fed.astype(np.float64) - one["zero_point"]) * one["scale"]
    np.testing.assert_allclose(reals[0], pixels / 127.5 - 1, atol=0.51 * one["scale"])
    assert "self-test passed" in made.test()


@pytest.mark.slow
def test_it_installs(tmp_path: Path) -> None:
    setuptools = pytest.importorskip("setuptools", reason="builds the package")
    if int(setuptools.__version__.split(".")[0]) < 71:
        pytest.importorskip("wheel", reason="older setuptools build with it")
    made = thinflow.deploy(
        picture_model(tmp_path / "net.pb"), tmp_path / "app", "python", labels=list("abcd")
    )
    place = tmp_path / "site"
    words = ["install", "--quiet", "--no-deps", "--no-build-isolation", "--target", str(place), "."]
    subprocess.run([sys.executable, "-m", "pip", *words], cwd=made.path, check=True, capture_output=True)
    (picture,) = write_pictures(tmp_path)[:1]
    told = subprocess.run(
        [sys.executable, "-m", "net", str(picture)],
        env={"PYTHONPATH": str(place)},
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    ).stdout
    assert told.startswith(f"{picture}: ")
    assert {word for word in told.split(": ")[1].split() if word.isalpha()} == set("abcd")
