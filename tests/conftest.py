"""Fixtures and running order for all tests."""

from __future__ import annotations

import gc
import importlib.util
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from thinflow.engines.onnxruntime import products_may_overflow

if TYPE_CHECKING:
    import numpy as np

ROOT = Path(__file__).resolve().parents[1]

# What a shell starts in the background ignores Ctrl-C, and so do its children; some tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Derandomized, so that a red run is red again; a slow shared machine must not fail a test.
settings.register_profile(
    "ci", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)
settings.load_profile("ci")


# Beside ONNX Runtime's eight-bit products, which are wrong on x86 without VNNI even with the option that
# shall mend that (onnxruntime 1.32), and beside its last digits, which differ there.
PRODUCTS = frozenset(
    f"tests/{name}.py"
    for name in (
        "decompose/test_special",
        "engines/test_classic_eight_bit",
        "lift/onnx/test_contrib_attention",
        "lift/onnx/test_contrib_quantized",
        "lift/onnx/test_runtime_quantized",
        "lower/onnx/test_accumulators",
        "lower/onnx/test_quantized_context",
        "lower/test_code_deviation",
        "optimize/test_layer_errors",
        "quantize/kernels/test_onnx",
    )
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lies in tests/oracle, skip what is wrong on this processor, and run the quick tests first."""
    has_tensorflow = importlib.util.find_spec("tensorflow") is not None
    is_wrong = products_may_overflow() and "NOSKIP" not in os.environ
    for item in items:
        if is_wrong and os.path.relpath(item.path, ROOT).replace(os.sep, "/") in PRODUCTS:
            item.add_marker(
                pytest.mark.skip(reason="eight-bit products of ONNX Runtime overflow here: no VNNI")
            )
        if ROOT / "tests" / "oracle" in item.path.parents:
            item.add_marker(pytest.mark.oracle)
        if item.get_closest_marker("oracle") and not has_tensorflow:
            item.add_marker(pytest.mark.skip(reason="TensorFlow is not installed; 'make oracle' installs it"))
    items.sort(key=_cost)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Some millions of objects of tests stay until the end: collecting garbage shall not go through them."""
    _spare_what_is_left()


def _spare_what_is_left() -> None:
    gc.collect()
    gc.freeze()


def _cost(item: pytest.Item) -> int:
    """0 for most tests; more for whole graphs and examples, then `slow`, then `oracle`."""
    if item.get_closest_marker("oracle"):
        return 3
    if item.get_closest_marker("slow"):
        return 2
    whole_graphs = {"conformance", "examples", "test_conformance.py", "test_examples.py"}
    return 1 if whole_graphs.intersection(item.path.parts[len(ROOT.parts) :]) else 0


@pytest.fixture(scope="session")
def project_root() -> Path:
    """The folder with pyproject.toml."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """Reference models and graphs kept beside the project; the test is skipped where they are absent."""
    folder = Path(os.environ.get("THINFLOW_SHARED") or ROOT.parent / "shared")
    if not folder.is_dir():
        pytest.skip("no ../shared with reference models (or set THINFLOW_SHARED)")
    return folder


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers, the same ones in every run."""
    import numpy as np

    return np.random.default_rng(20160613)


@pytest.fixture
def every_region_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines run whatever they can, however little it saves."""
    from thinflow.engines import partition

    monkeypatch.setattr(partition, "too_small", lambda _: "")


@pytest.fixture(scope="session", autouse=True)
def _imports_start_no_thread() -> None:
    """All test modules are imported by now; libraries that report home do so by a thread."""
    started = [t.name for t in threading.enumerate() if t is not threading.main_thread()]
    assert not started, f"a test module's imports have started threads: {started}"


@pytest.fixture(scope="module", autouse=True)
def _garbage_is_gone() -> Iterator[None]:
    """Each benchmark collects garbage before it measures, which would take seconds behind thousands of tests:
    what pytest and caches keep of those is not looked at again.
    """
    yield
    _spare_what_is_left()


@pytest.fixture(scope="module", autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    """A thread that outlives its module keeps all later tests of the process from forks."""
    before = set(threading.enumerate())
    yield
    deadline = time.monotonic() + 5
    while (left := {t for t in threading.enumerate() if t not in before and t.is_alive()}) and (
        time.monotonic() < deadline
    ):
        time.sleep(0.05)
    assert not left, f"threads that outlive the module's tests: {sorted(t.name for t in left)}"
