"""Core ML's protobuf messages, from a table of our own, without coremltools.

The field numbers are those of Model.proto, FeatureTypes.proto and MIL.proto. Models of other kinds than
programs are kept as bytes: what kind it is can be told, and that is all.
"""

from __future__ import annotations

import functools
from typing import Any

from thinflow.wire.message_table import descriptor_file, pool_of

_PACKAGE = "CoreML"

# See `message_table`.
_TABLE = """
Model: specificationVersion:int32=1 description:ModelDescription=2 isUpdatable:bool=10
    Type( pipelineClassifier:bytes=200 pipelineRegressor:bytes=201 pipeline:bytes=202
    neuralNetworkRegressor:bytes=303 neuralNetworkClassifier:bytes=403 neuralNetwork:bytes=500
    mlProgram:Program=502 customModel:bytes=555 )
ModelDescription: functions:FunctionDescription*=20 defaultFunctionName:string=21 metadata:Metadata=100
    input:FeatureDescription*=1 output:FeatureDescription*=10 state:FeatureDescription*=13
    predictedFeatureName:string=11 predictedProbabilitiesName:string=12
FunctionDescription: name:string=1 input:FeatureDescription*=2 output:FeatureDescription*=3
    state:FeatureDescription*=6
FeatureDescription: name:string=1 shortDescription:string=2 type:FeatureType=3
Metadata: shortDescription:string=1 versionString:string=2 author:string=3 license:string=4
    userDefined:{string,string}=100
FeatureType: Type( int64Type:bytes=1 doubleType:bytes=2 stringType:bytes=3 imageType:ImageFeatureType=4
    multiArrayType:ArrayFeatureType=5 dictionaryType:bytes=6 sequenceType:bytes=7 stateType:bytes=8 )
    isOptional:bool=1000
ImageFeatureType: width:int64=1 height:int64=2 colorSpace:int32=3
ArrayFeatureType: shape:int64*=1 dataType:int32=2
Program: version:int64=1 functions:{string,Function}=2 docString:string=3 attributes:{string,Value}=4
Function: inputs:NamedValueType*=1 opset:string=2 block_specializations:{string,Block}=3
    attributes:{string,Value}=4
Block: inputs:NamedValueType*=1 outputs:string*=2 operations:Operation*=3 attributes:{string,Value}=4
Argument: arguments:.Binding*=1
Argument.Binding: binding( name:string=1 value:Value=2 )
Operation: type:string=1 inputs:{string,Argument}=2 outputs:NamedValueType*=3 blocks:Block*=4
    attributes:{string,Value}=5
NamedValueType: name:string=1 type:ValueType=2
ValueType: type( tensorType:TensorType=1 listType:ListType=2 tupleType:bytes=3 dictionaryType:bytes=4
    stateType:bytes=5 )
ListType: type:ValueType=1 length:Dimension=2
TensorType: dataType:int32=1 rank:int64=2 dimensions:Dimension*=3
Dimension: dimension( constant:.Constant=1 unknown:.Unknown=2 )
Dimension.Constant: size:uint64=1
Dimension.Unknown: variadic:bool=1
Value: docString:string=1 type:ValueType=2 value( immediateValue:.Immediate=3 blobFileValue:.BlobFile=5 )
Value.Immediate: value( tensor:TensorValue=1 tuple:bytes=2 list:ListValue=3 dictionary:bytes=4 )
Value.BlobFile: fileName:string=1 offset:uint64=2
ListValue: values:Value*=1
TensorValue: value( floats:.Floats=1 ints:.Ints=2 bools:.Bools=3 strings:.Strings=4 longInts:.LongInts=5
    doubles:.Doubles=6 bytes:.Bytes=7 )
TensorValue.Floats: values:float*=1
TensorValue.Ints: values:int32*=1
TensorValue.Bools: values:bool*=1
TensorValue.Strings: values:string*=1
TensorValue.LongInts: values:int64*=1
TensorValue.Doubles: values:double*=1
TensorValue.Bytes: values:bytes=1
"""

ELEMENT_TYPES = {
    1: "bool", 2: "string", 10: "half", 11: "float", 12: "double", 13: "bfloat16", 21: "int8", 22: "int16",
    23: "int32", 24: "int64", 25: "int4", 31: "uint8", 32: "uint16", 33: "uint32", 34: "uint64", 35: "uint4",
}  # fmt: skip
"""DataType of MIL -> TensorFlow's type name."""
# 40 is GRAYSCALE_FLOAT16.
COLOURS = {10: "grey", 20: "RGB", 30: "BGR", 40: "grey"}
"""ImageFeatureType.ColorSpace -> how a picture's colours are called here."""


@functools.cache
def message(name: str) -> Any:
    """The class of a message, such as "Model". The same class every time.

    Raises:
        KeyError: no such message in the table.
    """
    pool = _pool()
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


@functools.cache
def _pool() -> Any:
    # One for all messages: one of another pool would not fit into a field.
    return pool_of(descriptor_file(_PACKAGE, _TABLE))
