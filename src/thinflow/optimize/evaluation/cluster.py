"""Shards on workers: the same figures as `run_here` gives, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from thinflow.cluster.connecting import connected, require_same_versions
from thinflow.cluster.store import Store
from thinflow.cluster.tasks import Task, TaskRun
from thinflow.cluster.workers import held
from thinflow.datasets.shard import Shard
from thinflow.errors import EngineUnavailable, ParameterError, WriteError
from thinflow.optimize.evaluation.models import OpenModel
from thinflow.optimize.evaluation.running import Answers, Data, Told, stored_result
from thinflow.optimize.evaluation.shard_result import Merged, ShardResult, blank_result
from thinflow.optimize.evaluation.work import ShardWorker, Work
from thinflow.typing import Progress


def run_on_cluster(
    work: Work,
    opened: Sequence[OpenModel],
    data: Data,
    store: Store,
    check: Callable[[Merged], None],
    cluster: Any,
    progress: Progress | None = None,
) -> tuple[Merged, Answers]:
    """All shards, on workers; merged in order, as `run_here` gives them.

    Args:
        cluster: "local", "local:4", "tcp://HOST:PORT", or a client of Dask.

    Raises:
        EngineUnavailable: Dask is not installed, nobody answers, or a worker has another version.
        ParameterError: the work cannot be parted.
    """
    _require_parts(opened, data)
    # Names of files and numbers, some hundred bytes each; samples are read by workers alone.
    shards = list(data.shards())
    keys = [work.key(shard) if shard.files else f"{work.identity[:16]}-{n}" for n, shard in enumerate(shards)]
    told = Told(progress, shards)
    known = []
    for shard, key in _pairs(shards, keys):
        result = stored_result(store, key, work) if shard.files else None
        # What could not be read may be there now: a server that answers again, credentials that were set.
        known.append(result is not None and not result.failed)
        if known[-1]:
            told.shard(shard)
    # Those of a run that was stopped, or of another one that shares the store, are there and are taken as
    # they are: their names say that settings and samples are the same.
    left = [n for n, is_known in enumerate(known) if not is_known]
    if left:
        with connected(cluster) as client:
            require_same_versions(client)
            in_memory = None if shards[0].files else data
            run = TaskRun(client, JudgeJob(work.shipped(opened), in_memory), store)
            tasks = (Task(keys[n], shards[n], shards[n].place, bool(shards[n].files)) for n in left)
            # As they come, for refusals that the first shard shows; figures are put together in order,
            # below.
            for place, content in run.results(tasks):
                shard, result = shards[left[place]], ShardResult.of_content(content, work.metrics)
                assert result is not None
                told.shard(shard)
                first = Merged(len(work.models), work.metrics)
                first.add(result, shard.place)
                check(first)
    merged, answers = Merged(len(work.models), work.metrics), Answers(data, work, store, shards, keys)
    for shard, key in _pairs(shards, keys):
        merged.add(_kept(store, key, work), shard.place)
    answers.starts = merged.starts
    return merged, answers


def _pairs(shards: Sequence[Shard], keys: Sequence[str]) -> Iterator[tuple[Shard, str]]:
    return zip(shards, keys, strict=True)


def _kept(store: Store, key: str, work: Work) -> ShardResult:
    result = stored_result(store, key, work)
    if result is None:
        raise WriteError(
            "a result that was there is gone", store.path, hint="run it again with the same --store"
        )
    return result


def _require_parts(opened: Sequence[OpenModel], data: Data) -> None:
    if data.is_stream:
        raise ParameterError(
            "samples that can be walked once only cannot be parted among workers",
            hint="give files, or an object with __len__ and __getitem__",
        )
    holder = next((model for model in opened if model.keeps_state), None)
    if holder is not None:
        raise ParameterError(
            "each answer of this model depends on the samples before it, so that they cannot be parted",
            holder.source.path,
            hint="evaluate it without a cluster",
        )


@dataclass(frozen=True)
class JudgeJob:
    """A task is a shard, its result that of `ShardWorker`.

    Attributes:
        work: with all that other machines need.
        data: samples from Python, which are in no file.
    """

    work: Work
    data: Data | None = None

    name = "judge"

    @property
    def identity(self) -> str:
        return self.work.identity

    def run(self, argument: Shard) -> bytes:
        records = None if self.data is None else self.data.records(argument)
        return held(self.identity, lambda: ShardWorker(self.work)).run(argument, records).content()

    def is_sound(self, content: bytes) -> bool:
        return ShardResult.of_content(content, self.work.metrics) is not None

    def is_final(self, content: bytes) -> bool:
        found = ShardResult.of_content(content, self.work.metrics)
        return found is not None and not found.failed

    def lost(self, place: str, why: str) -> bytes:
        if self.work.strict:
            raise EngineUnavailable(f"the shard ended its workers: {why}", place)
        failed = f"{place}: it ended the workers that read it"
        return blank_result(len(self.work.models), self.work.metrics, failed).content()
