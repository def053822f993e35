"""Data sets of files and URLs as samples to calibrate with: read shard by shard, as they are evaluated."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from thinflow.datasets import places
from thinflow.datasets.fields import Feeding
from thinflow.datasets.opening import holds_collection, open_dataset
from thinflow.datasets.shard import Damaged, Record, Shard
from thinflow.datasets.source import records_of
from thinflow.errors import FeedError
from thinflow.ir.brief import brief_repr
from thinflow.quantize.feed_parts import FeedPart, identity_of
from thinflow.quantize.feeds import Feeds, spread
from thinflow.quantize.fitting import Inputs
from thinflow.quantize.sample_files import Scaling
from thinflow.typing import Array

_SHOWN = 3


def is_dataset(path: str) -> bool:
    """True for URLs, patterns, and files and folders of TFRecord, Parquet or WebDataset."""
    return places.is_url(path) or not os.path.exists(path) or holds_collection(path)


def dataset_feeds(
    path: str, inputs: Inputs, scaling: Scaling | None, limit: int | None
) -> tuple[Feeds, list[str]]:
    """The samples of a data set, and sentences on those that cannot be read. They are counted in a walk.

    Args:
        inputs, scaling, limit: as for `open_feeds`.

    Raises:
        FeedError: there are none, or they do not fit.
    """
    data, feeding = open_dataset(path), Feeding(inputs, scaling or Scaling())
    found: list[tuple[Shard, int]] = []
    names: list[str] = []
    labels, damaged = [], []
    for shard in data.shards():
        for number, record in enumerate(data.records(shard)):
            if isinstance(record, Damaged):
                damaged.append(f"{record.place}: {record.problem}")
                continue
            found.append((shard, number))
            names.append(os.path.basename(record.place))
            labels.append(feeding.label(record))
    if not found:
        raise FeedError(f"no sample could be read: {damaged[0]}" if damaged else "there are no samples", path)
    has_labels = all(label is not None for label in labels)
    chosen = spread(len(found), limit, labels if has_labels else None)

    def part(numbers: Sequence[int]) -> FeedPart:
        return DatasetPart.of([found[chosen[n]] for n in numbers], feeding)

    def walk() -> Iterator[dict[str, Array]]:
        return iter(DatasetPart.of([found[n] for n in chosen], feeding))

    feeds = Feeds(
        walk,
        len(chosen),
        [labels[n] for n in chosen] if has_labels else None,
        total=len(found),
        places=[names[n] for n in chosen],
        may_be_odd=True,
        part=part,
    )
    return feeds, _left_out(damaged)


def _left_out(damaged: Sequence[str]) -> list[str]:
    if not damaged:
        return []
    more = f" and {len(damaged) - _SHOWN} more" if len(damaged) > _SHOWN else ""
    return [f"samples that cannot be read were left out: {'; '.join(damaged[:_SHOWN])}{more}"]


@brief_repr
@dataclass(frozen=True)
class DatasetPart:
    """Some samples of some shards.

    Attributes:
        shards: each with the numbers of its samples that are wanted, rising.
        feeding: how a record becomes what a model is fed.
    """

    shards: Sequence[tuple[Shard, Sequence[int]]]
    feeding: Feeding

    @classmethod
    def of(cls, samples: Sequence[tuple[Shard, int]], feeding: Feeding) -> DatasetPart:
        """Those of shards and numbers, in order."""
        grouped: list[tuple[Shard, list[int]]] = []
        for shard, number in samples:
            if not grouped or grouped[-1][0] is not shard:
                grouped.append((shard, []))
            grouped[-1][1].append(number)
        return cls(grouped, feeding)

    @property
    def identity(self) -> str:
        specs = {name: str(spec) for name, spec in self.feeding.inputs.items()}
        wanted = [(shard.identity, list(numbers)) for shard, numbers in self.shards]
        return identity_of(wanted, specs, asdict(self.feeding.scaling), dict(self.feeding.fields))

    def __iter__(self) -> Iterator[dict[str, Array]]:
        for shard, numbers in self.shards:
            wanted, last = set(numbers), numbers[-1]
            for number, record in enumerate(records_of(shard)):
                if number in wanted and isinstance(record, Record):
                    yield self.feeding.feed(record)
                if number == last:
                    break
