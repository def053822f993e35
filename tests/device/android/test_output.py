from __future__ import annotations

import pytest

from tests.device.android.phones import OUTPUTS
from thinflow.device.android.output import Delegation, Replaced, Row, Statistic, parse_output


def told(name: str):
    return parse_output((OUTPUTS / f"{name}.txt").read_text("utf-8"))


def test_a_run_of_today() -> None:
    found = told("xnnpack")
    assert found.inference == Statistic(8467, 117.482, 117, 108, 402, 9, 110, 115, 130)
    assert found.warmup is not None
    assert found.warmup.count == 4211
    assert found.inference.typical == 115
    assert (found.init_us, found.first_us) == (2934, 1203)
    assert (found.init_mb, found.overall_mb, found.peak_mb) == (3.19922, 4.83984, 8.71875)
    assert found.replaced == [Replaced("TfLiteXNNPackDelegate", 9, 9, 1)]
    assert not (found.delegations)
    assert not (found.refused)
    assert not (found.errors)
    assert not (found.unknown_flags)
    assert not (found.rows)


def test_runs_of_before_have_no_percentiles() -> None:
    of_2021, of_2019 = told("of_2021"), told("of_2019")
    assert of_2021.inference == Statistic(731, 1364.9, 1362, 1333, 1610, 18)
    assert of_2021.inference.typical == 1364.9
    assert (of_2021.init_mb, of_2021.overall_mb, of_2021.peak_mb) == (0.792969, 3.61719, None)
    assert of_2019.inference == Statistic(424, 2357.91, 2361, 2329, 2604, 19)
    assert (of_2019.init_us, of_2019.first_us, of_2019.overall_mb) == (3127, None, None)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gpu", Delegation("GPU", 1, True)),
        ("gpu_part", Delegation("GPU", 2, False)),
        ("nnapi_ignored", Delegation("NNAPI", 0, False)),
    ],
)
def test_what_became_of_a_delegate(name: str, expected: Delegation) -> None:
    assert told(name).delegations == [expected]


def test_a_delegate_that_took_a_part_and_the_one_that_took_the_rest() -> None:
    assert told("gpu_part").replaced == [
        Replaced("TfLiteGpuDelegateV2", 6, 9, 4),
        Replaced("TfLiteXNNPackDelegate", 3, 5, 5),
    ]


def test_a_delegate_that_is_not_there() -> None:
    unsupported, failed = told("gpu_unsupported"), told("gpu_failed")
    assert not unsupported.delegations
    assert unsupported.refused == ["GPU acceleration is unsupported on this platform."]
    assert unsupported.inference is not None
    assert failed.inference is None
    assert failed.refused == ["Failed to apply GPU delegate"]
    assert any("libOpenCL.so" in error for error in failed.errors)


def test_errors_are_told_without_their_level() -> None:
    found = told("no_operator")
    assert found.inference is None
    assert found.errors[0].startswith("Didn't find op for builtin opcode 'GELU' version '2'")


def test_tables_of_operators() -> None:
    rows = told("of_2021").rows
    assert [r.kind for r in rows][:4] == ["CONV_2D", "DEPTHWISE_CONV_2D", "CONV_2D", "MAX_POOL_2D"]
    assert rows[4] == Row("CONV_2D", "[conv3/Relu]", 4, 577, 1)
    assert len(rows) == 9  # neither those of the beginning nor the longest ones again


def test_tables_with_kernels_inside_a_delegate() -> None:
    outer, *inner = told("profile").rows
    assert outer == Row("TfLiteXNNPackDelegate", "[probabilities]", 9, 112, 1)
    assert len(inner) == 11
    assert all(r.inside for r in inner)
    assert inner[4] == Row(
        "Convolution (NHWC, F32) IGEMM", "Convolution (NHWC, F32) IGEMM", 4, 29, 1, inside=True
    )


def test_rows_of_a_loop_count_all_its_turns_and_know_their_subgraph() -> None:
    header = "\t[node type]\t[first]\t[avg ms]\t[%]\t[cdf%]\t[mem KB]\t[times called]\t[Name]"
    lines = [
        "Operator-wise Profiling Info for Regular Benchmark Runs:",
        "Primary graph (name: main) profile:",
        f"{'=' * 30} Run Order {'=' * 30}",
        header,
        "\tWHILE\t2.0\t2.0\t100%\t100%\t0.0\t1\t[out]:3",
        "",
        "Subgraph (index: 2, name: body) profile:",
        f"{'=' * 30} Run Order {'=' * 30}",
        header,
        "\tADD\t0.1\t0.25\t100%\t100%\t0.0\t8\t[sum]:1",
        "",
    ]
    assert parse_output("\n".join(lines)).rows == [
        Row("WHILE", "[out]", 3, 2000, 1),
        Row("ADD", "[sum]", 1, 2000, 8, subgraph=2),
    ]


def test_all_runs_alike() -> None:
    begins = "Running benchmark for at least 1 iterations"
    alike = "count=3 curr=42(all same) p5=42 median=42 p95=42"
    found = parse_output("\n".join([begins, "count=0", begins, alike]))
    assert found.warmup is None
    assert found.inference is not None
    assert (found.inference.count, found.inference.typical) == (3, 42)


def test_flags_that_are_not_known() -> None:
    text = "WARN: Unconsumed cmdline flags: --output_filepath=/x --use_gpu=true"
    assert parse_output(text).unknown_flags == ["output_filepath", "use_gpu"]


@pytest.mark.parametrize("cut", range(0, 1600, 53))
def test_an_output_cut_anywhere_is_read_as_far_as_it_goes(cut: int) -> None:
    text = (OUTPUTS / "profile.txt").read_text("utf-8")
    found = parse_output(text[:cut])
    assert found.inference is None or found.inference.average > 0
    assert not parse_output(text[cut:][:0]).rows
