"""Checks and findings on their own."""

from __future__ import annotations

import numpy as np
import pytest

from thinflow.ir.usage import InputUsage, Usage
from thinflow.quantize.doctor import checks, findings
from thinflow.quantize.doctor.exam import Exam, information, probabilities, top_share
from thinflow.quantize.doctor.findings import Finding

RNG = np.random.default_rng(0)


def exam(*arrays: np.ndarray, **fields) -> Exam:
    feeds = [{"x": np.asarray(a, np.float32)[None]} for a in arrays]
    places = [f"sample {number}" for number in range(len(feeds))]
    return Exam(feeds, lambda wanted: [feed["x"] for feed in wanted], places=places, **fields)


def smooth(count: int, shape: tuple[int, ...] = (32, 32, 3)) -> list[np.ndarray]:
    """Pictures of slow waves."""
    rows = np.arange(shape[0])[:, None, None]
    return [
        np.sin(rows * RNG.uniform(0.1, 0.4) + RNG.uniform(0, 6)) + RNG.normal(0, 0.1, shape)
        for _ in range(count)
    ]


def said(one: Exam) -> list[str]:
    return [finding.check for finding in findings(one) if finding.warns]


def test_a_finding_in_words_and_for_machines() -> None:
    one = Finding("it is so", "do this", 3.14159, measured=True, check="some")
    assert one.text == "it is so, which costs 3.1 dB (measured): do this"
    assert one._replace(measured=False).text == "it is so, which costs 3.1 dB (estimated): do this"
    assert one._replace(cost_db=None).text == "it is so: do this"
    assert one.data()["check"] == "some"


def test_answers_tell_of_samples() -> None:
    sure = np.eye(4)
    assert information(sure) == pytest.approx(np.log(4))
    assert information(np.full((4, 4), 0.25)) == pytest.approx(0)
    assert information(sure[[1, 1, 1]]) == pytest.approx(0)
    assert top_share(sure[[1, 1, 1, 2]]) == 0.75
    assert probabilities([np.float32([[0, 0]]), np.float32([[1000, 0]])]).tolist() == [[0.5, 0.5], [1, 0]]


def test_little_is_said_of_few_or_made_up_samples() -> None:
    assert checks()
    assert findings(exam()) == []
    assert said(exam(*[np.zeros((8, 8, 1))] * 7)) == []
    assert said(exam(*[np.zeros((8, 8, 1))] * 20, synthetic=True)) == []


def test_beats_that_fall_anywhere_are_no_noise() -> None:
    places = np.arange(187)[:, None] - RNG.uniform(0, 40, 40)[:, None, None]
    beats = np.exp(-0.2 * np.square((places + 20) % 40 - 20)) + RNG.normal(0, 0.1, places.shape)
    assert said(exam(*beats)) == []
    assert said(exam(*RNG.normal(size=(40, 187, 1)))) == ["noise"]


def test_contents() -> None:
    assert said(exam(*smooth(20))) == []
    assert said(exam(*[np.full((8, 8, 1), number) for number in range(20)])) == ["constant"]
    assert said(exam(*RNG.normal(size=(20, 32, 32, 3)))) == ["noise"]
    assert said(exam(*smooth(5) * 4)) == ["duplicates"]
    assert said(exam(*RNG.normal(size=(20, 400)))) == ["noise"]
    features = RNG.normal(size=(20, 5)) @ RNG.normal(size=(5, 400))
    assert said(exam(*features)) == []


@pytest.mark.parametrize("channels_first", [False, True])
def test_embedded_tokens_are_no_noise(channels_first: bool) -> None:
    # Words come as often as in a text: the second half as often as the first.
    often = 1 / np.arange(1, 2001)
    words = RNG.choice(2000, (20, 32), p=often / often.sum())
    drawn, alike = RNG.normal(size=(2000, 48)), RNG.normal(size=(2000, 12)) @ RNG.normal(size=(12, 48))
    # In the second table each word comes once: what tells is that channels depend on each other.
    once = RNG.permutation(2000)[:640].reshape(20, 32)
    for tokens in (drawn[words], alike[once]):
        assert said(exam(*(tokens.swapaxes(1, 2) if channels_first else tokens))) == []
    assert said(exam(*RNG.normal(size=(20, 48, 32) if channels_first else (20, 32, 48)))) == ["noise"]


def test_numbers_of_tokens_are_no_noise() -> None:
    assert said(exam(*RNG.integers(0, 30000, (20, 1024)))) == []
    assert said(exam(*RNG.integers(0, 30000, (20, 128)))) == []
    # Those of a sound have both signs.
    assert said(exam(*RNG.integers(-9000, 9000, (20, 5000)))) == ["noise"]


def test_sounds() -> None:
    waves = [np.sin(np.arange(16000) * f) * 0.7 for f in RNG.uniform(0.01, 0.05, 10)]
    waves = [wave * np.hanning(16000) for wave in waves]
    assert said(exam(*waves)) == []
    for change, words in (
        (200.0, "where sounds reach 1 or are 16-bit"),
        (0.004, "only, where sounds reach 1"),
    ):
        (finding,) = findings(exam(*[wave * change for wave in waves]))
        assert words in finding.sentence
    (finding,) = findings(exam(*[np.clip(wave * 5, -1, 1) for wave in waves]))
    assert "they were cut off" in finding.sentence


def test_scaling_that_the_file_states() -> None:
    pixels = [(picture + 2) * 60 for picture in smooth(10)]
    usage = Usage(inputs={"x": InputUsage(kind="image", mean=(127.5,), std=(127.5,), said="metadata")})
    (finding,) = findings(exam(*pixels, usage=usage))
    assert finding.check == "stated_scaling"
    assert "the model's file says -1 to 1" in finding.sentence
    assert findings(exam(*smooth(10), usage=usage)) == []


def test_red_and_blue() -> None:
    waves = np.sin(np.arange(32)[:, None] * np.float32([0.1, 0.25, 0.4, 0.55]))

    def answers(feeds: list[dict[str, np.ndarray]]) -> list[np.ndarray]:
        """Scores of four waves, by how strongly the first colour has each."""
        rows = [feed["x"][0, :, :, 0].mean(1) for feed in feeds]
        found = [np.linalg.lstsq(waves, row, rcond=None)[0] for row in rows]
        return [np.float32([8 * strengths]) for strengths in found]

    def pictures(*colours: float) -> list[np.ndarray]:
        drawn = [np.repeat(waves[:, None, number % 4, None], 32, 1) for number in range(40)]
        return [wave * colours + RNG.normal(0, 0.1, (32, 32, 3)) for wave in drawn]

    (finding,) = findings(Exam(exam(*pictures(0.3, 0.5, 1.0)).feeds, answers, ["a"] * 40, ranked=True))
    assert finding.check == "colours"
    assert "red and blue may be exchanged" in finding.sentence
    assert findings(Exam(exam(*pictures(1.0, 0.5, 0.3)).feeds, answers, ["a"] * 40, ranked=True)) == []
