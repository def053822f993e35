"""The scanner agrees with protobuf on every graph, and survives every damaged one."""

from __future__ import annotations

import mmap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinflow.errors import FormatError, WriteError
from thinflow.wire import protos
from thinflow.wire.fields import as_bytes, encode_varint, field_header, iter_fields
from thinflow.wire.scan import FieldSpan, scan_graph, slim, with_content

THRESHOLD = 16


def field(number: int, payload: bytes) -> bytes:
    return field_header(number, 2) + encode_varint(len(payload)) + payload


def const(key: str = "value", content: bytes = b"w" * 100, name: str = "c"):
    node = protos.NodeDef(name=name, op="Const")
    node.attr["dtype"].type = 1
    node.attr[key].tensor.dtype = 1
    node.attr[key].tensor.tensor_shape.dim.add(size=len(content) // 4)
    node.attr[key].tensor.tensor_content = content
    return node


def only_node(data: bytes, threshold: int = THRESHOLD):
    (node,) = scan_graph(data, threshold).nodes
    return node


def nodes_or_error(data, threshold: int):
    """The scanned nodes; none if there is an error, which has to say where."""
    try:
        return scan_graph(data, threshold).nodes
    except FormatError as e:
        if not e.where.startswith("byte "):
            raise AssertionError("the error does not say where") from e
        return []


attr_values = st.one_of(
    st.builds(lambda s: protos.AttrValue(s=s), st.binary(max_size=40)),
    st.builds(lambda i: protos.AttrValue(i=i), st.integers(-(2**63), 2**63 - 1)),
    st.builds(
        lambda f: protos.AttrValue(list={"f": f}), st.lists(st.floats(width=32, allow_nan=False), max_size=9)
    ),
    st.builds(
        lambda dtype, content, floats, version: protos.AttrValue(
            tensor={"dtype": dtype, "tensor_content": content, "float_val": floats, "version_number": version}
        ),
        st.integers(0, 33),
        st.one_of(st.binary(max_size=300), st.integers(0, 40_000).map(bytes)),
        st.lists(st.floats(width=32, allow_nan=False), max_size=9),
        st.integers(0, 3),
    ),
    st.builds(
        lambda c: protos.AttrValue(list={"tensor": [{"tensor_content": c}, {"tensor_content": c}]}),
        st.binary(max_size=40),
    ),
)


@st.composite
def nodes(draw):
    node = protos.NodeDef(
        name=draw(st.text(max_size=8)), op="Op", input=draw(st.lists(st.text(max_size=8), max_size=3))
    )
    for key in draw(st.lists(st.text(max_size=6), max_size=4, unique=True)):
        node.attr[key].CopyFrom(draw(attr_values))
    return node


@st.composite
def graphs(draw):
    graph = protos.GraphDef(node=draw(st.lists(nodes(), max_size=4)), version=draw(st.integers(0, 5)))
    graph.versions.producer = draw(st.integers(0, 3000))
    if draw(st.booleans()):
        graph.library.function.add().signature.name = "f"
    return graph


class TestAgreesWithProtobuf:
    @given(graphs(), st.integers(0, 200))
    def test_slim_nodes_and_contents_are_the_nodes(self, graph, threshold):
        data = protos.serialize(graph)
        scan = scan_graph(data, threshold)
        assert len(scan.nodes) == len(graph.node)
        for span, whole in zip(scan.nodes, graph.node, strict=True):
            big = {k for k, v in whole.attr.items() if len(v.tensor.tensor_content) > threshold}
            assert {c.key for c in span.contents} == big
            node = protos.parse("NodeDef", slim(data, span))
            for content in span.contents:
                assert not node.attr[content.key].tensor.tensor_content
                node.attr[content.key].tensor.tensor_content = data[content.start : content.end]
            assert node == whole

    @given(graphs(), st.integers(0, 200))
    def test_with_content_restores_the_bytes(self, graph, threshold):
        data = protos.serialize(graph)
        for span in scan_graph(data, threshold).nodes:
            contents = {c.key: memoryview(data)[c.start : c.end] for c in span.contents}
            light = protos.serialize(protos.parse("NodeDef", slim(data, span)))
            total, chunks = with_content(light, contents)
            assert b"".join(chunks) == data[span.start : span.end]
            assert total == span.end - span.start

    @given(graphs())
    def test_other_fields_joined_are_the_rest_of_the_graph(self, graph):
        data = protos.serialize(graph)
        rest = b"".join(data[start:end] for _, start, end in scan_graph(data).others)
        del graph.node[:]
        assert protos.parse("GraphDef", rest) == graph

    @given(st.lists(st.tuples(st.sampled_from("abv"), st.sampled_from([0, 10, 90])), max_size=4), st.data())
    def test_oddly_encoded_nodes_still_mean_the_same(self, attrs, data):
        """Repeated keys, values, tensors and contents in any order: merging them is left to protobuf."""
        node = b""
        for key, size in attrs:
            content = field(4, bytes([65 + size % 26]) * size)
            tensor = content * data.draw(st.integers(0, 2)) + field_header(1, 0) + b"\x01"
            value = field(8, tensor) * data.draw(st.integers(0, 2))
            value += data.draw(st.sampled_from([b"", b"", field(2, b"s")]))
            parts = [field(1, key.encode()), field(2, value)]
            parts += data.draw(
                st.sampled_from([[], [], [field(2, value)], [field(1, b"a")], [field(7, b"x" * 50)]])
            )
            node += field(5, b"".join(data.draw(st.permutations(parts))))
        graph = field(1, node)
        span = only_node(graph)
        light = protos.parse("NodeDef", slim(graph, span))
        for content in span.contents:
            light.attr[content.key].tensor.tensor_content = graph[content.start : content.end]
        assert light == protos.parse("NodeDef", node)

    def test_graph_inside_another_message(self):
        graph = protos.GraphDef(node=[const()])
        data = protos.serialize(protos.MetaGraphDef(graph_def=graph, asset_file_def=[{"filename": "x"}]))
        ((_, _, start, end),) = [f for f in iter_fields(data, 0, len(data)) if f[0] == 2]
        (node,) = scan_graph(data, THRESHOLD, start=start, end=end).nodes
        (content,) = node.contents
        assert data[content.start : content.end] == b"w" * 100

    def test_lengths_in_more_bytes_than_needed(self):
        content = b"\x22" + b"\xe4\x80\x00" + b"w" * 100  # 100 in three bytes
        node = field(5, field(1, b"value") + field(2, field(8, content)))
        graph = b"\x8a\x00" + encode_varint(len(node)) + node  # so is the tag
        span = only_node(graph)
        assert [c.key for c in span.contents] == ["value"]
        assert protos.parse("NodeDef", slim(graph, span)).attr["value"].HasField("tensor")

    def test_unknown_fields_of_any_kind_are_kept(self):
        extra = field_header(99, 0) + b"\x05" + field_header(98, 5) + b"1234" + field_header(1, 0) + b"\x07"
        scan = scan_graph(extra + field(1, b""))
        assert [number for number, _, _ in scan.others] == [99, 98, 1]
        assert scan.others[0] == FieldSpan(99, 0, 3)
        assert len(scan.nodes) == 1

    def test_mapped_file_gives_views_without_copies(self, tmp_path):
        path = tmp_path / "graph.pb"
        path.write_bytes(protos.serialize(protos.GraphDef(node=[const(content=b"w" * 50_000)])))
        with path.open("rb") as f:
            mapped = memoryview(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ))
        span = only_node(mapped)
        (content,) = span.contents
        assert content.end - content.start == 50_000
        assert len(slim(mapped, span)) < 100

    def test_empty_file_is_an_empty_graph(self):
        assert scan_graph(b"").nodes == []


class TestDamage:
    @given(graphs(), st.data())
    @settings(max_examples=300)
    def test_only_format_errors(self, graph, data):
        damaged = bytearray(protos.serialize(graph))
        for _ in range(data.draw(st.integers(0, 3))):
            if damaged:
                damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        damaged = damaged[: data.draw(st.integers(0, len(damaged)))]
        for span in nodes_or_error(damaged, THRESHOLD):
            light, whole = slim(damaged, span), bytes(damaged[span.start : span.end])
            try:
                expected = protos.parse("NodeDef", whole)
            except FormatError:
                continue
            node = protos.parse("NodeDef", light)
            for content in span.contents:
                node.attr[content.key].tensor.tensor_content = bytes(damaged[content.start : content.end])
            # Bytes, since a flipped bit may have made a NaN, which never equals itself.
            assert protos.serialize(node) == protos.serialize(expected)

    @given(st.binary(max_size=200))
    @settings(max_examples=300)
    def test_noise(self, noise):
        for data in (
            noise,
            field(1, noise),
            field(1, field(5, noise)),
            field(1, field(5, field(1, b"k") + noise)),
        ):
            nodes_or_error(data, 0)

    @pytest.mark.parametrize(
        ("data", "where", "problem"),
        [
            (b"\x0a", "byte 0", "the file ends inside a field"),
            (b"\x0a\x05abc", "byte 0", "a node of 5 bytes is longer than the rest of the file"),
            (b"\x0a\x00\x0a\xff\xff\xff\xff\x7f", "byte 2", "longer than the rest"),
            (b"\x0a" + b"\xff" * 11, "byte 1", "a number is longer than 10 bytes"),
            (b"\x12\x80", "byte 1", "the file ends inside a number"),
            (b"\x22\x09abc", "byte 0", "field 4 is longer than the rest of its message"),
            (b"\x0b\x0c", "byte 0", "groups are not part of this format"),
            (b"\x0c", "byte 0", "groups are not part of this format"),
            (b"\x0e\x00", "byte 0", "6 is not a wire type"),
            (b"\x02\x00", "byte 0", "0 cannot be a field number"),
            (b"\x15abc", "byte 0", "field 2 is longer than the rest of its message"),
            (field(1, b"\x2a\x7f" + b"x" * 30), "byte 2", "field 5 is longer than the rest of its message"),
        ],
    )
    def test_message(self, data, where, problem):
        with pytest.raises(FormatError) as caught:
            scan_graph(data, THRESHOLD)
        assert caught.value.where == where
        assert problem in caught.value.problem
        assert "truncated, damaged or of another format" in caught.value.hint

    def test_key_that_is_not_text(self):
        data = field(1, field(5, field(1, b"\xff") + field(2, field(8, field(4, b"w" * 50)))))
        with pytest.raises(FormatError, match="not UTF-8"):
            scan_graph(data, THRESHOLD)

    def test_range_outside_the_buffer(self):
        with pytest.raises(FormatError, match="lie outside"):
            scan_graph(b"\x0a\x00", start=1, end=3)
        with pytest.raises(FormatError, match="the file ends at 1"):
            list(iter_fields(b"\x0a", 0, 2))

    def test_message_is_not_read_beyond_its_end(self):
        with pytest.raises(FormatError):
            scan_graph(b"\x0a\x02ab", start=0, end=1)


class TestWriting:
    def test_content_goes_between_the_fields_around_it(self):
        node = const()
        node.attr["value"].tensor.float_val.append(1.5)
        whole = protos.serialize(node)
        node.attr["value"].tensor.ClearField("tensor_content")
        total, chunks = with_content(protos.serialize(node), {"value": b"w" * 100})
        assert b"".join(chunks) == whole
        assert total == len(whole)

    def test_big_content_is_passed_on_not_copied(self):
        content = bytearray(1000)
        _, chunks = with_content(protos.serialize(const(content=b"")), {"value": content})
        assert [len(chunk) for chunk in chunks if isinstance(chunk, memoryview) and chunk.obj is content] == [
            1000
        ]

    def test_arrays_are_taken_as_their_bytes(self):
        from array import array

        floats = array("f", [1.0, 2.0, 3.0])
        _, chunks = with_content(protos.serialize(const(content=b"")), {"value": floats})
        assert (
            protos.parse("NodeDef", b"".join(chunks)).attr["value"].tensor.tensor_content == floats.tobytes()
        )

    def test_empty_content_and_empty_node(self):
        data = protos.serialize(const(content=b""))
        assert with_content(data, {"value": b"", "missing": b""}) == (len(data), [data])
        assert with_content(b"", {}) == (0, [b""])

    def test_buffer_with_gaps(self):
        with pytest.raises(WriteError, match="gaps"):
            as_bytes(memoryview(bytes(8))[::2])

    @pytest.mark.parametrize(
        ("key", "problem"),
        [
            ("other", "no attribute 'other' to hold a tensor"),
            ("dtype", "attribute 'dtype' holds no tensor"),
            ("value", "the tensor in attribute 'value' already has content"),
        ],
    )
    def test_refusals(self, key, problem):
        with pytest.raises(WriteError, match=problem):
            with_content(protos.serialize(const()), {key: b"abcd"})
