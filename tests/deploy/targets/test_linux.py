"""C++ programs: built and run; what they feed is what `evaluate` feeds, byte for byte."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.deploy.apps import fed_by_evaluate, picture_model, sound_model, write_pictures
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph
from thinflow.ir.types import FLOAT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("cmake") or not shutil.which("g++"), reason="needs cmake and g++"),
]


def program(made: thinflow.Deployment, *words: object) -> str:
    done = subprocess.run(
        [Path(made.path) / "build" / made.name, *map(str, words)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def unoptimized(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs are compiled faster: what they do, and not how fast, is looked at."""
    monkeypatch.setenv("CMAKE_BUILD_TYPE", "Debug")


def feeder(folder: Path) -> Path:
    """A program of the sources that prepare pictures alone: compiled in half the time, and without LiteRT."""
    main = folder / "feed.cpp"
    main.write_text(_FEED)
    sources = [main, *(folder / "src" / f"{name}.cpp" for name in ("preprocess", "picture"))]
    command = ["g++", "-std=c++17", "-O1", f"-I{folder / 'src'}", *sources, "-o", folder / "feed"]
    subprocess.run(list(map(str, command)), check=True)
    return folder / "feed"


_FEED = """
#include <fstream>

#include "preprocess.h"

int main(int, char** words) {
    std::ofstream file(words[2], std::ios::binary);
    for (const auto& one : preprocess(words[1])) {
        file.write(reinterpret_cast<const char*>(one.data()), static_cast<std::streamsize>(one.size()));
    }
}
"""


@pytest.mark.parametrize(
    ("scaling", "channels"),
    [
        (thinflow.Scaling(std=255.0, crop="center"), 1),
        (thinflow.Scaling(mean=127.5, std=127.5, bgr=True, resize=(30, 35)), 3),
    ],
    ids=["grey_part", "bgr"],
)
def test_it_prepares_what_evaluate_does(scaling: thinflow.Scaling, channels: int, tmp_path: Path) -> None:
    source = picture_model(tmp_path / "net.pb", channels)
    made = thinflow.deploy(source, tmp_path / "app", "linux", scaling=scaling)
    program = feeder(tmp_path / "app")
    pictures = write_pictures(tmp_path, ("ppm",))
    wanted = fed_by_evaluate(tmp_path / "app" / made.model, pictures, scaling)
    for picture, one in zip(pictures, wanted, strict=True):
        subprocess.run([program, picture, tmp_path / "fed.bin"], check=True)
        fed = np.fromfile(tmp_path / "fed.bin", np.float32).reshape(one.shape)
        np.testing.assert_array_equal(fed, one)


def test_it_feeds_what_evaluate_feeds(tmp_path: Path) -> None:
    scaling = thinflow.Scaling(mean=(1.5, 2.0, 3.0), std=(58.4, 57.1, 57.4), resize=40, crop="center")
    source = picture_model(tmp_path / "net.pb")
    made = thinflow.deploy(source, tmp_path / "app", "linux", scaling=scaling, labels=list("abcd"))
    assert "self-test passed" in made.test()
    cache = (tmp_path / "app" / "build" / "CMakeCache.txt").read_text()
    known = ["ppm", *(kind for kind, key in (("png", "PNG"), ("jpg", "JPEG")) if f"{key}_LIBRARY" in cache)]
    pictures = write_pictures(tmp_path, tuple(known))
    model = tmp_path / "app" / made.model
    session = thinflow.Session(model)
    for picture, wanted in zip(pictures, fed_by_evaluate(model, pictures, scaling), strict=True):
        program(made, "--fed", picture, tmp_path / "fed.bin")
        fed = np.fromfile(tmp_path / "fed.bin", np.float32).reshape(wanted.shape)
        np.testing.assert_array_equal(fed, wanted)
        (scores,) = session.run(None, {"picture": wanted})
        best = "abcd"[int(scores.argmax())]
        assert program(made, picture).startswith(f"{picture}: {best} {scores.max():.3f}")


@pytest.mark.usefixtures("unoptimized")
def test_sounds_and_a_wrong_answer(tmp_path: Path) -> None:
    made = thinflow.deploy(sound_model(tmp_path / "net.pb"), tmp_path / "app", "raspberrypi")
    assert "self-test passed" in made.test()
    sample = tmp_path / "app" / "assets" / "selftest" / "sample.wav"
    assert program(made, sample).startswith(f"{sample}: ")
    stored = tmp_path / "app" / "assets" / "selftest" / "output_0.bin"
    stored.write_bytes(bytes(12))
    with pytest.raises(thinflow.VerificationError, match=r"self-test failed: number 0 of scores is "):
        made.test()
    assert "systemd/net.service" in made.files


@pytest.mark.usefixtures("unoptimized")
def test_numbers(tmp_path: Path) -> None:
    graph = Graph()
    x = graph.add("Placeholder", name="numbers", attrs={"dtype": FLOAT, "shape": ShapeAttr((1, 4))}).output()
    y = graph.add("Sqrt", [graph.add("Square", [x], "square").output()], "y").output()
    graph.inputs, graph.outputs = [x], [y]
    made = thinflow.deploy(graph, tmp_path / "net", "linux")
    assert "self-test passed" in made.test()
    np.array([1, -2, 3, -4], np.float32).tofile(tmp_path / "numbers.bin")
    assert program(made, tmp_path / "numbers.bin").endswith(" 1 2 3 4\n")


def test_what_is_missing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = thinflow.deploy(picture_model(tmp_path / "net.pb"), tmp_path / "app", "linux")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(thinflow.EngineUnavailable, match="the self-test needs cmake"):
        made.test()
