"""ONNX's protobuf messages, from a table of our own, without the onnx package.

The field numbers are those of onnx.proto. Fields that newer files may have are kept as unknown fields.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from thinflow.wire.message_table import descriptor_file, pool_of
from thinflow.wire.protos import serialize

_PACKAGE = "onnx"

# See `message_table`. Scalars whose absence means something else than 0 have a "?".
_TABLE = """
ModelProto: ir_version:int64=1 opset_import:OperatorSetIdProto*=8 producer_name:string=2
    producer_version:string=3 domain:string=4 model_version:int64=5 doc_string:string=6 graph:GraphProto=7
    metadata_props:StringStringEntryProto*=14 functions:FunctionProto*=25
FunctionProto: name:string=1 input:string*=4 output:string*=5 attribute:string*=6 node:NodeProto*=7
    doc_string:string=8 opset_import:OperatorSetIdProto*=9 domain:string=10 attribute_proto:AttributeProto*=11
    value_info:ValueInfoProto*=12 overload:string=13
OperatorSetIdProto: domain:string=1 version:int64=2
StringStringEntryProto: key:string=1 value:string=2
GraphProto: node:NodeProto*=1 name:string=2 initializer:TensorProto*=5 doc_string:string=10
    input:ValueInfoProto*=11 output:ValueInfoProto*=12 value_info:ValueInfoProto*=13
    metadata_props:StringStringEntryProto*=16 sparse_initializer:SparseTensorProto*=15
SparseTensorProto: values:TensorProto=1 indices:TensorProto=2 dims:int64*=3
NodeProto: input:string*=1 output:string*=2 name:string=3 op_type:string=4 domain:string=7
    attribute:AttributeProto*=5 doc_string:string=6 metadata_props:StringStringEntryProto*=9 overload:string=8
AttributeProto: name:string=1 ref_attr_name:string=21 doc_string:string=13 type:int32=20 f:float?=2
    i:int64?=3 s:bytes?=4 t:TensorProto=5 g:GraphProto=6 floats:float*=7 ints:int64*=8 strings:bytes*=9
    tensors:TensorProto*=10 graphs:GraphProto*=11 sparse_tensor:SparseTensorProto=22
    sparse_tensors:SparseTensorProto*=23
TensorProto: dims:int64*=1 data_type:int32=2 float_data:float*=4 int32_data:int32*=5 string_data:bytes*=6
    int64_data:int64*=7 name:string=8 raw_data:bytes?=9 double_data:double*=10 uint64_data:uint64*=11
    doc_string:string=12 external_data:StringStringEntryProto*=13 data_location:int32=14
ValueInfoProto: name:string=1 type:TypeProto=2 doc_string:string=3
TypeProto: value( tensor_type:.Tensor=1 ) denotation:string=6
TypeProto.Tensor: elem_type:int32=1 shape:TensorShapeProto=2
TensorShapeProto: dim:.Dimension*=1
TensorShapeProto.Dimension: value( dim_value:int64=1 dim_param:string=2 ) denotation:string=3
"""

GRAPH_FIELD, INITIALIZER_FIELD, RAW_DATA_FIELD = 7, 5, 9
"""Numbers of the fields that are streamed: ModelProto.graph, GraphProto.initializer, TensorProto.raw_data."""
EXTERNAL = 1
"""TensorProto.data_location of a tensor whose bytes are in another file."""

ATTRIBUTE_TYPES = {
    "f": 1, "i": 2, "s": 3, "t": 4, "g": 5, "floats": 6, "ints": 7, "strings": 8, "tensors": 9,
}  # fmt: skip
"""AttributeProto field -> its AttributeType."""

ELEMENT_TYPES = {
    "float": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "string": 8,
    "bool": 9, "half": 10,
    "double": 11, "uint32": 12, "uint64": 13, "complex64": 14, "complex128": 15, "bfloat16": 16,
}  # fmt: skip
"""TensorFlow's type name -> TensorProto.DataType."""

STORED_TYPES = ELEMENT_TYPES | {"int4": 22}
"""Those and the types that constants are written in besides, for DequantizeLinear."""

# 24, float8e8m0, has no counterpart among TensorFlow's types.
READABLE_TYPES = {number: name for name, number in ELEMENT_TYPES.items()} | {
    17: "float8_e4m3fn", 18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz", 21: "uint4",
    22: "int4", 23: "float4_e2m1fn", 25: "uint2", 26: "int2",
}  # fmt: skip
"""TensorProto.DataType -> TensorFlow's type name, with the types that are read only."""
PACKED_BITS = {"uint4": 4, "int4": 4, "float4_e2m1fn": 4, "uint2": 2, "int2": 2}
"""Bits of an element where several share a byte, the first in the low bits."""


@functools.cache
def message(name: str) -> Any:
    """The class of a message, such as "ModelProto". The same class every time.

    Raises:
        KeyError: no such message in the table.
    """
    pool = _pool()
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


@functools.cache
def _pool() -> Any:
    return pool_of(descriptor_file(_PACKAGE, _TABLE))


def more_outputs(names: Iterable[str]) -> bytes:
    """The bytes that, put behind those of a model, make values of its graph outputs, too.

    A message may come in pieces: what follows the file's bytes is merged into it.
    """
    model = message("ModelProto")()
    for name in names:
        model.graph.output.add(name=name)
    return serialize(model)
