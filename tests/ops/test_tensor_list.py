"""TensorLists, TensorArrays and tables: handles that only ops of their own family understand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ops._agreement import infer, text
from thinflow.errors import ShapeError
from thinflow.ir.types import FLOAT, INT32, INT64, STRING, VARIANT, ListSpec, TensorSpec
from thinflow.ops import registry

X = np.arange(12, dtype=np.float32).reshape(4, 3)
ANY = np.int32(-1)  # an element shape of unknown rank


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def run(name: str, *inputs: Any, **attrs: Any) -> Any:
    arrays = [x if isinstance(x, registry.Handle) else np.asarray(x) for x in inputs]
    outputs = registry.call_kernel(registry.get(name), arrays, {"element_dtype": FLOAT, **attrs})
    return outputs[0] if len(outputs) == 1 else outputs


def rows(count: int = 4) -> Any:
    return run("TensorListFromTensor", X[:count], ints(3))


def stacked(values: Any, shape: Any = ANY) -> np.ndarray:
    return run("TensorListStack", values, shape)


def test_from_tensor_and_back() -> None:
    np.testing.assert_array_equal(stacked(rows()), X)
    scalars = run("TensorListFromTensor", X[0], ints())
    np.testing.assert_array_equal(stacked(scalars), X[0])
    assert isinstance(run("TensorListGetItem", scalars, 1, ints()), np.ndarray)
    assert run("TensorListLength", rows()) == 4
    assert run("TensorListLength", rows()).dtype == np.int32


def test_lists_are_values() -> None:
    old = rows(2)
    new = run("TensorListSetItem", old, 0, X[3])
    pushed = run("TensorListPushBack", old, X[3])
    np.testing.assert_array_equal(stacked(old), X[:2])
    np.testing.assert_array_equal(stacked(new), X[[3, 1]])
    np.testing.assert_array_equal(stacked(pushed), X[[0, 1, 3]])


def test_items_nobody_set_are_zeros_once_a_shape_is_known() -> None:
    empty = run("TensorListReserve", ANY, 3)
    with pytest.raises(ShapeError, match="never set"):
        run("TensorListGetItem", empty, 0, ANY)
    assert run("TensorListGetItem", empty, 0, ints(3)).shape == (3,)
    one = run("TensorListSetItem", empty, 1, X[1])
    np.testing.assert_array_equal(stacked(one), [[0] * 3, X[1], [0] * 3])
    words = run("TensorListReserve", ints(), 1, element_dtype=STRING)
    assert run("TensorListGetItem", words, 0, ints())[()] == b""


def test_an_empty_list_stacks_if_its_shape_is_known() -> None:
    empty = run("EmptyTensorList", ints(-1, 2), -1)
    assert stacked(empty, ints(5, -1)).shape == (0, 5, 2)
    with pytest.raises(ShapeError, match="the list is empty, and the shape of items is not known"):
        stacked(empty)


def test_push_and_pop() -> None:
    full = run("TensorListPushBack", run("EmptyTensorList", ints(3), 1), X[0])
    with pytest.raises(ShapeError, match="the list is full with 1 items"):
        run("TensorListPushBack", full, X[0])
    rest, item = run("TensorListPopBack", rows(), ints(3))
    np.testing.assert_array_equal(item, X[3])
    np.testing.assert_array_equal(stacked(rest), X[:3])
    with pytest.raises(ShapeError, match="an empty list"):
        run("TensorListPopBack", run("EmptyTensorList", ints(3), -1), ints(3))


def test_indices_are_checked() -> None:
    for index in (-1, 4):
        with pytest.raises(ShapeError, match=f"index {index} of a list of 4"):
            run("TensorListGetItem", rows(), index, ints(3))
        with pytest.raises(ShapeError, match=f"index {index} of a list of 4"):
            run("TensorListSetItem", rows(), index, X[0])
    grown = run("TensorListSetItem", rows(1), 2, X[2], resize_if_index_out_of_bounds=True)
    np.testing.assert_array_equal(stacked(grown), [X[0], [0] * 3, X[2]])


def test_gather_and_scatter() -> None:
    np.testing.assert_array_equal(run("TensorListGather", rows(), ints(2, 0), ints(3)), X[[2, 0]])
    assert run("TensorListGather", rows(), ints(), ints(3)).shape == (0, 3)
    scattered = run("TensorListScatterV2", X[:2], ints(2, 0), ints(3), -1)
    np.testing.assert_array_equal(stacked(scattered), [X[1], [0] * 3, X[0]])
    assert run("TensorListLength", run("TensorListScatterV2", X[:1], ints(0), ints(3), 5)) == 5
    into = run("TensorListScatterIntoExistingList", rows(2), X[2:], ints(1, 2))
    np.testing.assert_array_equal(stacked(into), X[[0, 2, 3]])
    with pytest.raises(ShapeError, match="2 indices for 1 rows"):
        run("TensorListScatter", X[:1], ints(0, 1), ints(3))


def test_split_and_concat() -> None:
    pieces = run("TensorListSplit", X, ints(-1, 3), ints(1, 0, 3))
    joined, lengths = run("TensorListConcatV2", pieces, ints(-1, 3), ints())
    np.testing.assert_array_equal(joined, X)
    np.testing.assert_array_equal(lengths, [1, 0, 3])
    assert lengths.dtype == np.int64
    reserved = run("TensorListReserve", ints(-1, 3), 2)
    joined, lengths = run("TensorListConcatV2", reserved, ints(-1, 3), np.array([2, 1]))
    assert joined.shape == (3, 3)
    joined, _ = run("TensorListConcat", run("EmptyTensorList", ANY, -1), element_shape=(None, 3))
    assert joined.shape == (0, 3)
    with pytest.raises(ShapeError, match="do not add up"):
        run("TensorListSplit", X, ints(-1, 3), ints(1, 2))


def test_resize_shape_and_joined_lists() -> None:
    np.testing.assert_array_equal(stacked(run("TensorListResize", rows(), 2)), X[:2])
    np.testing.assert_array_equal(stacked(run("TensorListResize", rows(1), 2)), [X[0], [0] * 3])
    shape = run("TensorListElementShape", run("EmptyTensorList", ints(-1, 2), -1), shape_type=INT64)
    np.testing.assert_array_equal(shape, np.array([-1, 2], np.int64))
    unknown = run("TensorListElementShape", run("EmptyTensorList", ANY, -1), shape_type=INT32)
    assert (unknown.shape, int(unknown)) == ((), -1)
    np.testing.assert_array_equal(stacked(run("TensorListConcatLists", rows(1), rows(2))), X[[0, 0, 1]])


def test_a_batch_of_lists() -> None:
    lists = np.empty(2, object)
    lists[:] = [rows(1), rows(2)]
    pushed = run("TensorListPushBackBatch", lists, X[2:])
    np.testing.assert_array_equal(stacked(pushed[0]), X[[0, 2]])
    np.testing.assert_array_equal(stacked(pushed[1]), X[[0, 1, 3]])


def test_a_list_of_lists() -> None:
    outer = run("TensorListPushBack", run("EmptyTensorList", ANY, -1), rows(2))
    np.testing.assert_array_equal(stacked(run("TensorListGetItem", outer, 0, ANY)), X[:2])


def test_list_shapes() -> None:
    handle, shape = TensorSpec(VARIANT, ()), TensorSpec(INT32, (2,), (3, -1))
    attrs = {"element_dtype": FLOAT}
    empty = TensorSpec(VARIANT, (), items=ListSpec())
    assert infer("TensorListReserve", shape, TensorSpec(INT32, ()), **attrs) == empty
    assert infer("TensorListGetItem", handle, TensorSpec(INT32, ()), shape, **attrs) == TensorSpec(
        FLOAT, (3, None)
    )
    assert infer("TensorListStack", handle, shape, num_elements=7, **attrs) == TensorSpec(FLOAT, (7, 3, None))
    unknown = TensorSpec(INT32, (), (-1,))
    assert infer("TensorListStack", handle, unknown, **attrs) == TensorSpec(FLOAT)
    indices = TensorSpec(INT32, (5,))
    assert infer("TensorListGather", handle, indices, shape, **attrs) == TensorSpec(FLOAT, (5, 3, None))
    joined = infer("TensorListConcatV2", handle, shape, TensorSpec(INT64, (0,)), **attrs)
    assert joined == (TensorSpec(FLOAT, (None, None)), TensorSpec(INT64, (None,)))


@pytest.mark.parametrize("version", ["", "V2", "V3"])
def test_tensor_arrays_of_all_versions(version: str) -> None:
    def call(name: str, *inputs: Any, **attrs: Any) -> Any:
        return run(f"TensorArray{name}{version}", *inputs, dtype=FLOAT, **attrs)

    made = call("", 2, dynamic_size=True)
    handle, flow = made if version == "V3" else (made, np.float32(0))
    flow = call("Write", handle, 2, X[2], flow)
    flow = call("Scatter", handle, ints(0, 1), X[:2], flow)
    np.testing.assert_array_equal(call("Read", handle, 2, flow), X[2])
    np.testing.assert_array_equal(call("Gather", handle, ints(1, 0), flow), X[[1, 0]])
    assert call("Size", handle, flow) == 3
    call("Split", handle, X, ints(1, 3, 0), flow)
    joined, lengths = call("Concat", handle, flow)
    np.testing.assert_array_equal(joined, X)
    np.testing.assert_array_equal(lengths, [1, 3, 0])
    assert call("Close", handle) == ()


def test_tables() -> None:
    table = run("HashTableV2")
    with pytest.raises(ShapeError, match="nothing was put into the table"):
        run("LookupTableSizeV2", table)
    with pytest.raises(ShapeError, match="2 keys for 1 values"):
        run("InitializeTableV2", table, text(b"a", b"b"), ints(1))
    run("InitializeTableV2", table, text(b"a", b"b"), ints(1, 2))
    found = run("LookupTableFindV2", table, text(b"b", b"c", b"a").reshape(3, 1), np.int32(-1))
    np.testing.assert_array_equal(found, ints(2, -1, 1).reshape(3, 1))
    assert found.dtype == np.int32
    assert run("LookupTableSizeV2", table) == 2
    run("LookupTableImportV2", table, np.array([5]), text(b"five"))
    assert run("LookupTableFindV2", table, np.array(5), text(b"?").reshape(())) == b"five"
    assert infer("LookupTableFindV2", TensorSpec(), TensorSpec(INT64, (2,)), TensorSpec(INT32, ())).shape == (
        2,
    )


def test_old_tensor_arrays_pack_and_unpack() -> None:
    array = run("TensorArray", np.int32(2), dtype=FLOAT)
    run("TensorArrayUnpack", array, X[:2], np.float32(0))
    np.testing.assert_array_equal(run("TensorArrayPack", array, np.float32(0)), X[:2])
