"""A type checker knows what comes out of every call, and tells of a wrong argument."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import thinflow

CALLS = Path(__file__).with_name("calls.py")
PACKAGE = Path(thinflow.__file__).parent


@pytest.mark.slow
def test_typical_calls_are_strictly_typed(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--config-file=", "--follow-imports=silent"),
            *("--python-version", "3.10", "--cache-dir", str(tmp_path), "--no-error-summary", str(CALLS)),
        ],
        env={**os.environ, "MYPYPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_the_package_says_that_it_is_typed() -> None:
    assert (PACKAGE / "py.typed").is_file()
