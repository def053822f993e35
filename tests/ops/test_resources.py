"""Variables, tables, queues, stacks and other handles, which only ops of their own family understand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.library import constant, function, graph_of, node
from tests.ops._agreement import text
from thinflow.errors import FormatError, GraphError, NodeError, ShapeError
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import FLOAT, INT32, INT64, RESOURCE, STRING, dtype
from thinflow.ops import registry

X = np.float32([[1, 2], [3, 4], [5, 6]])
ROWS = np.array([0, 2], np.int32)
PAIR = np.float32([[1, 1], [2, 2]])


def run(name: str, *inputs: Any, **attrs: Any) -> Any:
    arrays = [x if isinstance(x, registry.Handle) else np.asarray(x) for x in inputs]
    outputs = registry.call_kernel(registry.get(name), arrays, attrs)
    return outputs[0] if len(outputs) == 1 else outputs


def variable(value: np.ndarray = X) -> Any:
    made = run("VarHandleOp", dtype=dtype(value.dtype), shape=ShapeAttr(value.shape))
    run("AssignVariableOp", made, value)
    return made


def read(made: Any) -> Any:
    return run("ReadVariableOp", made, dtype=FLOAT).tolist()


def test_a_variable_holds_what_it_was_given() -> None:
    made = run("VarHandleOp", dtype=FLOAT, shape=ShapeAttr((3, 2)))
    assert not run("VarIsInitializedOp", made)
    with pytest.raises(NodeError, match="the variable was never given a value"):
        read(made)
    run("AssignVariableOp", made, X)
    before = run("ReadVariableOp", made)
    run("AssignAddVariableOp", made, X)
    run("AssignSubVariableOp", made, np.ones_like(X))
    assert read(made) == (2 * X - 1).tolist()
    assert before.tolist() == X.tolist()
    assert run("VariableShape", made, out_type=INT64).tolist() == [3, 2]
    assert run("VarIsInitializedOp", made)
    assert run("_ReadVariablesOp", made, made, N=2)[1].shape == (3, 2)
    run("DestroyResourceOp", made)
    run("DisableCopyOnRead", made)
    assert not run("VarIsInitializedOp", made)


def test_a_variable_takes_what_fits() -> None:
    made = variable()
    with pytest.raises(ShapeError, match="a variable of float cannot hold int32"):
        run("AssignVariableOp", made, ROWS)
    with pytest.raises(ShapeError, match=r"\[2\] does not fit \[3,2\]"):
        run("Assign", made, X[0])
    with pytest.raises(ShapeError, match="differs from the variable's"):
        run("AssignAdd", made, X[:1])
    run("Assign", made, X[0], validate_shape=False)
    assert read(run("AssignSub", made, X[0])) == [0, 0]


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("Update", [1, 1]),
        ("Add", [2, 3]),
        ("Sub", [0, 1]),
        ("Mul", [1, 2]),
        ("Div", [1, 2]),
        ("Max", [1, 2]),
        ("Min", [1, 1]),
    ],
)
def test_rows_are_changed(name: str, first: list[float]) -> None:
    made = variable()
    run(f"ResourceScatter{name}", made, ROWS, PAIR)
    assert read(made)[:2] == [first, [3, 4]]
    assert read(run(f"Scatter{name}", variable(), ROWS, PAIR)) == read(made)
    with pytest.raises(ShapeError, match=r"index \[3\] is outside an axis of 3"):
        run(f"ResourceScatter{name}", made, ROWS + 1, PAIR)
    with pytest.raises(ShapeError, match="updates have shape"):
        run(f"ResourceScatter{name}", made, ROWS, PAIR[:1])


def test_whole_numbers_are_divided_towards_zero() -> None:
    made = variable(np.int32([7, -7]))
    run("ResourceScatterDiv", made, np.array([0, 1]), np.int32([2, 2]))
    assert read(made) == [3, -3]


@pytest.mark.parametrize(("name", "value"), [("Update", 9), ("Add", 13), ("Sub", -5), ("Max", 9), ("Min", 4)])
def test_places_are_changed(name: str, value: float) -> None:
    made = variable()
    run(f"ResourceScatterNd{name}", made, np.array([[1, 1]]), np.float32([9]))
    assert read(made)[1] == [3, value]
    assert read(run(f"ScatterNd{name}", variable(), np.array([[1, 1]]), np.float32([9]))) == read(made)


def test_parts_of_variables() -> None:
    made = variable()
    assert run("ResourceGather", made, ROWS).tolist() == [[1, 2], [5, 6]]
    assert run("ResourceGather", made, np.array([[1], [0], [1]]), batch_dims=1).tolist() == [
        [2],
        [5 - 2],
        [6],
    ]
    assert run("ResourceGatherNd", made, np.array([[2, 0]])).tolist() == [5]
    one = np.array([1])
    run("ResourceStridedSliceAssign", made, one, one + 1, one, np.float32([8, 9]), shrink_axis_mask=1)
    assert read(made) == [[1, 2], [8, 9], [5, 6]]
    sliced = run("StridedSliceAssign", variable(), one, one + 1, one, np.float32([8, 9]), shrink_axis_mask=1)
    assert read(sliced) == read(made)


def test_counting_and_temporary_variables() -> None:
    made = variable(np.array(1))
    assert [int(run("CountUpTo", made, limit=3)) for _ in range(2)] == [1, 2]
    with pytest.raises(ShapeError, match="the count reached its limit of 3"):
        run("CountUpTo", made, limit=3)
    scratch = run("TemporaryVariable", dtype=FLOAT, shape=ShapeAttr((2,)))
    run("AssignAdd", scratch, np.float32([1, 2]))
    assert run("DestroyTemporaryVariable", scratch, var_name="s").tolist() == [1, 2]


KINDS = {"key_dtype": STRING, "value_dtype": INT64}
KEYS, VALUES = text(b"a", b"b"), np.array([1, 2])


def test_tables_that_change() -> None:
    for kind in ("MutableHashTableV2", "AnonymousMutableHashTable"):
        table = run(kind, **KINDS)
        assert run("LookupTableSizeV2", table) == 0
        run("LookupTableInsertV2", table, KEYS, VALUES)
        run("LookupTableInsertV2", table, text(b"b"), np.array([7]))
        assert run("LookupTableFindV2", table, text(b"b", b"?"), np.int64(-1)).tolist() == [7, -1]
        keys, values = run("LookupTableExportV2", table, Tkeys=STRING, Tvalues=INT64)
        assert (keys.tolist(), values.tolist()) == ([b"a", b"b"], [1, 7])
        run("LookupTableRemoveV2", table, text(b"a", b"?"))
        run("LookupTableImportV2", table, keys[:1], values[:1])
        assert run("LookupTableFindV2", table, KEYS, np.array([5, 6])).tolist() == [1, 6]
        with pytest.raises(ShapeError, match="the table has keys of string, not int64"):
            run("LookupTableFindV2", table, VALUES, np.int64(0))


def test_tables_of_vectors() -> None:
    kinds = {"key_dtype": INT64, "value_dtype": FLOAT, "value_shape": ShapeAttr((2,))}
    for kind in ("MutableHashTableOfTensorsV2", "AnonymousMutableHashTableOfTensors"):
        table = run(kind, **kinds)
        run("LookupTableInsertV2", table, VALUES, X[:2])
        found = run("LookupTableFindV2", table, np.array([[2], [3]]), np.float32([0, 0]))
        assert found.tolist() == [[[3, 4]], [[0, 0]]]
    for kind in ("MutableDenseHashTableV2", "AnonymousMutableDenseHashTable"):
        table = run(kind, np.array([0, 0]), np.array([0, -1]), **kinds)
        run("LookupTableInsertV2", table, np.array([[1, 2], [3, 4]]), X[:2])
        assert run("LookupTableFindV2", table, np.array([[3, 4]]), np.float32([0, 0])).tolist() == [[3, 4]]
        assert run("LookupTableExportV2", table, Tkeys=INT64, Tvalues=FLOAT)[0].tolist() == [[1, 2], [3, 4]]


def test_tables_that_are_filled_once() -> None:
    for kind in ("HashTableV2", "AnonymousHashTable"):
        table = run(kind, **KINDS)
        with pytest.raises(ShapeError, match="nothing was put into the table"):
            run("LookupTableFindV2", table, KEYS, np.int64(0))
        run("InitializeTableV2", table, KEYS, VALUES)
        assert run("LookupTableSizeV2", table) == 2
    with pytest.raises(ShapeError, match="the key b'a' has two values"):
        run("InitializeTableV2", run("HashTableV2", **KINDS), text(b"a", b"a"), VALUES)


@pytest.mark.parametrize(
    ("places", "attrs", "expected"),
    [
        ((-2, -1), {}, {b"one\t1": 0, b"two\t2": 1, b"": 2}),
        ((0, 1), {"vocab_size": 2}, {b"one": 1, b"two": 2}),
        ((-2, -1), {"offset": 1, "vocab_size": 1}, {b"two\t2": 0}),
    ],
)
def test_tables_from_files(tmp_path: Path, places: tuple[int, int], attrs: Any, expected: Any) -> None:
    (tmp_path / "words.txt").write_bytes(b"one\t1\r\ntwo\t2\n\n")
    table = run("HashTableV2", **KINDS)
    table.folder = str(tmp_path)
    name = np.array(b"/somewhere/else/words.txt", object)
    run("InitializeTableFromTextFileV2", table, name, key_index=places[0], value_index=places[1], **attrs)
    assert {k: int(v) for k, v in table.items.items()} == expected


def test_files_outside_the_folder_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("x")
    (tmp_path / "model").mkdir()
    table = run("HashTableV2", **KINDS)
    table.folder = str(tmp_path / "model")
    for name in ("../secret.txt", str(tmp_path / "secret.txt"), "absent.txt"):
        with pytest.raises(FormatError, match=r"is not in .*model") as caught:
            run(
                "InitializeTableFromTextFileV2",
                table,
                np.array(name.encode(), object),
                key_index=-2,
                value_index=-1,
            )
        assert "beside the model" in caught.value.hint


def test_stacks() -> None:
    for stack in (run("StackV2", 1), run("Stack")):
        assert run("StackPushV2", stack, X).shape == (3, 2)
        np.testing.assert_array_equal(run("StackPopV2", stack), X)
        with pytest.raises(ShapeError, match="an empty stack"):
            run("StackPopV2", stack)
        run("StackCloseV2", stack)
    full = run("StackV2", 0)
    with pytest.raises(ShapeError, match="full with 0 items"):
        run("StackPushV2", full, X)


def test_queues() -> None:
    queue = run("FIFOQueueV2", component_types=(FLOAT, INT32), capacity=3)
    run("QueueEnqueueV2", queue, X[0], np.int32(7))
    run("QueueEnqueueManyV2", queue, X[1:], np.int32([8, 9]))
    assert run("QueueSizeV2", queue) == 3
    with pytest.raises(NodeError, match="the queue is full with 3 items"):
        run("QueueEnqueueV2", queue, X[0], np.int32(7))
    assert run("QueueDequeueV2", queue)[1] == 7
    with pytest.raises(NodeError, match="has 2 items, 5 are asked for"):
        run("QueueDequeueManyV2", queue, 5)
    run("QueueCloseV2", queue)
    assert run("QueueIsClosedV2", queue)
    assert run("QueueDequeueUpToV2", queue, 5)[0].tolist() == X[1:].tolist()
    with pytest.raises(NodeError, match="the queue is empty") as caught:
        run("QueueDequeueV2", queue)
    assert "feed what comes out of it" in caught.value.hint
    with pytest.raises(ShapeError, match="the queue is closed"):
        run("QueueEnqueueV2", queue, X[0], np.int32(7))


def test_queues_of_other_kinds() -> None:
    padded = run("PaddingFIFOQueueV2", component_types=(FLOAT,), shapes=(ShapeAttr((None,)),))
    run("QueueEnqueueV2", padded, np.float32([1]))
    run("QueueEnqueueV2", padded, np.float32([2, 3]))
    assert run("QueueDequeueManyV2", padded, 2).tolist() == [[1, 0], [2, 3]]
    ordered = run("PriorityQueueV2", component_types=(FLOAT,), shapes=(ShapeAttr(()),))
    run("QueueEnqueueManyV2", ordered, np.array([5, 2]), np.float32([50, 20]))
    assert run("QueueDequeueV2", ordered)[1] == 20
    shuffled = run("RandomShuffleQueueV2", component_types=(FLOAT,), seed=1)
    run("QueueEnqueueManyV2", shuffled, np.float32([1, 2, 3]))
    assert sorted(run("QueueDequeueManyV2", shuffled, 3).tolist()) == [1, 2, 3]


def test_optional_values() -> None:
    some, none = run("OptionalFromValue", X, ROWS), run("OptionalNone")
    assert run("OptionalHasValue", some)
    assert not run("OptionalHasValue", none)
    assert run("OptionalGetValue", some)[1].tolist() == ROWS.tolist()
    with pytest.raises(ShapeError, match="the optional value is missing"):
        run("OptionalGetValue", none)


def test_maps() -> None:
    empty = run("EmptyTensorMap")
    one = run("TensorMapInsert", empty, np.int32(3), X)
    assert [int(run("TensorMapSize", m)) for m in (empty, one)] == [0, 1]
    assert run("TensorMapHasKey", one, np.int32(3))
    np.testing.assert_array_equal(run("TensorMapLookup", one, np.int32(3)), X)
    assert run("TensorMapStackKeys", one, key_dtype=INT32).tolist() == [3]
    assert run("TensorMapSize", run("TensorMapErase", one, np.int32(3))) == 0
    with pytest.raises(ShapeError, match="the map has no such key"):
        run("TensorMapLookup", empty, np.int32(3))


def test_ragged_elements() -> None:
    splits, values = np.array([0, 2, 2, 3]), np.float32([1, 2, 3])
    whole = run("RaggedTensorToVariant", splits, values, RAGGED_RANK=1, batched_input=False)
    found = run("RaggedTensorFromVariant", whole, input_ragged_rank=1, output_ragged_rank=1, Tvalues=FLOAT)
    assert [a.tolist() for a in found] == [splits.tolist(), values.tolist()]
    rows = run("RaggedTensorToVariant", splits, values, RAGGED_RANK=1, batched_input=True)
    assert rows.shape == (3,)
    found = run("RaggedTensorFromVariant", rows, input_ragged_rank=-1, output_ragged_rank=1, Tvalues=FLOAT)
    assert [a.tolist() for a in found] == [splits.tolist(), values.tolist()]
    with pytest.raises(ShapeError, match="an element has not 1 levels"):
        run("RaggedTensorFromVariant", rows, input_ragged_rank=1, output_ragged_rank=2, Tvalues=FLOAT)


class Sketch:
    """A graph in the making."""

    def __init__(self) -> None:
        self.graph = thinflow.Graph()

    def add(self, op: str, name: str, *inputs: Any, after: Any = None, **attrs: Any) -> Any:
        node = self.graph.add(op, list(inputs), name, attrs=attrs)
        if after is not None:
            node.add_control_input(after.node)
        return node.output()

    def const(self, name: str, value: Any) -> Any:
        array = value if isinstance(value, np.ndarray) else np.array(value)
        return self.add("Const", name, value=Tensor.from_array(array), dtype=dtype(array.dtype))


def counter(reference: bool) -> thinflow.Graph:
    """`start` sets a variable to 1, `step` adds 1 to it, `value` reads it."""
    s, shape = Sketch(), ShapeAttr(())
    one = s.const("one", np.float32(1))
    made = s.add("VariableV2" if reference else "VarHandleOp", "v", dtype=FLOAT, shape=shape)
    if reference:
        s.add("Identity", "value", made, T=FLOAT)
        s.add("Assign", "start", made, one, T=FLOAT)
        s.add("AssignAdd", "step", made, one, T=FLOAT)
        return s.graph
    s.add("ReadVariableOp", "value", made, dtype=FLOAT)
    s.add("Identity", "start", one, after=s.add("AssignVariableOp", "a", made, one, dtype=FLOAT), T=FLOAT)
    s.add("Identity", "step", one, after=s.add("AssignAddVariableOp", "b", made, one, dtype=FLOAT), T=FLOAT)
    return s.graph


@pytest.mark.parametrize("reference", [False, True])
@pytest.mark.parametrize("engine", ["reference", "auto"])
def test_sessions_keep_their_variables(reference: bool, engine: str) -> None:
    graph = counter(reference)
    session, other = thinflow.Session(graph, engine=engine), thinflow.Session(graph, engine=engine)
    with pytest.raises(NodeError, match=r"node 'v' .*was never given a value") as caught:
        session.run("value")
    assert "run its initializer first" in caught.value.hint
    session.run("start")
    session.run("step")
    session.run("step")
    assert session.run("value")[0] == 3
    with pytest.raises(NodeError, match="was never given a value"):
        other.run("value")


def test_a_table_fills_itself_from_a_file_beside_the_model(tmp_path: Path) -> None:
    s = Sketch()
    table = s.add("HashTableV2", "table", **KINDS, shared_name=b"t")
    name = s.const("name", np.array(b"/train/vocab.txt", object))
    s.add(
        "InitializeTableFromTextFileV2",
        "init",
        table,
        name,
        key_index=-2,
        value_index=-1,
        vocab_size=-1,
        delimiter=b"\t",
    )
    keys = s.add("Placeholder", "keys", dtype=STRING, shape=ShapeAttr((None,)))
    default = s.const("default", np.int64(-1))
    y = s.add("LookupTableFindV2", "y", table, keys, default, Tin=STRING, Tout=INT64)
    s.graph.inputs, s.graph.outputs = [keys], [y]
    thinflow.save(s.graph, tmp_path / "m.pb")
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "vocab.txt").write_text("cat\ndog\n")
    session = thinflow.Session(thinflow.load(tmp_path / "m.pb"))
    assert session.run(["y"], {"keys": text(b"dog", b"cow")})[0].tolist() == [1, -1]
    (tmp_path / "assets" / "vocab.txt").unlink()
    with pytest.raises((GraphError, FormatError), match=r"'/train/vocab\.txt' is not in"):
        thinflow.Session(thinflow.load(tmp_path / "m.pb")).run(["y"], {"keys": text(b"dog")})


def test_specs() -> None:
    def infer(name: str, **attrs: Any) -> Any:
        return registry.call_infer(registry.get(name), (), attrs)[0]

    shape: Any = ShapeAttr(())
    assert infer("VarHandleOp", dtype=FLOAT, shape=shape).dtype is RESOURCE
    assert infer("VariableV2", dtype=FLOAT, shape=shape).shape == ()
    assert infer("Variable", dtype=FLOAT, shape=shape).shape is None


def test_a_table_is_filled_by_the_function_that_initializes_it() -> None:
    fill = function(
        "fill",
        {"t": RESOURCE, "k": INT32, "v": INT32},
        [node("put", "LookupTableImportV2", "t", "k", "v", Tin=INT32, Tout=INT32)],
        {},
        "control_ret { key: 'put' value: 'put' }",
    )
    graph = graph_of(
        [
            node("t", "HashTableV2", key_dtype=INT32, value_dtype=INT32),
            constant("k", [1, 2]),
            constant("v", [10, 20]),
            node("call", "StatefulPartitionedCall", "t", "k", "v", f="@fill"),
            constant("none", -1),
            node("y", "LookupTableFindV2", "t", "k", "none", Tin=INT32, Tout=INT32),
        ],
        [fill],
    )
    assert thinflow.Session(graph, engine="reference").run("y")[0].tolist() == [10, 20]


def test_a_constant_may_stand_for_a_variable() -> None:
    x = np.array([[1, 2], [3, 4], [5, 6]])
    assert run("ResourceGather", x, np.array([2, 0])).tolist() == [[5, 6], [1, 2]]
    assert run("ResourceGatherNd", x, np.array([[1, 1]])).tolist() == [4]
