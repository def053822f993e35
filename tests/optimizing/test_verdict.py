"""The main job's verdict: one sentence on speed, size, quality, and what to ship."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from thinflow.optimizing.quality import Quality
from thinflow.optimizing.verdict import is_good_enough, verdict_of
from thinflow.quantize.recipe import Recipe

ROLES = {"fp32": "m_fp32.tflite", "int8": "m_int8.tflite"}


def quality(same: int | None, sqnr_db: float = 40.0) -> Quality:
    """Of a model with so many equal answers of 100; None if its outputs are no answers."""
    return Quality(samples=100, same_answer=same, sqnr_db=sqnr_db, largest=0.1)


def report(
    *, speed: float | None = 2.0, sizes: tuple[int, int] = (400, 100), synthetic: bool = False, **found: Any
) -> Any:
    """What a verdict is made of; sizes are those of the float and the smaller file."""
    latency = None
    if speed is not None:
        latency = SimpleNamespace(
            ratio=lambda a, b: SimpleNamespace(value=speed),
            machine=SimpleNamespace(multiplies_eight_bit=False),
        )
    program = SimpleNamespace(subgraphs=[SimpleNamespace(operators=[])])
    return SimpleNamespace(
        recipe=found.get("recipe", Recipe()),
        files={role: SimpleNamespace(name=name) for role, name in ROLES.items()},
        sizes=dict(zip(ROLES, sizes, strict=True)),
        int8=SimpleNamespace(quantized=SimpleNamespace(program=program, float_operators=[])),
        int8_quality=found.get("quality", quality(100)),
        synthetic=synthetic,
        max_drop=1.5,
        latency=latency,
    )


@pytest.mark.parametrize(
    ("told", "beginning", "end"),
    [
        (report(), "int8 is 2.0x faster and 4.0x smaller; ", ": ship m_int8.tflite"),
        (report(speed=None), "int8 is 4.0x smaller; ", ": ship m_int8.tflite"),
        (report(speed=1.02), "int8 is as fast as float and 4.0x smaller; ", ": ship m_int8.tflite"),
        (report(speed=1.04), "int8 is 1.04x faster and 4.0x smaller; ", ": ship m_int8.tflite"),
        (
            report(speed=0.96),
            "int8 is 1.04x SLOWER here because ",
            ": ship m_fp32.tflite: float is faster here",
        ),
        (report(sizes=(100, 102)), "int8 is 2.0x faster and of the same size; ", ": ship m_int8.tflite"),
        (report(sizes=(100, 200)), "int8 is 2.0x faster and 2.0x LARGER; ", ": ship m_int8.tflite"),
        (
            report(speed=0.5),
            "int8 is 2.0x SLOWER here because this CPU has no eight-bit dot product (VNNI or dotprod), ",
            ": ship m_fp32.tflite: float is faster here",
        ),
        (
            report(speed=1.0, sizes=(100, 95)),
            "int8 is as fast as float and 1.1x smaller; ",
            ": ship m_fp32.tflite: int8 brings nothing here, the work is in operators that stay float",
        ),
        (
            report(quality=quality(90)),
            "int8 is 2.0x faster and 4.0x smaller; ",
            ": ship m_fp32.tflite: int8 loses 10.0 points of answers, more than 1.5",
        ),
        (
            report(quality=quality(None, 12.0)),
            "int8 is 2.0x faster and 4.0x smaller; ",
            ": ship m_fp32.tflite: the int8 output is poor (SQNR 12.0 dB)",
        ),
    ],
)
def test_verdict(told: Any, beginning: str, end: str) -> None:
    sentence = verdict_of(told)
    assert sentence.startswith(beginning)
    assert sentence.endswith(end)
    assert is_good_enough(told) == ("m_int8" in end)


@pytest.mark.parametrize(
    ("scheme", "until"), [("int8", "it is calibrated"), ("dynamic", "real samples have been tried")]
)
def test_made_up_samples_prove_nothing(scheme: str, until: str) -> None:
    told = report(synthetic=True, recipe=Recipe(scheme=scheme), quality=quality(50))
    assert verdict_of(told) == (
        f"{scheme} is 2.0x faster and 4.0x smaller; how good its answers are only real samples can tell: "
        f"ship m_fp32.tflite until {until}"
    )
