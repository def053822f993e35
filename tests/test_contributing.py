"""The code in CONTRIBUTING.md works as it stands there, on a copy of the sources."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")

_BLOCK = re.compile(
    r"<!-- (?P<kind>file|edit|try)(?:: (?P<path>\S+))? -->\n```\w+\n(?P<body>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)

# Every case of the golden file that the page shows, by the same reader as the other golden cases.
CHECK_GOLDEN = """
from pathlib import Path
from thinflow.api import transform_with_ledger
from thinflow.ir.text import graph_text
from tests.transforms.golden import read_cases
for path in sorted(Path("tests/transforms").glob("*.txt")):
    for case in read_cases(path.read_text(), path.name):
        result = transform_with_ledger(case.graph(), case.pipeline)
        expected = graph_text(case.graph()) if case.after == "unchanged\\n" else case.after
        assert graph_text(result.graph).split() == expected.split(), case
        assert [f"{e.node}: {e.text}" for s in result.steps for e in s.trace.left] == case.left, case
"""


def apply(diff: str, text: str) -> str:
    """The text after a diff of one place, whose lines start with a blank or a plus."""
    old = "".join(line[1:] for line in diff.splitlines(keepends=True) if line[0] == " ")
    new = "".join(line[1:] for line in diff.splitlines(keepends=True))
    assert text.count(old) == 1, f"not found once: {old!r}"
    return text.replace(old, new)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sources, and with everything that the page adds to them."""
    folder = tmp_path_factory.mktemp("clone")
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for block in _BLOCK.finditer(TEXT):
        if block["kind"] == "file":
            path = folder / block["path"]
            assert not path.exists(), f"{block['path']} is there already; rename it in CONTRIBUTING.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block["body"], "utf-8")
        elif block["kind"] == "edit":
            path = folder / block["path"]
            path.write_text(apply(block["body"], path.read_text("utf-8")), "utf-8")
    return folder


def run(code: str, folder: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder / "src"), str(ROOT)])}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_what_is_added_works(clone: Path) -> None:
    steps = [b["body"] for b in _BLOCK.finditer(TEXT) if b["kind"] == "try"]
    assert len(steps) == 12
    run("\n".join(steps), clone)


def test_golden_cases_hold(clone: Path) -> None:
    run(CHECK_GOLDEN, clone)


def test_table_names_every_part() -> None:
    parts = {p.name for p in (ROOT / "src" / "thinflow").iterdir() if (p / "__init__.py").is_file()}
    named = set(re.findall(r"`(\w+)/`", TEXT.partition("## Adding things")[0]))
    assert parts <= named, "add a row to the table of folders"


def test_make_targets_exist() -> None:
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    for page in (TEXT, (ROOT / "README.md").read_text("utf-8")):
        assert set(re.findall(r"^make (\w+)", page, re.MULTILINE)) <= set(targets)
