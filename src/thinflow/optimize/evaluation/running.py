"""Shards one after the other in this process; results that are stored already are taken from there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from thinflow.cluster.store import Store
from thinflow.datasets.shard import Damaged, Record, Shard
from thinflow.errors import FeedError
from thinflow.ir.brief import brief_repr
from thinflow.optimize.evaluation.shard_result import Merged, ShardResult
from thinflow.optimize.evaluation.work import ShardWorker, Work
from thinflow.typing import Progress


class Data(Protocol):
    """Samples in shards: a `Dataset` of files, or `Items` from Python.

    Attributes:
        path: where they lie; "" if in memory.
        is_stream: whether they can be walked once only.
    """

    @property
    def path(self) -> str: ...
    @property
    def is_stream(self) -> bool: ...
    def shards(self) -> Iterator[Shard]:
        """Its shards, in order."""

    def records(self, shard: Shard) -> Iterator[Record | Damaged]:
        """The samples of a shard, in order."""


@brief_repr
@dataclass
class Answers:
    """Where the answers to single samples are: the results of all shards, in order.

    Attributes:
        starts: number of the first sample of each shard.
    """

    data: Data
    work: Work
    store: Store
    shards: list[Shard] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)

    def results(self) -> Iterator[tuple[int, ShardResult]]:
        """Number of the first sample and result of each shard, one at a time."""
        for start, key in zip(self.starts, self.keys, strict=True):
            found = stored_result(self.store, key, self.work)
            if found is None:
                raise FeedError("a result is gone that was there", self.store.path, "run it again")
            yield start, found


def stored_result(store: Store, key: str, work: Work) -> ShardResult | None:
    """The result of that key; None if there is none, or none that can be read."""
    content = store.get(key)
    return None if content is None else ShardResult.of_content(content, work.metrics)


class Told:
    """Progress over samples where it is known how many there are, else over shards."""

    def __init__(self, progress: Progress | None, shards: Sequence[Shard] | None) -> None:
        sizes = [shard.size for shard in shards or ()]
        known = [size for size in sizes if size is not None]
        self._progress, self._by_sample = progress, bool(sizes) and len(known) == len(sizes)
        self._total = sum(known) if self._by_sample else len(sizes)
        self._done = 0
        self._tell()

    def _tell(self) -> None:
        if self._progress is not None and self._total:
            done = min(self._done, self._total)
            self._progress(done, self._total, "judge samples" if self._by_sample else "judge shards")

    def sample(self) -> None:
        """One sample more."""
        if self._by_sample:
            self._done += 1
            self._tell()

    def shard(self, shard: Shard, *, counted: bool = False) -> None:
        """A shard more, whose samples were told one by one if they are counted."""
        if not self._by_sample:
            self._done += 1
        elif not counted:
            self._done += shard.size or 0
        else:
            return
        self._tell()


def run_here(
    worker: ShardWorker,
    data: Data,
    store: Store,
    check: Callable[[Merged], None],
    progress: Progress | None = None,
) -> tuple[Merged, Answers]:
    """All shards, in order.

    Args:
        check: refuses what the first shards show to be of no use.
    """
    work = worker.work
    merged = Merged(len(work.models), work.metrics)
    answers = Answers(data, work, store)
    # Listed before anything runs: only so there is a total, and time left.
    listed = None if data.is_stream else list(data.shards())
    told = Told(progress, listed)
    for number, shard in enumerate(data.shards() if listed is None else listed):
        # Python's objects have no version by which they could be known again.
        is_kept = store.is_lasting and bool(shard.files)
        key = (
            work.key(shard)
            if is_kept
            else f"{work.identity[:16]}-{number}"
            if store.is_lasting
            else str(number)
        )
        result = stored_result(store, key, work) if is_kept else None
        # What could not be read may be there now: a server that answers again, credentials that were set.
        known = result is not None and not result.failed
        if result is None or result.failed:
            result = worker.run(shard, data.records(shard), told.sample)
            # Also where nobody asked for a store: lists of wrong samples are read from it, one shard at a
            # time, so that memory holds counts alone.
            store.put(key, result.content())
        told.shard(shard, counted=not known and not result.failed)
        merged.add(result, shard.place)
        answers.shards.append(shard)
        answers.keys.append(key)
        check(merged)
    answers.starts = merged.starts
    return merged, answers
