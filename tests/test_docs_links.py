"""Links between the project's Markdown files lead somewhere."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).resolve().parents[1]
TOP = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
PAGES = [p for p in (ROOT / name for name in TOP) if p.is_file()] + sorted((ROOT / "docs").rglob("*.md"))

_CODE = re.compile(r"^ {0,3}(```|~~~).*?^ {0,3}\1[^\n]*$|(`+)(?!`).+?(?<!`)\2(?!`)", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"\]\(\s*<?([^\s<>)]+)>?(?:\s+[\"'(][^)]*)?\)")  # [text](target "title"), images too
_REFERENCE = re.compile(r"^ {0,3}\[(?!\^)[^\]]+\]:\s*<?(\S+?)>?(?:\s|$)", re.MULTILINE)
_HTML = re.compile(r"""<(?:a|img)\b[^>]*?\b(?:href|src)=["']([^"']+)["']""")
_HEADING = re.compile(r"^ {0,3}#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)
_ANCHOR = re.compile(r"""<[a-z]+\b[^>]*?\b(?:id|name)=["']([^"']+)["']""")


def targets(text: str) -> list[str]:
    """Every link target outside code, in order of kind."""
    prose = _CODE.sub("", text)
    return [*_INLINE.findall(prose), *_REFERENCE.findall(prose), *_HTML.findall(prose)]


def anchors(text: str) -> set[str]:
    """The fragments a page offers, headings turned into ids the way GitHub does."""
    fences_gone = _CODE.sub(lambda m: "" if m[1] else m[0], text)
    found = set(_ANCHOR.findall(fences_gone))
    seen: Counter[str] = Counter()
    for title in _HEADING.findall(fences_gone):
        shown = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", title)
        slug = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


@cache
def anchors_of(page: Path) -> set[str]:
    return anchors(page.read_text("utf-8"))


def problem(page: Path, target: str) -> str | None:
    """Why a link leads nowhere; None if it is fine or leaves the project by a scheme."""
    if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//", target):
        return None
    path, _, fragment = unquote(target).partition("#")
    file = (page.parent / path).resolve() if path else page
    if not file.is_relative_to(ROOT):
        return f"{target}: outside the project"
    if not file.exists():
        return f"{target}: no such file"
    if fragment and file.suffix == ".md" and fragment not in anchors_of(file):
        return f"{target}: no such heading"
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_resolve(page: Path) -> None:
    wrong = [found for target in targets(page.read_text("utf-8")) if (found := problem(page, target))]
    assert not wrong, "\n".join(wrong)


def test_paths_of_the_sources_are_there() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    paths = re.findall(r"`((?:\w+/)+(?:\w+\.py)?)`", text)
    assert len(paths) > 30
    assert not [path for path in paths if not (ROOT / "src" / "thinflow" / path).exists()]


def test_classes_are_where_the_page_says() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \(`([\w/]+\.py)`\)", text, re.MULTILINE)
    assert len(rows) == 6
    for name, path in rows:
        assert f"class {name}" in (ROOT / "src" / "thinflow" / path).read_text("utf-8")


def test_the_checker_itself() -> None:
    text = (
        '# A `b` c!\n[x](one.md "t") ![i](p.png)\n'
        "```\n[no](no.md)\n```\n`[no](no.md)`\n"
        "[r]: two.md#a-b-c\n## A b c\n"
    )
    assert targets(text) == ["one.md", "p.png", "two.md#a-b-c"]
    assert anchors(text) == {"a-b-c", "a-b-c-1"}
    page = ROOT / "CHANGELOG.md"
    assert problem(page, "CHANGELOG.md#unreleased") is None
    assert problem(page, "https://example.org/x") is None
    assert problem(page, "#nowhere") == "#nowhere: no such heading"
    assert problem(page, "nothing.md") == "nothing.md: no such file"
    assert problem(page, "../else.md") == "../else.md: outside the project"
