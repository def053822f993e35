"""Networks that PyTorch exports, read without it: what they compute, and what their .tflite files do."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import thinflow  # noqa: E402
from tests.oracle._torch_networks import NETWORKS  # noqa: E402
from tests.oracle._torch_ops import OPS, Case, Of  # noqa: E402

BATCH_SECOND = {"gru", "rnn"}
"""Recurrent layers that read [steps, batch, inputs]."""


def flat(results: Any) -> list[np.ndarray]:
    if isinstance(results, tuple | list):
        return [y for each in results for y in flat(each)]
    return [results.detach().numpy()]


def answers(path: Path, x: list[np.ndarray], engine: str) -> list[np.ndarray]:
    graph = thinflow.load(path)
    session = thinflow.Session(graph, engine=engine)
    found = session.run(
        [v.name for v in graph.outputs], dict(zip([v.name for v in graph.inputs], x, strict=True))
    )
    assert set(session.placement.values()) <= {engine}
    return [np.asarray(y) for y in found]


@pytest.mark.parametrize("form", ["eager", "core", "open batch"])
@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name: str, form: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    make, example = NETWORKS[name]
    model, x = make().eval(), example()
    sizes = {1 if name in BATCH_SECOND else 0: torch.export.Dim.DYNAMIC}
    shapes = ((sizes,),) if hasattr(model, "function") else (sizes,)
    program = torch.export.export(model, (x,), dynamic_shapes=shapes if form == "open batch" else None)
    if form == "core":
        program = program.run_decompositions()
    torch.export.save(program, str(tmp_path / "model.pt2"))
    expected = flat(model(x))
    for engine in ("reference", "litert"):
        for y, wanted in zip(answers(tmp_path / "model.pt2", [x.numpy()], engine), expected, strict=True):
            assert y.shape == wanted.shape
            assert np.abs(y - wanted).max() <= 1e-5 * np.abs(wanted).max()


@pytest.mark.parametrize("seed", range(1))
@pytest.mark.parametrize("name", OPS)
def test_ops(name: str, seed: int, tmp_path: Path) -> None:
    torch.manual_seed(seed)
    case: Case = OPS[name](random.Random(f"{name} {seed}"))
    model = case.function if isinstance(case.function, torch.nn.Module) else Of(case.function)
    expected = flat(model(*case.operands))
    program = torch.export.export(model.eval(), case.operands)
    for form in (program, program.run_decompositions()):
        torch.export.save(form, str(tmp_path / "model.pt2"))
        found = answers(tmp_path / "model.pt2", [x.numpy() for x in case.operands], "reference")
        for y, wanted in zip(found, expected, strict=True):
            assert (y.shape, y.dtype) == (wanted.shape, wanted.dtype)
            np.testing.assert_allclose(y, wanted, 1e-4, 2e-5)
