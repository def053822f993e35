"""Arrays in .npy and .npz files: entry i along the first axis is a sample."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator

from thinflow.datasets import places
from thinflow.datasets.shard import Damaged, Record, Shard
from thinflow.datasets.source import Source
from thinflow.errors import FeedError, FormatError
from thinflow.quantize.stored import UNREADABLE, Stored

# What is packed can be read from its beginning only: with more shards most of the time would go into that.
_MOST_PACKED = 16


def _claims(path: str, head: bytes) -> bool:
    return places.suffix_of(path) in (".npy", ".npz") or head[:6] == b"\x93NUMPY"


def shards(path: str, samples: int) -> Iterator[Shard]:
    """So many rows each; more where rows are packed."""
    version = places.version_of(path)
    stored, is_packed = _members(path, version)
    count = len(next(iter(stored.values())))
    # Whole shards: how many there are must not depend on how many workers there will be.
    step = max(samples, -(-count // _MOST_PACKED)) if is_packed else samples
    for start in range(0, count, step):
        stop = min(start + step, count)
        yield Shard("arrays", (path,), (version,), start, stop, start, size=stop - start)


def records(shard: Shard) -> Iterator[Record | Damaged]:
    """A row of each array by its name; of a .npy file the field is called "npy".

    Raises:
        FeedError: the file is damaged, or has changed.
    """
    (path,) = shard.files
    places.require_unchanged(path, shard.versions[0])
    stored, _ = _members(path, shard.versions[0])
    stop = len(next(iter(stored.values()))) if shard.stop is None else shard.stop
    rows = [one.rows(shard.start, stop) for one in stored.values()]
    try:
        for number, row in enumerate(zip(*rows, strict=True), shard.start):
            yield Record(dict(zip(stored, row, strict=True)), f"{path}, sample {number}")
    except FeedError as error:
        # A file that ends too early is a damaged shard, and no sample that does not fit.
        raise FormatError(error.problem, error.where, error.hint) from error


def _members(path: str, version: str) -> tuple[dict[str, Stored], bool]:
    """Arrays by name, with as many samples each, and whether they are packed.

    Raises:
        FeedError: the file is damaged, or no such arrays are in it.
    """
    file = places.local_file(path, version)
    if places.suffix_of(path) != ".npz":
        return {"npy": Stored(file, None)}, False
    try:
        with zipfile.ZipFile(file) as archive:
            inside = [i for i in archive.infolist() if i.filename.endswith(".npy")]
    except UNREADABLE as e:
        raise FeedError(f"the file cannot be read: {e}", path, hint="fetch it again") from e
    stored = {i.filename.removesuffix(".npy"): Stored(file, i.filename) for i in inside}
    counts = {name: len(one) for name, one in stored.items()}
    if len(set(counts.values())) > 1:
        hint = "give as many for each, and a label for each sample"
        raise FeedError(f"the arrays have different numbers of samples: {counts}", path, hint)
    if not stored:
        raise FeedError("there are no samples", path, hint="give at least one array")
    return stored, any(i.compress_type != zipfile.ZIP_STORED for i in inside)


SOURCE = Source("arrays", ".npy and .npz", _claims, shards, records, rank=4)
