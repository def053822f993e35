"""The message classes: right fields, right text, right errors, and nobody else's business."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinflow.errors import FormatError
from thinflow.wire import protos
from thinflow.wire.fields import encode_varint, field_header
from thinflow.wire.message_table import blocks
from thinflow.wire.protos import from_text, message, parse, serialize, to_text
from thinflow.wire.tensorflow_table import MESSAGES

SHARED = Path(__file__).resolve().parents[3] / "shared"


def text_of(name: str, text: str) -> str:
    return to_text(from_text(name, text))


class TestClasses:
    def test_same_class_every_time(self):
        assert protos.GraphDef is message("GraphDef")
        assert protos.GraphDef().node.add().__class__ is protos.NodeDef
        assert message("AttrValue.ListValue").DESCRIPTOR.full_name == "tensorflow.AttrValue.ListValue"

    def test_every_message_of_the_table_can_be_made(self):
        names = [name for name, _ in blocks(MESSAGES)]
        assert len(names) == len(set(names))
        for name in names:
            assert message(name)().SerializeToString() == b""

    def test_unknown_names(self):
        with pytest.raises(KeyError, match="did you mean 'GraphDef'"):
            message("GraphDeff")
        with pytest.raises(AttributeError, match="Nonsense"):
            _ = protos.Nonsense

    def test_importing_costs_no_protobuf_and_building_leaves_the_global_pool_alone(self):
        code = (
            "import sys; from thinflow.wire import protos; assert 'google.protobuf' not in sys.modules\n"
            "protos.GraphDef(); from google.protobuf import descriptor_pool\n"
            "try: descriptor_pool.Default().FindMessageTypeByName('tensorflow.GraphDef')\n"
            "except KeyError: sys.exit(7)"
        )
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 7

    def test_kinds_of_fields(self):
        node = protos.NodeDef().DESCRIPTOR
        entry = node.fields_by_name["attr"].message_type
        assert entry.GetOptions().map_entry
        assert entry.name == "AttrEntry"
        oneofs = {o.name: [f.name for f in o.fields] for o in protos.AttrValue.DESCRIPTOR.oneofs}
        assert set(oneofs["value"]) == {
            "s",
            "i",
            "f",
            "b",
            "type",
            "shape",
            "tensor",
            "list",
            "func",
            "placeholder",
        }
        file = node.file
        assert file.enum_types_by_name["DataType"].values_by_name["DT_FLOAT4_E2M1FN"].number == 33
        assert file.enum_types_by_name["DataType"].values_by_name["DT_FLOAT4_E2M1FN_REF"].number == 133
        types = file.enum_types_by_name["FullTypeId"].values_by_name
        assert (types["TFT_INT64"].number, types["TFT_BFLOAT16"].number) == (208, 215)
        assert (types["TFT_SHAPE_TENSOR"].number, types["TFT_LEGACY_VARIANT"].number) == (1005, 10203)

    def test_dtypes_agree_with_the_ir(self):
        from thinflow.ir.types import all_dtypes

        values = protos.GraphDef.DESCRIPTOR.file.enum_types_by_name["DataType"].values_by_name
        names = {d.number: f"DT_{d.name.upper()}" for d in all_dtypes()}
        assert {v.number: v.name for v in values.values() if 0 < v.number < 100} == names


class TestBytes:
    def test_known_bytes(self):
        tensor = protos.TensorProto(dtype=19, half_val=[15872, 49152])
        assert serialize(tensor).hex() == "08136a05807c808003"  # packed
        assert parse("TensorProto", bytes.fromhex("68808003")).half_val == [49152]  # also read unpacked
        assert serialize(protos.StructuredValue(int64_value=-1)) == b"\x60\x01"  # zig-zag
        assert serialize(protos.AttrValue(i=0)) == b"\x18\x00"  # a oneof member is written even if zero
        entry = protos.BundleEntryProto(dtype=1, shape={}, size=24, crc32c=0x173DDBC0)
        assert serialize(entry).hex() == "08011200281835c0db3d17"

    def test_explicit_zeros_of_optional_fields_survive(self):
        data = b"\x08\x00\x10\x05"  # file_index 0, line 5
        assert serialize(parse("GraphDebugInfo.FileLineCol", data)) == data

    def test_map_keys_are_sorted(self):
        one, other = protos.NodeDef(), protos.NodeDef()
        for node, keys in ((one, "abcdef"), (other, "fedcba")):
            for key in keys:
                node.attr[key].b = True
        assert serialize(one) == serialize(other)

    def test_unknown_fields_and_enum_values_survive(self):
        data = b"\xba\x3e\x03abc"  # field 999
        assert serialize(parse("NodeDef", data)) == data
        assert serialize(parse(protos.TensorProto, b"\x08\xfa\x01")) == b"\x08\xfa\x01"  # dtype 250

    def test_last_singular_wins_and_messages_merge(self):
        versions = parse("GraphDef", b"\x22\x02\x08\x01\x22\x02\x10\x05\x22\x02\x08\x07").versions
        assert (versions.producer, versions.min_consumer) == (7, 5)

    def test_reads_any_buffer(self):
        assert parse("NodeDef", memoryview(bytearray(b"\x0a\x01x"))).name == "x"

    @pytest.mark.parametrize("data", [b"\x0a\x05ab", b"\x0a\x01\xff", b"\x0b", b"\xff" * 12])
    def test_damage(self, data):
        with pytest.raises(FormatError, match="not a valid NodeDef message") as caught:
            parse("NodeDef", data)
        assert "truncated" in caught.value.hint

    def test_endless_nesting(self):
        data = b""
        for _ in range(500):
            data = field_header(2, 2) + encode_varint(len(data)) + data
        with pytest.raises(FormatError):
            parse("FullTypeDef", data)

    @given(st.binary(max_size=100))
    def test_noise(self, noise):
        with contextlib.suppress(FormatError):
            parse("GraphDef", noise)


class TestText:
    def test_writing(self):
        graph = protos.GraphDef(node=[{"name": "é", "op": "Const"}])
        attr = graph.node[0].attr
        attr["value"].tensor.dtype = 101
        attr["value"].tensor.tensor_content = b'\xff\x00a"'
        attr["f"].f = 0.1
        assert to_text(graph).splitlines() == [
            "node {",
            r'  name: "\303\251"',
            '  op: "Const"',
            "  attr {",
            '    key: "f"',
            "    value {",
            "      f: 0.1",
            "    }",
            "  }",
            "  attr {",
            '    key: "value"',
            "    value {",
            "      tensor {",
            "        dtype: DT_FLOAT_REF",
            r'        tensor_content: "\377\000a\""',
            "      }",
            "    }",
            "  }",
            "}",
        ]
        assert from_text("GraphDef", to_text(graph)) == graph

    @pytest.mark.parametrize(
        ("name", "text", "expected"),
        [
            ("VersionDef", "producer: 1, producer: 2;", "producer: 2\n"),
            (
                "VersionDef",
                "bad_consumers: [1, 0x10, 010] # three",
                "bad_consumers: 1\nbad_consumers: 16\nbad_consumers: 8\n",
            ),
            ("VersionDef", "bad_consumers: []", ""),
            ("GraphDef", "versions < producer: -3 >", "versions {\n  producer: -3\n}\n"),
            ("TensorProto", "dtype: 19", "dtype: DT_HALF\n"),
            ("TensorProto", "dtype: 250", "dtype: 250\n"),
            (
                "TensorProto",
                "float_val: [1.5f, inf, -inf, nan]",
                "float_val: 1.5\nfloat_val: inf\nfloat_val: -inf\nfloat_val: nan\n",
            ),
            ("TensorProto", r"""tensor_content: "a\x01" '\002'""", 'tensor_content: "a\\001\\002"\n'),
            ("AttrValue", "b: t", "b: true\n"),
            (
                "NodeDef",
                'attr { key: "k" value { i: 1 } } attr { key: "k" value { i: 2 } }',
                'attr {\n  key: "k"\n  value {\n    i: 2\n  }\n}\n',
            ),
            (
                "CollectionDef",
                'any_list { value { [type.googleapis.com/tensorflow.AssetFileDef] { filename: "x" } } }',
                "any_list {\n  value {\n    [type.googleapis.com/tensorflow.AssetFileDef] {\n"
                '      filename: "x"\n    }\n  }\n}\n',
            ),
        ],
    )
    def test_reading(self, name, text, expected):
        assert text_of(name, text) == expected

    @pytest.mark.parametrize(
        ("text", "where", "problem"),
        [
            (
                "\nnode { nme: 1 }",
                "line 2, column 8",
                'Message type "tensorflow.NodeDef" has no field named "nme"',
            ),
            ("node {", "line 1, column 6", 'Expected "}"'),
            ("version: 99999999999", "line 1, column 10", "Value out of range: 99999999999"),
            ("node { attr { value { type: DT_FOO } } }", "line 1, column 29", "has no value named DT_FOO"),
            (b"node { name: '\xff' }", "byte 14", "it is not UTF-8"),
            (rb"node { name: 'a\lb' }", "", "invalid escape sequence"),
        ],
    )
    def test_errors(self, text, where, problem):
        with pytest.raises(FormatError) as caught:
            from_text("GraphDef", text)
        assert caught.value.problem.startswith("cannot read this as the text of a GraphDef: ")
        assert problem in caught.value.problem
        assert caught.value.where == where

    def test_error_does_not_quote_a_long_line(self):
        with pytest.raises(FormatError) as caught:
            from_text("GraphDef", "node { name: 'x' } " * 1000 + "version: x")
        assert len(caught.value.problem) < 200

    def test_endless_nesting(self):
        with pytest.raises(FormatError):
            from_text("FullTypeDef", "args {" * 20_000)

    @given(st.text(alphabet="node{}:<>[]\"'\\ name1.\n#-", max_size=40))
    def test_noise(self, noise):
        with contextlib.suppress(FormatError):
            from_text("GraphDef", noise)


def unknown_count(msg) -> int:
    """How many fields in the message, at any depth, the table lacks."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    count = len(UnknownFieldSet(msg))
    for descriptor, value in msg.ListFields():
        if descriptor.type != descriptor.TYPE_MESSAGE:
            continue
        if descriptor.message_type.GetOptions().map_entry:
            values = [v for v in value.values() if hasattr(v, "ListFields")]
        else:
            values = [value] if hasattr(value, "ListFields") else list(value)
        count += sum(map(unknown_count, values))
    return count


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the folder of sample models")
@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("GraphDef", "models/*.pb"),
        ("GraphDef", "formats/*/graph.pb"),
        ("SavedModel", "formats/*/saved_model.pb"),
        ("MetaGraphDef", "formats/*/*.meta"),
        ("FingerprintDef", "formats/*/fingerprint.pb"),
    ],
)
def test_real_files(name, pattern):
    files = {path: path.read_bytes() for path in sorted(SHARED.glob(pattern))}
    binary = {path: data for path, data in files.items() if not data.startswith(b"node {")}
    assert binary
    for path, data in binary.items():
        msg = parse(name, data)
        assert msg.ListFields()
        assert unknown_count(msg) == 0, path
        assert parse(name, serialize(msg)) == msg
