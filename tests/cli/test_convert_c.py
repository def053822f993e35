"""`thinflow convert` and `quantize` to plain C."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.lower.c.c_networks import Layers, mixed
from thinflow.cli import main
from thinflow.engines._c_library import compiler

needs_compiler = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")


@needs_compiler
@pytest.mark.parametrize("rounding", ["litert", "xnnpack"])
def test_convert(rounding: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = tmp_path / "net.tflite", tmp_path / "net.c"
    source.write_bytes(mixed("int8"))
    assert main(["convert", str(source), str(target), "--rounding", rounding]) == 0
    told = capsys.readouterr().out
    assert "compiled and run beside LiteRT on 3 made-up inputs: every number is equal" in told
    assert f"{rounding} rounding" in told
    assert (tmp_path / "net_weights.c").exists()


@needs_compiler
def test_kernels_of_another_processor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What this machine cannot run is proven by the portable kernels, and says so."""
    source, target = tmp_path / "net.tflite", tmp_path / "net.c"
    source.write_bytes(mixed("int8"))
    assert main(["convert", str(source), str(target), "--cpu", "cortex-m4"]) == 0
    told = capsys.readouterr().out
    assert "not run on cortex-m4, but its layers in portable C: compiled and run beside LiteRT" in told
    assert "smlad" in target.read_text()


def test_a_rounding_goes_with_c_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "net.tflite"
    source.write_bytes(mixed("int8"))
    assert main(["convert", str(source), str(tmp_path / "net.onnx"), "--rounding", "litert"]) == 1
    assert "a rounding goes with .c files only" in capsys.readouterr().err
    assert main(["convert", str(source), str(tmp_path / "net.onnx"), "--cpu", "generic"]) == 1
    assert "a processor goes with .c files only" in capsys.readouterr().err


@needs_compiler
def test_benchmark_and_verify_take_the_engine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "net.tflite"
    source.write_bytes(mixed("float"))
    assert main(["run", str(source), "--engine", "c"]) == 0
    assert main(["benchmark", str(source), "--engine", "litert,c", "--runs", "2"]) == 0
    assert any(line.split()[1:2] == ["c"] for line in capsys.readouterr().out.splitlines())


@needs_compiler
def test_in_so_much_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = Layers(1, 24, 24, 2)
    net.conv(16)
    net.depthwise(step=2)
    net.mean()
    source, target = tmp_path / "net.tflite", tmp_path / "net.c"
    source.write_bytes(net.content())
    assert main(["convert", str(source), str(target), "--ram", "8KB", "--cpu", "cortex-m4"]) == 0
    told = capsys.readouterr().out
    assert "in bands of rows every bit is as with whole layers" in told
    assert "2 of 3 layers run a few rows at a time" in told
    arena = re.search(r"#define NET_ARENA_BYTES (\d+)", (tmp_path / "net.h").read_text())
    assert arena is not None
    assert 1000 < int(arena[1]) < 8000 - 24 * 24 * 2
    assert "for (int32_t band = 0; band < " in target.read_text()
    target.unlink()
    assert main(["convert", str(source), str(target), "--ram", "2KB"]) == 1
    error = capsys.readouterr().err
    assert "2,000 bytes of memory are too few for generic: the least is " in error
    assert "most is taken at" in error
    assert not target.exists()
    assert main(["convert", str(source), str(target), "--ram", "much"]) == 1
    assert "'much' is no size" in capsys.readouterr().err
    assert main(["convert", str(source), str(tmp_path / "net.onnx"), "--ram", "8KB"]) == 1
    assert "a limit of memory goes with .c files only" in capsys.readouterr().err


@needs_compiler
def test_quantize_takes_what_convert_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = Layers(1, 24, 24, 2, kind="float")
    net.conv(16)
    net.depthwise(step=2)
    net.mean()
    source, target = tmp_path / "net.tflite", tmp_path / "small.c"
    source.write_bytes(net.content())
    command = ["quantize", str(source), str(target), "--effort", "none", "--samples", "2"]
    assert main([*command, "--cpu", "cortex-m4", "--ram", "12KB"]) == 0
    told = capsys.readouterr().out
    assert "in bands of rows every bit is as with whole layers, in portable C" in told
    assert re.search(r"\d of \d layers run a few rows at a time", told)
    assert "smlad" in target.read_text()
    assert main([*command, "--cpu", "cortex-m5"]) == 1
    assert "there is no processor 'cortex-m5'" in capsys.readouterr().err
    command[2] = str(tmp_path / "small.tflite")
    assert main([*command, "--ram", "12KB"]) == 1
    assert "a limit of memory goes with .c files only" in capsys.readouterr().err
