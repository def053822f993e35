"""The comparison of eight-bit files: how one is judged, what is told of all, and what is skipped."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import thinflow
from benchmarks.ptq import compare, data
from benchmarks.ptq.cases import MODELS, trained, up_to_logits
from benchmarks.ptq.compare import Row
from benchmarks.ptq.judging import Judge, Quality, by_turns, opened, times_as_long
from benchmarks.ptq.summary import summaries


def row(network: str, made_by: str, sqnr_db: float, **more: float) -> Row:
    quality = Quality(sqnr_db, more.get("same", 1.0), more.get("right", 0.9))
    return Row(
        network, made_by, ".tflite", quality, 10.0, 1.0, more.get("times_float"), more.get("times_peer")
    )


ROWS = [
    row("a", "float", np.inf),
    row("a", "thinflow", 33.0, times_float=0.5, times_peer=1.004),
    row("a", "peer", 30.0),
    row("a", "peer, tuned", 31.9),
    row("b", "float", np.inf),
    row("b", "thinflow", 30.0, right=0.89, times_float=1.3, times_peer=1.2),
    row("b", "peer", 30.2),
]


def test_the_summary_counts_networks_and_names_the_worst() -> None:
    (told,) = summaries(ROWS)
    assert told == (
        "thinflow .tflite: SQNR >= best peer + 1 dB on 1 of 2 networks; worst -0.2 dB on b (peer);"
        " at most 0.5% and 1% of answers lost on 1 of 2, not on b (-1.0 points, 100.0% the same);"
        " 1 of 2 as fast as float, worst 1.30x on b;"
        " 1 of 2 as fast as the peer's eight bits, worst 1.20x on b"
    )


def test_without_peers_there_is_nothing_to_beat() -> None:
    (told,) = summaries(ROWS[:2])
    assert "best peer" not in told
    assert "at most 0.5% and 1% of answers lost on 1 of 1" in told


def test_answers_that_have_no_top_lose_none() -> None:
    without = [replace(r, quality=Quality(r.quality.sqnr_db, None, None)) for r in ROWS[:2]]
    assert "lost on 1 of 1" in summaries(without)[0]


def test_rows_in_json_have_no_infinity() -> None:
    told = json.loads(json.dumps(compare.plain(ROWS[0]), allow_nan=False))
    assert told["sqnr_db"] is None
    assert told["network"] == "a"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ptq") / "plain.tflite"
    thinflow.save(up_to_logits(MODELS / "plain.keras"), path)
    return path


def test_a_file_is_judged_beside_float(plain: Path) -> None:
    drawn = data.drawn_for("plain", 20, data.TEST)
    run = opened(plain)
    wanted = np.concatenate([run(sample[None]) for sample in drawn.x])
    same = Judge(drawn.x, drawn.y, wanted).quality(plain)
    assert same.sqnr_db == np.inf
    assert same.agreement == 1
    # Logits twice as large have the same top, and half of the signal for noise.
    louder = Judge(drawn.x, drawn.y, 2 * wanted).quality(plain)
    assert louder.sqnr_db == pytest.approx(10 * np.log10(4))
    assert louder.agreement == 1
    assert louder.right == same.right


def test_files_run_by_turns(plain: Path) -> None:
    first, second = by_turns([plain, plain], data.drawn_for("plain", 1, data.TEST).x)
    assert len(first) == len(second) > 5
    assert 0.1 < times_as_long(first, second) < 10


def test_keyword_networks_are_skipped_with_a_reason_where_there_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("THINFLOW_SHARED", str(tmp_path))
    assert compare.main(["--keywords"]) == 0
    assert capsys.readouterr().out.startswith("skipped: no kws_*.pb")


def test_a_network_that_is_not_there_is_refused_with_those_that_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        compare.main(["plane"])
    told = capsys.readouterr().err
    assert "no network 'plane'" in told
    assert all(name in told for name in trained())
