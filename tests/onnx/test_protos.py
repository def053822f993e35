"""Our table of ONNX's messages against the onnx package."""

from __future__ import annotations

import warnings

import pytest

from thinflow.onnx import protos


def descriptors():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        onnx = pytest.importorskip("onnx")
    return onnx


def messages(descriptor):
    yield descriptor
    for nested in descriptor.nested_types:
        yield from messages(nested)


def test_fields_have_the_numbers_and_types_of_onnx():
    file = descriptors().ModelProto.DESCRIPTOR.file
    ours = [
        protos.message(name).DESCRIPTOR
        for name in protos._pool().FindFileByName("thinflow/onnx.proto").message_types_by_name
    ]
    checked = 0
    for top in ours:
        for message in messages(top):
            path = message.full_name.removeprefix("onnx.").split(".")
            theirs = file.message_types_by_name[path[0]]
            for part in path[1:]:
                theirs = theirs.nested_types_by_name[part]
            for field in message.fields:
                other = theirs.fields_by_name[field.name]
                assert other.number == field.number, field.full_name
                enum_as_int = other.type == other.TYPE_ENUM and field.type == field.TYPE_INT32
                assert enum_as_int or other.type == field.type, field.full_name
                assert _repeats(other) == _repeats(field), field.full_name
                checked += 1
    assert checked > 60


def _repeats(field):
    repeated = getattr(field, "is_repeated", None)
    return field.label == field.LABEL_REPEATED if repeated is None else repeated


def test_enumerators():
    onnx = descriptors()
    types = onnx.TensorProto.DataType
    names = {"half": "FLOAT16"}
    for name, number in protos.ELEMENT_TYPES.items():
        assert types.Value(names.get(name, name.upper())) == number
    kinds = {"f": "FLOAT", "i": "INT", "s": "STRING", "t": "TENSOR", "g": "GRAPH"}
    for field, number in protos.ATTRIBUTE_TYPES.items():
        name = kinds.get(field) or field.upper()
        assert onnx.AttributeProto.AttributeType.Value(name) == number
    assert onnx.TensorProto.EXTERNAL == protos.EXTERNAL


def test_what_we_write_onnx_reads():
    onnx = descriptors()
    model = protos.message("ModelProto")(ir_version=8, producer_name="x")
    node = model.graph.node.add(op_type="Relu", input=["a"], output=["b"])
    node.attribute.add(name="alpha", i=0, type=2)
    read = onnx.ModelProto.FromString(model.SerializeToString())
    assert read.graph.node[0].op_type == "Relu"
    assert read.graph.node[0].attribute[0].HasField("i")
