"""A model in a folder, with samples, for tests that climb the ladder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import thinflow
from thinflow import zoo
from thinflow.zoo import digits


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Arguments of `thinflow.optimize` for a run of seconds: the small bundled model, plain schemes alone."""
    folder = tmp_path_factory.mktemp("ladder")
    thinflow.save(digits.build(0), folder / "digits.pb")
    return {
        "source": folder / "digits.pb",
        "calibration": zoo.calibration("digits", 24, 0),
        "test": zoo.test_set("digits"),
        "samples": 24,
        "effort": "none",
        "measure": False,
    }


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"
