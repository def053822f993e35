"""Kinds of sources, found by the files of `sources/`: each has a `SOURCE`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from thinflow.datasets.shard import Damaged, Record, Shard


@dataclass(frozen=True)
class Source:
    """How one kind of files is cut into shards, and read.

    Attributes:
        name: of the kind.
        what: in words, for messages.
        claims: path or URL of a file, and its first bytes -> whether it is of this kind.
        shards: the path, and samples of a shard as far as there is a choice -> its shards in order.
        records: the samples of a shard, in order.
        rank: the less, the earlier it is asked.
    """

    name: str
    what: str
    claims: Callable[[str, bytes], bool]
    shards: Callable[[str, int], Iterator[Shard]]
    records: Callable[[Shard], Iterator[Record | Damaged]]
    rank: int = 0


@cache
def sources() -> Mapping[str, Source]:
    """All kinds by name, in the order in which they are asked."""
    package = importlib.import_module("thinflow.datasets.sources")
    # Files are found by being there: a kind of source is a file, and nothing else is edited.
    modules = (
        importlib.import_module(f"{package.__name__}.{m.name}")
        for m in pkgutil.iter_modules(package.__path__)
        if not m.name.startswith("_")
    )
    found: list[Source] = [module.SOURCE for module in modules]
    return {source.name: source for source in sorted(found, key=lambda s: (s.rank, s.name))}


def records_of(shard: Shard) -> Iterator[Record | Damaged]:
    """The samples of a shard, in order, the same each time.

    Raises:
        FeedError, FormatError: it cannot be read, or has changed.
    """
    return sources()[shard.kind].records(shard)
