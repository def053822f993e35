"""The command table and what a user sees when a command fails."""

from __future__ import annotations

import errno
import importlib
import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

import thinflow
from thinflow import cli
from thinflow.cli._commands import groups
from thinflow.cli._hints import in_flags
from thinflow.errors import NodeError, ParameterError, ThinflowError
from thinflow.zoo import digits

Body = Callable[..., int]


@pytest.fixture
def verb(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Body], None]]:
    """Add a command named `probe` whose run(args) is the given function."""

    def install(run: Body, **extra: object) -> None:
        module = ModuleType("thinflow.cli.probe")
        module.add_arguments = lambda p: p.add_argument("--size", type=_size)  # type: ignore[attr-defined]
        module.run = run  # type: ignore[attr-defined]
        for name, value in extra.items():
            setattr(module, name, value)
        monkeypatch.setitem(sys.modules, "thinflow.cli.probe", module)
        monkeypatch.setitem(cli.COMMANDS, "probe", "a command for tests")

    monkeypatch.delenv("THINFLOW_DEBUG", raising=False)
    return install


def _size(text: str) -> int:
    if not text.isdigit():
        raise ParameterError(f"size is {text!r}, not a number", hint="write it like 224")
    return int(text)


def fails_with(error: BaseException) -> Body:
    def run(args: object) -> int:
        raise error

    return run


def test_table_matches_modules() -> None:
    folder = Path(cli.__file__).parent
    files = {f for f in folder.rglob("*.py") if not f.stem.startswith("_")}
    modern = {f.stem for f in files if f.parent == folder}
    assert modern == set(cli.COMMANDS) - set(cli.DROP_INS)
    assert {Path(importlib.import_module(cli.module_of(v)).__file__ or "") for v in cli.COMMANDS} == files


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_verb_has_a_module_and_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    module = importlib.import_module(cli.module_of(name))
    functions = (name,) if name in cli.DROP_INS else ("add_arguments", "run")
    assert all(callable(getattr(module, function)) for function in functions)
    assert cli.main([name, "--help"]) == 0
    assert "usage" in "".join(capsys.readouterr()).lower()


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_example_is_one_line_to_paste(name: str) -> None:
    import shlex

    examples = getattr(importlib.import_module(cli.module_of(name)), "EXAMPLES", "")
    examples = examples[name] if isinstance(examples, dict) else examples
    for line in filter(None, examples.splitlines()):
        assert shlex.split(line, comments=True)[:2] == ["thinflow", name], line


def test_help_lines_fit() -> None:
    for name, text in cli.COMMANDS.items():
        assert 10 < len(text) <= 61, name
        assert not text.endswith("."), name


@pytest.mark.parametrize("argv", [[], ["--help"], ["-h"]])
def test_overview_lists_every_command(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(argv) == 0
    out = capsys.readouterr().out
    assert all(
        re.search(rf"^  {name}\s+{re.escape(text)}$", out, re.M) for name, text in cli.COMMANDS.items()
    )
    assert all(f"\n\n{title}:\n" in out for title in groups())
    assert max(map(len, out.splitlines())) <= 80


def test_every_command_is_in_one_group() -> None:
    assert [name for names in groups().values() for name in names] == list(cli.COMMANDS)
    (old,) = (set(names) for title, names in groups().items() if "TensorFlow" in title)
    assert old == set(cli.DROP_INS)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"thinflow {thinflow.__version__}\n"


def test_version_is_the_one_in_pyproject(project_root: Path) -> None:
    assert f'\nversion = "{thinflow.__version__}"\n' in (project_root / "pyproject.toml").read_text("utf-8")


def test_unknown_verb_suggests(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["optimise"]) == 2
    assert capsys.readouterr().err.startswith(
        "error: there is no command 'optimise'\nhint: did you mean 'optimize'"
    )


def test_unknown_verb_without_neighbours(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["zzzz"]) == 2
    assert capsys.readouterr().err.endswith("hint: 'thinflow --help' lists the commands\n")


@pytest.mark.parametrize(
    ("verb", "hint"),
    [
        ("check_graph", "thinflow summarize_graph --in_graph=MODEL"),  # the README's slip of the pen
        ("retrain", "nothing is trained here"),
        ("export_tflite_ssd_graph", "it makes a graph from Python code"),
        ("wav_to_spectrogram", "thinflow run MODEL --outputs AudioSpectrogram"),
    ],
)
def test_tools_of_the_tutorials_that_are_not_here(
    verb: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([verb, "--x=1"]) == 2
    assert capsys.readouterr().err.startswith(f"error: there is no command '{verb}'\nhint: {hint}")


def test_line_ends_of_windows(verb: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    """A carriage return behind the last word is dropped; behind a backslash it ends the command early."""
    verb(lambda args: args.size)
    assert cli.main(["probe", "--size", "3\r"]) == 3
    assert cli.main(["probe", "--size", "3", "\r"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: the command ends in the middle")
    assert "hint: the script has the line ends of Windows" in err


def test_a_file_instead_of_a_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "model.pb"
    thinflow.save(digits.build(0), model)
    assert cli.main([str(model)]) == 2
    assert capsys.readouterr().err.endswith(f"hint: a command comes first: thinflow inspect {model}\n")


def test_result_is_the_exit_code(verb: Callable[..., None]) -> None:
    verb(lambda args: args.size)
    assert cli.main(["probe", "--size", "7"]) == 7


def test_old_tool_gets_its_own_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    module = ModuleType("thinflow.cli.compat.probes")
    module.probe = lambda argv: seen.extend(argv) or 0  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(cli.COMMANDS, "probe", "an old tool for tests")
    monkeypatch.setitem(cli.DROP_INS, "probe", "probes")
    assert cli.main(["probe", "--in_graph=a.pb", "-x"]) == 0
    assert seen == ["--in_graph=a.pb", "-x"]


def test_examples_end_the_help(verb: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    verb(lambda args: 0, EXAMPLES="\n  thinflow probe --size 3\n")
    assert cli.main(["probe", "--help"]) == 0
    assert capsys.readouterr().out.endswith("examples:\n  thinflow probe --size 3\n")


def test_usage_error(verb: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    verb(lambda args: 0)
    assert cli.main(["probe", "--sise", "3"]) == 2
    assert capsys.readouterr().err == (
        "error: unrecognized arguments: --sise 3\nhint: did you mean --size?\n"
    )


def test_flags_are_not_abbreviated(verb: Callable[..., None]) -> None:
    verb(lambda args: 0)
    assert cli.main(["probe", "--si", "3"]) == 2


def test_bad_value_of_a_flag_keeps_its_hint(
    verb: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    verb(lambda args: 0)
    assert cli.main(["probe", "--size", "big"]) == 1
    assert capsys.readouterr().err == "error: size is 'big', not a number\nhint: write it like 224\n"


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (
            NodeError("stride is 0", "node 'c' (Conv2D)", "fix it"),
            1,
            "error: node 'c' (Conv2D): stride is 0\nhint: fix it\n",
        ),
        (ThinflowError("no"), 1, "error: no\n"),
        (ThinflowError("name a\x1b[2J\nb"), 1, "error: name a\\x1b[2J\\nb\n"),
        (
            FileNotFoundError(errno.ENOENT, "No such file or directory", "m.pb"),
            1,
            "error: m.pb: No such file or directory\nhint: check the path\n",
        ),
        (
            OSError(errno.ENOSPC, "No space left on device"),
            1,
            "error: No space left on device\nhint: free some space or write somewhere else\n",
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "o.pb"),
            1,
            "error: o.pb: Permission denied\nhint: check who may read or write it\n",
        ),
        (
            MemoryError(),
            1,
            "error: out of memory\n"
            "hint: use a machine with more memory, or a smaller batch or fewer samples\n",
        ),
        (
            ModuleNotFoundError("x", name="PIL.Image"),
            1,
            "error: the package 'PIL.Image' is not installed\nhint: pip install \"thinflow[image]\"\n",
        ),
        (
            KeyError("k"),
            1,
            "error: thinflow has a bug: KeyError: 'k'\n"
            "hint: run it again with --debug and report the traceback\n",
        ),
        (KeyboardInterrupt(), 130, ""),
        (BrokenPipeError(), 141, ""),
        (SystemExit(), 0, ""),
        (SystemExit(3), 3, ""),
        (SystemExit("stop"), 1, "error: stop\n"),
    ],
    ids=lambda v: type(v).__name__ if isinstance(v, BaseException) else None,
)
def test_failures(
    verb: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    text: str,
) -> None:
    verb(fails_with(error))
    assert cli.main(["probe"]) == code
    assert capsys.readouterr().err == text


def test_an_interrupt_that_comes_wrapped(
    verb: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    error = RuntimeError("Error calling __set_name__ on 'Field' instance 'a' in 'B'")
    error.__cause__ = KeyboardInterrupt()
    verb(fails_with(error))
    assert cli.main(["probe"]) == 130
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("argv", [["--debug", "probe"], ["probe", "--debug"]])
def test_debug_shows_the_traceback(
    verb: Callable[..., None], capsys: pytest.CaptureFixture[str], argv: list[str]
) -> None:
    verb(fails_with(ThinflowError("no")))
    assert cli.main(argv) == 1
    err = capsys.readouterr().err
    assert err.startswith("Traceback")
    assert err.endswith("error: no\n")


def test_debug_shows_what_is_logged(verb: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    def logs(*_: object) -> int:
        logging.getLogger("thinflow.ops").debug("a rule raised")
        return 0

    verb(logs)
    assert cli.main(["probe"]) == 0
    assert capsys.readouterr().err == ""
    assert cli.main(["probe", "--debug"]) == 0
    assert capsys.readouterr().err == "a rule raised\n"
    assert not logging.getLogger("thinflow").handlers


def test_debug_by_environment(
    verb: Callable[..., None], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    verb(fails_with(KeyError("k")))
    monkeypatch.setenv("THINFLOW_DEBUG", "1")
    assert cli.main(["probe"]) == 1
    assert capsys.readouterr().err.startswith("Traceback")


@pytest.mark.skipif(os.name != "posix", reason="needs pipes and /dev/full")
@pytest.mark.parametrize(
    ("shell", "code", "text"),
    [
        ("exec 3>&1; { $THINFLOW; echo $? >&3; } | true", "141", ""),
        ("$THINFLOW >/dev/full; echo $?", "1", "No space left on device"),
    ],
    ids=["closed-pipe", "full-disk"],
)
def test_output_that_cannot_be_written(shell: str, code: str, text: str) -> None:
    if "/dev/full" in shell and not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    # Enough output that a pipe whose reader left must break.
    program = (
        "import sys; from thinflow import cli; cli._overview = lambda: 'x' * 10**6; sys.exit(cli.main([]))"
    )
    source = str(Path(thinflow.__file__).parents[1])
    done = subprocess.run(
        ["sh", "-c", shell.replace("$THINFLOW", f'"{sys.executable}" -c "{program}"')],
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.strip() == code
    assert text in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize("name", ["transform_graph", "summarize_graph"])
def test_scripts_of_the_old_tools(name: str, monkeypatch: pytest.MonkeyPatch, project_root: Path) -> None:
    called: list[list[str]] = []
    monkeypatch.setattr(cli, "main", lambda argv: called.append(argv) or 0)
    monkeypatch.setattr(sys, "argv", [name, "--in_graph=a.pb"])
    assert getattr(cli, f"main_{name}")() == 0
    assert called == [[name, "--in_graph=a.pb"]]
    scripts = (project_root / "pyproject.toml").read_text("utf-8")
    assert f'{name} = "thinflow.cli:main_{name}"' in scripts


@pytest.mark.parametrize(
    ("verb", "hint", "told"),
    [
        ("benchmark", "engine='reference' may say more", "--engine reference may say more"),
        ("run", "use engine='litert'", "use --engine litert"),
        ("optimize", "engine='reference' works", "`thinflow run MODEL --engine reference` works"),
        ("convert", "name them: outputs=[...]", "name them: --outputs NAMES"),
        ("benchmark", "feed your own: feeds={...}, or calibration=SAMPLES",
         "feed your own: --feed NAME=FILE, or --calibration SAMPLES"),
    ],
)  # fmt: skip
def test_hints_are_in_the_words_of_the_command_line(verb: str, hint: str, told: str) -> None:
    assert in_flags(hint, verb) == told
