"""The same networks with channels first from .onnx and with channels last from a GraphDef: the same
operators, but for one transpose, and the same answers.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import thinflow
from benchmarks import channels_first
from benchmarks.budgets.channels_first import operators
from benchmarks.channels_first import SHUFFLES, write_graphdef, write_onnx

pytest.importorskip("onnx")
SMALL = ("ShuffleNet v2", "squeeze and excite", "flattened pictures")
LAST = (0, 2, 3, 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_both_roads_lead_to_the_same_model(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channels_first, "PICTURE", (3, 64, 64))
    write_onnx(name, tmp_path / "first.onnx")
    write_graphdef(name, tmp_path / "last.pb")
    first, last, moved = (tmp_path / f"{kind}.tflite" for kind in ("first", "last", "moved"))
    thinflow.convert(tmp_path / "first.onnx", first, verify=False)
    thinflow.convert(tmp_path / "last.pb", last, verify=False)
    thinflow.convert(tmp_path / "first.onnx", moved, verify=False, input_layout="nhwc")

    ours, theirs = operators(first), operators(last)
    assert ours["TRANSPOSE"] == 1 + SHUFFLES.get(name, 0)
    assert theirs["TRANSPOSE"] == operators(moved)["TRANSPOSE"] == SHUFFLES.get(name, 0)
    assert _without_constants(ours - theirs) <= {"TRANSPOSE", "SPLIT_V", "PAD"}

    x = np.random.default_rng(0).standard_normal((1, 3, 64, 64)).astype(np.float32)
    answers = [
        np.asarray(thinflow.Session(path).run(None, {"x": feed})[0])
        for path, feed in ((first, x), (last, x.transpose(LAST)), (moved, x.transpose(LAST)))
    ]
    scale = float(np.abs(answers[1]).max())
    for answer in (answers[0], answers[2]):
        np.testing.assert_allclose(answer.reshape(-1), answers[1].reshape(-1), atol=1e-5 * scale)


def test_one_network_from_three_files(shared: Path, tmp_path: Path) -> None:
    """Spotify's basic-pitch is published as a SavedModel, and as what tf2onnx and TensorFlow made of it."""
    counts = []
    for name in ("nmp", "nmp.onnx", "nmp.tflite"):
        # The graph, not the path: a file of the wanted format would be copied.
        graph = thinflow.load(shared / "zoo" / "basic_pitch" / name)
        thinflow.convert(graph, tmp_path / "m.tflite", verify=False)
        found = operators(tmp_path / "m.tflite")
        counts.append({code: found[code] for code in _without_constants(found)})
    assert counts[0] == counts[1] == counts[2]
    assert "TRANSPOSE" not in counts[0]


def _without_constants(counts: Counter[str]) -> set[str]:
    return {code for code, count in counts.items() if count and code[0].isupper() and code.isupper()}
