"""Where the settings of a project are looked for, and how what is in them is asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from thinflow.errors import FormatError, ParameterError
from thinflow.settings.project import NAME, Project, nearest_project, read_project
from thinflow.settings.table import Table

TEXT = '[device.board]\nhost = "pi.local"\nports = ["22"]\nspeed = 1.5\nfast = true\n[lint]\n'


def settled(folder: Path, text: str = TEXT) -> Path:
    path = folder / NAME
    path.write_text(text, "utf-8")
    return path


def test_every_part_reads_its_own_table(tmp_path: Path) -> None:
    project = read_project(settled(tmp_path))
    device = project.table("device")
    assert device is not None
    board = device.inner("board")
    assert board is not None
    assert (board.name, board.path) == ("device.board", project.path)
    assert board.text("host", "h") == "pi.local"
    assert board.texts("ports", "22") == ("22",)
    assert board.number("speed", "2") == 1.5
    assert board.flag("fast") is True
    assert (board.text("a", ""), board.texts("a", ""), board.number("a", ""), board.flag("a")) == (None,) * 4
    assert device.inner("other") is None
    assert project.table("budget") is None
    assert "board" in device


def test_the_nearest_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    outer = settled(tmp_path)
    assert nearest_project(str(inner / "m.pb")).path == str(outer)
    nearer = settled(inner.parent)
    assert nearest_project(str(inner / "m.pb")).path == str(nearer)
    monkeypatch.chdir(tmp_path)
    assert nearest_project().path == str(outer)
    assert Project().table("lint") is None


WRONG: dict[str, tuple[Callable[[Table], object], str, str]] = {
    "host = 1\n": (lambda t: t.text("host", "pi"), "'host' is no text", 'host = "pi"'),
    "host = 'a'\n": (lambda t: t.texts("host", "pi"), "'host' is no list", 'host = ["pi"]'),
    "host = ['a', 1]\n": (
        lambda t: t.texts("host", "pi"),
        "holds something that is no text",
        'host = ["pi"]',
    ),
    "host = true\n": (lambda t: t.number("host", "3"), "'host' is no number", "host = 3"),
    "host = '3'\n": (lambda t: t.number("host", "3"), "'host' is no number", "host = 3"),
    "host = 1 # \n": (lambda t: t.flag("host"), "'host' is neither true nor false", "host = true"),
    "hots = 1\n": (lambda t: t.require_only(["host", "port"]), "[a] has nothing called 'hots'", "'host'"),
    "zzz = 1\n": (lambda t: t.require_only(["host", "port"]), "nothing called 'zzz'", "it has: host, port"),
    "host = [1]\n": (lambda t: t.inner("host"), "'a.host' is no table", "write [a.host]"),
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_named_with_the_file(tmp_path: Path, text: str) -> None:
    ask, problem, hint = WRONG[text]
    path = settled(tmp_path, f"[a]\n{text}")
    table = read_project(path).table("a")
    assert table is not None
    with pytest.raises(ParameterError) as caught:
        ask(table)
    assert caught.value.message.startswith(f"{path}: ")
    assert problem in caught.value.message
    assert hint in caught.value.hint


def test_a_file_that_cannot_be_read_says_where(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"thinflow.toml: line 2 has nothing where '\]'"):
        read_project(settled(tmp_path, "\n[a\n"))
    with pytest.raises(ParameterError, match="'a' is no table"):
        read_project(settled(tmp_path, "a = 3\n")).table("a")
