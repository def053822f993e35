"""Samples to calibrate with and to judge on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.errors import FeedError, ParameterError
from thinflow.optimize.samples import SampleOptions, both_samples

GRAPH = parse_graph(
    "x = Placeholder() {dtype=float, shape=shape[?,2]}\ny = Relu(x) {T=float}\ninputs: x\noutputs: y"
)
ONES, TWOS = ({"x": np.full((3, 2), number, np.float32)} for number in (1, 2))


def test_without_a_test_set_the_same_samples_judge() -> None:
    data, tested = both_samples(GRAPH, SampleOptions(calibration=ONES, samples=2))
    assert data is tested
    assert [feed[GRAPH.inputs[0]].tolist() for feed in data] == [[[1, 1]]] * 2


def test_a_test_set_judges() -> None:
    data, tested = both_samples(GRAPH, SampleOptions(test=TWOS))
    assert data.synthetic
    assert not tested.synthetic
    assert [feed[GRAPH.inputs[0]].tolist() for feed in tested] == [[[2, 2]]] * 3


def test_labels_are_read_before_samples(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="the labels cannot be read"):
        both_samples(GRAPH, SampleOptions(calibration=tmp_path / "nowhere", labels=tmp_path / "none.txt"))
    with pytest.raises(FeedError, match="nowhere"):
        both_samples(GRAPH, SampleOptions(calibration=tmp_path / "nowhere"))


TRAINING = """
    x = Placeholder() {dtype=float, shape=shape[?,4,4,2]}
    ones = Const() {value=float[2]{1,1}}
    none = Const() {value=float[0]{}}
    y = FusedBatchNormV3(x, ones, ones, none, none) {T=float, U=float, is_training=true, epsilon=0.001}
    inputs: x
    outputs: y
"""


def test_the_command_to_try_next_names_the_samples_that_were_given(tmp_path: Path) -> None:
    np.savez(tmp_path / "some.npz", x=np.random.default_rng(0).normal(size=(4, 4, 4, 2)).astype(np.float32))
    report = thinflow.optimize(
        parse_graph(TRAINING), tmp_path / "out", calibration=tmp_path / "some.npz", measure=False
    )
    (step,) = [s for s in report.next_steps if "freeze_batch_norms" in s]
    assert f"-t freeze_batch_norms --calibration {tmp_path / 'some.npz'} --shape x=1,4,4,2" in step
    made_up = thinflow.optimize(parse_graph(TRAINING), tmp_path / "out", measure=False)
    assert any("freeze_batch_norms --calibration FOLDER_OF_SAMPLES" in s for s in made_up.next_steps)
