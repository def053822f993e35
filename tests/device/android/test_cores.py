from __future__ import annotations

import pytest

from tests.device.android.phones import FOUR_AND_FOUR
from thinflow.device.android.cores import Cores, chosen, mask, parse_frequencies
from thinflow.errors import ParameterError

PHONE = Cores(FOUR_AND_FOUR, 8)
ALIKE = Cores(dict.fromkeys(range(4), 1_500_000), 4)


@pytest.mark.parametrize(
    ("text", "cpus", "expected"),
    [
        ("little", [0, 1, 2, 3], "f"),
        ("big", [4, 5, 6, 7], "f0"),
        ("fastest", [6, 7], "c0"),
        ("4-7", [4, 5, 6, 7], "f0"),
        ("0,6-7", [0, 6, 7], "c1"),
        ("10", [10], "400"),
        ("f0", [4, 5, 6, 7], "f0"),
        ("0x10", [4], "10"),
    ],
)
def test_cpus_and_their_mask(text: str, cpus: list[int], expected: str) -> None:
    found = chosen(text, Cores(FOUR_AND_FOUR, 16))
    assert found == cpus
    assert mask(found) == expected


def test_all_of_them_need_no_mask() -> None:
    assert chosen("", PHONE) == []


@pytest.mark.parametrize(
    "text", ["all", "7-4", "-1", "0", "4-", "0x0", "1e9", "4;rm -rf /", "0x" + "f" * 900]
)
def test_what_names_no_cpus(text: str) -> None:
    if text in ("0", "1e9"):  # the first CPU; a mask
        assert chosen(text, Cores(FOUR_AND_FOUR, 64))
        return
    with pytest.raises(ParameterError, match="names no CPUs") as error:
        chosen(text, PHONE)
    assert "big, little" in error.value.hint


def test_a_cpu_that_is_not_there() -> None:
    with pytest.raises(ParameterError, match=r"cpus '6-9': the device has no CPU 8") as error:
        chosen("6-9", PHONE)
    assert error.value.hint == "its CPUs are 0-7"


@pytest.mark.parametrize(
    ("cores", "why"),
    [(ALIKE, "has CPUs of one speed alone"), (Cores({}, 8), "does not tell how fast its CPUs are")],
)
def test_no_big_ones(cores: Cores, why: str) -> None:
    with pytest.raises(ParameterError, match=why) as error:
        chosen("big", cores)
    assert "by number" in error.value.hint


def test_groups_in_words() -> None:
    assert str(PHONE) == "4 at 1.8 GHz + 2 at 2.3 GHz + 2 at 2.9 GHz"
    assert str(ALIKE) == ""


def test_frequencies_as_a_shell_prints_them() -> None:
    text = (
        "/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq 1803000\n"
        "cat: /sys/devices/system/cpu/cpu1/cpufreq/cpuinfo_max_freq: Permission denied\n"
        "/sys/devices/system/cpu/cpu1/cpufreq/cpuinfo_max_freq \n"
        "/sys/devices/system/cpu/cpu10/cpufreq/cpuinfo_max_freq 2348000\n"
    )
    assert parse_frequencies(text, 11).khz == {0: 1803000, 10: 2348000}
