"""Web pages: built by npm, and run in a Chromium without a window; answers beside LiteRT's in Python."""

from __future__ import annotations

import functools
import http.server
import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.browser import chromium, launched
from tests.deploy.app_models import detector
from tests.tflite import classifiers
from thinflow import zoo
from thinflow.deploy.sample import png_bytes
from thinflow.errors import ThinflowError, UnsupportedOp
from thinflow.ir.types import FLOAT, INT8
from thinflow.quantize.sample_files import sample_of
from thinflow.tflite.writer import to_bytes
from thinflow.zoo import digits

# The digits have levels of 0 to 16.
LEVEL = 255 / 16
SCALING = thinflow.Scaling(mean=0.0, std=LEVEL)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> thinflow.Deployment:
    """A page of the digits model, as it is before npm has seen it."""
    folder = tmp_path_factory.mktemp("web")
    thinflow.save(digits.build(0), folder / "digits.pb")
    return thinflow.deploy(folder / "digits.pb", folder / "app", "web", scaling=SCALING)


@pytest.fixture(scope="module")
def built(made: thinflow.Deployment) -> Path:
    """The folder with what npm installs, and what it builds."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    folder = Path(made.path)
    install = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock"]
    done = subprocess.run(install, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        pytest.skip(f"npm cannot install: {done.stderr.strip().splitlines()[-1:]}")
    subprocess.run(["npm", "run", "build"], cwd=folder, check=True, capture_output=True, timeout=120)
    return folder


def test_the_batch_is_one_and_nothing_stays_unfilled(made: thinflow.Deployment) -> None:
    session = thinflow.Session(Path(made.path) / made.model)
    assert session.spec("image").shape == (1, 8, 8, 1)
    texts = [Path(made.path, file) for file in made.files if file.endswith((".js", ".mjs", ".md", ".html"))]
    assert len(texts) > 8
    assert not [file for file in texts if "%{" in file.read_text()]
    assert json.loads(Path(made.path, "package.json").read_text())["dependencies"] == {
        "@litertjs/core": "2.5.3"
    }


def test_types_that_litertjs_cannot_hand_over_are_refused(tmp_path: Path) -> None:
    (tmp_path / "codes.tflite").write_bytes(to_bytes(classifiers.program(INT8, (0.5, 3))))
    with pytest.raises(UnsupportedOp, match=r"'picture' is int8, and LiteRT\.js .* int32, uint8 alone") as e:
        thinflow.deploy(tmp_path / "codes.tflite", tmp_path / "app", "web")
    assert "floats" in e.value.hint
    assert not (tmp_path / "app").exists()


_PREPARE = """
import {readFileSync} from 'node:fs';
import {fitted, scaled} from './src/picture.js';
const told = JSON.parse(readFileSync(process.argv[1]));
const results = told.map(({picture, input}) => {
  const data = Uint8Array.from(picture.data);
  return Array.from(scaled(fitted({...picture, data}, input.picture), input, (n) => new Float32Array(n)));
});
console.log(JSON.stringify(results));
"""

_SHAPES = ((9, 31), (40, 24), (16, 12), (16, 50), (9, 12), (100, 77))


def test_pictures_are_prepared_as_pillow_does_it(made: thinflow.Deployment, tmp_path: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("Node.js is not installed")
    pytest.importorskip("PIL")
    rng = np.random.default_rng(5)
    scalings = [
        thinflow.Scaling(mean=(123.7, 116.3, 103.5), std=(58.4, 57.1, 57.4), bgr=True),
        thinflow.Scaling(mean=127.5, std=127.5, resize=20, crop="center"),
        thinflow.Scaling(resize=(21, 19), crop="center"),
        thinflow.Scaling(std=255.0, crop="center"),
        thinflow.Scaling(resize=(7, 30)),
    ]
    cases, expected = [], []
    spec = {"x": thinflow.TensorSpec(FLOAT, (1, 16, 12, 3))}
    for scaling in scalings:
        for height, width in _SHAPES:
            pixels = rng.integers(0, 256, (height, width, 3), np.uint8)
            try:
                wanted = sample_of(png_bytes(pixels), ".png", spec, scaling, "made")["x"]
            except ThinflowError:
                continue  # nothing of that size can be cut out of it
            sides = scaling.resize
            steps = {
                "height": 16,
                "width": 12,
                "channels": 3,
                "crop": scaling.crop,
                "store": "real",
                "order": "bgr" if scaling.bgr else "rgb",
                "resize": [] if sides is None else [sides] if isinstance(sides, int) else list(sides),
                "mean": np.atleast_1d(scaling.mean).tolist(),
                "std": np.atleast_1d(scaling.std).tolist(),
            }
            picture = {"width": width, "height": height, "channels": 3, "data": pixels.ravel().tolist()}
            cases.append({"picture": picture, "input": {"picture": steps, "dtype": "float32"}})
            # Where one side changes alone, there is one way to do it; else the order of the two is Pillow's.
            is_one_way = not sides and not scaling.crop and (height == 16 or width == 12)
            level = 0 if is_one_way else 1.001 / np.min(steps["std"])
            expected.append((wanted.ravel(), level))
    assert len(cases) > 12
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    command = ["node", "--input-type=module", "-e", _PREPARE, str(tmp_path / "cases.json")]
    done = subprocess.run(command, cwd=made.path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    same = []
    for found, (wanted, level) in zip(json.loads(done.stdout), expected, strict=True):
        distance = np.abs(np.float32(found) - wanted)
        assert distance.max() <= level
        same.append(np.mean(distance == 0))
    assert sum(share == 1 for share in same) > len(same) / 2
    assert min(same) > 0.6


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a folder."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


def test_the_page_answers_as_litert_does(built: Path, tmp_path: Path) -> None:
    images, labels = (zoo.test_set("digits")[key][:3] for key in ("image", "labels"))
    session = thinflow.Session(built / "public" / "model.tflite")
    with served(built / "dist") as address, launched() as browser:
        page = browser.new_page()
        errors: list[str] = []
        page.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda e: errors.append(str(e)))
        page.goto(address)
        page.locator("#state.ready").wait_for()
        for n, image in enumerate(images):
            pixels = np.round(LEVEL * np.asarray(image).reshape(8, 8, 1)).astype(np.uint8)
            (tmp_path / f"{n}.png").write_bytes(png_bytes(pixels))
            page.set_input_files("#file", str(tmp_path / f"{n}.png"))
            page.wait_for_function("() => document.querySelectorAll('#input img').length")
            page.locator("#state.done").wait_for()
            (scores,) = session.run(None, {"image": pixels[None].astype(np.float32) / np.float32(LEVEL)})
            best = int(scores.argmax())
            page.wait_for_function(
                "text => document.title.startsWith(text)", arg=f"{best} {scores.max():.3f}"
            )
            assert page.locator("#answer tr").count() == 5
            assert best == int(labels[n])
        page.click("#selftest")
        page.wait_for_function("document.getElementById('test').textContent.includes('answer:')")
        assert page.locator("#state").inner_text() == "self-test passed"
        assert not errors


def test_its_self_test_passes_and_sees_a_wrong_answer(built: Path, made: thinflow.Deployment) -> None:
    if chromium() is None:
        pytest.skip("no Chromium is installed (Debian: apt-get install chromium)")
    assert "self-test passed" in made.test()
    file = built / "public" / "selftest" / "output_0.bin"
    held = file.read_bytes()
    file.write_bytes((np.frombuffer(held, np.float32) + np.float32(0.01)).tobytes())
    try:
        with pytest.raises(ThinflowError, match=r"FAILED: output probabilities differs by 0\.010"):
            made.test()
    finally:
        file.write_bytes(held)


def test_boxes_are_shown(built: Path, tmp_path: Path) -> None:
    if chromium() is None:
        pytest.skip("no Chromium is installed (Debian: apt-get install chromium)")
    (tmp_path / "boxes.tflite").write_bytes(detector())
    made = thinflow.deploy(tmp_path / "boxes.tflite", tmp_path / "app", "web")
    # What npm installed for the other page is what it would install here.
    (tmp_path / "app" / "node_modules").symlink_to(built / "node_modules")
    told = made.test()
    assert "self-test passed" in told
    best = made.answer.split()[0]
    assert best in ("cat", "dog")
    assert f"answer: {best}, " in told
