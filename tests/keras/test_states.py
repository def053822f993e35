"""Recurrent layers that keep their state from run to run."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import thinflow
from tests.keras.written import layer, sequential, write_h5
from thinflow.api import freeze_with_report

ONE = np.ones((1, 1), np.float32)


def running_sum(folder: Path, batch: int | None) -> Path:
    """A recurrent layer whose state is the sum of all that came."""
    first = {"batch_input_shape": [batch, 2, 1], "units": 1, "activation": "linear", "use_bias": False}
    rnn = layer("SimpleRNN", "sums", stateful=True, **first)
    return write_h5(folder / "net.h5", sequential(rnn), {"sums": [ONE, ONE]})


def answers(graph: thinflow.Graph) -> list[float]:
    session = thinflow.Session(graph, engine="reference")
    (fed,), read = session.inputs, list(session.outputs)[:1]
    return [float(session.run(read, {fed: np.array([[[1], [2]]], np.float32)})[0][0, 0]) for _ in range(3)]


def test_state_is_kept_where_that_is_asked_for(tmp_path: Path) -> None:
    graph = thinflow.load(running_sum(tmp_path, 1), state="keep")
    assert [s.name for s in graph.states] == ["net/sums/state_0"]
    assert graph.facts["state"].endswith("in a variable, 'net/sums/state_0'")
    assert answers(graph) == [3, 6, 9]


def test_state_is_frozen_else(tmp_path: Path) -> None:
    graph = thinflow.load(running_sum(tmp_path, 1))
    assert "every run begins with the values that were saved" in graph.facts["state"]
    assert answers(graph) == [3, 3, 3]


def test_state_of_an_open_batch(tmp_path: Path) -> None:
    graph = thinflow.load(running_sum(tmp_path, None), state="keep")
    assert not graph.states
    assert graph.facts["stateful"].endswith("here each run begins anew, as its batch is open")
    assert answers(graph) == [3, 3, 3]


def test_a_keras_file_is_frozen_as_it_is_opened(tmp_path: Path) -> None:
    """TensorFlow has no variable of LiteRT's; what reads one was not taken for an output either."""
    frozen = freeze_with_report(running_sum(tmp_path, 1))
    assert frozen.notes == [frozen.graph.facts["state"]]
    assert not any(n.op.startswith("LiteRT") for n in frozen.graph)
    assert answers(frozen.graph) == [3, 3, 3]
