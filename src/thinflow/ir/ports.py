"""Names of the outputs of ops, to read and write the `node:output:index` of function bodies.

`TopKV2` has the outputs `values indices`; `name*attr` is a list of outputs, as many as the attribute `attr`
says or has items. An op that is not in the table has a single output or a single list of outputs: to read,
its name does not matter; to write, it stands in `data/op_outputs.txt`. Source: TensorFlow's op definitions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from thinflow.errors import GraphError
from thinflow.ir.attrs import Attr


@dataclass(frozen=True)
class OutputArg:
    """One output of an op definition.

    Attributes:
        name: what function bodies call it.
        length: the attribute that holds the number of its ports; "" if it is a single port.
    """

    name: str
    length: str = ""


def output_args(op: str) -> tuple[OutputArg, ...]:
    """The outputs of an op with several of them, in port order; () for any other op."""
    return _by_op().get(op, ())


def flat_port(args: Sequence[OutputArg], attrs: Mapping[str, Attr], name: str, index: int) -> int:
    """The port number of place `index` in the output `name`.

    Args:
        args: the op's outputs; () for a single one, whose name does not matter.
        attrs: attributes of the node, for the lengths of lists.
        name: output name.
        index: place in that output.

    Raises:
        GraphError: there is no such output, or the attribute with a list's length is missing.
    """
    if not args:
        return index
    port = 0
    for arg in args:
        if arg.name == name:
            return port + index
        port += _length(arg, attrs)
    raise GraphError(
        f"it has no output '{name}', only {', '.join(a.name for a in args)}", hint="the function is damaged"
    )


def place_of(args: Sequence[OutputArg], attrs: Mapping[str, Attr], op: str, port: int) -> tuple[str, int]:
    """The output and the place in it that a port number means; the reverse of `flat_port`.

    Args:
        args: the op's outputs; () for a single one.
        attrs: attributes of the node, for the lengths of lists.
        op: the node's op, for the name of a single output.
        port: port number.

    Raises:
        GraphError: there is no such port, or the attribute with a list's length is missing.
    """
    if not args:
        # With one output, or one list of outputs, the port number is the index.
        return _single_outputs().get(op, "output"), port
    first = 0
    for arg in args:
        length = _length(arg, attrs)
        if port < first + length:
            return arg.name, port - first
        first += length
    raise GraphError(f"it has {first} outputs, no output {port}")


@cache
def _single_outputs() -> dict[str, str]:
    """Op -> the name of its only output, where that is not `output`."""
    from importlib.resources import files

    text = files("thinflow").joinpath("data/op_outputs.txt").read_text("utf-8")
    table: dict[str, str] = {}
    # Long lines go on below, indented by four.
    for line in text.replace("\n    ", " ").splitlines():
        name, _, ops = line.partition(": ")
        if not line.startswith("#"):
            table.update(dict.fromkeys(ops.split(), name))
    return table


_NONE_BY_DEFAULT = ("Ncontext_", "Nfeature_list_", "Tcontext_", "context_", "feature_list_")
"""How the lengths are called that have a default, 0 or no types; files leave such attributes out."""


def _length(arg: OutputArg, attrs: Mapping[str, Attr]) -> int:
    if not arg.length:
        return 1
    value = attrs.get(arg.length)
    if value is None and arg.length.startswith(_NONE_BY_DEFAULT):
        return 0
    # The attribute is a count (N) or the types of the list's items (Tout), one for each.
    if isinstance(value, tuple):
        return len(value)
    if not isinstance(value, int):
        raise GraphError(
            f"the attribute '{arg.length}' is missing, which counts its outputs",
            hint="the function is damaged",
        )
    return value


# Parsed when first asked for, so that importing this module stays cheap.
@cache
def _by_op() -> dict[str, tuple[OutputArg, ...]]:
    table: dict[str, tuple[OutputArg, ...]] = {}
    for line in _OUTPUTS.replace("\n    ", " ").strip().splitlines():
        names, _, ops = line.partition(": ")
        args = tuple(OutputArg(*name.split("*")) for name in names.split())
        table.update(dict.fromkeys(ops.split(), args))
    return table


_OUTPUTS = """
output min_output max_output: QuantizedAvgPool QuantizedConv2D QuantizedConv2DAndRelu
    QuantizedConv2DAndReluAndRequantize QuantizedConv2DAndRequantize QuantizedConv2DPerChannel
    QuantizedConv2DWithBias QuantizedConv2DWithBiasAndRelu QuantizedConv2DWithBiasAndReluAndRequantize
    QuantizedConv2DWithBiasAndRequantize QuantizedConv2DWithBiasSignedSumAndReluAndRequantize
    QuantizedConv2DWithBiasSumAndRelu QuantizedConv2DWithBiasSumAndReluAndRequantize
    QuantizedDepthwiseConv2D QuantizedDepthwiseConv2DWithBias QuantizedDepthwiseConv2DWithBiasAndRelu
    QuantizedDepthwiseConv2DWithBiasAndReluAndRequantize QuantizedMaxPool _QuantizedMaxPool3D
output output_min output_max: QuantizeDownAndShrinkRange QuantizeV2 QuantizedConcat QuantizedConcatV2
    QuantizedReshape Requantize RequantizePerChannel
output_indices output_values output_shape: SparseConcat SparseCross SparseCrossHashed SparseCrossV2
    SparseReduceMaxSparse SparseReduceSumSparse SparseSlice
out min_out max_out: QuantizedMatMul QuantizedMatMulWithBias QuantizedMatMulWithBiasAndRelu
    QuantizedMatMulWithBiasAndReluAndRequantize QuantizedMatMulWithBiasAndRequantize
activations min_activations max_activations: QuantizedRelu QuantizedRelu6 QuantizedReluX
begin size bboxes: SampleDistortedBoundingBox SampleDistortedBoundingBoxV2
    StatelessSampleDistortedBoundingBox
device_outputs*Tdevice_outputs host_outputs*Thost_outputs: _FusedQuantizedConv2D
    _FusedQuantizedDepthwiseConv2D _QuantizedMatMul
i cs f o ci co h: BlockLSTM BlockLSTMV2 LSTMBlockCell
output_indices output_values: SparseReorder SparseSparseMaximum SparseSparseMinimum
output_indices output_values output_dense_shape: DenseCountSparseOutput RaggedCountSparseOutput
    SparseCountSparseOutput
sparse_indices sparse_values sparse_shape: DeserializeManySparse DeserializeSparse
    TakeManySparseFromTensorsMap
value lengths: TensorArrayConcat TensorArrayConcatV2 TensorArrayConcatV3
values indices: ApproxTopK TopK TopKV2
e v: Eig SelfAdjointEigV2
indices values shape: StringSplit StringSplitV2
keys values: LookupTableExport LookupTableExportV2
output output_h output_c reserve_space host_reserved: CudnnRNNV2 CudnnRNNV3
output row_pooling_sequence col_pooling_sequence: FractionalAvgPool FractionalMaxPool
output value_index: Merge RefMerge
output_false output_true: RefSwitch Switch
output_min output_max: RequantizationRange RequantizationRangePerChannel
tensor lengths: TensorListConcat TensorListConcatV2
topk topk_indices: TopKUnique TopKWithUnique
y batch_mean batch_variance reserve_space_1 reserve_space_2: FusedBatchNorm FusedBatchNormV2
y batch_mean batch_variance reserve_space_1 reserve_space_2 reserve_space_3: FusedBatchNormV3
    _FusedBatchNormEx
y idx: Unique UniqueV2
y idx count: UniqueWithCounts UniqueWithCountsV2
z min_z max_z: QuantizedAdd QuantizedMul
audio sample_rate: DecodeWav
decoded_indices decoded_values decoded_shape log_probability: CTCGreedyDecoder
decoded_indices*top_paths decoded_values*top_paths decoded_shape*top_paths log_probability:
    CTCBeamSearchDecoder
handle flow: TensorArrayV3
lu p: Lu
ngrams ngrams_splits: StringNGrams
nmsed_boxes nmsed_scores nmsed_classes valid_detections: CombinedNonMaxSuppression
out idx: ListDiff
output argmax: MaxPoolWithArgmax
output min_out max_out: QuantizedBiasAdd
output output_h output_c reserve_space: CudnnRNN
output segments: IsotonicRegression
output_handle tensor: TensorListPopBack
output_indices output_shape: SparseReshape
output_indices output_values empty_row_indicator reverse_index_map: SparseFillEmptyRows
output_indices*num_split output_values*num_split output_shape*num_split: SparseSplit
output_nested_splits*OUTPUT_RAGGED_RANK output_dense_values: RaggedGather
output_nested_splits*output_ragged_rank output_dense_values: RaggedTensorFromVariant
output_value_rowids output_values empty_row_indicator reverse_index_map: RaggedFillEmptyRows
output_values output_row_splits: RaggedCross
q r: Qr
r u c h: GRUBlockCell
resized_images out_min out_max: QuantizedResizeBilinear
result result_min result_max: QuantizedBatchNormWithGlobalNormalization
row_splits char_values: UnicodeDecode
row_splits char_values char_to_byte_starts: UnicodeDecodeWithOffsets
rt_nested_splits rt_dense_values: RaggedRange
s u v: Svd
selected_indices selected_scores valid_outputs: NonMaxSuppressionV5
selected_indices valid_outputs: NonMaxSuppressionV4
sign log_abs_determinant: LogMatrixDeterminant
sizes values*output_types: DecodeProtoV2
sparse_indices sparse_values sparse_dense_shape: RaggedTensorToSparse
sparse_indices*Nsparse sparse_values*sparse_types sparse_shapes*Nsparse dense_values*Tdense: ParseExample
sparse_indices*num_sparse sparse_values*sparse_types sparse_shapes*num_sparse dense_values*Tdense:
    ParseSingleExample
sparse_indices*num_sparse sparse_values*sparse_types sparse_shapes*num_sparse dense_values*Tdense
    ragged_values*ragged_value_types ragged_row_splits*ragged_split_types: ParseExampleV2
sum_indices sum_values sum_shape: SparseAdd
y y_min y_max: QuantizedInstanceNorm
sampled_candidates true_expected_count sampled_expected_count: AllCandidateSampler
    LogUniformCandidateSampler UniformCandidateSampler
dx dm dv db dg: BatchNormWithGlobalNormalizationGrad
e v: BatchSelfAdjointEigV2
s u v: BatchSvd
r0 r1: BroadcastGradientArgs
loss gradient: CTCLoss
indices ids weights: ComputeAccidentalHits
result_indices result_values result_shape: DenseToDenseSetOperation DenseToSparseSetOperation
    SparseToSparseSetOperation
backprops_wrt_input backprop_wrt_min backprop_wrt_max: FakeQuantWithMinMaxVarsGradient
    FakeQuantWithMinMaxVarsPerChannelGradient
x_backprop scale_backprop offset_backprop reserve_space_3 reserve_space_4: FusedBatchNormGrad
    FusedBatchNormGradV2
x_backprop scale_backprop offset_backprop reserve_space_4 reserve_space_5: FusedBatchNormGradV3
context_sparse_indices*Ncontext_sparse context_sparse_values*context_sparse_types
    context_sparse_shapes*Ncontext_sparse context_dense_values*Tcontext_dense
    feature_list_sparse_indices*Nfeature_list_sparse feature_list_sparse_values*feature_list_sparse_types
    feature_list_sparse_shapes*Nfeature_list_sparse feature_list_dense_values*feature_list_dense_types
    feature_list_dense_lengths*Nfeature_list_dense: ParseSequenceExample
context_sparse_indices*Ncontext_sparse context_sparse_values*context_sparse_types
    context_sparse_shapes*Ncontext_sparse context_dense_values*Tcontext_dense
    context_ragged_values*context_ragged_value_types context_ragged_row_splits*context_ragged_split_types
    feature_list_sparse_indices*Nfeature_list_sparse feature_list_sparse_values*feature_list_sparse_types
    feature_list_sparse_shapes*Nfeature_list_sparse feature_list_dense_values*feature_list_dense_types
    feature_list_dense_lengths*Nfeature_list_dense
    feature_list_ragged_values*feature_list_ragged_value_types
    feature_list_ragged_outer_splits*feature_list_ragged_split_types
    feature_list_ragged_inner_splits*feature_list_ragged_split_types: ParseSequenceExampleV2
context_sparse_indices*Ncontext_sparse context_sparse_values*context_sparse_types
    context_sparse_shapes*Ncontext_sparse context_dense_values*Tcontext_dense
    feature_list_sparse_indices*Nfeature_list_sparse feature_list_sparse_values*feature_list_sparse_types
    feature_list_sparse_shapes*Nfeature_list_sparse feature_list_dense_values*feature_list_dense_types:
    ParseSingleSequenceExample
input_backprop input_min_backprop input_max_backprop: QuantizeAndDequantizeV4Grad
loss backprop: SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits
key counter: StatelessRandomGetKeyCounter
key counter alg: StatelessRandomGetKeyCounterAlg
"""
