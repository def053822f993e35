"""Samples to calibrate with and to judge on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow import zoo
from thinflow.api.optimizing import quantize_to_file
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


def test_samples_with_nan_are_left_out_with_their_labels(tmp_path: Path) -> None:
    x = np.arange(40, dtype=np.float32).reshape(20, 2)
    x[7, 1] = np.nan
    np.savez(tmp_path / "some.npz", x=x, labels=np.arange(20))
    data, _ = both_samples(GRAPH, SampleOptions(calibration=tmp_path / "some.npz"))
    assert (data.count, data.labels) == (19, [n for n in range(20) if n != 7])
    assert [feed[GRAPH.inputs[0]][0, 0] for feed in data] == [2 * n for n in range(20) if n != 7]
    assert data.doubts == ["sample 7 (input 'x') holds NaN or infinity and was left out"]
    assert data.place(7) == "sample 8"


def test_files_with_infinity_are_told_by_name(tmp_path: Path) -> None:
    for number in range(12):
        kind = tmp_path / f"class{number % 2}"
        kind.mkdir(exist_ok=True)
        np.save(kind / f"{number // 2}.npy", np.full((1, 2), np.inf if number == 5 else 1.0, np.float32))
    _, tested = both_samples(GRAPH, SampleOptions(calibration=ONES, test=tmp_path))
    assert tested.count == 11
    report = thinflow.optimize(
        GRAPH.clone(), tmp_path / "out", calibration=ONES, test=tmp_path, measure=False
    )
    told = "test samples: class1/2.npy (input 'x') holds NaN or infinity and was left out"
    assert told in report.warnings


def test_too_many_samples_with_nan_are_refused() -> None:
    x = np.ones((10, 2), np.float32)
    x[3:5] = np.nan
    problem = "2 of 10 samples hold NaN or infinity; the first is sample 3, in input 'x'"
    with pytest.raises(FeedError, match=problem):
        both_samples(GRAPH, SampleOptions(calibration={"x": x}))


@pytest.mark.parametrize("suffix", ["tflite", "onnx"])
def test_one_sample_with_nan_costs_nothing(tmp_path: Path, suffix: str) -> None:
    given, test = zoo.calibration("digits", 40), zoo.test_set("digits")
    (name,) = [key for key in given if key != "labels"]
    odd = {key: array.copy() for key, array in given.items()}
    odd[name][3].flat[0] = np.nan
    graph = zoo.build("digits")
    without = {key: np.delete(array, 3, axis=0) for key, array in given.items()}
    qualities = [
        quantize_to_file(graph, tmp_path / f"model.{suffix}", samples, test=test)
        for samples in (without, odd)
    ]
    left_out, passed_over = (q["sqnr_db"] for q in qualities)
    assert passed_over == pytest.approx(left_out, abs=0.01)
    assert any("sample 3 (input" in w for w in qualities[1]["warnings"])


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


PICTURE = """
    x = Placeholder() {dtype=float, shape=shape[?,?,3]}
    zero = Const() {dtype=int32, value=int32[]{0}}
    e = ExpandDims(x, zero) {T=float, Tdim=int32}
    w = Const() {value=float[3,3,3,8]{normal 7}}
    c = Conv2D(e, w) {T=float, data_format="NHWC", padding="SAME", strides=[1,1,1,1]}
    axes = Const() {dtype=int32, value=int32[2]{1,2}}
    y = Mean(c, axes) {T=float, Tidx=int32, keep_dims=false}
    inputs: x
    outputs: y
"""


def test_a_picture_without_a_batch_may_have_any_size(tmp_path: Path) -> None:
    """Its rows are no samples."""
    graph = parse_graph(PICTURE)
    pictures = np.random.default_rng(0).normal(size=(12, 9, 7, 3)).astype(np.float32)
    (first, *_) = both_samples(graph, SampleOptions(calibration={"x": pictures}))[0]
    assert first[graph.inputs[0]].shape == (9, 7, 3)
    made = quantize_to_file(graph, tmp_path / "m.tflite", {"x": pictures}, effort="none")
    assert made["sqnr_db"] > 20


def test_rows_of_three_numbers_get_a_batch() -> None:
    graph = parse_graph(
        "x = Placeholder() {dtype=float, shape=shape[?,?,3]}\ny = Relu(x) {T=float}\ninputs: x\noutputs: y"
    )
    (first, *_) = both_samples(graph, SampleOptions(calibration={"x": np.ones((4, 5, 3), np.float32)}))[0]
    assert first[graph.inputs[0]].shape == (1, 5, 3)


def test_made_up_samples_say_which_sizes_they_have() -> None:
    """A speed of sizes that nobody named says nothing."""
    pictures = parse_graph(
        "x = Placeholder() {dtype=float, shape=shape[?,?,?,3]}\ny = Relu(x) {T=float}\ninputs: x\noutputs: y"
    )
    note = both_samples(pictures, SampleOptions(samples=2))[0].note
    assert note.startswith("2 made-up inputs of sizes that the graph leaves open, x [1, ")
    assert both_samples(GRAPH, SampleOptions(samples=2))[0].note.startswith("2 made-up inputs: ")
