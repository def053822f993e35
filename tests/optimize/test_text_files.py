"""Models that take or give text become whole files where tables are all they do with it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from thinflow.api.converting import convert_verified
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import FLOAT, INT32, INT64, STRING, DType

WORDS = np.array([b"one", b"two", "drei \u00e4".encode()], object)
PLACES = np.array([2, 0, 1], np.int64)
SUFFIXES = (".tflite", ".onnx")


def _fed(graph: Graph, kind: DType, shape: tuple[int | None, ...]) -> Value:
    node = graph.add("Placeholder", name="x", attrs={"dtype": kind, "shape": ShapeAttr(shape)})
    graph.inputs = [node.output()]
    return node.output()


def _looked_up(graph: Graph, keys: np.ndarray, values: np.ndarray, x: Value, default: object) -> Value:
    """A table as a frozen graph has it: whoever looks something up waits for what fills it."""
    kinds = [STRING if a.dtype.hasobject else INT64 for a in (keys, values)]
    table = graph.add(
        "HashTableV2", name="table", attrs=dict(zip(("key_dtype", "value_dtype"), kinds, strict=True))
    )
    held = [graph.constant(a, name) for a, name in ((keys, "keys"), (values, "values"))]
    types = dict(zip(("Tin", "Tout"), kinds, strict=True))
    fill = graph.add("LookupTableImportV2", [table.output(), *held], "fill", attrs=types)
    other = graph.constant(np.array(default, values.dtype), "default")
    found = graph.add("LookupTableFindV2", [table.output(), x, other], "found", attrs=types)
    found.add_control_input(fill)
    return found.output()


def _rows(graph: Graph, ids: Value) -> Value:
    """An embedding and a dense layer."""
    rng = np.random.default_rng(0)
    table, weights = (
        graph.constant(rng.normal(0, 1, s).astype(np.float32), n)
        for s, n in (((4, 6), "rows"), ((6, 3), "w"))
    )
    axis = graph.constant(np.int32(0), "axis")
    types = {"Tparams": FLOAT, "Tindices": INT64, "Taxis": INT32}
    chosen = graph.add("GatherV2", [table, ids, axis], "chosen", attrs=types).output()
    y = graph.add("MatMul", [chosen, weights], "y", attrs={"T": FLOAT}).output()
    graph.outputs = [y]
    return y


def classifier() -> Graph:
    """Text [n] -> float [n,3], by a table."""
    graph = Graph()
    _rows(graph, _looked_up(graph, WORDS, PLACES, _fed(graph, STRING, (None,)), 3))
    return graph


def labels() -> Graph:
    """Numbers int64 [n] -> their names."""
    graph = Graph()
    x = _fed(graph, INT64, (None,))
    graph.outputs = [_looked_up(graph, PLACES, WORDS, x, b"none")]
    return graph


def hashed() -> Graph:
    """Text [n] -> float [n,3], by its hash, which neither runtime has."""
    graph = Graph()
    x = _fed(graph, STRING, (None,))
    _rows(graph, graph.add("StringToHashBucketFast", [x], "hash", attrs={"num_buckets": 4}).output())
    return graph


TEXTS = np.array([b"two", b"", "drei \u00e4".encode(), b"Two"], object)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_table_of_words_is_part_of_the_file(suffix: str, tmp_path: Path) -> None:
    graph = classifier()
    made = convert_verified(graph, tmp_path / f"m{suffix}")
    assert made.coverage is not None
    assert made.coverage.kind == "whole"
    session = thinflow.Session(made.path)
    for feed in (TEXTS, TEXTS[:1]):
        (y,) = session.run(None, {"x": feed})
        (wanted,) = thinflow.Session(graph, engine="reference").run(None, {"x": feed})
        np.testing.assert_allclose(y, wanted, rtol=1e-5)


def test_onnx_own_table_is_no_custom_op(tmp_path: Path) -> None:
    made = convert_verified(classifier(), tmp_path / "m.onnx")
    summary = thinflow.summarize(made.path)
    assert summary.ops["onnx.ai.onnx.ml.LabelEncoder"] == 1
    assert summary.unknown_ops == {}


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_names_are_given_out(suffix: str, tmp_path: Path) -> None:
    made = convert_verified(labels(), tmp_path / f"m{suffix}")
    assert made.coverage is not None
    assert made.coverage.kind == "whole"
    (y,) = thinflow.Session(made.path).run(None, {"x": np.array([1, 7, 2])})
    assert y.tolist() == [WORDS[2], b"none", WORDS[0]]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_else_is_done_with_text_stays_the_apps(suffix: str, tmp_path: Path) -> None:
    made = convert_verified(hashed(), tmp_path / f"m{suffix}")
    assert made.coverage is not None
    assert made.coverage.note == "the app prepares the text and feeds hash"


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_words_are_laid_out_by_the_app(suffix: str, tmp_path: Path) -> None:
    """It feeds one tensor of numbers, not the parts of a ragged one."""
    graph = Graph()
    x = _fed(graph, STRING, (None,))
    split = graph.add(
        "StringSplitV2", [x, graph.constant(np.array(b" ", object), "space")], "split", attrs={}
    )
    ids = graph.add("StringToHashBucketFast", [split.output(1)], "hash", attrs={"num_buckets": 4}).output()
    rows = graph.add(
        "GatherV2",
        [split.output(0), graph.constant(np.int32(0), "first"), graph.constant(np.int32(1), "one")],
        "of",
        attrs={"Tparams": INT64, "Tindices": INT32, "Taxis": INT32},
    ).output()
    count = graph.add("Size", [x], "count", attrs={"T": STRING, "out_type": INT64}).output()
    sizes, zero = graph.constant(np.array([-1, 2]), "sizes"), graph.constant(np.int64(0), "zero")
    types = {"T": INT64, "Tindex": INT64, "Tshape": INT64, "num_row_partition_tensors": 2}
    kinds = {"row_partition_types": ["FIRST_DIM_SIZE", "VALUE_ROWIDS"]}
    laid = graph.add(
        "RaggedTensorToTensor", [sizes, ids, zero, count, rows], "laid", attrs={**types, **kinds}
    )
    flat = graph.add("Reshape", [laid.output(), graph.constant(np.array([-1]), "flat")], "in_a_row").output()
    _rows(graph, flat)
    made = convert_verified(graph, tmp_path / f"m{suffix}")
    assert made.coverage is not None
    assert made.coverage.starts_at == ("laid",)
