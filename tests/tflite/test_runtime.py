"""What LiteRT's kernels find on a processor."""

from __future__ import annotations

import builtins
import io
import os
from collections.abc import Iterator

import numpy as np
import pytest

import thinflow
from tests.lower.tflite.harness import Net
from thinflow.lower.tflite import convert
from thinflow.tflite import runtime as litert
from thinflow.tflite.runtime import multiplies_matrices


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    multiplies_matrices.cache_clear()
    yield
    multiplies_matrices.cache_clear()


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("model name\t: A\nflags\t\t: fpu avx512_vnni amx_tile amx_int8\n", True),
        ("model name\t: amx_int8\nflags\t\t: fpu avx512_vnni amx_tile\n", False),
        ("processor\t: 0\nFeatures\t: fp asimd asimddp i8mm\n", False),
    ],
)
def test_flags_of_the_processor(monkeypatch: pytest.MonkeyPatch, told: str, expected: bool) -> None:
    monkeypatch.setattr(builtins, "open", lambda *_, **__: io.StringIO(told))
    assert multiplies_matrices() is expected


def test_a_system_that_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(builtins, "open", missing)
    assert multiplies_matrices() is False


@pytest.mark.parametrize("has_unit", [True, False])
def test_sessions_are_for_the_processor_they_run_on(monkeypatch: pytest.MonkeyPatch, has_unit: bool) -> None:
    asked: list[bool] = []

    def lowered(*args: object, matrix_unit: bool = False, **options: object) -> convert.Lowered:
        asked.append(matrix_unit)
        return lower_graph(*args, matrix_unit=matrix_unit, **options)

    lower_graph = convert.lower_graph
    monkeypatch.setattr(convert, "lower_graph", lowered)
    monkeypatch.setattr(litert, "multiplies_matrices", lambda: has_unit)
    net = Net()
    y = net.op("Relu", net.feed(np.float32([[-1, 2]])))
    net.graph.inputs, net.graph.outputs = list(net.feeds), [y]
    session = thinflow.Session(net.graph, engine="litert")
    (result,) = session.run([y.name], {"x": np.float32([[-3, 4]])})
    assert result.tolist() == [[0, 4]]
    assert asked == [has_unit]


def test_the_banner_is_held_back_whenever_it_comes(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(litert, "_seen", False)
    # Reference kernels make no delegate: the first interpreter need not be the one that tells.
    for told in (b"", b"a warning\n", litert._BANNER + b" for CPU.\nof use\n"):
        with litert.quiet():
            os.write(2, told)
    assert capfd.readouterr().err == "a warning\nof use\n"
    with litert.quiet():
        os.write(2, litert._BANNER)
    assert capfd.readouterr().err == litert._BANNER.decode()


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "tflite/util.cc BytesRequired number of elements overflowed.\nDelegate failed to get tensor"
            "Node number 8 (D) failed to prepare.Node number 54 (IF) failed to prepare.",
            "tflite/util.cc BytesRequired number of elements overflowed; Delegate failed to get tensor;"
            " Node number 8 (D) failed to prepare; Node number 54 (IF) failed to prepare",
        ),
        (
            "axis must be in range [0, 1). Was 3.Tensor 33 has invalid axes.quantized_dimension is 1.5"
            ".Tensor 36 has invalid axes.Tensor 39 has invalid axes",
            "axis must be in range [0, 1). Was 3; Tensor 33 has invalid axes (and 2 more like it);"
            " quantized_dimension is 1.5",
        ),
        ("x" * 300, "x" * 240 + "..."),
        ("", ""),
    ],
)
def test_what_it_says_is_told_sentence_by_sentence(said: str, told: str) -> None:
    assert litert.told_apart(said) == told
