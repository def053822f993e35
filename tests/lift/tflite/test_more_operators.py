"""LiteRT's rarer operators in the interpreter: it and LiteRT agree on random configurations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.lift.tflite.programs import agree, constant, program
from thinflow.errors import UnsupportedOp
from thinflow.ir.types import BOOL, FLOAT, INT32, INT64, RESOURCE, STRING, dtype
from thinflow.tflite.model import Operator, Program, Subgraph, Tensor
from thinflow.tflite.options import encode_map
from thinflow.tflite.writer import to_bytes

pytest.importorskip("ai_edge_litert")
COMPLEX, UINT8 = dtype("complex64"), dtype("uint8")


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int32)


def floats(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def test_spectra(tmp_path: Path) -> None:
    x = floats(np.random.default_rng(0), 2, 10, 16)
    made = program("RFFT2D", [((2, 10, 16), FLOAT), ints(8, 16)], [((2, 8, 9), COMPLEX)])
    agree(made, tmp_path / "m.tflite", {"x0": x}, 1e-4)


def test_sizes_in_a_table_are_read_in_a_row(tmp_path: Path) -> None:
    x = floats(np.random.default_rng(0), 2, 6)
    made = program("RESHAPE", [((2, 6), FLOAT), np.int32([[3, 4]])], [((3, 4), FLOAT)])
    agree(made, tmp_path / "m.tflite", {"x0": x}, 0)


@pytest.mark.parametrize("code", ["REAL", "IMAG", "COMPLEX_ABS"])
def test_parts_of_complex_numbers(code: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = (floats(rng, 3, 4) + 1j * floats(rng, 3, 4)).astype(np.complex64)
    agree(program(code, [((3, 4), COMPLEX)], [((3, 4), FLOAT)]), tmp_path / "m.tflite", {"x0": x}, 1e-6)


def test_bits_bins_and_diagonals(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = floats(rng, 3, 4)
    agree(program("BITCAST", [((3, 4), FLOAT)], [((3, 4), INT32)]), tmp_path / "a.tflite", {"x0": x})
    bins = program("BUCKETIZE", [((3, 4), FLOAT)], [((3, 4), INT32)], {"boundaries": (-0.5, 0.0, 1.25)})
    agree(bins, tmp_path / "b.tflite", {"x0": x})
    square = program("MATRIX_SET_DIAG", [((2, 3, 3), FLOAT), ((2, 3), FLOAT)], [((2, 3, 3), FLOAT)])
    agree(square, tmp_path / "c.tflite", {"x0": floats(rng, 2, 3, 3), "x1": floats(rng, 2, 3)})


@pytest.mark.parametrize("code", ["RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL"])
def test_random_numbers_repeat_by_their_seeds(code: str, tmp_path: Path) -> None:
    made = program(code, [ints(3, 7)], [((3, 7), FLOAT)], {"seed": 11, "seed2": 5})
    agree(made, tmp_path / "m.tflite", {}, 1e-6)


def test_drawn_classes_repeat_by_their_seeds(tmp_path: Path) -> None:
    logits = floats(np.random.default_rng(2), 2, 5)
    made = program("MULTINOMIAL", [((2, 5), FLOAT), np.int32(6)], [((2, 6), INT64)], {"seed": 3, "seed2": 4})
    agree(made, tmp_path / "m.tflite", {"x0": logits})


@pytest.mark.parametrize("seed", range(4))
def test_suppression(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    corner = rng.random((20, 2)).astype(np.float32)
    boxes = np.concatenate([corner, corner + rng.random((20, 2)).astype(np.float32)], 1)
    feed = {"x0": boxes, "x1": rng.random(20).astype(np.float32)}
    inputs = [((20, 4), FLOAT), ((20,), FLOAT), np.int32(8), np.float32(0.4), np.float32(0.3)]
    hard = program("NON_MAX_SUPPRESSION_V4", inputs, [((8,), INT32), ((), INT32)])
    agree(hard, tmp_path / "a.tflite", feed)
    outputs = [((8,), INT32), ((8,), FLOAT), ((), INT32)]
    soft = program("NON_MAX_SUPPRESSION_V5", [*inputs, np.float32(0)], outputs)
    agree(soft, tmp_path / "b.tflite", feed, 1e-6)
    both = program("NON_MAX_SUPPRESSION_V5", [*inputs, np.float32(0.5)], outputs)
    (tmp_path / "c.tflite").write_bytes(to_bytes(both))
    with pytest.raises(UnsupportedOp, match="it both lowers scores and drops boxes"):
        thinflow.Session(tmp_path / "c.tflite", "reference")


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_root_mean_squares_of_windows(padding: str, tmp_path: Path) -> None:
    options = {"padding": padding, "stride_w": 2, "stride_h": 1, "filter_width": 3, "filter_height": 2}
    shape = (1, 6, 4, 3) if padding == "SAME" else (1, 5, 3, 3)
    made = program("L2_POOL_2D", [((1, 6, 7, 3), FLOAT)], [(shape, FLOAT)], options)
    agree(made, tmp_path / "m.tflite", {"x0": floats(np.random.default_rng(0), 1, 6, 7, 3)}, 1e-5)


@pytest.mark.parametrize("bias", [True, False])
def test_transposed_convolution_of_volumes(bias: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    options = {"padding": "SAME", "stride_d": 2, "stride_h": 1, "stride_w": 2}
    operands = [ints(1, 6, 4, 8, 3), floats(rng, 2, 3, 3, 3, 5), ((1, 3, 4, 4, 5), FLOAT)]
    operands += [floats(rng, 3)] if bias else []
    made = program("CONV_3D_TRANSPOSE", operands, [((1, 6, 4, 8, 3), FLOAT)], options)
    agree(made, tmp_path / "m.tflite", {"x2": floats(rng, 1, 3, 4, 4, 5)}, 1e-5)


# --- tables -------------------------------------------------------------------------------------------------


def filled_table(keys: np.ndarray, values: np.ndarray, *, size: bool = False) -> Program:
    kinds = [STRING if a.dtype == object else dtype(a.dtype) for a in (keys, values)]
    options = {"table_id": 4, "key_dtype": kinds[0], "value_dtype": kinds[1]}

    def handle(name: str) -> tuple[Tensor, Operator]:
        made = Tensor(name, (1,), RESOURCE)
        return made, Operator("HASHTABLE", [], [made], options)

    inner, outer = handle("inner"), handle("outer")
    fill = Operator("HASHTABLE_IMPORT", [inner[0], constant("keys", keys), constant("values", values)], [])
    start = Subgraph([], [], [inner[1], fill], name="fill")
    x = Tensor("x", (3,), kinds[0])
    default = np.array(-1 if values.dtype != object else b"none", values.dtype)
    y, n = Tensor("y", (3,), kinds[1]), Tensor("n", (1,), INT64)
    find = Operator("HASHTABLE_FIND", [outer[0], x, constant("default", default)], [y])
    steps = [Operator("CALL_ONCE", [], [], {"init_subgraph_index": 1}), outer[1], find]
    steps += [Operator("HASHTABLE_SIZE", [outer[0]], [n])] if size else []
    return Program([Subgraph([x], [y, *([n] if size else [])], steps), start])


def test_tables(tmp_path: Path) -> None:
    words = np.array([b"a", b"bee", b"sea"], object)
    numbers = np.array([7, 5, 9], np.int64)
    one = filled_table(words, numbers, size=True)
    (tmp_path / "a.tflite").write_bytes(to_bytes(one))
    feed = {"x": np.array([b"sea", b"x", b"a"], object)}
    (expected, count), (found, counted) = (
        thinflow.Session(tmp_path / "a.tflite", engine).run(None, feed) for engine in ("litert", "reference")
    )
    assert expected.tolist() == found.tolist() == [9, -1, 7]
    assert count.tolist() == counted.tolist() == [3]
    other = filled_table(numbers, words)
    (tmp_path / "b.tflite").write_bytes(to_bytes(other))
    (found,) = thinflow.Session(tmp_path / "b.tflite", "reference").run(None, {"x": np.int64([5, 6, 7])})
    assert found.tolist() == [b"bee", b"none", b"a"]


def test_tables_in_other_files(tmp_path: Path) -> None:
    """TensorFlow looks into a table that is filled before, ONNX wants a constant default, C has no texts."""
    made = filled_table(np.int64([7, 5]), np.array([b"a", b"bee"], object))
    for tensor in (made.subgraphs[0].inputs[0], made.subgraphs[0].outputs[0]):
        tensor.shape = (None,)
    (tmp_path / "m.tflite").write_bytes(to_bytes(made))
    (find,) = (n for n in thinflow.load(tmp_path / "m.tflite") if n.op == "LookupTableFindV2")
    assert [n.op for n in find.control_inputs] == ["InitializeTableV2"]
    assert find.inputs[2].node.op == "Const"
    assert find.inputs[2].shape == ()
    with pytest.raises(UnsupportedOp, match=r"HASHTABLE_FIND\) has no form in C: keys or values"):
        thinflow.convert(tmp_path / "m.tflite", tmp_path / "m.c")


def test_a_table_that_nothing_fills_is_refused(tmp_path: Path) -> None:
    made = filled_table(np.int64([1]), np.array([b"a"], object))
    made.subgraphs[1].operators.pop()
    (tmp_path / "m.tflite").write_bytes(to_bytes(made))
    with pytest.raises(UnsupportedOp, match="0 operators fill its table, where one is needed"):
        thinflow.Session(tmp_path / "m.tflite", "reference")


def test_rows_by_sorted_keys(tmp_path: Path) -> None:
    values = floats(np.random.default_rng(0), 4, 2)
    outputs = [((5, 2), FLOAT), ((5,), UINT8)]
    made = program("HASHTABLE_LOOKUP", [((5,), INT32), ints(-3, 1, 4, 90), values], outputs)
    agree(made, tmp_path / "m.tflite", {"x0": ints(4, 5, -3, 90, 0)})


@pytest.mark.parametrize("combiner", ["SUM", "MEAN", "SQRTN"])
def test_embedding_bags(combiner: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    indices = np.array([[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 1, 0], [1, 1, 2]], np.int32)
    operands = [((5,), INT32), indices, ints(2, 2, 3), ((5,), FLOAT), floats(rng, 6, 2, 3)]
    made = program("EMBEDDING_LOOKUP_SPARSE", operands, [((2, 2, 2, 3), FLOAT)], {"combiner": combiner})
    feed = {"x0": ints(3, 0, 5, 5, 1), "x3": rng.random(5).astype(np.float32) + 0.1}
    agree(made, tmp_path / "m.tflite", feed, 1e-5)


# --- custom operators ---------------------------------------------------------------------------------------


def test_sound(tmp_path: Path) -> None:
    options = encode_map({"window_size": 48, "stride": 20, "magnitude_squared": True})
    x = floats(np.random.default_rng(0), 200, 1)
    made = program(
        "CUSTOM",
        [((200, 1), FLOAT)],
        [((1, 8, 33), FLOAT)],
        custom_code="AudioSpectrogram",
        custom_options=options,
    )
    (spectrum,) = agree(made, tmp_path / "a.tflite", {"x0": x}, 1e-4)
    counts = {"filterbank_channel_count": 20, "dct_coefficient_count": 7}
    options = encode_map({"upper_frequency_limit": 3000, "lower_frequency_limit": 40, **counts})
    made = program(
        "CUSTOM",
        [(spectrum.shape, FLOAT), np.int32(8000)],
        [((1, 8, 7), FLOAT)],
        custom_code="Mfcc",
        custom_options=options,
    )
    agree(made, tmp_path / "b.tflite", {"x0": spectrum}, 1e-4)


DETECTION = {
    "max_detections": 6,
    "max_classes_per_detection": 1,
    "nms_score_threshold": 0.2,
    "nms_iou_threshold": 0.5,
    "num_classes": 3,
    "y_scale": 10.0,
    "x_scale": 10.0,
    "h_scale": 5.0,
    "w_scale": 5.0,
}


@pytest.mark.parametrize("regular", [False, True])
def test_detections(regular: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    anchors = np.concatenate([rng.random((30, 2)), 0.2 + 0.1 * rng.random((30, 2))], 1).astype(np.float32)
    made = program(
        "CUSTOM",
        [((1, 30, 4), FLOAT), ((1, 30, 4), FLOAT), anchors],
        [((1, 6, 4), FLOAT), ((1, 6), FLOAT), ((1, 6), FLOAT), ((1,), FLOAT)],
        custom_code="TFLite_Detection_PostProcess",
        custom_options=encode_map({**DETECTION, "use_regular_nms": regular, "detections_per_class": 4}),
    )
    feed = {"x0": floats(rng, 1, 30, 4), "x1": rng.random((1, 30, 4)).astype(np.float32)}
    agree(made, tmp_path / "m.tflite", feed, 1e-5)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (b"", "its options cannot be read: 0 bytes are no FlexBuffer"),
        (b"\x07\x04\x01", "its options are no map"),
        (encode_map({**DETECTION, "soft_nms": 1}), "its option 'soft_nms' is not known here"),
    ],
)
def test_options_that_are_not_known_are_refused(options: bytes, said: str, tmp_path: Path) -> None:
    made = program(
        "CUSTOM",
        [((1, 30, 4), FLOAT), ((1, 30, 4), FLOAT), ((30, 4), FLOAT)],
        [((1, 6, 4), FLOAT), ((1, 6), FLOAT), ((1, 6), FLOAT), ((1,), FLOAT)],
        custom_code="TFLite_Detection_PostProcess",
        custom_options=options,
    )
    (tmp_path / "m.tflite").write_bytes(to_bytes(made))
    with pytest.raises(UnsupportedOp, match=said):
        thinflow.Session(tmp_path / "m.tflite", "reference")


def flex(name: str, text: str) -> bytes:
    """Options of a Flex operator: a vector of two texts, as FlexBuffers."""
    from thinflow.wire import protos

    node = protos.from_text("NodeDef", f'name: "n" op: "{name}" {text}')
    parts = [name.encode(), protos.serialize(node)]
    out, starts = bytearray(), []
    for part in parts:
        out += len(part).to_bytes(4, "little")
        starts.append(len(out))
        out += part + b"\0" * (4 - len(part) % 4)
    out += (2).to_bytes(4, "little")
    begin = len(out)
    for start in starts:
        out += (len(out) - start).to_bytes(4, "little")
    out += bytes([5 << 2 | 2] * 2)
    out += bytes(2)
    return bytes(out + (len(out) - begin).to_bytes(4, "little") + bytes([10 << 2 | 2, 4]))


def test_an_op_of_tensorflow_in_a_model(tmp_path: Path) -> None:
    text = 'attr { key: "T" value { type: DT_FLOAT } } attr { key: "adj_y" value { b: true } }'
    made = program(
        "CUSTOM",
        [((2, 3, 4), FLOAT), ((2, 5, 4), FLOAT)],
        [((2, 3, 5), FLOAT)],
        custom_code="FlexBatchMatMulV2",
        custom_options=flex("BatchMatMulV2", text),
    )
    (tmp_path / "m.tflite").write_bytes(to_bytes(made))
    rng = np.random.default_rng(0)
    x, y = floats(rng, 2, 3, 4), floats(rng, 2, 5, 4)
    (found,) = thinflow.Session(tmp_path / "m.tflite", "reference").run(None, {"x0": x, "x1": y})
    np.testing.assert_allclose(found, x @ y.transpose(0, 2, 1), rtol=1e-5, atol=1e-6)


# --- StableHLO ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", ["ADD", "MULTIPLY", "MAXIMUM", "MINIMUM"])
def test_stablehlo_of_two_operands(code: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    made = program(f"STABLEHLO_{code}", [((2, 3), FLOAT), ((2, 3), FLOAT)], [((2, 3), FLOAT)])
    agree(made, tmp_path / "m.tflite", {"x0": floats(rng, 2, 3), "x1": floats(rng, 2, 3)})


def test_stablehlo_of_bits(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 9, (2, 3)).astype(np.int32) for _ in range(2))
    made = program("STABLEHLO_SHIFT_LEFT", [((2, 3), INT32), ((2, 3), INT32)], [((2, 3), INT32)])
    agree(made, tmp_path / "a.tflite", {"x0": a, "x1": b})
    made = program("STABLEHLO_AND", [((2, 3), BOOL), ((2, 3), BOOL)], [((2, 3), BOOL)])
    agree(made, tmp_path / "b.tflite", {"x0": a > 4, "x1": b > 3})


def test_stablehlo_composites_and_cases(tmp_path: Path) -> None:
    def inner(code: str, name: str) -> Subgraph:
        a, b = Tensor(f"{name}a", (2, 3), FLOAT), Tensor(f"{name}b", (2, 3), FLOAT)
        c = Tensor(f"{name}c", (2, 3), FLOAT)
        return Subgraph([a, b], [c], [Operator(code, [a, b], [c])], name=name)

    rng = np.random.default_rng(0)
    a, b = floats(rng, 2, 3), floats(rng, 2, 3)
    options = {
        "name": "odml.sum",
        "decomposition_subgraph_index": 1,
        "composite_attributes": (),
    }
    specs, bodies = [((2, 3), FLOAT)] * 2, [inner("SUB", "one"), inner("MUL", "two")]
    made = program("STABLEHLO_COMPOSITE", specs, specs[:1], options, subgraphs=bodies)
    agree(made, tmp_path / "a.tflite", {"x0": a, "x1": b})
    for index in (0, 1, 7, -2):
        made = program(
            "STABLEHLO_CASE",
            [((), INT32), *specs],
            specs[:1],
            {"branch_subgraph_indices": (1, 2)},
            subgraphs=bodies,
        )
        agree(made, tmp_path / "b.tflite", {"x0": np.int32(index), "x1": a, "x2": b})


@pytest.mark.parametrize("seed", range(8))
def test_stablehlo_pads(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 6, 3)
    low, high, inside = rng.integers(-1, 3, 3), rng.integers(-1, 3, 3), rng.integers(0, 3, 3)
    shape = tuple(int(n) for n in (sizes - 1) * (inside + 1) + 1 + low + high)
    options = {
        "edge_padding_low": tuple(low.tolist()),
        "edge_padding_high": tuple(high.tolist()),
        "interior_padding": tuple(inside.tolist()),
    }
    x = floats(rng, *sizes)
    made = program("STABLEHLO_PAD", [(x.shape, FLOAT), np.float32(1.5)], [(shape, FLOAT)], options)
    agree(made, tmp_path / "a.tflite", {"x0": x})
    shape = tuple(int(n) for n in (sizes - 1) * (inside + 1) + 1)
    steps = (inside + 1).astype(np.int32)
    made = program("DILATE", [(x.shape, FLOAT), steps, np.float32(1.5)], [(shape, FLOAT)])
    agree(made, tmp_path / "b.tflite", {"x0": x})


@pytest.mark.parametrize("seed", range(8))
def test_stablehlo_windows(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    sizes, window = rng.integers(4, 7, 3), rng.integers(1, 3, 3)
    strides, base, steps = (rng.integers(1, 3, 3) for _ in range(3))
    padding = rng.integers(0, 2, (3, 2))
    wide = (sizes - 1) * base + 1 + padding.sum(1)
    shape = tuple(int(n) for n in (wide - (window - 1) * steps - 1) // strides + 1)
    code, init = [("STABLEHLO_ADD", 0.0), ("STABLEHLO_MAXIMUM", -9.0), ("STABLEHLO_MINIMUM", 9.0)][seed % 3]
    a, b, c = (Tensor(n, (), FLOAT) for n in "abc")
    body = Subgraph([a, b], [c], [Operator(code, [a, b], [c])], name="body")
    options = {
        "window_dimensions": tuple(window.tolist()),
        "window_strides": tuple(strides.tolist()),
        "base_dilations": tuple(base.tolist()),
        "window_dilations": tuple(steps.tolist()),
        "padding": tuple(padding.ravel().tolist()),
        "body_subgraph_index": 1,
    }
    x = floats(rng, *sizes)
    operands = [(x.shape, FLOAT), np.float32(init)]
    made = program("STABLEHLO_REDUCE_WINDOW", operands, [(shape, FLOAT)], options, subgraphs=[body])
    agree(made, tmp_path / "m.tflite", {"x0": x}, 1e-6)


GATHERS = [
    # operand, indices, result, options: rows; points with a window; a batch axis between; indices in front
    ((5, 4), (3, 1), (3, 4), ((1,), (0,), (0,), 1, (1, 4))),
    ((6, 7, 3), (2, 2), (2, 3, 2, 3), ((1, 2, 3), (), (0, 1), 1, (3, 2, 3))),
    ((5, 4, 3), (2, 2), (4, 2), ((0,), (0, 2), (2, 0), 1, (1, 4, 1))),
    ((5, 4), (2, 3), (3, 2, 3), ((1, 2), (), (0, 1), 0, (2, 3))),
    ((8, 3), (4,), (4, 3), ((1,), (0,), (0,), 1, (1, 3))),
]


def gathered(x: np.ndarray, indices: np.ndarray, shape: tuple[int, ...], options: tuple) -> np.ndarray:
    """What StableHLO defines, element by element."""
    offsets, collapsed, mapped, axis, slices = options
    y = np.empty(shape, x.dtype)
    for place in np.ndindex(*shape):
        batch = [p for n, p in enumerate(place) if n not in offsets]
        start = [0] * x.ndim
        for k, dim in enumerate(mapped):
            at = [*batch[:axis], k, *batch[axis:]] if axis < indices.ndim else batch
            start[dim] = int(np.clip(indices[tuple(at)], 0, x.shape[dim] - slices[dim]))
        inside = iter([place[n] for n in offsets])
        whole = [0 if n in collapsed else next(inside) for n in range(x.ndim)]
        y[place] = x[tuple(a + b for a, b in zip(start, whole, strict=True))]
    return y


@pytest.mark.parametrize("case", GATHERS)
def test_stablehlo_gathers(case: tuple, tmp_path: Path) -> None:
    # Beside the definition: LiteRT's kernel writes past its result in some of these.
    operand, indices, result, (offsets, collapsed, mapped, axis, slices) = case
    options = {
        "offset_dims": offsets,
        "collapsed_slice_dims": collapsed,
        "start_index_map": mapped,
        "index_vector_dim": axis,
        "slice_sizes": slices,
    }
    rng = np.random.default_rng(0)
    made = program("STABLEHLO_GATHER", [(operand, FLOAT), (indices, INT32)], [(result, FLOAT)], options)
    feed = {"x0": floats(rng, *operand), "x1": rng.integers(-1, 6, indices).astype(np.int32)}
    (tmp_path / "m.tflite").write_bytes(to_bytes(made))
    (found,) = thinflow.Session(tmp_path / "m.tflite", "reference").run(None, feed)
    np.testing.assert_array_equal(found, gathered(feed["x0"], feed["x1"], result, case[3]))


@pytest.mark.parametrize("code", ["", "STABLEHLO_ADD", "STABLEHLO_MAXIMUM"])
def test_stablehlo_scatters(code: str, tmp_path: Path) -> None:
    a, b, c = (Tensor(n, (), FLOAT) for n in "abc")
    step = [Operator(code, [a, b], [c])] if code else []
    body = Subgraph([a, b], [c if code else b], step, name="body")
    options = {
        "update_window_dims": (1,),
        "inserted_window_dims": (0,),
        "scatter_dims_to_operand_dims": (0,),
        "index_vector_dim": 1,
        "update_computation_subgraph_index": 1,
    }
    operands = [((6, 3), FLOAT), ((4, 1), INT32), ((4, 3), FLOAT)]
    made = program("STABLEHLO_SCATTER", operands, [((6, 3), FLOAT)], options, subgraphs=[body])
    rng = np.random.default_rng(0)
    places = np.int32([[1], [4], [0], [9]])
    feed = {"x0": floats(rng, 6, 3), "x1": places, "x2": floats(rng, 4, 3)}
    agree(made, tmp_path / "m.tflite", feed, 1e-6)


# LiteRT has no kernel for these: they are meant for delegates.
ALONE = {
    "ABS": np.abs,
    "COSINE": np.cos,
    "FLOOR": np.floor,
    "NEGATE": np.negative,
    "TANH": np.tanh,
    "CBRT": np.cbrt,
    "LOGISTIC": lambda x: 1 / (1 + np.exp(-x)),
}


@pytest.mark.parametrize("code", ALONE)
def test_stablehlo_without_a_kernel(code: str, tmp_path: Path) -> None:
    x = floats(np.random.default_rng(0), 2, 3)
    made = program(f"STABLEHLO_{code}", [((2, 3), FLOAT)], [((2, 3), FLOAT)])
    np.testing.assert_allclose(alone(made, tmp_path, x), ALONE[code](x), rtol=1e-6, atol=1e-6)


def alone(made: Program, folder: Path, x: np.ndarray) -> np.ndarray:
    (folder / "m.tflite").write_bytes(to_bytes(made))
    (found,) = thinflow.Session(folder / "m.tflite", "reference").run(None, {"x0": x})
    return found


def test_stablehlo_arrays(tmp_path: Path) -> None:
    x = floats(np.random.default_rng(0), 2, 3)
    spec = ((2, 3), FLOAT)

    def of(code: str, result: tuple, options: dict, *others: np.ndarray) -> np.ndarray:
        return alone(program(f"STABLEHLO_{code}", [spec, *others], [result], options), tmp_path, x)

    assert (of("TRANSPOSE", ((3, 2), FLOAT), {"permutation": (1, 0)}) == x.T).all()
    assert (of("RESHAPE", ((6,), FLOAT), {}) == x.reshape(6)).all()
    two = {"broadcast_dimensions": (0, 2)}
    expected = np.broadcast_to(x[:, None], (2, 4, 3))
    assert (of("BROADCAST_IN_DIM", ((2, 4, 3), FLOAT), two) == expected).all()
    cut = {"start_indices": (0, 0), "limit_indices": (2, 3), "strides": (1, 2)}
    assert (of("SLICE", ((2, 2), FLOAT), cut) == x[:, ::2]).all()
    assert (of("CONCATENATE", ((2, 6), FLOAT), {"dimension": 1}, x) == np.concatenate([x, x], 1)).all()
    y = floats(np.random.default_rng(1), 4, 3)
    dot = {"lhs_contracting_dimensions": (1,), "rhs_contracting_dimensions": (1,)}
    np.testing.assert_allclose(of("DOT_GENERAL", ((2, 4), FLOAT), dot, y), x @ y.T, rtol=1e-5)
    assert (of("COMPARE", ((2, 3), BOOL), {"comparison_direction": "GREATER_EQUAL"}, -x) == (x >= -x)).all()
    part = of("DYNAMIC_SLICE", ((1, 2), FLOAT), {"slice_sizes": (1, 2)}, np.int32(1), np.int32(5))
    assert (part == x[1:, 1:]).all()
    whole = of("DYNAMIC_UPDATE_SLICE", ((2, 3), FLOAT), {}, y[:1, :2], np.int32(7), np.int32(0))
    expected = x.copy()
    expected[1:, :2] = y[:1, :2]
    assert (whole == expected).all()
