"""Files that LiteRT refuses for a slip, and copies that it takes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.quantize.programs import Builder
from thinflow.api.converting import convert_verified
from thinflow.cli import main
from thinflow.engines.litert import Model
from thinflow.quantize.calibrate import calibrate
from thinflow.quantize.int8 import quantize_int8
from thinflow.quantize.recipe import Recipe
from thinflow.tflite.mending import mended
from thinflow.tflite.model import Program
from thinflow.tflite.reader import read_program
from thinflow.tflite.writer import to_bytes


def small(wrong_axis: int | None, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A convolution in int8 whose bias names an axis, if one is given, as converters of 2019 wrote it."""
    b = Builder(1)
    program = b.program(b.conv(b.input(1, 4, 4, 2), 3))
    name = program.subgraphs[0].inputs[0].name
    feeds = [{name: np.random.default_rng(n).normal(size=(1, 4, 4, 2)).astype(np.float32)} for n in range(4)]
    recipe = Recipe(input_type="int8", output_type="int8")
    made = quantize_int8(program, calibrate(program, feeds, recipe).ranges, recipe).program
    if wrong_axis is not None:
        bias = made.subgraphs[0].operators[0].inputs[2]
        assert bias is not None
        assert bias.quantization is not None
        bias.quantization = replace(bias.quantization, axis=wrong_axis)
        monkeypatch.setattr(Program, "validate", lambda self: None)
    content = to_bytes(made)
    monkeypatch.undo()
    return content


def test_a_vector_has_one_axis(monkeypatch: pytest.MonkeyPatch) -> None:
    content = small(3, monkeypatch)
    with pytest.raises(thinflow.EngineUnavailable, match="LiteRT refuses the model"):
        Model(content)
    assert len(read_program(content).wrong_axes) == 1
    found = mended(content)
    assert found is not None
    copy, what = found
    assert what == "1 vector names an axis of scales that a vector lacks, which LiteRT refuses"
    assert sum(a != b for a, b in zip(content, copy, strict=True)) == 1
    assert mended(copy) is None
    Model(copy)


def test_inspect_tells_it_and_proposes_the_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "old.tflite"
    path.write_bytes(small(3, monkeypatch))
    monkeypatch.chdir(tmp_path)
    assert main(["inspect", "old.tflite"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert any(
        line.startswith("slip: 1 vector names an axis of scales that a vector lacks") for line in shown
    )
    assert shown[-1] == "next: thinflow convert old.tflite old_mended.tflite"
    assert main(shown[-1].split()[2:]) == 0
    capsys.readouterr()
    assert main(["inspect", "old_mended.tflite"]) == 0
    assert "slip:" not in capsys.readouterr().out


def test_what_is_right_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert mended(small(None, monkeypatch)) is None


def test_a_refused_file_is_converted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, copy = tmp_path / "old.tflite", tmp_path / "new.tflite"
    path.write_bytes(small(3, monkeypatch))
    with pytest.raises(thinflow.EngineUnavailable) as caught:
        thinflow.Session(path, engine="litert").run(None, {})
    assert caught.value.hint == f"`thinflow convert {path} mended.tflite` writes a copy that LiteRT takes"
    made = convert_verified(path, copy)
    assert "LiteRT answers as the interpreter does with the file itself, on 2 inputs" in made.proof
    x = np.arange(32, dtype=np.int8).reshape(1, 4, 4, 2)
    one, two = thinflow.Session(path), thinflow.Session(copy)
    assert (one.engine, two.engine) == ("reference", "litert")
    (feed,) = one.inputs
    assert np.abs(one.run(None, {feed: x})[0].astype(int) - two.run(None, {feed: x})[0]).max() <= 1


def test_plain_c_of_a_refused_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "old.tflite"
    path.write_bytes(small(3, monkeypatch))
    thinflow.convert(path, tmp_path / "net.c")
    assert "net_run" in (tmp_path / "net.h").read_text("utf-8")


def test_a_copy_is_advised_only_where_it_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What LiteRT refuses for another reason as well would only be copied."""
    path = tmp_path / "old.tflite"
    path.write_bytes(small(3, monkeypatch))
    monkeypatch.setattr("thinflow.engines._mended.mended", lambda data: (bytes(data), "nothing that helps"))
    with pytest.raises(thinflow.EngineUnavailable) as caught:
        thinflow.Session(path, engine="litert")
    assert caught.value.hint == f"the interpreter may take it: `thinflow run {path} --engine reference`"
