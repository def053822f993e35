"""The reader of big texts says what the protobuf library's says."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinflow.errors import FormatError
from thinflow.wire import fast_text, protos
from thinflow.wire.protos import from_text, message, serialize, to_text

# fmt: off
TEXTS = [
    'node { name: "a" op: "B" input: ["x", "y"] attr { key: "k" value { i: -5 } } } # end\n'
    "versions < producer: 0x1F, >",
    "node { name: 'a\\n\\x41\\101' 'bc' op: \"\\\\N\\u0041\"\n attr { key: 'k' value { list { "
    "f: [1.5, inf, -2f] i: 010 b: true b: f b: 1 type: DT_FLOAT type: 3 } } } "
    "attr: { key: 'k' value { s: '\\377\\000\\'\\\"' } } };",
    'node { attr { key: "t" value { tensor { dtype: DT_FLOAT float_val: 1\n float_val: 2.5e3\n '
    "float_val:-7f\n float_val: infinity\n} } } }",
    'node { attr { key: "t" value { tensor { int_val: 1\n int_val: 010\n '
    "int_val: 0x10\n int_val: -3\n int_val: 0b101\n int_val: 0o17\n } } } }",
    'library { function { signature { name: "f" } ret { key: "a" value: "b" } '
    "arg_attr { key: 3 value { } } } }",
    'node { name: "a" name: "b" } versions { producer: 1 } versions { min_consumer: 2, bad_consumers: [] }',
    'node { attr { key: "a" value { i: 1 } } attr { key: "a" value { i: 2 } } '
    'attr { value { f: 1 } key: "b" } }',
    'node [ { name: "a" }, < name: "b" > ] library: { }',
    "",
    "# nothing\n",
]
# fmt: on
ANY = (
    'asset_file_def { filename: "f" } collection_def { key: "saved_model_assets" value { any_list { value { '
    '[type.googleapis.com/tensorflow.AssetFileDef] { tensor_info { name: "a:0" } filename: "v.txt" } } } } }'
)


def parse(what: str, text: bytes) -> Any:
    result = message(what)()
    fast_text.merge(result, text)
    return result


@pytest.mark.parametrize("text", TEXTS)
def test_agrees_with_the_library(text: str) -> None:
    assert serialize(parse("GraphDef", text.encode())) == serialize(from_text("GraphDef", text))


def test_any() -> None:
    assert parse("MetaGraphDef", ANY.encode()) == from_text("MetaGraphDef", ANY)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"node { name: 3 }", "looking for a string, found '3 }'"),
        (
            b'\n\nnode { nam: "x" }',
            'line 3: cannot read this as the text of a GraphDef: message type "NodeDef"',
        ),
        (b'node { name: "x', "a string is never closed"),
        (b'node { name: "x\n" }', "a string is never closed"),
        (b"node {", "the text ends where a '}' is missing"),
        (b"node }", "looking for '{', found '}'"),
        (b"node { ) }", "looking for the name of a field, found ') }'"),
        (b"versions { producer: 1.5 }", "'1.5' is no value of this field"),
        (b"versions { producer: 1_0 }", "'1_0' is no value of this field"),
        (b"versions { producer: 99999999999 }", "a value of producer is out of range"),
        (b"versions { producer }", "looking for ':', found '}'"),
        (b"versions { producer: }", "looking for a value, found '}'"),
        (b"versions { bad_consumers: [1 2] }", "looking for ',' or ']', found '2] }'"),
        (b'node { op: "\\q" }', r"'\q' is not an escape"),
        (b'node { name: "\xff" }', "a text is not UTF-8"),
        (b"node { attr { key: 'd' value { type: DT_FLOT } } }", "'DT_FLOT' is no value of this field"),
        (b"node { attr { key: 'd' value { f: 1.x } } }", "'1.x' is no value of this field"),
    ],
)
def test_mistakes(text: bytes, words: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse("GraphDef", text)
    assert words in str(caught.value)
    assert "see that the text is complete" in caught.value.hint


def test_unknown_any() -> None:
    with pytest.raises(FormatError, match=r"of this Any, 'tensorflow\.Nobody', is not known"):
        parse("MetaGraphDef", ANY.replace("AssetFileDef]", "Nobody]").encode())


def test_deep_nesting() -> None:
    with pytest.raises(FormatError, match="nested too deeply"):
        parse("FullTypeDef", b"args {" * 5000)


@given(
    st.binary(max_size=200),
    st.lists(st.floats(width=32, allow_nan=False), max_size=40),
    st.binary(max_size=9),
)
def test_random_messages(content: bytes, numbers: list[float], text: bytes) -> None:
    graph = message("GraphDef")()
    node = graph.node.add(name="n", op="Const")
    node.attr["value"].tensor.tensor_content = content
    node.attr["value"].tensor.float_val.extend(numbers)
    node.attr["value"].tensor.string_val.extend([content, text])
    node.attr["value"].tensor.int64_val.extend(int(x) & 0xFFFF for x in content)
    node.attr["s"].s = text
    assert parse("GraphDef", to_text(graph).encode()) == graph


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the library lets unknown escapes pass with one
def test_random_damage() -> None:
    """Whatever the library takes is read the same way; the rest is one kind of error."""
    rng = random.Random(7)
    for _ in range(1500):
        data = bytearray(rng.choice(TEXTS).encode())
        for _ in range(rng.randrange(1, 4)):
            if data:
                data[rng.randrange(len(data))] = rng.choice(b"{}[]<>:,\"'\\ 0a#-\n")
        ours, theirs = _outcome(parse, bytes(data)), _outcome(from_text, bytes(data))
        if ours is not None and theirs is not None:
            assert ours == theirs, bytes(data)


def _outcome(read: Any, data: bytes) -> bytes | None:
    try:
        return serialize(read("GraphDef", data))
    except FormatError:
        return None


def test_big_texts_go_the_fast_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protos, "_BIG_TEXT", 10)
    with pytest.raises(FormatError, match="looking for"):
        from_text("GraphDef", "node { name: 3 }")
    assert from_text("GraphDef", TEXTS[0]).node[0].name == "a"
