"""What tests of commands share: a model in an otherwise empty folder, and pasting the next command."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

import thinflow
from thinflow.cli import main
from thinflow.zoo import digits

Paste = Callable[[str], int]


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A model whose name needs quoting, in the working folder."""
    monkeypatch.chdir(tmp_path)
    thinflow.save(digits.build(0), tmp_path / "my digits.pb")
    return "my digits.pb"


@pytest.fixture
def paste() -> Paste:
    """Run a printed `next: thinflow ...` line as a shell would; its exit code."""

    def run(line: str) -> int:
        words = shlex.split(line)
        assert words[:2] == ["next:", "thinflow"], line
        return main(words[2:])

    return run
