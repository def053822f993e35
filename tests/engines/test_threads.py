"""Numbers of threads reach the engines: told by what the system and the libraries say, not by the clock."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from thinflow.engines._threads import blas, inter_op_threads, side_by_side
from thinflow.errors import FeedError
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.types import FLOAT, TensorSpec
from thinflow.ops import registry
from thinflow.ops.registry import OpDef
from thinflow.ops.traits import classes

SOURCE = Path(thinflow.__file__).parents[1]
COUNT = """
import json, os, sys
import numpy as np
import thinflow
path, engine, threads, at_once = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
def count():
    return len(os.listdir("/proc/self/task"))
x = {"x": np.ones((1, 64, 64, 8), np.float32)}
thinflow.Session(path, engine).run(None, x)  # what the engine starts whatever it is told
before = count()
session = thinflow.Session(path, engine, threads, inter_op_threads=at_once)
session.run(None, x)
print(json.dumps(count() - before))
"""


def convolution() -> thinflow.Graph:
    graph = thinflow.Graph()
    x = graph.add(
        "Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((1, 64, 64, 8))}
    ).output()
    w = graph.constant(np.ones((3, 3, 8, 32), np.float32), "w")
    y = graph.add("Conv2D", [x, w], "y", attrs={"strides": [1, 1, 1, 1], "padding": "SAME"}).output()
    graph.inputs, graph.outputs = [x], [y]
    return graph


def threads_started(path: Path, engine: str, threads: int, at_once: int = 1) -> int:
    """What a session adds to the threads of a fresh process that has had one on a single thread before."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, "-c", COUNT, str(path), engine, str(threads), str(at_once)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=120)
    found: int = json.loads(done.stdout)
    return found


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="the system does not tell its threads")
@pytest.mark.parametrize("engine", ["litert", "onnxruntime"])
@pytest.mark.parametrize("suffix", [".pb", ""])
def test_an_engine_starts_as_many_threads_as_it_is_told(tmp_path: Path, engine: str, suffix: str) -> None:
    pytest.importorskip("ai_edge_litert" if engine == "litert" else engine)
    own = {"litert": ".tflite", "onnxruntime": ".onnx"}[engine]
    path = tmp_path / f"m{suffix or own}"
    thinflow.save(convolution(), path)
    assert threads_started(path, engine, 1) == 0
    assert threads_started(path, engine, 4) == 3  # and the one that asks


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="the system does not tell its threads")
def test_onnxruntime_has_threads_that_run_nodes_side_by_side(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    for suffix in (".pb", ".onnx"):
        thinflow.save(convolution(), tmp_path / f"m{suffix}")
        assert threads_started(tmp_path / f"m{suffix}", "onnxruntime", 1, 3) >= 2


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[int]]]:
    """What numpy's matrix library was told whenever the op `Watch` ran."""
    if not blas().is_controllable:
        pytest.skip("numpy's matrix library heeds no number of threads")
    found: list[list[int]] = []

    class Watch(OpDef):
        @staticmethod
        def infer(x: TensorSpec) -> TensorSpec:
            return x

        @staticmethod
        def kernel(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
            from threadpoolctl import threadpool_info

            found.append([info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"])
            return x

    registry.op("Watch")(Watch)
    yield found
    classes._found.pop("Watch", None)


def watched() -> thinflow.Graph:
    graph = thinflow.Graph()
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((2,))}).output()
    graph.inputs, graph.outputs = [x], [graph.add("Watch", [x], "y").output()]
    return graph


@pytest.mark.parametrize("engine", ["reference", "litert"])
def test_the_interpreters_products_keep_to_the_number(engine: str, seen: list[list[int]]) -> None:
    before = [library.get_num_threads() for library in blas()._libraries]
    for threads in (1, 2):
        thinflow.Session(watched(), engine, threads).run(["y"], {"x": np.zeros(2, np.float32)})
        assert seen[-1]
        assert set(seen[-1]) == {threads}
    assert [library.get_num_threads() for library in blas()._libraries] == before


def test_the_last_one_who_leaves_puts_the_number_back() -> None:
    if not blas().is_controllable:
        pytest.skip("numpy's matrix library heeds no number of threads")
    library = blas()._libraries[0]
    before = library.get_num_threads()
    first, second = blas().limited(1), blas().limited(2)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert library.get_num_threads() == 2
    second.__exit__(None, None, None)
    assert library.get_num_threads() == before


def test_nodes_side_by_side_are_asked_for_around_the_preparation() -> None:
    assert inter_op_threads() == 1
    with side_by_side(3):
        assert inter_op_threads() == 3
    assert inter_op_threads() == 1


@pytest.mark.parametrize("options", [{"threads": 0}, {"inter_op_threads": 0}])
def test_no_threads_run_nothing(options: dict[str, int]) -> None:
    with pytest.raises(FeedError, match="0 threads cannot run anything"):
        thinflow.Session(convolution(), "reference", **options)  # type: ignore[arg-type]


def test_inside_another_the_outer_number_comes_back() -> None:
    if not blas().is_controllable:
        pytest.skip("numpy's matrix library heeds no number of threads")
    library = blas()._libraries[0]
    with blas().limited(1):
        with blas().limited(2):
            assert library.get_num_threads() == 2
        assert library.get_num_threads() == 1


def test_the_main_job_multiplies_in_one_thread(seen: list[list[int]], tmp_path: Path) -> None:
    thinflow.optimize(watched(), tmp_path, measure=False)
    assert seen
    assert {count for counts in seen for count in counts} == {1}
