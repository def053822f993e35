"""What detectors find: boxes among the outputs, and whether two models find the same ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Value
from thinflow.ir.order import ancestors
from thinflow.ir.ports import output_args
from thinflow.ops.traits import Trait, has
from thinflow.optimize.chance import wilson
from thinflow.transforms import fuse_detection_postprocess
from thinflow.typing import Array

LEAST_SCORE = 0.5
"""Of boxes that count. Detectors give all that their suppression leaves, most of them of next to no score."""
_SAME = 0.5
"""The overlap from which on two boxes are one; what PASCAL VOC asks of a box that is found."""
_KEPT = 24
"""Samples whose boxes are kept to be shown."""

_LITERT = ("boxes", "kinds", "scores", "count")
"""What LiteRT's joined op gives, port by port; the outputs of TensorFlow's have names."""
_NAMES = {
    "boxes": re.compile(r"box", re.I),
    "scores": re.compile(r"score|prob|conf", re.I),
    "kinds": re.compile(r"class|label", re.I),
    "count": re.compile(r"num|count|valid", re.I),
}


class Places(NamedTuple):
    """Where among the outputs of a detector something is; None for what it does not give.

    Attributes:
        boxes: [..., n, 4] numbers: y1, x1, y2, x2, as TensorFlow's detectors have them.
        scores: [..., n] numbers.
        kinds: [..., n] numbers of classes.
        number: how many of the n count.
    """

    boxes: int
    scores: int
    kinds: int | None = None
    number: int | None = None


class Box(NamedTuple):
    """A box that was found; its ends are y1, x1, y2, x2, in pixels or in shares of the picture."""

    ends: tuple[float, float, float, float]
    score: float
    kind: int | None = None

    def overlap(self, other: Box) -> float:
        """Intersection over union, 0 to 1."""
        low = np.maximum(self.ends[:2], other.ends[:2])
        high = np.minimum(self.ends[2:], other.ends[2:])
        shared = float(np.prod(np.maximum(high - low, 0.0)))
        union = self._area() + other._area() - shared
        return shared / union if union > 0 else 0.0

    def _area(self) -> float:
        y1, x1, y2, x2 = self.ends
        return max(y2 - y1, 0.0) * max(x2 - x1, 0.0)


class Found(NamedTuple):
    """What two models found on one sample.

    Attributes:
        number: of the sample.
        before, after: boxes of the original and of the candidate, the best first.
        overlaps: of the boxes that both have.
    """

    number: int
    before: tuple[Box, ...]
    after: tuple[Box, ...]
    overlaps: tuple[float, ...]

    @property
    def differing(self) -> int:
        """Boxes that only one of both has."""
        return len(self.before) + len(self.after) - 2 * len(self.overlaps)

    @property
    def overlap(self) -> float:
        """The mean overlap of the boxes that both have; 1 where there are none."""
        return sum(self.overlaps) / len(self.overlaps) if self.overlaps else 1.0

    @property
    def weakness(self) -> tuple[int, float, int]:
        """To sort by, the weakest first."""
        return -self.differing, self.overlap, self.number


@brief_repr
@dataclass
class Detections:
    """A candidate's boxes beside the original's, over the same samples.

    Attributes:
        before, after: boxes of the original and of the candidate.
        same: boxes that both have.
        overlap: mean intersection over union of those; 1 where there are none.
        judged: what was found on some of the samples: those where most differs, then those whose boxes
            overlap least.
    """

    before: int = 0
    after: int = 0
    same: int = 0
    overlap: float = 1.0
    judged: list[Found] = field(default_factory=list, repr=False)

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the share of the original's boxes that the candidate has too, in percent."""
        return wilson(self.same, self.before) if self.before else None

    def add(self, found: Found) -> None:
        """Count what was found on one more sample."""
        together = self.overlap * self.same + sum(found.overlaps)
        self.before += len(found.before)
        self.after += len(found.after)
        self.same += len(found.overlaps)
        self.overlap = together / self.same if self.same else 1.0
        # A list of all would grow with the samples.
        self.judged = sorted([*self.judged, found], key=lambda one: one.weakness)[:_KEPT]

    def data(self) -> dict[str, float | list[float] | None]:
        """For machines."""
        interval = self.interval
        return {
            "boxes_before": self.before,
            "boxes": self.after,
            "same_boxes": self.same,
            "interval": None if interval is None else list(interval),
            "overlap": self.overlap,
        }


def places_of(outputs: Sequence[Value], arrays: Sequence[Array]) -> Places | None:
    """Where boxes and their scores are among outputs; None if they are those of no detector.

    Args:
        arrays: what the outputs are for some sample.
    """
    roles = [role_of(value) for value in outputs]

    def those(role: str, size: int) -> list[int]:
        sizes = {i for i, a in enumerate(arrays) if a.size == size and a.dtype.kind in "fiu"}
        return [i for i, found in enumerate(roles) if found == role and i in sizes]

    wide = [i for i, a in enumerate(arrays) if a.dtype.kind == "f" and a.ndim > 1 and a.shape[-1] == 4]
    boxes = [i for i in wide if roles[i] in ("boxes", "")]
    named = [i for i in boxes if roles[i]]
    if len(named or boxes) != 1 or not is_behind_suppression(outputs[(named or boxes)[0]]):
        return None
    at = (named or boxes)[0]
    rows = arrays[at].size // 4
    scores, kinds, count = those("scores", rows), those("kinds", rows), those("count", 1)
    if len(scores) != 1:
        return None
    return Places(at, scores[0], *(x[0] if len(x) == 1 else None for x in (kinds, count)))


def role_of(value: Value) -> str:
    """What an output of a detector is, a key of `_NAMES`: by the op that gives it, else by its name; "" if
    neither tells.
    """
    behind = value
    # The values stay what they are, in whichever shape.
    while has(behind.node.op, Trait.IDENTITY | Trait.RESHAPE) and behind.node.inputs:
        behind = behind.node.inputs[0]
    if behind.node.op == fuse_detection_postprocess.OP:
        return _LITERT[behind.port]
    # The op's own word first: what a graph calls the value is up to whoever made it.
    own = [arg.name for arg in output_args(behind.node.op)[behind.port :][:1]]
    texts = [*own, value.name]
    return next((role for text in texts for role, name in _NAMES.items() if name.search(text)), "")


def is_behind_suppression(value: Value) -> bool:
    """True if a value comes out of a suppression of boxes; what comes before one is too many to look at."""
    return any(has(n.op, Trait.NMS) or n.op == fuse_detection_postprocess.OP for n in ancestors([value.node]))


def found(number: int, places: Places, before: Sequence[Array], after: Sequence[Array]) -> Found:
    """What two models found on a sample: boxes of the same kind that overlap by half are the same."""
    first, second = _boxes(places, before), _boxes(places, after)
    left, overlaps = list(second), []
    # The best are matched first, and none twice: what is left over is a difference.
    for box in first:
        best = max((o for o in left if o.kind == box.kind), key=box.overlap, default=None)
        if best is not None and box.overlap(best) >= _SAME:
            left.remove(best)
            overlaps.append(box.overlap(best))
    return Found(number, first, second, tuple(overlaps))


def _boxes(places: Places, outputs: Sequence[Array]) -> tuple[Box, ...]:
    """The boxes of a sample that count, the best first."""
    ends, scores = outputs[places.boxes].reshape(-1, 4), outputs[places.scores].reshape(-1)
    kinds = None if places.kinds is None else outputs[places.kinds].reshape(-1)
    counted = len(scores) if places.number is None else int(outputs[places.number].reshape(-1)[0])
    # The rows behind are there for a shape that is known, and hold anything.
    rows = [i for i in range(min(len(ends), len(scores), counted)) if scores[i] >= LEAST_SCORE]
    boxes = []
    for i in rows:
        y1, x1, y2, x2 = map(float, ends[i])
        boxes.append(Box((y1, x1, y2, x2), float(scores[i]), None if kinds is None else int(kinds[i])))
    return tuple(sorted(boxes, key=lambda box: -box.score))
