"""What tests of commands share: a model in an otherwise empty folder, and pasting the next command."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import thinflow
from tests.cli.proposals import Watch
from thinflow import cli
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


@pytest.fixture(autouse=True)
def proposed_commands_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Watch]:
    """Whatever a command proposes as the next one can be typed, and does not lead in a circle."""
    watch = Watch()
    monkeypatch.chdir(tmp_path_factory.mktemp("work"))  # what commands write does not belong into the project
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cli, "_run", watch.around(cli._run))
        yield watch
    watch.try_proposals()
