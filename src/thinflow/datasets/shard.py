"""Shards and records: what every source of samples is made of."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from thinflow.ir.brief import brief_repr

# A task of a cluster costs some ten milliseconds of scheduling, a sample of a small network a tenth of one:
# with a thousand samples the work is ten times what handing it out costs, and a shard that has to be run
# again loses little.
SHARD_SAMPLES = 1024
"""Samples of a shard where the source leaves the choice: seconds of work, and kilobytes of results."""


@brief_repr
@dataclass(frozen=True)
class Shard:
    """A part of a data set that anybody who reaches its files can read by itself; the same samples each time.

    Attributes:
        kind: name of the source that reads it.
        files: paths or URLs, in order.
        versions: of each file, as its store tells it: a checksum, or size and time of the last change.
        start: where reading begins in the file: a byte, a row or a row group, as the source counts.
        stop: where it ends; None for the end of the file.
        first: number of its first sample within the file.
        labels: of each file, where names of folders say them.
        size: how many samples it has, where that is known before it is read.
    """

    kind: str
    files: tuple[str, ...]
    versions: tuple[str, ...]
    # What start and stop count is the source's own business: a reader of Parquet seeks to a row group, one
    # of TFRecord to a byte, and neither could do with a number of samples.
    start: int = 0
    stop: int | None = None
    first: int = 0
    labels: tuple[str, ...] | None = None
    size: int | None = None

    @property
    def place(self) -> str:
        """What it is called in messages."""
        # Samples of Python are in no file.
        if not self.files:
            return f"samples from {self.start}"
        if len(self.files) > 1:
            return f"{self.files[0]} and {len(self.files) - 1} more files"
        return self.files[0] + (f", from sample {self.first}" if self.first else "")

    @property
    def identity(self) -> str:
        """Equal for equal samples: a hash of its address and of the version of every file."""
        # JSON, since `repr` may change with Python's version, and workers may have another.
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Record:
    """A sample as it is stored.

    Attributes:
        fields: name -> bytes, text, a number or an array. Content of a file has its suffix as a name: "jpg".
        place: file and number, for messages.
        label: where the source itself knows it.
    """

    fields: Mapping[str, Any] = field(repr=False)
    place: str
    label: Any = None


@dataclass(frozen=True)
class Damaged:
    """A sample that cannot be read, where those behind it can.

    Attributes:
        place: file and number.
        problem: what is wrong, in one sentence.
    """

    place: str
    problem: str
