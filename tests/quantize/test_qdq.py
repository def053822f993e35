"""Where the pairs stand, what they hold, and what stays float."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.quantize.onnx_programs import Net, constant_named, optimized_codes, run
from tests.quantize.programs import sqnr
from thinflow.errors import EngineUnavailable, FeedError, ParameterError
from thinflow.onnx.program import Operator, Program, Tensor
from thinflow.quantize.calibrate import calibrate
from thinflow.quantize.macs import recurrent_multiplications
from thinflow.quantize.qdq import quantize_qdq
from thinflow.quantize.recipe import QdqOptions, Recipe

SHAPE = (1, 4, 6, 6)


def parameters(program: Program, name: str) -> tuple[float, int]:
    """Scale and zero point of the codes of a tensor."""
    (writer,) = [o for o in program.operators if o.outputs[0].name == f"{name}/codes"]
    scale, zero = writer.inputs[1:3]
    assert scale is not None
    assert zero is not None
    return float(scale.array()), int(zero.array())


def test_weights_and_biases_are_stored_as_integers() -> None:
    net = Net(*SHAPE)
    y = net.conv(net.x)
    w, b = (t.array() for t in net.program.operators[0].inputs[1:])
    program = net.quantize(y, options=QdqOptions(reduce_range=False)).program
    conv = next(o for o in program.operators if o.code == "Conv")
    reads = {o.outputs[0]: o for o in program.operators if o.code == "DequantizeLinear"}
    codes, scales, zeros = (t.array() for t in reads[conv.inputs[1]].inputs)
    assert codes.dtype == np.int8
    assert not zeros.any()
    assert reads[conv.inputs[1]].options == {"axis": 0}
    np.testing.assert_allclose(scales, np.abs(w).max(axis=(1, 2, 3)) / 127, rtol=1e-6)
    np.testing.assert_array_equal(np.abs(codes).max(axis=(1, 2, 3)), 127)
    *bias, no_zeros = reads[conv.inputs[2]].inputs
    codes, s_b = (t.array() for t in bias)
    assert codes.dtype == np.int32
    assert no_zeros is None
    np.testing.assert_allclose(s_b, parameters(program, "x")[0] * scales, rtol=1e-6)
    np.testing.assert_allclose(codes * s_b, b, atol=s_b.max())


def test_one_scale_per_tensor_if_asked() -> None:
    net = Net(*SHAPE)
    program = net.quantize(net.conv(net.x), per_channel=False).program
    assert all(o.options == {} for o in program.operators if o.code == "DequantizeLinear")
    assert {t.shape for t in program.tensors() if "/scale" in t.name} == {()}


def test_reduced_range_keeps_weights_within_seven_bits() -> None:
    net = Net(*SHAPE)
    y = net.conv(net.x)
    program = net.quantize(y, options=QdqOptions(reduce_range=True)).program
    codes = next(t.array() for t in program.tensors() if t.is_constant and t.dtype.name == "int8")
    assert np.abs(codes).max() == 64
    feed = net.samples()[0]
    (expected,), (found,) = run(net.program, feed), run(program, feed)
    assert np.abs(found - expected).max() < 0.05 * np.abs(expected).max()


@pytest.mark.parametrize(("activations", "offset"), [("uint8", 128), ("int8", 0)])
def test_a_relu_is_done_by_the_limits_of_the_codes(activations: str, offset: int) -> None:
    net = Net(*SHAPE)
    y = net.conv(net.op("Relu", net.conv(net.x)))
    program = net.quantize(y, options=QdqOptions(activations)).program
    assert not program.counts()["Relu"]
    scale, zero = parameters(program, "conv0_0")
    assert zero == offset - 128
    assert scale > 0


def test_a_clip_ends_at_its_limit() -> None:
    net = Net(*SHAPE)
    limits = np.float32(-0.5), np.float32(0.25)
    y = net.op("Clip", net.conv(net.x), *limits)
    result = net.quantize(y)
    assert not result.program.counts()["Clip"]
    assert not result.float_operators
    (found,) = run(result.program, net.samples()[0])
    scale = parameters(result.program, "conv0_0")[0]
    assert found.min() == pytest.approx(-0.5, abs=scale)
    assert found.max() == pytest.approx(0.25, abs=scale)


def test_a_relu_beside_other_readers_gets_codes_of_its_own() -> None:
    net = Net(*SHAPE)
    x = net.conv(net.x)
    y = net.op("Add", net.conv(net.op("Relu", x)), x)
    program = net.quantize(y).program
    assert not program.counts()["Relu"]
    assert parameters(program, "relu1_0")[1] == 0 != parameters(program, "conv0_0")[1]


def test_a_clip_without_zero_between_its_limits_stays() -> None:
    net = Net(*SHAPE)
    y = net.conv(net.op("Clip", net.conv(net.x), np.float32(0.5), np.float32(2)))
    result = net.quantize(y)
    assert [why for _, why in result.float_operators] == ["its limits are computed, or 0 is not between them"]
    assert result.program.counts()["Clip"] == 1


def test_joined_tensors_share_their_scale() -> None:
    net = Net(*SHAPE)
    a, b = net.conv(net.x), net.op("Mul", net.conv(net.x), np.full((4, 1, 1), 30, np.float32))
    joined = net.op("Concat", a, b, shape=(1, 8, 6, 6), axis=1)
    result = net.quantize(net.conv(joined))
    same = {parameters(result.program, t.name) for t in (a, b, joined)}
    assert len(same) == 1
    (warning,) = result.warnings
    assert warning.startswith("'conv0_0' spans")
    assert "shares the scale of a range of" in warning


def test_a_border_is_the_code_of_its_number() -> None:
    net = Net(*SHAPE)
    border = np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64)
    y = net.op("Pad", net.conv(net.x), border, np.float32(-9), shape=(1, 4, 8, 8), mode="constant")
    program = net.quantize(net.conv(y)).program
    scale, zero = parameters(program, "conv0_0")
    code = int(constant_named(program, "/border").array())
    assert scale * (code - zero) == pytest.approx(-9, abs=scale)


def test_whoever_wants_floats_gets_them() -> None:
    net = Net(*SHAPE)
    hidden = net.conv(net.x)
    y = net.conv(hidden)
    other = net.op("Exp", hidden)
    result = net.quantize(y, hidden, other)
    assert [t.name for t in result.program.outputs] == ["conv1_0", "conv0_0", "exp2_0"]
    feed = net.samples()[0]
    _, found, exps = run(result.program, feed)
    np.testing.assert_allclose(np.exp(found), exps, rtol=1e-5)
    scale = parameters(result.program, "conv0_0")[0]
    np.testing.assert_allclose(found / scale, np.rint(found / scale), atol=1e-3)


def test_light_ops_between_floats_stay_float() -> None:
    net = Net(*SHAPE)
    result = net.quantize(net.op("Add", net.op("Exp", net.x), net.x))
    assert result.program.counts() == {"Exp": 1, "Add": 1}
    assert dict((o.code, why) for o, why in result.float_operators) == {
        "Exp": "its results span more orders of magnitude than 8 bits hold",
        "Add": "the operators around it are float",
    }


def test_tails_stay_float() -> None:
    net = Net(*SHAPE)
    y = net.op("Softmax", net.op("Reshape", net.conv(net.x), np.array([4, 36]), shape=(4, 36)), axis=-1)
    result = net.quantize(y, float_parts=frozenset())
    assert [o.code for o, _ in result.float_operators] == ["Reshape", "Softmax"]
    assert {why for _, why in result.float_operators} == {"its results are wanted in float only"}


def test_joined_heads_have_ranges_of_their_own() -> None:
    net = Net(*SHAPE)
    wide = net.op("Mul", net.conv(net.x), np.float32(100))
    shape = (SHAPE[0], 8, *SHAPE[2:])
    program = net.quantize(net.op("Concat", wide, net.conv(net.x), axis=1, shape=shape)).program
    feed = net.samples()[0]
    wanted, found = (run(p, feed)[0] for p in (net.program, program))
    assert sqnr(wanted[:, :4], found[:, :4]) > 25
    assert sqnr(wanted[:, 4:], found[:, 4:]) > 25


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("per_channel", [False, True])
def test_matrices_of_recurrent_ops_are_stored_as_integers(per_channel: bool, kept: bool) -> None:
    net, units = Net(7, 2, 16), 24
    w, r = (0.3 * net.rng.standard_normal((1, 3 * units, n)).astype(np.float32) for n in (16, units))
    y = net.op("GRU", net.x, w, r, shape=(7, 1, 2, units), hidden_size=units)
    skipped = {"skip_nodes": ("node0",)} if kept else {}
    program = net.quantize(net.op("Relu", y), per_channel=per_channel, **skipped).program
    matrices = [t for t in program.tensors() if t.is_constant and t.array().ndim == 3 and t.array().size > 72]
    assert {t.dtype.name for t in matrices} == ({"float"} if kept else {"int8"})
    assert recurrent_multiplications(net.program) == 7 * 2 * 3 * units * (16 + units)
    feed = net.samples()[0]
    assert sqnr(run(net.program, feed)[0], run(program, feed)[0]) > 35


def test_nodes_can_be_skipped() -> None:
    net = Net(*SHAPE)
    y = net.conv(net.conv(net.x))
    result = net.quantize(y, skip_nodes=("node1*",))
    assert [(o.origin, why) for o, why in result.float_operators] == [("node1", "skip_nodes has 'node1*'")]


def test_shared_weights_are_stored_once() -> None:
    net = Net(*SHAPE)
    y = net.conv(net.x)
    again = net.op("Conv", y, *net.program.operators[0].inputs[1:], kernel_shape=(1, 1))
    program = net.quantize(again).program
    stored = [t for t in program.tensors() if t.is_constant and "/codes" in t.name]
    assert sorted(t.dtype.name for t in stored) == ["int32", "int32", "int8"]


def test_a_bias_that_32_bits_cannot_hold_coarsens_its_channel() -> None:
    net = Net(*SHAPE)
    w = np.full((2, 4, 1, 1), 1e-9, np.float32)
    w[1] = 1
    y = net.op("Conv", net.x, w, np.array([50, 0], np.float32), shape=(1, 2, 6, 6), kernel_shape=(1, 1))
    (found,) = run(net.quantize(y).program, net.samples()[0])
    np.testing.assert_allclose(found[:, 0], 50, rtol=0.01)


def test_dead_channels_and_tensors_get_usable_scales() -> None:
    net = Net(*SHAPE)
    w = np.zeros((3, 4, 1, 1), np.float32)
    y = net.op("Conv", net.x, w, np.zeros(3, np.float32), shape=(1, 3, 6, 6), kernel_shape=(1, 1))
    program = net.quantize(y).program
    scales = [t.array() for t in program.tensors() if t.is_constant and "scale" in t.name]
    assert all((s >= np.finfo(np.float32).tiny).all() and np.isfinite(s).all() for s in scales)
    assert not run(program, net.samples()[0])[0].any()


def test_statistics_of_the_batch_stay_float() -> None:
    net = Net(*SHAPE)
    x = net.conv(net.x)
    mean = net.op("ReduceMean", x, shape=(1, 4, 1, 1), axes=(2, 3))
    factor = net.op("Reciprocal", net.op("Sqrt", net.op("Mul", mean, mean)))
    y = net.op("Mul", x, factor, shape=SHAPE)
    result = net.quantize(net.conv(y))
    reasons = {o.outputs[0].name: why for o, why in result.float_operators}
    assert reasons[y.name] == "it applies statistics that are computed at run time"


def test_a_variance_is_computed_in_float() -> None:
    net = Net(*SHAPE)
    x = net.op("Add", net.conv(net.x), net.conv(net.x), shape=SHAPE)
    mean = net.op("ReduceMean", x, shape=(1, 4, 1, 1), axes=(2, 3))
    centred = net.op("Sub", x, mean, shape=SHAPE)
    squares = net.op("Mul", centred, centred, shape=SHAPE)
    variance = net.op("ReduceMean", squares, shape=(1, 4, 1, 1), axes=(2, 3))
    y = net.op("Div", centred, net.op("Sqrt", variance), shape=SHAPE)
    result = net.quantize(net.conv(y))
    reasons = {o.outputs[0].name: why for o, why in result.float_operators}
    assert reasons.keys() >= {part.name for part in (mean, centred, squares, variance)}
    assert reasons[squares.name] == "it is part of a variance that is computed at run time"


def test_weights_that_are_computed_stay_float() -> None:
    net = Net(*SHAPE)
    w = net.op("Exp", np.ones((4, 4, 1, 1), np.float32))
    result = net.quantize(net.op("Conv", net.x, w, shape=SHAPE, kernel_shape=(1, 1)))
    assert "its weights are computed at run time" in [why for _, why in result.float_operators]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_stay_float(value: float) -> None:
    net = Net(*SHAPE)
    w = np.full((4, 4, 1, 1), value, np.float32)
    y = net.op("Conv", net.x, w, shape=SHAPE, kernel_shape=(1, 1))
    program = Program([net.x], [y], net.program.operators)
    ranges = calibrate(program, net.samples(), Recipe(few_samples=0)).ranges
    ((_, why),) = quantize_qdq(program, ranges).float_operators
    assert "not finite" in why or "no finite value" in why


def test_a_mean_over_the_picture_and_opposites_get_kernels(tmp_path: Path) -> None:
    net = Net(*SHAPE)
    x = net.op("Sub", net.conv(net.x), np.full((4, 1, 1), 0.3, np.float32))
    x = net.op("Div", x, np.full((4, 1, 1), 1.7, np.float32))
    x = net.op("ReduceMean", x, shape=(1, 4), axes=(2, 3), keepdims=0)
    y = net.op("Gemm", x, net.rng.standard_normal((4, 3)).astype(np.float32), shape=(1, 3))
    feed = net.samples()[0]
    program = Program([net.x], [y], list(net.program.operators))
    (expected,) = run(program, feed)
    result = net.quantize(y)
    assert not result.float_operators
    left = optimized_codes(result.program, feed, tmp_path)
    assert {"QLinearAdd", "QLinearMul", "QLinearGlobalAveragePool", "QGemm"} <= set(left)
    (found,) = run(result.program, feed)
    np.testing.assert_allclose(found, expected, atol=0.05 * np.abs(expected).max())


@pytest.mark.parametrize("code", ["ReduceMean", "Sub", "Div"])
def test_what_cannot_be_prepared_stays(code: str) -> None:
    net = Net(*SHAPE)
    x = net.conv(net.x)
    if code == "ReduceMean":
        y = net.op(code, x, shape=(1, 1, 6, 6), axes=(1,))
    elif code == "Sub":
        y = net.op(code, np.ones((4, 1, 1), np.float32), x, shape=SHAPE)
    else:
        y = net.op(code, x, np.array([1, 2, 3, 1e-40], np.float32).reshape(4, 1, 1))
    assert net.quantize(y).program.counts()[code] == 1


@pytest.mark.parametrize("place", ["border", "bias"])
def test_constants_that_are_not_finite_stay_float(place: str) -> None:
    net = Net(*SHAPE)
    x = net.conv(net.x)
    if place == "bias":
        bias = net.program.operators[0].inputs[2]
        bias.data = np.array([0, np.inf, 0, 0], np.float32)
    else:
        border = np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64)
        x = net.op("Pad", x, border, np.float32(-np.inf), shape=(1, 4, 8, 8), mode="constant")
    result = net.quantize(net.conv(x))
    code, why = next((o.code, why) for o, why in result.float_operators)
    assert code == ("Conv" if place == "bias" else "Pad")
    assert "has values that are not finite" in why


def test_unequal_sum_is_reported() -> None:
    net = Net(*SHAPE)
    narrow = net.conv(net.x)
    wide = net.op("Mul", net.conv(net.x), np.full((4, 1, 1), 50, np.float32))
    result = net.quantize(net.conv(net.op("Add", narrow, wide)))
    (warning,) = result.warnings
    assert warning.startswith("Add 'add")
    assert "times as much as 'conv0_0', which is mostly rounded away" in warning


class TestTrainedRanges:
    def test_they_rule_the_tensor(self) -> None:
        net = Net(*SHAPE)
        x = net.op("FakeQuant", net.conv(net.x), low=-1.0, high=1.0)
        program = net.quantize(net.conv(x)).program
        assert parameters(program, "conv0_0") == (pytest.approx(2 / 255), 128)
        assert not program.counts()["FakeQuant"]

    def test_they_rule_what_is_tied(self) -> None:
        net = Net(*SHAPE)
        x = net.op("FakeQuant", net.conv(net.x), low=0.0, high=4.0)
        turned = net.op("Transpose", x, shape=(1, 6, 6, 4), perm=(0, 3, 2, 1))
        program = net.quantize(net.conv(turned)).program
        assert (
            parameters(program, turned.name)
            == parameters(program, "conv0_0")
            == (
                pytest.approx(4 / 255),
                0,
            )
        )

    def test_outputs_keep_name_and_steps(self) -> None:
        net = Net(*SHAPE)
        y = net.op("FakeQuant", net.op("Exp", net.conv(net.x)), low=0.0, high=2.0)
        program = net.quantize(y).program
        assert [t.name for t in program.outputs] == [y.name]
        (found,) = run(program, net.samples()[0])
        np.testing.assert_allclose(found / (2 / 255), np.rint(found / (2 / 255)), atol=1e-3)
        assert found.max() <= 2.001

    def test_an_output_that_others_read_too(self) -> None:
        net = Net(*SHAPE)
        x = net.conv(net.x)
        y = net.op("FakeQuant", x, low=0.0, high=2.0)
        program = net.quantize(y, net.conv(x)).program
        (found, _) = run(program, net.samples()[0])
        assert found.min() == 0
        assert found.max() == pytest.approx(2, abs=1e-3)


class TestBodies:
    def test_what_bodies_read_keeps_its_float_form(self) -> None:
        """A branch reads codes' floats by name, and stays as it is."""
        net = Net(*SHAPE)
        hidden = net.op("Relu", net.conv(net.x))
        y = net.conv(hidden)
        decision = net.const(np.array(True), "decision")

        def body(name: str, code: str) -> Program:
            inner = Tensor(f"{name}/in", SHAPE, hidden.dtype)
            output = Tensor(f"{name}/out", SHAPE, hidden.dtype)
            return Program([inner], [output], [Operator(code, [inner], [output])], name=name)

        chosen = Tensor("chosen", SHAPE, hidden.dtype)
        bodies = {"then_branch": body("then", "Neg"), "else_branch": body("else", "Abs")}
        net.program.operators.append(
            Operator("If", [decision, hidden], [chosen], {}, "if", bodies=bodies, captured=1)
        )
        feed = net.samples()[0]
        net.program.outputs = [y, chosen]
        expected = run(net.program, feed)
        result = net.quantize(y, chosen)
        found = run(result.program, feed)
        for a, b in zip(expected, found, strict=True):
            np.testing.assert_allclose(a, b, atol=0.05 * np.abs(a).max())


class TestBadInput:
    def test_activations(self) -> None:
        with pytest.raises(ParameterError, match="activations cannot be int4") as found:
            QdqOptions("int4")
        assert found.value.hint == "choose uint8 or int8"

    @pytest.mark.parametrize(
        ("choices", "problem"),
        [
            ({"scheme": "int16x8"}, "scheme 'int16x8' has no ONNX form"),
            ({"skip_ops": frozenset({"SOFTMAX"})}, "skip_ops names LiteRT ops"),
            ({"input_type": "int8"}, "inputs and outputs of an ONNX model stay float32"),
        ],
    )
    def test_recipe(self, choices: dict, problem: str) -> None:
        with pytest.raises(ParameterError, match=problem):
            quantize_qdq(Program([], []), {}, Recipe(**choices))

    def test_samples(self) -> None:
        pytest.importorskip("onnxruntime")
        net = Net(*SHAPE)
        program = Program([net.x], [net.conv(net.x)], net.program.operators)
        with pytest.raises(FeedError, match="there are no calibration samples"):
            calibrate(program, [])
        with pytest.raises(FeedError, match="nothing is given for input 'x'"):
            calibrate(program, [{}])
        with pytest.raises(FeedError, match="x"):
            calibrate(program, [{"x": np.zeros((1, 4, 6), np.float32)}])

    def test_runtime(self) -> None:
        pytest.importorskip("onnxruntime")
        x, y = Tensor("x", (2,), Net(2).x.dtype), Tensor("y", (2,), Net(2).x.dtype)
        with pytest.raises(EngineUnavailable, match="cannot load the float model"):
            calibrate(Program([x], [y], [Operator("NoSuchOp", [x], [y])]), [])
        sizes = Tensor("sizes", (1,), Net(2).x.dtype)
        three = np.array([3], np.int64)
        program = Program(
            [x],
            [sizes],
            [Operator("Reshape", [x, Tensor("three", (1,), Net.const(Net(2), three).dtype, three)], [sizes])],
        )
        with pytest.raises(EngineUnavailable, match="the float model"):
            calibrate(program, [{"x": np.zeros(2, np.float32)}])


def linear(net: Net, x: Tensor, units: int, *, sizes: tuple[int | None, ...]) -> Tensor:
    """x @ w + b, of several matrices, as the linear layers of transformers are written."""
    w = net.rng.standard_normal((x.shape[-1], units)).astype(np.float32)
    y = net.op("MatMul", x, w, shape=(*sizes, units))
    return net.op("Add", y, net.rng.standard_normal(units).astype(np.float32))


@pytest.mark.parametrize("rows", [(2, 5), (None, 5)])
def test_linear_layers_of_several_matrices(rows: tuple[int | None, ...], tmp_path: Path) -> None:
    """ONNX Runtime makes a Gemm of the product and its bias, of floats unless the bias is integers."""
    net = Net(*rows, 8)
    y = linear(net, linear(net, net.x, 6, sizes=rows), 4, sizes=rows)
    codes = optimized_codes(net.quantize(y).program, net.samples(1)[0], tmp_path)
    assert codes["QGemm"] == 2
    assert not {"Gemm", "MatMul"} & {*codes}


def test_a_gelu_stays_one_operator_in_float(tmp_path: Path) -> None:
    rows = (2, 5)
    net = Net(*rows, 8)
    x = linear(net, net.x, 8, sizes=rows)
    half = net.op("Mul", x, np.float32(0.5))
    erf = net.op("Erf", net.op("Div", x, np.float32(np.sqrt(2))))
    y = net.op("Mul", half, net.op("Add", erf, np.float32(1)))
    program = net.quantize(linear(net, y, 4, sizes=rows)).program
    codes = optimized_codes(program, net.samples(1)[0], tmp_path)
    assert codes["Gelu"] == 1
    assert codes["QGemm"] == 2
    assert not {"Erf", "Div", "QLinearMul", "QLinearAdd"} & {*codes}
