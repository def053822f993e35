"""Nodes parsed many at a time are those that would be parsed one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinflow.errors import FormatError
from thinflow.formats import _node_reader, graphdef
from thinflow.formats._node_reader import read_nodes
from thinflow.wire import protos, scan
from thinflow.wire.fields import encode_varint, field_header


def node(name: str, op: str = "NoOp", content: int = 0) -> bytes:
    message = protos.message("NodeDef")()
    message.name, message.op = name, op
    if content:
        message.attr["value"].tensor.tensor_content = bytes(content)
    return protos.serialize(message)


def field(number: int, payload: bytes) -> bytes:
    return field_header(number, 2) + encode_varint(len(payload)) + payload


def names(data: bytes) -> list[str]:
    view = memoryview(data)
    found = scan.scan_graph(view)
    pairs = [pair for batch in read_nodes(view, found) for pair in zip(*batch, strict=True)]
    assert [span for span, _ in pairs] == found.nodes
    return [message.name for _, message in pairs]


PARTS = st.sampled_from(["small", "large", "versions", "long"])


@given(st.lists(PARTS, max_size=12), st.integers(1, 4))
def test_any_mixture(parts: list[str], batch: int) -> None:
    data, expected = b"", []
    for number, part in enumerate(parts):
        if part == "versions":
            data += field(4, b"\x08\x05")
            continue
        name = f"n{number}" * (80 if part == "long" else 1)
        data += field(1, node(name, content=5000 if part == "large" else 0))
        expected.append(name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_node_reader, "BATCH", batch)
        assert names(data) == expected


def test_a_damaged_node_is_named_by_its_byte() -> None:
    good = field(1, node("a"))
    bad = field(1, b"\x0a\x01\xff\x12\x02Op")  # a name that is not UTF-8
    with pytest.raises(FormatError, match=f"byte {len(good) + 2}: not a valid NodeDef") as caught:
        graphdef.from_bytes(good + bad + good)
    assert caught.value.hint


def test_the_first_damage_is_told() -> None:
    nameless = field(1, node("", "Op"))
    with pytest.raises(FormatError, match="byte 2: a node has no name or no op"):
        graphdef.from_bytes(nameless + field(1, b"\xff"))


def test_big_tensors_are_left_out() -> None:
    view = memoryview(field(1, node("a")) + field(1, node("b", "Const", 5000)) + field(1, node("c")))
    sizes = [len(protos.serialize(m)) for _, batch in read_nodes(view, scan.scan_graph(view)) for m in batch]
    assert len(sizes) == 3
    assert max(sizes) < 100
