"""ONNX's reductions and running sums beside ONNX Runtime, at random."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.lift.onnx.models import agree, lifted, node, reference, save
from tests.lift.onnx.single import Single

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

OPS = ["Mean", "Sum", "Prod", "Max", "Min", "L1", "L2", "SumSquare", "LogSum", "LogSumExp"]


def array(rng: np.random.Generator, rank: int, kind: Any = np.float32) -> np.ndarray:
    shape = tuple(rng.integers(1, 5, rank))
    if kind is np.float32:
        return (rng.random(shape) + 0.1).astype(kind)
    return rng.integers(1, 6, shape).astype(kind)


@pytest.mark.parametrize("given", ["option", "constant", "fed"])
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("seed", range(5))
def test_reductions(tmp_path: Path, op: str, given: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 5))
    x = array(rng, rank)
    axes = rng.permutation(rank)[: rng.integers(1, rank + 1)]
    axes = np.where(rng.random(axes.size) < 0.4, axes - rank, axes).astype(np.int64)
    options: dict[str, Any] = {"keepdims": seed % 2}
    fed, constants = [x], []
    if given == "option":
        options["axes"] = axes.tolist()
    elif given == "fed":
        fed.append(axes)
    else:
        constants.append(axes)
    opset = 18 if given != "option" else 12
    open_axes = range(rank) if seed > 2 else ()
    Single(f"Reduce{op}", fed, constants, options, opset=opset, open_axes=open_axes).check(tmp_path)


@pytest.mark.parametrize("noop", [0, 1])
@pytest.mark.parametrize("is_fed", [False, True])
@pytest.mark.parametrize("op", OPS)
def test_reductions_over_no_axes(tmp_path: Path, op: str, is_fed: bool, noop: int) -> None:
    x, none = array(np.random.default_rng(1), 3), np.zeros(0, np.int64)
    options = {"noop_with_empty_axes": noop}
    fed, constants = ([x, none], []) if is_fed else ([x], [none])
    if noop and op not in {"Sum", "Mean", "Prod", "Max", "Min"}:
        # The runtime leaves out the functions around the reduction, which the standard asks for since.
        return
    Single(f"Reduce{op}", fed, constants, options, opset=18).check(tmp_path)
    Single(f"Reduce{op}", [x], [], options, opset=18).check(tmp_path)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_as_many_axes_as_the_run_has(tmp_path: Path, count: int) -> None:
    x, axes = array(np.random.default_rng(2), 3), np.arange(count, dtype=np.int64)
    path = save(tmp_path / "m.onnx", [node("ReduceSum", ["x", "axes"], ["y"])], {"x": x, "axes": axes}, ["y"],
                shapes={"axes": ["n"]})  # fmt: skip
    feed = {"x": x, "axes": axes}
    agree(reference(path, feed), lifted(path, feed))


@pytest.mark.parametrize("op", ["L2", "LogSum", "LogSumExp", "Mean", "SumSquare"])
def test_whole_numbers(tmp_path: Path, op: str) -> None:
    x = array(np.random.default_rng(4), 2, np.int32)
    Single(f"Reduce{op}", [x], [np.int64([1])], opset=18).check(tmp_path)


@pytest.mark.parametrize("op", ["Max", "Min"])
def test_bools_and_nothing(tmp_path: Path, op: str) -> None:
    x = np.array([[True, False], [True, True], [False, False]])
    Single(f"Reduce{op}", [x], [np.int64([1])], opset=20).check(tmp_path, "litert")
    nothing = np.zeros((2, 0, 3), np.float32)
    Single(f"Reduce{op}", [nothing], [np.int64([1])], opset=20).check(tmp_path)


@pytest.mark.parametrize("is_fed", [False, True])
@pytest.mark.parametrize("flags", [{}, {"exclusive": 1}, {"reverse": 1}, {"exclusive": 1, "reverse": 1}])
@pytest.mark.parametrize("axis", [0, -1, 1])
def test_running_sums(tmp_path: Path, axis: int, flags: dict[str, int], is_fed: bool) -> None:
    x, which = array(np.random.default_rng(5), 3), np.array(axis, np.int64)
    fed, constants = ([x, which], []) if is_fed else ([x], [which])
    Single("CumSum", fed, constants, flags).check(tmp_path)
    case = Single("CumProd", fed, constants, flags, opset=26)
    np.testing.assert_allclose(case.run(tmp_path), case.defined()[0], rtol=1e-5)
