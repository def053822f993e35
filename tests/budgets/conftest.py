"""What tests of budgets share: a folder with the digits model in several formats, for reading only."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import thinflow
from thinflow.zoo import digits

FILES = ("digits.pb", "digits.tflite", "digits.onnx")


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    for name in FILES:
        thinflow.convert(digits.build(0), folder / name, verify=False)
    return folder


@pytest.fixture
def models(made: Path, tmp_path: Path) -> Path:
    """A copy of the folder, for tests that write into it."""
    for name in FILES:
        shutil.copyfile(made / name, tmp_path / name)
    return tmp_path
