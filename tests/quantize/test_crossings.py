"""What is faster in float stays float, the ways there and back counted; what makes the answers does, too."""

from __future__ import annotations

import pytest

from tests.quantize.programs import Builder, codes, quantize, run, samples, sqnr
from thinflow.errors import ParameterError
from thinflow.quantize.kernels.litert import INT8_KERNELS
from thinflow.quantize.recipe import FLOAT_PARTS, Recipe
from thinflow.tflite.model import Program, Tensor

SLOW = {"float_parts": ("slow",)}


def reasons(program: Program, **choices: object) -> dict[str, str]:
    return {o.code: why for o, why in quantize(program, **choices).float_operators}


def squeezed_between(code: str, *shape: int, **options: object) -> Program:
    """An op between two convolutions."""
    b = Builder()
    x = b.conv(b.input(*shape), shape[-1], act="NONE")
    y = b.op(code, x, **options)
    b.channels[y] = shape[-1]
    return b.program(b.conv(y, 4))


def test_a_slow_kernel_gives_way_to_float() -> None:
    program = squeezed_between("HARD_SWISH", 1, 16, 16, 8)
    found = reasons(program, **SLOW)
    cost = INT8_KERNELS.table["HARD_SWISH"].cost
    assert cost is not None
    assert cost.times_slower > 10
    assert found == {
        "HARD_SWISH": f"LiteRT's int8 kernel for it is {cost.times_slower:.0f} times slower than float"
    }
    made = quantize(program, **SLOW)
    assert codes(made.program) == [
        *("QUANTIZE", "CONV_2D", "DEQUANTIZE", "HARD_SWISH", "QUANTIZE", "CONV_2D", "DEQUANTIZE")
    ]  # fmt: skip
    feed = samples(program)[0]["in0"]
    assert sqnr(run(program, feed)[0], run(made.program, feed)[0]) > 25


def test_a_few_elements_are_not_worth_the_way() -> None:
    assert reasons(squeezed_between("HARD_SWISH", 1, 2, 2, 4), **SLOW) == {}


@pytest.mark.parametrize("code", ["LOGISTIC", "TANH", "ELU", "GELU"])
def test_fast_kernels_stay(code: str) -> None:
    assert reasons(squeezed_between(code, 1, 16, 16, 8), **SLOW) == {}


def test_neighbours_go_along_where_that_saves_crossings() -> None:
    b = Builder()
    x = b.conv(b.input(1, 16, 16, 8), 8, act="NONE")
    y = b.op("HARD_SWISH", b.op("MUL", b.op("HARD_SWISH", x), b.normal(8)))
    b.channels[y] = 8
    program = b.program(b.conv(y, 4))
    found = reasons(program, **SLOW)
    assert set(found) == {"HARD_SWISH", "MUL"}
    assert found["MUL"] == "the operators around it are float"
    made = codes(quantize(program, **SLOW).program)
    assert made.count("DEQUANTIZE") == 2
    assert made.count("QUANTIZE") == 2


def test_what_other_readers_want_as_integers_is_crossed_once() -> None:
    b = Builder()
    x = b.conv(b.input(1, 16, 16, 8), 8, act="NONE")
    y = b.op("HARD_SWISH", x)
    b.channels[y] = 8
    program = b.program(b.conv(y, 4), b.conv(y, 5), b.conv(x, 3))
    made = codes(quantize(program, **SLOW).program)
    assert made.count("QUANTIZE") == 2
    assert made.count("DEQUANTIZE") == 1 + 3


@pytest.mark.parametrize("border", ["int8", "uint8"])
def test_integers_at_both_ends_are_integers_throughout(border: str) -> None:
    b = Builder()
    x = b.conv(b.input(1, 16, 16, 8), 8, act="NONE")
    program = b.program(b.op("SOFTMAX", b.op("HARD_SWISH", x), beta=1.0))
    assert set(reasons(program)) == {"HARD_SWISH", "SOFTMAX"}
    assert reasons(program, input_type=border, output_type=border) == {}
    # Answers in integers are made by integers.
    assert set(reasons(program, output_type=border, float_parts=("scores",))) == set()


def test_sixteen_bits_have_no_costs() -> None:
    program = squeezed_between("LEAKY_RELU", 1, 16, 16, 8, alpha=0.1)
    assert reasons(program, scheme="int16x8", **SLOW) == {}


# ---------------------------------------------------------------------------------------------------- answers


@pytest.mark.parametrize("scheme", ["int8", "int16x8"])
def test_scores_and_what_follows_are_computed_in_float(scheme: str) -> None:
    b = Builder()
    x = b.op("FULLY_CONNECTED", b.input(4, 8), b.normal(5, 8), b.normal(5), fused_activation_function="NONE")
    y = b.op("SOFTMAX", x, beta=1.0)
    program = b.program(b.op("RESHAPE", y, b.const([20])), y)
    made = quantize(program, scheme=scheme, float_parts=("scores",))
    assert codes(made.program) == ["QUANTIZE", "FULLY_CONNECTED", "DEQUANTIZE", "SOFTMAX", "RESHAPE"]
    assert {why for _, why in made.float_operators} == {"its results are wanted in float only"}


def test_gates_inside_the_network_are_no_scores() -> None:
    b = Builder()
    x = b.conv(b.input(1, 8, 8, 4), 4, act="NONE")
    y = b.op("MUL", x, b.op("LOGISTIC", x), fused_activation_function="NONE")
    b.channels[y] = 4
    program = b.program(b.conv(y, 3))
    assert reasons(program) == {}


def test_logits_beside_scores_are_what_they_were() -> None:
    b = Builder()
    x: Tensor = b.op("FULLY_CONNECTED", b.input(4, 8), b.normal(5, 8), None, fused_activation_function="NONE")
    program = b.program(x, b.op("SOFTMAX", x, beta=1.0))
    made = quantize(program)
    assert codes(made.program) == ["QUANTIZE", "FULLY_CONNECTED", "DEQUANTIZE", "SOFTMAX"]


def test_parts_are_checked() -> None:
    with pytest.raises(ParameterError, match="float_parts: there is no 'slwo'") as caught:
        Recipe(float_parts=frozenset(("slwo",)))
    assert "slow" in str(caught.value.hint)
    with pytest.raises(ParameterError, match="float_parts is a string"):
        Recipe(float_parts="slow")  # type: ignore[arg-type]
    assert Recipe(float_parts=["slow"]) == Recipe(float_parts=frozenset(("slow",)))  # type: ignore[arg-type]
    assert Recipe().float_parts <= FLOAT_PARTS.keys()


# ------------------------------------------------------------------------------------------- centred operands


@pytest.mark.parametrize("constant", [False, True])
def test_the_second_operand_of_a_batched_product_has_a_zero_point_of_0(constant: bool) -> None:
    """XNNPACK takes no other, and LiteRT's own kernel is many times slower."""
    b = Builder()
    x = b.input(2, 8, 16)
    z = b.const(b.rng.uniform(-1, 3, (2, 16, 4))) if constant else b.op("ABS", b.input(2, 16, 4))
    program = b.program(b.op("BATCH_MATMUL", x, z))
    made = quantize(program, float_parts=())
    product = next(o for o in made.program.subgraphs[0].operators if o.code == "BATCH_MATMUL")
    assert product.inputs[1].quantization.zero_point.tolist() == [0]
    assert product.inputs[0].quantization.zero_point.tolist() != [0]
    feeds = samples(program)[0].values()
    assert sqnr(run(program, *feeds)[0], run(made.program, *feeds)[0]) > 25
