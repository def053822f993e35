"""The TFLite schema as tables: op codes, option tables with their fields, element types.

Numbers are positions: the n-th word of `_OP_NAMES` is builtin code n, the n-th of `_OPTION_NAMES` the union's
type n.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from thinflow.ir.types import DType, dtype

_OPS = """
    ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE EMBEDDING_LOOKUP
    FLOOR FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D LOCAL_RESPONSE_NORMALIZATION LOGISTIC
    LSH_PROJECTION LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX
    SPACE_TO_DEPTH SVDF TANH CONCAT_EMBEDDINGS SKIP_GRAM CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD
    UNIDIRECTIONAL_SEQUENCE_RNN GATHER BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE
    UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT LOG_SOFTMAX
    DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST PRELU MAXIMUM ARG_MAX MINIMUM LESS NEG PADV2 GREATER
    GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN TRANSPOSE_CONV SPARSE_TO_DENSE TILE EXPAND_DIMS EQUAL
    NOT_EQUAL LOG SUM SQRT RSQRT SHAPE POW ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK LOGICAL_OR ONE_HOT
    LOGICAL_AND LOGICAL_NOT UNPACK REDUCE_MIN FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL FLOOR_MOD RANGE
    RESIZE_NEAREST_NEIGHBOR LEAKY_RELU SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL REVERSE_V2
    ADD_N GATHER_ND COS WHERE RANK ELU REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND
    HARD_SWISH IF WHILE NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND SELECT_V2 DENSIFY
    SEGMENT_SUM BATCH_MATMUL PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO RFFT2D CONV_3D
    IMAG REAL COMPLEX_ABS HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL
    CONV_3D_TRANSPOSE VAR_HANDLE READ_VARIABLE ASSIGN_VARIABLE BROADCAST_ARGS RANDOM_STANDARD_NORMAL
    BUCKETIZE RANDOM_UNIFORM MULTINOMIAL GELU DYNAMIC_UPDATE_SLICE RELU_0_TO_1 UNSORTED_SEGMENT_PROD
    UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_SUM ATAN2 UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR
    RIGHT_SHIFT STABLEHLO_LOGISTIC STABLEHLO_ADD STABLEHLO_DIVIDE STABLEHLO_MULTIPLY STABLEHLO_MAXIMUM
    STABLEHLO_RESHAPE STABLEHLO_CLAMP STABLEHLO_CONCATENATE STABLEHLO_BROADCAST_IN_DIM STABLEHLO_CONVOLUTION
    STABLEHLO_SLICE STABLEHLO_CUSTOM_CALL STABLEHLO_REDUCE STABLEHLO_ABS STABLEHLO_AND STABLEHLO_COSINE
    STABLEHLO_EXPONENTIAL STABLEHLO_FLOOR STABLEHLO_LOG STABLEHLO_MINIMUM STABLEHLO_NEGATE STABLEHLO_OR
    STABLEHLO_POWER STABLEHLO_REMAINDER STABLEHLO_RSQRT STABLEHLO_SELECT STABLEHLO_SUBTRACT STABLEHLO_TANH
    STABLEHLO_SCATTER STABLEHLO_COMPARE STABLEHLO_CONVERT STABLEHLO_DYNAMIC_SLICE
    STABLEHLO_DYNAMIC_UPDATE_SLICE STABLEHLO_PAD STABLEHLO_IOTA STABLEHLO_DOT_GENERAL
    STABLEHLO_REDUCE_WINDOW STABLEHLO_SORT STABLEHLO_WHILE STABLEHLO_GATHER STABLEHLO_TRANSPOSE DILATE
    STABLEHLO_RNG_BIT_GENERATOR REDUCE_WINDOW STABLEHLO_COMPOSITE STABLEHLO_SHIFT_LEFT STABLEHLO_CBRT
    STABLEHLO_CASE
"""
_OP_NAMES = _OPS.split()

OP_CODES = {name: code for code, name in enumerate(_OP_NAMES)}
CUSTOM = OP_CODES["CUSTOM"]

_OPTIONS = """
    NONE Conv2D DepthwiseConv2D ConcatEmbeddings LSHProjection Pool2D SVDF RNN FullyConnected Softmax
    Concatenation Add L2Norm LocalResponseNormalization LSTM ResizeBilinear Call Reshape SkipGram
    SpaceToDepth EmbeddingLookupSparse Mul Pad Gather BatchToSpaceND SpaceToBatchND Transpose Reducer Sub
    Div Squeeze SequenceRNN StridedSlice Exp TopKV2 Split LogSoftmax Cast Dequantize MaximumMinimum ArgMax
    Less Neg PadV2 Greater GreaterEqual LessEqual Select Slice TransposeConv SparseToDense Tile ExpandDims
    Equal NotEqual Shape Pow ArgMin FakeQuant Pack LogicalOr OneHot LogicalAnd LogicalNot Unpack FloorDiv
    Square ZerosLike Fill BidirectionalSequenceLSTM BidirectionalSequenceRNN UnidirectionalSequenceLSTM
    FloorMod Range ResizeNearestNeighbor LeakyRelu SquaredDifference MirrorPad Abs SplitV Unique ReverseV2
    AddN GatherNd Cos Where Rank ReverseSequence MatrixDiag Quantize MatrixSetDiag HardSwish If While
    DepthToSpace NonMaxSuppressionV4 NonMaxSuppressionV5 ScatterNd SelectV2 Densify SegmentSum BatchMatMul
    Cumsum CallOnce BroadcastTo Rfft2d Conv3D Hashtable HashtableFind HashtableImport HashtableSize
    VarHandle ReadVariable AssignVariable Random Bucketize Gelu DynamicUpdateSlice UnsortedSegmentProd
    UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentSum ATan2 Sign Bitcast BitwiseXor RightShift
"""
_OPTION_NAMES = _OPTIONS.split()

OPTION_NUMBERS = {name: number for number, name in enumerate(_OPTION_NAMES)}
_OPTIONS_2 = """
    NONE StablehloConcatenate StablehloBroadcastInDim StablehloSlice StablehloConvolution StablehloCustomCall
    StablehloReduce StablehloScatter StablehloCompare StablehloDynamicSlice StablehloPad StablehloIota
    StablehloDotGeneral StablehloReduceWindow StablehloSort StablehloWhile StablehloGather StablehloTranspose
    Dilate StablehloRngBitGenerator ReduceWindow StableHLOComposite StablehloShiftLeft StablehloCase
"""
# The second union, for ops that came after the first was full.
OPTION_2_NUMBERS = {name: number for number, name in enumerate(_OPTIONS_2.split()) if number}

# Ops whose option table is not called like the op; "" is no table at all.
_OPTIONS_OF_OP = {
    **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"), "Pool2D"),
    **dict.fromkeys(
        ("MEAN", "SUM", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_ANY", "REDUCE_ALL"), "Reducer"
    ),
    **dict.fromkeys(("MAXIMUM", "MINIMUM"), "MaximumMinimum"),
    **dict.fromkeys(("RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM", "MULTINOMIAL"), "Random"),
    "CONV_3D_TRANSPOSE": "Conv3D",
    "L2_NORMALIZATION": "L2Norm",
    "UNIDIRECTIONAL_SEQUENCE_RNN": "SequenceRNN",
    "STABLEHLO_COMPOSITE": "StableHLOComposite",
}

# name:kind[=default], in slot order; "-" is a slot no longer used. Kinds: numbers, the enums below, `dtype`
# (an element type in i8), `str`, and `[kind]` for a vector. Tables not listed have no fields.
_FIELDS = {
    "Conv2D": "padding:Padding stride_w:i32 stride_h:i32 fused_activation_function:Activation"
    " dilation_w_factor:i32=1 dilation_h_factor:i32=1 quantized_bias_type:dtype",
    "Conv3D": "padding:Padding stride_d:i32 stride_w:i32 stride_h:i32 fused_activation_function:Activation"
    " dilation_d_factor:i32=1 dilation_w_factor:i32=1 dilation_h_factor:i32=1",
    "Pool2D": "padding:Padding stride_w:i32 stride_h:i32 filter_width:i32 filter_height:i32"
    " fused_activation_function:Activation",
    "DepthwiseConv2D": "padding:Padding stride_w:i32 stride_h:i32 depth_multiplier:i32"
    " fused_activation_function:Activation dilation_w_factor:i32=1 dilation_h_factor:i32=1",
    "TransposeConv": "padding:Padding stride_w:i32 stride_h:i32 fused_activation_function:Activation"
    " quantized_bias_type:dtype",
    "FullyConnected": "fused_activation_function:Activation weights_format:WeightsFormat keep_num_dims:bool"
    " asymmetric_quantize_inputs:bool quantized_bias_type:dtype",
    "BatchMatMul": "adj_x:bool adj_y:bool asymmetric_quantize_inputs:bool",
    "SVDF": "rank:i32 fused_activation_function:Activation asymmetric_quantize_inputs:bool",
    "RNN": "fused_activation_function:Activation asymmetric_quantize_inputs:bool",
    "SequenceRNN": "time_major:bool fused_activation_function:Activation asymmetric_quantize_inputs:bool",
    "BidirectionalSequenceRNN": "time_major:bool fused_activation_function:Activation merge_outputs:bool"
    " asymmetric_quantize_inputs:bool",
    "LSTM": "fused_activation_function:Activation cell_clip:f32 proj_clip:f32 kernel_type:LSTMKernel"
    " asymmetric_quantize_inputs:bool",
    "UnidirectionalSequenceLSTM": "fused_activation_function:Activation cell_clip:f32 proj_clip:f32"
    " time_major:bool asymmetric_quantize_inputs:bool"
    " diagonal_recurrent_tensors:bool",
    "BidirectionalSequenceLSTM": "fused_activation_function:Activation cell_clip:f32 proj_clip:f32"
    " merge_outputs:bool time_major:bool=1 asymmetric_quantize_inputs:bool",
    "Add": "fused_activation_function:Activation pot_scale_int16:bool=1",
    "Sub": "fused_activation_function:Activation pot_scale_int16:bool=1",
    "Mul": "fused_activation_function:Activation",
    "Div": "fused_activation_function:Activation",
    "L2Norm": "fused_activation_function:Activation",
    "Concatenation": "axis:i32 fused_activation_function:Activation",
    "Softmax": "beta:f32",
    "LocalResponseNormalization": "radius:i32 bias:f32 alpha:f32 beta:f32",
    "LeakyRelu": "alpha:f32",
    "Gelu": "approximate:bool",
    "ResizeBilinear": "- - align_corners:bool half_pixel_centers:bool",
    "ResizeNearestNeighbor": "align_corners:bool half_pixel_centers:bool",
    "Reshape": "new_shape:[i32]",
    "Squeeze": "squeeze_dims:[i32]",
    "SpaceToDepth": "block_size:i32",
    "DepthToSpace": "block_size:i32",
    "StridedSlice": "begin_mask:i32 end_mask:i32 ellipsis_mask:i32 new_axis_mask:i32 shrink_axis_mask:i32"
    " offset:bool",
    "Split": "num_splits:i32",
    "SplitV": "num_splits:i32",
    "Pack": "values_count:i32 axis:i32",
    "Unpack": "num:i32 axis:i32",
    "OneHot": "axis:i32",
    "Gather": "axis:i32 batch_dims:i32",
    "MirrorPad": "mode:MirrorPad",
    "ReverseSequence": "seq_dim:i32 batch_dim:i32",
    "Cumsum": "exclusive:bool reverse:bool",
    "Reducer": "keep_dims:bool",
    "ReduceWindow": "reduce_function:ReduceWindow",
    "StablehloDotGeneral": "lhs_batching_dimensions:[i64] rhs_batching_dimensions:[i64]"
    " lhs_contracting_dimensions:[i64] rhs_contracting_dimensions:[i64] precision_config:[u32]",
    "StablehloConcatenate": "dimension:i64",
    "StablehloBroadcastInDim": "broadcast_dimensions:[i64]",
    "StablehloSlice": "start_indices:[i64] limit_indices:[i64] strides:[i64]",
    "StablehloConvolution": "window_strides:[i64] padding:[i64] lhs_dilation:[i64] rhs_dilation:[i64]"
    " window_reversal:[bool] input_batch_dimension:i64 input_feature_dimension:i64"
    " input_spatial_dimensions:[i64] kernel_input_feature_dimension:i64 kernel_output_feature_dimension:i64"
    " kernel_spatial_dimensions:[i64] output_batch_dimension:i64 output_feature_dimension:i64"
    " output_spatial_dimensions:[i64] feature_group_count:i64 batch_group_count:i64 precision_config:[u32]",
    "StablehloCustomCall": "call_target_name:str has_side_effect:bool backend_config:str"
    " api_version:i32 called_computations:[i32] custom_attributes:[u8]",
    "StablehloReduce": "dimensions:[i64] body_subgraph_index:i32",
    "StablehloScatter": "indices_are_sorted:bool update_window_dims:[i64] inserted_window_dims:[i64]"
    " scatter_dims_to_operand_dims:[i64] index_vector_dim:i64 unique_indices:bool"
    " update_computation_subgraph_index:i32",
    "StablehloCompare": "comparison_direction:Comparison compare_type:u32",
    "StablehloDynamicSlice": "slice_sizes:[i64]",
    "StablehloPad": "edge_padding_low:[i64] edge_padding_high:[i64] interior_padding:[i64]",
    "StablehloIota": "iota_dimension:i64",
    "StablehloReduceWindow": "window_dimensions:[i64] window_strides:[i64] base_dilations:[i64]"
    " window_dilations:[i64] padding:[i64] body_subgraph_index:i32",
    "StablehloSort": "dimension:i64 is_stable:bool comparator_subgraph_index:i32",
    "StablehloWhile": "cond_subgraph_index:i32 body_subgraph_index:i32",
    "StablehloGather": "offset_dims:[i64] collapsed_slice_dims:[i64] start_index_map:[i64]"
    " index_vector_dim:i64 slice_sizes:[i64] indices_are_sorted:bool",
    "StablehloTranspose": "permutation:[i64]",
    "StablehloRngBitGenerator": "algorithm:RngAlgorithm",
    "StablehloCase": "branch_subgraph_indices:[i32]",
    "ArgMax": "output_type:dtype",
    "ArgMin": "output_type:dtype",
    "Cast": "in_data_type:dtype out_data_type:dtype",
    "Shape": "out_type:dtype",
    # 2 is the number of int32.
    "Unique": "idx_out_type:dtype=2",
    "FakeQuant": "min:f32 max:f32 num_bits:i32 narrow_range:bool",
    "SparseToDense": "validate_indices:bool",
    "Bucketize": "boundaries:[f32]",
    "Random": "seed:i64 seed2:i64",
    "ConcatEmbeddings": "num_channels:i32 num_columns_per_channel:[i32] embedding_dim_per_channel:[i32]",
    "EmbeddingLookupSparse": "combiner:Combiner",
    "LSHProjection": "type:LSHProjection",
    "SkipGram": "ngram_size:i32 max_skip_size:i32 include_all_ngrams:bool",
    "Call": "subgraph:u32",
    "CallOnce": "init_subgraph_index:i32",
    "If": "then_subgraph_index:i32 else_subgraph_index:i32",
    "While": "cond_subgraph_index:i32 body_subgraph_index:i32",
    "Hashtable": "table_id:i32 key_dtype:dtype value_dtype:dtype",
    "VarHandle": "container:str shared_name:str",
    "StableHLOComposite": "name:str decomposition_subgraph_index:i32 composite_attributes:[u8]"
    " composite_attributes_format:i8 version:i32",
}

ENUMS = {
    "Padding": ("SAME", "VALID"),
    "Activation": ("NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGN_BIT"),
    "MirrorPad": ("REFLECT", "SYMMETRIC"),
    "WeightsFormat": ("DEFAULT", "SHUFFLED4x16INT8"),
    "LSTMKernel": ("FULL", "BASIC"),
    "Combiner": ("SUM", "MEAN", "SQRTN"),
    "LSHProjection": ("UNKNOWN", "SPARSE", "DENSE"),
    "ReduceWindow": ("UNSUPPORTED", "ADD", "MUL", "MINIMUM", "MAXIMUM", "ALL", "ANY"),
    # By the operators that compare so.
    "Comparison": ("EQUAL", "NOT_EQUAL", "GREATER_EQUAL", "GREATER", "LESS_EQUAL", "LESS"),
    "RngAlgorithm": ("DEFAULT", "PHILOX", "THREEFRY"),
}
_WIDE_ENUMS = {"ReduceWindow": "i32", "Comparison": "u32"}  # the others are i8 in the file

_TYPES = """
    float half int32 uint8 int64 string bool int16 complex64 int8 double complex128 uint64 resource variant
    uint32 uint16 int4 bfloat16 int2 uint4 float8_e4m3fn float8_e5m2
"""
_TENSOR_TYPES = _TYPES.split()

# Bits per element where several elements share a byte, the first one in the low bits.
PACKED_BITS = {"int4": 4, "uint4": 4, "int2": 2}

# The option that names other subgraphs of the program.
SUBGRAPH_OPTIONS = frozenset(
    ("subgraph", "init_subgraph_index", "then_subgraph_index", "else_subgraph_index", "cond_subgraph_index",
     "body_subgraph_index", "decomposition_subgraph_index", "update_computation_subgraph_index",
     "comparator_subgraph_index")
)  # fmt: skip
SUBGRAPH_LISTS = frozenset(("branch_subgraph_indices",))
"""Options that name several."""


class OptionField(NamedTuple):
    """One field of an option table; `kind` is a number kind, an enum's name, "dtype", "str" or "[kind]"."""

    slot: int
    name: str
    kind: str
    default: int

    @property
    def stored_as(self) -> str:
        """The number kind in the file."""
        if self.kind in ENUMS:
            return _WIDE_ENUMS.get(self.kind, "i8")
        return "i8" if self.kind == "dtype" else self.kind


@cache
def option_fields(table: str) -> tuple[OptionField, ...]:
    """The fields of an option table by its name in the union ("Conv2D"); empty for one without fields."""
    fields = []
    for slot, word in enumerate(_FIELDS.get(table, "").split()):
        if word != "-":
            name, kind = word.split(":")
            # Flatbuffers leave out a field with its default, so it is needed to read as well as to write.
            kind, _, default = kind.partition("=")
            fields.append(OptionField(slot, name, kind, int(default or 0)))
    return tuple(fields)


_BY_LOWER_NAME = {name.lower(): name for name in (*_OPTION_NAMES[1:], *OPTION_2_NUMBERS)}


@cache
def options_of(code: str) -> str:
    """The option table of an op ("CONV_2D" -> "Conv2D"); "" if it has none."""
    return _OPTIONS_OF_OP.get(code) or _BY_LOWER_NAME.get(code.replace("_", "").lower(), "")


def option_name(number: int, *, second: bool = False) -> str | None:
    """The option table a union type number stands for; None if unknown here."""
    if second:
        return next((name for name, n in OPTION_2_NUMBERS.items() if n == number), None)
    return _OPTION_NAMES[number] if number < len(_OPTION_NAMES) else None


def op_name(code: int) -> str:
    """The name of a builtin code; "BUILTIN_<n>" for one that is newer than this table."""
    return _OP_NAMES[code] if 0 <= code < len(_OP_NAMES) else f"BUILTIN_{code}"


def op_code(name: str) -> int | None:
    """The builtin code of a name that `op_name` can give; None for any other."""
    if name in OP_CODES:
        return OP_CODES[name]
    number = name.removeprefix("BUILTIN_")
    return (
        # int() takes signs, spaces and other digits too, which op_name never gives.
        int(number) if number != name and number.isascii() and number.isdigit() and len(number) < 10 else None
    )


@cache
def storage_name(element: DType) -> str:
    """The name of the type the elements are stored in: a quantized type counts as its integers."""
    return dtype(element.numpy_name).name if element.is_quantized else element.name


@cache
def tensor_type(element: DType) -> int | None:
    """TFLite's number of an element type; None if it has no such type."""
    name = storage_name(element)
    return _TENSOR_TYPES.index(name) if name in _TENSOR_TYPES else None


def dtype_of(number: int) -> DType | None:
    """The element type of a TFLite number; None if it is newer than this table."""
    return dtype(_TENSOR_TYPES[number]) if 0 <= number < len(_TENSOR_TYPES) else None


def enum_value(kind: str, value: int) -> str | int:
    """The name of an enumerator, or the number of an unknown one."""
    names = ENUMS[kind]
    return names[value] if 0 <= value < len(names) else value


def enum_number(kind: str, value: Any) -> int | None:
    """The number of an enumerator given by name or number; None if there is no such name."""
    if isinstance(value, str):
        return ENUMS[kind].index(value) if value in ENUMS[kind] else None
    return int(value)
