"""Quality as blocks of a page: what was counted with its intervals, and the samples as small pictures."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from thinflow.errors import ThinflowError
from thinflow.ir.brief import brief_repr
from thinflow.ops.audio import DecodeWav
from thinflow.ops.decode import DecodeImage
from thinflow.ops.encode import EncodePng
from thinflow.optimize.detections import LEAST_SCORE, Box, Found
from thinflow.optimize.quality import Judged, Quality, decibels
from thinflow.optimize.quality_text import quality_lines
from thinflow.pages.report import (
    Answer,
    Block,
    Fact,
    Frame,
    Intervals,
    Sample,
    Samples,
    Span,
    Text,
    Tone,
    notes,
)
from thinflow.typing import Array

_SIDE = 96
"""Pixels of the longer side; cards are not much wider."""
_STRETCHES = 160
"""Of a waveform, each with its extremes."""
_LEAST_WAVE, _LEAST_SIDE = 256, 4
"""Fewer numbers are no sound, and no picture that anybody could see something in."""

_DARKEST = 64.0
"""Least brightness of the brightest pixel of a photograph: below it numbers have a range of their own."""


@brief_repr
@dataclass(frozen=True)
class Preview:
    """What a sample looks like.

    Attributes:
        picture: a PNG as data:, "" if it is no picture.
        wave: least and greatest value of each stretch, from -1 to 1; empty if it is no sound.
        size: height and width of the picture in pixels.
    """

    picture: str = ""
    wave: tuple[tuple[float, float], ...] = ()
    size: tuple[int, int] = (0, 0)


def previews(samples: Iterable[Mapping[Any, Array]], numbers: Sequence[int]) -> dict[int, Preview]:
    """The previews of some samples, by number; walks up to the last of them."""
    wanted = set(numbers)
    last = max(wanted, default=-1)
    walked = enumerate(islice(samples, last + 1))
    return {number: preview(feed.values()) for number, feed in walked if number in wanted}


def preview(arrays: Iterable[Array]) -> Preview:
    """The preview of a sample: of the first input that looks like something."""
    for array in arrays:
        found = _preview(np.asarray(array))
        if found.picture or found.wave:
            return found
    return Preview()


def _preview(array: Array) -> Preview:
    if array.dtype.kind in "OS":
        return _decoded(array)
    if array.dtype.kind not in "fiu" or not array.size:
        return Preview()
    values = array.astype(np.float32)
    # Sizes of 1 in front are the batch; a last one is a channel.
    while values.ndim > 1 and values.shape[0] == 1:
        values = values[0]
    flat = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    if flat.ndim == 1:
        return Preview(wave=_wave(flat)) if flat.size >= _LEAST_WAVE else Preview()
    if values.ndim == 2:
        values = values[..., None]
    if values.ndim == 3 and values.shape[-1] in (1, 3, 4) and min(values.shape[:2]) >= _LEAST_SIDE:
        return Preview(_png(_as_bytes(values)), size=values.shape[:2])
    return Preview()


def _decoded(array: Array) -> Preview:
    """Of a file that a model takes as it is: a WAV, a JPEG, a PNG; nothing of what is none or is damaged."""
    data = array.reshape(-1)[0]
    if array.size != 1 or not isinstance(data, bytes):
        return Preview()
    contents = np.array(data, object)
    try:
        if data[:4] == b"RIFF":
            return Preview(wave=_wave(DecodeWav.kernel(contents)[0][:, 0]))
        pixels = DecodeImage.kernel(contents, channels=3, expand_animations=False)
    except ThinflowError:
        return Preview()
    return Preview(_png(np.asarray(pixels)), size=pixels.shape[:2])


def _as_bytes(values: Array) -> Array:
    """Pixels 0 to 255 of numbers in whichever of the usual ranges they are, else from least to greatest."""
    values = np.nan_to_num(values)
    low, high = float(values.min()), float(values.max())
    if low >= 0 and _DARKEST < high <= 255:
        low, high = 0.0, 255.0
    elif low >= -1 and high <= 1:
        low, high = (0.0 if low >= 0 else -1.0), 1.0
    scaled = (values - low) / ((high - low) or 1.0) * 255
    return np.clip(np.rint(scaled), 0, 255).astype(np.uint8)


def _png(pixels: Array) -> str:
    step = max(1, -(-max(pixels.shape[:2]) // _SIDE))
    shown = np.ascontiguousarray(pixels[::step, ::step])
    data = EncodePng.kernel(shown, compression=9).item()
    return f"data:image/png;base64,{base64.b64encode(data).decode()}"


def _wave(values: Array) -> tuple[tuple[float, float], ...]:
    values = np.nan_to_num(values)
    largest = float(np.abs(values).max(initial=0.0)) or 1.0
    # Sound is mostly within -1 and 1: what is quiet then shall look quiet.
    scale = 1.0 if 0.05 < largest <= 1 else largest
    parts = np.array_split(values / scale, min(_STRETCHES, len(values)))
    # Zeros without a sign.
    return tuple((round(float(p.min()), 3) + 0.0, round(float(p.max()), 3) + 0.0) for p in parts)


_CARDS = 24
_LARGEST_SHARE = 2.0


@brief_repr
@dataclass(frozen=True)
class Shown:
    """What is known of samples, to show them.

    Attributes:
        previews: by number of the sample.
        places: file of each, by number.
        classes: names in the order of the outputs; empty if they are not known.
    """

    previews: Mapping[int, Preview] = field(default_factory=dict)
    places: Mapping[int, str] = field(default_factory=dict)
    classes: Sequence[str] = ()

    def name(self, answer: int | None) -> str:
        """A class in words; "" if it is not known."""
        if answer is None:
            return ""
        return self.classes[answer] if 0 <= answer < len(self.classes) else str(answer)


def shown_of(
    judged: Iterable[Judged | Found],
    samples: Iterable[Mapping[Any, Array]],
    place: Callable[[int], str],
    classes: Sequence[str] | None,
) -> Shown:
    """What is known of the samples whose answers are told; walks up to the last of them.

    Args:
        place: file or number of a sample.
        classes: names in the order of the outputs; None if they are not known.
    """
    numbers = sorted({one.number for one in judged})
    return Shown(previews(samples, numbers), {number: place(number) for number in numbers}, classes or ())


def quality_blocks(qualities: Mapping[str, Quality], before: str = "") -> Iterator[Block]:
    """What was counted of some models, by what they are called.

    Args:
        before: how the model is called that all are compared with; "" if there is none.
    """
    yield Intervals(
        "Right answers", "%", [], list(_right(qualities, before)), None, "With the 95 % interval of each."
    )
    same = [
        _span(name, 100 * q.same_answer / q.samples, q.intervals["same_answer"])
        for name, q in qualities.items()
        if q.same_answer is not None and q.samples and before
    ]
    boxes = [
        _span(name, 100 * found.same / found.before, found.interval)
        for name, q in qualities.items()
        if (found := q.detections) is not None and found.interval is not None
    ]
    note = f"Share of samples with the same top answer as {before}, with the 95 % interval of each."
    yield Intervals("Equal answers", "%", [], same, None, note)
    note = f"Share of the boxes of {before} that are found again, with the 95 % interval of each."
    if boxes:
        yield Intervals("Same boxes", "%", [], boxes, None, note)
    for name, quality in qualities.items():
        lines = quality_lines(quality) if quality.samples else []
        yield notes([f"{name}: {line}" for line in lines])


def _right(qualities: Mapping[str, Quality], before: str) -> Iterator[Span]:
    first = next(iter(qualities.values()), Quality())
    if before and first.accuracy_before is not None:
        yield _span(before, first.accuracy_before, first.intervals["accuracy_before"])
    for name, quality in qualities.items():
        if quality.accuracy is not None:
            yield _span(name, quality.accuracy, quality.intervals["accuracy"], 1 if before else 0)


def _span(name: str, value: float, ends: tuple[float, float], series: int = 0) -> Span:
    return Span(name, series, value, *ends)


def quality_facts(quality: Quality) -> Iterator[Fact]:
    """The figures to be seen first."""
    if quality.accuracy is not None and quality.accuracy_before is not None:
        low, high = quality.intervals["accuracy"]
        beside = f"{quality.accuracy_before:.2f} % before; {low:.1f} to {high:.1f} on other samples"
        yield Fact("right answers", f"{quality.accuracy:.2f} %", beside)
    elif quality.same_answer is not None and quality.samples:
        share = 100 * quality.same_answer / quality.samples
        yield Fact("same top answer", f"{share:.1f} %", f"{quality.same_answer} of {quality.samples} samples")
    if (boxes := quality.detections) is not None and boxes.interval is not None:
        low, high = boxes.interval
        share, others = 100 * boxes.same / boxes.before, boxes.after - boxes.same
        beside = f"{boxes.same} of {boxes.before}, {others} others; {low:.1f} to {high:.1f} on other samples"
        yield Fact("same boxes", f"{share:.1f} %", beside)
    if not quality.is_exact:
        yield Fact("signal to noise", decibels(quality.sqnr_db), "of the outputs, beside the original")


def samples_blocks(quality: Quality, shown: Shown, models: Sequence[str]) -> Iterator[Block]:
    """Samples that were judged, the wrong ones first.

    Args:
        models: how the original and the candidate are called; one alone if both are the same.
    """
    if quality.detections is not None:
        yield from _boxes_blocks(quality, shown, models)
        return
    items = [_card(one, shown, len(models)) for one in ordered(quality.judged)[:_CARDS]]
    if not items:
        return
    wrong = [one for one in quality.judged if one.is_wrong]
    what = "those answered wrongly or otherwise than before" if len(models) > 1 else "those answered wrongly"
    first = f"{what.capitalize()} come first, then some of the others" if wrong else "Some of the samples"
    yield Text(f"{first}; {quality.samples} samples were judged.")
    yield Samples(models, items)


def ordered(judged: Sequence[Judged]) -> list[Judged]:
    """What only the candidate gets wrong, what both do, what only it gets right, and the rest."""
    return sorted(
        judged, key=lambda one: (not one.is_lost, not one.is_wrong, one.before == one.after, one.number)
    )


def _card(one: Judged, shown: Shown, models: int) -> Sample:
    answers = [Answer(shown.name(one.before), _tone(one.before, one.label))] if models > 1 else []
    changed: Tone = "warn" if one.label is None and one.before != one.after else _tone(one.after, one.label)
    answers.append(Answer(shown.name(one.after), changed))
    place = shown.places.get(one.number, f"sample {one.number}")
    preview = shown.previews.get(one.number, Preview())
    return Sample(place, shown.name(one.label), answers, preview.picture, preview.wave)


def _tone(answer: int, label: int | None) -> Tone:
    return "" if label is None else "good" if answer == label else "bad"


# --- boxes --------------------------------------------------------------------------------------------------


def _boxes_blocks(quality: Quality, shown: Shown, models: Sequence[str]) -> Iterator[Block]:
    """Samples with what was found on them, those where most differs first."""
    assert quality.detections is not None
    # Boxes without their picture tell nothing.
    seen = [one for one in quality.detections.judged if shown.previews.get(one.number, Preview()).picture]
    if not seen:
        return
    yield Text(
        f"Boxes with a score of {LEAST_SCORE} or more, those of {models[0]} dashed; {quality.samples} samples"
        " were judged. First those where only one model has a box, then those whose boxes overlap least."
    )
    yield Samples(models, [_boxes_card(one, shown) for one in seen])


def _boxes_card(one: Found, shown: Shown) -> Sample:
    preview = shown.previews[one.number]
    # The original's below, so that a box that both have looks found.
    frames = [
        Frame(_in_shares(box.ends, preview.size), model, _words(box, shown))
        for model, boxes in enumerate((one.before, one.after))
        for box in boxes
    ]
    both, others = len(one.overlaps), len(one.after) - len(one.overlaps)
    after = f"{both} again" + (f", {others} other{'s' if others != 1 else ''}" if others else "")
    after += f", overlap {one.overlap:.2f}" if both else ""
    count = f"{len(one.before)} box{'es' if len(one.before) != 1 else ''}"
    answers = [Answer(count), Answer(after, "warn" if one.differing else "")]
    place = shown.places.get(one.number, f"sample {one.number}")
    return Sample(place, "", answers, preview.picture, boxes=frames)


def _in_shares(ends: Sequence[float], size: tuple[int, int]) -> tuple[float, ...]:
    """The ends of a box in shares of the picture, no further out than its edges."""
    # Shares may lie a bit outside; nobody looks for boxes of two pixels.
    in_pixels = max(map(abs, ends)) > _LARGEST_SHARE and min(size) > 0
    scale = (*size, *size) if in_pixels else (1, 1, 1, 1)
    return tuple(round(min(max(end / of, 0.0), 1.0), 4) for end, of in zip(ends, scale, strict=True))


def _words(box: Box, shown: Shown) -> str:
    if box.kind is None:
        return f"{box.score:.2f}"
    is_named = 0 <= box.kind < len(shown.classes)
    return f"{shown.classes[box.kind] if is_named else f'class {box.kind}'} {box.score:.2f}"
