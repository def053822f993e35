from __future__ import annotations

import pytest

from tests.device.android.phones import OUTPUTS
from thinflow.device.android.bridge import Done
from thinflow.device.android.output import parse_output
from thinflow.device.android.refusals import refusal
from thinflow.device.android.told import parse_facts
from thinflow.errors import EngineUnavailable

PHONE = parse_facts("@ro.product.cpu.abilist\narm64-v8a,armeabi-v7a\n")


def refused(text: str, status: int = 1) -> EngineUnavailable:
    return refusal(Done(status, text), parse_output(text), "m.tflite", "adb:X1", PHONE)


@pytest.mark.parametrize(
    ("text", "status", "message", "hint"),
    [
        (
            "/system/bin/sh: benchmark_model: not executable: 64-bit ELF file",
            126,
            "benchmark_model is not for the device, which runs arm64-v8a, armeabi-v7a",
            "for each ABI",
        ),
        (
            'CANNOT LINK EXECUTABLE "benchmark_model": library "libc++_shared.so" not found',
            1,
            "does not start: CANNOT LINK EXECUTABLE",
            "brings its libraries with it",
        ),
        ("Killed", 137, "Android ended it, most likely for want of memory", "smaller model"),
        ("Aborted", 134, "benchmark_model aborted there", "newer benchmark_model"),
        ("Segmentation fault", 139, "benchmark_model crashed there", "newer benchmark_model"),
        ("something else\n\n", 1, "benchmark_model fails there: something else", "newer"),
        ("", 7, "benchmark_model fails there, exit code 7", "newer"),
        ("ERROR: it is so\nERROR: it is so", 1, "benchmark_model fails there: it is so", "newer"),
        ("write: No space left on device", 1, "there is no space left on the device", "make room"),
        (
            "taskset: failed to set pid 0's affinity: Invalid argument",
            1,
            "lets nothing be bound",
            "leave cpus out",
        ),
    ],
)
def test_why_it_did_not_run(text: str, status: int, message: str, hint: str) -> None:
    error = refused(text, status)
    assert error.where == "adb:X1, m.tflite"
    assert message in error.problem
    assert hint in error.hint


def test_what_it_prints_is_told() -> None:
    failed = refused((OUTPUTS / "gpu_failed.txt").read_text("utf-8"))
    assert (failed.problem, failed.hint) == ("Failed to apply GPU delegate", "take another delegate, or none")
    unknown = refused((OUTPUTS / "no_operator.txt").read_text("utf-8"))
    assert unknown.problem.startswith("benchmark_model fails there: Didn't find op for builtin opcode 'GELU'")
    assert len(unknown.problem) < 300
