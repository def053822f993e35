"""`thinflow check`, as users type it, and as workflows and hooks do."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import thinflow
from tests.cli.conftest import Paste
from tests.night import AT_NIGHT
from thinflow.cli import main
from thinflow.zoo import digits

ROOT = Path(__file__).resolve().parents[2]
SMALL, LARGE = '[budget]\nsize = "100KB"\nnodes = 9\n', '[budget]\nsize = "400KB"\nnodes = 9\n'


@pytest.fixture(scope="session")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("check") / "digits.tflite"
    thinflow.convert(digits.build(0), path, verify=False)
    return path


@pytest.fixture
def tflite(converted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file whose name needs quoting, in the working folder."""
    monkeypatch.chdir(tmp_path)
    shutil.copyfile(converted, "my digits.tflite")
    return "my digits.tflite"


def settle(text: str, name: str = "thinflow.toml") -> None:
    Path(name).write_text(text, "utf-8")


def test_within(tflite: str, capsys: pytest.CaptureFixture[str], paste: Paste) -> None:
    settle(LARGE)
    assert main(["check", tflite]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "my digits.tflite: within all 2 budgets"
    assert [line.split()[0] for line in lines[1:3]] == ["nodes", "size"]
    assert lines[-1] == "next: thinflow inspect 'my digits.tflite'"
    assert paste(lines[-1]) == 0


def test_over(tflite: str, capsys: pytest.CaptureFixture[str]) -> None:
    settle(SMALL, "strict.toml")
    assert main(["check", tflite, "--budget", "strict.toml"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "my digits.tflite: 2 budgets, 1 over: size"
    assert re.fullmatch(r"  size   over          1\d\d\.\d kB of 100\.0 kB", lines[1])
    assert lines[2].strip() == "try: thinflow quantize 'my digits.tflite' OUT"
    assert all(len(line) <= 80 for line in lines)


def test_what_is_typed_or_settled_wrongly(tflite: str, capsys: pytest.CaptureFixture[str]) -> None:
    settle("[budget]\nsiz = 1\n")
    assert main(["check", tflite]) == 2
    error = capsys.readouterr().err
    assert "thinflow.toml: [budget] has nothing called 'siz'\nhint: did you mean 'size'" in error
    assert main(["check", tflite, "--budget", "none.toml"]) == 2
    assert "none.toml: the settings cannot be read: No such file" in capsys.readouterr().err
    assert main(["check", tflite, "--formt", "json"]) == 2
    capsys.readouterr()
    settle(LARGE)
    assert main(["check"]) == 2
    assert "there are no models to check" in capsys.readouterr().err


def test_a_model_that_is_not_there(tflite: str, capsys: pytest.CaptureFixture[str]) -> None:
    settle(LARGE)
    assert main(["check", tflite, "nothing.tflite", "--format", "github"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("::error file=nothing.tflite,title=budget model::failed: ")
    assert lines[-1] == "1 of 2 models not within their budgets"


def test_models_that_the_tables_name(tflite: str, capsys: pytest.CaptureFixture[str]) -> None:
    settle('[budget]\nnodes = 9\n[budget."*.tflite"]\nsize = "100KB"\n')
    assert main(["check"]) == 1
    assert capsys.readouterr().out.startswith("my digits.tflite: 2 budgets, 1 over: size\n")


def test_formats_and_files(tflite: str, capsys: pytest.CaptureFixture[str]) -> None:
    settle(SMALL)
    assert main(["check", tflite, "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert (data["within"], [i["status"] for i in data["models"][0]["items"]]) == (False, ["within", "over"])
    assert main(["check", tflite, "--format", "json", "--report", "r.json"]) == 1
    assert json.loads(capsys.readouterr().out)["models"][0]["model"] == tflite
    assert json.loads(Path("r.json").read_text())["within"] is False
    assert main(["check", tflite, "--format", "junit", "--report", "r.txt"]) == 1
    assert ElementTree.fromstring(capsys.readouterr().out).get("failures") == "1"
    assert Path("r.txt").read_text().startswith("my digits.tflite: 2 budgets, 1 over: size\n")
    assert main(["check", tflite, "--report", "none/r.xml"]) == 1
    assert "none" in capsys.readouterr().err


def test_strict(tflite: str, capsys: pytest.CaptureFixture[str]) -> None:
    settle("[budget]\nlatency = { ratio = 100, runs = 6 }\n")
    assert main(["check", tflite]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "my digits.tflite: 1 budget, 1 not compared: latency"
    assert main(["check", tflite, "--strict"]) == 1
    assert main(["check", tflite, "--update-baseline"]) == 0
    assert "stored: " in capsys.readouterr().out
    assert json.loads(Path("thinflow-baseline.json").read_text())["models"].keys() == {tflite}
    assert main(["check", tflite, "--strict"]) == 0
    assert main(["check", tflite, "--strict", "--baseline", "other.json"]) == 1


def test_a_list_of_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"\d+ kinds of budgets", lines[0])
    assert any(line.startswith("  size ") for line in lines)
    assert all(len(line) <= 80 for line in lines)
    assert main(["check", "--list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["nodes"]


# --- the hook -------------------------------------------------------------------------------------------


def hook() -> dict[str, Any]:
    yaml = pytest.importorskip("yaml", reason="PyYAML reads the hook")
    (found,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    assert found["id"] == "thinflow-check"
    return dict(found)


def thinflow_in(folder: Path) -> dict[str, str]:
    """An environment whose PATH has this thinflow, as an installed one."""
    folder.mkdir(exist_ok=True)
    script = folder / "thinflow"
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m thinflow "$@"\n')
    script.chmod(0o755)
    path = os.pathsep.join([str(folder), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "src")}


def ran(words: Sequence[str], folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=600
    )


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="it needs a Unix shell")
def test_the_hook_as_pre_commit_runs_it(tflite: str, tmp_path: Path) -> None:
    found = hook()
    names = [tflite, "README.md", "deep/model.onnx"]
    assert [n for n in names if re.search(found["files"], n)] == [tflite, "deep/model.onnx"]
    assert found["require_serial"]
    words = [*shlex.split(found["entry"]), tflite]
    environment = thinflow_in(tmp_path / "bin")
    settle(LARGE)
    assert ran(words, tmp_path, environment).returncode == 0
    settle(SMALL)
    done = ran(words, tmp_path, environment)
    assert (done.returncode, "1 over: size" in done.stdout) == (1, True)


@pytest.fixture
def pre_commit(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The program, which is installed for the test at night."""
    if found := shutil.which("pre-commit"):
        return found
    if not AT_NIGHT:
        pytest.skip("pre-commit is not installed; at night it is, for this test")
    venv = tmp_path_factory.mktemp("pre-commit") / "venv"
    made = subprocess.run([sys.executable, "-m", "venv", venv], capture_output=True, check=False)
    pip = [venv / "bin" / "python", "-m", "pip", "install", "--quiet", "pre-commit"]
    if made.returncode or subprocess.run(pip, capture_output=True, check=False).returncode:
        pytest.skip("pre-commit cannot be installed here")
    return str(venv / "bin" / "pre-commit")


@pytest.mark.slow
def test_pre_commit_itself(tflite: str, tmp_path: Path, pre_commit: str) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is missing")
    environment = thinflow_in(tmp_path / "bin") | {"PRE_COMMIT_HOME": str(tmp_path / "cache")}
    # The repository of the hook, which pre-commit clones; thinflow is on PATH, and need not be installed.
    origin = tmp_path / "origin"
    origin.mkdir()
    shutil.copyfile(ROOT / ".pre-commit-hooks.yaml", origin / ".pre-commit-hooks.yaml")
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main"]
    for folder in (origin, tmp_path):
        (tmp_path / ".gitignore").write_text("bin/\ncache/\norigin/\n")
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"]):
            assert ran([*git, *words], folder, environment).returncode == 0
    head = ran(["git", "rev-parse", "HEAD"], origin, environment).stdout.strip()
    Path(".pre-commit-config.yaml").write_text(
        f"repos:\n- repo: {origin}\n  rev: {head}\n  hooks:\n  - id: thinflow-check\n    language: system\n"
    )
    settle(LARGE)
    assert ran(["git", "add", "-A"], tmp_path, environment).returncode == 0
    done = ran([pre_commit, "run", "--all-files", "--verbose"], tmp_path, environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "my digits.tflite: within all 2 budgets" in done.stdout
    settle(SMALL)
    done = ran([pre_commit, "run", "--all-files"], tmp_path, environment)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 over: size" in done.stdout


# --- the action -----------------------------------------------------------------------------------------


def action() -> dict[str, Any]:
    yaml = pytest.importorskip("yaml", reason="PyYAML reads the action")
    return dict(yaml.safe_load((ROOT / "action.yml").read_text("utf-8")))


def filled(text: str, inputs: dict[str, str]) -> str:
    """Expressions of a workflow, with what GitHub would put in their place."""

    def value(match: re.Match[str]) -> str:
        name = match[1].strip()
        if name == "github.action_path":
            return str(ROOT)
        assert name.startswith("inputs."), name
        return inputs[name.removeprefix("inputs.")]

    return re.sub(r"\$\{\{(.*?)\}\}", value, text)


def run_action(
    folder: Path, environment: dict[str, str], **given: str
) -> list[subprocess.CompletedProcess[str]]:
    """The steps of the action, one after the other, until one fails."""
    said = action()
    assert given.keys() <= said["inputs"].keys()
    inputs = {name: given.get(name, one["default"]) for name, one in said["inputs"].items()}
    done = []
    for step in said["runs"]["steps"]:
        assert step["shell"] == "bash"
        # Nothing that is given may become code.
        assert "${{" not in step["run"]
        own = {name: filled(value, inputs) for name, value in step["env"].items()}
        # As runners start bash.
        words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        done.append(ran(words, folder, {**environment, **own}))
        if done[-1].returncode:
            break
    return done


@pytest.fixture
def runner(tmp_path: Path) -> dict[str, str]:
    """The environment of a runner, where pip writes down what it is to install."""
    if shutil.which("bash") is None:
        pytest.skip("bash is missing")
    environment = thinflow_in(tmp_path / "bin")
    python = tmp_path / "bin" / "python"
    python.write_text(f'#!/bin/sh\necho "$@" > {shlex.quote(str(tmp_path / "asked"))}\n')
    python.chmod(0o755)
    return environment


@pytest.mark.slow
def test_the_action(tflite: str, tmp_path: Path, runner: dict[str, str]) -> None:
    os.rename(tflite, "digits.tflite")
    os.mkdir("deep")
    shutil.copyfile("digits.tflite", "deep/copy.tflite")
    settle(LARGE)
    settle(SMALL, "strict.toml")
    install, check = run_action(tmp_path, runner, model="*.tflite\ndeep/*.tflite")
    assert (tmp_path / "asked").read_text().split()[:3] == ["-m", "pip", "install"]
    assert (tmp_path / "asked").read_text().split()[-1] == str(ROOT)
    assert (install.returncode, check.returncode) == (0, 0), check.stderr
    assert check.stdout.splitlines()[-1] == "2 models within their budgets"
    assert ElementTree.parse("thinflow-check.xml").getroot().get("tests") == "4"
    given = {
        "model": "digits.tflite",
        "budget": "strict.toml",
        "args": "--strict --all",
        "report": "out.json",
    }
    _, check = run_action(tmp_path, runner, package="thinflow==0.1.0", **given)
    assert (tmp_path / "asked").read_text().split()[-1] == "thinflow==0.1.0"
    assert check.returncode == 1
    assert check.stdout.startswith("::error file=digits.tflite,title=budget size::over: ")
    assert json.loads(Path("out.json").read_text())["within"] is False


@pytest.mark.slow
def test_what_is_given_to_the_action_is_no_code(tflite: str, tmp_path: Path, runner: dict[str, str]) -> None:
    settle(LARGE)
    *_, check = run_action(tmp_path, runner, model="$(touch hacked) ; touch hacked", report="")
    assert check.returncode == 1
    assert not (tmp_path / "hacked").exists()
    settle('[budget."*.tflite"]\nnodes = 9\n')
    *_, check = run_action(tmp_path, runner, report="")
    assert (check.returncode, check.stderr) == (0, "")
    assert check.stdout == "my digits.tflite: within its budget\n"
