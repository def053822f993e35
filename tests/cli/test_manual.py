"""Manual pages: all of them, without a warning of what sets them."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from thinflow.cli import COMMANDS, main
from thinflow.cli._manual import _text, file_name, page, write_pages
from thinflow.cli._reference import command


def set_by(program: list[str], text: str) -> tuple[str, str]:
    """A page without overstrikes and colours, and what was warned of."""
    environment = {**os.environ, "GROFF_NO_SGR": "1", "MANWIDTH": "80", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(program, input=text.encode(), capture_output=True, timeout=60, env=environment)
    plain = subprocess.run(["col", "-bx"], input=done.stdout, capture_output=True, timeout=60).stdout
    return plain.decode(), done.stderr.decode()


def test_a_page_for_each_command(tmp_path: Path) -> None:
    paths = write_pages(str(tmp_path / "man"))
    assert {Path(p).name for p in paths} == {"thinflow.1", *(f"thinflow-{v}.1" for v in COMMANDS)}
    assert (tmp_path / "man" / "thinflow-run.1").read_text("utf-8") == page("run")
    assert file_name() == "thinflow.1"


@pytest.mark.skipif(not shutil.which("groff"), reason="groff is not installed")
@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_nothing_is_warned_of(name: str) -> None:
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-z"],
        input=page(name).encode(),
        capture_output=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(not shutil.which("groff") or not shutil.which("col"), reason="groff is not installed")
@pytest.mark.parametrize("name", ["run", "quantize", "saved_model_cli"])
def test_what_is_read(name: str) -> None:
    text, warned = set_by(["groff", "-man", "-Tutf8", "-rHY=0"], page(name))
    assert not warned
    # A long example goes on behind a backslash.
    words = " ".join(text.replace("\\\n", " ").split())
    told = command(name)
    assert f"NAME thinflow-{name} - {told['summary']}" in words
    assert all(spelling in words for flag in told["flags"] for spelling in flag["spellings"])
    for example in told["examples"]:
        assert " ".join(example["command"].split()) in words
    assert "SEE ALSO thinflow(1)" in words


def test_a_line_that_looks_like_a_request_is_text() -> None:
    assert _text(".SH no") == "\\&.SH no"
    assert _text("'a-b\\c") == "\\(aqa\\-b\\ec"


def test_printed_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "--man", "run"]) == 0
    assert capsys.readouterr().out == page("run")
    assert main(["help", "--man"]) == 0
    assert capsys.readouterr().out == page()
    assert main(["help", "--man", "rum"]) == 2
    assert "did you mean 'run'" in capsys.readouterr().err


@pytest.mark.skipif(not shutil.which("man"), reason="man is not installed")
def test_read_by_man_in_a_terminal() -> None:
    pid, fd = pty.fork()
    if not pid:
        os.environ.update(PAGER="cat", MANPAGER="cat", TERM="dumb")
        code = "from thinflow.cli import main; raise SystemExit(main(['help', '--man', 'run']))"
        os.execv(sys.executable, [sys.executable, "-c", code])
    found = b""
    try:
        while chunk := os.read(fd, 65536):
            found += chunk
    except OSError:  # the other end is closed
        pass
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert b"thinflow-run" in found
    assert b".SH NAME" not in found
