"""Hooks of mkdocs: pages that lie outside docs/, and the reference of the Python API.

The Markdown files are read on a code host, too, so links in them go from file to file of the repository; here
they are turned to where the page is on the site.
"""

from __future__ import annotations

import inspect
import posixpath
import re
from pathlib import Path
from typing import Any

from _api_groups import grouped
from _gallery import entries, listing
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import thinflow

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
ELSEWHERE = {"README.md": "tutorial.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Pages at the root of the repository, and where they are on the site."""

GALLERY = "<!-- gallery -->"
"""Where in gallery.md the links to its pages stand."""
NAV_GLOB = "*.md"
"""What stands for all pages of a folder in the nav; a folder without pages is left out."""

_LINK = re.compile(r"(?<=\]\()(?![a-z][a-z0-9+.-]*:|#|/)([^\s)#]+)(#[^\s)]*)?(?=[\s)])")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.nav = expanded(config.nav or [])
    return config


def expanded(nav: list[Any]) -> list[Any]:
    """A nav with the pages of a folder in the place of `folder/*.md`, `index.md` first."""
    entries: list[Any] = []
    for entry in nav:
        title, child = next(iter(entry.items())) if isinstance(entry, dict) else (None, entry)
        if isinstance(child, list):
            entries.append({title: expanded(child)})
        elif child.endswith(NAV_GLOB):
            pages = [p.relative_to(DOCS).as_posix() for p in (DOCS / child).parent.glob(NAV_GLOB)]
            pages.sort(key=lambda page: (not page.endswith("index.md"), page))
            entries += [{title: pages}] if pages else []
        else:
            entries.append(entry)
    return entries


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for source, page in ELSEWHERE.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text("utf-8")))
    for example in sorted((ROOT / "examples").glob("*.py")):
        files.append(File.generated(config, f"examples/{example.name}", abs_src_path=str(example)))
    files.append(File.generated(config, "assets/iframe-worker.js", content=search_worker()))
    files.append(File.generated(config, "api.md", content=api_reference()))
    made = list(entries())
    for entry in made:
        files.append(File.generated(config, f"gallery/{entry.file}", content=entry.page))
    config.extra["gallery"] = listing(made)
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    at = page.file.src_uri
    markdown = markdown.replace(GALLERY, config.extra["gallery"])
    source = next((name for name, moved in ELSEWHERE.items() if moved == at), f"docs/{at}")
    return _LINK.sub(lambda m: link(m[1], source, at) + (m[2] or ""), markdown)


def link(target: str, source: str, page: str) -> str:
    """A link of a file of the repository, as the page of the site has to write it.

    Args:
        target: relative to the file, without the fragment.
        source: the file, from the root of the repository.
        page: where it is on the site.
    """
    file = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    moved = ELSEWHERE.get(file) or file.removeprefix("docs/")
    return posixpath.relpath(moved, posixpath.dirname(page) or ".")


def search_worker() -> str:
    """Script that lets the search of a page opened from a folder run; nothing where npm did not bring it."""
    file = ROOT / "pages" / "node_modules" / "iframe-worker" / "shim" / "index.js"
    if not file.is_file():
        return ""
    licence = (file.parents[1] / "LICENSE").read_text("utf-8")
    return f"/*\n{licence}*/\n{file.read_text('utf-8')}"


def api_reference() -> str:
    """Markdown that has mkdocstrings write every public name, by its own docstring."""
    lines = [
        "# Every name of the Python API",
        "",
        "The public names, from the docstrings of the sources. [Python](python-api.md) shows them at work.",
        "",
    ]
    for title, names in grouped(list(thinflow.__all__)).items():
        found = {name: getattr(thinflow, name) for name in names}
        lines += [f"## {title}", "", "| name | what it is |", "|---|---|"]
        lines += [f"| [`{name}`][{home(it)}] | {first_sentence(it)} |" for name, it in found.items()]
        lines.append("")
        for name, it in found.items():
            options = [f"      heading: {name}", f"      toc_label: {name}"]
            lines += [f"::: {home(it)}", "    options:", *options, ""]
    return "\n".join(lines)


def first_sentence(found: Any) -> str:
    """What the docstring says first."""
    text = " ".join((inspect.getdoc(found) or "").partition("\n\n")[0].split())
    return text.replace("|", "\\|").replace("<", "&lt;")


def home(found: Any) -> str:
    """Where a public function or class is defined."""
    return f"{found.__module__}.{found.__qualname__}"
