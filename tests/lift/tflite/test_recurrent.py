"""LiteRT's recurrent ops in the interpreter: it and LiteRT agree."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import thinflow
from thinflow.cli import main
from thinflow.errors import UnsupportedOp
from thinflow.ir.types import FLOAT, INT8
from thinflow.tflite.model import Operator, Program, Quantization, Subgraph, Tensor
from thinflow.tflite.writer import to_bytes

pytest.importorskip("ai_edge_litert")
Array = np.ndarray
BATCH, STEPS, INPUTS, UNITS, OUTPUTS = 2, 5, 3, 4, 3


class Builder:
    """Operands of one op, by their places."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.count = 0

    def const(self, *shape: int, codes: bool = False) -> Tensor:
        self.count += 1
        data = (self.rng.standard_normal(shape) * 0.5).astype(np.float32)
        if not codes:
            return Tensor(f"c{self.count}", shape, FLOAT, data)
        scale = float(np.abs(data).max() / 127)
        stored = np.rint(data / scale).astype(np.int8)
        return Tensor(f"c{self.count}", shape, INT8, stored, quantization=Quantization((scale,), (0,)))

    def state(self, *shape: int) -> Tensor:
        self.count += 1
        return Tensor(f"s{self.count}", shape, FLOAT, is_variable=True)


def weights(
    b: Builder, *, cifg: bool = False, peephole: bool = False, project: bool = False, codes: bool = False
) -> list:
    """Operands 1 to 17 of an LSTM."""
    out = OUTPUTS if project else UNITS
    own = range(cifg, 4)
    found: list[Tensor | None] = [None] * 17
    for n in own:
        found[n] = b.const(UNITS, INPUTS, codes=codes)
        found[4 + n] = b.const(UNITS, out, codes=codes)
        found[11 + n] = b.const(UNITS)
    if peephole:
        for n in (0, 1, 2)[cifg:]:
            found[8 + n] = b.const(UNITS)
    if project:
        found[15], found[16] = b.const(out, UNITS, codes=codes), b.const(out)
    return found


def written(path: Path, code: str, operands: list, outputs: Sequence[tuple[int, ...]], options: dict) -> str:
    x = operands[0]
    ys = [Tensor(f"y{n}", shape, FLOAT) for n, shape in enumerate(outputs)]
    inputs = [t for t in operands if t is not None and t.name.startswith("x")]
    program = Program([Subgraph(inputs, ys, [Operator(code, operands, ys, options)])])
    path.write_bytes(to_bytes(program))
    assert x in inputs
    return str(path)


def both(path: str, seed: int = 1) -> tuple[list[Array], list[Array]]:
    """What LiteRT and the interpreter give."""
    first, second = thinflow.Session(path), thinflow.Session(path, "reference")
    rng = np.random.default_rng(seed)
    feed = {n: rng.standard_normal(s.shape).astype(np.float32) for n, s in first.inputs.items()}
    return first.run(None, feed), second.run(None, feed)


def agree(path: str, tolerance: float = 1e-5) -> None:
    expected, found = both(path)
    assert len(expected) == len(found)
    for a, b in zip(expected, found, strict=True):
        assert a.shape == b.shape
        assert np.abs(a).max() > 0.01
        np.testing.assert_allclose(b, a, rtol=0, atol=tolerance)


VARIANTS = {
    "plain": {},
    "coupled": {"cifg": True},
    "peephole": {"peephole": True},
    "projected": {"project": True},
    "everything": {"cifg": True, "peephole": True, "project": True},
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("time_major", [True, False])
@pytest.mark.parametrize("clip", [0.0, 0.3])
def test_sequence_lstm(variant: str, time_major: bool, clip: float, tmp_path: Path) -> None:
    b, chosen = Builder(), VARIANTS[variant]
    out = OUTPUTS if chosen.get("project") else UNITS
    lead = (STEPS, BATCH) if time_major else (BATCH, STEPS)
    states = [b.state(BATCH, out), b.state(BATCH, UNITS)]
    operands = [Tensor("x", (*lead, INPUTS), FLOAT), *weights(b, **chosen), *states]
    options = {
        "fused_activation_function": "TANH",
        "time_major": time_major,
        "cell_clip": clip,
        "proj_clip": clip,
    }
    agree(written(tmp_path / "m.tflite", "UNIDIRECTIONAL_SEQUENCE_LSTM", operands, [(*lead, out)], options))


@pytest.mark.parametrize("cifg", [False, True])
def test_layer_norms(cifg: bool, tmp_path: Path) -> None:
    b = Builder()
    norms = [None if n < cifg else b.const(UNITS) for n in range(4)]
    operands = [
        *(Tensor("x", (STEPS, BATCH, INPUTS), FLOAT), *weights(b, cifg=cifg)),
        *(b.state(BATCH, UNITS), b.state(BATCH, UNITS), *norms),
    ]
    options = {"fused_activation_function": "TANH", "time_major": True}
    shape = (STEPS, BATCH, UNITS)
    agree(written(tmp_path / "m.tflite", "UNIDIRECTIONAL_SEQUENCE_LSTM", operands, [shape], options), 1e-4)


@pytest.mark.parametrize("codes", [False, True])
@pytest.mark.parametrize("cifg", [False, True])
def test_diagonal_recurrent_weights(cifg: bool, codes: bool, tmp_path: Path) -> None:
    b = Builder()
    found = weights(b, cifg=cifg, codes=codes)
    found[4 + cifg : 8] = [b.const(UNITS) for _ in range(4 - cifg)]
    states = [b.state(BATCH, UNITS), b.state(BATCH, UNITS)]
    operands = [Tensor("x", (STEPS, BATCH, INPUTS), FLOAT), *found, *states]
    options = {"fused_activation_function": "TANH", "time_major": True, "diagonal_recurrent_tensors": True}
    shape = (STEPS, BATCH, UNITS)
    agree(written(tmp_path / "m.tflite", "UNIDIRECTIONAL_SEQUENCE_LSTM", operands, [shape], options))
    operands[1 + 6] = b.const(UNITS, codes=True)
    path = written(tmp_path / "n.tflite", "UNIDIRECTIONAL_SEQUENCE_LSTM", operands, [shape], options)
    with pytest.raises(UnsupportedOp, match="the diagonals of its recurrent weights are not float"):
        thinflow.Session(path, "reference")


@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("variant", VARIANTS)
def test_eight_bit_weights(variant: str, asymmetric: bool, tmp_path: Path) -> None:
    """LiteRT computes in codes of the inputs, each row on a grid of its own, and so does the interpreter."""
    b, chosen = Builder(), VARIANTS[variant]
    out = OUTPUTS if chosen.get("project") else UNITS
    operands = [
        *(Tensor("x", (STEPS, BATCH, INPUTS), FLOAT), *weights(b, codes=True, **chosen)),
        *(b.state(BATCH, out), b.state(BATCH, UNITS)),
    ]
    options = {"fused_activation_function": "TANH", "time_major": True, **by_row(asymmetric)}
    shape = (STEPS, BATCH, out)
    agree(written(tmp_path / "m.tflite", "UNIDIRECTIONAL_SEQUENCE_LSTM", operands, [shape], options))


def by_row(asymmetric: bool) -> dict[str, bool]:
    return {"asymmetric_quantize_inputs": asymmetric}


@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("code", ["RNN", "UNIDIRECTIONAL_SEQUENCE_RNN"])
def test_simple_cells_with_eight_bit_weights(code: str, asymmetric: bool, tmp_path: Path) -> None:
    b, steps = Builder(), () if code == "RNN" else (STEPS,)
    operands = [Tensor("x", (*steps, BATCH, INPUTS), FLOAT), *cell(b, codes=True)]
    options = {"fused_activation_function": "TANH", **by_row(asymmetric)}
    options |= {"time_major": True} if steps else {}
    agree(written(tmp_path / "m.tflite", code, operands, [(*steps, BATCH, UNITS)], options))


@pytest.mark.parametrize("asymmetric", [False, True])
def test_both_directions_with_eight_bit_weights(asymmetric: bool, tmp_path: Path) -> None:
    b = Builder()
    operands = [
        *(Tensor("x", (STEPS, BATCH, INPUTS), FLOAT), *weights(b, codes=True), *weights(b, codes=True)),
        *(b.state(BATCH, UNITS) for _ in range(4)),
        *([None] * 9),
    ]
    options = {"fused_activation_function": "TANH", "time_major": True, **by_row(asymmetric)}
    shapes = [(STEPS, BATCH, UNITS)] * 2
    agree(written(tmp_path / "m.tflite", "BIDIRECTIONAL_SEQUENCE_LSTM", operands, shapes, options))


@pytest.mark.parametrize("asymmetric", [False, True])
def test_svdf_with_eight_bit_weights(asymmetric: bool, tmp_path: Path) -> None:
    b, memory, filters = Builder(), 6, 3
    operands = [
        *(Tensor("x", (BATCH, INPUTS), FLOAT), b.const(filters, INPUTS, codes=True)),
        *(b.const(filters, memory, codes=True), b.const(3), b.state(BATCH, memory * filters)),
    ]
    options = {"fused_activation_function": "NONE", "rank": 1, **by_row(asymmetric)}
    agree(written(tmp_path / "m.tflite", "SVDF", operands, [(BATCH, 3)], options))


def test_rows_of_zeros_with_eight_bit_weights(tmp_path: Path) -> None:
    for asymmetric in (False, True):
        b = Builder()
        operands = [Tensor("x", (BATCH, INPUTS), FLOAT), *cell(b, codes=True)]
        options = {"fused_activation_function": "TANH", **by_row(asymmetric)}
        path = written(tmp_path / "m.tflite", "RNN", operands, [(BATCH, UNITS)], options)
        feed = {"x": np.zeros((BATCH, INPUTS), np.float32)}
        expected, found = (thinflow.Session(path, e).run(None, feed)[0] for e in ("litert", "reference"))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("variant", VARIANTS)
def test_one_step_of_the_full_kernel(variant: str, tmp_path: Path) -> None:
    b, chosen = Builder(), VARIANTS[variant]
    out = OUTPUTS if chosen.get("project") else UNITS
    operands = [
        *(Tensor("x", (BATCH, INPUTS), FLOAT), *weights(b, **chosen)),
        *(b.state(BATCH, out), b.state(BATCH, UNITS)),
    ]
    options = {"fused_activation_function": "TANH", "kernel_type": "FULL"}
    agree(written(tmp_path / "m.tflite", "LSTM", operands, [(BATCH, out)], options))


def test_the_basic_kernel(tmp_path: Path) -> None:
    b = Builder()
    operands = [
        *(Tensor("x", (BATCH, INPUTS), FLOAT), Tensor("x_h", (BATCH, UNITS), FLOAT)),
        *(b.const(4 * UNITS, INPUTS + UNITS), b.const(4 * UNITS), Tensor("x_c", (BATCH, UNITS), FLOAT)),
    ]
    shapes = [(BATCH, UNITS), (BATCH, UNITS), (BATCH, INPUTS + UNITS), (BATCH, 4 * UNITS)]
    options = {"fused_activation_function": "TANH", "kernel_type": "BASIC"}
    path = written(tmp_path / "m.tflite", "LSTM", operands, shapes, options)
    expected, found = both(path)
    for a, b_ in zip(expected[:3], found[:3], strict=True):
        np.testing.assert_allclose(b_, a, rtol=0, atol=1e-5)


@pytest.mark.parametrize("merge", [True, False])
@pytest.mark.parametrize("time_major", [True, False])
def test_bidirectional_lstm(merge: bool, time_major: bool, tmp_path: Path) -> None:
    b = Builder()
    lead = (STEPS, BATCH) if time_major else (BATCH, STEPS)
    operands = [
        *(Tensor("x", (*lead, INPUTS), FLOAT), *weights(b), *weights(b)),
        *(b.state(BATCH, UNITS) for _ in range(4)),
        *([None] * 9),
    ]
    options = {"fused_activation_function": "TANH", "time_major": time_major, "merge_outputs": merge}
    shapes = [(*lead, 2 * UNITS)] if merge else [(*lead, UNITS)] * 2
    path = written(tmp_path / "m.tflite", "BIDIRECTIONAL_SEQUENCE_LSTM", operands, shapes, options)
    if time_major or not merge:
        return agree(path)
    # From the second sample on, LiteRT joins what lies behind its own states: another answer every time.
    expected, found = (results[0][0] for results in both(path))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def cell(b: Builder, *, codes: bool = False) -> list[Tensor]:
    both = b.const(UNITS, INPUTS, codes=codes), b.const(UNITS, UNITS, codes=codes)
    return [*both, b.const(UNITS), b.state(BATCH, UNITS)]


@pytest.mark.parametrize("activation", ["TANH", "RELU"])
def test_rnn(activation: str, tmp_path: Path) -> None:
    b = Builder()
    options = {"fused_activation_function": activation}
    operands = [Tensor("x", (BATCH, INPUTS), FLOAT), *cell(b)]
    agree(written(tmp_path / "m.tflite", "RNN", operands, [(BATCH, UNITS)], options))


@pytest.mark.parametrize("time_major", [True, False])
def test_sequence_rnn(time_major: bool, tmp_path: Path) -> None:
    b = Builder()
    lead = (STEPS, BATCH) if time_major else (BATCH, STEPS)
    operands = [Tensor("x", (*lead, INPUTS), FLOAT), *cell(b)]
    options = {"fused_activation_function": "TANH", "time_major": time_major}
    agree(written(tmp_path / "m.tflite", "UNIDIRECTIONAL_SEQUENCE_RNN", operands, [(*lead, UNITS)], options))


@pytest.mark.parametrize("merge", [True, False])
@pytest.mark.parametrize("time_major", [True, False])
def test_bidirectional_rnn(merge: bool, time_major: bool, tmp_path: Path) -> None:
    b = Builder()
    lead = (STEPS, BATCH) if time_major else (BATCH, STEPS)
    operands = [Tensor("x", (*lead, INPUTS), FLOAT), *cell(b), *cell(b), None, None, None]
    options = {"fused_activation_function": "TANH", "time_major": time_major, "merge_outputs": merge}
    shapes = [(*lead, 2 * UNITS)] if merge else [(*lead, UNITS)] * 2
    agree(written(tmp_path / "m.tflite", "BIDIRECTIONAL_SEQUENCE_RNN", operands, shapes, options))


@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("has_bias", [True, False])
def test_svdf(rank: int, has_bias: bool, tmp_path: Path) -> None:
    b, memory, filters = Builder(), 6, 3 * rank
    operands = [
        *(Tensor("x", (BATCH, INPUTS), FLOAT), b.const(filters, INPUTS), b.const(filters, memory)),
        *(b.const(3) if has_bias else None, b.state(BATCH, memory * filters)),
    ]
    options = {"fused_activation_function": "RELU", "rank": rank}
    agree(written(tmp_path / "m.tflite", "SVDF", operands, [(BATCH, 3)], options))


def sequence(path: Path, *, readers: int = 0) -> str:
    """A sequence LSTM; with `readers`, an op that reads its cell state too."""
    b = Builder()
    state = b.state(BATCH, UNITS)
    x, y = Tensor("x", (STEPS, BATCH, INPUTS), FLOAT), Tensor("y", (STEPS, BATCH, UNITS), FLOAT)
    operands = [x, *weights(b), b.state(BATCH, UNITS), state]
    options = {"fused_activation_function": "TANH", "time_major": True}
    operators, outputs = [Operator("UNIDIRECTIONAL_SEQUENCE_LSTM", operands, [y], options)], [y]
    if readers:
        outputs.append(Tensor("last", (BATCH, UNITS), FLOAT))
        operators.append(Operator("ABS", [state], [outputs[-1]]))
    path.write_bytes(to_bytes(Program([Subgraph([x], outputs, operators)])))
    return str(path)


def test_runs_are_compared_from_the_same_state(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = sequence(tmp_path / "m.tflite")
    other = sequence(tmp_path / "n.tflite")
    assert main(["verify", path, other, "--runs", "3"]) == 0
    assert main(["run", path, "--engine", "reference"]) == 0
    assert main(["inspect", path]) == 0
    assert "tfl.UNIDIRECTIONAL_SEQUENCE_LSTM" in capsys.readouterr().out
    lifted = thinflow.Session(path, "reference").graph
    assert lifted is not None
    thinflow.save(lifted, tmp_path / "m.pb")
    assert thinflow.verify(tmp_path / "m.pb", path, runs=3).ok


def test_a_state_that_others_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        UnsupportedOp, match=r"its state is read by other ops too\n.*or run the file with its own engine"
    ):
        thinflow.Session(sequence(tmp_path / "m.tflite", readers=1), "reference")


def test_sums_of_many_codes_are_exact(tmp_path: Path) -> None:
    """LiteRT sums products of codes in 32 bits; float32 alone holds whole numbers up to 2^24."""
    b, wide = Builder(), 6000
    rows = b.rng.uniform(0.7, 1, (UNITS, wide)).astype(np.float32)
    weights, scale = np.rint(rows / rows.max() * 127).astype(np.int8), float(rows.max() / 127)
    quantized = Tensor("w", rows.shape, INT8, weights, quantization=Quantization((scale,), (0,)))
    still = Tensor(
        "r", (UNITS, UNITS), INT8, np.zeros((UNITS, UNITS), np.int8), quantization=quantized.quantization
    )
    bias = Tensor("b", (UNITS,), FLOAT, np.zeros(UNITS, np.float32))
    operands = [Tensor("x", (1, wide), FLOAT), quantized, still, bias, b.state(1, UNITS)]
    options = {"fused_activation_function": "RELU"}
    path = written(tmp_path / "m.tflite", "RNN", operands, [(1, UNITS)], options)
    x = b.rng.uniform(0.7, 1, (1, wide)).astype(np.float32)
    expected, found = (
        thinflow.Session(path, *engine).run(None, {"x": x})[0] for engine in ((), ("reference",))
    )
    assert np.array_equal(expected, found)
