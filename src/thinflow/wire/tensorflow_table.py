"""TensorFlow's protobuf messages and enums as tables; `message_table` says how one is written."""

from __future__ import annotations

# Numbers and types are those of TensorFlow's .proto files; fields that newer
# releases add are carried as unknown.
MESSAGES = """
GraphDef: node:NodeDef*=1 library:FunctionDefLibrary=2 version:int32=3 versions:VersionDef=4
    debug_info:GraphDebugInfo=5
VersionDef: producer:int32=1 min_consumer:int32=2 bad_consumers:int32*=3
NodeDef: name:string=1 op:string=2 input:string*=3 device:string=4 attr:{string,AttrValue}=5
    experimental_debug_info:.ExperimentalDebugInfo=6 experimental_type:FullTypeDef=7
NodeDef.ExperimentalDebugInfo: original_node_names:string*=1 original_func_names:string*=2
AttrValue: value( s:bytes=2 i:int64=3 f:float=4 b:bool=5 type:DataType=6 shape:TensorShapeProto=7
    tensor:TensorProto=8 list:.ListValue=1 func:NameAttrList=10 placeholder:string=9 )
AttrValue.ListValue: s:bytes*=2 i:int64*=3 f:float*=4 b:bool*=5 type:DataType*=6 shape:TensorShapeProto*=7
    tensor:TensorProto*=8 func:NameAttrList*=9
NameAttrList: name:string=1 attr:{string,AttrValue}=2
TensorShapeProto: dim:.Dim*=2 unknown_rank:bool=3
TensorShapeProto.Dim: size:int64=1 name:string=2
TensorProto: dtype:DataType=1 tensor_shape:TensorShapeProto=2 version_number:int32=3 tensor_content:bytes=4
    half_val:int32*=13 float_val:float*=5 double_val:double*=6 int_val:int32*=7 string_val:bytes*=8
    scomplex_val:float*=9 int64_val:int64*=10 bool_val:bool*=11 dcomplex_val:double*=12
    resource_handle_val:ResourceHandleProto*=14 variant_val:VariantTensorDataProto*=15 uint32_val:uint32*=16
    uint64_val:uint64*=17 float8_val:bytes=18
VariantTensorDataProto: type_name:string=1 metadata:bytes=2 tensors:TensorProto*=3
ResourceHandleProto: device:string=1 container:string=2 name:string=3 hash_code:uint64=4
    maybe_type_name:string=5 dtypes_and_shapes:.DtypeAndShape*=6
ResourceHandleProto.DtypeAndShape: dtype:DataType=1 shape:TensorShapeProto=2

FunctionDefLibrary: function:FunctionDef*=1 gradient:GradientDef*=2
    registered_gradients:RegisteredGradient*=3
FunctionDef: signature:OpDef=1 attr:{string,AttrValue}=5 arg_attr:{uint32,.ArgAttrs}=7
    resource_arg_unique_id:{uint32,uint32}=8 node_def:NodeDef*=3 ret:{string,string}=4
    control_ret:{string,string}=6
FunctionDef.ArgAttrs: attr:{string,AttrValue}=1
GradientDef: function_name:string=1 gradient_func:string=2
RegisteredGradient: gradient_func:string=1 registered_op_type:string=2
OpDef: name:string=1 input_arg:.ArgDef*=2 output_arg:.ArgDef*=3 control_output:string*=20 attr:.AttrDef*=4
    deprecation:OpDeprecation=8 summary:string=5 description:string=6 is_commutative:bool=18
    is_aggregate:bool=16 is_stateful:bool=17 allows_uninitialized_input:bool=19
    is_distributed_communication:bool=21
OpDef.ArgDef: name:string=1 description:string=2 type:DataType=3 type_attr:string=4 number_attr:string=5
    type_list_attr:string=6 handle_data:ResourceHandleProto.DtypeAndShape*=7 is_ref:bool=16
    experimental_full_type:FullTypeDef=17
OpDef.AttrDef: name:string=1 type:string=2 default_value:AttrValue=3 description:string=4 has_minimum:bool=5
    minimum:int64=6 allowed_values:AttrValue=7
OpDeprecation: version:int32=1 explanation:string=2
OpList: op:OpDef*=1
FullTypeDef: type_id:FullTypeId=1 args:FullTypeDef*=2 attr( s:string=3 i:int64=4 )
GraphDebugInfo: files:string*=1 frames_by_id:{fixed64,.FileLineCol}=4 traces_by_id:{fixed64,.StackTrace}=6
    traces:{string,.StackTrace}=2 name_to_trace_id:{string,fixed64}=5
GraphDebugInfo.FileLineCol: file_index:int32?=1 line:int32?=2 col:int32?=3 func:string?=4 code:string?=5
GraphDebugInfo.StackTrace: file_line_cols:GraphDebugInfo.FileLineCol*=1 frame_id:fixed64*=2

MetaGraphDef: meta_info_def:.MetaInfoDef=1 graph_def:GraphDef=2 saver_def:SaverDef=3
    collection_def:{string,CollectionDef}=4 signature_def:{string,SignatureDef}=5
    asset_file_def:AssetFileDef*=6 object_graph_def:SavedObjectGraph=7
MetaGraphDef.MetaInfoDef: meta_graph_version:string=1 stripped_op_list:OpList=2
    any_info:google.protobuf.Any=3 tags:string*=4 tensorflow_version:string=5
    tensorflow_git_version:string=6 stripped_default_attrs:bool=7 function_aliases:{string,string}=8
CollectionDef: kind( node_list:.NodeList=1 bytes_list:.BytesList=2 int64_list:.Int64List=3
    float_list:.FloatList=4 any_list:.AnyList=5 )
CollectionDef.NodeList: value:string*=1
CollectionDef.BytesList: value:bytes*=1
CollectionDef.Int64List: value:int64*=1
CollectionDef.FloatList: value:float*=1
CollectionDef.AnyList: value:google.protobuf.Any*=1
TensorInfo: encoding( name:string=1 coo_sparse:.CooSparse=4 composite_tensor:.CompositeTensor=5 )
    dtype:DataType=2 tensor_shape:TensorShapeProto=3
TensorInfo.CooSparse: values_tensor_name:string=1 indices_tensor_name:string=2
    dense_shape_tensor_name:string=3
TensorInfo.CompositeTensor: type_spec:TypeSpecProto=1 components:TensorInfo*=2
SignatureDef: inputs:{string,TensorInfo}=1 outputs:{string,TensorInfo}=2 method_name:string=3
    defaults:{string,TensorProto}=4
AssetFileDef: tensor_info:TensorInfo=1 filename:string=2
SaverDef: filename_tensor_name:string=1 save_tensor_name:string=2 restore_op_name:string=3
    max_to_keep:int32=4 sharded:bool=5 keep_checkpoint_every_n_hours:float=6
    version:.CheckpointFormatVersion=7
VariableDef: variable_name:string=1 initial_value_name:string=6 initializer_name:string=2
    snapshot_name:string=3 save_slice_info_def:SaveSliceInfoDef=4 is_resource:bool=5 trainable:bool=7
    synchronization:VariableSynchronization=8 aggregation:VariableAggregation=9
SaveSliceInfoDef: full_name:string=1 full_shape:int64*=2 var_offset:int64*=3 var_shape:int64*=4

SavedModel: saved_model_schema_version:int64=1 meta_graphs:MetaGraphDef*=2
SavedObjectGraph: nodes:SavedObject*=1 concrete_functions:{string,SavedConcreteFunction}=2
SavedObject: children:TrackableObjectGraph.TrackableObject.ObjectReference*=1
    dependencies:TrackableObjectGraph.TrackableObject.ObjectReference*=15
    slot_variables:TrackableObjectGraph.TrackableObject.SlotVariableReference*=3 kind(
    user_object:SavedUserObject=4 asset:SavedAsset=5 function:SavedFunction=6 variable:SavedVariable=7
    bare_concrete_function:SavedBareConcreteFunction=8 constant:SavedConstant=9 resource:SavedResource=10
    captured_tensor:CapturedTensor=12 ) saveable_objects:{string,SaveableObject}=11
    registered_name:string=13 serialized_user_proto:google.protobuf.Any=14 registered_saver:string=16
SavedUserObject: identifier:string=1 version:VersionDef=2 metadata:string=3
SavedAsset: asset_file_def_index:int32=1
SavedFunction: concrete_functions:string*=1 function_spec:FunctionSpec=2
CapturedTensor: name:string=1 concrete_function:string=2
SavedConcreteFunction: bound_inputs:int32*=2 canonicalized_input_signature:StructuredValue=3
    output_signature:StructuredValue=4
SavedBareConcreteFunction: concrete_function_name:string=1 argument_keywords:string*=2
    allowed_positional_arguments:int64=3 function_spec:FunctionSpec=4
SavedConstant: operation:string=1
SavedVariable: dtype:DataType=1 shape:TensorShapeProto=2 trainable:bool=3
    synchronization:VariableSynchronization=4 aggregation:VariableAggregation=5 name:string=6
    device:string=7 experimental_distributed_variable_components:SavedVariable*=8
FunctionSpec: fullargspec:StructuredValue=1 is_method:bool=2 input_signature:StructuredValue=5
    jit_compile:.JitCompile=6
SavedResource: device:string=1
SaveableObject: save_function:int32=2 restore_function:int32=3
TrackableObjectGraph: nodes:.TrackableObject*=1
TrackableObjectGraph.TrackableObject: children:.ObjectReference*=1 attributes:.SerializedTensor*=2
    slot_variables:.SlotVariableReference*=3 registered_saver:RegisteredSaver=4
    has_checkpoint_values:google.protobuf.BoolValue=5
TrackableObjectGraph.TrackableObject.ObjectReference: node_id:int32=1 local_name:string=2
TrackableObjectGraph.TrackableObject.SerializedTensor: name:string=1 full_name:string=2
    checkpoint_key:string=3
TrackableObjectGraph.TrackableObject.SlotVariableReference: original_variable_node_id:int32=1
    slot_name:string=2 slot_variable_node_id:int32=3
RegisteredSaver: name:string=1 object_name:string=2
StructuredValue: kind( none_value:NoneValue=1 float64_value:double=11 int64_value:sint64=12
    string_value:string=13 bool_value:bool=14 tensor_shape_value:TensorShapeProto=31
    tensor_dtype_value:DataType=32 tensor_spec_value:TensorSpecProto=33 type_spec_value:TypeSpecProto=34
    bounded_tensor_spec_value:BoundedTensorSpecProto=35 list_value:ListValue=51 tuple_value:TupleValue=52
    dict_value:DictValue=53 named_tuple_value:NamedTupleValue=54 tensor_value:TensorProto=55
    numpy_value:TensorProto=56 )
NoneValue:
ListValue: values:StructuredValue*=1
TupleValue: values:StructuredValue*=1
DictValue: fields:{string,StructuredValue}=1
PairValue: key:string=1 value:StructuredValue=2
NamedTupleValue: name:string=1 values:PairValue*=2
TensorSpecProto: name:string=1 shape:TensorShapeProto=2 dtype:DataType=3
BoundedTensorSpecProto: name:string=1 shape:TensorShapeProto=2 dtype:DataType=3 minimum:TensorProto=4
    maximum:TensorProto=5
TypeSpecProto: type_spec_class:.TypeSpecClass=1 type_state:StructuredValue=2 type_spec_class_name:string=3
    num_flat_components:int32=4
FingerprintDef: saved_model_checksum:uint64=1 graph_def_program_hash:uint64=2 signature_def_hash:uint64=3
    saved_object_graph_hash:uint64=4 checkpoint_hash:uint64=5 uuid:string=7 version:VersionDef=6
ChunkMetadata: version:SplitterVersionDef=1 chunks:ChunkInfo*=2 message:ChunkedMessage=3
SplitterVersionDef: splitter_version:int32=1 join_version:int32=2 bad_consumers:int32*=3
ChunkInfo: type:int32=1 size:uint64=2 offset:uint64=3
ChunkedMessage: chunk_index:uint64?=1 chunked_fields:ChunkedField*=2
ChunkedField: field_tag:FieldIndex*=1 message:ChunkedMessage=3
FieldIndex: kind( field:uint32=1 map_key:.MapKey=2 index:uint64=3 )
FieldIndex.MapKey: type( s:string=1 boolean:bool=2 ui32:uint32=3 ui64:uint64=4 i32:int32=5 i64:int64=6 )

BundleHeaderProto: num_shards:int32=1 endianness:.Endianness=2 version:VersionDef=3
BundleEntryProto: dtype:DataType=1 shape:TensorShapeProto=2 shard_id:int32=3 offset:int64=4 size:int64=5
    crc32c:fixed32=6 slices:TensorSliceProto*=7
TensorSliceProto: extent:.Extent*=1
TensorSliceProto.Extent: start:int64=1 has_length_hack( length:int64=2 )
SavedSliceMeta: name:string=1 shape:TensorShapeProto=2 type:DataType=3 slice:TensorSliceProto*=4
SavedTensorSliceMeta: tensor:SavedSliceMeta*=1 versions:VersionDef=2
SavedSlice: name:string=1 slice:TensorSliceProto=2 data:TensorProto=3
SavedTensorSlices: meta:SavedTensorSliceMeta=1 data:SavedSlice=2
CheckpointState: model_checkpoint_path:string=1 all_model_checkpoint_paths:string*=2
    all_model_checkpoint_timestamps:double*=3 last_preserved_timestamp:double=4
MemmappedFileSystemDirectory: element:MemmappedFileSystemDirectoryElement*=1
MemmappedFileSystemDirectoryElement: offset:uint64=1 name:string=2 length:uint64=3
"""

GOOGLE_MESSAGES = """
Any: type_url:string=1 value:bytes=2
BoolValue: value:bool=1
"""
"""Those of protobuf itself that the others refer to."""

ENUMS = """
DataType DT_: INVALID=0 FLOAT DOUBLE INT32 UINT8 INT16 INT8 STRING COMPLEX64 INT64 BOOL QINT8 QUINT8 QINT32
    BFLOAT16 QINT16 QUINT16 UINT16 COMPLEX128 HALF RESOURCE VARIANT UINT32 UINT64 FLOAT8_E5M2 FLOAT8_E4M3FN
    FLOAT8_E4M3FNUZ FLOAT8_E4M3B11FNUZ FLOAT8_E5M2FNUZ INT4 UINT4 INT2 UINT2 FLOAT4_E2M1FN
FullTypeId TFT_: UNSET=0 VAR ANY PRODUCT NAMED FOR_EACH=20 CALLABLE=100 BOOL=200 UINT8 UINT16 UINT32 UINT64
    INT8 INT16 INT32 INT64 HALF FLOAT DOUBLE COMPLEX64 COMPLEX128 STRING BFLOAT16 TENSOR=1000 ARRAY OPTIONAL
    LITERAL ENCODED SHAPE_TENSOR DATASET=10102 RAGGED ITERATOR MUTEX_LOCK=10202 LEGACY_VARIANT
VariableSynchronization VARIABLE_SYNCHRONIZATION_: AUTO=0 NONE ON_WRITE ON_READ
VariableAggregation VARIABLE_AGGREGATION_: NONE=0 SUM MEAN ONLY_FIRST_REPLICA
SaverDef.CheckpointFormatVersion: LEGACY=0 V1 V2
FunctionSpec.JitCompile: DEFAULT=0 ON OFF
BundleHeaderProto.Endianness: LITTLE=0 BIG
TypeSpecProto.TypeSpecClass: UNKNOWN=0 SPARSE_TENSOR_SPEC INDEXED_SLICES_SPEC RAGGED_TENSOR_SPEC
    TENSOR_ARRAY_SPEC DATA_DATASET_SPEC DATA_ITERATOR_SPEC OPTIONAL_SPEC PER_REPLICA_SPEC VARIABLE_SPEC
    ROW_PARTITION_SPEC REGISTERED_TYPE_SPEC=12 EXTENSION_TYPE_SPEC
"""
"""`DataType` lacks the references to variables here; `protos` adds them."""
