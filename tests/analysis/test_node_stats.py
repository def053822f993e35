"""The tables of times, character by character."""

from __future__ import annotations

import pytest

from thinflow.analysis.node_stats import NodeStats, Series

RULE = "=" * 30


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([], "count=0"),
        ([7], "count=1 curr=7"),
        ([7, 7], "count=2 curr=7(all same)"),
        ([18102, 18152, 18202], "count=3 first=18102 curr=18202 min=18102 max=18202 avg=18152 std=40"),
        (
            [5, 5, 6],
            "count=3 first=5 curr=6 min=5 max=6 avg=5.33333 std=0",
        ),  # the variance loses its fraction
        ([682880, 682886], "count=2 first=682880 curr=682886 min=682880 max=682886 avg=682883 std=3"),
        ([0, 2469134], "count=2 first=0 curr=2469134 min=0 max=2469134 avg=1.23457e+06 std=1234567"),
    ],
)
def test_series(numbers: list[int], text: str) -> None:
    series = Series()
    for number in numbers:
        series.add(number)
    assert str(series) == text


def test_tables() -> None:
    stats = NodeStats()
    for conv in (5000, 5200):
        stats.add_run(
            [("start", "NoOp", 2, 0), ("conv", "Conv2D", conv, 1605632), ("conv2", "Conv2D", 9, 802816)]
        )
    assert stats.by_order().splitlines() == [
        f"{RULE} Run Order {RULE}",
        "\t                             [node type]\t  [first]\t [avg ms]\t     [%]\t  [cdf%]"
        "\t  [mem KB]\t[times called]\t[Name]",
        "\t                                    NoOp\t    0.002\t    0.002\t  0.039%\t  0.039%"
        "\t     0.000\t        1\tstart",
        "\t                                  Conv2D\t    5.000\t    5.100\t 99.785%\t 99.824%"
        "\t  1605.632\t        1\tconv",
        "\t                                  Conv2D\t    0.009\t    0.009\t  0.176%\t100.000%"
        "\t   802.816\t        1\tconv2",
        "",
    ]
    top = stats.by_time("Top 10 CPU", 1).splitlines()
    assert (top[0], top[2].split("\t")[-1], len(top)) == (f"{RULE} Top 10 CPU {RULE}", "conv", 4)
    assert stats.by_type().splitlines() == [
        "Number of nodes executed: 3",
        f"{RULE} Summary by node type {RULE}",
        "\t                             [Node type]\t  [count]\t  [avg ms]\t    [avg %]\t    [cdf %]"
        "\t  [mem KB]\t[times called]",
        "\t                                  Conv2D\t        2\t     5.109\t    99.961%\t    99.961%"
        "\t  2408.448\t        2",
        "\t                                    NoOp\t        1\t     0.002\t     0.039%\t   100.000%"
        "\t     0.000\t        1",
        "",
    ]
    assert stats.short_summary() == (
        "Timings (microseconds): count=2 first=5011 curr=5211 min=5011 max=5211 avg=5111 std=100\n"
        "Memory (bytes): count=2 curr=2408448(all same)\n3 nodes observed\n"
    )


def test_a_node_in_a_loop() -> None:
    stats = NodeStats()
    stats.add_run([("a", "Add", 2, 4), ("a", "Add", 3, 4), ("b", "Mul", 1, 4)])
    row = stats.rows["a"]
    assert (row.micros.first, row.memory, row.calls) == (5, 8, 2)


def test_nothing_ran() -> None:
    stats = NodeStats()
    assert "Number of nodes executed: 0" in stats.by_type()
    assert stats.short_summary().endswith("0 nodes observed\n")
    assert stats.by_time().count("\n") == 3


def test_medians_are_not_moved_by_one_run_and_know_parts_of_a_microsecond() -> None:
    stats = NodeStats()
    for run in range(9):
        late = 900 if run == 4 else 0
        # Between one and two microseconds, nearer to one; the third runs on a branch that is seldom taken.
        stats.add_run([("a", "Conv2D", 30 + late, 0), ("b", "Relu", 1 + (run % 3 == 0), 0)])
    stats.add_run([("a", "Conv2D", 30, 0), ("b", "Relu", 1, 0), ("c", "Relu", 50, 0)])
    found = stats.medians()
    assert found["a"] == pytest.approx(30, abs=0.1)
    assert 1 < found["b"] < 1.5
    assert found["c"] == pytest.approx(0, abs=0.1)
    (first, took), (second, both) = stats.medians_by_op()
    assert (first, took) == ("Conv2D", found["a"])
    assert (second, both) == ("Relu", found["b"] + found["c"])
