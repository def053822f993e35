"""PyTorch's well-known networks by every road: .onnx of both of its exporters, .pt2 in both dialects.

A few are always tried; all of them, by all roads, with THINFLOW_ALL_NETWORKS=1, which takes twenty minutes.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import thinflow  # noqa: E402
from tests.night import ALL_NETWORKS  # noqa: E402
from tests.oracle import (  # noqa: E402
    _torch_classifiers,
    _torch_language,
    _torch_pictures,
    _torch_seeing,
    _torch_sequences,
)
from tests.oracle._torch_zoo import ZOO, Network  # noqa: E402

assert all((_torch_classifiers, _torch_language, _torch_pictures, _torch_seeing, _torch_sequences))
pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.filterwarnings("default")]
ROADS = {"script": ".onnx", "dynamo": ".onnx", "eager": ".pt2", "core": ".pt2"}
"""Exporters by TorchScript and by torch.export; programs of the latter as they are, and in core ATen."""
_TRIED = [
    (n, r)
    for n, net in ZOO.items()
    for r in ROADS
    if ALL_NETWORKS or (net.quick and r in ("script", "eager"))
]
_NEVER = {
    ("ConvNeXt", "core"): "as_strided, by which core ATen says a pool of channels that lie last, is refused",
    ("LstmForecast", "script"): "PyTorch's exporter knows no projections",
    ("LstmForecast", "eager"): "projections are read in core ATen only",
    ("LstmForecast", "dynamo"): "the exporter writes a file that ONNX Runtime refuses, too",
    (
        "Seq2Seq",
        "dynamo",
    ): "the exporter writes another network: ONNX Runtime differs from PyTorch by a fifth",
    ("RetinaNet", "dynamo"): "the exporter forgets the weights of a norm that three pictures share",
}


def exported(net: Network, road: str, path: Path) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Export a network; what it was fed, and what PyTorch computes."""
    model, x = net.built()
    given: Any = {0: torch.export.Dim.DYNAMIC} if net.is_open else None
    shapes = tuple(given for _ in x) if net.is_open else None
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), torch.no_grad():
        warnings.simplefilter("ignore")
        expected = model(*x)
        if road == "script":
            names = [f"x{n}" for n in range(len(x))]
            axes = {n: {0: "batch"} for n in names} if net.is_open else None
            options = {"opset_version": net.opset, "input_names": names, "dynamic_axes": axes}
            torch.onnx.export(model, x, str(path), dynamo=False, **options)
        elif road == "dynamo":
            options = {"opset_version": 18, "dynamic_shapes": shapes, "external_data": False}
            torch.onnx.export(model, x, str(path), dynamo=True, verbose=False, **options)
        else:
            program = torch.export.export(model, x, dynamic_shapes=shapes)
            torch.export.save(program if road == "eager" else program.run_decompositions(), str(path))
    flat = [expected] if isinstance(expected, torch.Tensor) else list(expected)
    return [t.numpy() for t in x], [t.numpy() for t in flat]


def agree(found: list[Any], expected: list[np.ndarray]) -> None:
    for y, wanted in zip(found, expected, strict=True):
        assert np.shape(y) == wanted.shape
        assert np.abs(np.asarray(y, np.float64) - wanted).max() <= 1e-4 * np.abs(wanted).max()


@pytest.mark.parametrize(("name", "road"), _TRIED)
def test_network(name: str, road: str, tmp_path: Path) -> None:
    """The interpreter, LiteRT and ONNX Runtime compute what PyTorch does, each from a whole file."""
    if road == "dynamo" and importlib.util.find_spec("onnxscript") is None:
        pytest.skip("PyTorch's newer exporter needs onnxscript")
    if reason := _NEVER.get((name, road)):
        pytest.skip(reason)
    path = tmp_path / f"model{ROADS[road]}"
    fed, expected = exported(ZOO[name], road, path)
    for file, engine in ((path, "reference"), ("y.tflite", "litert"), ("y.onnx", "onnxruntime")):
        model = tmp_path / file
        if model != path:
            thinflow.convert(path, model, verify=False)
        session = thinflow.Session(model, engine=engine)
        found = session.run(None, dict(zip(session.inputs, fed, strict=True)))
        assert set(session.placement.values()) <= {engine}
        agree(found, expected)
