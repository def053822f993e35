"""LiteRT as calibration runs it: every watched tensor is given, whichever kernels run the program."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.quantize.cells import INPUTS, STEPS, UNITS, cell
from tests.quantize.programs import Builder, samples
from thinflow.errors import EngineUnavailable
from thinflow.quantize import runners
from thinflow.quantize.loop_runner import runner_with_loops
from thinflow.quantize.runners import LiteRTRunner
from thinflow.tflite.model import Operator, Program, Tensor


def layers() -> tuple[Program, list[Tensor]]:
    """Three layers, and what each gives."""
    b = Builder()
    x = b.input(1, 8, 8, 3)
    y = b.conv(x, 4)
    z = b.depthwise(y)
    return b.program(b.conv(z, 5)), [x, y, z]


def seen(runner: LiteRTRunner, watched: list[Tensor], feed: dict[str, Any]) -> list[np.ndarray]:
    runner.run(feed, "sample 0")
    return [runner.view(t).copy() for t in watched]


def test_kernels_that_hide_tensors_give_those_that_are_watched() -> None:
    program, watched = layers()
    (feed,) = samples(program, 1)
    runner = LiteRTRunner(program, watched, 1)
    found = seen(runner, watched, feed)
    assert runner.is_delegated
    assert_array_equal(found[0], next(iter(feed.values())))
    plain = LiteRTRunner(program, watched, 1)
    plain.interpreter = plain._open(delegates=False)
    for a, b in zip(found, seen(plain, watched, feed), strict=True):
        assert_allclose(a, b, atol=1e-5)
    assert [t.name for t in program.subgraphs[0].outputs] == ["conv_2d2_0"]


class Refusing:
    """An interpreter whose delegate does not run."""

    def __init__(self, made: Any) -> None:
        self._made = made

    def __getattr__(self, name: str) -> Any:
        return getattr(self._made, name)

    def invoke(self) -> None:
        raise RuntimeError("XNNPack delegate failed\nto reshape")


def refusing(open_model: Any, *given: Any, delegates: bool = True) -> Any:
    made = open_model(*given, delegates=delegates)
    return Refusing(made) if delegates else made


def test_what_a_delegate_refuses_the_other_kernels_run(monkeypatch: pytest.MonkeyPatch) -> None:
    program, watched = layers()
    feed, other = samples(program, 2)
    wanted = seen(LiteRTRunner(program, watched, 1), watched, feed)
    monkeypatch.setattr(runners, "_interpreter", partial(refusing, runners._interpreter))
    runner = LiteRTRunner(program, watched, 1)
    for a, b in zip(wanted, seen(runner, watched, feed), strict=True):
        assert_allclose(a, b, atol=1e-5)
    assert not runner.is_delegated
    runner.run(other, "sample 1")


def test_what_no_kernel_runs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    program, watched = layers()
    (feed,) = samples(program, 1)
    open_model = runners._interpreter
    monkeypatch.setattr(runners, "_interpreter", lambda *given, delegates=True: Refusing(open_model(*given)))
    with pytest.raises(EngineUnavailable, match="LiteRT cannot run the float model: XNNPack delegate failed"):
        LiteRTRunner(program, watched, 1).run(feed, "sample 0")


def test_views_that_another_thread_holds_for_a_moment_change_no_kernel() -> None:
    """As a profiler does, which holds every frame that it looks at."""
    program, watched = layers()
    feed, other = samples(program, 2)
    runner = LiteRTRunner(program, watched, 1)
    runner.run(feed, "sample 0")
    held = [runner.view(t) for t in watched]
    timer = threading.Timer(0.1, held.clear)
    timer.start()
    try:
        runner.run(other, "sample 1")
        assert runner.is_delegated
        assert not held
    finally:
        timer.join()


def test_tensors_inside_of_a_loop_are_seen_in_every_turn() -> None:
    program = cell()
    body = program.subgraphs[2]
    both, w, bias = body.operators[1].outputs[0], *(t.array() for t in body.operators[2].inputs[1:])
    x = np.random.default_rng(5).standard_normal((1, INPUTS)).astype(np.float32)
    runner = runner_with_loops(program, [both, program.subgraphs[0].outputs[0]], 1)
    for _ in range(2):  # nothing is left of the run before
        runner.run({"x": x}, "sample 0")
        rows, h = [], np.zeros((1, UNITS), np.float32)
        for _ in range(STEPS):
            rows.append(np.concatenate([x, h], axis=1))
            h = np.tanh(rows[-1] @ w.T + bias)
        assert_allclose(runner.view(both), np.concatenate(rows), atol=1e-5)
        assert_allclose(runner.view(program.subgraphs[0].outputs[0]), h, atol=1e-5)


def test_a_loop_that_does_not_run_alone_shows_nothing() -> None:
    program = cell()
    body = program.subgraphs[2]
    body.operators[0] = Operator(
        "CUSTOM", body.operators[0].inputs, body.operators[0].outputs, custom_code="x"
    )
    watched = body.operators[1].outputs[0]
    with pytest.raises(EngineUnavailable):
        runner_with_loops(program, [watched], 1).run({"x": np.zeros((1, INPUTS), np.float32)}, "sample 0")
