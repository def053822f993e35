"""`thinflow lint`, as users type it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import thinflow
from tests.cli.conftest import Paste
from tests.transforms.golden import parse_graph
from thinflow.cli import main
from thinflow.lint.rules import rules
from thinflow.zoo import digits


def test_findings(model: str, capsys: pytest.CaptureFixture[str], paste: Paste) -> None:
    assert main(["lint", model]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("my digits.pb: ")
    assert "warning" in lines[0]
    assert "TF102 warning: 1 dropout that drops nothing" in lines
    assert "      at dropout/mul" in lines
    assert lines[-1] == "next: thinflow lint 'my digits.pb' --fix 'my digits_mended.pb'"
    assert all(len(line) <= 80 for line in lines)
    paste(lines[-1])
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("my digits_mended.pb: ")
    assert any(line.startswith("mended: ") and "TF102" in line for line in told)
    assert told[-1] == "next: thinflow verify 'my digits.pb' 'my digits_mended.pb'"
    assert paste(told[-1]) == 0


def test_mended_for_a_phone(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", model, "--fix", "mended.tflite"]) == 0
    assert "mended: " in capsys.readouterr().out
    assert thinflow.verify(digits.build(0), "mended.tflite").ok


def test_severity_decides_the_exit_code(model: str) -> None:
    select = ["--select", "baked_in_softmax"]
    assert main(["lint", model, *select]) == 0
    assert main(["lint", model, *select, "--fail-on", "info"]) == 1
    assert main(["lint", model, "--fail-on", "error"]) == 0


def test_nothing_found(summing: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", summing, "--select", "TF1,TF2", "--select", "TF6"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("summing.pb: nothing found by ")
    assert lines[-1] == "next: thinflow optimize summing.pb out"


def test_json(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    for flags in (["--json"], ["--format", "json"]):
        assert main(["lint", model, *flags]) == 1
        data = json.loads(capsys.readouterr().out)
        assert data["model"] == model
        found = {f["code"]: f for f in data["findings"]}
        assert found["TF102"]["nodes"] == ["dropout/mul"]
        assert found["TF102"]["severity"] == "warning"
        assert found["TF301"]["fix"].startswith("fold_batch_norms")
        assert found["TF403"]["severity"] == "info"


def test_github(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", model, "--select", "TF102,TF403", "--format", "github"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "::warning file=my digits.pb,title=TF102 dropout_left::1 dropout that drops nothing (at dropout/mul)",
        "::notice file=my digits.pb,title=TF403 baked_in_softmax::the output 'probabilities' is a Softmax of"
        " 'logits/BiasAdd' (at probabilities)",
    ]


def test_times_of_findings(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", model, "--select", "TF102", "--profile", "--engine", "reference"]) == 1
    told = capsys.readouterr().out
    assert "times: a run takes " in told
    assert "% of a run" in told
    assert main(["lint", model, "--select", "TF102", "--profile", "--engine", "reference", "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    (finding,) = data["findings"]
    assert 0 < finding["ms"] <= data["times"]["run_ms"]
    assert main(["lint", model, "--select", "TF102", "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert (data["times"], data["findings"][0]["ms"]) == (None, None)


def test_weights_that_are_missing_come_before_a_proof(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    graph = parse_graph(
        "x = Placeholder() {dtype=float, shape=shape[1,4]}\n"
        "w = VariableV2() {dtype=float, shape=shape[4,4]}\n"
        "label = Placeholder() {dtype=float, shape=shape[1,4]}\n"
        "y = MatMul(x, w) {T=float}\nerror = Sub(y, label) {T=float}\n"
    )
    thinflow.save(graph, "m.pb")
    assert main(["lint", "m.pb", "--inputs", "x", "--outputs", "y", "--fix", "n.pb"]) == 1
    told = capsys.readouterr().out
    assert "mended: TF104" in told
    assert told.splitlines()[-1] == "next: thinflow lint --explain TF107"


def test_samples_let_rules_run(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", model, "--select", "TF7"]) == 0
    assert "3 rules did not look" in capsys.readouterr().out
    assert main(["lint", model, "--select", "TF7", "--synthetic"]) == 0
    assert "did not look" not in capsys.readouterr().out
    assert main(["sample", "digits", "digits.pb", "--calibration", "samples.npz"]) == 0
    capsys.readouterr()
    assert main(["lint", "digits.pb", "--select", "TF7", "--calibration", "samples.npz"]) == 0
    assert "by 3 rules" in capsys.readouterr().out


def test_settings_beside_the_model(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("thinflow.toml").write_text('[lint]\nselect = ["TF102"]\nfail_on = "error"\n')
    assert main(["lint", model]) == 0
    assert "1 warning by 1 rule" in capsys.readouterr().out
    assert main(["lint", model, "--no-config"]) == 1
    assert main(["lint", model, "--fail-on", "warning"]) == 1
    Path("other.toml").write_text('[lint]\nignore = ["ALL"]\n')
    capsys.readouterr()
    assert main(["lint", model, "--config", "other.toml"]) == 0
    assert "nothing found by 0 rules" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "problem", "hint"),
    [
        (["m.pb", "--select", "TF10z"], "'TF10z' selects no rule", "TF10"),
        (["m.pb", "--ignore", "dropout_lef"], "'dropout_lef' ignores no rule", "'dropout_left'"),
        (["m.pb", "--fail-on", "warn"], "there is no severity 'warn'", "'warning'"),
        (["m.pb", "--profile", "--engine", "litret"], "there is no profile of 'litret'", "'litert'"),
        (["m.pb", "--engine", "litert"], "--engine says where to time the model", "--profile"),
        (["--explain", "TF30l"], "there is no rule 'TF30l'", "TF30"),
        ([], "no model was given", "thinflow lint MODEL"),
    ],
)
def test_what_is_typed_wrongly(
    words: list[str], problem: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lint", *words]) == 2
    told = capsys.readouterr().err.splitlines()
    assert told[0] == f"error: {problem}"
    assert told[1].startswith("hint: ")
    assert hint in told[1]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"[lint\n", "has nothing where ']' should be"),
        (b'[lint]\nselect = ["TF999"]\n', "'TF999' selects no rule"),
        (b"\xff\xfe", "this is no text, and no settings"),
    ],
)
def test_settings_that_cannot_be_used_name_their_file(
    content: bytes, problem: str, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("thinflow.toml").write_bytes(content)
    assert main(["lint", model]) == 2
    told = capsys.readouterr().err
    assert "thinflow.toml: " in told
    assert problem in told


def test_a_model_is_not_written_over(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = Path(model).read_bytes()
    assert main(["lint", model, "--fix", model]) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"error: {model} is the model itself",
        "hint: name another file for what is mended",
    ]
    assert Path(model).read_bytes() == before
    with pytest.raises(thinflow.ParameterError, match="is the model itself"):
        thinflow.lint(model, fix=model)


def test_settings_that_are_wrong(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("thinflow.toml").write_text('[lint]\nselct = ["TF102"]\n')
    assert main(["lint", model]) == 2
    told = capsys.readouterr().err
    assert "[lint] has nothing called 'selct'" in told
    assert "did you mean 'select'" in told


@pytest.mark.parametrize("content", [b"", b"no model at all", b"\x08\x01" * 40])
def test_files_that_are_no_models(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.pb").write_bytes(content)
    assert main(["lint", "m.pb"]) == 1
    assert capsys.readouterr().err.startswith("error: ")
    assert main(["lint", "none.pb"]) == 1


def test_list_and_explain(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{len(rules())} rules"
    assert all(any(one.code in line and one.name in line for line in lines) for one in rules())
    assert lines[-1] == "next: thinflow lint --explain CODE"
    assert main(["lint", "--explain", "foldable-batch-norm"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "TF301 foldable_batch_norm (warning, structure)"
    assert any(line.startswith("Ignore: ") for line in lines)
    assert all(len(line) <= 80 for line in lines)
    assert main(["lint", "--explain", "TF301", "--json"]) == 0
    (data,) = json.loads(capsys.readouterr().out)
    assert data["name"] == "foldable_batch_norm"
    assert main(["lint", "--list", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == len(rules())


def test_samples_that_are_not_there(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A slip in the path is an error, and no rule that could not look."""
    assert main(["lint", model, "--calibration", "nowhere"]) == 1
    printed = capsys.readouterr()
    assert not printed.out
    assert printed.err.startswith("error: nowhere: there is no such file or folder\nhint: ")
    assert main(["lint", model, "--calibration", "nowhere", "--select", "TF403"]) == 0
