"""The HTML around a page's data and scripts, and results that can be shown so."""

from __future__ import annotations

import base64
import csv
import gzip
import html
import io
import json
import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from thinflow._version import __version__
from thinflow.errors import EngineUnavailable, PagesUnavailable
from thinflow.formats.files import write_file
from thinflow.pages.assets import FOLDER, asset

if TYPE_CHECKING:
    import pandas  # type: ignore[import-not-found, import-untyped, unused-ignore]
    import pyarrow  # type: ignore[import-not-found, import-untyped, unused-ignore]

    from thinflow.pages.report import ReportDocument

# Nothing may be loaded from anywhere, so that a page shown to others tells nobody; workers come as blobs.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; media-src data: blob:; worker-src blob:; form-action 'none'; base-uri 'none'"
)


# What the data of a page stands behind.
_DATA = b'<script type="application/gzip" id="data">'


def page(kind: str, title: str, data: Any) -> bytes:
    """A page of one file.

    Args:
        kind: which scripts: a folder with a main.ts under `pages/` of the sources ("explorer", "report").
        title: of the window; any text.
        data: what the scripts show, made of what JSON holds; no NaN or infinity.

    Raises:
        PagesUnavailable: the scripts were not built.
        ValueError: the data holds what JSON cannot.
    """
    style, script = asset(f"{kind}.css"), asset(f"{kind}.js")
    worker = asset(f"{kind}-worker.js") if (FOLDER / f"{kind}-worker.js").exists() else None
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta name="generator" content="thinflow {__version__}">',
        f"<title>{html.escape(title)}</title>",
        f"<style>{style.replace('</', '<' + chr(92) + '/')}</style></head><body>",
        "<noscript>This page draws itself with a script, which this browser does not run.</noscript>",
        f"{_DATA.decode()}{packed(data)}</script>",
    ]
    if licences := asset(f"{kind}.licenses.txt"):
        # Of the libraries in the scripts: each asks that its notice goes where its code goes.
        parts.append(f'<template id="licenses">{html.escape(licences)}</template>')
    if worker is not None:
        parts.append(f'<script type="text/plain" id="worker">{_inside_script(worker)}</script>')
    parts.append(f"<script>{_inside_script(script)}</script></body></html>\n")
    return "\n".join(parts).encode("utf-8", "replace")


def packed(data: Any) -> str:
    """JSON as gzip in base64: small, and no text in it can end the element that holds it."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # A surrogate alone, as names of files have them, becomes the escape by which JSON knows it.
    data_bytes = text.encode("utf-8", "backslashreplace")
    # Without the time of day, so that the same data gives the same page.
    return base64.b64encode(gzip.compress(data_bytes, 6, mtime=0)).decode()


def data_of(html_page: bytes) -> Any:
    """The data inside a page that `page` made: what its scripts show, without them.

    Raises:
        ValueError: these bytes are no such page.
    """
    start = html_page.index(_DATA) + len(_DATA)
    return json.loads(gzip.decompress(base64.b64decode(html_page[start : html_page.index(b"<", start)])))


def _inside_script(code: str) -> str:
    """Code that cannot end the element it stands in; the bundler writes no `<!--`, which could, too."""
    return code.replace("</script", "<\\/script")


class Paged(ABC):
    """A result with a page to look at: one file with everything in it, to be opened from a mail."""

    @abstractmethod
    def document(self) -> ReportDocument:
        """What the page shows, block by block."""

    def save_html(self, path: str | os.PathLike[str]) -> int:
        """Write the page; the bytes written.

        Raises:
            PagesUnavailable: the package was installed without the scripts of its pages.
            WriteError: it cannot be written.
        """
        return save_document(self.document(), path)


class Tabular(ABC):
    """A result that is a table, also for other programs."""

    @abstractmethod
    def rows(self) -> list[dict[str, Any]]:
        """Flat rows with the same columns: name -> text or number, None where something is not known."""

    def to_csv(self) -> str:
        """The rows as CSV, with the names of the columns in the first line."""
        rows = self.rows()
        text = io.StringIO()
        writer = csv.DictWriter(text, list(rows[0]) if rows else ["name"], lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
        return text.getvalue()

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a DataFrame.

        Raises:
            EngineUnavailable: pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise EngineUnavailable("pandas is not installed", hint="pip install pandas") from error
        return pandas.DataFrame(self._plain_rows())

    def to_arrow(self) -> pyarrow.Table:
        """The rows as a table of Arrow.

        Raises:
            EngineUnavailable: pyarrow is not installed.
        """
        try:
            import pyarrow
        except ImportError as error:
            raise EngineUnavailable("pyarrow is not installed", hint="pip install pyarrow") from error
        return pyarrow.Table.from_pylist(self._plain_rows())

    def _plain_rows(self) -> list[dict[str, Any]]:
        return [{name: _plain(value) for name, value in row.items()} for row in self.rows()]


def _cell(value: Any) -> Any:
    # A spreadsheet takes a text that begins so for a formula.
    return f"'{value}" if isinstance(value, str) and value[:1] in tuple("=+-@") else value


def _plain(value: Any) -> Any:
    """What a column of Arrow can hold: names of files may be no text, and FLOPs of no size."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return float(value) if isinstance(value, int) and abs(value) >= 1 << 63 else value


def save_document(document: ReportDocument, path: str | os.PathLike[str]) -> int:
    """Write the page of a document; the bytes written.

    Raises:
        PagesUnavailable: the package was installed without the scripts of its pages.
        WriteError: it cannot be written.
    """
    return write_file(path, [document_page(document)])


def document_page(document: ReportDocument) -> bytes:
    """The page of a document, a file's content."""
    from thinflow.pages.report import document_data

    return page("report", f"{document.title}: {document.verdict}"[:200], document_data(document))


def why_no_pages() -> str:
    """Why no page can be written, with what helps; "" if it can."""
    try:
        require_pages()
    except PagesUnavailable as error:
        return f"{error.problem}; {error.hint.partition(';')[0]}"
    return ""


def require_pages() -> None:
    """Make sure that pages can be written: before a long run, and not after it.

    Raises:
        PagesUnavailable: the package was installed without the scripts of its pages.
    """
    asset("report.js")
