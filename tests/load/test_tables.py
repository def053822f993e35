"""Lookup tables: filled inside the graph, from files, from checkpoints."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.library import constant, graph_of, node
from tests.load.builders import (
    meta_text,
    placeholder,
    read,
    text_constant,
    variable,
    write_model,
    write_values,
)
from thinflow.api import freeze_with_report
from thinflow.errors import FormatError, ThinflowError
from thinflow.ir.graph import Node
from thinflow.ir.types import FLOAT, INT64, RESOURCE, STRING
from thinflow.load.tables import fill, read_text_file

SIGNATURE = {"serving_default": ({"key": "key:0"}, {"found": "found:0"})}
KEYS = {"key": np.array([b"b", b"z"], object)}


def table(op: str = "HashTableV2", **attrs: object) -> list[str]:
    return [
        placeholder("key", -1, dtype=STRING),
        node("table", op, key_dtype=STRING, value_dtype=INT64, **attrs),
        node("default", "Const", dtype=INT64, value="tensor { dtype: 9 tensor_shape {} int64_val: -1 }"),
        node("found", "LookupTableFindV2", "table", "key", "default", Tin=STRING, Tout=INT64),
    ]


def initializer(path: str, **attrs: int) -> list[str]:
    name = f"tensor {{ dtype: 7 tensor_shape {{}} string_val: '{path}' }}"
    return [
        node("file", "Const", dtype=STRING, value=name),
        node("init", "InitializeTableFromTextFileV2", "table", "file", **{
            "key_index": -2, "value_index": -1, "vocab_size": -1, **attrs}),
    ]  # fmt: skip


MAIN_OP = "collection_def { key: 'saved_model_main_op' value { node_list { value: 'init' } } }"


def test_a_table_that_an_operation_fills(tmp_path: Path) -> None:
    nodes = [
        *table(), text_constant("keys", "a", "b"),
        node("values", "Const", dtype=INT64,
             value="tensor { dtype: 9 tensor_shape { dim { size: 2 } } int64_val: 7 int64_val: 8 }"),
        node("init", "InitializeTableV2", "table", "keys", "values", Tkey=STRING, Tval=INT64),
    ]  # fmt: skip
    folder = write_model(tmp_path / "m", meta_text(nodes, signatures=SIGNATURE, more=MAIN_OP))
    graph = thinflow.load(folder)
    assert [n.name for n in graph.node("found").control_inputs] == ["init"]
    session = thinflow.Session(graph, engine="reference")
    for _ in range(2):
        assert session.run(["found"], KEYS)[0].tolist() == [8, -1]


@pytest.mark.parametrize("kind", ["asset_file_def", "collection"])
def test_a_table_from_a_file_of_the_model(kind: str, tmp_path: Path) -> None:
    asset = "tensor_info { name: 'file:0' } filename: 'words.txt'"
    if kind == "asset_file_def":
        more = f"asset_file_def {{ {asset} }}"
    else:
        packed = "type_url: 'type.googleapis.com/tensorflow.AssetFileDef'"
        value = r"value: '\n\010\n\006file:0\022\twords.txt'"
        content = f"any_list {{ value {{ {packed} {value} }} }}"
        more = f"collection_def {{ key: 'saved_model_assets' value {{ {content} }} }}"
    nodes = [*table(), *initializer("/where/it/was/words.txt")]
    folder = write_model(tmp_path / "m", meta_text(nodes, signatures=SIGNATURE, more=f"{MAIN_OP} {more}"))
    with pytest.raises(FormatError, match=r"node 'init'.*words\.txt: a table's file cannot be read") as error:
        thinflow.freeze(folder)
    assert error.value.hint == "put it there, or leave the table empty: --allow-missing"
    graph = thinflow.load(folder)  # looking at a model does not need it
    assert graph.node("init").op == "InitializeTableFromTextFileV2"
    with pytest.raises(ThinflowError, match=r"node 'init'.*the table's file .*words\.txt' is not in"):
        thinflow.run(graph, KEYS, engine="reference")
    kept = freeze_with_report(folder, allow_missing=True).notes
    assert any(n.endswith("words.txt: no such file") and n.startswith("the table 'table'") for n in kept)
    (folder / "assets").mkdir()
    (folder / "assets" / "words.txt").write_text("a\nb\n")
    assert thinflow.run(folder, KEYS, engine="reference")["found"].tolist() == [1, -1]


def test_a_table_that_only_the_checkpoint_keeps(tmp_path: Path) -> None:
    nodes = table("MutableHashTableV2")
    kept = {"table-keys": np.array([b"a", b"b"], object), "table-values": np.array([5, 6], np.int64)}
    folder = write_model(tmp_path / "m", meta_text(nodes, signatures=SIGNATURE), values=kept)
    assert thinflow.run(folder, KEYS, engine="reference")["found"].tolist() == [6, -1]


def test_a_table_that_a_saver_restores(tmp_path: Path) -> None:
    nodes = [
        *table("MutableHashTableV2"), text_constant("p", "x"),
        text_constant("names", "words", "numbers"), text_constant("parts", "", ""),
        node("r", "RestoreV2", "p", "names", "parts", dtypes=(STRING, INT64)),
        node("put", "LookupTableImportV2", "table", "r", "r:1", Tin=STRING, Tout=INT64),
    ]  # fmt: skip
    prefix = write_values(
        tmp_path / "c", {"words": np.array([b"b"], object), "numbers": np.array([9], np.int64)}
    )
    frozen = thinflow.freeze(graph_of(nodes), ["found"], checkpoint=prefix)
    assert thinflow.run(frozen, KEYS, ["found"], engine="reference")["found"].tolist() == [9, -1]


def test_a_dense_table(tmp_path: Path) -> None:
    """The checkpoint keeps its slots, empty ones included."""
    number = "tensor {{ dtype: 9 tensor_shape {{}} int64_val: {} }}"
    nodes = [
        placeholder("key", -1, dtype=INT64),
        node("empty", "Const", dtype=INT64, value=number.format(-1)),
        node("gone", "Const", dtype=INT64, value=number.format(-2)),
        node("table", "MutableDenseHashTableV2", "empty", "gone", key_dtype=INT64, value_dtype=FLOAT,
             value_shape="shape { dim { size: 2 } }"),
        constant("default", [0.0, 0.0]),
        node("found", "LookupTableFindV2", "table", "key", "default", Tin=INT64, Tout=FLOAT),
    ]  # fmt: skip
    slots = np.array([[-1], [4], [-2], [3]], np.int64)
    kept = {"table-keys": slots, "table-values": np.arange(8, dtype=np.float32).reshape(4, 2)}
    frozen = thinflow.freeze(graph_of(nodes), ["found"], checkpoint=write_values(tmp_path / "c", kept))
    assert frozen.node("table/keys").tensor.numpy().tolist() == [4, 3]
    found = thinflow.run(frozen, {"key": np.array([3, 4, 7])}, ["found"], engine="reference")["found"]
    assert found.tolist() == [[6, 7], [2, 3], [0, 0]]


@pytest.mark.parametrize(
    "between",
    [
        [node("way", "Identity", "table", T=RESOURCE), node("n", "Identity", "way", T=RESOURCE)],
        [node("n", "Snapshot", "table", T=RESOURCE)],
        [
            node("way", "IdentityN", "key", "table", T=(STRING, RESOURCE)),
            node("n", "Identity", "way:1", T=RESOURCE),
        ],
    ],
)
def test_a_table_behind_ops_that_hand_it_on(between: list[str], tmp_path: Path) -> None:
    """Whoever finds something there waits for the filling."""
    nodes = [
        *table()[:3], *between,
        node("found", "LookupTableFindV2", "n", "key", "default", Tin=STRING, Tout=INT64),
        text_constant("keys", "a", "b"),
        node("values", "Const", dtype=INT64,
             value="tensor { dtype: 9 tensor_shape { dim { size: 2 } } int64_val: 7 int64_val: 8 }"),
        node("init", "InitializeTableV2", "table", "keys", "values", Tkey=STRING, Tval=INT64),
    ]  # fmt: skip
    folder = write_model(tmp_path / "m", meta_text(nodes, signatures=SIGNATURE, more=MAIN_OP))
    graph = thinflow.load(folder)
    assert [n.name for n in graph.node("found").control_inputs] == ["init"]


def test_a_table_that_nothing_fills(tmp_path: Path) -> None:
    from thinflow.api import freeze_with_report

    folder = write_model(tmp_path / "m", meta_text(table(), signatures=SIGNATURE))
    assert freeze_with_report(folder).notes == ["the table 'table' is empty: nothing in the model fills it"]


def filler(**attrs: int) -> Node:
    defaults = {"key_index": -2, "value_index": -1, "vocab_size": -1}
    nodes = [
        node("table", "HashTableV2", key_dtype=STRING, value_dtype=INT64),
        text_constant("f", "x"),
        node("init", "InitializeTableFromTextFileV2", "table", "f", **{**defaults, **attrs}),
    ]
    return graph_of(nodes).node("init")


def test_columns_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_bytes(b"a\t5\nb\t6\nc\t7\n")
    keys, values = read_text_file(path, filler(key_index=0, value_index=1, vocab_size=2))
    assert keys.tolist() == [b"a", b"b"]
    assert values.tolist() == [5, 6]
    keys, values = read_text_file(path, filler(offset=10))
    assert keys.tolist() == [b"a\t5", b"b\t6", b"c\t7"]
    assert values.tolist() == [10, 11, 12]


def test_lines_end_where_tensorflow_ends_them(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_bytes(b"a\rb\r\nc\r\r\nd\x0be\n\x1cf\r")
    keys, _ = read_text_file(path, filler())
    assert keys.tolist() == [b"a\rb", b"c\r", b"d\x0be", b"\x1cf"]
    path.write_bytes(b"a\n\nb\n")
    keys, _ = read_text_file(path, filler(vocab_size=1))
    assert keys.tolist() == [b"a"]


@pytest.mark.parametrize(
    ("content", "options", "problem"),
    [
        (b"a\n", {"key_index": 0, "value_index": 1}, "line 1 has no column 1"),
        (b"a\tb\n", {"key_index": 0, "value_index": 1}, "a column should hold whole numbers"),
        # As TensorFlow 2.21: "empty line found at position", "expected 5 but got 2", "Read less bytes".
        (b"a\n\nb\n", {}, "line 2 is empty"),
        (b"a\n\r\nb\n", {}, "line 2 is empty"),
        (b"a\nb\n", {"vocab_size": 5}, "the table takes 5 lines, the file has 2"),
        (b"", {}, "contents is empty"),
    ],
)
def test_files_that_do_not_fit(content: bytes, options: dict[str, int], problem: str, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_bytes(content)
    with pytest.raises(FormatError, match=problem):
        read_text_file(tmp_path / "t.txt", filler(**options))


def test_a_file_whose_name_is_not_constant() -> None:
    nodes = [
        *table(), placeholder("file", dtype=STRING),
        node("init", "InitializeTableFromTextFileV2", "table", "file", key_index=-2, value_index=-1),
    ]  # fmt: skip
    graph = graph_of(nodes)
    with pytest.raises(FormatError, match="the name of the file with its contents is not constant"):
        fill(graph, graph.node("table"), None)


def test_a_path_that_a_variable_keeps(tmp_path: Path) -> None:
    """As TensorFlow 2 does it: a placeholder for the asset, assigned to a variable, read again."""
    nodes = [
        *table(), placeholder("asset", dtype=STRING), variable("path", dtype=STRING),
        node("assign", "AssignVariableOp", "path", "asset", dtype=STRING),
        node("read", "ReadVariableOp", "path", "^assign", dtype=STRING),
        node("init", "InitializeTableFromTextFileV2", "table", "read", key_index=-2, value_index=-1,
             vocab_size=-1),
    ]  # fmt: skip
    more = f"{MAIN_OP} asset_file_def {{ tensor_info {{ name: 'asset:0' }} filename: 'w.txt' }}"
    folder = write_model(tmp_path / "m", meta_text(nodes, signatures=SIGNATURE, more=more))
    (folder / "assets").mkdir()
    (folder / "assets" / "w.txt").write_text("b\n")
    assert thinflow.run(folder, KEYS, engine="reference")["found"].tolist() == [0, -1]


@pytest.mark.parametrize("name", ["../secret.txt", "/etc/passwd", ""])
def test_files_outside_the_model(name: str, tmp_path: Path) -> None:
    more = f"{MAIN_OP} asset_file_def {{ tensor_info {{ name: 'file:0' }} filename: '{name}' }}"
    nodes = [*table(), *initializer("x")]
    folder = write_model(tmp_path / "m", meta_text(nodes, signatures=SIGNATURE, more=more))
    with pytest.raises(FormatError, match="would lie outside the model's folder\nhint: do not trust"):
        thinflow.load(folder)


def test_a_link_out_of_the_model(tmp_path: Path) -> None:
    more = f"{MAIN_OP} asset_file_def {{ tensor_info {{ name: 'file:0' }} filename: 'w.txt' }}"
    folder = write_model(
        tmp_path / "m", meta_text([*table(), *initializer("x")], signatures=SIGNATURE, more=more)
    )
    (tmp_path / "secret").write_text("b\n")
    (folder / "assets").mkdir()
    (folder / "assets" / "w.txt").symlink_to(tmp_path / "secret")
    with pytest.raises(FormatError, match="is a link out of the model's folder"):
        thinflow.load(folder)


def test_a_bare_graph_keeps_what_fills_its_tables(tmp_path: Path) -> None:
    """A GraphDef does not say what a session runs first; the filling is there all the same."""
    from thinflow.formats.graphdef import save

    nodes = [
        *table(), text_constant("keys", "a", "b"), variable("w", 1), read("r", "w"),
        node("values", "Const", dtype=INT64,
             value="tensor { dtype: 9 tensor_shape { dim { size: 2 } } int64_val: 7 int64_val: 8 }"),
        node("init", "InitializeTableV2", "table", "keys", "values", Tkey=STRING, Tval=INT64),
    ]  # fmt: skip
    save(graph_of(nodes), tmp_path / "g.pb")
    prefix = write_values(tmp_path / "c", {"w": np.ones(1, np.float32)})
    graph = thinflow.load(tmp_path / "g.pb", checkpoint=prefix, inputs=["key"], outputs=["found", "r"])
    assert [n.name for n in graph.node("found").control_inputs] == ["init"]
    assert thinflow.Session(graph, engine="reference").run(["found"], KEYS)[0].tolist() == [8, -1]


@pytest.mark.parametrize("given", ["models/m", "./models/m", "models/m/saved_model.pb"])
def test_a_model_with_a_file_by_a_relative_path(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = f"{MAIN_OP} asset_file_def {{ tensor_info {{ name: 'file:0' }} filename: 'words.txt' }}"
    nodes = [*table(), *initializer("/where/it/was/words.txt")]
    (tmp_path / "models").mkdir()
    folder = write_model(tmp_path / "models" / "m", meta_text(nodes, signatures=SIGNATURE, more=more))
    (folder / "assets").mkdir()
    (folder / "assets" / "words.txt").write_text("a\nb\n")
    monkeypatch.chdir(tmp_path)
    assert thinflow.run(given, KEYS, engine="reference")["found"].tolist() == [1, -1]
    frozen = thinflow.freeze(given)
    graph = thinflow.load(given)
    monkeypatch.chdir("/")  # what was opened before stays what it is
    assert thinflow.run(frozen, KEYS, engine="reference")["found"].tolist() == [1, -1]
    assert thinflow.run(graph, KEYS, engine="reference")["found"].tolist() == [1, -1]
