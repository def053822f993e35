"""Times in words."""

from __future__ import annotations

import pytest

from thinflow.program.amounts import ms_text


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 µs"),
        (0.032, "32 µs"),
        (0.99996, "1 ms"),
        (399, "399 ms"),
        (999.9, "1,000 ms"),
        (1234, "1,234 ms"),
        (12_345, "12.3 s"),
    ],
)
def test_times_have_units_that_people_use(ms: float, text: str) -> None:
    assert ms_text(ms) == text
