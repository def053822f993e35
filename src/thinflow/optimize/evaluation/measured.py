"""What was measured of one model: a `Quality` with figures, classes, and what was left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from thinflow.ir.brief import brief_repr
from thinflow.ir.notebook import text_html
from thinflow.optimize.chance import wilson
from thinflow.optimize.evaluation.metric import Figure, figure_text
from thinflow.optimize.evaluation.metrics.classes import per_class
from thinflow.optimize.quality import Quality
from thinflow.optimize.quality_page import Shown


class ClassQuality(NamedTuple):
    """How well one class is found.

    Attributes:
        number, name: of the class; "" if it has no name.
        samples: that are labelled so.
        recall: of them answered rightly, in percent, with its 95 % interval.
        precision: of the answers with this class those that are right, in percent; None if there are none.
    """

    number: int
    name: str
    samples: int
    recall: float
    recall_interval: tuple[float, float]
    precision: float | None


class SampleAnswer(NamedTuple):
    """What the models answered to a sample.

    Attributes:
        number: of the sample, among those that were judged.
        place: the file it lies in, and where there.
        label: the right class, in words where they are known; "" if nobody knows.
        answers: of each model.
    """

    number: int
    place: str
    label: str
    answers: tuple[str, ...]


@brief_repr
@dataclass(frozen=True)
class LeftOut:
    """What could not be read.

    Attributes:
        samples: how many samples were left out, of shards that can be read.
        first: place and problem of the first of them.
        shards: what a shard is called -> why nothing of it could be read.
    """

    samples: int = 0
    first: Sequence[tuple[str, str]] = ()
    shards: Mapping[str, str] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """Sentences, the first few of each kind."""
        found = []
        if self.samples:
            found.append(
                f"{self.samples} {_plural('sample', self.samples)} could not be read and count for nothing:"
            )
            found += [f"  {place}: {problem}" for place, problem in self.first[:5]]
        if self.shards:
            count = len(self.shards)
            found.append(f"{count} {_plural('shard', count)} could not be read and count for nothing:")
            found += [f"  {problem}" for problem in list(self.shards.values())[:5]]
        return found

    def data(self) -> dict[str, Any]:
        """For machines."""
        return {
            "samples": self.samples,
            "first": [list(one) for one in self.first],
            "shards": dict(self.shards),
        }


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else f"{noun}s"


@brief_repr
@dataclass
class Measured(Quality):
    """The quality of one model: how often it is right, and beside the first of several models.

    A model that is evaluated alone is the first, and compared with itself.

    Attributes:
        source: path of the model; "" if it came from memory.
        engine: that ran it, and on which kind of machine; several if those differed.
        figures: what the metrics found.
        confusion: (label, answer) -> how many samples.
        classes: names of the classes; empty if they are not known.
        preprocessing: what was done to pictures, in words; "" if there were none.
        left_out: what could not be read.
        device: what the device was that ran it; "" for this machine.
        place: what that device is called.
        show: tells what some of the samples look like, those that it was wrong about among them.
        wrong: walks over all samples that it got wrong, which may be many.
    """

    source: str = ""
    engine: str = ""
    figures: list[Figure] = field(default_factory=list)
    confusion: dict[tuple[int, int], int] = field(default_factory=dict, repr=False)
    classes: tuple[str, ...] = field(default=(), repr=False)
    preprocessing: str = ""
    left_out: LeftOut = field(default_factory=LeftOut)
    device: str = ""
    place: str = ""
    show: Callable[[Quality], Shown] = field(default=lambda _: Shown(), repr=False, compare=False)
    wrong: Callable[[], Iterator[SampleAnswer]] = field(default=lambda: iter(()), repr=False, compare=False)

    @property
    def verdict(self) -> str:
        """One sentence: how often it is right, or the first thing that was measured."""
        if self.accuracy is not None:
            low, high = self.intervals["accuracy"]
            return (
                f"accuracy {self.accuracy:.2f}%: {self.correct} of {self.samples} samples right"
                f" ({low:.1f}% to {high:.1f}%)"
            )
        # A detector has no right or wrong answers; its first figure is what people ask for.
        told = next((f for f in self.figures if f.value is not None), None)
        return f"{figure_text(told)} over {self.samples} samples" if told else self.sentence()

    @property
    def lines(self) -> list[str]:
        """The verdict, and below it all that was measured."""
        figures = [f"  {text}" for text in map(figure_text, self.figures) if text not in self.verdict]
        told = [self.taken] if self.taken else []
        device = [f"device: {self.device}"] if self.device else []
        return [self.verdict, *told, *figures, *self.left_out.lines(), *device]

    def _repr_html_(self) -> str:
        return text_html("\n".join(self.lines))

    def figure(self, name: str) -> float | None:
        """A figure by its name: "top 5", "mAP", "word error rate"."""
        return next((f.value for f in self.figures if f.name == name), None)

    @property
    def per_class(self) -> list[ClassQuality]:
        """Each class that occurs, in the order of their numbers."""
        counts: dict[int, int] = {}
        for (label, _), count in self.confusion.items():
            counts[label] = counts.get(label, 0) + count
        found = []
        for number, (recall, precision) in per_class(self.confusion).items():
            right = self.confusion.get((number, number), 0)
            name = self.classes[number] if number < len(self.classes) else ""
            share = None if precision is None else 100 * precision
            ends = wilson(right, counts[number])
            found.append(ClassQuality(number, name, counts[number], 100 * recall, ends, share))
        return found

    def data(self) -> dict[str, Any]:
        """For machines."""
        found: dict[str, Any] = {
            "accuracy": self.accuracy,
            "interval": self.intervals.get("accuracy"),
            "correct": self.correct,
            "samples": self.samples,
            "model": self.source,
            "engine": self.engine,
            "figures": {f.name: figure_data(f) for f in self.figures},
            "per_class": [one._asdict() for one in self.per_class],
            "confusion": [
                [label, answer, count] for (label, answer), count in sorted(self.confusion.items())
            ],
            "left_out": self.left_out.data(),
        }
        texts = {"taken": self.taken, "preprocessing": self.preprocessing, "device": self.device}
        return found | {name: text for name, text in texts.items() if text}


def figure_data(figure: Figure) -> dict[str, Any]:
    """For machines."""
    interval = None if figure.low is None else [figure.low, figure.high]
    return {"value": figure.value, "unit": figure.unit, "interval": interval}
