"""Folders of files, a sample each: `LABEL_something.wav`, or a folder for each class."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from thinflow.datasets import places
from thinflow.datasets.shard import Damaged, Record, Shard
from thinflow.datasets.source import Source
from thinflow.errors import FeedError
from thinflow.quantize.sample_files import ARRAYS, PICTURES, SOUNDS

_USABLE = PICTURES | SOUNDS | ARRAYS


def shards(folder: str, samples: int) -> Iterator[Shard]:
    """The files in order of their names, so many in each shard."""
    files = _files(folder)
    while some := list(islice(files, samples)):
        # With the files and not beside them: a shard goes to another machine, which sees no listing.
        labels = tuple(label for _, label in some if label is not None)
        paths = tuple(path for path, _ in some)
        versions = tuple(map(places.version_of, paths))
        yield Shard(
            "folder", paths, versions, labels=labels if len(labels) == len(paths) else None, size=len(paths)
        )


def _files(folder: str) -> Iterator[tuple[str, str | None]]:
    """Files with their labels. Of folders in it one after the other is listed."""
    files, folders = places.listing(folder)
    usable = _usable(files)
    if usable:
        # One file without the mark, and names are no labels: a part of them could not be compared.
        marked = all("_" in places.name_of(file) for file in usable)
        for file in usable:
            yield file, places.name_of(file).split("_", 1)[0] if marked else None
        return
    is_empty = True
    for inner in folders:
        # One folder at a time: a data set of a thousand classes has a million names.
        for file in _usable(places.listing(inner)[0]):
            is_empty = False
            yield file, places.name_of(inner)
    if is_empty:
        raise FeedError("the folder has no samples", folder, f"put files there: {' '.join(sorted(_USABLE))}")


def _usable(files: list[str]) -> list[str]:
    return [file for file in files if places.suffix_of(file) in _USABLE]


def records(shard: Shard) -> Iterator[Record | Damaged]:
    """Each file, whole."""
    for number, file in enumerate(shard.files):
        try:
            content = places.read_bytes(file)
        except FeedError as error:
            yield Damaged(file, error.problem)
            continue
        label = None if shard.labels is None else shard.labels[number]
        yield Record({places.suffix_of(file).removeprefix("."): content}, file, label)


def _claims(path: str, head: bytes) -> bool:
    del head
    return places.suffix_of(path) in PICTURES | SOUNDS


def _shards_of(path: str, samples: int) -> Iterator[Shard]:
    if places.is_folder(path):
        yield from shards(path, samples)
    else:
        yield Shard("folder", (path,), (places.version_of(path),), size=1)


SOURCE = Source("folder", "a folder", _claims, _shards_of, records, rank=9)
