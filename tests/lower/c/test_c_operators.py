"""Operators in C answer as LiteRT's own kernels do; many in one network, which is compiled once."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.c.c_answers import differences
from tests.lower.c.c_networks import Layers
from tests.lower.c.many import Many, ints, number
from thinflow.engines._c_library import compiler
from thinflow.ir.types import dtype
from thinflow.tflite.model import Operator, Program, Subgraph, Tensor
from thinflow.tflite.writer import to_bytes

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")


def test_numbers_by_two_and_by_one() -> None:
    net = Many(2, 3, 4)
    x, other = net.x, net.value("other", (3, 1))
    for code in ("MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE", "FLOOR_DIV", "FLOOR_MOD", "DIV"):
        net.add(code, [x, other], 2, 3, 4)
    for code in ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"):
        net.add(code, [x, other], 2, 3, 4, kind="bool")
    less, more = net.made[-4], net.made[-2]
    net.add("LOGICAL_AND", [less, more], 2, 3, 4, kind="bool")
    net.add("LOGICAL_OR", [less, more], 2, 3, 4, kind="bool")
    net.add("LOGICAL_NOT", [less], 2, 3, 4, kind="bool")
    net.add("SELECT_V2", [less, x, other], 2, 3, 4)
    net.add("SELECT", [less, x, x], 2, 3, 4)
    net.add("GELU", [x], 2, 3, 4, approximate=False)
    net.add("GELU", [x], 2, 3, 4, approximate=True)
    for code in ("ZEROS_LIKE", "LOG_SOFTMAX", "L2_NORMALIZATION", "ROUND", "SIGN"):
        net.add(code, [x], 2, 3, 4)
    assert differences(net.content()) == []


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_whole_numbers(kind: str) -> None:
    net = Many(2, 3, kind=kind)
    a, b = net.x, net.value("b", (3,), kind)
    for code in ("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM"):
        net.add(code, [a, b], 2, 3, kind=kind)
    for code in ("LESS", "EQUAL"):
        net.add(code, [a, b], 2, 3, kind="bool")
    net.add("SELECT_V2", [net.made[-1], a, b], 2, 3, kind=kind)
    net.add("CUMSUM", [a, ints(1)], 2, 3, kind=kind, exclusive=True, reverse=True)
    assert differences(net.content()) == []


def test_elements_by_number() -> None:
    net = Many(2, 3, 4)
    x, part = net.x, net.value("part", (1, 2, 4))
    net.add("ARG_MAX", [x, ints(1)], 2, 4, kind="int32", output_type=dtype("int32"))
    net.add("ARG_MIN", [x, ints(-1)], 2, 3, kind="int64", output_type=dtype("int64"))
    net.add("CUMSUM", [x, ints(1)], 2, 3, 4)
    net.add("GATHER", [x, np.int32([[2, 0]])], 2, 1, 2, 4, axis=1)
    net.add("GATHER", [x, np.int32([[2, 0], [1, 1]])], 2, 2, 4, axis=1, batch_dims=1)
    net.add("GATHER_ND", [x, np.int32([[1, 2], [0, 0]])], 2, 4)
    net.add("SCATTER_ND", [np.int32([[3], [1]]), net.value("slices", (2, 4)), ints(5, 4)], 5, 4)
    net.add("REVERSE_V2", [x, ints(0, 1)], 2, 3, 4)
    net.add("REVERSE_SEQUENCE", [x, np.int32([2, 3])], 2, 3, 4, seq_dim=1, batch_dim=0)
    net.add("MIRROR_PAD", [x, np.int32([[0, 1], [2, 1], [1, 0]])], 3, 6, 5, mode="REFLECT")
    net.add("MIRROR_PAD", [x, np.int32([[0, 1], [2, 1], [1, 0]])], 3, 6, 5, mode="SYMMETRIC")
    net.add("DYNAMIC_UPDATE_SLICE", [x, part, ints(1, 0, 2)], 2, 3, 4)
    net.add("MATRIX_DIAG", [x], 2, 3, 4, 4)
    net.add("SEGMENT_SUM", [x, ints(0, 0)], 1, 3, 4)
    net.add("ADD_N", [x, x, x], 2, 3, 4)
    net.add("STRIDED_SLICE", [x, ints(0, 1), ints(0, 3), ints(1, 1)], 2, 3, 2, **ELLIPSIS)
    net.add(
        "ONE_HOT", [net.value("n", (2,), "int32"), number(3), np.float32(2), np.float32(-1)], 2, 3, axis=-1
    )
    assert differences(net.content()) == []


@pytest.mark.parametrize("kind", ["float", "int8"])
def test_many_dimensions(kind: str) -> None:
    net = Many(2, 3, 2, 3, 2, 3, kind=kind)
    net.add("TRANSPOSE", [net.x, ints(1, 0, 3, 2, 5, 4)], 3, 2, 3, 2, 3, 2)
    assert differences(net.content()) == []
    net = Many(2, 3, 2, 3, kind=kind)
    net.add("TILE", [net.x, ints(2, 3, 2, 2)], 4, 9, 4, 6)
    assert differences(net.content()) == []


ELLIPSIS = {"begin_mask": 0, "end_mask": 0, "ellipsis_mask": 1, "new_axis_mask": 0, "shrink_axis_mask": 0}


def test_the_largest_in_order() -> None:
    net = Many(2, 9)
    values, places = net.tensor("values", (2, 3)), Tensor("places", (2, 3), dtype("int32"))
    net.block.operators.append(Operator("TOPK_V2", [net.x, net.constant("k", number(3))], [values, places]))
    net.made += [values, places]
    assert differences(net.content()) == []


PICTURES = [
    {"align_corners": False, "half_pixel_centers": False},
    {"align_corners": True, "half_pixel_centers": False},
    {"align_corners": False, "half_pixel_centers": True},
]


@pytest.mark.parametrize("kind", ["float", "int8", "uint8"])
def test_pictures(kind: str) -> None:
    net = Many(1, 4, 5, 3, kind=kind)
    for options in PICTURES:
        for height, width in ((7, 4), (8, 10)):
            for code in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"):
                net.add(code, [net.x, ints(height, width)], 1, height, width, 3, **options)
    crops = np.int32([[1, 1], [0, 1]])
    deep = net.add("SPACE_TO_BATCH_ND", [net.x, ints(2, 3), crops], 6, 3, 2, 3)
    net.add("BATCH_TO_SPACE_ND", [deep, ints(2, 3), crops], 1, 4, 5, 3)
    if kind == "float":
        size = {"filter_width": 2, "filter_height": 3, "stride_h": 2, "stride_w": 1, "padding": "SAME"}
        net.add("L2_POOL_2D", [net.x], 1, 2, 5, 3, **size)
        numbers = {"radius": 1, "bias": 1.0, "alpha": 0.5, "beta": 0.75}
        net.add("LOCAL_RESPONSE_NORMALIZATION", [net.x], 1, 4, 5, 3, **numbers)
        net.add("PRELU", [net.x, np.float32([[[0.1, -0.2, 0.3]]])], 1, 4, 5, 3)
    assert differences(net.content()) == []


@pytest.mark.parametrize("rounding", ["litert", "xnnpack"])
@pytest.mark.parametrize("kind", ["float", "int8"])
def test_convolutions_the_other_way_round(kind: str, rounding: str) -> None:
    for step, padding, out in ((2, "SAME", (8, 10)), (2, "VALID", (9, 11)), (1, "SAME", (4, 5))):
        net = Layers(1, 4, 5, 3, kind=kind)
        x = net.last
        options = {"stride_h": step, "stride_w": step, "padding": padding}
        net.weighted("TRANSPOSE_CONV", (6, 3, 3, 3), 0, (1, *out, 6), **options)
        (operator,) = net.block.operators
        sizes = net.constant("sizes", np.int32([1, *out, 6]))
        operator.inputs = [sizes, operator.inputs[1], x, operator.inputs[2]]
        assert differences(net.content(), rounding) == []


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("kind", ["float", "int8", "int16"])
def test_products_of_matrices(kind: str, turned: bool) -> None:
    net = Layers(2, 3, 4, kind=kind)
    x, other = net.last, net.tensor("other", (1, 5, 4) if turned else (1, 4, 5))
    net.block.inputs.append(other)
    y = net.tensor("y", (2, 3, 5), 200.0 if kind == "int16" else None)
    net.emit("BATCH_MATMUL", [x, other], y, adj_x=False, adj_y=turned)
    for q in (t.quantization for t in (x, other, y) if kind == "int16"):
        assert q is not None
        q.zero_point[:] = 0
    assert differences(net.content()) == []


def test_comparisons_of_bytes() -> None:
    net = Many(2, 30, kind="int8")
    other = net.value("other", (30,))
    for code in ("EQUAL", "LESS", "GREATER_EQUAL"):
        net.add(code, [net.x, other], 2, 30, kind="bool")
    net.add("SELECT_V2", [net.made[-1], net.x, net.x], 2, 30)
    net.add("ARG_MAX", [net.x, ints(1)], 2, kind="int32", output_type=dtype("int32"))
    assert differences(net.content()) == []


# --- loops, branches and variables --------------------------------------------------------------------------


def scalar(name: str, kind: str = "int32", *shape: int) -> Tensor:
    return Tensor(name, shape, dtype(kind))


def test_a_loop() -> None:
    """Two values change places in each round, one is handed on, and one is added to."""
    net = Layers(1, 4, kind="float")
    i, a, b, x = scalar("i"), *(scalar(n, "float", 1, 4) for n in "abx")
    limit, one = net.constant("limit", number(5)), net.constant("one", number(1))
    verdict = scalar("verdict", "bool")
    condition = Subgraph([i, a, b, x], [verdict], [Operator("LESS", [i, limit], [verdict])])
    j, p, q, z = scalar("j"), *(scalar(n, "float", 1, 4) for n in "pqz")
    nxt, sum_ = scalar("next"), scalar("sum", "float", 1, 4)
    body = Subgraph(
        [j, p, q, z],
        [nxt, q, sum_, z],
        [Operator("ADD", [j, one], [nxt]), Operator("ADD", [p, z], [sum_])],
    )
    start = net.constant("start", number(0))
    second = net.unary("TANH")
    outer = net.unary("SIN")
    results = [scalar("ri"), *(scalar(f"r{n}", "float", 1, 4) for n in "abx")]
    options = {"cond_subgraph_index": 1, "body_subgraph_index": 2}
    first = net.block.inputs[0]
    net.block.operators.append(Operator("WHILE", [start, first, second, outer], results, options))
    # What comes later must not take the memory of what the loop still reads.
    net.last = results[2]
    net.unary("ABS")
    net.block.outputs[:] = [*results, net.last]
    assert differences(to_bytes(Program([net.block, condition, body]))) == []


def test_a_branch() -> None:
    net = Layers(1, 4, kind="float")
    x = net.last
    zero = net.constant("zero", np.array(0, np.float32))
    total = scalar("total", "float")
    net.block.operators.append(Operator("SUM", [x, net.constant("axes", ints(0, 1))], [total]))
    sign = scalar("sign", "bool")
    net.block.operators.append(Operator("LESS", [total, zero], [sign]))
    sides = []
    for code in ("ABS", "SIN"):
        given, made = scalar("given", "float", 1, 4), scalar("made", "float", 1, 4)
        sides.append(Subgraph([given], [made], [Operator(code, [given], [made])]))
    y = scalar("y", "float", 1, 4)
    options = {"then_subgraph_index": 1, "else_subgraph_index": 2}
    net.block.operators.append(Operator("IF", [sign, x], [y], options))
    net.block.outputs[:] = [y]
    assert differences(to_bytes(Program([net.block, *sides])), runs=6) == []


def test_a_variable_lasts_from_run_to_run() -> None:
    net = Layers(1, 4, kind="float")
    x, first = net.last, net.constant("first", np.float32([[1, 2, 3, 4]]))

    def handle() -> tuple[Tensor, Operator]:
        made = scalar("handle", "resource")
        return made, Operator("VAR_HANDLE", [], [made], {"container": "", "shared_name": "stream_1/states"})

    (inner, opened), (outer, again) = handle(), handle()
    init = Subgraph([], [], [opened, Operator("ASSIGN_VARIABLE", [inner, first], [])])
    value, total = scalar("value", "float", 1, 4), scalar("total", "float", 1, 4)
    net.block.operators += [
        Operator("CALL_ONCE", [], [], {"init_subgraph_index": 1}),
        again,
        Operator("READ_VARIABLE", [outer], [value]),
        Operator("ADD", [value, x], [total]),
        Operator("ASSIGN_VARIABLE", [outer, total], []),
    ]
    net.block.outputs[:] = [total]
    assert differences(to_bytes(Program([net.block, init]))) == []


def test_sizes_that_are_computed_are_known() -> None:
    """A batch that is open, and sizes that follow from it by operators."""
    net = Layers(1, 4, 3, kind="float")
    x = net.last
    shape = scalar("shape", "int32", 3)
    first, rest = scalar("first", "int32", 1), scalar("rest", "int32", 2)
    net.block.operators += [
        Operator("SHAPE", [x], [shape], {"out_type": dtype("int32")}),
        Operator("SLICE", [shape, net.constant("b", ints(0)), net.constant("s", ints(1))], [first]),
        Operator("CONCATENATION", [first, net.constant("more", ints(12))], [rest], {"axis": 0}),
    ]
    x.shape = (None, 4, 3)
    y = Tensor("y", (None, None), dtype("float"))
    net.block.operators.append(Operator("RESHAPE", [x, rest], [y]))
    net.block.operators.append(Operator("ABS", [y], [scalar("z", "float", 1, 12)]))
    net.block.outputs[:] = net.block.operators[-1].outputs
    assert differences(to_bytes(Program([net.block]))) == []
