"""What the samples of a shard gave: merged in order, the shards are what one process finds, bit for bit."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from thinflow.ir.brief import brief_repr
from thinflow.optimize.evaluation.metric import Metric, MetricSpec, metric_state, restored
from thinflow.optimize.quality import QualityMeter
from thinflow.typing import Array

# Another number, and results of older versions are computed anew instead of misread.
_FORMAT = 1
_FEW = 20
NO_ANSWER = -2
"""In place of an answer where the output is no row of scores; -1 is one of NaN, and no label."""


@brief_repr
@dataclass
class ShardResult:
    """Counts, exact sums and answers of the samples of a shard, for all models.

    Attributes:
        meters: of each model, beside the first one.
        metrics: of each model, in the order in which they were asked for.
        labels: int32 [samples] classes; -1 without one.
        answers: int32 [models, samples] top answers, in the order of the samples.
        wrong: number of a sample within the shard -> where it lies, for those that a model got wrong.
        words: of labels that are no classes: a few of them.
        labelled: samples with any label, and those with the number of a class.
        named: whether a label was a word.
        has_pictures: whether numbers were made of pictures.
        damaged: where samples could not be read, and why: the first ones.
        damaged_count: how many.
        failed: why the shard could not be read at all; "" if it could.
        engines: that ran the models, with the kind of machine.
    """

    meters: list[QualityMeter]
    metrics: list[list[Metric]]
    labels: Array
    answers: Array
    wrong: dict[int, str] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)
    labelled: tuple[int, int] = (0, 0)
    named: bool = False
    has_pictures: bool = False
    damaged: list[tuple[str, str]] = field(default_factory=list)
    damaged_count: int = 0
    failed: str = ""
    engines: tuple[str, ...] = ()

    @property
    def samples(self) -> int:
        """How many were judged."""
        return int(self.labels.size)

    def content(self) -> bytes:
        """All of it as JSON, to be stored and sent."""
        return json.dumps(
            {
                "format": _FORMAT,
                "meters": [meter.state() for meter in self.meters],
                "metrics": [[metric_state(one) for one in row] for row in self.metrics],
                "models": len(self.meters),
                "labels": _packed(self.labels),
                "answers": _packed(self.answers),
                "wrong": list(self.wrong.items()),
                "words": self.words,
                "labelled": self.labelled,
                "named": self.named,
                "has_pictures": self.has_pictures,
                "damaged": self.damaged,
                "damaged_count": self.damaged_count,
                "failed": self.failed,
                "engines": self.engines,
            }
        ).encode()

    @classmethod
    def of_content(cls, content: bytes, metrics: Sequence[MetricSpec]) -> ShardResult | None:
        """The result that was stored; None if the content is damaged or of another version."""
        try:
            found = json.loads(content)
            if found["format"] != _FORMAT:
                return None
            # Whatever is damaged in it ends in one of the errors below, and the shard is judged again.
            answers = _unpacked(found["answers"])
            return cls(
                [QualityMeter.of_state(state) for state in found["meters"]],
                [
                    [restored(spec.make(), state) for spec, state in zip(metrics, row, strict=True)]
                    for row in found["metrics"]
                ],
                _unpacked(found["labels"]),
                answers.reshape(found["models"], -1),
                {int(number): place for number, place in found["wrong"]},
                found["words"],
                (found["labelled"][0], found["labelled"][1]),
                found["named"],
                found["has_pictures"],
                [(place, problem) for place, problem in found["damaged"]],
                found["damaged_count"],
                found["failed"],
                tuple(found["engines"]),
            )
        except (ValueError, KeyError, TypeError, IndexError, zlib.error):
            return None


def _packed(array: Array) -> str:
    return base64.b64encode(zlib.compress(array.astype("<i4").tobytes())).decode()


def _unpacked(text: str) -> Array:
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), "<i4")


class Merged:
    """The results of shards, added up in their order; answers are counted and let go.

    Attributes:
        samples: judged so far.
        starts: number of the first sample of each shard.
        failed: shards that could not be read, by what they are called: why.
    """

    def __init__(self, models: int, metrics: Sequence[MetricSpec]) -> None:
        # In the order of the shards, always: the first wrong samples of all are those of the first shards.
        self.meters = [QualityMeter() for _ in range(models)]
        self.metrics = [[spec.make() for spec in metrics] for _ in range(models)]
        self.samples = self.damaged_count = 0
        self.labelled = (0, 0)
        self.named = self.has_pictures = False
        self.words: list[str] = []
        self.damaged: list[tuple[str, str]] = []
        self.failed: dict[str, str] = {}
        self.engines: list[str] = []
        self.starts: list[int] = []

    def add(self, result: ShardResult, place: str) -> None:
        """The result of the next shard, which is called so."""
        self.starts.append(self.samples)
        for meter, later in zip(self.meters, result.meters, strict=True):
            meter.merge(later)
        for row, others in zip(self.metrics, result.metrics, strict=True):
            for one, other in zip(row, others, strict=True):
                one.merge(other)
        self.samples += result.samples
        self.labelled = (self.labelled[0] + result.labelled[0], self.labelled[1] + result.labelled[1])
        self.named, self.has_pictures = self.named or result.named, self.has_pictures or result.has_pictures
        self.words = sorted({*self.words, *result.words})[:_FEW]
        self.damaged = [*self.damaged, *result.damaged][:_FEW]
        self.damaged_count += result.damaged_count
        if result.failed:
            self.failed[place] = result.failed
        self.engines += [engine for engine in result.engines if engine not in self.engines]


def few_damaged(found: list[tuple[str, str]], one: tuple[str, str]) -> None:
    """Remember where a sample could not be read, of the first ones."""
    if len(found) < _FEW:
        found.append(one)


def blank_result(models: int, metrics: Sequence[MetricSpec], failed: str = "") -> ShardResult:
    """The result of no samples."""
    made: list[list[Any]] = [[spec.make() for spec in metrics] for _ in range(models)]
    none = np.zeros(0, np.int32)
    return ShardResult(
        [QualityMeter() for _ in range(models)], made, none, none.reshape(models, 0), failed=failed
    )
