"""What tests of commands share: a model in an otherwise empty folder, and pasting the next command."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.cli.proposals import Watch
from thinflow import cli
from thinflow.cli import main
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph
from thinflow.ir.types import FLOAT
from thinflow.zoo import digits

Paste = Callable[[str], int]


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A model whose name needs quoting, in the working folder."""
    monkeypatch.chdir(tmp_path)
    thinflow.save(digits.build(0), tmp_path / "my digits.pb")
    return "my digits.pb"


@pytest.fixture
def summing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """y = relu(x + [1, 2, 3, 4]), where the sum is an output, too."""
    monkeypatch.chdir(tmp_path)
    graph = Graph()
    x = graph.add("Placeholder", [], "x", attrs={"dtype": FLOAT, "shape": ShapeAttr((1, 4))})
    addend = graph.constant(np.arange(1, 5, dtype=np.float32), "addend")
    total = graph.add("AddV2", [x.output(), addend], "total", attrs={"T": FLOAT}).output()
    graph.outputs = [total, graph.add("Relu", [total], "y", attrs={"T": FLOAT}).output()]
    thinflow.save(graph, "summing.pb")
    return "summing.pb"


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
