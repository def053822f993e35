"""CSV: a row is a sample. A column `path` names a file whose content it is; others are numbers and labels.

path,label                 label,x_0,x_1,x_2            cats/1.jpg,cat
cats/1.jpg,cat             cat,0.5,1.0,-2               dogs/7.jpg,dog
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Sequence
from typing import IO

from thinflow.datasets import places
from thinflow.datasets.shard import Damaged, Record, Shard
from thinflow.datasets.source import Source
from thinflow.errors import FeedError, FormatError

_PATHS = ("path", "file", "filename", "filepath", "image_path")
_LABEL = "label"


def _claims(path: str, head: bytes) -> bool:
    del head
    return places.suffix_of(path) in (".csv", ".tsv")


def _rows(file: IO[bytes], path: str) -> Iterator[list[str]]:
    # With a mark of UTF-8 in front or without: spreadsheets put one there.
    text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    try:
        reader = csv.reader(text, delimiter="\t" if places.suffix_of(path) == ".tsv" else ",")
        yield from (row for row in reader if any(cell.strip() for cell in row))
    except (UnicodeDecodeError, csv.Error) as error:
        raise FormatError(f"the table cannot be read: {error}", path) from error
    finally:
        # What was wrapped is closed by whoever opened it, who may have done so already.
        if not file.closed:
            text.detach()


def shards(path: str, samples: int) -> Iterator[Shard]:
    """So many rows each."""
    version = places.version_of(path)
    with places.opened(path) as file:
        rows = _rows(file, path)
        first = next(rows, None)
        if first is None:
            raise FeedError("there are no samples", path, hint="give a row for each")
        count = sum(1 for _ in rows) + (_header(first, path) is None)
    if not count:
        raise FeedError("there are no samples", path, hint="give a row for each")
    for start in range(0, count, samples):
        stop = min(start + samples, count)
        yield Shard("table", (path,), (version,), start, stop, start, size=stop - start)


def _header(row: Sequence[str], path: str) -> list[str] | None:
    """The names of the columns in a first row; None if it is a sample already."""
    names = [cell.strip() for cell in row]
    if any(name.lower() in (*_PATHS, _LABEL, "labels") for name in names):
        return names
    is_sample = _are_numbers(names) or places.exists(places.beside(path, names[0]))
    return None if is_sample else names


def _are_numbers(cells: Sequence[str]) -> bool:
    try:
        return bool([float(cell) for cell in cells])
    except ValueError:
        return False


def records(shard: Shard) -> Iterator[Record | Damaged]:
    """The rows, each with the content of the file that it names.

    Raises:
        FormatError, FeedError: the table is damaged, empty, or has changed.
    """
    (path,) = shard.files
    places.require_unchanged(path, shard.versions[0])
    with places.opened(path) as file:
        rows = _rows(file, path)
        first = next(rows, None)
        if first is None:
            raise FeedError("there are no samples", path, hint="give a row for each")
        header = _header(first, path)
        if header is None:
            header = [""] * len(first)
            rows = _behind(first, rows)
            # Without a header the first column is the path and the last the label, as lists of files are
            # written.
            if not _are_numbers(first):
                header[0], header[-1] = "path", _LABEL if len(first) > 1 else "path"
        for number, row in enumerate(rows):
            if shard.stop is not None and number >= shard.stop:
                return
            if number >= shard.start:
                yield _record(row, header, path, number)


def _behind(first: list[str], rows: Iterator[list[str]]) -> Iterator[list[str]]:
    yield first
    yield from rows


def _record(row: Sequence[str], header: Sequence[str], path: str, number: int) -> Record | Damaged:
    where = f"{path}, row {number}"
    if len(row) != len(header):
        return Damaged(where, f"it has {len(row)} columns, and others have {len(header)}")
    fields = {name or f"_{n}": row[n].strip() for n, name in enumerate(header)}
    named = next((name for name in header if name.lower() in _PATHS), None)
    if named is None:
        return Record(fields, where)
    file = places.beside(path, fields.pop(named))
    try:
        content = places.read_bytes(file)
    except FeedError as error:
        return Damaged(file, f"{error.problem} ({os.path.basename(path)}, row {number})")
    return Record({**fields, places.suffix_of(file).removeprefix("."): content}, file)


SOURCE = Source("table", "CSV", _claims, shards, records, rank=5)
