from __future__ import annotations

import pytest

from tests.device.android.phones import BATTERY, THERMAL
from thinflow.device.android.told import parse_facts, parse_state


def test_a_phone_that_tells_nothing_is_still_one() -> None:
    found = parse_facts("")
    assert (found.model, found.soc, found.android, found.abis, found.cores.count) == ("", "", "", (), 1)
    state = parse_state("/system/bin/sh: dumpsys: inaccessible or not found\n")
    assert (state.governor, state.mhz, state.celsius, state.throttled, state.battery) == (
        "",
        None,
        None,
        (),
        None,
    )


def test_an_older_phone_names_its_board_and_one_abi() -> None:
    text = (
        "@ro.product.manufacturer\nsamsung\n@ro.product.model\nsamsung SM-G930F\n"
        "@ro.board.platform\nexynos5\n"
        "@ro.product.cpu.abilist\n\n@ro.product.cpu.abi\narmeabi-v7a\n@machine\narmv7l\n@present\n0-3\n"
        "@memory\nMemTotal:  3735552 kB\n"
    )
    found = parse_facts(text)
    assert (found.model, found.soc, found.abis) == ("samsung SM-G930F", "exynos5", ("armeabi-v7a",))
    assert (found.cores.count, found.memory_bytes, found.android) == (4, 3735552 * 1024, "")


@pytest.mark.parametrize(("status", "words"), [(0, ()), (2, ("Android says the heat is moderate",))])
def test_heat(status: int, words: tuple[str, ...]) -> None:
    state = parse_state(f"@thermal\n{THERMAL.format(status=status)}\n@battery\n{BATTERY}")
    assert state.throttled == words
    assert state.celsius == 47.5  # the CPU's of now, neither the skin's nor what was cached
    assert state.battery == 83


def test_without_a_service_zones_tell_the_heat() -> None:
    text = "@governor\nschedutil\nschedutil\ncat: x: Permission denied\n@khz\n1000000\n2400000\n"
    text += (
        "@zones\n30100 battery\n51200 cpu-0-0\n49 soc_thermal\n-40000 unused\ncat: t: Permission denied gpu\n"
    )
    state = parse_state(text + "@thermal\nCan't find service: thermalservice\n@battery\n")
    assert (state.governor, state.mhz, state.celsius) == ("schedutil", 2400, 51.2)


def test_a_zone_of_something_else_is_better_than_none() -> None:
    assert parse_state("@zones\n30100 battery\n33000 skin\n@thermal\n").celsius == 33
