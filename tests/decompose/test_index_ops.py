"""Sparse and ragged tensors as simpler ops, in LiteRT and in ONNX Runtime, against the reference kernels."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.onnx import harness as onnx_harness
from tests.lower.tflite import harness as tflite_harness
from thinflow.errors import UnsupportedOp
from thinflow.ir.types import FLOAT, INT32, INT64

TARGETS = {"tflite": tflite_harness.Net, "onnx": onnx_harness.Net}


@pytest.fixture(params=sorted(TARGETS))
def net(request):
    return TARGETS[request.param]()


def int64(*numbers):
    return np.array(numbers, np.int64)


def all_of(node, count):
    return [node.node.output(port) for port in range(count)]


def dense_to_sparse(net, x, shape):
    """A matrix of int32 fed, its places, values and shape as tf.sparse.from_dense makes them."""
    fed = net.feed(np.asarray(x, np.int32), "ids", shape)
    places = net.op("Where", net.op("NotEqual", fed, np.int32(0)), name="places")
    values = net.op("GatherNd", fed, places, name="values", Tindices=INT64)
    return places, values, net.op("Shape", fed, name="sizes", out_type=INT64)


MATRICES = {
    "some": [[3, 0, 1], [0, 0, 0], [0, 2, 2], [0, 0, 0]],
    "one": [[0, 5]],
    "none": [[0, 0], [0, 0]],
    "all": [[1, 2], [3, 4]],
}


@pytest.mark.parametrize("name", sorted(MATRICES))
def test_rows_without_values_get_the_default(net, name):
    x = np.array(MATRICES[name])
    places, values, sizes = dense_to_sparse(net, x, (None, x.shape[1]))
    filled = net.op("SparseFillEmptyRows", places, values, sizes, np.int32(7))
    net.check(*all_of(filled, 4))


def test_no_rows_at_all_stay_none(net):
    places, values, sizes = dense_to_sparse(net, np.zeros((0, 3)), (None, 3))
    net.check(*all_of(net.op("SparseFillEmptyRows", places, values, sizes, np.int32(7)), 4))


def test_rows_out_of_order_are_put_in_order_and_values_keep_theirs(net):
    indices = net.feed(int64([2, 5], [0, 1], [2, 0]), "indices", (None, 2))
    values = net.feed(np.array([1.5, 2.5, 3.5], np.float32), "values", (None,))
    shape = net.feed(int64(5, 9), "shape")
    net.check(*all_of(net.op("SparseFillEmptyRows", indices, values, shape, np.float32(-1)), 4))


def test_columns_of_more_than_32_bits_stay_exact(net):
    indices = net.feed(int64([0, 2**40 + 1], [2, 3]), "indices", (None, 2))
    values = net.feed(int64(2**50, 4), "values", (None,))
    shape = net.feed(int64(3, 2**41), "shape")
    net.check(*all_of(net.op("SparseFillEmptyRows", indices, values, shape, np.int64(0)), 4))


@pytest.mark.parametrize(
    "x", [[[3, 0, 1], [0, 0, 0]], [[0, 0]], np.zeros((0, 4))], ids=["some", "none", "no rows"]
)
@pytest.mark.parametrize("new", [(-1, 2), (2, -1), (-1,), (1, -1, 2), "same"])
def test_places_in_another_shape(net, x, new):
    x = np.pad(np.asarray(x), ((0, 0), (0, 1))) if np.shape(x)[1] == 3 else np.asarray(x)
    places, _, sizes = dense_to_sparse(net, x, (None, x.shape[1]))
    wanted = sizes if new == "same" else np.array(new, np.int64)
    if not x.any() and (new == "same" or not x.size):
        pytest.skip("there is nothing to divide; LiteRT cannot hand out an empty result of WHERE")
    net.check(*all_of(net.op("SparseReshape", places, sizes, wanted), 2))


def test_axes_that_are_joined_stay_exact_beyond_32_bits(net):
    """As embedding_lookup_sparse does with a tensor of three axes: all but the last become one."""
    indices = net.feed(int64([1, 2, 3], [70000, 80000, 4]), "indices", (None, 3))
    shape = net.feed(int64(90000, 90001, 5), "shape")
    rows = net.op(
        "Prod", net.op("Slice", shape, np.array([0]), np.array([2])), np.array([0]), keep_dims=False
    )
    last = net.op("GatherV2", shape, np.int32(2), np.int32(0), Taxis=INT32, Tindices=INT32)
    new = net.op("Pack", rows, last, N=2, axis=0)
    codes = net.check(*all_of(net.op("SparseReshape", indices, shape, new), 2))
    assert not {"DIV", "FLOOR_DIV", "Div"} & set(codes)


def test_equal_sizes_leave_the_places_as_they_are(net):
    indices = net.feed(int64([1, 2], [3, 4]), "indices", (None, 2))
    shape = net.feed(int64(2**31, 2**31), "shape")
    rows = net.op("StridedSlice", shape, np.array([0]), np.array([1]), np.array([1]), shrink_axis_mask=1)
    last = net.op("StridedSlice", shape, np.array([-1]), np.array([0]), np.array([1]), shrink_axis_mask=1)
    net.check(*all_of(net.op("SparseReshape", indices, shape, net.op("Pack", rows, last, N=2, axis=0)), 2))


def test_sizes_that_may_not_fit_into_32_bits_are_refused_by_litert():
    net = tflite_harness.Net()
    indices, shape = net.feed(int64([1, 2]), "indices", (None, 2)), net.feed(int64(6, 4), "shape")
    with pytest.raises(UnsupportedOp, match="more than 32 bits hold"):
        net.lower(net.op("SparseReshape", indices, shape, int64(8, 3)))


def test_a_bag_of_embeddings_takes_any_number_of_values(net):
    """What tf.nn.safe_embedding_lookup_sparse writes, at another batch than the one that was seen."""
    table = np.arange(20, dtype=np.float32).reshape(5, 4)
    places, values, sizes = dense_to_sparse(net, [[3, 0, 1], [0, 0, 0]], (None, 3))
    filled = net.op("SparseFillEmptyRows", places, values, sizes, np.int32(0)).node
    rows = net.op(
        "StridedSlice", filled.output(0), np.array([0, 0]), np.array([0, 1]), np.array([1, 1]),
        begin_mask=1, end_mask=1, shrink_axis_mask=2,
    )  # fmt: skip
    unique = net.op("Unique", filled.output(1), out_idx=INT32).node
    found = net.op("GatherV2", table, unique.output(0), np.int32(0), Taxis=INT32)
    y = net.op("SparseSegmentSqrtN", found, unique.output(1), rows, Tsegmentids=INT64)
    net.check(y, filled.output(2))
    (fed,) = net.feeds
    for x in ([[0, 0, 0]], [[1, 2, 3], [0, 0, 0], [4, 4, 0]]):
        net.check(y, filled.output(2), feeds={fed: np.array(x, np.int32)})


def matrix(net, sizes=(4, 5)):
    """Values and where they stand, in no order."""
    indices = net.feed(int64([3, 1], [0, 4], [3, 0], [0, 2]), "indices", (None, 2))
    return (
        indices,
        net.feed(np.array([1.5, 2, -3, 4], np.float32), "values", (None,)),
        net.feed(int64(*sizes), "shape"),
    )


def test_values_are_put_in_the_order_of_rows(net):
    net.check(*all_of(net.op("SparseReorder", *matrix(net)), 2))


def test_far_columns_are_put_in_order(net):
    indices = net.feed(int64([0, 2**40], [0, 3], [0, 2**33]), "indices", (None, 2))
    values = net.feed(np.array([1, 2, 3], np.int32), "values", (None,))
    net.check(*all_of(net.op("SparseReorder", indices, values, int64(1, 2**41)), 2))


@pytest.mark.parametrize("keep_dims", [False, True])
@pytest.mark.parametrize("axes", [[0], [-1], [0, 1], []], ids=str)
def test_sums_along_axes_are_dense(net, axes, keep_dims):
    axes = np.array(axes, np.int32)
    net.check(net.op("SparseReduceSum", *matrix(net), axes, keep_dims=keep_dims))


@pytest.mark.parametrize("adjoint_b", [False, True])
@pytest.mark.parametrize("adjoint_a", [False, True])
def test_a_product_with_a_dense_matrix(net, adjoint_a, adjoint_b):
    dense = (
        np.arange(12, dtype=np.float32).reshape(4, 3)
        if adjoint_a
        else np.arange(15, dtype=np.float32).reshape(5, 3)
    )
    attrs = {"adjoint_a": adjoint_a, "adjoint_b": adjoint_b}
    net.check(net.op("SparseTensorDenseMatMul", *matrix(net), dense.T if adjoint_b else dense, **attrs))


# --- counting ---


@pytest.mark.parametrize("weights", [[], [1, 2, 3, 0.5]], ids=["ones", "weights"])
@pytest.mark.parametrize("binary", [False, True])
def test_values_of_a_sparse_matrix_are_counted(net, binary, weights):
    indices, _, shape = matrix(net)
    values = net.feed(int64(1, 2, 1, 7), "numbers", (None,))
    weights = net.feed(np.array(weights, np.float32), "weights")
    net.check(net.op("SparseBincount", indices, values, shape, np.int64(4), weights, binary_output=binary))


def test_values_of_a_sparse_vector_are_counted(net):
    indices, values = (
        net.feed(int64([1], [3], [4]), "indices", (None, 1)),
        net.feed(int64(2, 0, 2), "values", (None,)),
    )
    net.check(net.op("SparseBincount", indices, values, int64(5), np.int64(4), np.zeros(0, np.float32)))


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("x", [[3, 1, 3, 9, 0], [[1, 1, 7], [0, 2, 2]], [], np.zeros((0, 2))], ids=str)
def test_numbers_are_counted_up_to_a_size_that_is_computed(net, x, binary):
    x = np.array(x, np.int32)
    fed = net.feed(x, "x", (None, *x.shape[1:]))
    size = net.op("Minimum", net.feed(np.int32(5), "size"), np.int32(8))
    net.check(net.op("DenseBincount", fed, size, np.zeros(0, np.float32), binary_output=binary))


@pytest.mark.parametrize("element", [np.int32, np.int64, np.float32])
def test_numbers_of_any_shape_are_counted_together(net, element):
    fed = net.feed(np.array([[3, 1], [3, 9]], np.int32), "x", (None, 2))
    net.check(net.op("Bincount", fed, np.int32(5), np.zeros(0, element)))
    net.check(net.op("DenseBincount", fed, np.int32(5), np.zeros(0, element)))


def test_numbers_beyond_32_bits_are_too_large_to_count(net):
    fed = net.feed(int64(2**32 + 1, 1, 2**33, 2**31), "x", (None,))
    net.check(net.op("DenseBincount", fed, net.feed(np.int64(4), "size"), np.zeros(0, np.int32)))


def test_weights_are_added_up_by_number(net):
    fed = net.feed(np.array([[1, 1, 7], [0, 2, 2]], np.int32), "x", (None, 3))
    weights = net.feed(np.array([[1, 2, 3], [0.5, 6, 7]], np.float32), "w")
    net.check(net.op("DenseBincount", fed, net.feed(np.int32(4), "size"), weights))


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("splits", [[0, 2, 2, 5], [0, 0, 5, 5], [0, 5]], ids=str)
def test_ragged_rows_are_counted(net, splits, binary):
    rows = net.feed(int64(*splits), "splits", (None,))
    values = net.feed(int64(1, 0, 2, 2, 6), "values", (None,))
    empty = np.zeros(0, np.float32)
    net.check(net.op("RaggedBincount", rows, values, np.int64(4), empty, binary_output=binary))


@pytest.mark.parametrize("op", ["UnsortedSegmentSum", "UnsortedSegmentProd"])
def test_as_many_segments_as_are_computed(net, op):
    x = net.feed(np.arange(10, dtype=np.float32).reshape(5, 2), "x", (None, 2))
    segments = net.feed(int64(0, 3, -1, 3, 0), "segments", (None,))
    count = net.feed(np.int64(5), "count")
    net.check(net.op(op, x, segments, count))


# --- ragged rows ---

SPLITS = {"plain": [0, 2, 2, 5], "ends empty": [0, 0, 1, 5, 5, 5], "one row": [0, 5], "empty": [0, 0, 0]}


def ragged(net, splits, inner=()):
    count = splits[-1]
    values = np.arange(1, 1 + count * max(1, int(np.prod(inner)))).reshape(count, *inner)
    fed = net.feed(values.astype(np.float32), "values", (None, *inner))
    return net.feed(int64(*splits), "splits", (None,)), fed


@pytest.mark.parametrize("default", [0.0, -1.5])
@pytest.mark.parametrize("shape", [(-1, -1), (-1, 2), (2, -1), (4, 6)], ids=str)
@pytest.mark.parametrize("name", sorted(SPLITS))
def test_rows_are_filled_up(net, name, shape, default):
    if name == "empty" and shape[1] == -1:
        pytest.skip("LiteRT cannot hand out a reshaped result without elements")
    splits, values = ragged(net, SPLITS[name])
    kinds = {"row_partition_types": ["ROW_SPLITS"]}
    net.check(net.op("RaggedTensorToTensor", int64(*shape), values, np.float32(default), splits, **kinds))


@pytest.mark.parametrize("shape", [np.int32(-1), np.array([-1, 3, 2]), np.array([-1, -1, -1])], ids=str)
def test_rows_of_vectors_are_filled_up(net, shape):
    splits, values = ragged(net, SPLITS["plain"], (2,))
    kinds = {"row_partition_types": ["ROW_SPLITS"]}
    net.check(net.op("RaggedTensorToTensor", shape, values, np.float32(9), splits, **kinds))


def test_rows_named_by_number_are_filled_up(net):
    _, values = ragged(net, SPLITS["plain"])
    rows = net.feed(int64(0, 0, 3, 3, 3), "rows", (None,))
    count = net.feed(np.int64(5), "count")
    kinds = {"row_partition_types": ["FIRST_DIM_SIZE", "VALUE_ROWIDS"]}
    net.check(net.op("RaggedTensorToTensor", int64(-1, -1), values, np.float32(0), count, rows, **kinds))


@pytest.mark.parametrize("shape", [(-1, -1, -1), (-1, 1, 2), (4, 3, 3)], ids=str)
def test_nested_rows_are_filled_up(net, shape):
    splits, values = ragged(net, SPLITS["plain"])
    outer = net.feed(int64(0, 1, 1, 3), "outer", (None,))
    kinds = {"row_partition_types": ["ROW_SPLITS", "ROW_SPLITS"]}
    net.check(net.op("RaggedTensorToTensor", int64(*shape), values, np.float32(2), outer, splits, **kinds))


@pytest.mark.parametrize("name", sorted(SPLITS))
def test_ragged_rows_become_sparse(net, name):
    splits, values = ragged(net, SPLITS[name])
    net.check(*all_of(net.op("RaggedTensorToSparse", splits, values, RAGGED_RANK=1), 3))


def test_nested_ragged_rows_become_sparse(net):
    splits, values = ragged(net, SPLITS["plain"])
    outer = net.feed(int64(0, 1, 1, 3), "outer", (None,))
    net.check(*all_of(net.op("RaggedTensorToSparse", outer, splits, values, RAGGED_RANK=2), 3))


@pytest.mark.parametrize("chosen", [[2, 0, 2], [1], []], ids=str)
def test_ragged_rows_are_chosen(net, chosen):
    splits, values = ragged(net, SPLITS["plain"], (2,))
    places = net.feed(np.array(chosen, np.int32), "chosen", (None,))
    found = net.op(
        "RaggedGather", splits, values, places, PARAMS_RAGGED_RANK=1, OUTPUT_RAGGED_RANK=1, Tvalues=FLOAT
    )
    net.check(*all_of(found, 2))


def test_nested_ragged_rows_are_chosen(net):
    splits, values = ragged(net, SPLITS["plain"])
    outer = net.feed(int64(0, 1, 1, 3), "outer", (None,))
    places = net.feed(np.array([2, 1, 0, 2], np.int32), "chosen", (None,))
    found = net.op("RaggedGather", outer, splits, values, places, PARAMS_RAGGED_RANK=2, OUTPUT_RAGGED_RANK=2)
    net.check(*all_of(found, 3))


def test_empty_rows_of_a_ragged_tensor_get_the_default(net):
    rows = net.feed(int64(0, 0, 3), "rows", (None,))
    values = net.feed(np.array([1, 2, 3], np.float32), "values", (None,))
    count = net.feed(np.int64(5), "count")
    net.check(*all_of(net.op("RaggedFillEmptyRows", rows, values, count, np.float32(8)), 4))
