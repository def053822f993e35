"""Tables of a benchmark: a hundred columns to read, and every figure for machines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.bench.rows import WHERE, full, report, row
from thinflow.bench.machine import Doing
from thinflow.bench.report import BenchmarkReport
from thinflow.bench.roofline import Peak
from thinflow.bench.rows import FIGURES, figures, readable, shortened
from thinflow.bench.workload import Workload


def width(headers: list[str], cells: list[list[str]]) -> int:
    columns = zip(headers, *cells, strict=True)
    return sum(max(map(len, column)) + 2 for column in columns) - 2


def test_what_is_read() -> None:
    headers, cells = readable(report(full("m")))
    assert headers[:4] == ["model", "engine", "threads", "median ms"]
    assert dict(zip(headers, cells[0], strict=True)) == {
        "model": "m",
        "engine": "litert",
        "threads": "1",
        "median ms": cells[0][3],
        "p90": cells[0][4],
        "p99": cells[0][5],
        "GFLOP/s": cells[0][6],
        "% peak": "50",
        "file MB": "17",
        "RAM MB": "80",
    }
    assert cells[0][3].startswith("10.0")
    assert " ± 0.0" in cells[0][3]
    assert float(cells[0][6]) == pytest.approx(100, rel=0.05)


def test_it_fits_a_hundred_columns_whatever_the_names() -> None:
    names = ["a_model_with_a_rather_long_name_fp32", "a_model_with_a_rather_long_name_int8", "m"]
    rows = [full(n, e, t) for n in names for e in ("onnxruntime", "reference") for t in (1, 16)]
    headers, cells = readable(report(*rows))
    assert width(headers, cells) <= 100
    shown = {c[0] for c in cells}
    assert len(shown) == 3
    assert all("…" in n for n in shown - {"m"})


def test_quick_models_are_told_in_microseconds() -> None:
    headers, (quick, slow) = readable(report(row("a", 0.0064), row("b", 4.0)))
    assert headers[3] == "median µs"
    assert quick[3].startswith("6.4")
    assert slow[3].startswith("40")
    assert len(quick[3]) < 14


def test_names_stay_different() -> None:
    assert shortened(["resnet_v2_50_optimized_int8"], 15) == ["resnet_…ed_int8"]
    assert shortened(["aaaaaaaaaa1aaaaaaaaaa", "aaaaaaaaaa2aaaaaaaaaa"], 10) == [
        "aaaaaaaaaa1aaaaaaaaaa",
        "aaaaaaaaaa2aaaaaaaaaa",
    ]


def test_columns_without_anything_are_left_out() -> None:
    bare = BenchmarkReport((row("m", 1.0),), WHERE, 50, 1.0)
    assert readable(bare)[0] == ["model", "engine", "threads", "median ms", "p90", "p99"]


def test_every_figure_is_exact() -> None:
    only = full("m")
    headers, (cells,) = figures(report(only))
    assert tuple(headers) == FIGURES
    found = dict(zip(headers, cells, strict=True))
    assert float(found["median_ms"]) == pytest.approx(only.median_ms, rel=1e-8)
    assert float(found["low_ms"]) <= float(found["median_ms"]) <= float(found["high_ms"])
    assert float(found["gflops"]) == pytest.approx(1 / (only.median_ms / 1e3), rel=1e-8)
    assert (found["peak_gflops"], found["peak_kind"], found["operations"]) == ("200", "float32", "1000000000")
    assert (found["file_bytes"], found["memory_bytes"], found["cpu_ms"]) == ("17000000", "80000000", "9.5")
    assert (found["path"], found["feed_ms"], found["converged"]) == ("x/m.pb", "", "1")


def test_what_the_machine_did_is_told() -> None:
    found = report(
        row("m", 1.0, work=Workload(0, 0, 0, (), 0, ("loop",))),
        doing=Doing(1.5, 0, 2),
        interrupted=True,
        inter_op_threads=2,
    )
    first, second, third, fourth = found.caveats()
    assert first == "the measurement was interrupted; these are the runs up to then"
    assert (
        second == "while this was measured other programs kept 1.5 of 2 CPUs busy: the machine can do better"
    )
    assert third == "m, litert, 1 thread: no GFLOP/s: the work of 1 nodes is not known, first 'loop'"
    assert fourth == "only onnxruntime runs nodes side by side; elsewhere inter-op threads change nothing"
    assert found.data()["interrupted"] is True


def test_eight_bit_work_beside_a_peak_in_float_is_told() -> None:
    work = Workload(10**9, 10**9, 3)
    found = report(row("m", 10.0, work=work, peak=Peak("float32", 1, 2e11, "numpy")))
    assert "compared with the peak in float" in found.caveats()[0]
    assert found.sentences()[0].startswith("m takes 10.0")
    assert found.sentences()[0].endswith("GFLOP/s, 50 % of this machine's measured peak)")


def test_no_row_is_told_to_be_above_the_peak() -> None:
    fast = replace(full("m"), peak=Peak("float32", 1, 6e10, "numpy"))
    assert full("m").rate > 6e10
    assert fast.percent_of_peak is None
    assert any("m, litert" in n and "no share of the peak" in n for n in report(fast).caveats())
    assert full("m").percent_of_peak == pytest.approx(50, rel=0.05)
    assert not any("no share" in n for n in report(full("m")).caveats())
