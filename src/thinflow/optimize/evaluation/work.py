"""The work on one shard, the same in this process and on another machine."""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from thinflow._version import __version__
from thinflow.datasets.fields import is_picture, unfolded
from thinflow.datasets.shard import Damaged, Record, Shard
from thinflow.datasets.source import records_of
from thinflow.errors import FeedError, FormatError, ParameterError, ThinflowError
from thinflow.ir.brief import brief_repr
from thinflow.optimize.evaluation.metric import Answered, MetricSpec
from thinflow.optimize.evaluation.models import ModelSource, OpenModel
from thinflow.optimize.evaluation.shard_result import (
    NO_ANSWER,
    ShardResult,
    blank_result,
    few_damaged,
)
from thinflow.optimize.quality import QualityMeter, is_ranked, top_answer
from thinflow.quantize.sample_files import Scaling, UnreadableSample
from thinflow.typing import Array

_FEW_WORDS = 20
_TOGETHER, _TOGETHER_BYTES = 64, 4 << 20
"""Samples that a device is asked about at once: enough to be worth the way there, and little in memory."""


@brief_repr
@dataclass(frozen=True)
class Work:
    """What is to be done with the samples of every shard.

    Attributes:
        models: those to judge, the first of which the others are compared with.
        labels: class names; None: those of each model.
        scaling: of pictures; None: as each model's file says.
        fields: see `Feeding`.
        metrics: what to measure besides right and equal answers.
        strict: whether what cannot be read is an error.
        device: what the machine is that runs the models, in words; "" for the one that reads the samples.
    """

    models: tuple[ModelSource, ...]
    labels: tuple[str, ...] | None = None
    scaling: Scaling | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    metrics: tuple[MetricSpec, ...] = ()
    strict: bool = False
    device: str = ""

    @cached_property
    def settings(self) -> dict[str, Any]:
        """What results depend on, besides the samples."""
        # What a device is called says nothing about it: results depend on its processor and runtime.
        place = {"device": self.device} if self.device else {}
        return place | {
            # Another version may round otherwise: its results are not mixed with those of this one.
            "version": __version__,
            "models": [
                [m.digest, "" if place else m.engine, _plain(m.options), m.names] for m in self.models
            ],
            "labels": self.labels,
            "scaling": None if self.scaling is None else asdict(self.scaling),
            "fields": dict(sorted(self.fields.items())),
            "metrics": [spec.identity for spec in self.metrics],
            "strict": self.strict,
        }

    @cached_property
    def identity(self) -> str:
        """A hash of the settings."""
        return hashlib.sha256(json.dumps(self.settings, sort_keys=True, default=list).encode()).hexdigest()

    def key(self, shard: Shard) -> str:
        """The name of the result of a shard: equal settings and equal samples have the same."""
        return hashlib.sha256(f"{self.identity} {shard.identity}".encode()).hexdigest()

    def shipped(self, opened: Sequence[OpenModel]) -> Work:
        """The same with all that other machines need: bytes of the models, and names of classes."""
        sources = (replace(model.source.shipped(), names=model.names) for model in opened)
        return replace(self, models=tuple(sources))


def _plain(options: Mapping[str, Any]) -> list[Any]:
    return [[name, str(value)] for name, value in sorted(options.items()) if value is not None]


def open_models(work: Work) -> list[OpenModel]:
    """The models, ready to run.

    Raises:
        ThinflowError: one cannot be opened.
    """
    return [OpenModel(source, work.labels, work.scaling, work.fields) for source in work.models]


class ShardWorker:
    """Runs the models over shards, opened once.

    Args:
        work: what is to be done.
        opened: the models, where they are open already.
    """

    def __init__(self, work: Work, opened: Sequence[OpenModel] | None = None) -> None:
        self.work = work
        if opened is None:
            # Models that came as bytes lie in files while they are used: runtimes map them. A worker keeps
            # this until other work comes, and nobody closes it.
            folder = tempfile.mkdtemp(prefix="thinflow-models-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            here = tuple(m.unpacked(folder) if m.content else m for m in work.models)
            opened = open_models(replace(work, models=here))
        self.models = list(opened or ())
        machine = platform.machine() or "unknown"
        self.engines = tuple(f"{model.engine} on {model.source.place or machine}" for model in self.models)

    def run(
        self,
        shard: Shard,
        records: Iterable[Record | Damaged] | None = None,
        told: Callable[[], None] | None = None,
    ) -> ShardResult:
        """The result of a shard; of one that cannot be read, why.

        Args:
            records: its samples; default: read from where it says.
            told: called after each sample.

        Raises:
            FeedError: the samples do not fit the models; or they cannot be read, and the work is strict.
            ThinflowError: a model or a metric failed.
        """
        shard_run = _ShardRun(self)
        walk = iter(records_of(shard) if records is None else records)
        while True:
            # What the source raises is about the shard, what the models raise about all samples: the one is
            # left out, the other ends the run.
            try:
                record = next(walk, None)
            except (FormatError, FeedError) as error:
                if self.work.strict or not shard.files:
                    raise
                return blank_result(len(self.models), self.work.metrics, failed=error.message)
            if record is None:
                shard_run.judge()
                return shard_run.result()
            shard_run.take(record)
            if told is not None:
                told()


@dataclass(frozen=True)
class _Sample:
    """A sample that is to be judged.

    Attributes:
        place: where it lies.
        feeds: of each model.
        given: its label, as it is stored.
        classes: what that is for each model.
        fields: all that it has, for metrics.
    """

    place: str
    feeds: list[dict[str, Array]]
    given: Any
    classes: list[int | None]
    fields: Mapping[str, Any]


class _ShardRun:
    """One walk over the samples of a shard."""

    def __init__(self, worker: ShardWorker) -> None:
        work = worker.work
        self.strict, self.models = work.strict, worker.models
        self.found = blank_result(len(self.models), work.metrics)
        self.found.engines = worker.engines
        self.found.meters = [QualityMeter() for _ in self.models]
        self.labels: list[int] = []
        self.answers: list[list[int]] = []
        self._waiting: list[_Sample] = []
        # Here each is answered at once; a device is not asked for one at a time.
        self._most = _TOGETHER if any(m.source.place for m in self.models) else 1
        self._bytes = 0

    def take(self, record: Record | Damaged) -> None:
        """One sample more; it is judged with those beside it."""
        if isinstance(record, Damaged):
            return self._lose(record.place, FeedError(record.problem, record.place))
        try:
            feeds = self._feeds(record)
        except UnreadableSample as error:
            return self._lose(record.place, error)
        first = self.models[0]
        given = first.feeding.label(record)
        classes = [
            model.class_of(given, record.place) if given is not None else None for model in self.models
        ]
        self._tell_label(given, classes[0])
        # Only metrics ask for the other fields; without any they are not taken apart.
        fields = unfolded(record, first.feeding.inputs) if self.found.metrics[0] else {}
        self._waiting.append(_Sample(record.place, feeds, given, classes, fields))
        self._bytes += sum(array.nbytes for feed in feeds for array in feed.values())
        if len(self._waiting) >= self._most or self._bytes >= _TOGETHER_BYTES:
            self.judge()

    def judge(self) -> None:
        """What the models answer to the samples that wait for it."""
        walks = [
            model.answers(sample.feeds[place] for sample in self._waiting)
            for place, model in enumerate(self.models)
        ]
        for sample in self._waiting:
            self._judge(sample, [next(walk) for walk in walks])
        self._waiting, self._bytes = [], 0

    def _judge(self, sample: _Sample, answers: Sequence[dict[str, Array]]) -> None:
        number = len(self.labels)
        base = answers[0]
        tops: list[int] = []
        for place, (model, outputs, label) in enumerate(
            zip(self.models, answers, sample.classes, strict=True)
        ):
            self._measure(place, base, outputs, label)
            scores = next(iter(outputs.values()), None)
            tops.append(top_answer(scores) if scores is not None and is_ranked(scores) else NO_ANSWER)
            answered = Answered(outputs, base, label, sample.given, sample.fields, model.names)
            for one in self.found.metrics[place]:
                _add(one, answered, sample.place)
        self.labels.append(-1 if sample.classes[0] is None else sample.classes[0])
        self.answers.append(tops)
        if any(_is_wrong(top, label, tops[0]) for top, label in zip(tops, sample.classes, strict=True)):
            self.found.wrong[number] = sample.place

    def _feeds(self, record: Record) -> list[dict[str, Array]]:
        """What each model is fed; made once for models that take the same."""
        # Float and eight-bit versions of a model take the same: pictures are decoded once.
        made: list[tuple[Any, dict[str, Array]]] = []
        feeds = []
        for model in self.models:
            feed = next((feed for feeding, feed in made if feeding == model.feeding), None)
            if feed is None:
                feed = model.feeding.feed(record)
                made.append((model.feeding, feed))
            feeds.append(feed)
        self.found.has_pictures = self.found.has_pictures or _is_picture(record)
        return feeds

    def _measure(
        self, place: int, base: dict[str, Array], outputs: dict[str, Array], label: int | None
    ) -> None:
        """Equal answers and noise, beside the first model; of outputs of other sizes the first alone
        counts.
        """
        before, after = list(base.values()), list(outputs.values())
        # A converter may drop an output that nobody reads; what both have is compared.
        pairs = [(a, b) for a, b in zip(before, after, strict=False) if a.size == b.size and _alike(a, b)]
        if not pairs or pairs[0][0] is not before[0]:
            raise FeedError(
                f"it gives {list(after[0].shape)} where the first model gives {list(before[0].shape)}",
                self.models[place].source.path,
                hint="compare models of the same classes, or name the outputs",
            )
        meter = self.found.meters[place]
        meter.ranked = is_ranked(before[0]) and is_ranked(after[0])
        meter.add([a for a, _ in pairs], [b for _, b in pairs], label)

    def _tell_label(self, given: Any, number: int | None) -> None:
        if given is None:
            return
        found = self.found
        found.labelled = (found.labelled[0] + 1, found.labelled[1] + (number is not None))
        found.named = found.named or (isinstance(given, str) and not given.isdecimal())
        if number is None and len(found.words) < _FEW_WORDS and str(given)[:40] not in found.words:
            found.words.append(str(given)[:40])

    def _lose(self, place: str, error: ThinflowError) -> None:
        if self.strict:
            error.hint = error.hint or "mend it, or leave out strict to go on without it"
            raise error if error.where else error.at(place)
        # Counted and named: an accuracy over what is left says how much that is.
        self.found.damaged_count += 1
        few_damaged(self.found.damaged, (place, error.problem))

    def result(self) -> ShardResult:
        """What was found."""
        self.found.labels = np.array(self.labels, np.int32)
        self.found.answers = np.array(self.answers, np.int32).reshape(-1, len(self.models)).T
        return self.found


def _alike(a: Array, b: Array) -> bool:
    return bool((a.dtype.kind == "f") == (b.dtype.kind == "f"))


def _is_wrong(top: int, label: int | None, first: int) -> bool:
    return top != NO_ANSWER and top != (first if label is None else label)


def _is_picture(record: Record) -> bool:
    return any(isinstance(value, bytes) and is_picture(value) for value in record.fields.values())


def _add(one: Any, sample: Answered, place: str) -> None:
    try:
        one.add(sample)
    except ThinflowError as error:
        raise (error if error.where else error.at(place)) from error
    # A class of somebody's own may fail in any way.
    except Exception as error:
        raise ParameterError(
            f"the metric {type(one).__name__} failed: {type(error).__name__}: {error}", place
        ) from error
