"""The machine's peak: real products on every engine, and what is kept of them."""

from __future__ import annotations

import pytest

from thinflow.bench import roofline as module
from thinflow.bench.roofline import EIGHT_BIT, FLOAT, Peak, peak


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SECONDS", 0.0)
    monkeypatch.setattr(module, "_rates", {})
    monkeypatch.setattr(module, "SIZES", (32, 64))


@pytest.mark.parametrize("engine", ["litert", "onnxruntime"])
@pytest.mark.parametrize("kind", [FLOAT, EIGHT_BIT])
def test_every_engine_has_a_product_of_each_kind(engine: str, kind: str) -> None:
    pytest.importorskip("ai_edge_litert" if engine == "litert" else engine)
    found = peak(kind, 1, [engine])
    assert found is not None
    assert found.rate > 0
    assert found.by in (engine, "numpy")
    assert module._rates[kind, 1, engine] > 0


def test_the_reference_has_numpys_product_in_float_only() -> None:
    found = peak(FLOAT, 1, ["reference"])
    assert found is not None
    assert found.by == "numpy"
    assert peak(EIGHT_BIT, 1, ["reference"]) is None


def test_it_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, int, str]] = []

    def measured(kind: str, threads: int, by: str) -> float:
        calls.append((kind, threads, by))
        return 1e9 * len(calls)

    monkeypatch.setattr(module, "_measured", measured)
    assert peak(FLOAT, 2, ["litert"]) == peak(FLOAT, 2, ["litert"])
    assert sorted(calls) == [(FLOAT, n, by) for n in (1, 2) for by in ("litert", "numpy")]
    # What was seen to be faster is no lie: it is measured again, and the best is kept.
    again = peak(FLOAT, 2, ["litert"], at_least=1e12)
    assert len(calls) == 16
    assert again is not None
    assert again.rate == 16e9


def test_a_missing_engine_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(kind: str, threads: int, size: int) -> object:
        raise ImportError(kind)

    monkeypatch.setitem(module._PRODUCTS, "litert", missing)
    assert peak(EIGHT_BIT, 1, ["litert"]) is None


def test_the_fastest_of_some_sizes_is_the_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    """A product of 1024 rows takes longer than a busy machine leaves a core alone, and tells half of it."""
    monkeypatch.setattr(module, "SIZES", (256, 1024))
    sizes: list[int] = []

    def product(kind: str, threads: int, size: int) -> object:
        sizes.append(size)
        return lambda: None

    monkeypatch.setitem(module._PRODUCTS, "litert", product)
    monkeypatch.setattr(
        module, "_shortest", lambda run: 2 * sizes[-1] ** 3 / {256: 80e9, 1024: 42e9}[sizes[-1]]
    )
    found = peak(EIGHT_BIT, 1, ["litert"])
    assert found is not None
    assert found.rate == 80e9
    assert sizes == [256, 1024]


def test_in_words() -> None:
    assert (
        str(Peak(FLOAT, 1, 161e9, "litert"))
        == "161 GFLOP/s in float32 on 1 thread, a matrix product by litert"
    )
    assert str(Peak(EIGHT_BIT, 2, 3.64e12, "x")).startswith("3640 GOP/s in int8 on 2 threads")
