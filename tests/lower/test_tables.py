"""Lookup tables that never change, in LiteRT's and ONNX's words, against the reference kernels."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.onnx import harness as onnx_harness
from tests.lower.tflite import harness as tflite_harness
from tests.transforms.golden import parse_graph
from thinflow.analysis.tables import content_of
from thinflow.interpreter import Plan
from thinflow.ir.types import STRING, dtype
from thinflow.lower.onnx.convert import unsupported as onnx_unsupported
from thinflow.lower.tflite.convert import unsupported as tflite_unsupported

TARGETS = {"tflite": tflite_harness, "onnx": onnx_harness}
WORDS = np.array([b"one", b"two", "drei \u00e4".encode(), b""], object)
NUMBERS = np.array([7, 5, -3, 2], np.int64)
FAR = np.array([7, 2**40, -(2**50), 2], np.int64)


@pytest.fixture(params=sorted(TARGETS))
def target(request):
    return TARGETS[request.param]


def kind(array):
    return STRING if array.dtype.kind in "OS" else dtype(array.dtype)


def table_of(net, keys, values, op="HashTableV2", **attrs):
    """A table and what fills it."""
    types = {"key_dtype": kind(keys), "value_dtype": kind(values)}
    table = net.graph.add(op, [], "table", attrs={**types, **attrs}).output()
    types = {"Tin": kind(keys), "Tout": kind(values)}
    filler = net.op("LookupTableImportV2", table, keys, values, name="fill", **types).node
    return table, filler


def found(net, table, filler, keys, default, element):
    node = net.op(
        "LookupTableFindV2", table, keys, default, name="found", Tin=filler.get("Tin"), Tout=element
    ).node
    node.add_control_input(filler)
    return node.output()


def check(harness, net, y, feeds=None):
    """The runtime and the reference agree, texts as bytes."""
    feeds = feeds or net.feeds
    lowered = net.lower(y)
    run = (
        harness.run_litert
        if hasattr(harness, "run_litert") and harness is tflite_harness
        else harness.run_onnx
    )
    given = {v.name: a for v, a in feeds.items()}
    if harness is onnx_harness:
        given = {k: _texts(a) for k, a in given.items()}
    actual = run(lowered, given)[y.name]
    (expected,) = Plan(net.graph, [y], list(feeds)).run(feeds)
    expected = np.asarray(expected)
    assert actual.shape == expected.shape
    plain = [t.encode() if isinstance(t, str) else t for t in actual.ravel().tolist()]
    assert plain == expected.ravel().tolist()
    return lowered


def _texts(array):
    if array.dtype.kind != "O":
        return array
    found = np.empty(array.shape, object)
    found[...] = np.array([t.decode() for t in array.ravel()], object).reshape(array.shape)
    return found


ASKED = np.array([b"two", b"none", b"", "drei \u00e4".encode(), b"one", b"One"], object)
VALUES = {
    "int64": np.array([2**40, 5, -3, 2], np.int64),
    "int32": np.array([7, 5, -3, 2], np.int32),
    "float": np.array([7.5, 5, -3, 2], np.float32),
}


@pytest.mark.parametrize("shape", [(None,), (None, 2), (3, 2)], ids=str)
@pytest.mark.parametrize("name", sorted(VALUES))
def test_from_texts_to_numbers(target, name, shape):
    net = target.Net()
    values = VALUES[name]
    table, filler = table_of(net, WORDS, values)
    keys = net.feed(ASKED.reshape([-1 if n is None else n for n in shape]), "x", shape)
    check(target, net, found(net, table, filler, keys, values.dtype.type(99), kind(values)))


def test_from_numbers_to_texts(target):
    net = target.Net()
    table, filler = table_of(net, NUMBERS, WORDS)
    keys = net.feed(np.array([[5, 6], [2, 7], [-3, 2**33]]), "x", (None, 2))
    check(target, net, found(net, table, filler, keys, np.array(b"?", object), STRING))


@pytest.mark.parametrize("known", [NUMBERS, FAR], ids=["near", "far"])
@pytest.mark.parametrize("name", sorted(VALUES))
def test_from_numbers_to_numbers(target, name, known):
    net = target.Net()
    values = VALUES[name]
    table, filler = table_of(net, known, values)
    asked = np.array([[5, 6], [2, 7], [-3, 2**40], [2**62, -(2**62)], [-(2**50), 2**32 + 7]])
    keys = net.feed(asked, "x", (None, 2))
    y = found(net, table, filler, keys, values.dtype.type(99), kind(values))
    check(target, net, y)
    check(target, net, y, {keys: np.array([[7, 7]])})


def test_two_readers_share_one_table():
    net = tflite_harness.Net()
    table, filler = table_of(net, WORDS, NUMBERS)
    keys = net.feed(ASKED, "x", (None,))
    both = [found(net, table, filler, keys, np.int64(n), kind(NUMBERS)) for n in (1, 2)]
    lowered = check(tflite_harness, net, net.op("AddV2", *both))
    codes = [[o.code for o in s.operators] for s in lowered.program.subgraphs]
    assert codes[0].index("CALL_ONCE") == 0
    assert codes[0].count("CALL_ONCE") == 1
    assert codes[1:] == [["HASHTABLE", "HASHTABLE_IMPORT"]]


def test_a_mutable_table_that_nobody_changes_is_as_good(target):
    net = target.Net()
    table, filler = table_of(net, WORDS, NUMBERS, op="MutableHashTableV2")
    keys = net.feed(ASKED, "x", (None,))
    check(target, net, found(net, table, filler, keys, np.int64(0), kind(NUMBERS)))


def test_the_number_of_keys(target):
    net = target.Net()
    table, filler = table_of(net, WORDS, NUMBERS)
    size = net.op("LookupTableSizeV2", table).node
    size.add_control_input(filler)
    x = net.feed(np.array([1, 2]), "x", (None,))
    check(target, net, net.op("AddV2", x, size.output()))


def refusal(harness, net, y):
    """Why the target has no form of what makes y."""
    why = onnx_unsupported if harness is onnx_harness else tflite_unsupported
    return why(net.graph, [y.node])[y.node]


def _inserting(net):
    table, filler = table_of(net, WORDS, NUMBERS, op="MutableHashTableV2")
    net.op("LookupTableInsertV2", table, WORDS, NUMBERS, name="more")
    return table, filler


def _filled_twice(net):
    table, filler = table_of(net, WORDS, NUMBERS)
    net.op("LookupTableImportV2", table, WORDS, NUMBERS, name="again")
    return table, filler


def _shared(net):
    net.graph.add("HashTableV2", [], "other", attrs={"shared_name": b"words"})
    return table_of(net, WORDS, NUMBERS, shared_name=b"words")


def _computed(net):
    values = net.op("AddV2", net.feed(NUMBERS, "more"), np.int64(1))
    table = net.graph.add("HashTableV2", [], "table").output()
    types = {"Tin": STRING, "Tout": kind(NUMBERS)}
    return table, net.op("LookupTableImportV2", table, WORDS, values, name="fill", **types).node


def _empty(net):
    return table_of(net, WORDS[:0], NUMBERS[:0])


def test_a_table_handed_on_in_a_circle_is_not_known():
    """As a damaged file may have it."""
    lines = "a = Identity(b)\nb = Identity(a)\nx = Placeholder() {dtype=int64}\n"
    graph = parse_graph(lines + "f = LookupTableFindV2(a, x, x)\ninputs: x\noutputs: f")
    assert content_of(graph.node("f")) == "it reads no table"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (_inserting, "also given to 'more' (LookupTableInsertV2)"),
        (_filled_twice, "2 nodes fill the table"),
        (_shared, "another node has the same table"),
        (_computed, "filled with what is computed"),
        (_empty, "the table is empty"),
    ],
)
def test_what_a_table_holds_must_be_known(target, make, message):
    net = target.Net()
    table, filler = make(net)
    keys = net.feed(ASKED, "x", (None,))
    assert message in refusal(target, net, found(net, table, filler, keys, np.int64(0), kind(NUMBERS)))


def test_a_mutable_table_may_be_read_before_it_is_filled(target):
    net = target.Net()
    table, _ = table_of(net, WORDS, NUMBERS, op="MutableHashTableV2")
    y = net.op("LookupTableFindV2", table, net.feed(ASKED, "x", (None,)), np.int64(0), Tout=kind(NUMBERS))
    assert "does not wait until the table is filled" in refusal(target, net, y)


def test_texts_that_are_not_utf8_have_no_onnx_form():
    net = onnx_harness.Net()
    table, filler = table_of(net, np.array([b"\xff"], object), NUMBERS[:1])
    keys = net.feed(ASKED, "x", (None,))
    y = found(net, table, filler, keys, np.int64(0), kind(NUMBERS))
    assert "not UTF-8" in refusal(onnx_harness, net, y)


def test_from_texts_to_texts():
    """LiteRT's tables are between int64 and text only."""
    for harness in (onnx_harness, tflite_harness):
        net = harness.Net()
        table, filler = table_of(net, WORDS, WORDS[::-1])
        y = found(net, table, filler, net.feed(ASKED, "x", (None,)), np.array(b"?", object), STRING)
        if harness is onnx_harness:
            check(harness, net, y)
            continue
        assert "no tables from string to string" in refusal(harness, net, y)


def test_many_keys_far_apart_are_not_searched_by_litert():
    net = tflite_harness.Net()
    keys = np.arange(2000) * 2**30
    table, filler = table_of(net, keys, keys)
    y = found(net, table, filler, net.feed(NUMBERS, "x", (None,)), np.int64(0), kind(keys))
    assert "2000 keys that far from each other" in refusal(tflite_harness, net, y)
