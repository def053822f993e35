"""What freezing batch norms does, as it is judged and told."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.api import measure_batch_norms
from thinflow.cli import main
from thinflow.ir.graph import Graph
from thinflow.optimize.frozen_norms import FrozenQuality, _Peaks


def net() -> Graph:
    return parse_graph(
        "x = Placeholder() {dtype=float, shape=shape[1,6,6,3]}\n"
        "s = Const() {dtype=float, value=float[3]{1,2,3}}\n"
        "e = Const() {dtype=float, value=float[0]{}}\n"
        "y = FusedBatchNormV3(x, s, s, e, e) {T=float, U=float, is_training=true, epsilon=0.001}\n"
        "z = Relu(y) {T=float}\ninputs: x\noutputs: z\n"
    )


def samples(count: int, spread: float) -> np.ndarray:
    rng = np.random.default_rng(0)
    scale = np.exp(spread * rng.standard_normal((count, 1, 1, 1, 3)))
    found: np.ndarray = (scale * rng.standard_normal((count, 1, 6, 6, 3))).astype(np.float32)
    return found


def test_samples_of_one_kind_keep_the_function(tmp_path: Path) -> None:
    same = np.concatenate([samples(1, 0)] * 12)
    found = measure_batch_norms(net(), {"x": same}, tmp_path / "n.npz")
    assert (found.norms, found.samples, found.held_out) == (1, 3, True)
    assert found.is_alike
    assert found.cosine > 0.9999
    assert found.same == found.high == found.peaks > 0
    assert "on 3 samples that made no statistics, cosine 1.0000" in found.sentence()


def test_samples_of_very_unlike_sizes_do_not(tmp_path: Path) -> None:
    found = measure_batch_norms(net(), {"x": samples(16, 1.5)}, tmp_path / "n.npz")
    assert not found.is_alike
    assert found.cosine < 0.99
    assert "it is another function now" in found.sentence()


def test_a_few_samples_judge_themselves(tmp_path: Path) -> None:
    found = measure_batch_norms(net(), {"x": samples(3, 1.5)}, tmp_path / "n.npz")
    assert (found.samples, found.held_out) == (3, False)
    assert "too few to hold some out" in found.sentence()


def test_the_command_warns_of_another_function(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    thinflow.save(net(), tmp_path / "m.pb")
    unlike = samples(16, 1.5)[:, 0]
    for array, warned in ((unlike[:1].repeat(16, axis=0), False), (unlike, True)):
        np.savez(tmp_path / "c.npz", x=array)
        files = [str(tmp_path / "m.pb"), str(tmp_path / "f.pb")]
        given = ["--calibration", str(tmp_path / "c.npz")]
        assert main(["transform", *files, "-t", "freeze_batch_norms", *given]) == 0
        told = capsys.readouterr().out
        assert "on 4 samples that made no statistics, cosine" in told
        assert ("warning: on 4 samples" in told) is warned


def test_peaks_are_where_the_original_is_high() -> None:
    old, new = np.zeros((1, 4, 4, 4), np.float32), np.zeros((1, 4, 4, 4), np.float32)
    for array, tops in (
        (old, [(1, 1, 1.0), (2, 2, 0.9), (0, 0, 1.0)]),
        (new, [(1, 1, 0.7), (2, 3, 1.0), (3, 0, 1.0)]),
    ):
        for channel, (i, j, top) in enumerate(tops):
            array[0, i, j, channel] = top
    old[0, 2, 3, 1] = 0.85
    old[0, 1, 2, 3] = 0.4  # no peak
    peaks = _Peaks()
    peaks.add(old, new)
    assert (peaks.count, peaks.same, peaks.high) == (3, 1, 2)
    peaks.add(np.float32([[0, 2, 1]]), np.float32([[0, 1, 2]]))
    assert (peaks.count, peaks.same, peaks.high) == (4, 1, 2)


def test_nothing_compared_says_nothing() -> None:
    assert FrozenQuality(0).sentence() == ""
    assert math.isnan(FrozenQuality(0).cosine)
