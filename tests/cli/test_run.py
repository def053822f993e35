"""`thinflow run`."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.cli import main


def test_made_up_input(model: str, capsys: pytest.CaptureFixture[str], paste: Callable[[str], int]) -> None:
    assert main(["run", model]) == 0
    first, values, last = capsys.readouterr().out.splitlines()
    assert first == "1 output of my digits.pb on made-up input, run by litert"
    assert values.startswith("probabilities  float32[1, 10]  top: [")
    assert last == "next: thinflow optimize 'my digits.pb' out"
    assert paste(last + " --no-benchmark --samples 2") == 0


def test_feed_and_save(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    np.save("x.npy", np.ones((1, 8, 8, 1), np.float32))
    results = []
    for engine in ("reference", "litert"):
        assert main(["run", model, "--feed", "image=x.npy", "--engine", engine, "--save", "o.npz"]) == 0
        assert f"on the given feed, run by {engine}" in capsys.readouterr().out
        with np.load("o.npz") as arrays:
            results.append(arrays["probabilities"])
    np.testing.assert_allclose(*results, atol=1e-5)


def test_a_missing_feed_is_told_in_plain_words(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", model, "--feed", "image=nothing.npy"]) == 1
    assert capsys.readouterr().err == "error: nothing.npy: there is no such file\nhint: check the path\n"


def test_json(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", model, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)["probabilities"]
    assert (data["dtype"], data["shape"], data["complete"]) == ("float32", [1, 10], True)
    assert sum(data["values"]) == pytest.approx(1, abs=1e-4)


def test_strings_come_out(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    thinflow.save(
        parse_graph("x = Placeholder() {dtype=float, shape=shape[2]}\ny = AsString(x) {T=float}"), "s.pb"
    )
    assert main(["run", "s.pb"]) == 0
    assert "y  object[2]  b'" in capsys.readouterr().out
    assert main(["run", "s.pb", "--json"]) == 0
    assert all(isinstance(v, str) for v in json.loads(capsys.readouterr().out)["y"]["values"])


def test_a_default_can_be_left_out(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = """
    x = Placeholder() {dtype=float, shape=shape[2]}
    d = Const() {dtype=float, value=float[]{3}}
    keep = PlaceholderWithDefault(d) {dtype=float, shape=shape[]}
    y = Mul(x, keep) {T=float}
    """
    thinflow.save(parse_graph(text), "d.pb")
    np.save("x.npy", np.array([1, 2], np.float32))
    assert main(["run", "d.pb", "--feed", "x=x.npy"]) == 0
    assert "y  float32[2]  top: [1] 6, [0] 3" in capsys.readouterr().out


def test_not_a_number_is_shown(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = """
    x = Placeholder() {dtype=float, shape=shape[1]}
    n = Const() {dtype=float, value=float[]{nan}}
    y = Mul(x, n) {T=float}
    """
    thinflow.save(parse_graph(text), "n.pb")
    assert main(["run", "n.pb"]) == 0
    assert "nan" in capsys.readouterr().out
