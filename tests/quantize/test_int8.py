"""Programs after quantization: what became int8, where the borders are, and how near the numbers stay."""

from __future__ import annotations

import numpy as np
import pytest

from tests.quantize.programs import CONV, POOL, Builder, codes, quantize, run, samples, scale_of, sqnr
from thinflow.errors import GraphError
from thinflow.ir.types import BOOL, FLOAT, INT8, INT32
from thinflow.quantize.calibrate import calibrate
from thinflow.quantize.int8 import quantize_int8
from thinflow.quantize.ranges import Range
from thinflow.tflite.model import Program, Signature
from thinflow.tflite.reader import read_program
from thinflow.tflite.writer import to_bytes


def small_cnn(seed: int) -> Program:
    b = Builder(seed)
    x = b.conv(b.input(1, 16, 16, 3), 8)
    x = b.depthwise(x, stride_h=2, stride_w=2)
    y = b.conv(x, 8, 1, act="NONE")
    z = b.op("ADD", x, y, fused_activation_function="NONE")
    b.channels[z] = 8
    z = b.op("CONCATENATION", b.conv(z, 8, act="RELU"), b.conv(z, 4, act="RELU"), axis=3)
    z = b.op("MAX_POOL_2D", z, **POOL)
    z = b.op("MEAN", z, b.const(np.array([1, 2])), keep_dims=False)
    return b.program(b.op("FULLY_CONNECTED", z, b.normal(10, 12), b.normal(10)))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("plain", [False, True], ids=["xnnpack", "builtin"])
def test_small_cnn_stays_above_25_db(seed: int, plain: bool) -> None:
    program = small_cnn(seed)
    result = quantize(program, samples(program, 50))
    inside = codes(result.program)[1:-1]
    assert inside == codes(program)
    assert (codes(result.program)[0], codes(result.program)[-1]) == ("QUANTIZE", "DEQUANTIZE")
    fresh = samples(program, 20, seed=99)
    expected = np.concatenate([run(program, f["in0"], plain=plain)[0] for f in fresh])
    found = np.concatenate([run(result.program, f["in0"], plain=plain)[0] for f in fresh])
    assert sqnr(expected, found) > 25


def test_the_float_program_is_not_touched() -> None:
    program = small_cnn(0)
    before = to_bytes(program)
    quantize(program)
    assert to_bytes(program) == before


def test_names_signatures_and_decisions() -> None:
    program = small_cnn(0)
    main = program.subgraphs[0]
    program.signatures["serve"] = Signature({"picture": main.inputs[0]}, {"scores": main.outputs[0]})
    result = quantize(program)
    again = read_program(to_bytes(result.program))
    assert [t.name for t in again.subgraphs[0].inputs] == [t.name for t in main.inputs]
    assert [t.name for t in again.subgraphs[0].outputs] == [t.name for t in main.outputs]
    assert again.signatures["serve"].inputs["picture"] is again.subgraphs[0].inputs[0]
    stored = [t for t in result.program.subgraphs[0].tensors() if t.quantization]
    assert {d.tensor for d in result.decisions} == {t.name for t in stored}
    assert len(result.decisions) == len(stored)
    by_name = {d.tensor: d for d in result.decisions}
    assert by_name["in0/int8"].observer == "minmax"
    assert by_name["in0/int8"].reason == "observed"
    assert all(np.all(np.isfinite(d.scale) & (d.scale > 0)) for d in result.decisions)


def test_int8_io() -> None:
    program = small_cnn(0)
    main = program.subgraphs[0]
    program.signatures["serve"] = Signature({"picture": main.inputs[0]}, {"scores": main.outputs[0]})
    result = quantize(program, input_type="int8", output_type="int8")
    new = result.program.subgraphs[0]
    assert codes(result.program) == codes(program)
    assert [t.dtype for t in (*new.inputs, *new.outputs)] == [INT8, INT8]
    assert [t.name for t in new.inputs] == ["in0"]
    assert result.program.signatures["serve"].outputs["scores"] is new.outputs[0]


def test_float_operator_between_int8_regions() -> None:
    b = Builder()
    x = b.conv(b.input(1, 8, 8, 4), 4)
    y = b.op("EXP", x)
    b.channels[y] = 4
    program = b.program(b.conv(y, 4), b.conv(x, 4))
    result = quantize(program)
    first = ["QUANTIZE", "CONV_2D", "DEQUANTIZE", "EXP"]
    assert codes(result.program) == [*first, "QUANTIZE", "CONV_2D", "CONV_2D", "DEQUANTIZE", "DEQUANTIZE"]
    operator, why = result.float_operators[0]
    assert operator.origin == "node1"
    assert why == "its results span more orders of magnitude than 8 bits hold"


def test_a_tensor_crosses_a_border_once() -> None:
    b = Builder()
    x = b.conv(b.input(1, 8, 8, 4), 4)
    y = b.op("ADD", b.op("EXP", x), b.op("POW", x, b.const(np.float32(2))))
    result = quantize(b.program(y))
    assert codes(result.program) == ["QUANTIZE", "CONV_2D", "DEQUANTIZE", "EXP", "POW", "ADD"]
    assert (
        dict((o.code, why) for o, why in result.float_operators)["ADD"] == "the operators around it are float"
    )


def test_light_tail_of_float_operators_stays_float() -> None:
    b = Builder()
    x = b.conv(b.input(1, 8, 8, 4), 4)
    mean = b.op("MEAN", x, b.const(np.array([1, 2])), keep_dims=True)
    y = b.op("SQUARED_DIFFERENCE", x, mean)
    result = quantize(b.program(y))
    assert codes(result.program) == ["QUANTIZE", "CONV_2D", "DEQUANTIZE", "MEAN", "SQUARED_DIFFERENCE"]


def test_batch_statistics_stay_float() -> None:
    """A batch normalization in training mode between two convolutions, as converters write it."""
    b = Builder()
    axes = b.const(np.array([0, 1, 2]))
    x = b.conv(b.input(1, 8, 8, 4), 6, act="NONE")
    mean = b.op("MEAN", x, axes)
    variance = b.op("MEAN", b.op("SQUARED_DIFFERENCE", x, mean), axes)
    factor = b.op("MUL", b.op("RSQRT", b.op("ADD", variance, b.const(np.float32([1e-3])))), b.normal(6))
    offset = b.op("SUB", b.normal(6), b.op("MUL", mean, factor))
    y = b.op("ADD", b.op("MUL", x, factor), offset)
    z = b.op("RELU", y)
    b.channels[z] = 6
    program = b.program(b.conv(z, 4))
    result = quantize(program)
    left = [o.code for o, _ in result.float_operators]
    assert left == ["MEAN", "SQUARED_DIFFERENCE", "MEAN", "ADD", "RSQRT", "MUL", "MUL", "SUB", "MUL", "ADD"]
    assert codes(result.program)[-4:] == ["ADD", "QUANTIZE", "CONV_2D", "DEQUANTIZE"]
    assert codes(result.program).count("QUANTIZE") == 2
    assert codes(result.program).count("DEQUANTIZE") == 2
    feed = samples(program)[0]
    assert sqnr(run(program, feed["in0"])[0], run(result.program, feed["in0"])[0]) > 25


def test_island_of_copies_stays_float() -> None:
    b = Builder()
    x = b.op("EXP", b.input(1, 4, 4, 2))
    x = b.op("TRANSPOSE", b.op("RESHAPE", x, b.const(np.array([4, 8]))), b.const(np.array([1, 0])))
    result = quantize(b.program(b.op("EXP", x)))
    assert codes(result.program) == ["EXP", "RESHAPE", "TRANSPOSE", "EXP"]


def test_tied_tensors_share_parameters() -> None:
    b = Builder()
    x = b.input(1, 8, 8, 4)
    joined = b.op("CONCATENATION", b.conv(x, 4), b.conv(x, 4), axis=3)
    result = quantize(b.program(b.op("MAX_POOL_2D", joined, **POOL)))
    concat = next(o for o in result.program.subgraphs[0].operators if o.code == "CONCATENATION")
    pool = next(o for o in result.program.subgraphs[0].operators if o.code == "MAX_POOL_2D")
    parameters = {
        (scale_of(t), int(t.quantization.zero_point[0]))
        for t in [*concat.inputs, *concat.outputs, *pool.outputs]
    }
    assert len(parameters) == 1
    assert sum(d.reason == "shared by 4 tensors" for d in result.decisions) == 4


def test_narrow_branch_of_a_concat_is_reported() -> None:
    b = Builder()
    x = b.input(1, 8, 8, 4)
    wide = b.op("MUL", b.conv(x, 4), b.const(np.float32(50)))
    whole = b.program(b.op("CONCATENATION", wide, b.conv(x, 4), axis=3))
    result = quantize(whole, input_type="int8", output_type="int8")
    assert any(w.startswith("'conv_2d2_0' spans") and "shares the scale" in w for w in result.warnings)


def test_fixed_output_rules_its_class_or_is_requantized() -> None:
    b = Builder()
    x = b.conv(b.input(1, 8, 8, 4), 4, act="NONE")
    y = b.op("RESHAPE", b.op("LOGISTIC", x), b.const(np.array([64, 4])))
    program = b.program(y)
    result = quantize(program, float_parts=())
    assert codes(result.program) == ["QUANTIZE", "CONV_2D", "LOGISTIC", "RESHAPE", "DEQUANTIZE"]
    assert scale_of(result.program.subgraphs[0].operators[3].outputs[0]) == 1 / 256

    b = Builder()
    x = b.conv(b.input(1, 8, 8, 4), 4, act="NONE")
    program = b.program(b.op("CONCATENATION", b.op("LOGISTIC", x), x, axis=3))
    result = quantize(program, float_parts=())
    assert codes(result.program) == [
        "QUANTIZE",
        "CONV_2D",
        "LOGISTIC",
        "QUANTIZE",
        "CONCATENATION",
        "DEQUANTIZE",
    ]
    feed = samples(program)[0]["in0"]
    assert sqnr(run(program, feed)[0], run(result.program, feed)[0]) > 30


def test_relu_is_what_the_scale_of_its_input_cuts_off() -> None:
    b = Builder()
    x = b.conv(b.input(1, 8, 8, 4), 4, act="NONE")
    program = b.program(b.op("RELU", x))
    result = quantize(program)
    # LiteRT's own kernel takes half a hundred times as long as XNNPACK's in float.
    assert codes(result.program) == ["QUANTIZE", "CONV_2D", "DEQUANTIZE"]
    conv = result.program.subgraphs[0].operators[1]
    assert conv.outputs[0].quantization.zero_point[0] == -128
    feed = samples(program)[0]["in0"]
    assert sqnr(run(program, feed)[0], run(result.program, feed)[0]) > 30


def test_relu_of_a_number_that_others_read_is_computed() -> None:
    b = Builder()
    x = b.conv(b.input(1, 8, 8, 4), 4, act="NONE")
    program = b.program(b.op("RELU", x), b.op("MUL", x, x))
    for parts, wanted in ((("slow",), ""), ((), "INT8")):
        result = quantize(program, float_parts=parts)
        relu = next(o for o in result.program.subgraphs[0].operators if o.code == "RELU")
        assert relu.outputs[0].dtype.name.upper() == (wanted or "FLOAT")
        feed = samples(program)[0]["in0"]
        for a, found in zip(run(program, feed), run(result.program, feed), strict=True):
            assert sqnr(a, found) > 30


def test_saturating_reader_cuts_the_range() -> None:
    for parts in ((), ("scores",)):
        b = Builder()
        x = b.conv(b.input(1, 8, 8, 4), 4, act="NONE")
        x.name = "logits"
        big = b.op(
            "CONV_2D",
            x,
            b.normal(2, 1, 1, 4, scale=100.0),
            b.normal(2),
            **CONV,
            fused_activation_function="NONE",
        )
        result = quantize(b.program(b.op("LOGISTIC", big)), float_parts=parts)
        conv = [o for o in result.program.subgraphs[0].operators if o.code == "CONV_2D"][-1]
        assert scale_of(conv.outputs[0]) == np.float32(16 / 255)


def test_skips_are_recorded() -> None:
    program = small_cnn(0)
    result = quantize(program, skip_ops={"FULLY_CONNECTED"}, skip_nodes=("node0",))
    reasons = {o.code: why for o, why in result.float_operators}
    assert reasons == {
        "CONV_2D": "skip_nodes has 'node0'",
        "FULLY_CONNECTED": "skip_ops names FULLY_CONNECTED",
    }
    assert codes(result.program)[:3] == ["CONV_2D", "QUANTIZE", "DEPTHWISE_CONV_2D"]
    assert run(result.program, samples(program)[0]["in0"])


def test_integers_are_left_alone() -> None:
    b = Builder()
    x, ids = b.input(1, 4, 4, 2), b.input(3, element=INT32)
    sizes = b.op("SHAPE", b.conv(x, 2), out=(INT32,), out_type=INT32)
    program = b.program(b.conv(x, 2), b.op("ADD", ids, b.const(np.array([1, 2, 3])), out=(INT32,)), sizes)
    result = quantize(program)
    main = result.program.subgraphs[0]
    assert [t.dtype for t in main.outputs] == [FLOAT, INT32, INT32]
    assert not result.float_operators
    shape = next(o for o in main.operators if o.code == "SHAPE")
    assert shape.inputs[0].dtype is INT8
    x = samples(program)[0]["in0"]
    assert run(result.program, x, np.int32([5, 5, 5]))[1].tolist() == [6, 7, 8]


def test_shared_weights_are_quantized_once_if_the_scales_agree() -> None:
    b = Builder()
    x, w = b.input(1, 6, 6, 4), b.normal(4, 3, 3, 4)
    y = b.op("CONV_2D", b.op("CONV_2D", x, w, b.normal(4), **CONV), w, b.normal(4), **CONV)
    result = quantize(b.program(y))
    first, second = [o for o in result.program.subgraphs[0].operators if o.code == "CONV_2D"]
    assert first.inputs[1] is second.inputs[1]
    assert first.inputs[2] is not second.inputs[2]


def test_computed_weights_and_missing_ranges_stay_float() -> None:
    b = Builder()
    y = b.op("FULLY_CONNECTED", b.input(2, 8), b.input(4, 8))
    result = quantize(b.program(y))
    assert result.float_operators[0][1] == "its weights are computed at run time"
    program = small_cnn(0)
    ranges = calibrate(program, samples(program)).ranges
    del ranges[program.subgraphs[0].operators[2].outputs[0]]
    reasons = [why for _, why in quantize_int8(program, ranges).float_operators]
    assert reasons == ["calibration saw no finite value of 'conv_2d2_0'"] * 2


def test_constants_that_are_not_finite_stay_float() -> None:
    b = Builder()
    y = b.op("ADD", b.input(1, 4), b.const(np.float32([0, 1, np.inf, 0])))
    program = b.program(y)
    ranges = dict.fromkeys(program.subgraphs[0].tensors(), Range(-1, 1))
    assert "has values that are not finite" in quantize_int8(program, ranges).float_operators[0][1]


def test_quantized_program_is_refused() -> None:
    program = small_cnn(0)
    result = quantize(program)
    with pytest.raises(GraphError, match="is quantized already"):
        quantize_int8(result.program, {})


def test_empty_and_pass_through_programs() -> None:
    b = Builder()
    x = b.input(1, 4)
    program = b.program(x)
    result = quantize(program)
    assert result.program.subgraphs[0].operators == []
    result = quantize(program, input_type="int8", output_type="int8")
    assert [t.dtype for t in result.program.subgraphs[0].outputs] == [INT8]
    assert result.program.subgraphs[0].inputs == result.program.subgraphs[0].outputs


def test_average_over_everything_gets_its_own_scale() -> None:
    b = Builder()
    x = b.conv(b.input(1, 6, 6, 4), 8)
    window = {"padding": "VALID", "stride_w": 1, "stride_h": 1, "filter_width": 6, "filter_height": 6}
    program = b.program(b.op("AVERAGE_POOL_2D", x, **window))
    result = quantize(program)
    assert codes(result.program) == ["QUANTIZE", "CONV_2D", "MEAN", "DEQUANTIZE"]
    mean = result.program.subgraphs[0].operators[2]
    assert scale_of(mean.outputs[0]) < scale_of(mean.inputs[0])
    assert mean.origin == "node1"
    feed = samples(program)[0]["in0"]
    assert sqnr(run(program, feed)[0], run(result.program, feed)[0]) > 30
    assert "AVERAGE_POOL_2D" in codes(quantize(program, skip_ops={"AVERAGE_POOL_2D"}).program)


def test_output_much_finer_than_the_products_stays_float() -> None:
    """XNNPACK would refuse the whole model."""
    b = Builder()
    program = b.program(b.conv(b.conv(b.input(1, 6, 6, 4), 4, act="NONE"), 4))
    ranges = calibrate(program, samples(program)).ranges
    first, second = (o.outputs[0] for o in program.subgraphs[0].operators)
    ranges[first] = Range(-1e6, 1e6)
    result = quantize_int8(program, ranges)
    assert [why for _, why in result.float_operators] == [
        "its output needs much finer steps than its inputs have"
    ]
    assert codes(result.program) == ["QUANTIZE", "CONV_2D", "DEQUANTIZE", "CONV_2D"]
    assert second.name in {t.name for t in result.program.subgraphs[0].outputs}
    run(result.program, samples(program)[0]["in0"])


@pytest.mark.parametrize("size", [1e-6, 1e-3, 1e3, 1e6])
def test_requantized_output_next_to_another_size(size: float) -> None:
    b = Builder()
    x = b.conv(b.input(1, 8, 8, 4), 4, act="NONE")
    scaled = b.op("MUL", x, b.const(np.float32(size)))
    program = b.program(b.op("CONCATENATION", b.op("TANH", x), scaled, axis=3))
    result = quantize(program)
    feed = samples(program)[0]["in0"]
    assert sqnr(run(program, feed)[0], run(result.program, feed)[0]) > 25


def test_zero_as_a_scalar_constant() -> None:
    b = Builder()
    program = b.program(b.op("ADD", b.input(1, 8), b.const(np.float32(0))))
    feed = samples(program)[0]["in0"]
    assert sqnr(run(program, feed)[0], run(quantize(program).program, feed)[0]) > 30


@pytest.mark.parametrize("scheme", ["int8", "int16x8"])
def test_a_sum_with_what_is_always_zero(scheme: str) -> None:
    b = Builder()
    x = b.conv(b.input(1, 8, 8, 3), 4, act="NONE")
    nothing = b.op("MUL", x, b.const(np.float32([0])))
    total = b.op("ADD", nothing, b.op("LOGISTIC", x))
    b.channels[total] = 4
    program = b.program(b.conv(total, 2))
    quantized = quantize(program, scheme=scheme)
    assert not quantized.float_operators
    feed = samples(program)[0]["in0"]
    assert sqnr(run(program, feed)[0], run(quantized.program, feed)[0]) > 25


@pytest.mark.parametrize(("scheme", "kind"), [("int16x8", FLOAT), ("int8", INT8)])
def test_a_sum_much_smaller_than_its_parts(scheme: str, kind: object) -> None:
    """LiteRT's kernel of 16 bits ends the process where operands have coarse steps, the sum fine ones."""
    b = Builder()
    x = b.conv(b.input(1, 8, 8, 3), 4, act="NONE")
    loud = b.op("MUL", x, b.const(np.float32([1e5])))
    total = b.op("ADD", loud, b.op("LOGISTIC", x), fused_activation_function="RELU6")
    b.channels[total] = 4
    program = b.program(b.conv(total, 2))
    quantized = quantize(program, scheme=scheme)
    assert [o.inputs[0].dtype for o in quantized.program.subgraphs[0].operators if o.code == "ADD"] == [kind]
    run(quantized.program, samples(program)[0]["in0"])
    if kind is FLOAT:
        told = dict((o.code, why) for o, why in quantized.float_operators)
        assert told["ADD"] == "its output needs much finer steps than its inputs have"


@pytest.mark.parametrize("limit", [0.0, 900.0, 0.5])
def test_comparisons_need_scales_below_one(limit: float) -> None:
    """LiteRT's kernel ends the process at larger ones."""
    b = Builder()
    x = b.conv(b.input(1, 8, 8, 3), 4, act="NONE")
    program = b.program(b.op("GREATER", x, b.const(np.float32([limit])), out=(BOOL,)))
    quantized = quantize(program, float_parts=())
    codes_of = [o.inputs[0].dtype for o in quantized.program.subgraphs[0].operators if o.code == "GREATER"]
    assert codes_of == [FLOAT if limit == 900.0 else INT8]
    if limit == 900.0:
        assert "scales are below 1" in dict((o.code, why) for o, why in quantized.float_operators)["GREATER"]
    feed = samples(program)[0]["in0"]
    assert run(quantized.program, feed)[0].dtype == np.bool_


def test_unequal_sum_is_reported() -> None:
    b = Builder()
    x = b.conv(b.input(1, 8, 8, 4), 4)
    wide = b.op("MUL", b.conv(x, 4), b.const(np.float32(50)))
    result = quantize(b.program(b.op("ADD", x, wide)))
    assert len(result.warnings) == 1
    assert "times as much as 'conv_2d0_0', which is mostly rounded away" in result.warnings[0]
