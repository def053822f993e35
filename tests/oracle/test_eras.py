"""The yardstick `scripts/eras.py`: nothing wrong, nothing that crashes or does not load, many whole files.

Every verb drives a few models of each family. Of the others every 24th is only converted; all are with
THINFLOW_ALL_NETWORKS=1, which is what the floors count. `python -m scripts.eras` drives every verb over all.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import pytest

from scripts import eras
from scripts.eras_models import all_models
from tests.night import ALL_NETWORKS

pytest.importorskip("tf_keras")
pytest.importorskip("tf_slim")
pytest.importorskip("onnxruntime")

SUBSET = [
    "k3_lstm",
    "k2_gru",
    "k3_lstm_bidirectional",
    "k2_lstm_masked",
    "k2_lstm_stateful",
    "k3_gru_open_time",
    "k3_attention",
    "k2_encoder",
    "k2_decoder_causal",
    "k3_bert",
    "k2_layer_norm_rank4",
    "tf2_gelus",
    "fz2_encoder_module",
    "k3_resnet",
    "k2_mobilenet_block",
    "k3_convnext",
    "k2_unet",
    "k3_conv1d",
    "k3_conv3d",
    "k3_preprocessing",
    "k3_float64",
    "k2_mixed_float16",
    "k3_several_heads",
    "k3_text_vectorization",
    "k2_string_lookup",
    "tf1_parse_example_dense_saved_model",
    "tf2_parse_example",
    "tf1_feature_columns",
    "slim_mobilenet_v1_checkpoint",
    "slim_training_switch",
    "slim_unfused_norms",
    "tf1_cnn_saved_model",
    "tf1_fused_norms_checkpoint",
    "tf1_deeplab",
    "tf1_espcn",
    "tf1_hand_written_loop",
    "tf1_map_fn",
    "tf1_branches",
    "tf1_partitioned_embedding",
    "tf1_embedding_bag",
    "tf1_text_table_saved_model",
    "tf1_fake_quant_by_channel",
    "tf1_quantized_ops",
    "tf1_linear_algebra",
    "tf1_suppression",
    "tf1_dynamic_rnn_lstm",
    "tf1_bidirectional_dynamic_rnn",
    "tf2_while_loop",
    "tf2_vectorized_map",
    "tf2_ssd_head",
    "tf2_yolo_head",
    "tf2_graph_network",
    "tf2_log_mel",
    "tf2_fourier",
    "tf2_float64",
    "tf2_several_types",
    "tf2_signature_by_name",
    "tf2_state_in_variable",
    "k2_training_aware_by_channel",
    "tf2_masks_and_places",
    "fz2_linear_algebra",
]
"""Of each family what it is about, in a few minutes."""

DRIVEN = SUBSET if ALL_NETWORKS else SUBSET[::10]
"""Each takes a few seconds for every verb; a tenth of them in each run."""

CONVERTED = ("tflite", "onnx")
WHOLE_TFLITE = 210
WHOLE_ONNX = 211
"""Floors, of all models. A file that takes a batch of one only counts as whole."""

STEP = 1 if ALL_NETWORKS else 24
"""Every so many of the models outside the subset are converted: all of them take six minutes."""

JOBS = 2


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, eras.Row]:
    """What came of each model of the subset; TensorFlow's graphs of one do not stay for the next."""
    return _rows(DRIVEN, eras.COLUMNS, tmp_path_factory)


@pytest.fixture(scope="module")
def converted(
    rows: Mapping[str, eras.Row], tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, eras.Row]:
    """What came of converting each model there is, or each sixth of those that nothing else drives."""
    rest = [name for name in all_models() if name not in rows][::STEP]
    return {**rows, **_rows(rest, CONVERTED, tmp_path_factory)}


def _rows(
    names: Sequence[str], steps: Sequence[str], tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, eras.Row]:
    cache = str(tmp_path_factory.mktemp("eras"))
    found = {row.name: row for row in eras.rows(names, cache, steps, JOBS, eras.LIMIT_SECONDS)}
    # A process that ran out of time or was ended on a busy machine says nothing about a model: it gets the
    # machine to itself once, and what comes right then is still told. All else counts the first time.
    late = [
        row.name for row in found.values() if row.failures and all(_is_cut_off(row, s) for s in row.failures)
    ]
    again = {row.name: row for row in eras.rows(late, cache, steps, 1, 2 * eras.LIMIT_SECONDS)}
    for name in late:
        if not again[name].failures:
            warnings.warn(f"{name} came right at the second try only: {_said(found[name])}", stacklevel=1)
    return found | again


def _is_cut_off(row: eras.Row, step: str) -> bool:
    """True if a step has no result of its own, since the process was stopped or died."""
    cell = row.cells[step]
    return cell.word == "TIME" or cell.why.startswith("the process ended with")


def _said(row: eras.Row) -> str:
    return "; ".join(
        f"{row.name} {step} {row.cells[step].word}: {row.cells[step].why}" for step in row.failures
    )


def test_nothing_fails(converted: Mapping[str, eras.Row]) -> None:
    failed = [_said(row) for row in converted.values() if row.failures]
    # In the first line of the failure, which is all that some reports of test runs keep.
    assert not failed, " | ".join(failed)


@pytest.mark.parametrize("step", ["freeze", "transform"])
def test_the_real_tensorflow_runs_what_is_written(rows: Mapping[str, eras.Row], step: str) -> None:
    assert {row.name: row.cells[step].word for row in rows.values() if row.cells[step].word != "ok"} == {}


@pytest.mark.parametrize("engine", eras.ENGINES)
def test_engines_answer_at_both_batch_sizes(rows: Mapping[str, eras.Row], engine: str) -> None:
    assert {row.name: row.cells[engine].word for row in rows.values() if row.cells[engine].word != "ok"} == {}


@pytest.mark.parametrize(("step", "floor"), [("tflite", WHOLE_TFLITE), ("onnx", WHOLE_ONNX)])
def test_so_many_are_whole(converted: Mapping[str, eras.Row], step: str, floor: int) -> None:
    rest = {
        row.name: row.cells[step].word
        for row in converted.values()
        if row.cells[step].word not in ("whole", "fixed", "sized")
    }
    assert len(rest) <= len([*all_models()]) - floor, rest


def test_the_table_says_it(rows: Mapping[str, eras.Row]) -> None:
    line = eras.line_of(rows["k3_lstm"], eras.COLUMNS)
    assert line.startswith("k3_lstm ")
    assert " ok " in line
    assert eras.summary(list(rows.values())).startswith(f"{len(DRIVEN)} models, ")
