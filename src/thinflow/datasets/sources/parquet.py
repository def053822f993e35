"""Parquet tables: a row is a sample, its columns are fields; row groups are read one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from thinflow.datasets import places
from thinflow.datasets.shard import Damaged, Record, Shard
from thinflow.datasets.source import Source
from thinflow.errors import EngineUnavailable, FormatError

# Rows that are held at a time: of pictures, some megabytes.
_BATCH = 64


def _pyarrow(path: str) -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as e:
        raise EngineUnavailable("reading Parquet needs pyarrow", path, "pip install 'thinflow[data]'") from e
    return pyarrow, pyarrow.parquet


def _claims(path: str, head: bytes) -> bool:
    return places.suffix_of(path) in (".parquet", ".pq") or head[:4] == b"PAR1"


def shards(path: str, samples: int) -> Iterator[Shard]:
    """Neighbouring row groups, as many as make up that many rows."""
    arrow, parquet = _pyarrow(path)
    version = places.version_of(path)
    with places.opened(path) as file:
        try:
            about = parquet.ParquetFile(file).metadata
        except (arrow.ArrowException, OSError):
            # Whoever reads the shard finds the damage, and names it.
            yield Shard("parquet", (path,), (version,))
            return
        rows = [about.row_group(n).num_rows for n in range(about.num_row_groups)]
    start = first = held = 0
    for number, count in enumerate(rows):
        # Neighbours together: writers that stream make groups of a few rows.
        held += count
        if held >= samples or number + 1 == len(rows):
            yield Shard("parquet", (path,), (version,), start, number + 1, first, size=held)
            start, first, held = number + 1, first + held, 0


def records(shard: Shard) -> Iterator[Record | Damaged]:
    """The rows.

    Raises:
        FormatError: the file is damaged.
        EngineUnavailable: pyarrow is not installed.
    """
    (path,) = shard.files
    arrow, parquet = _pyarrow(path)
    places.require_unchanged(path, shard.versions[0])
    number = shard.first
    with places.opened(path) as file:
        try:
            table = parquet.ParquetFile(file)
            groups = range(shard.start, table.num_row_groups if shard.stop is None else shard.stop)
            for batch in table.iter_batches(_BATCH, row_groups=list(groups)):
                columns = {
                    name: _values(column) for name, column in zip(batch.schema.names, batch, strict=True)
                }
                for row in range(batch.num_rows):
                    yield Record({n: c[row] for n, c in columns.items()}, f"{path}, row {number}")
                    number += 1
        except (arrow.ArrowException, OSError) as error:
            raise FormatError(
                f"the table is damaged: {error}", f"{path}, row {number}", "fetch it again"
            ) from error


def _values(column: Any) -> list[Any]:
    """Numbers, texts, bytes, and lists of numbers as arrays; a picture of a Hugging Face data set as its
    bytes.
    """
    return [_plain(value) for value in column.to_pylist()]


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        # Hugging Face stores a picture as {bytes, path}.
        content = value.get("bytes")
        return content if isinstance(content, bytes) else value
    if isinstance(value, list):
        try:
            return np.array(value)
        # Rows of other lengths within one sample are no array.
        except ValueError:
            return value
    return value


SOURCE = Source("parquet", "Parquet", _claims, shards, records, rank=1)
