"""Quality told with what chance does to it: lines for people, data for machines."""

from __future__ import annotations

from typing import Any

from thinflow.optimize.chance import difference_interval
from thinflow.optimize.quality import Quality, decibels, finite_decibels


def quality_lines(quality: Quality) -> list[str]:
    """What was counted and measured, each with what other samples of the same kind may give (95 %)."""
    counted = [*_right_answers(quality), *_same_answers(quality), *_same_boxes(quality)]
    # What holds no floats has no noise.
    return counted if quality.is_exact else [*counted, _noise(quality)]


def quality_data(quality: Quality) -> dict[str, Any]:
    """The same for machines."""
    logits, ends = quality.logits, quality.drop_interval
    of_logits = None
    if logits is not None:
        same = logits.same if logits.tops else None
        of_logits = {"sqnr_db": finite_decibels(logits.sqnr_db), "same_answer": same, "of": logits.tops}
    return {
        "logits": of_logits,
        "detections": None if quality.detections is None else quality.detections.data(),
        "lost": quality.lost,
        "gained": quality.gained,
        "chance": quality.chance,
        "may_be_chance": quality.may_be_chance,
        "drop": quality.drop,
        "drop_interval": None if ends is None else list(ends),
        "intervals": {name: list(pair) for name, pair in quality.intervals.items()},
    }


def _right_answers(quality: Quality) -> list[str]:
    now, before, chance = quality.accuracy, quality.accuracy_before, quality.chance
    if now is None or before is None or chance is None:
        return []
    ends = quality.intervals
    low, high = difference_interval(quality.lost, quality.gained, quality.samples)
    test = f"McNemar's exact test, p = {chance:.2g}"
    if quality.lost == quality.gained:
        verdict = "no difference"
    elif quality.may_be_chance:
        verdict = f"chance does as much ({test})"
    else:
        verdict = f"more than chance does ({test})"
    return [
        f"right: {quality.correct} of {quality.samples}, {now:.2f}% ({_span(ends['accuracy'])});"
        f" float {quality.correct_before}, {before:.2f}% ({_span(ends['accuracy_before'])})",
        f"lost: {_points(before - now)} points ({_points(low)} to {_points(high)}), {quality.lost} lost"
        f" and {quality.gained} gained: {verdict}",
    ]


def _same_answers(quality: Quality) -> list[str]:
    same = quality.same_answer
    if same is None or not quality.samples:
        return []
    what = "equal outputs" if quality.is_exact else "same top answer"
    share = _percent(100 * same / quality.samples)
    return [f"{what}: {same} of {quality.samples}, {share} ({_span(quality.intervals['same_answer'])})"]


def _same_boxes(quality: Quality) -> list[str]:
    found = quality.detections
    if found is None or found.interval is None:
        return []
    share = _percent(100 * found.same / found.before)
    return [
        f"same boxes: {found.same} of {found.before}, {share} ({_span(found.interval)}), with a mean"
        f" overlap (IoU) of {found.overlap:.2f}; {found.after - found.same} others"
    ]


def _noise(quality: Quality) -> str:
    told = []
    if quality.logits is not None:
        told.append(f"logits {decibels(quality.logits.sqnr_db)}")
        share, same = quality.logits.agreement, quality.logits.same
        if share is not None and quality.same_answer is None:
            told.append(f"the same top answer at {_percent(100 * share)} of {quality.logits.tops} places")
        # A softmax that is sure makes ties, in which the first class is the answer.
        elif share is not None and same != quality.same_answer:
            told.append(f"the same top logit in {same} of {quality.logits.tops}")
    return f"signal to noise: {', '.join([*told, f'outputs {decibels(quality.sqnr_db)}'])}"


def _percent(share: float) -> str:
    return f"{share:.1f}%"


def _points(value: float) -> str:
    # Without the minus of a rounded zero.
    return f"{round(value, 1) + 0.0:.1f}"


def _span(ends: tuple[float, float]) -> str:
    return f"{_percent(ends[0])} to {_percent(ends[1])}"
