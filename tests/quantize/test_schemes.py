"""Schemes that store weights smaller: what is stored, how LiteRT reads it, and what it computes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.quantize.programs import CONV, INT, Builder, codes, interpreter, run, samples, sqnr
from thinflow.errors import GraphError, ParameterError
from thinflow.ir.types import FLOAT
from thinflow.quantize.calibrate import calibrate
from thinflow.quantize.recipe import SCHEMES, Recipe
from thinflow.quantize.schemes import quantize_program, storing
from thinflow.tflite.model import Operator, Program, Signature, Subgraph, Tensor
from thinflow.tflite.reader import read_program
from thinflow.tflite.writer import to_bytes

STORING = ("float16", "dynamic", "int8_weights", "int4_weights")
Build = Callable[[Builder], Tensor]

LAYERS: dict[str, Build] = {
    "conv": lambda b: b.conv(b.input(1, 9, 9, 32), 32),
    "strided": lambda b: b.conv(b.input(1, 9, 9, 32), 32, padding="VALID", stride_h=2, stride_w=2),
    "dilated": lambda b: b.conv(b.input(1, 9, 9, 32), 32, dilation_h_factor=2, dilation_w_factor=2),
    "grouped": lambda b: b.op(
        "CONV_2D", b.input(1, 9, 9, 32), b.normal(32, 3, 3, 8), b.normal(32), **CONV
    ),
    "depthwise": lambda b: b.depthwise(b.input(1, 9, 9, 128)),
    "multiplied": lambda b: b.op(
        "DEPTHWISE_CONV_2D", b.input(1, 5, 5, 64), b.normal(1, 3, 3, 128), b.normal(128), **CONV,
        depth_multiplier=2,
    ),
    "dense": lambda b: b.op("FULLY_CONNECTED", b.input(3, 64), b.normal(40, 64), b.normal(40)),
    "dense_without_bias": lambda b: b.op("FULLY_CONNECTED", b.input(3, 64), b.normal(40, 64)),
    "transposed": lambda b: b.op(
        "TRANSPOSE_CONV", b.const(np.array([1, 12, 12, 16])), b.normal(16, 3, 3, 16), b.input(1, 6, 6, 16),
        b.normal(16), padding="SAME", stride_h=2, stride_w=2,
    ),
    "matmul": lambda b: b.op("BATCH_MATMUL", b.input(2, 4, 64), b.normal(2, 64, 32)),
    "matmul_adjoint": lambda b: b.op("BATCH_MATMUL", b.input(2, 4, 64), b.normal(2, 32, 64), adj_y=True),
    "table": lambda b: b.op("GATHER", b.normal(100, 32), b.const(np.array([3, 50, 99])), axis=0),
    "columns": lambda b: b.op("GATHER", b.normal(32, 100), b.const(np.array([3, 50, 99])), axis=1),
}  # fmt: skip


def store(program: Program, scheme: str, **choices):
    return quantize_program(program, Recipe(scheme=scheme, **choices))


@pytest.mark.parametrize("plain", [False, True], ids=["xnnpack", "builtin"])
@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize("scheme", STORING)
@pytest.mark.parametrize("layer", LAYERS)
def test_layer(layer: str, scheme: str, per_channel: bool, plain: bool) -> None:
    builder = Builder()
    program = builder.program(LAYERS[layer](builder))
    result = store(program, scheme, per_channel=per_channel)
    assert not result.float_operators
    constants = [t.data.size for t in program.subgraphs[0].tensors() if t.is_constant and t.dtype is FLOAT]
    assert len(result.decisions) == sum(size >= (128 if scheme == "float16" else 1024) for size in constants)
    arrays = list(samples(program)[0].values())
    (expected,), (found,) = run(program, *arrays, plain=plain), run(result.program, *arrays, plain=plain)
    assert sqnr(expected, found) > (70 if scheme == "float16" else 36)
    assert len(to_bytes(result.program)) < len(to_bytes(program)) * (0.65 if scheme == "float16" else 0.8)


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("scheme", ["float16", "int8_weights", "int4_weights"])
def test_unpacked_weights_compute_what_rounded_floats_compute(layer: str, scheme: str) -> None:
    builder = Builder()
    program = builder.program(LAYERS[layer](builder))
    result = store(program, scheme).program
    by_hand = store(program, scheme).program.subgraphs[0]
    values: dict[Tensor, Tensor] = {}
    for operator in by_hand.operators:
        if operator.code == "DEQUANTIZE":
            (stored,), (wide,) = operator.inputs, operator.outputs
            values[wide] = Tensor(wide.name, wide.shape, FLOAT, real(stored))
        operator.inputs = [values.get(t, t) for t in operator.inputs]
    by_hand.operators = [o for o in by_hand.operators if o.code != "DEQUANTIZE"]
    arrays = list(samples(program)[0].values())
    (expected,), (found,) = (run(p, *arrays, plain=True) for p in (Program([by_hand]), result))
    np.testing.assert_array_equal(expected, found)


def real(stored: Tensor) -> np.ndarray:
    codes = np.asarray(stored.array()).astype(np.float32)
    q = stored.quantization
    if q is None:
        return codes
    return codes * q.scale.reshape([-1 if i == q.axis else 1 for i in range(codes.ndim)])


def network(seed: int = 0) -> Program:
    b = Builder(seed)
    x = b.conv(b.input(1, 12, 12, 16), 32)
    x = b.conv(b.depthwise(x), 64, 1)
    x = b.op("MEAN", b.conv(x, 64, act="RELU"), b.const(np.array([1, 2])), keep_dims=False)
    x = b.op("FULLY_CONNECTED", x, b.normal(100, 64, scale=0.2), b.normal(100))
    return b.program(b.op("SOFTMAX", x, beta=1.0))


@pytest.mark.parametrize("scheme", STORING)
def test_file_round_trip_keeps_names_and_signatures(scheme: str) -> None:
    program = network()
    main = program.subgraphs[0]
    program.signatures["serve"] = Signature({"picture": main.inputs[0]}, {"scores": main.outputs[0]})
    before = to_bytes(program)
    result = store(program, scheme)
    result.program.validate()
    assert to_bytes(program) == before
    again = read_program(to_bytes(result.program))
    assert [t.name for t in again.subgraphs[0].outputs] == [t.name for t in main.outputs]
    assert again.signatures["serve"].inputs["picture"] is again.subgraphs[0].inputs[0]
    kept = [c for c in codes(again) if c != "DEQUANTIZE"]
    assert kept == codes(program)


@pytest.mark.parametrize(("scheme", "decibels"), [("float16", 60), ("dynamic", 30), ("int8_weights", 34)])
def test_network(scheme: str, decibels: float) -> None:
    program = network()
    arrays = list(samples(program)[0].values())
    (expected,), (found,) = (run(p, *arrays) for p in (program, store(program, scheme).program))
    assert sqnr(expected, found) > decibels


@pytest.mark.parametrize("scheme", ["float16", "int8_weights"])
def test_xnnpack_takes_the_whole_graph(scheme: str) -> None:
    session = interpreter(store(network(), scheme).program, plain=False)
    operators = [d["op_name"] for d in session._get_ops_details()]
    planned = len(network().subgraphs[0].operators) + operators.count("DEQUANTIZE")
    assert operators.count("DELEGATE") == 1
    assert len(operators) == planned + 1


def test_int4_keeps_eight_bits_in_the_first_and_the_last_layer() -> None:
    program = network()
    result = store(program, "int4_weights").program
    types = [t.dtype.name for o in result.subgraphs[0].operators if o.code == "DEQUANTIZE" for t in o.inputs]
    assert types == ["int8", "int4", "int4", "int8"]
    eight = store(program, "int8_weights").program
    assert len(to_bytes(result)) < 0.75 * len(to_bytes(eight))


def test_int4_clips_where_that_makes_the_squared_error_smaller() -> None:
    b = Builder()
    w = b.rng.standard_normal((8, 1, 1, 256)).astype(np.float32)
    w[:, 0, 0, 0] = 5
    middle = b.op("CONV_2D", b.conv(b.input(1, 4, 4, 32), 256, 1), b.const(w), b.normal(8), **CONV)
    b.channels[middle] = 8
    result = store(b.program(b.conv(middle, 128, 1)), "int4_weights").program
    (stored,) = (t for t in result.subgraphs[0].tensors() if t.dtype.name == "int4")
    step = 5 / 7
    plain = np.clip(np.rint(w / step), -7, 7) * step
    assert (stored.quantization.scale < 0.9 * step).all()
    assert np.square(real(stored) - w).sum() < 0.9 * np.square(plain - w).sum()


def test_small_weights_stay_float() -> None:
    b = Builder()
    program = b.program(b.conv(b.input(1, 8, 8, 4), 4))
    for scheme in ("dynamic", "int8_weights", "int4_weights"):
        result = store(program, scheme)
        assert result.float_operators[0][1] == "its weights are 144, and below 1024 that is not worth it"
        assert to_bytes(result.program) == to_bytes(program)


def test_small_constants_stay_out_of_float16() -> None:
    result = store(network(), "float16")
    assert all(np.asarray(d.scale).size == 0 for d in result.decisions)
    stored = [t for t in result.program.subgraphs[0].tensors() if t.dtype.name == "half"]
    assert len(stored) == len(result.decisions) == 5
    assert all(t.data.size >= 128 for t in stored)


def test_numbers_beyond_float16_stay_float32() -> None:
    b = Builder()
    mask = np.where(np.arange(256) % 2, -1e9, 0.0).astype(np.float32)
    program = b.program(b.op("ADD", b.input(256), b.const(mask)))
    result = store(program, "float16")
    assert "reaches 1e+09, and float16 ends at 65504" in result.float_operators[0][1]
    assert codes(result.program) == ["ADD"]


def test_infinities_are_float16_too() -> None:
    b = Builder()
    mask = np.where(np.arange(256) % 2, -np.inf, 0.0).astype(np.float32)
    program = b.program(b.op("ADD", b.input(256), b.const(mask)))
    result = store(program, "float16")
    x = np.ones(256, np.float32)
    np.testing.assert_array_equal(run(result.program, x)[0], x + mask)


def test_tiny_weights_are_reported() -> None:
    b = Builder()
    w = b.rng.standard_normal((40, 64)).astype(np.float32) * 1e-6
    result = store(b.program(b.op("FULLY_CONNECTED", b.input(3, 64), b.const(w))), "float16")
    assert "are so small that float16 keeps few of their bits" in result.warnings[0]


def test_weights_that_are_not_finite_stay_float() -> None:
    b = Builder()
    w = b.rng.standard_normal((40, 64)).astype(np.float32)
    w[0, 0] = np.inf
    program = b.program(b.op("FULLY_CONNECTED", b.input(3, 64), b.const(w)))
    assert "not finite" in store(program, "dynamic").float_operators[0][1]


@pytest.mark.parametrize("scheme", STORING)
def test_shared_weights_are_stored_once(scheme: str) -> None:
    b = Builder()
    w = b.normal(64, 64, scale=0.1)
    x = b.op("FULLY_CONNECTED", b.input(1, 64), w)
    for _ in range(3):
        same = Tensor(f"{w.name}/again", w.shape, w.dtype, w.data)
        x = b.op("FULLY_CONNECTED", x, same)
    result = store(b.program(x), scheme)
    assert len(result.decisions) == (2 if scheme == "int4_weights" else 1)
    assert codes(result.program).count("DEQUANTIZE") <= 2


def test_constants_that_come_and_go_are_not_taken_for_one_another() -> None:
    """A new array may lie where a freed one did."""
    b = Builder()
    program = b.program(b.op("FULLY_CONNECTED", b.input(1, 64), b.normal(64, 64)))
    scheme = storing(program, Recipe(scheme="float16"))
    assert scheme is not None
    for n in range(8):
        operator = Operator("ADD", [Tensor("c", (256,), FLOAT, np.full(256, n, np.float32))], [])
        smaller = scheme.choose(operator, 0, operator.inputs[0])
        assert not isinstance(smaller, str)
        assert smaller.make().array()[0] == n
        del operator, smaller


@pytest.mark.parametrize("scheme", STORING)
def test_chosen_operators_stay_float(scheme: str) -> None:
    result = store(network(), scheme, skip_nodes=("node5",))
    assert ("FULLY_CONNECTED", "skip_nodes has 'node5'") in {
        (o.code, why) for o, why in result.float_operators
    }
    (dense,) = (o for o in result.program.subgraphs[0].operators if o.code == "FULLY_CONNECTED")
    assert dense.inputs[1].is_constant
    assert dense.inputs[1].dtype is FLOAT


@pytest.mark.parametrize("scheme", STORING)
def test_what_stays_float_is_not_reported_as_stored_smaller(scheme: str) -> None:
    b = Builder()
    tiny = b.const(b.normal(40, 64).array() * np.float32(1e-6))
    program = b.program(b.op("FULLY_CONNECTED", b.input(3, 64), tiny))
    result = store(program, scheme, skip_ops=("FULLY_CONNECTED",))
    assert [why for _, why in result.float_operators] == ["skip_ops names FULLY_CONNECTED"]
    assert (result.decisions, result.warnings) == ([], [])
    partly = store(network(), scheme, skip_nodes=("node5",))
    stored = {t.name for t in partly.program.subgraphs[0].tensors()}
    assert {d.tensor for d in partly.decisions} <= stored


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_name_that_nothing_has(scheme: str) -> None:
    recipe = Recipe(scheme=scheme, skip_nodes=("node44",))
    with pytest.raises(ParameterError, match="no operator of the LiteRT model is called 'node44'") as error:
        quantize_program(network(), recipe)
    assert error.value.hint.startswith("did you mean 'node4'")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_quantized_program_is_refused(scheme: str) -> None:
    again = store(network(), "int8_weights").program
    with pytest.raises(GraphError, match="is quantized already"):
        store(again, scheme)


@pytest.mark.parametrize("scheme", [*STORING, "int8", "int16x8"])
def test_weights_in_the_body_of_a_loop(scheme: str) -> None:
    """Three times y = tanh(W y), the weights in the loop's own subgraph."""
    program = loop()
    x = np.random.default_rng(2).standard_normal((1, 64)).astype(np.float32)
    recipe = Recipe(scheme=scheme)
    ranges = calibrate(program, [{"x": x}], recipe).ranges if recipe.needs_samples else None
    result = quantize_program(program, recipe, ranges)
    assert len(to_bytes(result.program)) < 0.65 * len(to_bytes(program))
    (expected,), (found,) = run(program, x), run(result.program, x)
    assert sqnr(expected, found) > (65 if scheme == "float16" else 30)


def loop() -> Program:
    rng = np.random.default_rng(1)
    w = Tensor("w", (64, 64), FLOAT, (rng.standard_normal((64, 64)) * 0.15).astype(np.float32))

    def pair(suffix: str) -> list[Tensor]:
        return [Tensor(f"i{suffix}", (), INT), Tensor(f"y{suffix}", (1, 64), FLOAT)]

    def number(value: int) -> Tensor:
        return Tensor(f"number{value}", (), INT, np.array(value, np.int32))

    outer_x = Tensor("x", (1, 64), FLOAT)
    results, inside, before = pair("_out"), pair("_in"), pair("_cond")
    more = Tensor("more", (), Builder().const(np.array([True])).dtype)
    condition = Subgraph(before, [more], [Operator("LESS", [before[0], number(3)], [more])], name="cond")
    again = Tensor("i_again", (), INT)
    product, y = Tensor("product", (1, 64), FLOAT), Tensor("y_again", (1, 64), FLOAT)
    body = Subgraph(
        inside,
        [again, y],
        [
            Operator("ADD", [inside[0], number(1)], [again]),
            Operator("FULLY_CONNECTED", [inside[1], w, None], [product]),
            Operator("TANH", [product], [y]),
        ],
        name="body",
    )
    options = {"cond_subgraph_index": 1, "body_subgraph_index": 2}
    main = Subgraph([outer_x], [results[1]], [Operator("WHILE", [number(0), outer_x], results, options)])
    return Program([main, condition, body])


def test_names_with_brackets_are_names_before_they_are_patterns() -> None:
    net = network()
    node = next(o for o in net.subgraphs[0].operators if o.origin == "node5")
    node.origin = "layer[1]/MatMul"
    recipe = Recipe(scheme="int8_weights", skip_nodes=("layer[1]/MatMul",))
    assert recipe.why_skipped(node) == "skip_nodes has 'layer[1]/MatMul'"
    recipe.check_names(net.subgraphs[0].operators, "LiteRT")
    assert recipe.for_names(["layer[1]/MatMul"]) == recipe
    assert Recipe(skip_nodes=("layer[[]1]/*",)).why_skipped(node)
    assert not Recipe(skip_nodes=("layer[2]/MatMul",)).why_skipped(node)
