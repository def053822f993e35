"""Names from a file on a terminal, in tables, pages and file names: none commands, forges or escapes."""

from __future__ import annotations

import unicodedata

import pytest

from thinflow.errors import NodeError
from thinflow.errors.plain_text import (
    csv_cell,
    file_name,
    file_names,
    markdown,
    markdown_code,
    one_line,
    shown,
)


@pytest.mark.parametrize("code", [*range(0x20), *range(0x7F, 0xA0), 0x202E, 0x2066, 0x2028, 0xFEFF, 0xE0041])
def test_what_commands_a_terminal_is_spelled(code: int) -> None:
    character = chr(code)
    line = one_line(f"a{character}b")
    if character == "\t":
        assert line == "a\tb"
    else:
        assert line == f"a{character.encode('unicode_escape').decode()}b"
    assert shown(f"a{character}b") == (f"a{character}b" if character in "\n\t" else line)


SCRIPTS = ("ARABIC", "SYRIAC", "KAITHI", "EGYPTIAN", "SHORTHAND", "MUSICAL", "ZERO WIDTH JOINER")
"""Format characters that belong to a script, and show or shape what stands beside them."""


def test_no_character_that_hides_or_reorders_is_left() -> None:
    """Of all of Unicode: controls, separators of lines, and format characters that belong to no script."""
    for code in range(0x110000):
        character = chr(code)
        kind, name = unicodedata.category(character), unicodedata.name(character, "")
        if kind not in {"Cc", "Cf", "Zl", "Zp"} or character == "\t" or name == "ZERO WIDTH NON-JOINER":
            continue
        if not name.startswith(SCRIPTS) or name == "ARABIC LETTER MARK":
            assert character not in one_line(character), hex(code)


@pytest.mark.parametrize(
    "text",
    ["conv1/weights:0", "naïve 模型 🙂 \u00a0 a\u200db", "1\u202f000", "\U000e0080", "", "12.3 ± 0.2 µs"],
)
def test_sane_text_stays(text: str) -> None:
    assert shown(text) == one_line(text) == text
    assert shown(f"{text}\n\t{text}") == f"{text}\n\t{text}"


def test_errors_as_text_command_nothing() -> None:
    error = NodeError("it is wrong", "node '\x1b[2J'", "look at '\u202e'")
    assert str(error) == "node '\\x1b[2J': it is wrong\nhint: look at '\\u202e'"
    assert error.message == "node '\x1b[2J': it is wrong"


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("+cmd", "'+cmd"),
        ("-cmd|' /C calc'!A0", "'-cmd|' /C calc'!A0"),
        ("-1.5", "-1.5"),
        ("+2e9", "+2e9"),
        ("conv=1", "conv=1"),
        ("\r=1", "\\r=1"),
        ("", ""),
    ],
)
def test_csv_cells_are_no_formulas(text: str, cell: str) -> None:
    assert csv_cell(text) == cell


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("<script>", "\\<script>"),
        ("\\<b>", "\\\\\\<b>"),
        ("a|b", "a\\|b"),
        ("`x`", "\\`x\\`"),
        ("[a](javascript:b)", "[a]\\(javascript:b)"),
        ("[a][b]", "[a]\\[b]"),
        ("float[1,224,224,3]", "float[1,224,224,3]"),
        ("a\nb", "a\\\\nb"),
    ],
)
def test_markdown_has_no_markup_from_names(text: str, page: str) -> None:
    assert markdown(text) == page


def test_markdown_code_ends_where_it_should() -> None:
    assert markdown_code("conv1") == "`conv1`"
    assert markdown_code("a|b") == "`a\\|b`"
    assert markdown_code("a`b") == "`` a`b ``"
    assert markdown_code("``<b>``") == "``` ``<b>`` ```"


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("dense/BiasAdd", "dense_BiasAdd"),
        ("logits:0", "logits_0"),
        ("../../etc/passwd", "_._.._etc_passwd"),
        ("..", "_"),
        ("", "_"),
        ("a\0b\x1b", "a_b_"),
        ("nul", "_nul"),
        ("COM1.x", "_COM1.x"),
        ("lpt9", "_lpt9"),
        ("COM10", "COM10"),
        ("a b", "a b"),
        ("C:\\Windows", "C__Windows"),
        ("end. ", "end"),
        ("é" * 200, "é" * 90),
    ],
)
def test_file_names_stay_in_their_folder(name: str, file: str) -> None:
    assert file_name(name) == file


def test_file_names_are_distinct() -> None:
    assert file_names(["a/b", "a_b", "A_B", "c"]) == {"a/b": "a_b", "a_b": "a_b_1", "A_B": "A_B_2", "c": "c"}
    assert file_names(["a/b"], slash="__") == {"a/b": "a__b"}
