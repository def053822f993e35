"""Budgets in words."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.lower.c.c_networks import mixed
from thinflow.errors import ParameterError
from thinflow.fit.footprint import footprint
from thinflow.lower.c.convert import network
from thinflow.lower.c.options import Options
from thinflow.optimize.ladder.budget import Budget, budget_of, drop_of
from thinflow.optimize.ladder.needs import needs_of
from thinflow.program.amounts import bytes_text, ms_text
from thinflow.program.arena import arena_bytes
from thinflow.tflite.reader import read_program


@pytest.mark.parametrize(
    ("given", "points"),
    [(None, 1.5), (0, 0), (0.5, 0.5), ("0.5", 0.5), ("0.5%", 0.5), (" 2 % ", 2), (100, 100)],
)
def test_drops(given: Any, points: float) -> None:
    assert drop_of(given) == points


@pytest.mark.parametrize(
    ("given", "count"),
    [
        (1000, 1000),
        ("1000", 1000),
        ("1000B", 1000),
        ("100KB", 100_000),
        ("100 kB", 100_000),
        ("1.5MB", 1_500_000),
        (".5mb", 500_000),
        ("64KiB", 65536),
        ("1e6", 1_000_000),
        ("2GiB", 2 << 30),
    ],
)
def test_sizes(given: Any, count: float) -> None:
    assert budget_of(max_size=given) == Budget(1.5, size_bytes=count)
    assert budget_of(max_ram=given) == Budget(1.5, ram_bytes=count)


@pytest.mark.parametrize(
    ("given", "ms"), [(20, 20), ("20ms", 20), ("0.5s", 500), ("500us", 0.5), ("500 µs", 0.5), ("1 S", 1000)]
)
def test_times(given: Any, ms: float) -> None:
    assert budget_of(max_latency=given).latency_ms == pytest.approx(ms)


IN_BYTES = "write 100KB, 1.5MB or 64KiB; a number alone counts bytes"
IN_TIME = "write 20ms, 500us or 0.5s; a number alone counts milliseconds"
IN_POINTS = "write 0.5%; a number alone counts points of percent"


@pytest.mark.parametrize(
    ("words", "problem", "hint"),
    [
        ({"max_size": "100XB"}, "'100XB' is no size", IN_BYTES),
        ({"max_size": "100%"}, "'100%' is no size", IN_BYTES),
        ({"max_size": "KB"}, "'KB' is no size", IN_BYTES),
        ({"max_size": ""}, "'' is no size", IN_BYTES),
        ({"max_size": True}, "True is no size", IN_BYTES),
        ({"max_size": [1]}, "[1] is no size", IN_BYTES),
        ({"max_size": "nan"}, "'nan' is no size", IN_BYTES),
        ({"max_size": 0}, "a file of at most 0 bytes makes no sense", f"give more than 0: {IN_BYTES}"),
        (
            {"max_size": "-5KB"},
            "a file of at most -5000 bytes makes no sense",
            f"give more than 0: {IN_BYTES}",
        ),
        (
            {"max_size": math.nan},
            "a file of at most nan bytes makes no sense",
            f"give more than 0: {IN_BYTES}",
        ),
        (
            {"max_size": "1e999"},
            "a file of at most inf bytes makes no sense",
            f"give more than 0: {IN_BYTES}",
        ),
        ({"max_ram": 0}, "memory of at most 0 bytes makes no sense", f"give more than 0: {IN_BYTES}"),
        ({"max_latency": "20 parsec"}, "'20 parsec' is no time", IN_TIME),
        ({"max_latency": "20KB"}, "'20KB' is no time", IN_TIME),
        ({"max_latency": "-1ms"}, "a run of at most -1 ms makes no sense", f"give more than 0: {IN_TIME}"),
        ({"max_drop": "half"}, "'half' is no drop", IN_POINTS),
        ({"max_drop": -1}, "a drop of at most -1 points makes no sense", "give 0 to 100"),
        ({"max_drop": math.nan}, "a drop of at most nan points makes no sense", "give 0 to 100"),
        ({"max_drop": "101%"}, "a drop of at most 101 points makes no sense", "give 0 to 100"),
    ],
)
def test_what_is_no_budget_is_refused(words: dict[str, Any], problem: str, hint: str) -> None:
    with pytest.raises(ParameterError) as refused:
        budget_of(**words)
    assert (refused.value.problem, refused.value.hint) == (problem, hint)


def test_budgets_and_amounts_in_words() -> None:
    assert Budget().text == "drop <= 1.5 points"
    whole = Budget(0.5, 100_000, 20, 64_000)
    assert whole.text == "drop <= 0.5 points, size <= 100.0 kB, latency <= 20 ms, RAM <= 64.0 kB"
    assert [bytes_text(n) for n in (12, 1234, 54_321, 1_234_567, 2e9)] == [
        "12 bytes",
        "1.23 kB",
        "54.3 kB",
        "1.23 MB",
        "2.00 GB",
    ]
    assert [ms_text(t) for t in (0.00386, 0.155, 12.34, 1234)] == [
        "3.86 µs",
        "155 µs",
        "12.3 ms",
        "1,234 ms",
    ]


def test_on_a_processor_the_needs_are_those_of_the_c() -> None:
    content = mixed("int8")
    program = read_program(content)
    plain = needs_of(content, program, "")
    assert plain == (len(content), arena_bytes(program.subgraphs))
    it = footprint(network(read_program(content), Options(cpu="cortex-m4")))
    assert needs_of(content, program, "cortex-m4") == (it.flash_bytes, it.ram_bytes + it.stack_bytes)
    # A candidate beside others: reading it must not have changed it.
    assert needs_of(content, program, "") == plain
    assert budget_of(max_ram="64KB", target="cortex-m4").text.endswith("RAM <= 64.0 kB on cortex-m4")
    with pytest.raises(ParameterError, match="no processor 'cortex-m5'"):
        budget_of(target="cortex-m5")
