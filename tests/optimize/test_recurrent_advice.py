"""Advice on recurrent networks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.quantize.fused_lstm import network
from tests.quantize.programs import Builder
from thinflow.cli import main
from thinflow.optimize.quality import Score
from thinflow.optimize.recurrent_advice import dynamic_advice, recurrent_part, without_samples
from thinflow.quantize.recipe import Recipe
from thinflow.tflite.model import Program

MODELS = Path(__file__).parents[2] / "benchmarks" / "ptq" / "models"


def flat() -> Program:
    b = Builder(1)
    return b.program(b.op("FULLY_CONNECTED", b.input(1, 8), b.normal(4, 8), b.normal(4)))


def scored(int8: float, dynamic: float):
    """Scores of eight samples by scheme, from decibels."""
    levels = {"int8": int8, "dynamic": dynamic}
    return lambda recipe: [Score(1.0, 10 ** (-levels[recipe.scheme] / 10))] * 8


def test_dynamic_is_recommended_where_it_has_less_noise() -> None:
    (told,) = dynamic_advice(network(), Recipe(), scored(31.0, 40.0))
    assert told == (
        "recurrent layers make 100% of the multiplications, and the scheme 'dynamic' leaves less noise:"
        " 40.0 instead of 31.0 dB on 8 samples held out: --scheme dynamic, which needs no samples"
    )


@pytest.mark.parametrize(
    ("program", "recipe", "dynamic"),
    [
        (network(), Recipe(), 30.0),  # worse
        (network(), Recipe(), 31.5),  # hardly better
        (flat(), Recipe(), 40.0),
        (network(), Recipe(scheme="dynamic"), 40.0),
        (network(), Recipe(input_type="int8"), 40.0),
    ],
)
def test_it_is_not_recommended_elsewhere(program: Program, recipe: Recipe, dynamic: float) -> None:
    assert dynamic_advice(program, recipe, scored(31.0, dynamic)) == []


def test_the_part_of_recurrent_layers() -> None:
    assert recurrent_part(network()) == 1.0
    assert recurrent_part(flat()) == 0.0
    assert without_samples(flat()) == ""


def test_who_has_no_samples_learns_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quantize", str(MODELS / "lstm.keras"), str(tmp_path / "m.tflite"), "--effort", "none"]) == 0
    assert (
        "give real samples with --calibration, or take --scheme dynamic, which needs none: most of this"
        " network is recurrent" in capsys.readouterr().out
    )
