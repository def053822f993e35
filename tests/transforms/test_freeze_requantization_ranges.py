"""Ranges from logs: reading them, percentiles, and the graph afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.transforms.golden import parse_graph
from tests.transforms.support import apply, compute, feeds_for
from thinflow.errors import ParameterError, ThinflowError
from thinflow.ir.graph import Graph
from thinflow.rewrite.runner import StepReport
from thinflow.transforms.quantized.freeze_requantization_ranges import log_ranges, percentiles, read_records

GRAPH = """
    x = Placeholder() {dtype=float, shape=shape[2,8]}
    lo = Const() {value=float[]{-10}}
    hi = Const() {value=float[]{10}}
    q = QuantizeV2(x, lo, hi) {T=quint8, mode="MIN_FIRST"}
    bias = Const() {value=quint8[8]{0,10,20,30,40,50,60,70}}
    sum = QuantizedBiasAdd(q, bias, q:1, q:2, lo, hi) {T1=quint8, T2=quint8, out_type=qint32}
    range = RequantizationRange(sum, sum:1, sum:2) {Tinput=qint32}
    small = Requantize(sum, sum:1, sum:2, range, range:1) {Tinput=qint32, out_type=quint8}
    y = Dequantize(small, small:1, small:2) {T=quint8, mode="MIN_FIRST"}
    inputs: x
    outputs: y
"""


def line(name: str, low: object, high: object, label: str = "__requant_min_max:") -> str:
    return f";{name}__print__;{label}[{low}][{high}]"


def freeze(tmp_path: Path, text: str, graph: Graph | str = GRAPH, **options: Any) -> tuple[Graph, StepReport]:
    path = tmp_path / "log.txt"
    path.write_bytes(text.encode())
    given = {"min_max_log_file": (str(path),), **options}
    result = apply(graph, [("freeze_requantization_ranges", given)])
    return result.graph, result.steps[0]


def test_a_range_becomes_two_constants(tmp_path: Path) -> None:
    graph, report = freeze(tmp_path, f"some\nnoise\n{line('range', -20.5, 15)}\nmore;noise:\n")
    assert [n.name for n in graph if n.name.startswith("range")] == ["range/frozen_min", "range/frozen_max"]
    assert [v.node.op for v in graph.node("small").inputs] == ["QuantizedBiasAdd"] * 3 + ["Const"] * 2
    assert [float(v.node.tensor.numpy()) for v in graph.node("small").inputs[3:]] == [-20.5, 15]  # type: ignore[union-attr]
    assert [e.text for e in report.trace.changes] == ["its range is -20.5 to 15"]
    before = parse_graph(GRAPH)
    feeds = feeds_for(before)
    np.testing.assert_allclose(compute(graph, feeds)[0], compute(before, feeds)[0], atol=0.5)
    again, second = freeze(tmp_path, line("range", -20.5, 15), graph)
    assert (len(again), second.changes) == (len(graph), 0)
    assert second.trace.warnings == ["the log names 'range', which is no node of the graph"]


def test_a_log_in_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    _, report = freeze(tmp_path, line("range", -20.5, 15), min_max_log_file=("~/log.txt",))
    assert report.changes == 1


def test_records_and_noise() -> None:
    text = [
        "2026-01-01: I/;a__print__;__requant_min_max:[-20.8][22.2]\r\n",
        ";b/c__print__;__requant_min_max:[1e-3][2]0: done",
        ";a__print__;__requant_min_max:[1][2",
        ";a__print__;__requant_min_max:[1][two]",
        ";a__print__;__requant_min_max:[1][2][3]",
        ";a__print__;__requant_min_max:[1]",
        ";a__print__;__requant_min_max:[][]",
        ";a__print__;__requant_min_max:[1 2][3]",
        ";a;__requant_min_max:[1][2]",
        ";a__print__;[1][2]",
        ";c__print__;__requant_min_max:[1 2][3 4]",
    ]
    assert read_records(text) == [
        ("a", ((-20.8,), (22.2,))),
        ("b/c", ((0.001,), (2.0,))),
        ("c", ((1.0, 2.0), (3.0, 4.0))),
    ]


@pytest.mark.parametrize(
    ("count", "percent", "expected"),
    [
        (1, 5, (-1, 1)),
        (9, 5, (-9, 9)),
        (20, 5, (-19, 19)),
        (30, 5, (-29, 29)),
        (100, 5, (-95, 95)),
        (10, 50, (-5, 5)),
        (10, 99.9, (-1, 1)),
        (10, 0, (-10, 10)),
    ],
)
def test_both_tails_lose_as_many(count: int, percent: float, expected: tuple[int, int]) -> None:
    records = [((float(-n),), (float(n),)) for n in range(1, count + 1)]
    low, high = percentiles(records, percent, percent)
    assert (low[0], high[0]) == expected


def test_records_that_are_no_ranges(tmp_path: Path) -> None:
    log = [line("range", *pair) for pair in (("nan", 1), (-1, "inf"), (2, 1), (-3, 4))]
    graph, report = freeze(tmp_path, "\n".join(log))
    assert float(graph.node("range/frozen_max").tensor.numpy()) == 4  # type: ignore[union-attr]
    assert report.trace.warnings == ["3 of 4 records of 'range' are no ranges: not finite, or upside down"]
    _, report = freeze(tmp_path, line("range", "nan", 1))
    assert [e.text for e in report.trace.left] == ["none of its records is a range"]


def test_other_models_in_the_log(tmp_path: Path) -> None:
    log = "\n".join([line("range", -3, 4), line("other", 0, 1), line("sum", 0, 1)])
    graph, report = freeze(tmp_path, log)
    assert "range" not in graph
    assert report.trace.warnings == [
        "the log names 'other', which is no node of the graph",
        "the log names 'sum', which is a QuantizedBiasAdd",
    ]
    with pytest.raises(ThinflowError, match="the log names 'other'"):
        freeze(tmp_path, log, strict=True)


def test_who_waits_and_who_is_asked_for(tmp_path: Path) -> None:
    waiting = GRAPH.replace("small = ", "n = NoOp(^range)\n small = ").replace(
        '"MIN_FIRST"}\n    inputs', '"MIN_FIRST"}\n    z = Neg(x, ^n) {T=float}\n    inputs'
    )
    graph, _ = freeze(tmp_path, line("range", -3, 4), waiting.replace("outputs: y", "outputs: y, z"))
    assert [c.name for c in graph.node("n").control_inputs] == ["range/frozen_min", "range/frozen_max"]
    assert len(compute(graph, feeds_for(graph))) == 2
    _, report = freeze(tmp_path, line("range", -3, 4), GRAPH.replace("outputs: y", "outputs: y, range:1"))
    assert [e.text for e in report.trace.left] == ["it is asked for by name"]
    _, report = freeze(tmp_path, line("elsewhere", -3, 4))
    assert [e.text for e in report.trace.left] == ["the log has no record of it"]


def test_one_range_per_channel(tmp_path: Path) -> None:
    per_channel = """
        x = Placeholder() {dtype=qint32, shape=shape[2]}
        r = RequantizationRangePerChannel(x, x, x)
        y = Custom(r, r:1)
        inputs: x
        outputs: y
    """
    log = "\n".join([line("r", "-1 -4", "1 2"), line("r", "-2 -3", "5 1")])
    graph, _ = freeze(tmp_path, log, per_channel, min_percentile=0, max_percentile=50)
    assert graph.node("r/frozen_min").tensor.numpy().tolist() == [-2, -4]  # type: ignore[union-attr]
    assert graph.node("r/frozen_max").tensor.numpy().tolist() == [1, 1]  # type: ignore[union-attr]
    _, report = freeze(tmp_path, line("range", "1 2", "3 4"))
    assert "its range is one for all channels" in report.trace.left[0].text
    _, report = freeze(tmp_path, f"{line('r', 1, 2)}\n{line('r', '1 2', '3 4')}", per_channel)
    assert [e.text for e in report.trace.left] == ["its records have different numbers of channels"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_percentile": 100}, "min_percentile is 100"),
        ({"max_percentile": -1}, "max_percentile is -1"),
        ({"min_max_log_file": ()}, "You must pass a file name to min_max_log_file"),
        ({"min_max_log_file": ("/no/such/file",)}, "the log cannot be read"),
    ],
)
def test_errors(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ThinflowError, match=message) as caught:
        freeze(tmp_path, line("range", -3, 4), **options)
    assert caught.value.hint
    with pytest.raises(ThinflowError, match="No min/max range logs were found in the log file"):
        freeze(tmp_path, "nothing here")
    with pytest.raises(ParameterError, match="min_max_log_file"):
        apply(GRAPH, "freeze_requantization_ranges")


def test_the_log_of_insert_logging(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logging = 'insert_logging(op=RequantizationRange, show_name=true, message="__requant_min_max:")'
    noisy = apply(GRAPH, logging).graph
    compute(noisy, feeds_for(noisy))
    log = capsys.readouterr().err
    graph, report = freeze(tmp_path, log)
    assert report.changes == 1
    before = parse_graph(GRAPH)
    feeds = feeds_for(before)
    np.testing.assert_array_equal(compute(graph, feeds)[0], compute(before, feeds)[0])


MEASURED = """
    x = Placeholder() {dtype=float, shape=shape[2,8]}
    axes = Const() {value=int32[2]{0,1}}
    least = Min(x, axes) {T=float, Tidx=int32}
    most = Max(x, axes) {T=float, Tidx=int32}
    q = QuantizeV2(x, least, most) {T=quint8, mode="MIN_FIRST"}
    lo = Const() {value=float[]{-10}}
    hi = Const() {value=float[]{10}}
    bias = Const() {value=quint8[8]{0,10,20,30,40,50,60,70}}
    sum = QuantizedBiasAdd(q, bias, q:1, q:2, lo, hi) {T1=quint8, T2=quint8, out_type=qint32}
    range = RequantizationRange(sum, sum:1, sum:2) {Tinput=qint32}
    small = Requantize(sum, sum:1, sum:2, range, range:1) {Tinput=qint32, out_type=quint8}
    y = Dequantize(small, small:1, small:2) {T=quint8, mode="MIN_FIRST"}
    inputs: x
    outputs: y
"""


@pytest.mark.parametrize("codes", ["", "[1 2 3]", "[[1 2][3 4]...]"])
def test_the_range_of_floats_becomes_constant_too(tmp_path: Path, codes: str) -> None:
    log = f";q__print__;__requant_min_max:{codes}[-3][4]\n{line('range', -20, 15)}"
    graph, report = freeze(tmp_path, log, MEASURED)
    ends = [v.node for v in graph.node("q").inputs[1:]]
    assert [n.name for n in ends] == ["q/frozen_min", "q/frozen_max"]
    assert [float(n.tensor.numpy()) for n in ends if n.tensor is not None] == [-3, 4]
    assert {n.op for n in graph}.isdisjoint({"Min", "Max", "RequantizationRange"})
    assert [e.text for e in report.trace.changes] == ["its range is -3 to 4", "its range is -20 to 15"]
    assert not report.trace.notes
    _, again = freeze(tmp_path, line("q", -3, 4), graph)
    assert again.trace.warnings == ["the log names 'q', which is a QuantizeV2"]


def test_floats_are_left_alone_by_logs_that_say_nothing_of_them(tmp_path: Path) -> None:
    graph, report = freeze(tmp_path, line("range", -20, 15), MEASURED)
    assert graph.node("q").inputs[1].node.op == "Min"
    assert not report.trace.left
    (note,) = report.trace.notes
    assert note.startswith("1 QuantizeV2 still measure the range of floats in every run, which costs speed")
    assert "op=QuantizeV2 besides op=RequantizationRange" in note
    _, report = freeze(tmp_path, line("q", -3, 4), MEASURED)
    assert [e.text for e in report.trace.left] == ["the log has no record of it"]
    _, report = freeze(tmp_path, line("q", "1 2", "3 4"), MEASURED)
    assert "its records have 2 values, but its range is one for all channels" in {
        e.text for e in report.trace.left
    }
    # Codes in front of a range that is no QuantizeV2's are a line of something else.
    with pytest.raises(ThinflowError, match="No min/max range logs"):
        freeze(tmp_path, ";range__print__;__requant_min_max:[1][2][3]", MEASURED)


def test_printed_and_measured_ranges_agree(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    graph = parse_graph(MEASURED)
    feeds = feeds_for(graph)
    options = {
        "op": ("RequantizationRange", "QuantizeV2"),
        "show_name": True,
        "message": "__requant_min_max:",
    }
    compute(apply(graph, [("insert_logging", options)]).graph, feeds)
    printed, _ = freeze(tmp_path, capfd.readouterr().err, graph)
    log = log_ranges(graph, [{graph.value(str(name)): array for name, array in feeds.items()}])
    assert log.count("\n") == 2
    measured, _ = freeze(tmp_path, log, graph)
    for name in ("q/frozen_min", "q/frozen_max", "range/frozen_min", "range/frozen_max"):
        found = [g.node(name).tensor.numpy() for g in (printed, measured)]  # type: ignore[union-attr]
        np.testing.assert_allclose(*found, rtol=1e-6)
    np.testing.assert_allclose(compute(measured, feeds)[0], compute(graph, feeds)[0], atol=0.2)
    with pytest.raises(ParameterError, match="there are no inputs to measure on"):
        log_ranges(graph, [])
