"""Files that hold only a part of a model, as a user meets them: told first, named so, refused if asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import thinflow
from tests.page_scripts import PAGE
from tests.transforms.golden import parse_graph
from thinflow.cli import main

pytest.importorskip("ai_edge_litert")
Out = pytest.CaptureFixture[str]
PART = """
x = Placeholder() {dtype=float, shape=shape[1,4]}
w = Const() {dtype=float, value=float[4,4]{1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}}
y = MatMul(x, w) {T=float}
i = Const() {dtype=int32, value=int32[1,1]{0}}
z = ScatterNdNonAliasingAdd(y, i, y) {T=float, Tindices=int32}
v = Softmax(z) {T=float}
inputs: x
outputs: v
"""
WHY = "because of node 'z' (ScatterNdNonAliasingAdd): TFLite has no form of ScatterNdNonAliasingAdd"
MISSING = f"the model's output 'v' is not in it, {WHY}"
SOUND = """
bytes = Placeholder() {dtype=string, shape=shape[]}
wav = DecodeWav(bytes) {desired_channels=1, desired_samples=8}
flat_shape = Const() {dtype=int32, value=int32[2]{1,8}}
flat = Reshape(wav, flat_shape) {T=float, Tshape=int32}
w = Const() {dtype=float, value=float[8,2]{1,2,3,4,5,6,7,8,8,7,6,5,4,3,2,1}}
y = MatMul(flat, w) {T=float}
inputs: bytes
outputs: y
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    thinflow.save(parse_graph(PART), "net.pb")
    thinflow.save(parse_graph(SOUND), "sound.pb")
    return tmp_path


def made() -> set[str]:
    return {p.name for p in Path().rglob("*") if p.is_file()} - {"net.pb", "sound.pb"}


def test_optimize_tells_a_part_first(capsys: Out, paste: Callable[[str], int]) -> None:
    assert main(["optimize", "net.pb", "out", "--no-benchmark"]) == 0
    first, *_, last = lines = capsys.readouterr().out.splitlines()
    assert first == (
        "PARTIAL: net_part_fp32.tflite and net_part_int8.tflite hold only a part of the model: "
        f"{MISSING}; the whole model is net_fp32.pb: run it with thinflow's own engines or a TensorFlow "
        "runtime"
    )
    told = "\n".join(lines)
    assert "ship" not in told
    assert "same top answer" not in told
    assert "the part with the rest interpreted: output SQNR" in told
    assert made() == {
        *PAGE,
        *(
            "net_fp32.pb",
            "net_part_fp32.tflite",
            "net_part_int8.tflite",
            "recipe.toml",
            "report.json",
            "report.md",
        ),
    }
    data = json.loads(Path("out/report.json").read_text("utf-8"))
    assert data["partial"] is True
    assert data["coverage"]["litert"]["kind"] == "part"
    assert data["coverage"]["litert"]["missing_outputs"][0]["output"] == "v"
    assert data["quality"]["float"]["same_answer"] is None
    assert data["quality"]["float"]["outputs"] == ["v"]
    assert Path("out/report.md").read_text("utf-8").startswith(f"# net\n\n**{first}**")
    assert paste(last) == 0


def test_optimize_recommends_the_onnx_file_that_is_whole(capsys: Out) -> None:
    pytest.importorskip("onnxruntime")
    assert main(["optimize", "net.pb", "out", "--no-benchmark", "--onnx"]) == 0
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first.endswith("the whole model is net_fp32.onnx: run it")
    assert "net_int8.onnx" in made()
    assert last == "next: thinflow benchmark out/net_fp32.onnx"


@pytest.mark.parametrize(
    "command",
    [
        "optimize net.pb out --no-benchmark",
        "convert net.pb net.tflite",
        "quantize net.pb net.tflite",
        "convert net.pb net.tflite --no-verify",
    ],
)
def test_strict_fails_and_writes_nothing(command: str, capsys: Out) -> None:
    assert main([*command.split(), "--strict"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"error: LiteRT can hold only a part of the model: {MISSING}\nhint: " in printed.err
    assert made() == set()


def test_convert_writes_a_part_under_its_own_name(capsys: Out, paste: Callable[[str], int]) -> None:
    assert main(["convert", "net.pb", "net.tflite"]) == 0
    first, second, *_, last = capsys.readouterr().out.splitlines()
    assert first == (
        f"PARTIAL: net_part.tflite holds only a part of the model, and net.tflite was not written: {MISSING}"
    )
    assert second.startswith("wrote net_part.tflite: ")
    assert "the part in LiteRT agrees with the same nodes of the graph" in second
    assert made() == {"net_part.tflite"}
    assert last == "next: thinflow convert net.pb net.onnx"
    assert paste(last) == 0
    capsys.readouterr()
    assert main(["convert", "net.pb", "net.tflite", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["partial"], data["path"], data["verdict"]) == (True, "net_part.tflite", first)


def test_quantize_writes_a_part_under_its_own_name(capsys: Out, paste: Callable[[str], int]) -> None:
    assert main(["quantize", "net.pb", "small.tflite"]) == 0
    first, second, *_, last = capsys.readouterr().out.splitlines()
    assert first.startswith("PARTIAL: small_part.tflite holds only a part of the model, and small.tflite was")
    assert second.startswith("wrote small_part.tflite: ")
    assert "the part with the rest interpreted: output SQNR" in second
    assert made() == {"small_part.tflite"}
    assert paste(last) == 0


def test_what_is_said_of_a_part_later(capsys: Out) -> None:
    assert main(["convert", "net.pb", "net.tflite"]) == 0
    Path("net_part.tflite").rename("shipped.tflite")
    capsys.readouterr()
    assert main(["inspect", "shipped.tflite"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("PARTIAL: shipped.tflite is a LiteRT model")
    assert f"description: PARTIAL: a part of a model, made by thinflow; {MISSING}" in told
    assert main(["verify", "net.pb", "shipped.tflite"]) == 0
    told = capsys.readouterr().out
    assert "PARTIAL: only what shipped.tflite holds was compared: a part of a model, made by" in told
    assert MISSING in told
    argv = ["benchmark", "shipped.tflite", "--runs", "3", "--no-memory", "--no-peak"]
    assert main(argv) == 0
    assert "shipped is PARTIAL: a part of a model, made by thinflow" in capsys.readouterr().out


def test_a_quantized_part_says_so_too(capsys: Out) -> None:
    for scheme in ("int8", "float16"):
        assert main(["quantize", "net.pb", f"{scheme}.tflite", "--scheme", scheme]) == 0
        capsys.readouterr()
        assert main(["inspect", f"{scheme}_part.tflite"]) == 0
        assert capsys.readouterr().out.startswith(f"PARTIAL: {scheme}_part.tflite is a LiteRT model")


def test_a_decoding_front_is_a_choice_that_is_told(capsys: Out) -> None:
    assert main(["optimize", "sound.pb", "out", "--no-benchmark", "--strict"]) == 0
    assert capsys.readouterr().out.splitlines()[0].endswith("; the app decodes the WAV and feeds wav")
    assert {"sound_fp32.tflite", "sound_int8.tflite"} <= made()
    assert main(["convert", "sound.pb", "sound.tflite", "--strict"]) == 0
    assert capsys.readouterr().out.splitlines()[0].endswith("; the app decodes the WAV and feeds wav")
    assert main(["quantize", "sound.pb", "small.tflite", "--strict"]) == 0
    assert "; the app decodes the WAV and feeds wav" in capsys.readouterr().out.splitlines()[0]
    assert json.loads(Path("out/report.json").read_text("utf-8"))["partial"] is False


CODES = "--inference_type=QUANTIZED_UINT8 --mean_values=0 --std_dev_values=1"
DEFAULTS = "--default_ranges_min=0 --default_ranges_max=6"


@pytest.mark.parametrize("flags", ["", f"{CODES} {DEFAULTS}", "--post_training_quantize"])
def test_the_old_converters_refuse_a_part_as_they_did(flags: str, capsys: Out) -> None:
    argv = ["--graph_def_file=net.pb", "--output_file=net.tflite", "--input_arrays=x", "--output_arrays=v"]
    assert main(["tflite_convert", *argv, *flags.split()]) == 1
    assert f"LiteRT can hold only a part of the model: {MISSING}" in capsys.readouterr().err
    assert made() == set()


def test_the_front_is_told_without_proof_too(capsys: Out) -> None:
    assert main(["convert", "sound.pb", "sound.tflite", "--no-verify"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first.endswith("; not verified (--no-verify); the app decodes the WAV and feeds wav")


def test_the_needs_of_a_part_are_told_as_such() -> None:
    from thinflow.compat.requirements import micro_resolver

    assert micro_resolver("net.pb").warnings[0] == (
        f"PARTIAL: these are the needs of a part of the model: {MISSING}"
    )
