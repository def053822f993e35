"""PyTorch's ops between codes and real numbers, as `convert_pt2e` writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.formats.programs import archive, meta, node, payload, program, tensor

BYTES = {"as_scalar_type": 1}
RANGE = {"quant_min": {"as_int": 0}, "quant_max": {"as_int": 255}, "dtype": BYTES}
X = np.array([[-1.0, 0.4, 3.0], [0.26, 9.0, -7.0]], np.float32)


def op(name: str, outputs: list[str], **arguments: Any) -> dict[str, Any]:
    return node(f"torch.ops.quantized_decomposed.{name}", outputs, **arguments, **RANGE)


def answer(path: Path, engine: str = "reference", **fed: np.ndarray) -> np.ndarray:
    session = thinflow.Session(path, engine=engine)
    (y,) = session.run(None, dict(zip(session.inputs, fed.values(), strict=True)))
    return y


def test_codes_by_channel(tmp_path: Path) -> None:
    """Each row has a scale and a zero point of its own, whose names are in the plural."""
    by_row = {"scales": tensor("s"), "zero_points": tensor("z"), "axis": {"as_int": 0}}
    values = {"x": meta("float32", X.shape), "s": meta("float32", [2]), "z": meta("int64", [2])}
    values |= {"q": meta("uint8", X.shape), "y": meta("float32", X.shape)}
    nodes = [
        op("quantize_per_channel.default", ["q"], input=tensor("x"), **by_row),
        op("dequantize_per_channel.default", ["y"], input=tensor("q"), **by_row),
    ]
    path = archive(tmp_path / "net.pt2", program(nodes, values, ["y"], inputs=["x", "s", "z"]))
    y = answer(path, x=X, s=np.array([0.5, 2], np.float32), z=np.array([2, 3], np.int64))
    assert y.tolist() == [[-1, 0.5, 3], [0, 8, -6]]


def test_weights_are_rounded_by_the_inverse_of_their_scale(tmp_path: Path) -> None:
    """Where the quotient lies between two codes, the product may not."""
    rng = np.random.default_rng(3)
    w = rng.standard_normal((64, 1)).astype(np.float32)
    scale = np.abs(w[:, 0]) / np.float32(127.5)
    by_row = {"scales": tensor("p_s"), "zero_points": tensor("p_z"), "axis": {"as_int": 0}}
    kinds: list[tuple[str, str, np.ndarray]] = [
        ("w", "float32", w), ("s", "float32", scale), ("z", "int64", np.full(64, 128)),
    ]  # fmt: skip
    values = {f"p_{n}": meta(kind, x.shape) for n, kind, x in kinds}
    values |= {"x": meta("int64", [64, 1]), "q": meta("uint8", w.shape), "y": meta("int64", w.shape)}
    nodes = [
        op("quantize_per_channel.default", ["q"], input=tensor("p_w"), **by_row),
        node("add.Tensor", ["y"], self=tensor("x"), other=tensor("q")),
    ]
    stored = {f"file_{n}": x.tobytes() for n, _, x in kinds}
    weights = {n: payload(f"file_{n}", kind, x.shape) for n, kind, x in kinds}
    written = program(nodes, values, ["y"], weights=("w", "s", "z"))
    path = archive(tmp_path / "net.pt2", written, weights, stored)
    expected = (np.rint(w * (1 / scale)[:, None]) + 128).clip(0, 255)
    assert (np.rint(w / scale[:, None]) + 128).clip(0, 255).tolist() != expected.tolist()
    assert answer(path, x=np.zeros((64, 1), np.int64)).tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("kind", "scale", "zero"),
    [("choose_qparams", 16 / 255, 112), ("choose_qparams_symmetric", 18 / 255, 128)],
)
def test_codes_whose_scale_the_run_chooses(tmp_path: Path, kind: str, scale: float, zero: int) -> None:
    """By the range that holds all numbers and 0, in float32: what PyTorch states in float64 phones lack."""
    values = {"x": meta("float32", X.shape), "s": meta("float64", [1]), "z": meta("int64", [1])}
    values |= {"q": meta("uint8", X.shape), "y": meta("float32", X.shape)}
    chosen = {"scale": tensor("s"), "zero_point": tensor("z")}
    nodes = [
        op(f"{kind}.tensor", ["s", "z"], input=tensor("x"), eps={"as_float": 1e-6}),
        op("quantize_per_tensor.tensor", ["q"], input=tensor("x"), **chosen),
        op("dequantize_per_tensor.tensor", ["y"], input=tensor("q"), **chosen),
    ]
    path = archive(tmp_path / "net.pt2", program(nodes, values, ["y"]))
    expected = ((X / scale).round() + zero).clip(0, 255).astype(np.float32) - zero
    np.testing.assert_allclose(answer(path, x=X), expected * np.float32(scale), rtol=1e-5)
    thinflow.convert(path, tmp_path / "net.tflite")
    np.testing.assert_allclose(answer(tmp_path / "net.tflite", "litert", x=X), answer(path, x=X), rtol=1e-5)


def test_a_scale_whose_numbers_are_all_zero_is_the_smallest(tmp_path: Path) -> None:
    values = {"x": meta("float32", [2]), "s": meta("float64", [1]), "z": meta("int64", [1])}
    nodes = [op("choose_qparams.tensor", ["s", "z"], input=tensor("x"), eps={"as_float": 0.25})]
    path = archive(tmp_path / "net.pt2", program(nodes, values, ["s", "z"]))
    scale, zero = thinflow.Session(path, engine="reference").run(None, {"x": np.zeros(2, np.float32)})
    assert (scale.tolist(), zero.tolist()) == ([0.25], [0])
