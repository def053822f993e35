"""Quantized LiteRT models in the interpreter: within one code of LiteRT, op by op."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from thinflow.errors import UnsupportedOp
from thinflow.ir.types import BOOL, FLOAT, INT8, INT32, UINT8, DType, dtype
from thinflow.tflite.model import Operator, Program, Quantization, Subgraph, Tensor
from thinflow.tflite.writer import to_bytes

pytest.importorskip("ai_edge_litert")
RNG = np.random.default_rng(7)
SAME = {"padding": "SAME", "stride_w": 1, "stride_h": 1}
X = (1, 6, 6, 4)


def grid(scale: float | list[float], zero: int | list[int] = 0, axis: int = 0) -> Quantization:
    scales, zeros = np.atleast_1d(np.float32(scale)), np.atleast_1d(np.int64(zero))
    return Quantization(scales, np.broadcast_to(zeros, scales.shape).copy(), axis)


def codes(name: str, shape: tuple[int, ...], q: Quantization, kind: DType = INT8) -> Tensor:
    info = np.iinfo(kind.numpy())
    low = info.min + 1 if kind is INT8 else info.min
    data = RNG.integers(low, info.max, shape, kind.numpy(), endpoint=True)
    return Tensor(name, shape, kind, data, quantization=q)


def bias(q: Quantization, count: int = 0) -> Tensor:
    data = RNG.integers(-900, 900, count or len(q.scale), np.int32)
    return Tensor("bias", data.shape, INT32, data, quantization=q)


def whole(name: str, *numbers: int) -> Tensor:
    data = np.array(numbers, np.int32)
    return Tensor(name, data.shape, INT32, data)


PER_CHANNEL = [0.01, 0.02, 0.03]
CASES = {
    "conv per channel": (
        "CONV_2D", (1, 6, 6, 3), grid(0.4, 5), {**SAME, "fused_activation_function": "RELU6"},
        lambda: [codes("w", (3, 3, 3, 4), grid(PER_CHANNEL)), bias(grid([0.1 * s for s in PER_CHANNEL]))],
    ),
    "conv per tensor": (
        "CONV_2D", (1, 3, 3, 3), grid(0.5, -20), {**SAME, "stride_w": 2, "stride_h": 2},
        lambda: [codes("w", (3, 3, 3, 4), grid(0.02)), bias(grid(0.002), 3)],
    ),
    "depthwise": (
        "DEPTHWISE_CONV_2D", (1, 6, 6, 8), grid(0.2, 3), {**SAME, "depth_multiplier": 2},
        lambda: [codes("w", (1, 3, 3, 8), grid([0.01 + 0.002 * i for i in range(8)], 0, 3)),
                 bias(grid([0.001 + 0.0002 * i for i in range(8)]))],
    ),
    "fully connected": (
        "FULLY_CONNECTED", (36, 5), grid(0.1, -7), {},
        lambda: [codes("w", (5, 4), grid(0.02)), bias(grid(0.002), 5)],
    ),
    "add": ("ADD", X, grid(0.15, 10), {}, lambda: [codes("b", (4,), grid(0.05, 4))]),
    "mul": ("MUL", X, grid(0.9, 10), {}, lambda: [codes("b", X, grid(0.05, 4))]),
    "sub": ("SUB", X, grid(0.2, 0), {}, lambda: [codes("b", X, grid(0.05, 4))]),
    "max pool": ("MAX_POOL_2D", X, grid(0.1, 3), {**SAME, "filter_width": 3, "filter_height": 2}, list),
    "average pool": ("AVERAGE_POOL_2D", X, grid(0.1, 3), {**SAME, "filter_width": 3,
        "filter_height": 2}, list),
    "softmax": ("SOFTMAX", X, grid(1 / 256, -128), {"beta": 1.0}, list),
    "logistic": ("LOGISTIC", X, grid(1 / 256, -128), {}, list),
    "tanh": ("TANH", X, grid(1 / 128, 0), {}, list),
    "relu": ("RELU", X, grid(0.06, -128), {}, list),
    "relu6": ("RELU6", X, grid(0.03, -128), {}, list),
    "leaky": ("LEAKY_RELU", X, grid(0.1, -60), {"alpha": 0.2}, list),
    "hard swish": ("HARD_SWISH", X, grid(0.06, -100), {}, list),
    "reshape": ("RESHAPE", (36, 4), grid(0.1, 3), {}, lambda: [whole("shape", 36, 4)]),
    "transpose": ("TRANSPOSE", (1, 4, 6, 6), grid(0.1, 3), {}, lambda: [whole("order", 0, 3, 1, 2)]),
    "pad": (
        "PAD", (1, 8, 7, 4), grid(0.1, 3), {},
        lambda: [Tensor("p", (4, 2), INT32, np.int32([[0, 0], [1, 1], [0, 1], [0, 0]]))],
    ),
    "mean": ("MEAN", (1, 4), grid(0.05, 3), {}, lambda: [whole("axes", 1, 2)]),
    "sum": ("SUM", (1, 4), grid(1.5, 3), {}, lambda: [whole("axes", 1, 2)]),
    "resize": (
        "RESIZE_BILINEAR", (1, 9, 5, 4), grid(0.1, 3), {"half_pixel_centers": True},
            lambda: [whole("s", 9, 5)],
    ),
    "nearest": ("RESIZE_NEAREST_NEIGHBOR", (1, 9, 5, 4), grid(0.1, 3), {}, lambda: [whole("s", 9, 5)]),
    "concat": ("CONCATENATION", (1, 6, 6, 8), grid(0.1, 3), {"axis": 3}, lambda: [codes("b", X,
        grid(0.1, 3))]),
    "quantize": ("QUANTIZE", X, grid(0.17, -3), {}, list),
    "maximum": ("MAXIMUM", X, grid(0.1, 3), {}, lambda: [codes("b", X, grid(0.1, 3))]),
    "strided slice": (
        "STRIDED_SLICE", (1, 3, 6, 4), grid(0.1, 3), {},
        lambda: [whole("b", 0, 0, 0, 0), whole("e", 1, 6, 6, 4), whole("s", 1, 2, 1, 1)],
    ),
    "depth to space": ("DEPTH_TO_SPACE", (1, 12, 12, 1), grid(0.1, 3), {"block_size": 2}, list),
    "transposed conv": (
        "TRANSPOSE_CONV", (1, 12, 12, 3), grid(0.4, 5), {"padding": "SAME", "stride_w": 2, "stride_h": 2},
        lambda: ["first", whole("s", 1, 12, 12, 3), codes("w", (3, 3, 3, 4), grid(PER_CHANNEL))],
    ),
}  # fmt: skip


def program(case: str, kind: DType) -> bytes:
    code, shape, q, options, others = CASES[case]
    info = np.iinfo(kind.numpy())
    shift = 0 if kind is INT8 else 128
    x = Tensor("x", X, kind, quantization=grid(0.1, 3 + shift))
    y = Tensor("y", shape, kind, quantization=grid(float(q.scale[0]), int(q.zero_point[0]) + shift))
    operands = others()
    for t in operands:
        if isinstance(t, Tensor) and t.dtype is INT8 and kind is UINT8:
            t.dtype, t.data = UINT8, (np.int16(t.data) + 128).astype(np.uint8)
            assert t.quantization is not None
            t.quantization.zero_point = t.quantization.zero_point + 128
    operands = [*operands[1:], x] if operands[:1] == ["first"] else [x, *operands]
    assert info.min <= int(y.quantization.zero_point[0]) <= info.max
    return to_bytes(Program([Subgraph([x], [y], [Operator(code, operands, [y], options)])]))


UNSIGNED = sorted(set(CASES) - {"conv per channel", "depthwise", "transposed conv", "hard swish", "sum"})
"""Ops that LiteRT has in uint8; per-channel scales go with int8 only."""


@pytest.mark.parametrize(("case", "kind"), [(c, INT8) for c in CASES] + [(c, UINT8) for c in UNSIGNED])
def test_within_one_code_of_litert(case: str, kind: DType, tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(program(case, kind))
    info = np.iinfo(kind.numpy())
    feed = {"x": RNG.integers(info.min, info.max, X, kind.numpy(), endpoint=True)}
    (expected,) = thinflow.Session(path).run(["y"], feed)
    (found,) = thinflow.Session(path, "reference").run(["y"], feed)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert len(np.unique(expected)) > 3
    assert np.abs(found.astype(int) - expected).max() <= 1


MOVES = ("reshape", "transpose", "pad", "max pool", "concat", "maximum", "strided slice", "depth to space")


@pytest.mark.parametrize("case", MOVES)
def test_what_only_moves_codes_is_exact(case: str, tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(program(case, INT8))
    feed = {"x": RNG.integers(-128, 127, X, np.int8, endpoint=True)}
    (expected,) = thinflow.Session(path).run(["y"], feed)
    (found,) = thinflow.Session(path, "reference").run(["y"], feed)
    np.testing.assert_array_equal(found, expected)


def test_a_bias_without_a_scale_has_that_of_the_products(tmp_path: Path) -> None:
    x = Tensor("x", (1, 2), INT8, quantization=grid(0.5))
    y = Tensor("y", (1, 1), INT8, quantization=grid(0.5))
    w = Tensor("w", (1, 2), INT8, np.int8([[2, 4]]), quantization=grid(0.25))
    b = Tensor("b", (1,), INT32, np.int32([16]))
    steps = [Operator("FULLY_CONNECTED", [x, w, b], [y])]
    (tmp_path / "m.tflite").write_bytes(to_bytes(Program([Subgraph([x], [y], steps)])))
    found = thinflow.run(tmp_path / "m.tflite", {"x": np.int8([[4, 8]])}, engine="reference")
    assert found["y"].tolist() == [[14]]  # (0.5 * 2 + 1 * 4 + 16 * 0.125) / 0.5


def rescaling(source: DType, target: DType) -> bytes:
    """codes of int32 or int16 given another scale."""
    x = Tensor("x", (1, 8), source, quantization=grid(2.0**-22))
    y = Tensor("y", (1, 8), target, quantization=grid(2.0**-10))
    return to_bytes(Program([Subgraph([x], [y], [Operator("QUANTIZE", [x], [y])])]))


@pytest.mark.parametrize("kind", ["int16", "int8"])
def test_sums_of_int32_are_rescaled(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(rescaling(INT32, dtype(kind)))
    feed = {"x": np.int32([[0, 1, 5000, -70000, 123456, -400000, 2**31 - 1, -(2**31)]])}
    (expected,) = thinflow.Session(path).run(["y"], feed)
    for graph in (path, thinflow.load(path)):
        (found,) = thinflow.Session(graph, "reference").run(["y"], feed)
        np.testing.assert_array_equal(found, expected)


def test_codes_of_int32_are_not_made(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(rescaling(dtype("int16"), INT32))
    with pytest.raises(UnsupportedOp, match="it makes codes of int32"):
        thinflow.load(path)


def test_comparisons_give_plain_booleans(tmp_path: Path) -> None:
    a = Tensor("a", (3,), INT8, quantization=grid(0.5, 2))
    b = Tensor("b", (3,), INT8, np.int8([10, 10, 10]), quantization=grid(0.25, 0))
    y = Tensor("y", (3,), BOOL)
    (tmp_path / "m.tflite").write_bytes(
        to_bytes(Program([Subgraph([a], [y], [Operator("LESS", [a, b], [y])])]))
    )
    found = thinflow.run(tmp_path / "m.tflite", {"a": np.int8([6, 7, 8])}, engine="reference")
    assert found["y"].tolist() == [True, False, False]


def loop(counter_shape: tuple[int, ...]) -> bytes:
    """y = x doubled as often as n says; n counts down."""
    n, x = Tensor("n", counter_shape, INT32), Tensor("x", (2,), FLOAT)
    m, y = Tensor("m", counter_shape, INT32), Tensor("y", (2,), FLOAT)
    cn, cx, more = (
        Tensor("cn", counter_shape, INT32),
        Tensor("cx", (2,), FLOAT),
        Tensor("more", counter_shape, BOOL),
    )
    zero, one = (
        Tensor(t, counter_shape, INT32, np.full(counter_shape, v, np.int32))
        for t, v in (("zero", 0), ("one", 1))
    )
    bn, bx = Tensor("bn", counter_shape, INT32), Tensor("bx", (2,), FLOAT)
    dn, dx = Tensor("dn", counter_shape, INT32), Tensor("dx", (2,), FLOAT)
    main = [Operator("WHILE", [n, x], [m, y], {"cond_subgraph_index": 1, "body_subgraph_index": 2})]
    return to_bytes(
        Program([
            Subgraph([n, x], [y], main),
            Subgraph([cn, cx], [more], [Operator("GREATER", [cn, zero], [more])], name="cond"),
            Subgraph([bn, bx], [dn, dx], [Operator("SUB", [bn, one], [dn]), Operator("ADD",
                [bx, bx], [dx])], name="body"),
        ])
    )  # fmt: skip


@pytest.mark.parametrize("shape", [(), (1,)])
def test_loops(shape: tuple[int, ...], tmp_path: Path) -> None:
    (tmp_path / "m.tflite").write_bytes(loop(shape))
    feed = {"n": np.full(shape, 3, np.int32), "x": np.float32([1, 2])}
    for engine in ("litert", "reference"):
        assert thinflow.run(tmp_path / "m.tflite", feed, engine=engine)["y"].tolist() == [8, 16]
    none = {**feed, "n": np.zeros(shape, np.int32)}
    assert thinflow.run(tmp_path / "m.tflite", none, engine="reference")["y"].tolist() == [1, 2]


def test_branches_and_calls(tmp_path: Path) -> None:
    p, x, y = Tensor("p", (1,), BOOL), Tensor("x", (2,), FLOAT), Tensor("y", (2,), FLOAT)
    ax, ay, bx, by = (Tensor(n, (2,), FLOAT) for n in ("ax", "ay", "bx", "by"))
    steps = [Operator("IF", [p, x], [y], {"then_subgraph_index": 1, "else_subgraph_index": 2})]
    parts = [
        Subgraph([p, x], [y], steps),
        Subgraph([ax], [ay], [Operator("NEG", [ax], [ay])], name="then"),
        Subgraph([bx], [by], [Operator("ABS", [bx], [by])], name="else"),
    ]
    (tmp_path / "m.tflite").write_bytes(to_bytes(Program(parts)))
    for given, expected in ((True, [1, -2]), (False, [1, 2])):
        feed = {"p": np.array([given]), "x": np.float32([-1, 2])}
        for engine in ("litert", "reference"):
            assert thinflow.run(tmp_path / "m.tflite", feed, engine=engine)["y"].tolist() == expected


def test_sixteen_bit_activations(tmp_path: Path) -> None:
    short = dtype("int16")
    x = Tensor("x", (2, 4), short, quantization=grid(0.001))
    y = Tensor("y", (2, 3), short, quantization=grid(0.0007))
    w = codes("w", (3, 4), grid(0.01))
    (tmp_path / "m.tflite").write_bytes(
        to_bytes(Program([Subgraph([x], [y], [Operator("FULLY_CONNECTED", [x, w, None], [y])])]))
    )
    feed = {"x": RNG.integers(-9000, 9000, (2, 4), np.int16)}
    (expected,) = thinflow.Session(tmp_path / "m.tflite").run(["y"], feed)
    (found,) = thinflow.Session(tmp_path / "m.tflite", "reference").run(["y"], feed)
    assert np.abs(found.astype(int) - expected).max() <= 1
