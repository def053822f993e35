"""Documents as data, and their twin in TypeScript."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from tests.page_scripts import BUILT, without_scripts
from tests.pages.documents import HOSTILE, every_block, every_document
from thinflow.errors import PagesUnavailable, WriteError
from thinflow.pages import report, shell
from thinflow.pages.shell import data_of

SCHEMA = Path(__file__).parents[2] / "pages" / "report" / "schema.ts"
_INTERFACE = re.compile(r"export interface (\w+) \{(.*?)\n\}", re.DOTALL)
_FIELD = re.compile(r"^  (\w+): ", re.MULTILINE)


def classes() -> dict[str, list[str]]:
    """Fields of every class of a document, its kind first."""
    found = {}
    for name, cls in vars(report).items():
        if isinstance(cls, type) and dataclasses.is_dataclass(cls):
            kind = ["kind"] if issubclass(cls, report.Block) else []
            found[name] = kind + [f.name for f in dataclasses.fields(cls)]
    return found


def test_the_page_knows_the_same_fields() -> None:
    theirs = {name: _FIELD.findall(body) for name, body in _INTERFACE.findall(SCHEMA.read_text("utf-8"))}
    assert {name: sorted(names) for name, names in theirs.items()} == {
        name: sorted(names) for name, names in classes().items()
    }


def test_every_kind_is_among_the_examples() -> None:
    kinds = {cls.kind for cls in report.Block.__subclasses__()}
    assert {block.kind for block in every_block()} == kinds
    assert {f'"{kind}"' for kind in kinds} == set(re.findall(r'kind: ("\w+")', SCHEMA.read_text("utf-8")))


def test_what_is_empty_is_left_out() -> None:
    found = report.document_data(every_document())
    assert "Nothing" not in [section["title"] for section in found["sections"]]
    assert len(found["sections"]) == len(every_block())


def test_no_name_turns_a_line_round() -> None:
    text = json.dumps(report.document_data(every_document())["sections"], ensure_ascii=False)
    assert "\u202e" not in text
    assert "\\\\u202ename" in text


def test_plain_data() -> None:
    given = {
        "a": math.nan,
        "b": [math.inf, 1.5],
        "c": Path("x/y"),
        4: (np.float64(2.0), np.int64(3), True, None),
    }
    assert report.plain(given) == {"a": None, "b": [None, 1.5], "c": "x/y", "4": [2.0, "3", True, None]}


def test_sections_have_addresses() -> None:
    assert report.section("What to know").id == "what-to-know"


@BUILT
def test_pages_are_files(tmp_path: Path) -> None:
    size = shell.save_document(every_document(), tmp_path / "r.html")
    written = (tmp_path / "r.html").read_bytes()
    assert len(written) == size < 600_000
    assert data_of(written)["data"] == {"n": 1}
    assert HOSTILE.encode("utf-8", "replace") not in written
    with pytest.raises(WriteError, match="missing"):
        shell.save_document(every_document(), tmp_path / "missing" / "r.html")


def test_whoever_has_no_scripts_learns_it_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    without_scripts(monkeypatch)
    with pytest.raises(PagesUnavailable, match="without the scripts"):
        shell.require_pages()
