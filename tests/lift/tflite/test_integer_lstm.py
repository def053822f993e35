"""LiteRT's LSTM of eight-bit codes in the interpreter: bit by bit as in LiteRT, from run to run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.night import some
from thinflow.api import convert_verified
from thinflow.errors import PartialModel, UnsupportedOp
from thinflow.ir.types import FLOAT, INT8, INT32, DType, dtype
from thinflow.ops._fixed_point import inverse_root, quantized_multiplier, sigmoid_table, tanh_table
from thinflow.tflite.model import Operator, Program, Quantization, Subgraph, Tensor
from thinflow.tflite.reader import read_program
from thinflow.tflite.writer import to_bytes

pytest.importorskip("ai_edge_litert")
BATCH, STEPS, INPUTS, UNITS, OUTPUTS = 3, 9, 5, 8, 6
INT16 = dtype("int16")


class Made:
    """Tensors of one op, drawn at random."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.count = 0

    def tensor(
        self, shape: tuple[int, ...], kind: DType, scale: float = 0.0, zero: int = 0, **more: Any
    ) -> Tensor:
        self.count += 1
        grid = Quantization((scale,), (zero,)) if scale else None
        return Tensor(f"t{self.count}", shape, kind, quantization=grid, **more)

    def const(self, shape: tuple[int, ...], kind: DType, scale: float, most: int, least: int = 0) -> Tensor:
        made = self.tensor(shape, kind, scale)
        made.data = self.rng.integers(least or -most, most, shape, endpoint=True).astype(kind.numpy())
        return made


def model(
    path: Path,
    *,
    time_major: bool = True,
    cifg: bool = False,
    peephole: bool = False,
    project: bool = False,
    norms: bool = False,
    clip: float = 0.0,
    cell_power: int = -11,
    hidden_zero: int = 0,
    seed: int = 0,
) -> str:
    b = Made(seed)
    outs = OUTPUTS if project else UNITS
    found: list[Tensor | None] = [None] * 24
    lead = (STEPS, BATCH) if time_major else (BATCH, STEPS)
    found[0] = x = Tensor("x", (*lead, INPUTS), INT8, quantization=Quantization((0.02,), (7,)))
    for n in range(cifg, 4):
        found[1 + n] = b.const((UNITS, INPUTS), INT8, 0.011 + n / 1000, 127)
        found[5 + n] = b.const((UNITS, outs), INT8, 0.008 + n / 1000, 127)
        found[12 + n] = b.const((UNITS,), INT32, 2e-4, 4000)
        if norms:
            found[20 + n] = b.const((UNITS,), INT16, 3e-5, 32767, 5000)
    for n in range(cifg, 3) if peephole else ():
        found[9 + n] = b.const((UNITS,), INT16, 4e-5, 32767)
    if project:
        found[16], found[17] = (
            b.const((outs, UNITS), INT8, 0.009, 127),
            b.const((outs,), INT32, 7e-5, 3000),
        )
    found[18] = b.tensor((BATCH, outs), INT8, 0.007, -5, is_variable=True)
    found[19] = b.tensor((BATCH, UNITS), INT16, 2.0**cell_power, is_variable=True)
    gates = [b.tensor((), INT16, 0.0004 + n / 20000) if norms else b.tensor((), FLOAT) for n in range(4)]
    hidden = b.tensor((), INT8, 0.0075, hidden_zero)
    y = Tensor("y", (*lead, outs), INT8, quantization=Quantization((0.007,), (-5,)))
    options = {
        "fused_activation_function": "TANH",
        "time_major": time_major,
        "cell_clip": clip,
        "proj_clip": clip,
    }
    code = "UNIDIRECTIONAL_SEQUENCE_LSTM"
    operands = found if norms else found[:20]
    operator = Operator(code, operands, [y], options, intermediates=[*gates, hidden])
    path.write_bytes(to_bytes(Program([Subgraph([x], [y], [operator])])))
    return str(path)


VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "batch major": {"time_major": False},
    "coupled": {"cifg": True},
    "peepholes": {"peephole": True},
    "projected": {"project": True},
    "projected from a zero far off": {"project": True, "hidden_zero": 90},
    "projected from a moved zero": {"project": True, "hidden_zero": 9},
    "a moved zero": {"hidden_zero": 9},
    "norms": {"norms": True},
    "norms and peepholes": {"norms": True, "peephole": True},
    "bounds": {"project": True, "clip": 0.4},
    "a wide cell": {"cell_power": -9},
    "a narrow cell": {"cell_power": -15},
    "everything": {
        "cifg": True,
        "project": True,
        "norms": True,
        "clip": 0.9,
        "hidden_zero": -3,
        "time_major": False,
    },
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("seed", [0, 1])
def test_it_and_litert_agree_bit_by_bit(variant: str, seed: int, tmp_path: Path) -> None:
    path = model(tmp_path / "m.tflite", **VARIANTS[variant], seed=seed)
    first, second = thinflow.Session(path), thinflow.Session(path, "reference")
    rng = np.random.default_rng(seed)
    different = 0
    for run in range(3):
        shape = first.inputs["x"].shape
        feed = {"x": rng.integers(-128, 127, shape, np.int8, endpoint=True)}
        (expected,), (found,) = first.run(None, feed), second.run(None, feed)
        np.testing.assert_array_equal(found, expected, err_msg=f"run {run}")
        different += len(np.unique(expected))
    assert different > 30, "the model says nothing"


def test_it_begins_anew_after_a_restart(tmp_path: Path) -> None:
    session = thinflow.Session(model(tmp_path / "m.tflite"), "reference")
    feed = {"x": np.full((STEPS, BATCH, INPUTS), 40, np.int8)}
    (one,), (two,) = session.run(None, feed), session.run(None, feed)
    assert not np.array_equal(one, two)
    session.restart()
    assert np.array_equal(session.run(None, feed)[0], one)


def test_kinds_that_are_not_known_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedOp, match="the scale of its cell is no power of two, or too large"):
        thinflow.Session(model(tmp_path / "m.tflite", cell_power=-8), "reference")
    with pytest.raises(UnsupportedOp, match=r"is 2\^-16, of which LiteRT's kernel knows no tangent"):
        thinflow.Session(model(tmp_path / "m.tflite", cell_power=-16), "reference")
    with pytest.raises(UnsupportedOp, match="peepholes and fewer outputs than units"):
        thinflow.Session(model(tmp_path / "m.tflite", peephole=True, project=True), "reference")


def test_the_tables_are_what_they_stand_for() -> None:
    x = np.arange(-(1 << 15), 1 << 15)
    assert np.abs(sigmoid_table() / 2**15 - 1 / (1 + np.exp(-x / 2**12))).max() < 3e-4
    for bits in range(7):
        assert np.abs(tanh_table(bits) / 2**15 - np.tanh(x / 2.0 ** (15 - bits))).max() < 5e-4


def test_factors_and_roots() -> None:
    for factor in (1.0, 0.3, 1e-5, 7.25, 1 - 2**-40):
        m, shift = quantized_multiplier(factor)
        assert m * 2.0 ** (shift - 31) == pytest.approx(factor, rel=1e-9)
    assert quantized_multiplier(0.0) == quantized_multiplier(1e-12) == (0, 0)
    for number in (2, 5, 12345, 2**30):
        m, shift = inverse_root(number)
        assert m * 2.0 ** (shift - 31) == pytest.approx(number**-0.5, rel=1e-5)
    assert inverse_root(0) == inverse_root(1)


# --- out again ----------------------------------------------------------------------------------------------


def differences(first: str, second: str, runs: int = 3, *, anew: bool = False) -> int:
    """Codes that differ between two files over some runs in a row, both in LiteRT or ONNX Runtime."""
    one, two = thinflow.Session(first), thinflow.Session(second)
    rng, different = np.random.default_rng(3), 0
    for _ in range(runs):
        x = rng.integers(-128, 127, one.inputs["x"].shape, np.int8, endpoint=True)
        if anew:
            one.restart()
        (expected,), (found,) = one.run(None, {"x": x}), two.run(None, {"x": x})
        assert found.dtype == expected.dtype
        different += int((found != expected).sum())
    return different


@pytest.mark.parametrize("variant", some([*VARIANTS], 3))
def test_it_becomes_the_fused_op_again(variant: str, tmp_path: Path) -> None:
    path, made = model(tmp_path / "m.tflite", **VARIANTS[variant]), str(tmp_path / "made.tflite")
    said = convert_verified(path, made, state="keep", strict=True)
    assert "agrees with m.tflite itself in LiteRT, largest relative difference 0" in said.proof
    assert differences(path, made) == 0
    # As in the file: the op keeps its state itself, and nothing else is there.
    (first,), (again,) = ([*read_program(Path(p).read_bytes()).subgraphs[0].operators] for p in (path, made))
    assert [t is None for t in first.inputs] == [t is None for t in again.inputs]
    for one, two in zip([*first.inputs, *first.outputs], [*again.inputs, *again.outputs], strict=True):
        assert one is None or (one.shape, one.dtype, one.is_variable) == (
            two.shape,
            two.dtype,
            two.is_variable,
        )
        if one is not None and one.dtype is not INT32:
            assert one.quantization.scale == two.quantization.scale
            assert one.quantization.zero_point == two.quantization.zero_point
        if one is not None and one.is_constant:
            np.testing.assert_array_equal(one.array(), two.array())


@pytest.mark.parametrize("variant", ["plain", "everything"])
def test_every_run_begins_anew_where_state_is_frozen(variant: str, tmp_path: Path) -> None:
    path, made = model(tmp_path / "m.tflite", **VARIANTS[variant]), str(tmp_path / "made.tflite")
    convert_verified(path, made, state="freeze", strict=True)
    assert differences(path, made, anew=True) == 0


def test_its_state_can_be_inputs_and_outputs(tmp_path: Path) -> None:
    path, made = model(tmp_path / "m.tflite"), str(tmp_path / "made.tflite")
    convert_verified(path, made, state="inputs", strict=True)
    one, two = thinflow.Session(path), thinflow.Session(made)
    names = [n for n in two.inputs if n != "x"]
    held = {
        n: np.full(two.inputs[n].shape, -5 if two.inputs[n].dtype is INT8 else 0, np.int16) for n in names
    }
    rng = np.random.default_rng(5)
    for _ in range(3):
        x = rng.integers(-128, 127, one.inputs["x"].shape, np.int8, endpoint=True)
        fed = {n: a.astype(two.inputs[n].dtype.numpy()) for n, a in held.items()}
        found = dict(zip(two.outputs, two.run(None, {"x": x, **fed}), strict=True))
        np.testing.assert_array_equal(found.pop("y"), one.run(None, {"x": x})[0])
        held = {n: found[f"{n}/next"] for n in names}


@pytest.mark.parametrize(
    "variant", some([v for v, options in VARIANTS.items() if not options.get("norms")], 3)
)
def test_onnx_runtime_computes_it_bit_by_bit(variant: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    path, made = model(tmp_path / "m.tflite", **VARIANTS[variant]), str(tmp_path / "made.onnx")
    convert_verified(path, made, state="freeze", strict=True)
    assert differences(path, made, anew=True) == 0


def test_a_layer_norm_of_codes_has_no_form_in_onnx(tmp_path: Path) -> None:
    path = model(tmp_path / "m.tflite", norms=True)
    with pytest.raises(PartialModel, match="there is no form of its layer norm in plain ops"):
        convert_verified(path, tmp_path / "made.onnx", state="freeze", strict=True)
