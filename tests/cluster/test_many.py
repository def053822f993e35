"""A hundred thousand samples through all disasters; a few in each run of the tests, all of them at night."""

from __future__ import annotations

from pathlib import Path

import pytest

import thinflow
from tests.night import AT_NIGHT
from thinflow import zoo

pytest.importorskip("distributed")
pytest.importorskip("pyarrow")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(not AT_NIGHT, reason="minutes; test_disasters.py has the same with few samples"),
]


@pytest.mark.parametrize("kind", ["tfrecord", "parquet", "tar"])
def test_a_hundred_thousand_samples_survive_all_disasters(kind: str, tmp_path: Path) -> None:
    # The whole of it ends within an hour or fails: nobody waits for ever.
    from benchmarks.disasters import survive

    zoo.write("digits", tmp_path / "digits.pb")
    thinflow.convert(tmp_path / "digits.pb", tmp_path / "digits.tflite")
    (tmp_path / "data").mkdir()
    outcome = survive(tmp_path / "data", tmp_path / "digits.tflite", kind, 100_000)
    assert outcome.is_right, outcome
