"""Looking at a model: selection, settings, rules that fail, order, and what is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

import thinflow
from tests.networks import Network, networks
from tests.programs import Block, blocks, new_form, old_form
from tests.transforms.golden import parse_graph
from thinflow.compare.output_comparer import OutputComparer
from thinflow.lint import fix, handwritten
from thinflow.lint import rules as registry
from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.fix import fixed_graph, mended_codes
from thinflow.lint.report import LintReport
from thinflow.lint.rules import Rule, find, rule, rules
from thinflow.lint.selection import selected
from thinflow.lint.text import github_lines
from thinflow.zoo import digits

DROPOUT = """
x = Placeholder() {dtype=float, shape=shape[1,4]}
keep = Const() {dtype=float, value=float[]{1}}
kept = RealDiv(x, keep) {T=float}
sizes = Const() {dtype=int32, value=int32[2]{1,4}}
random = RandomUniform(sizes) {T=int32, dtype=float, seed=1, seed2=1}
moved = Add(random, keep) {T=float}
mask = Floor(moved) {T=float}
dropped = Mul(kept, mask) {T=float}
y = Softmax(dropped) {T=float}
inputs: x
outputs: y
"""


@given(networks(steps=6))
@settings(max_examples=25, deadline=None)
def test_no_rule_fails_on_any_network(network: Network) -> None:
    report = thinflow.lint(network.graph(), synthetic=True)
    assert not report.broken
    assert {finding.code for finding in report.findings} <= set(report.rules)
    assert "\n".join(report.lines(everything=True))


@given(blocks())
@settings(max_examples=10, deadline=None)
def test_no_rule_fails_on_loops_and_branches(block: Block) -> None:
    for write in (old_form, new_form):
        report = thinflow.lint(write(block), synthetic=True)
        assert not report.broken


@given(networks(steps=6))
@settings(max_examples=15, deadline=None)
def test_what_is_mended_is_proven_and_found_no_more(network: Network) -> None:
    graph = network.graph()
    before = thinflow.lint(graph)
    mended = fixed_graph(graph, before)
    after = {finding.code for finding in thinflow.lint(mended.graph).findings if finding.fix}
    assert after <= {finding.code for finding in before.fixable}
    feed = network.sample()
    answers = [thinflow.run(g, feed) for g in (graph, mended.graph)]
    for first, second in zip(*(a.values() for a in answers), strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-3, atol=1e-4)


@given(blocks())
@settings(max_examples=15, deadline=None)
def test_loops_and_branches_are_mended_as_they_stand(block: Block) -> None:
    for write in (old_form, new_form):
        graph = write(block)
        mended = fixed_graph(graph, thinflow.lint(graph)).graph
        for sign in (1, -1):
            feed = {"x": np.array([0.5, -1.0, 0.25], np.float32) * sign}
            for first, second in zip(*(thinflow.run(g, feed).values() for g in (graph, mended)), strict=True):
                np.testing.assert_allclose(first, second, rtol=1e-5, atol=1e-6)


def test_nothing_is_changed_by_looking() -> None:
    graph = parse_graph(DROPOUT)
    before = [(n.name, n.op, [v.name for v in n.inputs]) for n in graph]
    thinflow.lint(graph, synthetic=True)
    assert [(n.name, n.op, [v.name for v in n.inputs]) for n in graph] == before


def test_the_heaviest_comes_first() -> None:
    report = thinflow.lint(parse_graph(DROPOUT.replace("float[]{1}", "float[]{0.5}")))
    assert [str(f.severity) for f in report.findings[:1]] == ["error"]
    assert report.findings[0].message == "dropout that drops: 'keep' is 0.5, not 1"
    weights = [f.severity for f in report.findings if f.severity is not None]
    assert weights == sorted(weights, reverse=True)
    assert report.at_least(Severity.ERROR) == report.findings[:1]


@pytest.mark.parametrize(
    ("select", "ignore", "wanted"),
    [
        (["TF403"], [], ["TF403"]),
        (["baked-in-softmax"], [], ["TF403"]),
        (["tf70"], ["TF701"], ["TF702", "TF703"]),
        (["TF703", "TF7"], ["TF70"], ["TF703"]),
        (["ALL"], ["TF1", "TF2", "TF3", "TF4", "TF5", "TF6"], ["TF701", "TF702", "TF703"]),
        ([], [], []),
    ],
)
def test_a_longer_prefix_wins(select: list[str], ignore: list[str], wanted: list[str]) -> None:
    assert [one.code for one in selected(select, ignore)] == wanted


def test_all_rules_look_by_default() -> None:
    assert selected(None, []) == rules()


def test_a_trifle_is_no_warning() -> None:
    """A few zeros that are made anew in each run are worth a word; a matrix is worth a warning."""
    matrix = "w = Const() {dtype=float, value=float[64,64]{normal 1}}\n"
    small = (
        "size = Const() {dtype=int32, value=int32[1]{4}}\nnone = Const() {dtype=float, value=float[]{0}}\n"
        "zeros = Fill(size, none) {T=float}\ny = MatMul(x, w) {T=float}\nz = Neg(zeros) {T=float}\n"
        "inputs: x\noutputs: y, z\n"
    )
    large = "v = Neg(w) {T=float}\ny = MatMul(x, v) {T=float}\ninputs: x\noutputs: y\n"
    for text, severity in ((small, Severity.INFO), (large, Severity.WARNING)):
        graph = parse_graph("x = Placeholder() {dtype=float, shape=shape[1,64]}\n" + matrix + text)
        (found,) = thinflow.lint(graph, select=["TF304"]).findings
        assert found.severity is severity


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("TF33", "TF3 (structure) is TF301 to TF31"),
        ("TF30X", "TF3 (structure) is TF301 to TF31"),
        ("301", "did you mean 'TF301'?"),
        ("F-301", "did you mean 'TF301'?"),
        ("TF999", "themes are TF1 (left over from training), "),
        ("baked_in_sofmax", "baked_in_softmax"),
        ("\x1b[2J", "--list"),
    ],
)
def test_a_code_that_does_not_exist(code: str, hint: str) -> None:
    with pytest.raises(thinflow.ParameterError, match="selects no rule") as caught:
        thinflow.lint(parse_graph(DROPOUT), select=[code])
    assert hint in caught.value.hint
    with pytest.raises(thinflow.ParameterError, match="ignores no rule"):
        thinflow.lint(parse_graph(DROPOUT), ignore=[code])
    with pytest.raises(thinflow.ParameterError, match="there is no rule"):
        find(code)


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> Callable[[Rule], None]:
    """Adds a rule for the time of a test."""

    def add(one: Rule) -> None:
        monkeypatch.setitem(registry._RULES, one.code, one)

    rules()
    return add


def test_a_rule_that_fails_is_named_and_stops_no_other(added: Callable[[Rule], None]) -> None:
    def broken(c: Context) -> Iterator[LintFinding]:
        yield LintFinding("something")
        raise KeyError("lost")

    added(Rule("TF499", Severity.ERROR, broken))
    report = thinflow.lint(parse_graph(DROPOUT), select=["TF4"])
    assert report.broken == {"TF499": "KeyError: 'lost'"}
    assert [f.code for f in report.findings] == ["TF403"]
    assert "1 rule failed" in report.verdict
    assert "TF499 failed, and says nothing of this model: KeyError: 'lost'" in str(report)
    assert any(line.startswith("::error file=,title=TF499::the rule failed") for line in github_lines(report))


def test_a_model_that_does_not_run_is_told_of() -> None:
    text = "x = Placeholder() {dtype=float, shape=shape[?,4]}\ny = AcmeMagic(x) {T=float}\n"
    report = thinflow.lint(parse_graph(f"{text}inputs: x\noutputs: y\n"), select=["TF7"], synthetic=True)
    assert list(report.skipped) == ["TF701", "TF702", "TF703"]
    assert not report.broken
    assert "AcmeMagic" in report.skipped["TF703"]
    assert "3 rules did not look (TF701, TF702, TF703): node 'y' (AcmeMagic)" in str(report)


def test_two_rules_of_one_code() -> None:
    rules()

    def float64(c: Context) -> Iterator[LintFinding]:
        yield LintFinding("")

    with pytest.raises(RuntimeError, match=r"TF201 is defined in both thinflow\.lint\.rules\.float64 and"):
        rule("TF201", Severity.INFO)(float64)


def test_rules_that_need_runs_say_that_they_did_not_look() -> None:
    report = thinflow.lint(parse_graph(DROPOUT))
    assert set(report.skipped) == {one.code for one in rules() if one.needs_runs}
    told = str(report).replace("\n  ", " ")
    assert "3 rules did not look (TF701, TF702, TF703): no samples were given to run" in told


def test_lines_fit_a_terminal_and_cut_no_name() -> None:
    long = "scope/" * 20 + "dropped"
    report = thinflow.lint(parse_graph(DROPOUT.replace("dropped", long)))
    told = report.lines(everything=True)
    assert [line for line in told if long in line] == [f"      at {long}"] + [
        line for line in told if long in line and "at " not in line
    ]
    assert all(len(line) <= 80 or long in line for line in told)


def test_what_is_written_is_looked_at_again(tmp_path: Path) -> None:
    report = thinflow.lint(digits.build(0), fix=tmp_path / "mended.pb")
    assert {"TF102", "TF301"} <= set(report.fixed)
    assert not {"TF102", "TF301"} & {finding.code for finding in report.findings}
    assert report.written == str(tmp_path / "mended.pb")
    again = thinflow.lint(tmp_path / "mended.pb")
    assert not {"TF102", "TF301"} & {finding.code for finding in again.findings}
    assert thinflow.verify(digits.build(0), tmp_path / "mended.pb").ok


def test_one_rule_alone_mends_what_it_found(tmp_path: Path) -> None:
    """A dropout's rate stands behind an Identity, and is computed: other rules would have seen to that."""
    report = thinflow.lint(digits.build(0), select=["TF102"], fix=tmp_path / "mended.pb")
    assert (report.fixed, report.findings) == (["TF102"], [])
    assert re.match(r"89 nodes became \d\d, [\d.]+ kB became [\d.]+ kB; .*no output moved", report.proof)
    assert report.data()["proof"] == report.proof


def test_what_is_mended_in_part_is_told() -> None:
    two, one = LintFinding("two", ("a", "b"), fix="x", code="TF1"), LintFinding("one", ("a",), code="TF1")
    gone = LintFinding("gone", ("c",), fix="x", code="TF2")
    before, after = LintReport("", [two, gone], ["TF1", "TF2"]), LintReport("", [one], ["TF1", "TF2"])
    after.fixed, after.partly = mended_codes(before, after)
    assert (after.fixed, after.partly) == (["TF2"], ["TF1"])
    assert mended_codes(before, LintReport("", [two], ["TF1", "TF2"])) == (["TF2"], [])
    # A rule that did not look again, or broke when it did, says nothing of what is left.
    assert mended_codes(before, LintReport("", [two], ["TF1"])) == ([], [])
    assert mended_codes(before, LintReport("", [two], ["TF1", "TF2"], broken={"TF2": "?"})) == ([], [])
    after.written = "m.pb"
    assert after.verdict.startswith("1 mended, 1 mended in part, ")
    assert after.lines()[-2:] == ["mended: TF2", "mended in part: TF1"]


def test_nothing_to_mend_writes_nothing(tmp_path: Path) -> None:
    graph = parse_graph("x = Placeholder() {dtype=float, shape=shape[1,4]}\ny = Relu(x) {T=float}\n")
    graph.inputs, graph.outputs = [graph.value("x")], [graph.value("y")]
    report = thinflow.lint(graph, fix=tmp_path / "mended.pb")
    assert not report.written
    assert report.notes == [f"no transform mends anything of this: {tmp_path / 'mended.pb'} was not written"]
    with pytest.raises(thinflow.ParameterError, match=r"writing \.nope files is not supported"):
        thinflow.lint(graph, fix=tmp_path / "mended.nope")
    assert not (tmp_path / "mended.pb").exists()


def test_a_step_that_cannot_be_compared_is_undone() -> None:
    """Random numbers differ in each run, so that nobody can prove anything of what is behind them."""
    text = DROPOUT.replace("float[]{1}", "float[]{0.5}").replace(
        "y = Softmax(dropped) {T=float}",
        "a = Sigmoid(dropped) {T=float}\nb = Sigmoid(dropped) {T=float}\ny = Mul(a, b) {T=float}",
    )
    graph = parse_graph(text)
    before = thinflow.lint(graph, select=["TF305"])
    assert before.fixable
    mended = fixed_graph(graph, before)
    assert len(mended.graph) in (len(graph), len(graph) - 1)
    assert len(mended.graph) == len(graph) - 1 or mended.notes


def test_what_was_tried_in_vain_is_proposed_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Blind(OutputComparer):
        def compare(self, *_: object) -> None:
            return None

    monkeypatch.setattr(fix, "OutputComparer", Blind)
    assert "mend: --fix OUT, which runs remove_dropout" in str(
        thinflow.lint(digits.build(0), select=["TF102"])
    )
    report = thinflow.lint(digits.build(0), select=["TF102"], fix=tmp_path / "m.pb")
    assert "remove_dropout was undone: not compared: nothing could run it" in report.notes
    (found,) = report.findings
    assert not found.fix
    assert found.mend == "remove_dropout does not mend it in this file; export the model without it"
    assert found.beyond_mending() == found


DECODED = """
data = Placeholder() {dtype=string, shape=shape[]}
pixels = DecodeJpeg(data) {channels=3}
image = Cast(pixels) {SrcT=uint8, DstT=float}
y = Relu(image) {T=float}
"""


def test_what_stands_before_named_inputs_is_no_part_of_the_model(tmp_path: Path) -> None:
    graph = parse_graph(DECODED)
    path = tmp_path / "m.pb"
    thinflow.save(graph, path)
    assert {f.code for f in thinflow.lint(path, select=["TF104", "TF401"]).findings} == {"TF401"}
    report = thinflow.lint(path, select=["TF104", "TF401"], inputs=["image"], outputs=["y"])
    assert [(f.code, f.nodes) for f in report.findings] == [("TF104", ("data", "pixels"))]


def test_what_is_no_number_has_no_slope() -> None:
    """A logarithm is infinite at zero, and numpy warned of what a slope of that gives."""
    assert handwritten._leaky(np.float64([[-1], [0]]), np.float64([[-np.inf], [0]])) == ""
