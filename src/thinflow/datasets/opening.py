"""A data set from a path, a URL or a pattern: which kind it is, and its shards."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from thinflow.datasets import places
from thinflow.datasets.shard import SHARD_SAMPLES, Damaged, Record, Shard
from thinflow.datasets.source import Source, sources
from thinflow.errors import FeedError, FormatError, ParameterError

# The magic of a tar archive stands at byte 257, behind the header of its first member.
_HEAD_BYTES = 512


@dataclass(frozen=True)
class Dataset:
    """Files of one kind, to be read shard by shard.

    Attributes:
        path: as it was given.
        files: those it stands for, in order; a folder of classes is one.
        shard_samples: samples of a shard, where the kind leaves the choice.
    """

    path: str
    files: tuple[str, ...]
    source: Source
    shard_samples: int = SHARD_SAMPLES

    is_stream = False

    def shards(self) -> Iterator[Shard]:
        """Its shards in order; the same ones each time, as long as the files stay what they are."""
        for file in self.files:
            try:
                yield from list(self.source.shards(file, self.shard_samples))
            except (FeedError, FormatError):
                # Of several, whoever reads the shard finds the damage, and names it.
                if len(self.files) == 1:
                    raise
                yield Shard(self.source.name, (file,), (places.version_of(file),))

    def records(self, shard: Shard) -> Iterator[Record | Damaged]:
        """The samples of a shard, in order."""
        return self.source.records(shard)


def open_dataset(path: str, shard_samples: int = SHARD_SAMPLES) -> Dataset:
    """The data set at a path or URL: a file, a folder, or a pattern such as `train-*.tar`.

    Raises:
        FeedError: there is nothing, it is of no known kind, or of several.
        ParameterError: no shard can have so few samples.
    """
    if shard_samples < 1:
        raise ParameterError(f"a shard of {shard_samples} samples is not possible", hint="give 1 or more")
    files = places.expanded(path)
    if len(files) == 1 and not places.exists(files[0]):
        raise FeedError("there is no such file or folder", files[0], "check the path")
    if len(files) == 1 and places.is_folder(files[0]):
        # Data files of one kind in a folder are that data set; any other folder is one of samples.
        inside, _ = places.listing(files[0])
        held = [file for file in inside if _kind_by_name(file) is not None]
        if not held:
            return Dataset(path, (files[0],), sources()["folder"], shard_samples)
        files = held
    # Each file is looked into: a folder of exports may hold a Parquet file beside the tars.
    kinds = {_kind(file) for file in files}
    if len(kinds) > 1:
        names = " and ".join(sorted(kind.name for kind in kinds))
        raise FeedError(f"there are files of several kinds: {names}", path, hint="name those of one kind")
    return Dataset(path, tuple(files), kinds.pop(), shard_samples)


def holds_collection(path: str) -> bool:
    """True for a file, or a folder with files, of a kind that holds many samples each."""
    if not places.is_folder(path):
        return _kind_by_name(path) is not None or _kind_of(path, _COLLECTIONS)
    return any(_kind_by_name(file) is not None for file in places.listing(path)[0])


def _kind_of(file: str, names: Collection[str]) -> bool:
    """Whether the content of a file is of one of some kinds."""
    try:
        return _kind(file).name in names
    except FeedError:
        return False


def _kind_by_name(file: str) -> Source | None:
    """The kind of data file that a name alone says; None for single samples and what is no data."""
    return next((s for s in sources().values() if s.name in _COLLECTIONS and s.claims(file, b"")), None)


# Kinds that hold many samples a file. A .npz in a folder may be one sample, as calibration has always taken
# it, and a CSV beside pictures says something of them.
_COLLECTIONS = ("parquet", "tfrecord", "webdataset")


def _kind(file: str) -> Source:
    with places.opened(file) as stream:
        head = stream.read(_HEAD_BYTES)
    for source in sources().values():
        if source.claims(file, head):
            return source
    known = ", ".join(source.what for source in sources().values())
    raise FeedError(
        f"samples cannot be read from a {places.suffix_of(file) or 'suffixless'} file",
        file,
        hint=f"give one of: {known}",
    )
