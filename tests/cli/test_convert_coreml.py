"""`thinflow convert` to Core ML packages, and commands that open them."""

from __future__ import annotations

import threading
from importlib.util import find_spec
from pathlib import Path

import pytest

from thinflow.cli import _values, main
from thinflow.lower.coreml.options import PRECISIONS, TARGETS, WEIGHTS

needs_coremltools = pytest.mark.skipif(
    find_spec("coremltools") is None, reason="coremltools is not installed"
)


@needs_coremltools
def test_convert_and_what_follows(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", model, "digits.mlpackage"]) == 0
    told = capsys.readouterr()
    first, *rest = told.out.splitlines()
    assert first.startswith("wrote digits.mlpackage: ")
    assert first.endswith("Core ML itself runs only on a Mac, so it was not run here")
    assert "_MLModelProxy" not in told.err
    assert rest[-1] == "next: thinflow verify 'my digits.pb' digits.mlpackage"
    assert main(["verify", model, "digits.mlpackage"]) == 0
    assert "the graphs agree" in capsys.readouterr().out


@needs_coremltools
def test_no_thread_is_left(model: str) -> None:
    """A process with threads cannot fork any more, and files are tried in forks."""
    before = threading.enumerate()
    assert main(["convert", model, "m.mlpackage"]) == 0
    assert threading.enumerate() == before


def test_options(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--compute-precision", "float16", "--weights", "int8", "--deployment-target", "iOS17"]
    assert main(["convert", model, "digits.mlpackage", *flags]) == 0
    assert "in float16 with weights in int8" in capsys.readouterr().out


def test_options_go_with_packages_only(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", model, "digits.onnx", "--weights", "int8"]) == 1
    assert "a kind of weights goes with .mlpackage only" in capsys.readouterr().err
    assert main(["convert", model, "digits.mlpackage", "--image-input", "--mean", "grey"]) == 1
    assert "--mean grey is no number" in capsys.readouterr().err


def test_quantize_says_what_makes_a_package_smaller(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quantize", model, "digits.mlpackage"]) == 1
    assert "hint: thinflow convert 'my digits.pb' OUT.mlpackage --weights int8" in capsys.readouterr().err
    assert not Path("digits.mlpackage").exists()


def test_help_lists_what_there_is() -> None:
    assert PRECISIONS == _values.PRECISIONS
    assert WEIGHTS == _values.COREML_WEIGHTS
    assert TARGETS == _values.COREML_TARGETS
