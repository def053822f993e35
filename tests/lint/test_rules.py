"""Every rule of the linter: what it says, what it keeps silent about, and how it is written."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.lint.cases import FOLDER, LintCase, cases, said
from tests.transforms.golden import parse_graph
from thinflow.cli import main
from thinflow.lint.codes import shipped_codes
from thinflow.lint.rules import THEMES, Rule, rules

CASES = cases()
ELSEWHERE = {"TF601", "TF603", "TF604", "TF702"}
"""Rules about files and samples, with their cases in test_file_rules.py."""
RULES = rules()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_a_rule_says(case: LintCase) -> None:
    report = case.report()
    assert not report.broken
    assert said(report) == case.said


@pytest.mark.parametrize("one", [r for r in RULES if r.code not in ELSEWHERE], ids=lambda r: r.code)
def test_a_rule_has_cases_of_both_kinds(one: Rule) -> None:
    own = [case for case in CASES if case.code == one.code]
    assert any(case.said for case in own), f"nothing in {FOLDER.name}/{one.code}.txt is found"
    assert any(not case.said for case in own), f"of nothing in {FOLDER.name}/{one.code}.txt it is silent"


@pytest.mark.parametrize("one", RULES, ids=lambda r: r.code)
def test_a_rule_is_documented(one: Rule) -> None:
    """What it is, why it matters, what mends it, and when it does not matter."""
    assert [p.partition(":")[0] for p in one.paragraphs[1:]] == ["Why", "Mend", "Ignore"]
    assert one.title.endswith(".")


@pytest.mark.parametrize("one", RULES, ids=lambda r: r.code)
def test_a_rule_is_named_by_its_file(one: Rule) -> None:
    assert one.check.__module__ == f"thinflow.lint.rules.{one.name}"
    assert re.fullmatch(r"TF[1-7]\d\d", one.code)
    assert one.code[:3] in THEMES


def test_cases_are_of_rules() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == {one.code for one in RULES} - ELSEWHERE
    assert len({one.name for one in RULES}) == len(RULES)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_transform_that_is_proposed_can_be_typed(
    case: LintCase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    graph = parse_graph(case.before)
    proposed = [f.mend for f in case.report().findings if f.mend.startswith("thinflow transform ")]
    if not proposed:
        return
    thinflow.save(graph, "model.pb")
    sides = {v.name: v.node.attrs["shape"].dims or () for v in graph.inputs}
    np.savez("samples.npz", **{name: np.ones((4, *dims), "f4") for name, dims in sides.items()})
    for command in proposed:
        words = shlex.split(command)[1:]
        paths = {"MODEL": "model.pb", "OUT": "out.pb", "SAMPLES": "samples.npz"}
        assert main([paths.get(word, word) for word in words]) == 0, command
        assert thinflow.load("out.pb") != graph


def test_codes_are_found_without_importing_a_rule() -> None:
    assert shipped_codes() == [one.code for one in rules()]
