"""Runs the commands in the documentation again and puts what they print below them.

    python docs/_make_outputs.py              # README.md and every page of docs/ but the long ones
    python docs/_make_outputs.py README.md

Commands stand behind `$ ` in a console block between `<!-- output: NAME -->` and `<!-- end -->`. The blocks
of a page all run in one empty folder, from top to bottom.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

BLOCK = re.compile(
    r"(<!-- output: (?P<name>[\w-]+) -->\n```console\n)(?P<body>.*?)"
    r"(?P<end>```\n(?:\*[^\n]*\*\n)?<!-- end -->)",
    re.DOTALL,
)
VARYING = "*Times, speeds and memory are those of one machine; yours will differ.*"
# A latency floor is counted, and no time of a machine.
_VARIES = re.compile(
    r"^(?!latency floor: ).*(±|x faster|SLOWER|times (faster|slower)|\b[mµ]s\b|GFLOP/s|timings in us)",
    re.MULTILINE,
)
_MAKES_OWN = {
    "MAKEFLAGS",
    "MAKELEVEL",
    "MFLAGS",
    "MAKEOVERRIDES",
    "ARGS",
}  # `make test` may be what runs this
SHOWN_FROM_STDERR = ("error:", "hint:")
LONG = "<!-- long -->"
"""Stands in pages that take minutes; they are renewed when named, and tests/guides runs their commands."""
PREPARED = re.compile(r"<!-- run -->\n```sh\n(.+?)```|<!-- run: ([^\n]+?) -->", re.DOTALL)
"""Commands that a page needs run first: they make its files; hidden ones stand for what a reader has."""


@dataclass(frozen=True)
class Run:
    """One command of a page, and what it printed just now."""

    command: str
    output: str
    code: int


def pages() -> list[Path]:
    """Every page that has output blocks."""
    every = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [p for p in every if p.is_file() and BLOCK.search(p.read_text("utf-8"))]


def is_long(page: Path) -> bool:
    """Whether a page takes too long to be run with the others."""
    return LONG in page.read_text("utf-8")


def commands(body: str) -> list[str]:
    """The commands of a block; one that ends in a backslash goes on in the next line."""
    found: list[str] = []
    is_open = False
    for line in body.splitlines():
        if is_open:
            found[-1] += "\n" + line
        elif line.startswith("$ "):
            found.append(line[2:])
        else:
            continue
        is_open = line.endswith("\\")
    return found


def renewed(text: str) -> str:
    """A page with the output of all its blocks made anew."""
    with Workspace() as run, run.board_for(text):
        for shown, hidden in PREPARED.findall(text):
            prepared = run(f"set -e\n{shown or hidden}")
            if prepared.code:
                raise RuntimeError(f"{prepared.command}\n{prepared.output}")
        parts: list[str] = []
        at = 0
        for block in BLOCK.finditer(text):
            runs = [run(c) for c in commands(block["body"])]
            shown = "\n".join(f"$ {r.command}\n{r.output}" for r in runs)
            parts += [text[at : block.start("body")], shown, end_of(shown)]
            at = block.end("end")
    return "".join([*parts, text[at:]])


def end_of(shown: str) -> str:
    """What closes a block; a line tells where its figures are those of a machine."""
    return f"```\n{VARYING}\n<!-- end -->" if _VARIES.search(shown) else "```\n<!-- end -->"


class Workspace:
    """An empty folder in which `thinflow`, `python` and `make demo` work as in a clone that is set up."""

    def __enter__(self) -> Workspace:
        self.folder = Path(tempfile.mkdtemp(prefix="thinflow-docs-"))
        programs = self.folder / ".venv" / "bin"
        programs.mkdir(parents=True)
        for name, arguments in (("thinflow", "-m thinflow"), ("python", "")):
            script = programs / name
            script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
            script.chmod(0o755)
        shutil.copytree(
            ROOT / "examples", self.folder / "examples", ignore=shutil.ignore_patterns("__pycache__")
        )
        shutil.copy(ROOT / "Makefile", self.folder)
        (self.folder / "docs").symlink_to(ROOT / "docs")  # which pages ask to make models with
        (self.folder / "pyproject.toml").touch()
        for marker in (".made", ".core"):  # the environment is the one that runs this
            (self.folder / ".venv" / marker).touch()
        self.environment = {
            **{name: value for name, value in os.environ.items() if name not in _MAKES_OWN},
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            "COLUMNS": "100",
            "NO_COLOR": "1",
        }
        return self

    def board_for(self, text: str) -> AbstractContextManager[None]:
        """The board that a page speaks of, if it does."""
        # Beside the other scripts, wherever this is run from.
        sys.path.insert(0, str(ROOT / "docs"))
        try:
            from _board import MARK, board
        finally:
            del sys.path[0]
        if MARK not in text:
            return nullcontext()
        return board(self.folder / ".board", self.folder / ".venv" / "bin")

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def __call__(self, command: str) -> Run:
        """Run a command as a shell would; its standard output and, of the rest, the error that ended it."""
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        failure = [line for line in done.stderr.splitlines() if line.startswith(SHOWN_FROM_STDERR)]
        lines = [line.rstrip() for line in done.stdout.splitlines()] + failure
        if any("thinflow has a bug" in line for line in failure):
            raise RuntimeError(f"{command}\n{done.stderr}")
        return Run(command, "".join(f"{line}\n" for line in lines), done.returncode)


def skeleton(text: str) -> list[str]:
    """What must not change from one run of a page to the next: all but numbers and what follows from them."""
    return [kept for line in text.splitlines() for kept in _skeleton(line.rstrip())]


_LUCK = re.compile(
    r"^note: |^measured: |^peak: |^device: |^device     |"
    r"^\s*\S+ is eight-bit and slower|^\*Times, speeds|^warning    while |^warning    on this machine |"
    # A processor's name decides where such a line is broken.
    r"within +stored: |thinflow-baseline/\w+-"
)
_SPEED = re.compile(
    r"\d[\d.,]*x( \(.*?\))? (faster|SLOWER)|(faster|slower) (than|at the end)|as fast|could be measured"
)
_NUMBER = re.compile(r"(?<!\w)-?\d[\d.,]*(e[-+]?\d+)?( ?(ns|µs|ms|s|B|kB|MB|GB)\b)?")


def _skeleton(line: str) -> Iterator[str]:
    if _LUCK.search(line):
        return
    if _SPEED.search(line):
        yield "(speed)"
        return
    yield re.sub(r"\s+", " ", re.sub(r"-{3,}", "-", _NUMBER.sub("#", line)))


def main(chosen: list[str]) -> None:
    for page in [Path(c).resolve() for c in chosen] or [p for p in pages() if not is_long(p)]:
        text = page.read_text("utf-8")
        page.write_text(renewed(text), "utf-8")
        print(f"renewed {page.name}")


if __name__ == "__main__":
    main(sys.argv[1:])
