"""Settings of the linter: where they are looked for, and what may be in them."""

from __future__ import annotations

from pathlib import Path

import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.errors import ThinflowError
from thinflow.lint.finding import Severity
from thinflow.lint.settings import Settings, read_settings, settings_for


def settled(folder: Path, text: str) -> Path:
    path = folder / "thinflow.toml"
    path.write_text(text, "utf-8")
    return path


def test_all_of_it(tmp_path: Path) -> None:
    path = settled(tmp_path, '[lint]\nselect = ["TF1", "TF3"]\nignore = ["TF301"]\nfail_on = "error"\n')
    assert read_settings(path) == Settings(("TF1", "TF3"), ("TF301",), Severity.ERROR, str(path))


def test_a_file_for_something_else(tmp_path: Path) -> None:
    path = settled(tmp_path, "[other]\na = 1\n")
    assert read_settings(path) == Settings(path=str(path))


def test_the_nearest_counts(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    outer = settled(tmp_path, '[lint]\nignore = ["TF4"]\n')
    assert settings_for(str(inner / "m.pb")).path == str(outer)
    nearer = settled(inner.parent, '[lint]\nignore = ["TF1"]\n')
    assert settings_for(str(inner / "m.pb")) == Settings(ignore=("TF1",), path=str(nearer))


def test_a_graph_in_memory_goes_by_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settled(tmp_path, '[lint]\nselect = ["TF4"]\n')
    graph = parse_graph("x = Placeholder() {dtype=float, shape=shape[1,4]}\ninputs: x\noutputs: x\n")
    report = thinflow.lint(graph, settings=True)
    assert report.settings == str(tmp_path / "thinflow.toml")
    assert {code[:3] for code in report.rules} == {"TF4"}
    assert len(thinflow.lint(graph).rules) > len(report.rules)
    assert thinflow.lint(graph, settings=tmp_path / "thinflow.toml", select=["TF403"]).rules == ["TF403"]


@pytest.mark.parametrize(
    ("text", "problem", "hint"),
    [
        ("lint = 1\n", "'lint' is no table", "write [lint]"),
        ("[lint]\nselec = []\n", "[lint] has nothing called 'selec'", "did you mean 'select'"),
        ('[lint]\nselect = "TF1"\n', "'select' is no list", 'select = ["TF301"]'),
        ("[lint]\nignore = [1]\n", "'ignore' holds something that is no text", 'ignore = ["TF301"]'),
        ("[lint]\nfail_on = 2\n", "'fail_on' is no text", 'fail_on = "error"'),
        ('[lint]\nfail_on = "warnin"\n', "there is no severity 'warnin'", "did you mean 'warning'"),
        ("[lint\n", "line 1", ""),
    ],
)
def test_what_cannot_be(tmp_path: Path, text: str, problem: str, hint: str) -> None:
    path = settled(tmp_path, text)
    with pytest.raises(ThinflowError) as caught:
        read_settings(path)
    assert problem in caught.value.message
    assert str(path) in caught.value.message
    assert hint in caught.value.hint


def test_files_that_are_no_settings(tmp_path: Path) -> None:
    with pytest.raises(thinflow.FormatError, match="cannot be read: No such file"):
        read_settings(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(thinflow.FormatError, match="this is no text"):
        read_settings(tmp_path / "bytes.toml")
    (tmp_path / "large.toml").write_bytes(b"#" * ((1 << 20) + 1))
    with pytest.raises(thinflow.FormatError, match="too large"):
        read_settings(tmp_path / "large.toml")
    with pytest.raises(thinflow.FormatError, match="cannot be read"):
        read_settings("a\0b")
