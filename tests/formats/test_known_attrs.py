"""Attributes that many nodes spell alike are decoded once, and never mixed up."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from thinflow.formats import graphdef
from thinflow.formats._node_reader import MAX_BYTES, MAX_KNOWN, KnownAttrs, tail
from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Node
from thinflow.ir.types import FLOAT
from thinflow.wire import protos


def node_bytes(name: str, **attrs: Any) -> bytes:
    node = protos.message("NodeDef")()
    node.name, node.op = name, "Op"
    node.input.extend(["a", "b:1"])
    for key, value in attrs.items():
        node.attr[key].i = value
    return protos.serialize(node)


def graph_of(*nodes: bytes) -> bytes:
    message = protos.message("GraphDef")()
    for node in nodes:
        message.node.add().MergeFromString(node)
    return protos.serialize(message)


def test_the_tail_begins_at_the_attributes() -> None:
    data = node_bytes("n", k=5)
    assert data[tail(data, 0, len(data)) :] == data[data.index(b"\x2a") :]
    bare = node_bytes("n")
    assert tail(bare, 0, len(bare)) == len(bare)


@given(st.binary(max_size=40))
def test_the_tail_of_anything_lies_inside(data: bytes) -> None:
    assert 0 <= tail(data, 0, len(data)) <= len(data)


@given(st.text("ab", min_size=1, max_size=300), st.integers(0, 3))
def test_names_do_not_count(name: str, value: int) -> None:
    data, other = node_bytes(name, k=value), node_bytes("n", k=value)
    assert data[tail(data, 0, len(data)) :] == other[tail(other, 0, len(other)) :]


def test_alike_nodes_share_what_was_decoded() -> None:
    graph = graphdef.from_bytes(graph_of(*(node_bytes(f"n{i}", k=i % 2) for i in range(4))))
    first, second, third, fourth = (n.attrs_view for n in graph)
    assert first is third
    assert second is fourth
    assert first is not second
    assert (first["k"], second["k"]) == (0, 1)


def test_a_change_stays_at_its_node() -> None:
    data = graph_of(node_bytes("a", k=1), node_bytes("b", k=1))
    graph = graphdef.from_bytes(data)
    graph.node("a").attrs["k"] = 2
    assert graph.node("b").attrs == {"k": 1}
    assert not graph.node("a").attrs_untouched
    assert graph.node("b").attrs_untouched
    assert graphdef.to_bytes(graph) == graph_of(node_bytes("a", k=2), node_bytes("b", k=1))


def test_constants_are_not_shared() -> None:
    message = protos.message("GraphDef")()
    for name in "ab":
        tensor = message.node.add(name=name, op="Const").attr["value"].tensor
        tensor.dtype = FLOAT.number
        tensor.float_val.append(1.0)
    a, b = graphdef.from_bytes(protos.serialize(message))
    assert a.tensor is not None
    assert b.tensor is not None
    assert a.tensor is not b.tensor


def test_an_attribute_in_front_of_the_name_is_seen() -> None:
    """protobuf takes fields in any order, and what comes later in a map wins."""
    one, two = node_bytes("n", k=1), node_bytes("n", k=2)
    entry = one[one.index(b"\x2a") :]
    graph = graphdef.from_bytes(
        b"".join(b"\x0a" + bytes([len(n)]) + n for n in (entry + node_bytes("m"), entry + two, two))
    )
    assert [n.get("k") for n in graph] == [1, 2, 2]


def test_no_more_is_remembered_than_helps() -> None:
    known, asked = KnownAttrs(), []

    def decode() -> dict[str, Attr]:
        asked.append(1)
        return {}

    for number in range(MAX_KNOWN + 10):
        known.of(b"%8d" % number, 0, 8, decode)
    for number in range(MAX_KNOWN + 10):
        known.of(b"%8d" % number, 0, 8, decode)
    assert len(asked) == MAX_KNOWN + 20
    large = b"x" * (MAX_BYTES + 1)
    known.of(large, 0, len(large), decode)
    known.of(large, 0, len(large), decode)
    assert len(asked) == MAX_KNOWN + 22


def test_a_view_is_of_the_changed_attributes() -> None:
    node = Node("n", "Op")
    node.attrs["k"] = 1
    assert node.attrs_view == {"k": 1}
