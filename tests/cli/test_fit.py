"""`thinflow fit`, as users type it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.lower.c.c_networks import Layers, mixed
from thinflow.cli import main

QUICK = ["--no-compile", "--no-remedies"]


@pytest.fixture(autouse=True)
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.tflite").write_bytes(mixed("int8"))


def test_a_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "net.tflite", *QUICK, "--cpu", "cortex-m4", "--clock", "80MHz"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("net.tflite: fits ")
    assert lines[-1] == "next: thinflow convert net.tflite net.c --cpu cortex-m4"
    assert any("at 80 MHz" in line for line in lines)
    assert max(map(len, lines)) <= 80


def test_limits_decide_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "net.tflite", *QUICK, "--ram", "64KB", "--flash", "1MB"]) == 0
    assert main(["fit", "net.tflite", *QUICK, "--ram", "100"]) == 1
    assert "net.tflite: does not fit cortex-m4: RAM " in capsys.readouterr().out
    assert main(["fit", "net.tflite", *QUICK, "--ram", "64KB", "--flash", "100", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["misses"][0].startswith("weights alone ")
    assert len(told["layers"]) == 14


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--cpu", "cortex-m5"], "there is no processor 'cortex-m5'"),
        (["--chip", "nRF52841"], "the table has no chip 'nRF52841'"),
        (["--ram", "many"], "'many' is no size"),
        (["--ram", "0"], "memory of at most 0 bytes makes no sense"),
        (["--clock", "fast"], "'fast' is no clock"),
        (["--chip", "nRF52840", "--cpu", "cortex-m7"], "nRF52840 has a cortex-m4, not a cortex-m7"),
    ],
)
def test_wrong_flags(flags: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "net.tflite", *QUICK, *flags]) == 1
    told = capsys.readouterr().err
    assert problem in told
    assert "hint: " in told


def test_what_c_cannot_say_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    net = Layers(1, 4, 4, 2)
    net.unary("LOGISTIC")
    net.last.shape = (1, None, 4, 2)
    net.block.inputs[0].shape = (1, None, 4, 2)
    Path("open.tflite").write_bytes(net.content())
    assert main(["fit", "open.tflite", *QUICK]) == 1
    assert "--shape input_0=1,96,4,2" in capsys.readouterr().err
