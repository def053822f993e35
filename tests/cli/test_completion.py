"""Completion in the shells themselves: what stands there after a press of the tabulator."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from thinflow.cli import COMMANDS, main
from thinflow.cli._completing import commands
from thinflow.cli._parser import parser_of
from thinflow.transforms import names as transforms

CASES = [
    ("thinflow op", {"optimize", "ops", "optimize_for_inference"}),
    ("thinflow --ver", {"--version"}),
    ("thinflow run --eng", {"--engine", "--engine-cache"}),
    ("thinflow run --engine ", {"auto", "litert", "onnxruntime", "openvino", "c", "reference"}),
    ("thinflow run --state k", {"keep"}),
    ("thinflow quantize m o --scheme i", {"int8", "int16x8", "int8_weights", "int4_weights"}),
    ("thinflow transform m -t fold_old_", {"fold_old_batch_norms"}),
    ("thinflow transforms fold_old_", {"fold_old_batch_norms"}),
    ("thinflow transform m --pipeline sm", {"smallest"}),
    ("thinflow sample dig", {"digits"}),
    ("thinflow lint m --select TF70", {"TF701", "TF702", "TF703"}),
    ("thinflow lint --explain TF60", {"TF601", "TF602", "TF603", "TF604"}),
    ("thinflow help freez", {"freeze", "freeze_graph"}),
    ("thinflow completion ", {"bash", "zsh", "fish"}),
    ("thinflow inspect mod", {"model one.pb", "model_two.pb"}),
    ("thinflow benchmark model_two.pb model_t", {"model_two.pb"}),
    ("thinflow saved_model_cli s", {"show", "scan"}),
    ("thinflow saved_model_cli show --di", {"--dir"}),
]


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("model one.pb", "model_two.pb"):
        (tmp_path / name).touch()
    return tmp_path


def in_bash(text: str, line: str, place: Path) -> set[str]:
    """What COMPREPLY holds for a line, taken apart as readline does, which splits at `=`, too."""
    words = [w for part in line.split(" ") for w in re.split(r"(=)", part) if w] + [""] * line.endswith(" ")
    shown = " ".join(map(shlex.quote, words))
    code = f"{text}\nCOMP_WORDS=({shown}); COMP_CWORD={len(words) - 1}; _thinflow\n"
    code += 'printf "%s\\n" "${COMPREPLY[@]}"\n'
    done = subprocess.run(
        ["bash", "--norc", "-c", code], cwd=place, capture_output=True, text=True, timeout=30
    )
    assert (done.returncode, done.stderr) == (0, "")
    return set(filter(None, done.stdout.split("\n")))


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
@pytest.mark.parametrize(
    ("line", "found"),
    [
        *(case for case in CASES if case[1]),
        ("thinflow run --engine=on", {"onnxruntime"}),
        ("thinflow run --engine=", {"auto", "litert", "onnxruntime", "openvino", "c", "reference"}),
        ("thinflow benchmark --engine litert,ref", {"litert,reference"}),
        ("thinflow run m --feed x=model_t", {"model_two.pb"}),
        ("thinflow summarize_graph --in_g", {"--in_graph="}),
        ("thinflow summarize_graph --in_graph=model_t", {"model_two.pb"}),
        ("thinflow sample digits model_t", {"model_two.pb"}),
        ("thinflow sample --seed 3 dig", {"digits"}),
        ("thinflow run --seed ", set()),
    ],
)
def test_bash(line: str, found: set[str], place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert in_bash(script("bash", capsys), line, place) == found


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
def test_bash_lists_what_the_parsers_take(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = script("bash", capsys)
    assert in_bash(text, "thinflow ", place) >= set(COMMANDS)
    assert in_bash(text, "thinflow transform m -t ", place) == set(transforms())
    for verb in ("optimize", "quantize", "view"):
        listed = {s for a in parser_of(verb)._actions if a.help != "==SUPPRESS==" for s in a.option_strings}
        assert in_bash(text, f"thinflow {verb} -", place) == listed


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
def test_bash_registers_it(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = script("bash", capsys) + "complete -p thinflow"
    done = subprocess.run(["bash", "--norc", "-c", code], capture_output=True, text=True, timeout=30)
    assert done.stdout == "complete -F _thinflow thinflow\n"


@pytest.mark.skipif(not shutil.which("fish"), reason="fish is not installed")
def test_fish(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All lines in one process: fish takes its time to start."""
    more = [
        ("thinflow benchmark --engine litert,ref", {"litert,reference"}),
        ("thinflow run m --feed x=model_t", {"x=model_two.pb"}),
        ("thinflow summarize_graph --in_graph=model_t", {"--in_graph=model_two.pb"}),
    ]
    cases = [case for case in (*CASES, *more) if case[1]]
    lines = [script("fish", capsys)]
    lines += [f"echo '>'; complete -C {shlex.quote(line)}" for line, _ in cases]
    Path("run.fish").write_text("\n".join(lines), "utf-8")
    done = subprocess.run(
        ["fish", "--no-config", "run.fish"], capture_output=True, text=True, timeout=60, cwd=place
    )
    assert done.stderr == ""
    for (line, found), told in zip(cases, done.stdout.split(">\n")[1:], strict=True):
        assert {entry.split("\t")[0] for entry in told.splitlines()} == found, line


class Zsh:
    """An interactive zsh at a terminal of its own, with the script loaded."""

    def __init__(self, text: str, place: Path) -> None:
        (place / "thinflow.zsh").write_text(text, "utf-8")
        # The tabulator lists, and puts nothing into the line.
        (place / ".zshrc").write_text(
            "unsetopt zle_bracketed_paste; setopt no_beep\nautoload -Uz compinit; compinit -u -D\n"
            "source ./thinflow.zsh\nbindkey '^I' list-choices\nPS1='READY '\n",
            "utf-8",
        )
        self.pid, self.fd = pty.fork()
        if not self.pid:
            os.chdir(place)
            os.environ.update(TERM="dumb", COLUMNS="200", LINES="200", ZDOTDIR=str(place))
            os.execvp("zsh", ["zsh", "-d", "-i"])
        # It may say something before its prompt.
        assert any("READY" in self.told() for _ in range(5))

    def type(self, text: str) -> str:
        os.write(self.fd, text.encode())
        return self.told()

    def told(self, quiet: float = 0.4, most: float = 10.0) -> str:
        """What it prints until it has nothing more to say."""
        found, end = b"", time.monotonic() + most
        while time.monotonic() < end and select.select([self.fd], [], [], quiet if found else most)[0]:
            try:
                found += os.read(self.fd, 65536)
            except OSError:
                break
        return found.decode("utf-8", "replace")

    def close(self) -> None:
        os.close(self.fd)
        os.waitpid(self.pid, 0)


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("zsh"), reason="zsh is not installed")
def test_zsh(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    zsh = Zsh(script("zsh", capsys), place)
    try:
        for line, found in [
            ("thinflow run --eng", {"--engine", "--engine-cache"}),
            ("thinflow run --engine ", {"auto", "litert", "onnxruntime", "openvino", "c", "reference"}),
            ("thinflow optimize_f", {"optimize_for_inference"}),
            ("thinflow transform m -t fold_old_", {"fold_old_batch_norms"}),
            ("thinflow sample dig", {"digits"}),
            ("thinflow lint m --select TF70", {"TF701", "TF702", "TF703"}),
            ("thinflow lint --explain TF60", {"TF601", "TF602", "TF603", "TF604"}),
            ("thinflow benchmark --engine litert,ref", {"reference"}),
            ("thinflow inspect model_t", {"model_two.pb"}),
            ("thinflow run m --feed x=model_t", {"model_two.pb"}),
            ("thinflow saved_model_cli show --di", {"--dir"}),
            ("thinflow quantize --keep-float x m o --sch", {"--scheme"}),
        ]:
            told = zsh.type(f"{line}\t").replace(line, "", 1)
            assert found <= set(re.findall(r"[\w.,=-]+", told)), (line, told)
            zsh.type("\x15")  # an empty line again
    finally:
        zsh.type("\x15exit\n")
        zsh.close()


@pytest.mark.parametrize("shell", ["zsh", "fish", "bash"])
def test_scripts_have_no_mistakes(shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    file = tmp_path / "script"
    file.write_text(script(shell, capsys), "utf-8")
    done = subprocess.run([shell, "-n", str(file)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("shell", ["zsh", "fish", "bash"])
def test_every_flag_is_in_every_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = script(shell, capsys)
    for command in commands():
        for flag in command.flags:
            for spelling in flag.spellings:
                bare = spelling.lstrip("-") if shell == "fish" else spelling
                assert re.search(rf"(?<![\w-]){re.escape(bare)}(?![\w-])", text), (command.name, spelling)


def test_a_shell_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "zhs"]) == 2
    assert capsys.readouterr().err == (
        "error: shell zhs: it is one of bash, zsh, fish\nhint: did you mean 'zsh'?\n"
    )


def test_completion_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom thinflow.cli import main\nmain(['completion', 'bash'])\n"
        "heavy = {'numpy', 'rich', 'google.protobuf', 'ai_edge_litert', 'onnx', 'json', 'shutil'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stderr == "[]\n"
