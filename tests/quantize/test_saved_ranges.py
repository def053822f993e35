"""Ranges survive the way through a file, and only for their own model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.quantize.programs import Builder, samples
from thinflow.errors import FormatError, WriteError
from thinflow.lower.tflite.program import Program
from thinflow.quantize.calibrate import calibrate
from thinflow.quantize.saved_ranges import load_ranges, save_ranges


def model(seed: int = 0) -> Program:
    b = Builder(seed)
    program = b.program(b.conv(b.conv(b.input(1, 4, 4, 3), 4), 4))
    for tensor in program.subgraphs[0].tensors():
        tensor.name = "same" if tensor.is_constant else tensor.name
    return program


def test_round_trip(tmp_path: Path) -> None:
    program = model()
    found = calibrate(program, samples(program))
    save_ranges(found, program, tmp_path / "ranges.json")
    again = load_ranges(tmp_path / "ranges.json", program)
    assert again.ranges == found.ranges
    assert again.samples == found.samples
    assert [f.name for f in tmp_path.iterdir()] == ["ranges.json"]


def test_another_model_is_refused_unless_forced(tmp_path: Path) -> None:
    program, other = model(), model(1)
    save_ranges(calibrate(program, samples(program)), program, tmp_path / "ranges.json")
    with pytest.raises(FormatError, match="made with another model"):
        load_ranges(tmp_path / "ranges.json", other)
    forced = load_ranges(tmp_path / "ranges.json", other, force=True)
    assert [t.name for t in forced.ranges] == ["in0", "conv_2d0_0", "conv_2d1_0"]


@pytest.mark.parametrize(
    "change",
    [
        {"format": "thinflow ranges 2"},
        {"ranges": []},
        {"ranges": {"in0": {"min": 2, "max": 1, "observer": "minmax"}}},
        {"ranges": {"in0": {"min": 0, "max": float("inf"), "observer": "minmax"}}},
        {"samples": None},
    ],
    ids=str,
)
def test_damaged_file(change: dict[str, object], tmp_path: Path) -> None:
    program, file = model(), tmp_path / "ranges.json"
    save_ranges(calibrate(program, samples(program)), program, file)
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(FormatError, match="this holds no saved ranges"):
        load_ranges(file, program)


def test_no_such_place(tmp_path: Path) -> None:
    program = model()
    with pytest.raises(WriteError, match="cannot be written"):
        save_ranges(calibrate(program, samples(program)), program, tmp_path / "nowhere" / "ranges.json")
    with pytest.raises(FormatError, match="no saved ranges"):
        load_ranges(tmp_path / "ranges.json", program)
