"""Networks that PyTorch exports, read without it: what they compute, and what their .tflite files do."""

from __future__ import annotations

import contextlib
import importlib
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import thinflow  # noqa: E402
from tests.oracle._torch_more_ops import MORE  # noqa: E402
from tests.oracle._torch_networks import NETWORKS  # noqa: E402
from tests.oracle._torch_ops import OPS, Case, Of  # noqa: E402

importlib.import_module("torch.ao.quantization.fx._decomposed")  # registers its ops
with contextlib.suppress(ImportError):
    # PyTorch's progress bars would start a thread that outlives the tests.
    importlib.import_module("tqdm").tqdm.monitor_interval = 0
# PyTorch 2.13 warns of what it does itself when it takes a program apart.
pytestmark = pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")
DECOMPOSED = torch.ops.quantized_decomposed
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


def compared(case: Case, folder: Path, core: bool = True) -> set[str]:
    """The ops of a case's program, whose answers are PyTorch's, as exported and perhaps in core ATen."""
    model = case.function if isinstance(case.function, torch.nn.Module) else Of(case.function)
    expected = flat(model(*case.operands))
    program = torch.export.export(model.eval(), case.operands)
    for form in (program, program.run_decompositions()) if core else (program,):
        torch.export.save(form, str(folder / "model.pt2"))
        found = answers(folder / "model.pt2", [x.numpy() for x in case.operands], "reference")
        for y, wanted in zip(found, expected, strict=True):
            assert (y.shape, y.dtype) == (wanted.shape, wanted.dtype)
            np.testing.assert_allclose(y, wanted, 1e-4, 2e-5)
    return {str(node.target).removesuffix(".default") for node in program.graph.nodes}


@pytest.mark.parametrize("seed", range(1))
@pytest.mark.parametrize("name", OPS)
def test_ops(name: str, seed: int, tmp_path: Path) -> None:
    torch.manual_seed(seed)
    compared(OPS[name](random.Random(f"{name} {seed}")), tmp_path)


@pytest.mark.filterwarnings("ignore:torch.cholesky is deprecated")
@pytest.mark.parametrize("name", MORE)
def test_more_ops(name: str, tmp_path: Path) -> None:
    """As exported: core ATen has other ops in the place of most."""
    torch.manual_seed(0)
    for seed in range(3):
        case = MORE[name](random.Random(f"{name} {seed}"))
        assert f"aten.{name}" in compared(case, tmp_path, core=False)


class Quantized(torch.nn.Module):
    """A convolution and a dense layer as PyTorch's quantizer leaves them, with scales of their own."""

    def __init__(self) -> None:
        super().__init__()
        w = torch.randn(8, 3, 3, 3)
        self.register_buffer("scales", w.abs().amax((1, 2, 3)) / 127)
        self.register_buffer("zeros", torch.zeros(8, dtype=torch.int64))
        self.register_buffer(
            "w", DECOMPOSED.quantize_per_channel(w, self.scales, self.zeros, 0, -127, 127, torch.int8)
        )
        self.b, self.dense = torch.nn.Parameter(torch.randn(8)), torch.nn.Linear(8, 4)

    @staticmethod
    def rounded(x: torch.Tensor, scale: float, zero: int, low: int = -128) -> torch.Tensor:
        said = (scale, zero, low, 127, torch.int8)
        return DECOMPOSED.dequantize_per_tensor(DECOMPOSED.quantize_per_tensor(x, *said), *said)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.rounded(x, 0.02, 3)
        w = DECOMPOSED.dequantize_per_channel(self.w, self.scales, self.zeros, 0, -127, 127, torch.int8)
        y = self.rounded(torch.relu(torch.nn.functional.conv2d(x, w, self.b, padding=1)), 0.05, -128)
        y = self.rounded(y.mean((2, 3)), 0.02, -128)
        w = self.rounded(self.dense.weight, 0.003, 0, -127)
        return self.rounded(torch.nn.functional.linear(y, w, self.dense.bias), 0.01, 0)


@pytest.mark.parametrize("form", ["eager", "core"])
def test_quantized_programs_keep_their_scales(form: str, tmp_path: Path) -> None:
    """The .tflite computes in eight bits, by the scales of the program, and no calibration is needed."""
    torch.manual_seed(0)
    model, x = Quantized().eval(), torch.randn(1, 3, 8, 8)
    program = torch.export.export(model, (x,))
    path, made = tmp_path / "model.pt2", tmp_path / "model.tflite"
    torch.export.save(program if form == "eager" else program.run_decompositions(), str(path))
    expected = flat(model(x))[0]
    assert np.array_equal(answers(path, [x.numpy()], "reference")[0], expected)
    thinflow.convert(path, made)
    assert np.abs(answers(made, [x.numpy()], "litert")[0] - expected).max() <= 0.0101
    kinds = {n.op: n.inputs[0].dtype for n in thinflow.load(made, lift=False) if n.inputs}
    assert {str(kinds[f"tfl.{op}"]) for op in ("CONV_2D", "FULLY_CONNECTED")} == {"int8"}


class Counting(torch.nn.Module):
    """A number that grows, and a mean that moves."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))
        self.register_buffer("mean", torch.ones(2, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        self.mean.copy_(self.mean * 0.5 + x)
        return self.mean * self.count


@pytest.mark.parametrize("form", ["eager", "core"])
def test_buffers_that_change_are_kept_from_run_to_run(form: str, tmp_path: Path) -> None:
    model, xs = Counting(), [torch.randn(2, 3) for _ in range(4)]
    program = torch.export.export(model, (xs[0],))
    path = tmp_path / "model.pt2"
    torch.export.save(program if form == "eager" else program.run_decompositions(), str(path))
    session = thinflow.Session(thinflow.load(path, state="keep"), engine="reference")
    thinflow.convert(path, tmp_path / "model.tflite")
    other = thinflow.Session(tmp_path / "model.tflite", engine="litert")
    expected = [model(x).clone().numpy() for x in xs]
    for run in (session, other):
        (name,) = (n for n in run.inputs if n.endswith("x"))
        for x, wanted in zip(xs, expected, strict=True):
            np.testing.assert_allclose(run.run(None, {name: x.numpy()})[0], wanted, 1e-5)
