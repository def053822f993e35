"""A task library of others reads the metadata that is written: MediaPipe's, in the Python that the variable
THINFLOW_MEDIAPIPE names, or in this one.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.tflite import classifiers
from thinflow.ir.usage import AUDIO, IMAGE, RGB, InputUsage, OutputUsage, Usage, Words
from thinflow.tflite.described import described
from thinflow.tflite.model import Operator, Program, Subgraph, Tensor
from thinflow.tflite.writer import to_bytes
from thinflow.typing import Array

_CLASSIFY = """
import json, sys
import numpy as np
import mediapipe as mp
from mediapipe.tasks import python as tasks
from mediapipe.tasks.python import vision
options = vision.ImageClassifierOptions(base_options=tasks.BaseOptions(model_asset_path=sys.argv[1]))
with vision.ImageClassifier.create_from_options(options) as classifier:
    picture = mp.Image(image_format=mp.ImageFormat.SRGB, data=np.load(sys.argv[2]))
    (found,) = classifier.classify(picture).classifications
    print(json.dumps({one.category_name: one.score for one in found.categories}))
"""


def asked(script: str, *args: object) -> Any:
    """What MediaPipe says; the test is skipped where there is none."""
    python = os.environ.get("THINFLOW_MEDIAPIPE") or sys.executable
    if python == sys.executable and importlib.util.find_spec("mediapipe") is None:
        pytest.skip("there is no mediapipe; THINFLOW_MEDIAPIPE names a Python that has it")
    done = subprocess.run(
        [python, "-c", script, *map(str, args)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_pictures_are_scaled_and_classes_named(tmp_path: Path) -> None:
    # It takes one mean and one deviation for all channels alone.
    scaled = InputUsage(IMAGE, RGB, mean=(100.0,), std=(50.0,), said="flags")
    labels = OutputUsage(Words("names.txt", ("red", "green", "blue")), said="flags")
    program = described(classifiers.program(), Usage({"picture": scaled}, {"scores": labels}))
    path = tmp_path / "model.tflite"
    path.write_bytes(to_bytes(program))
    picture: Array = np.random.default_rng(0).integers(0, 256, (4, 4, 3), np.uint8)
    np.save(tmp_path / "picture.npy", picture)
    fed = (picture.astype(np.float32) - scaled.mean) / scaled.std
    (expected,) = thinflow.Session(path).run(None, {"picture": fed[None].astype(np.float32)})
    found = asked(_CLASSIFY, path, tmp_path / "picture.npy")
    assert list(found) == [labels.labels.words[n] for n in np.argsort(-expected[0])]  # type: ignore[union-attr]
    np.testing.assert_allclose([found[n] for n in ("red", "green", "blue")], expected[0], rtol=1e-5)


_LISTEN = """
import json, sys
import numpy as np
from mediapipe.tasks import python as tasks
from mediapipe.tasks.python import audio
from mediapipe.tasks.python.components import containers
options = audio.AudioClassifierOptions(base_options=tasks.BaseOptions(model_asset_path=sys.argv[1]))
with audio.AudioClassifier.create_from_options(options) as classifier:
    sound = containers.AudioData.create_from_array(np.load(sys.argv[2]), 8000)
    (found,) = classifier.classify(sound)[0].classifications
    print(json.dumps({one.category_name: one.score for one in found.categories}))
"""


def test_sound_has_a_rate_and_classes(tmp_path: Path) -> None:
    from thinflow.ir.types import FLOAT, INT32

    x, y = Tensor("sound", (1, 64), FLOAT), Tensor("scores", (1, 2), FLOAT)
    folded, shape = Tensor("folded", (1, 32, 2), FLOAT), Tensor("shape", (3,), INT32, np.int32([1, 32, 2]))
    axis = Tensor("axis", (1,), INT32, np.int32([1]))
    steps = [
        Operator("RESHAPE", [x, shape], [folded]),
        Operator("MEAN", [folded, axis], [y], {"keep_dims": False}),
    ]
    usage = Usage(
        {"sound": InputUsage(AUDIO, sample_rate=8000)},
        {"scores": OutputUsage(Words("w.txt", ("even", "odd")))},
    )
    path = tmp_path / "model.tflite"
    path.write_bytes(to_bytes(described(Program([Subgraph([x], [y], steps)]), usage)))
    samples = np.random.default_rng(1).uniform(-1, 1, 64).astype(np.float32)
    np.save(tmp_path / "sound.npy", samples)
    found = asked(_LISTEN, path, tmp_path / "sound.npy")
    expected = samples.reshape(32, 2).mean(0)
    np.testing.assert_allclose([found["even"], found["odd"]], expected, rtol=1e-4, atol=1e-6)
