"""Programs: what is written runs in LiteRT, and what is read is what was written."""

from __future__ import annotations

import random

import numpy as np
import pytest

from thinflow.errors import FormatError, GraphError, ThinflowError
from thinflow.ir.types import BOOL, FLOAT, INT8, INT32, STRING, dtype
from thinflow.tflite import schema, versions
from thinflow.tflite.model import Operator, Program, Quantization, Signature, Subgraph, Tensor
from thinflow.tflite.reader import read_program
from thinflow.tflite.versions import op_version
from thinflow.tflite.writer import to_bytes, write_program

RNG = np.random.default_rng(0)


def value(name, *shape, element=FLOAT, **more):
    return Tensor(name, shape, element, **more)


def constant(name, data, **more):
    data = np.asarray(data)
    return Tensor(name, data.shape, dtype(data.dtype), data, **more)


def quantized(scale, zero_point=0, axis=0):
    scale = np.atleast_1d(np.float32(scale))
    return Quantization(scale, np.full(len(scale), zero_point, np.int64), axis)


def program(inputs, outputs, *operators, **more):
    return Program([Subgraph(list(inputs), list(outputs), list(operators))], **more)


def interpreter(raw, **more):
    module = pytest.importorskip("ai_edge_litert.interpreter")
    return module.Interpreter(model_content=raw, **more)


def run(raw, *arrays):
    session = interpreter(raw)
    details = session.get_input_details()
    for detail, array in zip(details, arrays, strict=True):
        if tuple(detail["shape"]) != array.shape:
            session.resize_tensor_input(detail["index"], array.shape)
    session.allocate_tensors()
    for detail, array in zip(details, arrays, strict=True):
        session.set_tensor(detail["index"], array)
    session.invoke()
    return [session.get_tensor(d["index"]) for d in session.get_output_details()]


def description(p):
    """Everything a file holds, with tensors as their numbers, for comparing programs."""

    def of(data):
        if data is None:
            return None
        return data.tolist() if isinstance(data, np.ndarray) else bytes(data)

    def parameters(q):
        return (of(q.scale), of(q.zero_point), q.axis) if q else ()

    subgraphs = []
    numbers = {}
    for s in p.subgraphs:
        index = {t: i for i, t in enumerate(s.tensors())} | {None: -1}
        numbers |= index
        tensors = [
            (t.name, t.shape, t.dtype, of(t.data), t.is_variable, parameters(t.quantization))
            for t in s.tensors()
        ]
        operators = [
            (
                (o.code, o.custom_code, o.custom_options, o.version, o.options, o.mutating_inputs),
                [[index[t] for t in side] for side in (o.inputs, o.outputs, o.intermediates)],
            )
            for o in s.operators
        ]
        subgraphs.append(
            (s.name, tensors, operators, [index[t] for t in s.inputs], [index[t] for t in s.outputs])
        )
    signatures = {
        k: [{n: numbers[t] for n, t in side.items()} for side in v] for k, v in p.signatures.items()
    }
    return subgraphs, p.description, signatures, p.metadata


def check_round_trip(p):
    first = read_program(to_bytes(p))
    first.validate()
    again = to_bytes(first)
    assert description(read_program(again)) == description(first)
    assert to_bytes(read_program(again)) == again
    return first


def conv_program():
    x, y = value("x", 1, 4, 4, 2), value("y", 1, 4, 4, 3)
    w, b = (
        constant("w", RNG.standard_normal((3, 1, 1, 2)).astype(np.float32)),
        constant("b", np.float32([1, -1, 0])),
    )
    options = {"padding": "SAME", "stride_w": 1, "stride_h": 1, "fused_activation_function": "RELU"}
    return program([x], [y], Operator("CONV_2D", [x, w, b], [y], options), description="convolution")


def while_program(limit=10):
    """x doubles until it exceeds the limit."""
    a, b, flag = value("a"), value("b"), value("flag", element=BOOL)
    bound = constant("bound", np.float32(limit))
    condition = Subgraph([a], [flag], [Operator("LESS", [a, bound], [flag])], name="condition")
    body = Subgraph([b], [c := value("c")], [Operator("ADD", [b, b], [c])], name="body")
    x, y = value("x"), value("y")
    loop = Operator("WHILE", [x], [y], {"cond_subgraph_index": 1, "body_subgraph_index": 2})
    return Program([Subgraph([x], [y], [loop]), condition, body])


def shared_program(weights):
    x, h, y = value("x", 2, 8), value("h", 2, 8), value("y", 2, 8)
    w1, w2 = constant("w1", weights), constant("w2", weights)
    return program(
        [x],
        [y],
        Operator("FULLY_CONNECTED", [x, w1, None], [h], {}),
        Operator("FULLY_CONNECTED", [h, w2, None], [y], {}),
    )


# ------------------------------------------------------------------------------------------------ it runs


def test_add_with_activation():
    x, y, z = value("x", 2, 3), value("y", 2, 3), value("z", 2, 3)
    p = program([x, y], [z], Operator("ADD", [x, y], [z], {"fused_activation_function": "RELU6"}))
    a, b = (RNG.standard_normal((2, 3)).astype(np.float32) * 5 for _ in range(2))
    np.testing.assert_allclose(run(to_bytes(p), a, b)[0], np.clip(a + b, 0, 6), rtol=1e-6)


def test_convolution_with_bias_and_activation():
    p = conv_program()
    x = RNG.standard_normal((1, 4, 4, 2)).astype(np.float32)
    _, w, b = p.subgraphs[0].operators[0].inputs
    expected = np.maximum(x @ w.data[:, 0, 0].T + b.data, 0)
    np.testing.assert_allclose(run(to_bytes(p), x)[0], expected, rtol=1e-5, atol=1e-6)
    check_round_trip(p)


def test_reshape_dense_softmax_with_an_unknown_batch():
    x, flat, logits, y = (
        value("x", None, 2, 4),
        value("flat", None, 8),
        value("logits", None, 3),
        value("y", None, 3),
    )
    w = constant("w", RNG.standard_normal((8, 3)).astype(np.float32).T)  # not contiguous
    b = constant("b", np.float32([0.5, 0, -1]))
    p = program(
        [x],
        [y],
        Operator("RESHAPE", [x, constant("to", np.int32([-1, 8]))], [flat]),
        Operator("FULLY_CONNECTED", [flat, w, b], [logits]),
        Operator("SOFTMAX", [logits], [y], {"beta": 1.0}),
    )
    raw = to_bytes(p)
    for batch in (1, 5):
        a = RNG.standard_normal((batch, 2, 4)).astype(np.float32)
        e = np.exp(a.reshape(batch, 8) @ w.data.T + b.data)
        np.testing.assert_allclose(run(raw, a)[0], e / e.sum(1, keepdims=True), rtol=1e-5)
    assert interpreter(raw).get_input_details()[0]["shape_signature"].tolist() == [-1, 2, 4]
    assert check_round_trip(p).subgraphs[0].inputs[0].shape == (None, 2, 4)


def test_int8_convolution_per_channel():
    x, y = value("x", 1, 3, 3, 2), value("y", 1, 3, 3, 4)
    w = RNG.integers(-127, 128, (4, 1, 1, 2)).astype(np.int8)
    w_scale, x_q = np.float32([0.01, 0.02, 0.005, 0.03]), quantized(0.02, -5)
    b = np.int32([10, -20, 300, 0])
    xq = value("xq", 1, 3, 3, 2, element=INT8, quantization=x_q)
    yq = value("yq", 1, 3, 3, 4, element=INT8, quantization=quantized(0.1, 3))
    conv = Operator(
        "CONV_2D",
        [
            xq,
            constant("w", w, quantization=quantized(w_scale, axis=0)),
            constant("b", b, quantization=quantized(w_scale * np.float32(0.02))),
        ],
        [yq],
        {"padding": "VALID", "stride_w": 1, "stride_h": 1},
    )
    p = program([x], [y], Operator("QUANTIZE", [x], [xq]), conv, Operator("DEQUANTIZE", [yq], [y]))
    a = RNG.uniform(-2, 2, (1, 3, 3, 2)).astype(np.float32)
    real = np.clip(np.round(a / 0.02) - 5, -128, 127) + 5
    expected = (real @ w[:, 0, 0].T.astype(np.float32) + b) * w_scale * 0.02
    got = run(to_bytes(p), a)[0]
    assert np.abs(got - np.clip(expected, -13.1, 12.4)).max() <= 0.11
    assert op_version(conv) == 3
    back = check_round_trip(p).subgraphs[0].operators[1]
    assert back.version == 3
    assert back.inputs[1].quantization.scale.tolist() == w_scale.tolist()


def test_while_loop():
    p = while_program()
    assert run(to_bytes(p), np.float32(3))[0] == 12
    back = check_round_trip(p)
    assert back.subgraphs[0].operators[0].options == {"cond_subgraph_index": 1, "body_subgraph_index": 2}


def test_signature():
    p = conv_program()
    main = p.subgraphs[0]
    p.signatures["serve"] = Signature({"image": main.inputs[0]}, {"score": main.outputs[0]})
    x = np.ones((1, 4, 4, 2), np.float32)
    session = interpreter(to_bytes(p))
    assert session.get_signature_list() == {"serve": {"inputs": ["image"], "outputs": ["score"]}}
    np.testing.assert_allclose(
        session.get_signature_runner("serve")(image=x)["score"], run(to_bytes(p), x)[0]
    )
    assert set(check_round_trip(p).signatures) == {"serve"}


def test_string_constants_run():
    words = np.array([b"one", b"", b"three"], object)
    table = Tensor("words", (3,), STRING, words)
    index, y = value("index", 2, element=INT32), value("y", 2, element=STRING)
    p = program([index], [y], Operator("GATHER", [table, index], [y], {"axis": 0}))
    assert run(to_bytes(p), np.int32([2, 0]))[0].tolist() == [b"three", b"one"]
    assert check_round_trip(p).subgraphs[0].operators[0].inputs[0].data.tolist() == words.tolist()


# ------------------------------------------------------------------------------------------------ the file


def test_shared_weights_share_a_buffer():
    weights = RNG.standard_normal((8, 8)).astype(np.float32)
    raw = to_bytes(shared_program(weights))
    assert raw.count(weights.tobytes()) == 1
    x = RNG.standard_normal((2, 8)).astype(np.float32)
    np.testing.assert_allclose(run(raw, x)[0], x @ weights.T @ weights.T, rtol=1e-4, atol=1e-5)
    first, second = (o.inputs[1] for o in check_round_trip(shared_program(weights)).subgraphs[0].operators)
    assert first.data is second.data
    big = np.zeros((64, 64), np.float32)
    x, y, z = (value(n, 64, 64) for n in "xyz")
    operators = (
        Operator("ADD", [x, constant("a", big)], [y]),
        Operator("ADD", [y, constant("b", big[:])], [z]),
    )
    length, _ = write_program(program([x], [z], *operators))
    assert big.nbytes < length < 2 * big.nbytes


def test_weights_are_views_of_the_file():
    raw = to_bytes(shared_program(RNG.standard_normal((8, 8)).astype(np.float32)))
    data = read_program(raw).subgraphs[0].operators[0].inputs[1].data
    assert not data.flags.owndata
    assert not data.flags.writeable
    assert data.ctypes.data - np.frombuffer(raw, np.uint8).ctypes.data < len(raw)


def test_weights_behind_the_flatbuffer(tmp_path):
    module = pytest.importorskip("ai_edge_litert.interpreter")
    weights = RNG.standard_normal((8, 8)).astype(np.float32)
    p = shared_program(weights)
    p.metadata["note"] = b"kept"
    length, chunks = write_program(p, inline_limit=0)
    raw = b"".join(bytes(c) for c in chunks)
    assert len(raw) == length
    assert raw.endswith(weights.tobytes())
    back = read_program(raw)
    assert back.metadata == {"note": b"kept"}
    assert to_bytes(back) == to_bytes(read_program(to_bytes(p)))
    x = RNG.standard_normal((2, 8)).astype(np.float32)
    expected = x @ weights.T @ weights.T
    np.testing.assert_allclose(run(raw, x)[0], expected, rtol=1e-4, atol=1e-5)
    path = tmp_path / "model.tflite"
    path.write_bytes(raw)
    session = module.Interpreter(model_path=str(path))
    session.allocate_tensors()
    session.set_tensor(session.get_input_details()[0]["index"], x)
    session.invoke()
    got = session.get_tensor(session.get_output_details()[0]["index"])
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_metadata_and_custom_ops_survive():
    x, y = value("x", 4), value("y", 4)
    custom = Operator(
        "CUSTOM", [x, None], [y], custom_code="Flex", custom_options=b"\1\2\3", mutating_inputs=(False, True)
    )
    p = program([x], [y], custom, metadata={"min_runtime_version": b"1.5.0".ljust(16, b"\0"), "empty": b""})
    back = check_round_trip(p)
    assert back.metadata == p.metadata
    operator = back.subgraphs[0].operators[0]
    assert (operator.custom_code, operator.custom_options) == ("Flex", b"\1\2\3")
    assert operator.inputs[1] is None
    assert operator.mutating_inputs == (False, True)


def test_newer_op_codes_survive():
    x, y = value("x", 4), value("y", 4)
    back = check_round_trip(program([x], [y], Operator("BUILTIN_300", [x], [y], version=4)))
    assert back.subgraphs[0].operators[0].code == "BUILTIN_300"
    assert back.subgraphs[0].operators[0].version == 4


@pytest.mark.parametrize(
    "name", sorted(schema.OPTION_NUMBERS.keys() - {"NONE"}) + sorted(schema.OPTION_2_NUMBERS)
)
def test_every_option_table_round_trips_and_agrees_with_the_published_schema(name):
    codes = [c for c in schema.OP_CODES if schema.options_of(c) == name]
    assert codes, "no op uses this table"
    samples = {
        "bool": True,
        "f32": 0.5,
        "dtype": INT8,
        "str": "text",
        "[i32]": (3, 4),
        "[i64]": (1 << 40, 7),
        "[f32]": (0.5, 2.0),
        "[u8]": (9,),
        "[u32]": (1 << 31, 0),
        "[bool]": (True, False),
    }
    options = {
        f.name: samples.get(f.kind, schema.ENUMS[f.kind][1] if f.kind in schema.ENUMS else 0)
        for f in schema.option_fields(name)
    }
    for f in schema.option_fields(name):
        if f.name not in schema.SUBGRAPH_OPTIONS and f.kind in ("i32", "i64", "i8", "u32"):
            options[f.name] = 5
    x, y = value("x", 2), value("y", 2)
    raw = to_bytes(program([x], [y], Operator(codes[0], [x, x, x], [y], options)))
    assert read_program(raw).subgraphs[0].operators[0].options == options
    published = pytest.importorskip("ai_edge_litert.schema_py_generated")
    model = published.ModelT.InitFromPackedBuf(raw, 0)
    operator = model.subgraphs[0].operators[0]
    table = operator.builtinOptions2 if name in schema.OPTION_2_NUMBERS else operator.builtinOptions
    assert type(table).__name__ == f"{name}OptionsT"
    fields = {k.lower(): v for k, v in vars(table).items()}
    for f in schema.option_fields(name):
        got, expected = fields[f.name.replace("_", "").lower()], options[f.name]
        if f.kind == "dtype":
            expected = schema.tensor_type(expected)
        elif f.kind in schema.ENUMS:
            expected = 1
        elif f.kind == "str":
            expected = expected.encode()
        assert (tuple(got) if f.kind.startswith("[") else got) == expected, f.name


def test_numbers_agree_with_the_published_schema():
    published = pytest.importorskip("ai_edge_litert.schema_py_generated")

    def numbers(cls, suffix=""):
        return {k.removesuffix(suffix): v for k, v in vars(cls).items() if isinstance(v, int)}

    assert numbers(published.BuiltinOperator) == schema.OP_CODES
    assert numbers(published.BuiltinOptions, "Options") == schema.OPTION_NUMBERS
    assert schema.OPTION_2_NUMBERS.items() <= numbers(published.BuiltinOptions2, "Options").items()
    for number in numbers(published.TensorType).values():
        assert schema.tensor_type(schema.dtype_of(number)) == number
    tensor = published.ModelT.InitFromPackedBuf(to_bytes(conv_program()), 0).subgraphs[0].tensors[0]
    assert (tensor.name, tensor.shape.tolist(), tensor.hasRank) == (b"x", [1, 4, 4, 2], True)


def test_every_dtype_of_constant():
    x, y = value("x", 2), value("y", 2)
    for number in range(23):
        element = schema.dtype_of(number)
        if not element.itemsize:
            continue
        data = np.array([[1, 0, 1], [0, 1, 1]]).astype(element.numpy())
        operator = Operator("CUSTOM", [x, Tensor("c", (2, 3), element, data)], [y], custom_code="any")
        back = read_program(to_bytes(program([x], [y], operator))).subgraphs[0].operators[0].inputs[1]
        assert back.dtype is element
        assert back.array().dtype == data.dtype
        assert back.array().tolist() == data.tolist()


def test_four_bit_constants_are_packed_low_half_first():
    element = dtype("int4")
    data = np.array([-8, 7, -1], element.numpy())
    x, y = value("x", 3), value("y", 3)
    p = program([x], [y], Operator("CUSTOM", [x, Tensor("c", (3,), element, data)], [y], custom_code="any"))
    back = read_program(to_bytes(p)).subgraphs[0].operators[0].inputs[1]
    assert bytes(back.data) == bytes([0x78, 0x0F])
    assert back.array().astype(int).tolist() == [-8, 7, -1]


def test_scalars_unknown_ranks_and_empty_constants():
    x, y = Tensor("x", None, FLOAT), Tensor("y", (), FLOAT)
    axes = constant("axes", np.zeros(0, np.int32))
    back = check_round_trip(program([x], [y], Operator("SUM", [x, axes], [y], {"keep_dims": False})))
    assert [t.shape for t in back.subgraphs[0].tensors()] == [None, (0,), ()]
    assert back.subgraphs[0].operators[0].inputs[1].data.dtype == np.int32


# ------------------------------------------------------------------------------------------------ versions


def test_versions_by_feature():
    def version(code, *inputs, output=FLOAT, **options):
        return op_version(Operator(code, list(inputs), [value("y", 1, element=output)], options))

    f, i8 = value("f", 1, 8, 8, 4), value("i", 1, 8, 8, 4, element=INT8)
    w8 = value("w", 4, 3, 3, 4, element=INT8)
    assert version("CONV_2D", f, value("w", 4, 3, 3, 4)) == 1
    assert version("CONV_2D", f, value("w", 4, 3, 3, 2)) == 6
    assert version("CONV_2D", i8, w8, output=INT8) == 3
    assert version("CONV_2D", f, w8) == 2
    wide = value("w", 4, 3, 3, 4, element=INT8, quantization=quantized([1, 2, 3, 4]))
    assert version("CONV_2D", f, wide) == 5
    assert version("DEPTHWISE_CONV_2D", f, f, dilation_w_factor=2, dilation_h_factor=1) == 2
    assert version("DEPTHWISE_CONV_2D", f, f, dilation_w_factor=1) == 1
    assert version("FULLY_CONNECTED", i8, w8, None, output=INT8) == 4
    assert version("FULLY_CONNECTED", f, w8, None, asymmetric_quantize_inputs=True) == 9
    assert version("FULLY_CONNECTED", f, f) == 6
    assert version("FULLY_CONNECTED", f, f, None) == 1
    assert version("FULLY_CONNECTED", f, f, None, keep_num_dims=True) == 5
    assert version("TRANSPOSE_CONV", f, f, f, f) == 3
    assert version("TRANSPOSE_CONV", f, f, f, fused_activation_function="RELU") == 4
    assert version("TRANSPOSE_CONV", f, i8, i8) == 2
    for code in (
        "PAD",
        "MAX_POOL_2D",
        "MEAN",
        "SOFTMAX",
        "CONCATENATION",
        "ADD",
        "MUL",
        "LOGISTIC",
        "DEQUANTIZE",
    ):
        assert version(code, i8) == 2, code
    for code in (
        "PAD",
        "MAX_POOL_2D",
        "MEAN",
        "SOFTMAX",
        "CONCATENATION",
        "ADD",
        "MUL",
        "LOGISTIC",
        "QUANTIZE",
    ):
        assert version(code, f) == 1, code
    assert version("BROADCAST_TO", f) == 2
    assert version("SUB", f, value("z", 1, 1, 1, 1, 4)) == 3
    assert version("TRANSPOSE", value("t", 1, 1, 1, 1, 4)) == 4
    assert version("STRIDED_SLICE", f, new_axis_mask=1) == 6
    assert version("RESIZE_BILINEAR", f, half_pixel_centers=True) == 3


def highest_versions():
    found = {}

    def note(code, version):
        found[code] = max(found.get(code, 1), version)

    for code, rules in versions.type_rules().items():
        note(code, max(v for rule in rules for v in rule.by_type.values()))
    for code, options in versions.OPTION_VERSIONS.items():
        note(code, max(options.values()))
    for code, pairs in versions.RANK_VERSIONS.items():
        note(code, max(v for _, v in pairs))
    for code, hybrid in versions.HYBRID_VERSIONS.items():
        note(code, max(hybrid[1:]))
    for code, version in versions.BROADCAST_VERSIONS.items():
        note(code, version)
    return sorted(found.items())


@pytest.mark.parametrize(("code", "version"), highest_versions())
def test_no_version_is_newer_than_the_interpreter(code, version):
    """Unknown versions are refused as an op that cannot be found; anything else may fail later."""
    x, y = value("x", 2), value("y", 2)
    try:
        interpreter(to_bytes(program([x], [y], Operator(code, [x, x, x], [y], version=version))))
    except (ValueError, RuntimeError) as e:
        assert "find op" not in str(e)  # noqa: PT017


# ------------------------------------------------------------------------------------------------ refusals


def test_structure_is_checked():
    x, y, z = value("x", 2), value("y", 2), value("z", 2)
    add = Operator("ADD", [x, x], [y])
    cases = [
        (program([x], [z], add), "nothing writes the output 'z'"),
        (program([], [y], add), "reads 'x' before anything writes it"),
        (program([x, y], [y], add), "writes 'y', which already has a value"),
        (program([x], [y], Operator("AD", [x, x], [y])), "'AD' is no TFLite op"),
        (program([x], [y], Operator("ADD", [x, x], [y], {"axis": 1})), "has no option 'axis'"),
        (
            program([x], [y], Operator("ADD", [x, x], [y], {"fused_activation_function": "GELU"})),
            "cannot be GELU",
        ),
        (program([x], [y], Operator("CALL_ONCE", [x], [y], {"init_subgraph_index": 3})), "3 of 1 subgraphs"),
        (program([x], [y], Operator("CUSTOM", [x], [y])), "custom_code goes with CUSTOM"),
        (program([x], [y], add, signatures={"s": Signature({"a": z}, {})}), "no single subgraph"),
        (
            program([x], [y], Operator("ADD", [x, Tensor("c", (3,), FLOAT, np.zeros(2, np.float32))], [y])),
            r"\[2\], not",
        ),
        (
            program([x], [y], Operator("ADD", [x, Tensor("c", (2,), FLOAT, np.zeros(2))], [y])),
            "float64, not float",
        ),
        (
            program([x], [y], Operator("ADD", [x, value("q", 2, quantization=quantized([1, 2, 3]))], [y])),
            "reads 'q'",
        ),
        (Program([]), "needs a subgraph"),
    ]
    for p, message in cases:
        with pytest.raises(GraphError, match=message):
            to_bytes(p)
    c = constant("c", np.int8([1, 2]), quantization=quantized([1, 2, 3]))
    with pytest.raises(GraphError, match="3 scales and 3 zero points along axis 0"):
        to_bytes(program([x], [y], Operator("ADD", [x, c], [y])))


def test_links():
    p = shared_program(np.eye(8, dtype=np.float32))
    main = p.subgraphs[0]
    first, second = main.operators
    hidden = first.outputs[0]
    assert main.producers()[hidden] is first
    assert main.consumers()[hidden] == [(second, 0)]
    assert [t.name for t in main.tensors()] == ["x", "w1", "h", "w2", "y"]


@pytest.mark.parametrize(
    "raw", [to_bytes(conv_program()), to_bytes(while_program()), to_bytes(conv_program(), inline_limit=0)]
)
def test_damaged_files_never_surprise(raw):
    random_bits = random.Random(1)
    candidates = [raw[:n] for n in range(0, len(raw), 7)]
    for _ in range(1500):
        broken = bytearray(raw)
        for _ in range(random_bits.choice((1, 1, 2, 5))):
            broken[random_bits.randrange(len(raw))] ^= random_bits.choice((1, 2, 0x40, 0x80, 0xFF))
        candidates.append(bytes(broken))
    survivors = 0
    for candidate in candidates:
        try:
            back = read_program(candidate)
        except FormatError:
            continue
        try:
            to_bytes(back)
            survivors += 1
        except ThinflowError:
            pass
    assert survivors


@pytest.mark.parametrize("shape", [(1,) * 40, (2**31 - 1,) * 5 + (0,), (2**31 - 1,) * 9])
def test_absurd_shapes(shape):
    x, y = value("x", *shape), value("y", *shape)
    with pytest.raises(FormatError, match="makes no sense"):
        read_program(to_bytes(program([x], [y], Operator("ADD", [x, x], [y]))))


def test_error_names_the_place():
    raw = to_bytes(conv_program())
    broken = raw.replace(
        b"\x01\0\0\0\x04\0\0\0\x04\0\0\0\x02\0\0\0", b"\xfb\xff\xff\xff\x04\0\0\0\x04\0\0\0\x02\0\0\0", 1
    )
    with pytest.raises(FormatError, match=r"subgraph 0, tensor 'x': shape \[-5, 4, 4, 2\]"):
        read_program(broken)


def test_large_equal_weights_of_their_own_share_a_buffer():
    big = RNG.standard_normal((300, 300)).astype(np.float32)
    x, y, z, v = (value(n, 300, 300) for n in "xyzv")
    other = big.copy()
    other[-1, -1] += 1
    operators = (
        Operator("ADD", [x, constant("a", big)], [y]),
        Operator("ADD", [y, constant("b", other)], [z]),
        Operator("ADD", [z, constant("c", big.copy())], [v]),
    )
    raw = to_bytes(program([x], [v], *operators))
    assert (raw.count(big.tobytes()), raw.count(other.tobytes())) == (1, 1)
    start = np.zeros((300, 300), np.float32)
    np.testing.assert_allclose(run(raw, start)[0], big + other + big, rtol=1e-5, atol=1e-5)
