"""What LiteRT answers on Arm processors, which QEMU plays, beside what it answers here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.arm.answers import MARKS, MODELS, PAGE, Row, compared, difference, models, table, written
from benchmarks.arm.processors import PROCESSORS
from benchmarks.arm.root import FOLDER, NotMade, python
from tests.night import AT_NIGHT

_SOME = [
    *("digits_float", "digits_int8", "hello_world_int8", "mlperf_kws_ref", "person_detect"),
    *("kws_DS_CNN_S_features_float", "kws_DS_CNN_S_features_int8"),
]
_REALS = 1e-5
"""Of the largest value: sums in another order."""
_AFTER_A_STEP = 0.1
"""Of a probability, where eight bits came before a softmax: a step of the logits is that much at most."""


@pytest.fixture(scope="module")
def folder() -> Path:
    try:
        python()
    except NotMade as error:
        pytest.skip(str(error))
    return FOLDER


@pytest.mark.slow
@pytest.mark.parametrize("processor", list(PROCESSORS) if AT_NIGHT else ["cortex-a76"])
def test_models_answer_alike(folder: Path, tmp_path: Path, processor: str) -> None:
    """The zoo and the keyword networks beside the project; the bundled model where there are none."""
    chosen = models(MODELS if AT_NIGHT else tmp_path, () if AT_NIGHT else _SOME)
    rows = list(compared(chosen, [processor], count=20 if AT_NIGHT else 5, threads=1, folder=folder))
    assert {"digits_float", "digits_int8"} <= {row.model for row in rows}
    for row in rows:
        assert not row.refusal, row
        found = row.found[processor]
        assert found.values, row
        assert found.same_top == found.tops, row
        if found.integers or found.step:
            assert round(found.largest / (found.step or 1)) <= 1, row
            assert found.apart <= 0.1 * found.values, row
        else:
            assert found.relative <= (_AFTER_A_STEP if row.model.endswith("_int8") else _REALS), row


def test_a_difference_of_integers_is_in_steps() -> None:
    ours = [[np.array([3, 9, -4], np.int8)], [np.array([1, 1, 0], np.int8)]]
    theirs = [[np.array([3, 7, -4], np.int8)], [np.array([1, 2, 0], np.int8)]]
    found = difference(ours, theirs)
    assert (found.largest, found.apart, found.values, found.same_top, found.tops) == (2, 2, 6, 2, 2)
    assert str(found) == "2 steps in 2 of 6"
    assert str(difference(ours, ours)) == "equal"


def test_a_difference_of_reals_is_by_the_largest() -> None:
    found = difference([[np.array([8.0, 2.0], np.float32)]], [[np.array([7.0, 7.5], np.float32)]])
    assert (found.largest, found.relative, found.same_top, found.tops) == (5.5, 5.5 / 8, 0, 1)
    assert str(found) == "5.5e+00 of 8: 6.9e-01"


def test_reals_made_of_eight_bits_are_in_steps_of_those() -> None:
    found = difference([[np.array([0.5, 0.25], np.float32)]], [[np.array([0.5, 0.5], np.float32)]], 0.25)
    assert str(found) == "1 step in 1 of 2"
    # The first stands where two are equally large there.
    assert found.same_top == 1


@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan])
def test_what_is_no_finite_number_is_alike_only_if_it_is_so_on_both(odd: float) -> None:
    here, there = [[np.array([odd, 1.0], np.float32)]], [[np.array([2.0, 1.0], np.float32)]]
    assert not difference(here, here).apart
    for one in (difference(here, there), difference(there, here)):
        assert (one.apart, one.largest) == (1, np.inf)


def test_other_outputs_are_no_difference_but_an_error() -> None:
    with pytest.raises(ValueError, match=r"float32\[2\], and int8\[2\] there"):
        difference([[np.zeros(2, np.float32)]], [[np.zeros(2, np.int8)]])


def test_the_table_tells_what_was_not_run() -> None:
    equal = difference([[np.array([1, 2], np.int8)]], [[np.array([1, 2], np.int8)]])
    rows = [Row("a", "3, speech", {"cortex-a72": equal}), Row("b", "speech", {}, "refused")]
    made = table(rows, ["cortex-a72"])
    assert "| a | 3, speech | equal | 1 of 1 |" in made
    assert "| b | speech | refused |  |" in made
    assert written(f"x\n{MARKS[0]}old\n{MARKS[1]}y\n", made) == f"x\n{MARKS[0]}\n{made}\n{MARKS[1]}y\n"


def test_the_page_has_a_row_for_each_of_them() -> None:
    text = PAGE.read_text("utf-8")
    assert all(f"| {name} |" in text or f"| {name}_mended |" in text for name in _SOME)
    assert all(processor in text for processor in PROCESSORS)
